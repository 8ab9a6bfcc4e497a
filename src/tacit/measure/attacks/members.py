"""Membership inference: whether a row that the attacker has was in the released table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.errors import InvalidInputError, words
from tacit.measure.attacks.result import AttackResult, normal_interval
from tacit.measure.attacks.targets import chosen_rows, standardised
from tacit.measure.inputs import as_table, table_pair
from tacit.measure.neighbours import Numbers, nearest
from tacit.validation import TableLike

# The false-positive rate at which `found_at_1_percent` is measured (Carlini et al. 2022 use low rates like this).
_FALSE_ALARMS = 0.01


@dataclass(frozen=True)
class Membership(AttackResult):
    """How well members are distinguished from others, as an area under the ROC curve; baseline: chance, 0.5.

    Parameters
    ----------
    found_at_1_percent : float
        The fraction of members that are recognised at a false-positive rate of 1%.
    """

    found_at_1_percent: float


def membership(
    original: TableLike,
    released: TableLike,
    *,
    outsiders: TableLike | None = None,
    sample: int | None = 10_000,
    random_state: int = 0,
) -> Membership:
    """Distinguish the rows of a released table from others by the distance to the nearest released row.

    A row is classified as a member if a released row is near it (all columns standardised). The others are `outsiders`,
    rows of the same population that were not in the table. If none are given, each member is compared with itself without
    its own released row: the distance to the nearest other released row. This ignores how a row changes the release of
    others, which is little for methods that change rows one by one.

    Parameters
    ----------
    original, released : array-like or data frame of shape (n_rows, n_columns)
        The table and its release.
    outsiders : array-like or data frame of shape (n_others, n_columns), optional
        Rows that were not in the table.
    sample : int or None
        In larger tables, this many random members and outsiders are attacked; None for all.
    random_state : int
        Seed of that choice.

    Returns
    -------
    Membership
        The area under the ROC curve, with DeLong's interval.

    References
    ----------
    E. DeLong, D. DeLong and D. Clarke-Pearson (1988). Comparing the areas under two or more correlated receiver
    operating characteristic curves. Biometrics 44. |
    N. Carlini et al. (2022). Membership inference attacks from first principles. IEEE Symposium on Security and Privacy.

    Examples
    --------
    >>> generator = np.random.default_rng(0)
    >>> table = generator.normal(size=(300, 4))
    >>> membership(table, table).recovered
    1.0
    """
    pair = table_pair(original, released, least_rows=4, varying=True)
    rows = chosen_rows(len(pair.original), sample, random_state)
    mean, spread = pair.original.mean(axis=0), pair.original.std(axis=0)
    points = standardised(pair.released)
    neighbours, squares = nearest(points, (pair.original[rows] - mean) / spread, 2)
    members = squares[:, 0]
    if outsiders is None:
        others = np.where(neighbours[:, 0] == rows, squares[:, 1], squares[:, 0])
    else:
        table = _checked_outsiders(outsiders, pair.original.shape[1])
        table = table[chosen_rows(len(table), sample, random_state)]
        others = nearest(points, (table - mean) / spread, 1)[1][:, 0]
    area, error = _area(members, others, paired=outsiders is None)
    threshold = np.quantile(others, _FALSE_ALARMS, method="lower")
    return Membership(
        attack="membership",
        measure="area under the ROC curve",
        recovered=area,
        baseline=0.5,
        interval=normal_interval(area, error),
        n_targets=len(rows),
        found_at_1_percent=float(np.mean(members < threshold)),
    )


def _checked_outsiders(outsiders: TableLike, n_columns: int) -> Numbers:
    table, _ = as_table(outsiders, "outsiders")
    if table.shape[1] != n_columns or len(table) < 2:
        raise InvalidInputError(
            f"outsiders to be at least two rows of {n_columns} columns",
            words("one row" if len(table) < 2 else f"{table.shape[1]} columns"),
            "Give rows of the same columns in the same order.",
        )
    return table


def _area(members: Numbers, others: Numbers, *, paired: bool) -> tuple[float, float]:
    """Return the probability that a member is nearer than another row, with ties counted half, and its standard error."""
    above = _fraction_above(others, members)
    below = 1 - _fraction_above(members, others)
    if paired:
        error = float((above + below).std(ddof=1) / np.sqrt(len(members)))
    else:
        error = float(np.sqrt(above.var(ddof=1) / len(members) + below.var(ddof=1) / len(others)))
    return float(above.mean()), error


def _fraction_above(values: Numbers, limits: Numbers) -> Numbers:
    """Return, for each limit, the fraction of the values above it, with equal ones counted half."""
    ordered = np.sort(values)
    up_to = np.searchsorted(ordered, limits, side="right") + np.searchsorted(ordered, limits, side="left")
    return 1 - up_to / (2 * len(ordered))
