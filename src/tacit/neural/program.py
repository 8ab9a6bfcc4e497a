r"""Training as a program: a noisy number of examples, then one noisy total of clipped gradients per step.

With rate q, count n, clipping norm C, noise multiplier z and :math:`\xi \sim N(0, I)`, a step is

.. math:: \hat g_t = \frac{1}{q n C}\Big(\sum_{i \in S_t} \mathrm{clip}_C(\nabla \ell_i(\theta_t)) + z C \xi\Big)
          + \frac{\theta_t}{n C \tau^2}, \qquad
          v_{t+1} = \mu v_t + \hat g_t, \qquad \theta_{t+1} = \theta_t - \eta_t v_{t+1}

with the prior :math:`N(0, \tau^2)` on every weight. Seen as Langevin dynamics on the posterior, the noise
:math:`\eta_t z \xi / (q n)` is the noise of the sampler; seen as dropout, it multiplies every weight by a random number.
The posterior samples are weights from the last quarter of the path.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tacit.channel import Outcome, Program, Sample, Split, Step, Sum
from tacit.errors import TacitError, words
from tacit.neural.gradients import Learner

COUNT_FRACTION = 0.01
"""Fraction of the budget that the noisy number of examples gets."""
KEPT_PART = 0.75
"""Samples are kept after this part of the path."""
MOST_STEP_NOISE = 0.01
"""Largest noise that a step may add to a weight; with few examples or a small epsilon the steps are made smaller."""


class DivergedError(TacitError):
    """The weights are no longer finite numbers; what was released before that is charged."""


@dataclass(frozen=True)
class Training:
    """Everything public about a training run.

    Parameters
    ----------
    steps : int
    sampling_rate : float
    clip : float
        Largest norm of one example's gradient (of each layer's part of it, where layers are clipped by themselves).
    step_size, step_decay : float
        Step t has the size ``step_size / (1 + 10 t / steps) ** step_decay``, times `step_scale`.
    momentum : float
    prior : float
        Standard deviation of the prior of every weight.
    n_samples : int
        Number of points of the path that are kept.
    langevin : bool
        Whether the Langevin noise of the step size is added to the noise of the channel.
    random_state : int
        Seed for the Langevin noise, which is not needed for privacy.
    """

    steps: int
    sampling_rate: float
    clip: float
    step_size: float
    step_decay: float
    momentum: float
    prior: float
    n_samples: int
    langevin: bool
    random_state: int

    @property
    def split(self) -> Split:
        """How the sums divide the budget; the weight of the count is relative to the 1 of every gradient step."""
        return Split(
            examples=COUNT_FRACTION * self.steps * self.sampling_rate**2,
            gradients=Step(self.steps, 1.0, self.sampling_rate),
        )

    def step_size_at(self, step: int) -> float:
        """Return the size of a step, from 0."""
        return self.step_size * float((1 + 10 * step / self.steps) ** -self.step_decay)

    def step_scale(self, noise: float, count: float) -> float:
        """Return the factor for all step sizes with which the first step's noise is at most MOST_STEP_NOISE.

        `noise` is the standard deviation of the noise in a total of gradients.
        """
        noise = self.step_size * noise / (self.sampling_rate * count * self.clip)
        return min(1.0, MOST_STEP_NOISE / noise) if noise > 0 else 1.0

    def kept_steps(self) -> set[int]:
        """Return the steps after which the weights are kept: evenly spaced over the last part of the path, with the last step."""
        first = min(self.steps - 1, int(KEPT_PART * self.steps))
        return {round(place) for place in np.linspace(self.steps - 1, first, self.n_samples)}


def training_program(
    learner: Learner,
    X: NDArray[np.float32],
    y: NDArray[Any],
    training: Training,
    progress: Callable[[int], None] | None = None,
) -> Program:
    """One holder's view: clip every sampled example's gradient, ask for the noisy total, take the step.

    An example that is not in the sample of a step is not in that step's computation at all: its contribution is exactly
    zero, and the total has the same bits without it. An example whose gradient is not finite contributes exactly zero.
    """
    targets, split = torch.from_numpy(y), training.split
    answer = yield Sum(count=[len(y)], bound=1.0, step=split["examples"], units=len(y))
    count = max(float(answer["count"][0]), 1.0)
    scale, noise = 1.0, 0.0
    theta = learner.weights()
    speed = torch.zeros_like(theta)
    langevin = torch.Generator().manual_seed(training.random_state)
    kept: list[NDArray[np.float32]] = []
    curve: list[float] = []
    sampled = dropped = 0
    for step in range(training.steps):
        mask = yield Sample(units=len(y), rate=training.sampling_rate)
        learner.set_weights(theta)
        rows = torch.from_numpy(X[mask])
        totals, losses = learner.clipped_totals(rows, targets[torch.from_numpy(mask)], training.clip)
        curve.append(float(losses.nanmean()))
        sampled, dropped = sampled + len(losses), dropped + int(losses.isnan().sum())
        noisy = yield _ask(totals, training.clip, split["gradients"], len(losses))
        if step == 0:
            noise = max(noisy.noise.values())
            scale = training.step_scale(noise, count)
        total = torch.from_numpy(np.concatenate([noisy[name] for name in totals]))
        slope = total / training.sampling_rate + theta / training.prior**2
        speed = training.momentum * speed + slope / (count * training.clip)
        size = scale * training.step_size_at(step)
        theta = theta - size * speed
        if training.langevin:
            # the step is size / (count * clip) on the whole posterior, whose noise has variance twice that
            spread = (2 * size / (count * training.clip)) ** 0.5
            theta += spread * torch.randn(theta.shape, generator=langevin, dtype=theta.dtype)
        _check_finite(theta, step, training.steps)
        if step in training.kept_steps():
            kept.append(theta.numpy().astype(np.float32))
        if progress is not None:
            progress(step + 1)
    return Outcome(
        public={"weights": np.stack(kept), "count": count, "gradient_noise": noise},
        private={"loss_curve": curve, "dropped": dropped / max(sampled, 1)},
    )


def _ask(totals: dict[str, torch.Tensor], clip: float, step: Step, units: int) -> Sum:
    arrays: dict[str, Any] = {name: total.numpy() for name, total in totals.items()}
    bound: Any = clip if len(arrays) == 1 else dict.fromkeys(arrays, clip)
    return Sum(bound=bound, step=step, units=units, **arrays)


def _check_finite(theta: torch.Tensor, step: int, steps: int) -> None:
    """Stop when a weight overflows float32. The weights follow from released totals, so this reveals nothing else."""
    if not bool(torch.isfinite(theta.float()).all()):
        raise DivergedError(
            "finite weights",
            words(f"weights that are not finite numbers after step {step + 1} of {steps}"),
            "Use a smaller step_size, or a larger prior. What was released up to this step stays charged.",
        )
