"""Whether the rows that are near each other in the original are near each other in the release."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import InvalidInputError, Undisclosed, parameter
from tacit.measure.nearest import Numbers, Rows, nearest, squared_distances
from tacit.measure.pairs import Pair, table_pair
from tacit.validation import check_count, check_seed

# Distances closer than this, relative to themselves and to the largest row, are the same but for rounding.
_OF_DISTANCE, _OF_SIZE = 1e-9, 1e-12
# Beyond the k nearest this many are kept, to see which are as near as the k-th.
_KEPT_BEYOND = 16
_FULL_ROWS_AT_ONCE = 16


def neighbour_overlap(
    original: Any, released: Any, k: int = 10, *, sample: int | None = 10_000, random_state: int = 0
) -> float:
    r"""Return how many of a row's k nearest rows in the original are also among its k nearest in the release.

    .. math::
        \frac{1}{n} \sum_{i=1}^{n} \lvert N_k(a_i) \cap N_k(b_i) \rvert

    with :math:`N_k` the k other rows at the smallest Euclidean distances. Where several are equally far and only some of
    them fit, those are taken that the other table takes too: equal distances are no difference. Distances count as
    equal up to rounding (1e-9 of themselves plus 1e-12 of the longest row). So a translation, a rotation or one factor
    for all columns leaves it at exactly k. Different factors for different columns do not.

    Parameters
    ----------
    original, released : array-like or data frame of shape (n_rows, n_columns)
        The table and its release. Values are taken as they are: scale columns of different units first.
    k : int
        Number of neighbours, below the number of distinct rows of the original.
    sample : int or None
        Larger tables are measured on a random choice of this many rows, each beside all others; None for all rows. The
        standard error of the mean is at most :math:`k / (2 \sqrt{\text{sample}})`, 0.005 k by default.
    random_state : int
        Seed of that choice.

    Returns
    -------
    float
        From 0 to k, all neighbours kept; about :math:`k^2 / n` for an unrelated table. Smaller is more distorted.

    References
    ----------
    Thapa (2013), Table 7.5, where rotated tables lost neighbours to rounding.

    Examples
    --------
    >>> neighbour_overlap([[0.0], [1.0], [3.0], [7.0]], [[0.0], [1.0], [3.0], [-2.0]], k=1)
    0.75
    """
    pair, k, rows = _checked(original, released, k, sample, random_state)
    before, after = _search(pair.original, rows, k), _search(pair.released, rows, k)
    overlaps = np.empty(len(rows))
    listed = ~before.is_cut
    overlaps[listed] = _overlap(before, after, *_together(before, after, listed), listed)
    swapped = before.is_cut & ~after.is_cut
    overlaps[swapped] = _overlap(after, before, *_together(after, before, swapped), swapped)
    for some in _blocks(np.flatnonzero(before.is_cut & after.is_cut)):
        distances = before.full(some), after.full(some)
        overlaps[some] = _overlap(before, after, *distances, some)
    return float(overlaps.mean())


def neighbour_rank_change(
    original: Any, released: Any, k: int = 10, *, sample: int | None = 1_000, random_state: int = 0
) -> float:
    r"""Return by how many places a row's k nearest rows move when all rows are ordered by their distance from it.

    .. math::
        \frac{1}{nk} \sum_{i=1}^{n} \sum_{j \in N_k(a_i)}
        \lvert \operatorname{rank}_{a_i}(j) - \operatorname{rank}_{b_i}(j) \rvert

    Ranks are among all other rows, 1 for the nearest; equally far rows (as in `neighbour_overlap`) share the mean of
    their places. A translation, a rotation or one factor for all columns leaves it at exactly 0.

    Parameters
    ----------
    original, released : array-like or data frame of shape (n_rows, n_columns)
        The table and its release. Values are taken as they are: scale columns of different units first.
    k : int
        Number of neighbours, below the number of distinct rows of the original.
    sample : int or None
        Larger tables are measured on a random choice of this many rows, each beside all others; None for all rows.
    random_state : int
        Seed of that choice.

    Returns
    -------
    float
        From 0, all ranks kept; about n/2 for an unrelated table. Larger is more distorted.

    References
    ----------
    Thapa (2013), equation (7.12), which lacks the absolute value and draws the rows so that no two share neighbours.

    Examples
    --------
    >>> neighbour_rank_change([[0.0], [1.0], [3.0], [7.0]], [[0.0], [1.0], [3.0], [-2.0]], k=1)
    0.5
    """
    pair, k, rows = _checked(original, released, k, sample, random_state)
    before = _search(pair.original, rows, k)
    after = _Found(pair.released, rows, k, before.indices, before.distances, _size(pair.released))
    total = 0.0
    for some in _blocks(np.arange(len(rows))):
        chosen = before.indices[some][:, :k]
        # Where the lists hold all rows that are as near as the k-th, they have the ranks as well.
        listed = not before.is_cut[some].any()
        old = before.distances[some] if listed else before.full(some)
        old_places = np.broadcast_to(np.arange(k), chosen.shape) if listed else chosen
        total += float(np.abs(_ranks(old, old_places, before) - _ranks(after.full(some), chosen, after)).sum())
    return total / (len(rows) * k)


@dataclass(frozen=True, eq=False, repr=False)
class _Found(Undisclosed):
    """The nearest rows of some rows of one table, and a few beyond the k-th."""

    table: Numbers
    rows: Rows
    k: int
    indices: Rows
    distances: Numbers
    size: float

    @property
    def kth(self) -> Numbers:
        kth: Numbers = self.distances[:, self.k - 1]
        return kth

    def slack(self, distances: Numbers) -> Numbers:
        return _OF_DISTANCE * distances + _OF_SIZE * self.size

    @property
    def is_cut(self) -> NDArray[np.bool_]:
        """Whether more rows may be as near as the k-th than were kept."""
        kept_all = self.indices.shape[1] == len(self.table) - 1
        return (self.distances[:, -1] <= self.kth + self.slack(self.kth)) & (not kept_all)

    def full(self, some: Rows) -> Numbers:
        """The distances of some of the rows to all rows, infinite to themselves."""
        from scipy.spatial.distance import cdist

        distances: Numbers = cdist(self.table[self.rows[some]], self.table)
        distances[np.arange(len(some)), self.rows[some]] = np.inf
        return distances

    def kinds(self, distances: Numbers, some: Any) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Whether rows at these distances are nearer than the k-th, and whether as near as it."""
        kth = self.kth[some][:, None]
        slack = self.slack(kth)
        return distances < kth - slack, np.abs(distances - kth) <= slack


def _checked(original: Any, released: Any, k: object, sample: object, random_state: object) -> tuple[Pair, int, Rows]:
    pair = table_pair(original, released, least_rows=2)
    count = check_count(k, "k")
    distinct = len(np.unique(pair.original, axis=0))
    if count >= distinct:
        raise InvalidInputError(
            f"k to be below {distinct}, the number of distinct rows of original",
            parameter(count),
            "Ask for fewer neighbours.",
        )
    n_rows = len(pair.original)
    seed = check_seed(random_state)
    if sample is None or check_count(sample, "sample") >= n_rows:
        return pair, count, np.arange(n_rows)
    chosen = np.random.default_rng(seed).choice(n_rows, check_count(sample, "sample"), replace=False)
    return pair, count, np.sort(chosen)


def _search(table: Numbers, rows: Rows, k: int) -> _Found:
    kept = min(k + _KEPT_BEYOND, len(table) - 1)
    indices, squares = nearest(table, table[rows], kept, own=rows)
    return _Found(table, rows, k, indices, np.sqrt(squares), _size(table))


def _size(table: Numbers) -> float:
    """Return the length of the longest row."""
    return float(np.sqrt(np.einsum("ij,ij->i", table, table).max()))


def _blocks(places: Rows) -> list[Rows]:
    return [places[start : start + _FULL_ROWS_AT_ONCE] for start in range(0, len(places), _FULL_ROWS_AT_ONCE)]


def _together(one: _Found, other: _Found, some: NDArray[np.bool_]) -> tuple[Numbers, Numbers]:
    """Return the distances, in both tables, of the rows that one table's lists have."""
    indices = one.indices[some]
    lines = np.repeat(one.rows[some], indices.shape[1])
    squares = squared_distances(other.table, other.table, lines, indices.ravel())
    return one.distances[some], np.sqrt(squares).reshape(indices.shape)


def _overlap(one: _Found, other: _Found, in_one: Numbers, in_other: Numbers, some: Any) -> NDArray[np.int64]:
    """Return the largest overlap that any choice among equally far rows allows.

    Given are distances in both tables, for at least all rows that are in one table nearer than, or as near as, the k-th.
    """
    sure, tied = one.kinds(in_one, some)
    other_sure, other_tied = other.kinds(in_other, some)
    places = one.k - sure.sum(axis=1)
    # All rows nearer than the k-th are in the lists, whether the lists were cut or not.
    other_places = one.k - other.kinds(other.distances[some], some)[0].sum(axis=1)
    from_tied = np.minimum(places, (tied & other_sure).sum(axis=1))
    to_tied = np.minimum(other_places, (sure & other_tied).sum(axis=1))
    both = np.minimum(np.minimum(places - from_tied, other_places - to_tied), (tied & other_tied).sum(axis=1))
    overlaps: NDArray[np.int64] = (sure & other_sure).sum(axis=1) + from_tied + to_tied + both
    return overlaps


def _ranks(distances: Numbers, chosen: Rows, found: _Found) -> Numbers:
    """Return the ranks of chosen rows by their distance, equal distances sharing the mean of their places."""
    ranks = np.empty(chosen.shape)
    for line, (row, places) in enumerate(zip(distances, chosen, strict=True)):
        own = row[places]
        slack = found.slack(own)
        # Only what is nearer than the farthest of the chosen is put in order.
        near = np.sort(row[row <= (own + slack).max()])
        nearer = np.searchsorted(near, own - slack, side="left")
        up_to = np.searchsorted(near, own + slack, side="right")
        ranks[line] = (nearer + up_to + 1) / 2
    return ranks
