"""Bugs that an audit plants in its own subject, to show what it would have caught.

Each changes the channel of a fit, as a mistake in a program or in the accounting would, and leaves the claim as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.audit.subject import Plant
from tacit.channel.asks import Sum
from tacit.channel.noisy import Measured, Noisy
from tacit.channel.plan import Plan


@dataclass(frozen=True)
class Bug:
    """A bug to plant.

    Attributes
    ----------
    kind : str
        "noise", "clipping", "sampling", "split" or "accounting".
    name : str
    plant : callable
    applies : callable
        Takes a plan and returns whether the bug makes a difference to its runs.
    """

    kind: str
    name: str
    plant: Plant
    applies: Callable[[Plan], bool] = lambda plan: True


def narrower_noise(factor: float) -> Plant:
    """Make the noise narrower than the channel states."""

    def plant(channel: Noisy) -> None:
        share = channel._share
        setattr(channel, "_share", lambda array: factor * share(array))  # noqa: B010

    return plant


def unclipped(factor: float) -> Plant:
    """Let units contribute more than their bound: the bound is stated `factor` times too small."""

    def plant(channel: Noisy) -> None:
        norm = channel._norm_of
        setattr(channel, "_norm_of", lambda ask, name: norm(ask, name) / factor)  # noqa: B010

    return plant


def everyone_sampled(channel: Noisy) -> None:
    """Put every unit into every sample, whatever the rate."""
    draw = channel._sampling.draw

    def all_of_them(asks: Any, generator: Any) -> list[NDArray[np.bool_]]:
        return [np.ones(len(mask), dtype=bool) for mask in draw(asks, generator)]

    setattr(channel._sampling, "draw", all_of_them)  # noqa: B010


def larger_samples(channel: Noisy) -> None:
    """Sample half as many units again as the rate says."""
    draw = channel._sampling.draw

    def more(asks: Any, generator: Any) -> list[NDArray[np.bool_]]:
        masks = draw(asks, generator)
        return [mask | (generator.random(len(mask)) < ask.rate / 2) for mask, ask in zip(masks, asks, strict=True)]

    setattr(channel._sampling, "draw", more)  # noqa: B010


def uneven_split(channel: Noisy) -> None:
    """Give the last step of the plan noise for four times its weight."""
    scaled, last = channel.scaled, channel.plan.steps[-1]

    def narrow(ask: Sum, totals: Any) -> dict[str, Measured]:
        found = scaled(ask, totals)
        if ask.step.weight != last.weight:
            return found
        return {name: replace(array, sigma=array.sigma / 2) for name, array in found.items()}

    setattr(channel, "scaled", narrow)  # noqa: B010


def wrong_accounting(factor: float) -> Plant:
    """Calibrate the noise for a larger budget than the one that is claimed."""

    def plant(channel: Noisy) -> None:
        channel.plan = replace(channel.plan, noise_multiplier=channel.plan.noise_multiplier * factor)

    return plant


def _samples(plan: Plan) -> bool:
    return any(step.sampling_rate < 1 for step in plan.steps)


BUGS: Sequence[Bug] = (
    Bug("noise", "noise of half the width", narrower_noise(0.5)),
    Bug("noise", "noise of eight tenths of the width", narrower_noise(0.8)),
    Bug("clipping", "a bound that is stated at half", unclipped(2.0)),
    Bug("sampling", "everyone is in the sample", everyone_sampled, _samples),
    Bug("sampling", "samples half as large again", larger_samples, _samples),
    Bug("split", "the last sum has half its noise", uneven_split),
    Bug("accounting", "noise calibrated for a larger budget", wrong_accounting(0.7)),
)
