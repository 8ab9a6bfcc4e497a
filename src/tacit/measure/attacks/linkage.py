"""Record linkage: an attacker who knows a person's original values looks for the nearest released row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.errors import InvalidInputError, kind_of, parameter
from tacit.measure.attacks.result import AttackResult, fraction_interval
from tacit.measure.attacks.targets import chosen_rows, standardised
from tacit.measure.inputs import TablePair, table_pair
from tacit.measure.neighbours import POINTS_AT_ONCE, LowerBounds, Numbers, Rows, query_blocks, squared_distances
from tacit.validation import TableLike

# Length of the second list of candidates. Set by hand.
_SHORT_LIST = 5
# Points in the first chunk of a search; later chunks are larger. Set by hand; it affects speed only.
_FIRST_POINTS = 256
# Distances that differ by less than this, relative to themselves and to the longest row, count as equal: it is rounding.
_OF_DISTANCE, _OF_SIZE = 1e-9, 1e-12


@dataclass(frozen=True)
class Linkage(AttackResult):
    """The fraction of rows whose own released row is the nearest; baseline: one guess among all rows.

    Parameters
    ----------
    top_5 : Finding
        The fraction of rows whose own released row is among the five nearest; baseline: five guesses.
    """

    top_5: AttackResult


def record_linkage(
    original: TableLike,
    released: TableLike,
    *,
    columns: Sequence[str] | Sequence[int] | None = None,
    unchanged: TableLike | None = None,
    sample: int | None = 20_000,
    random_state: int = 0,
) -> Linkage:
    """Find each original row's own row in a release whose order is hidden, as the nearest one.

    The attacker has the original values of a person and wants to know which released row is theirs. Both tables are
    standardised, each by its own means and standard deviations, and the released rows are ordered by Euclidean distance.
    Among equally distant rows the attacker guesses; a row then counts by its probability.

    Parameters
    ----------
    original, released : array-like or data frame of shape (n_rows, n_columns)
        The table and its release.
    columns : sequence of str or int, optional
        The columns, by name or index, that the attacker knows; all if not given.
    unchanged : array-like or data frame of shape (n_rows, n_unchanged), optional
        Further columns, of any type, that were released unchanged. The attacker knows them too, and searches only the
        released rows that agree with the person in all of them.
    sample : int or None
        In larger tables, this many random rows are attacked, each among all released rows; None for all.
    random_state : int
        Seed of that choice.

    Returns
    -------
    Linkage
        The re-identified fractions, with exact 95% intervals and baselines.

    References
    ----------
    J. Domingo-Ferrer and V. Torra (2001). A quantitative comparison of disclosure control methods for microdata. In
    Confidentiality, Disclosure and Data Access, North-Holland.

    Examples
    --------
    >>> generator = np.random.default_rng(0)
    >>> table = generator.normal(size=(300, 4))
    >>> result = record_linkage(table, 3 * table + 100)
    >>> result.recovered, round(result.baseline, 4), result.leaks
    (1.0, 0.0033, True)
    """
    pair = table_pair(original, released, least_rows=2, varying=True)
    places = _places(pair, columns)
    points, targets = standardised(pair.released[:, places]), standardised(pair.original[:, places])
    rows = chosen_rows(len(points), sample, random_state)
    if unchanged is None:
        nearer, tied = places_of_own(points, targets[rows], rows)
    else:
        nearer, tied = np.zeros(len(rows), dtype=np.int64), np.ones(len(rows), dtype=np.int64)
        groups = row_groups(unchanged, len(points))
        ends = np.cumsum(np.bincount(groups))
        order, asked_in_order = np.argsort(groups, kind="stable"), np.argsort(groups[rows], kind="stable")
        for asked in np.split(asked_in_order, np.flatnonzero(np.diff(groups[rows][asked_in_order])) + 1):
            group = groups[rows[asked[0]]]
            members = order[ends[group - 1] if group else 0 : ends[group]]
            if len(members) > 1:  # a row that is alone in its group is found without a search
                own = np.searchsorted(members, rows[asked])
                nearer[asked], tied[asked] = places_of_own(points[members], targets[rows[asked]], own)
    return _linkage("record linkage", f"the nearest {_SHORT_LIST}", nearer, tied, len(points))


def unchanged_linkage(unchanged: TableLike, *, sample: int | None = None, random_state: int = 0) -> Linkage:
    """Find each row's own row by the columns that were released unchanged, and by nothing else.

    The attacker has a person's values in these columns, finds the released rows that agree in all of them, and guesses
    among these. Unchanged columns identify everybody whose combination of values is unique.

    Parameters
    ----------
    unchanged : array-like or data frame of shape (n_rows, n_unchanged)
        The columns, of any type.
    sample, random_state
        As in `record_linkage`.

    Examples
    --------
    >>> result = unchanged_linkage(np.array([["10115", "f"], ["10115", "f"], ["10117", "f"], ["10119", "m"]]))
    >>> result.recovered, result.baseline
    (0.75, 0.25)
    """
    groups = row_groups(unchanged, None)
    rows = chosen_rows(len(groups), sample, random_state)
    tied = np.bincount(groups)[groups][rows]
    return _linkage(
        "linkage by unchanged columns", f"{_SHORT_LIST} of those that agree", np.zeros_like(tied), tied, len(groups)
    )


def row_groups(table: TableLike, n_rows: int | None) -> NDArray[np.intp]:
    """Return, for each row, the number of its group: rows with the same values, of any type, in all columns."""
    from narwhals.dependencies import is_into_dataframe

    if is_into_dataframe(table):
        import narwhals as nw

        frame = nw.from_native(table, eager_only=True)
        columns = [frame[name].to_numpy() for name in frame.columns]
    else:
        array = np.asarray(table)
        columns = list(array.T) if array.ndim == 2 else []
    if not columns or len(columns[0]) != (len(columns[0]) if n_rows is None else n_rows):
        raise InvalidInputError(
            "unchanged columns with the rows of the tables", kind_of(table), "Give the columns of the same rows."
        )
    groups = np.zeros(len(columns[0]), dtype=np.intp)
    for column in columns:
        codes = np.unique(np.array([str(cell) for cell in column.tolist()]), return_inverse=True)[1]
        groups = np.unique(groups * (int(codes.max()) + 1) + codes, return_inverse=True)[1].astype(np.intp)
    return groups


def _linkage(attack: str, among: str, nearer: Rows, tied: Rows, n_points: int) -> Linkage:
    """Return the fractions of rows found, given the numbers of released rows nearer than a row's own, and as near."""

    def finding(places_on_list: int) -> AttackResult:
        chances = np.clip((places_on_list - nearer) / tied, 0.0, 1.0)
        return AttackResult(
            attack=attack,
            measure=f"fraction of rows found among {among}" if places_on_list > 1 else "fraction of rows found",
            recovered=float(chances.mean()),
            baseline=min(places_on_list / n_points, 1.0),
            interval=fraction_interval(float(chances.sum()), len(nearer)),
            n_targets=len(nearer),
        )

    first = finding(1)
    return Linkage(
        first.attack,
        first.measure,
        first.recovered,
        first.baseline,
        first.interval,
        first.n_targets,
        finding(_SHORT_LIST),
    )


def places_of_own(points: Numbers, queries: Numbers, own: Rows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return, for each query, the number of points nearer than its own, and of those as near, its own included.

    For a query with five nearer points, counting stops: its own point is not among the five nearest.
    """
    nearer = np.zeros(len(queries), dtype=np.int64)
    tied = np.zeros(len(queries), dtype=np.int64)
    everything = np.arange(len(queries))
    distances = np.sqrt(squared_distances(points, queries, everything, own))
    size = float(np.sqrt(np.einsum("ij,ij->i", points, points).max()))
    slack = _OF_DISTANCE * distances + _OF_SIZE * size
    for block in query_blocks(queries):
        bounds = LowerBounds(points, queries[block])
        left, start, width = block, 0, _FIRST_POINTS
        while start < len(points) and len(left):
            stop = min(start + width, len(points))
            farthest = distances[left] + slack[left]
            rows, columns = bounds.below(start, stop, np.square(farthest) * (1 + 1e-12))
            to_points = np.sqrt(squared_distances(points, queries, left[rows], columns))
            is_tied = np.abs(to_points - distances[left[rows]]) <= slack[left[rows]]
            is_nearer = to_points < distances[left[rows]] - slack[left[rows]]
            nearer[left] += np.bincount(rows[is_nearer], minlength=len(left))
            tied[left] += np.bincount(rows[is_tied], minlength=len(left))
            # The first chunks are short, so that queries that are far from their own point end early.
            start, width = stop, min(4 * width, POINTS_AT_ONCE)
            going_on = nearer[left] < _SHORT_LIST
            bounds.keep(going_on)
            left = left[going_on]
    # A query that ended before its own point was reached counts it too.
    return nearer, np.maximum(tied, 1)


def _places(pair: TablePair, columns: Sequence[str] | Sequence[int] | None) -> list[int]:
    if columns is None:
        return list(range(len(pair.names)))
    known = dict(zip(pair.names, range(len(pair.names)), strict=True))
    places = [known.get(column, -1) if isinstance(column, str) else int(column) for column in columns]
    if not places or min(places) < 0 or max(places) >= len(pair.names):
        raise InvalidInputError(
            f"columns among {', '.join(pair.names[:8])}",
            parameter(list(columns)),
            "Give at least one column of the table.",
        )
    return places
