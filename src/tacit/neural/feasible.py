"""The plan of a training run, or a refusal where the noise is certain to exceed the gradients."""

from __future__ import annotations

import warnings
from dataclasses import replace

from tacit.channel import Plan
from tacit.errors import InvalidInputError, PrivacyWarning, words
from tacit.neural.program import Training
from tacit.neural.published import published_noise

MOST_NOISE = 2.0**16
"""Largest noise multiplier that the exact sampler supports, for networks of any size."""


def feasible_plan(
    epsilon: float, delta: float, training: Training, *, adjacency: str, max_units: int, layers: int = 1
) -> Plan:
    """Return the plan of a training run; refuse one whose noise exceeds the gradients for any data.

    This follows from public numbers alone: if the least noise that keeps all steps within epsilon exceeds
    ``sampling_rate * max_units``, then it exceeds the total of a whole batch of clipped gradients, in every direction.
    """
    most = min(MOST_NOISE, training.sampling_rate * max_units)
    try:
        plan = Plan.for_budget(epsilon, delta, steps=training.split, adjacency=adjacency)
    except InvalidInputError as error:
        if "reachable" not in error.expected:
            raise
        raise _too_small(epsilon, training, most, "none: the accountant cannot show it for any noise") from error
    noise = plan.multiplier(1 / layers)
    if noise > most:
        raise _too_small(
            epsilon, training, most, f"a smallest feasible noise of {noise:.4g} clipped gradients per step"
        )
    return plan


def published_plan(plan: Plan, name: str, training: Training) -> Plan:
    """Return the plan with the noise that the thesis prescribes for this epsilon, and warn about it."""
    warnings.warn(
        f"The noise of {name} is for comparison with the thesis. guarantee_ will say what it really costs, which is not "
        f"epsilon {plan.epsilon:g}.",
        PrivacyWarning,
        stacklevel=4,
    )
    noise = published_noise(name, plan.epsilon, plan.delta, training.steps, training.sampling_rate)
    return replace(plan, noise_multiplier=noise)


def _too_small(epsilon: float, training: Training, most: float, got: str) -> InvalidInputError:
    return InvalidInputError(
        f"noise of at most {most:.4g} clipped gradients (sampling_rate * max_units) in each of {training.steps} steps at rate "
        f"{training.sampling_rate:g} within epsilon {epsilon:g}",
        words(got),
        "Use fewer steps (epochs), larger batches (sampling_rate), or a larger epsilon. Nothing was charged.",
    )
