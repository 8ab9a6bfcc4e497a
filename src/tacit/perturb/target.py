"""Search for the setting that reaches a given distortion."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from tacit.errors import InvalidInputError, parameter, words

CLOSE_ENOUGH, WITHIN = 0.002, 0.02
"""Relative errors of the distortion: a search stops at the first, and more than the second is an error. Set by hand."""
MOST_TRIES = 60
"""Most steps of the bisection; double precision is exhausted before that."""


@dataclass(frozen=True)
class Range:
    """The settings of a method, from the smallest change to the largest.

    `most` may be infinite; the search then doubles the setting until the target is exceeded.
    """

    least: float
    most: float


def reach(target: float, distortion: Callable[[float], float], settings: Range, name: str) -> float:
    """Return the setting whose distortion is `target`.

    By bisection. The distortion must be continuous, below the target at one end and above it at the other; it need not be
    monotone.

    Parameters
    ----------
    target : float
    distortion : callable
        Takes a setting and returns its distortion; deterministic.
    settings : Range
    name : str
        Name of the setting, for messages.
    """
    low, high = settings.least, settings.most
    smallest = distortion(low)
    if smallest >= target * (1 - CLOSE_ENOUGH):
        if smallest <= target * (1 + WITHIN):
            return low
        raise InvalidInputError(
            f"a distortion of at least {smallest:.4g}, the smallest for this table (at {name} {low:g})",
            parameter(target),
            f"Ask for {smallest:.4g} or more.",
        )
    if math.isinf(high):
        high = max(2 * low, 1.0)
        while distortion(high) < target:
            high *= 2
    largest = distortion(high)
    if largest <= target * (1 + CLOSE_ENOUGH):
        if largest >= target * (1 - WITHIN):
            return high
        raise InvalidInputError(
            f"a distortion that this method can reach: the largest is {largest:.4g} (at {name} {high:g})",
            parameter(target),
            f"Ask for {largest:.4g} or less, or use another method.",
        )
    best, missed = low, math.inf
    for _ in range(MOST_TRIES):
        middle = (low + high) / 2
        reached = distortion(middle)
        if abs(reached - target) < missed:
            best, missed = middle, abs(reached - target)
        if missed <= CLOSE_ENOUGH * target:
            break
        low, high = (middle, high) if reached < target else (low, middle)
    if missed > WITHIN * target:
        raise InvalidInputError(
            f"a distortion close to one that this method can reach on this table by its {name}",
            parameter(target),
            words(f"The nearest is {distortion(best):.4g}, at {name} {best:g}.") + " Ask for that one.",
        )
    return best
