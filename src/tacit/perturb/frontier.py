"""Which of many releases are worth a look: the frontier of use against leak, and the choice in words."""

from __future__ import annotations

from collections.abc import Sequence

from tacit.perturb.compare import BOUNDS_FROM_DATA, PRIVATE, Compared

# A release has kept the use of the table if it loses no more than this, and has held attackers off if they gain no more.
USE_LOST, LEAK_HELD = 0.02, 0.1
# Up to this AUC nothing worth mentioning was learned.
CHANCE = 0.55


def frontier(releases: Sequence[Compared]) -> list[Compared]:
    """Return the releases that no other one beats in use and in leak together, the one that leaks least first.

    Examples
    --------
    >>> from tacit.perturb.compare import Compared
    >>> points = [Compared("a", "1", 0.9, 0.8), Compared("b", "1", 0.8, 0.9), Compared("c", "1", 0.7, 0.1)]
    >>> [point.method for point in frontier(points)]
    ['c', 'a']
    """
    found: list[Compared] = []
    measured = [point for point in releases if point.utility is not None and point.leak is not None]
    for point in sorted(measured, key=lambda point: (point.leak, -(point.utility or 0))):
        if not found or (point.utility or 0) > (found[-1].utility or 0):
            found.append(point)
    return found


def choice_in_words(releases: Sequence[Compared], reference: float, utility_name: str) -> str:
    """Return which release leaks least of those that stay useful, and which is most useful of those that leak little."""
    if utility_name == "AUC" and reference <= CHANCE:
        return (
            f"These labels cannot be learned from the original either (AUC {reference:.3f}, and 0.5 is chance), so use says "
            "nothing here: compare without labels, by clusters."
        )
    best = frontier(releases)
    kept = [point for point in best if (point.utility or 0) >= reference - USE_LOST]
    held = [point for point in best if (point.leak or 0) <= LEAK_HELD]
    useful = f"{utility_name} within {USE_LOST:g} of the original's {reference:.3f}"
    if kept and held and kept[0] == held[-1]:
        both = held[-1]
        return (
            f"{_named(both).capitalize()} is the best of both: it keeps {useful} ({both.utility:.3f}), and the strongest attack "
            f"here gains {both.leak:.0%} of what there is to gain."
        )
    if kept:
        least = kept[0]
        one = (
            f"Of the releases that keep {useful}, {_named(least)} leaks least: the strongest attack gains {least.leak:.0%} of "
            "what there is to gain."
        )
    else:
        one = f"No release here keeps {useful}."
    if held:
        most = held[-1]
        other = (
            f"Of those that hold every attack here to {LEAK_HELD:.0%}, {_named(most)} keeps most: {utility_name} "
            f"{most.utility:.3f}."
        )
    else:
        other = f"No release here holds every attack to {LEAK_HELD:.0%}."
    return f"{one} {other}"


def _named(point: Compared) -> str:
    guarantee = ""
    if point.method == PRIVATE:
        guarantee = (
            " (a guarantee, if its bounds are public)" if BOUNDS_FROM_DATA in point.note else " (with a guarantee)"
        )
    return f"{point.method} at {point.setting}{guarantee}"
