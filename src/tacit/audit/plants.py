"""Bugs that an audit plants in its own subject, to show what it would have caught.

Each changes the channel of a fit, as a mistake in a program or in the accounting would, and leaves the claim as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tacit.audit.subject import Plant
from tacit.channel.asks import Sample, Sum
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

    def all_of_them(asks: Sequence[Sample], generator: np.random.Generator) -> list[NDArray[np.bool_]]:
        return [np.ones(len(mask), dtype=bool) for mask in draw(asks, generator)]

    setattr(channel._sampling, "draw", all_of_them)  # noqa: B010


def larger_samples(factor: float) -> Plant:
    """Sample more units than the rate says: `factor` times as many, in addition to those drawn."""

    def plant(channel: Noisy) -> None:
        draw = channel._sampling.draw

        def more(asks: Sequence[Sample], generator: np.random.Generator) -> list[NDArray[np.bool_]]:
            masks = draw(asks, generator)
            return [
                mask | (generator.random(len(mask)) < ask.rate * factor) for mask, ask in zip(masks, asks, strict=True)
            ]

        setattr(channel._sampling, "draw", more)  # noqa: B010

    return plant


def uneven_split(place: int, factor: float = 0.5) -> Plant:
    """Give one step of the plan, counted from 0, `factor` of its noise, as if its part of the budget were larger."""

    def plant(channel: Noisy) -> None:
        scaled, step = channel.scaled, channel.plan.steps[place]

        def narrow(ask: Sum, totals: Mapping[str, NDArray[np.int64]]) -> dict[str, Measured]:
            measured = scaled(ask, totals)
            if ask.step.weight != step.weight:
                return measured
            return {name: replace(array, sigma=array.sigma * factor) for name, array in measured.items()}

        setattr(channel, "scaled", narrow)  # noqa: B010

    return plant


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
    Bug("sampling", "samples half as large again", larger_samples(0.5), _samples),
    Bug("split", "the last sum has half its noise", uneven_split(-1)),
    Bug("accounting", "noise calibrated for a larger budget", wrong_accounting(0.7)),
)


def mutants(plan: Plan) -> list[Bug]:
    """Return many bugs for a plan, from coarse to fine, for a test of the auditor.

    Noise from 0.5 to 0.8 of its width, bounds that are stated 1.25 to 4 times too small, budgets that are taken 1.25 to 2 times
    too large, each step of the plan with too little noise, and, if the plan samples, samples that are too large.
    """
    bugs = [
        Bug("noise", f"noise of {factor:g} of the width", narrower_noise(factor)) for factor in (0.5, 0.6, 0.7, 0.8)
    ]
    bugs += [
        Bug("clipping", f"a bound that is stated {factor:g} times too small", unclipped(factor))
        for factor in (1.25, 1.5, 2.0, 4.0)
    ]
    bugs += [
        Bug("accounting", f"noise calibrated with {factor:g} of the multiplier", wrong_accounting(factor))
        for factor in (0.5, 0.6, 0.7, 0.8)
    ]
    bugs += [
        Bug("split", f"step {place + 1} has {factor:g} of its noise", uneven_split(place, factor))
        for place in range(min(len(plan.steps), 3))
        for factor in (0.5, 0.7)
    ]
    if _samples(plan):
        bugs += [Bug("sampling", f"samples larger by {more:g}", larger_samples(more), _samples) for more in (0.5, 1.0)]
        bugs.append(Bug("sampling", "everyone is in the sample", everyone_sampled, _samples))
    return bugs
