"""From a wanted distortion to the setting that reaches it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from tacit.errors import InvalidInputError, parameter, words

CLOSE_ENOUGH = 0.002
WITHIN = 0.02
"""A search goes on until it is within CLOSE_ENOUGH of the target; what ends farther than WITHIN from it is an error."""
MOST_TRIES = 60


@dataclass(frozen=True)
class Range:
    """The settings of a method, from the one that changes least to the one that changes most.

    `most` may be infinite; the search then doubles until it is past the target.
    """

    least: float
    most: float


def reach(target: float, distortion: Callable[[float], float], settings: Range, name: str) -> float:
    """Return the setting whose distortion is `target`.

    Bisection: it needs the distortion to be continuous, and to be below the target at one end and above at the other; in
    between it may go up and down.

    Parameters
    ----------
    target : float
    distortion : callable
        From a setting to the distortion it makes; the same every time.
    settings : Range
    name : str
        What the setting is called, for messages.
    """
    low, high = settings.least, settings.most
    smallest = distortion(low)
    if smallest >= target * (1 - CLOSE_ENOUGH):
        if smallest <= target * (1 + WITHIN):
            return low
        raise InvalidInputError(
            f"a distortion of at least {smallest:.4g}, the smallest that this table allows here (at {name} {low:g})",
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
            f"Ask for {largest:.4g} or less, or take another method.",
        )
    best, missed = low, math.inf
    for _ in range(MOST_TRIES):
        middle = (low + high) / 2
        found = distortion(middle)
        if abs(found - target) < missed:
            best, missed = middle, abs(found - target)
        if missed <= CLOSE_ENOUGH * target:
            break
        low, high = (middle, high) if found < target else (low, middle)
    if missed > WITHIN * target:
        raise InvalidInputError(
            f"a distortion near one that {name} can make on this table",
            parameter(target),
            words(f"The nearest found was {distortion(best):.4g}, at {name} {best:g}.") + " Ask for that one.",
        )
    return best
