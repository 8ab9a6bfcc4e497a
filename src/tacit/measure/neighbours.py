"""Neighbours of rows in the original and in the release, by an exact search.

The search works in blocks, without a matrix of all distances. Trees are slow beyond about ten columns. Here a product of
matrices in float32 gives a lower bound of every squared distance in a block, at the speed of BLAS. The few pairs that the
bound does not exclude are computed in float64 from differences. So the result is exact, and the memory is that of a few
blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.errors import InvalidInputError, Undisclosed, parameter
from tacit.measure.inputs import TablePair, table_pair
from tacit.validation import TableLike, check_count, check_seed

Rows = NDArray[np.intp]
Places = NDArray[np.intp] | NDArray[np.bool_]
"""Some rows: their numbers, or which of all they are."""
Numbers = NDArray[np.float64]
# Sizes of blocks: 16 MB of bounds, and 2 MB per column of differences. Set by hand; they affect speed only.
QUERIES_AT_ONCE, POINTS_AT_ONCE, _PAIRS_AT_ONCE = 1024, 4096, 1 << 18
# Distances that differ by less than this, relative to themselves and to the longest row, count as equal: it is rounding.
_OF_DISTANCE, _OF_SIZE = 1e-9, 1e-12
# Number of neighbours beyond the k-th that are kept, to see which are as near as the k-th. Set by hand.
_KEPT_BEYOND = 16
# Rows whose distances to all rows are in memory at the same time.
_FULL_ROWS_AT_ONCE = 16


def nearest(points: Numbers, queries: Numbers, k: int, own: Rows | None = None) -> tuple[Rows, Numbers]:
    """Return the k points nearest to each query, nearest first, and their squared distances.

    Parameters
    ----------
    points, queries : ndarray of shape (n_points, n_columns), (n_queries, n_columns)
        Finite numbers; at least k points, not counting a query's own.
    k : int
        Number of neighbours.
    own : ndarray of shape (n_queries,), optional
        The point that is the query itself and is not its neighbour.

    Returns
    -------
    tuple of ndarray of shape (n_queries, k)
        Indices of points and squared Euclidean distances. Equally near points are ordered by index.
    """
    indices = np.empty((len(queries), k), dtype=np.intp)
    squares = np.empty((len(queries), k))
    for block in query_blocks(queries):
        mine = None if own is None else own[block]
        indices[block], squares[block] = _nearest_in_block(points, queries[block], k, mine)
    return indices, squares


def query_blocks(queries: Numbers) -> Iterator[Rows]:
    """Yield blocks of similar queries, ordered along the direction of their largest variance.

    The bounds of a block are computed relative to its centre: the smaller the block, the tighter the bounds.
    """
    centred = queries - queries.mean(axis=0)
    reach = float(np.abs(centred).max()) or 1.0
    centred = centred / reach
    direction = np.linalg.eigh(centred.T @ centred)[1][:, -1]
    order = np.argsort(centred @ direction, kind="stable")
    for start in range(0, len(order), QUERIES_AT_ONCE):
        yield order[start : start + QUERIES_AT_ONCE]


class LowerBounds:
    """Lower bounds of the squared distances from a block of queries to chunks of points.

    With centre c, q = query - c and p = point - c, the bound is (1 - s) (|q|² + |p|²) - 2 q.p, computed as one product of
    float32 matrices. s covers the rounding: the error of a product of m + 2 terms is at most (m + 4) 2^-24 of the sum of
    their absolute values, which is at most 2 (|q|² + |p|²).

    Parameters
    ----------
    points, queries : ndarray
        All points, and the queries of the block.
    """

    def __init__(self, points: Numbers, queries: Numbers) -> None:
        self._points = points
        self._centre = queries.mean(axis=0)
        reach = max(float(np.abs(points - self._centre).max()), float(np.abs(queries - self._centre).max()))
        self.unit = reach or 1.0
        self._keep = 1 - (queries.shape[1] + 8) * 2.0**-22
        centred = (queries - self._centre) / self.unit
        self._left = np.empty((len(queries), queries.shape[1] + 2), dtype=np.float32)
        self._left[:, :-2] = -2 * centred
        self._left[:, -2] = self._keep * np.einsum("ij,ij->i", centred, centred)
        self._left[:, -1] = 1
        # The same memory for all chunks: allocating it for each would take longer than the product.
        self._space = np.empty(len(queries) * POINTS_AT_ONCE, dtype=np.float32)

    def keep(self, queries: NDArray[np.bool_]) -> None:
        """Continue with some of the queries only."""
        self._left = self._left[queries]

    def below(self, start: int, stop: int, limits: Numbers) -> tuple[Rows, Rows]:
        """Return the pairs of a query and a point of a range whose squared distance may be below the query's limit."""
        bounds = self.of(start, stop)
        # Rounded up, so that no pair is lost.
        highest = np.nextafter((limits / self.unit**2).astype(np.float32), np.float32(np.inf))
        rows, columns = np.divmod(np.flatnonzero(bounds < highest[:, None]), stop - start)
        return rows, columns + start

    def of(self, start: int, stop: int) -> NDArray[np.float32]:
        """Return the bounds, in units of `unit` squared, for a range of points; the next call overwrites them."""
        centred = (self._points[start:stop] - self._centre) / self.unit
        right = np.empty((stop - start, centred.shape[1] + 2), dtype=np.float32)
        right[:, :-2] = centred
        right[:, -2] = 1
        right[:, -1] = self._keep * np.einsum("ij,ij->i", centred, centred)
        size = len(self._left) * (stop - start)
        if size > len(self._space):
            self._space = np.empty(size, dtype=np.float32)
        bounds: NDArray[np.float32] = self._space[:size].reshape(len(self._left), stop - start)
        return np.matmul(self._left, right.T, out=bounds)


def squared_distances(points: Numbers, queries: Numbers, rows: Rows, columns: Rows) -> Numbers:
    """Return the squared distances of pairs of a query (by `rows`) and a point (by `columns`), from their differences."""
    squares = np.empty(len(rows))
    for start in range(0, len(rows), _PAIRS_AT_ONCE):
        piece = slice(start, start + _PAIRS_AT_ONCE)
        difference = queries[rows[piece]] - points[columns[piece]]
        squares[piece] = np.einsum("ij,ij->i", difference, difference)
    return squares


def _nearest_in_block(points: Numbers, queries: Numbers, k: int, own: Rows | None) -> tuple[Rows, Numbers]:
    bounds = LowerBounds(points, queries)
    n_queries, n_points = len(queries), len(points)
    # The nearest so far; an index of -1 is an empty place.
    indices = np.full((n_queries, k), -1, dtype=np.intp)
    squares = np.full((n_queries, k), np.inf)
    # Any k points give an initial limit; those with the smallest bounds in the first chunk give a good one.
    first = min(max(POINTS_AT_ONCE, k + 1), n_points)
    likely = np.argpartition(bounds.of(0, first), min(k, first - 1), axis=1)[:, : k + 1]
    rows = np.repeat(np.arange(n_queries), likely.shape[1])
    limits = _kth(squared_distances(points, queries, rows, likely.ravel()), rows, likely.ravel(), own, n_queries, k)
    for start in range(0, n_points, POINTS_AT_ONCE):
        rows, columns = bounds.below(start, min(start + POINTS_AT_ONCE, n_points), limits * (1 + 1e-12))
        if own is not None:
            other = columns != own[rows]
            rows, columns = rows[other], columns[other]
        distances = squared_distances(points, queries, rows, columns)
        near = distances <= limits[rows]
        if near.any():
            _merge(indices, squares, rows[near], columns[near], distances[near])
            limits = np.minimum(limits, squares[:, -1])
    return indices, squares


def _kth(distances: Numbers, rows: Rows, columns: Rows, own: Rows | None, n_queries: int, k: int) -> Numbers:
    """Return the k-th smallest distance of each query, without its own point; infinite if there are fewer."""
    if own is not None:
        distances = np.where(columns == own[rows], np.inf, distances)
    table = distances.reshape(n_queries, -1)
    return np.partition(table, k - 1, axis=1)[:, k - 1] if table.shape[1] >= k else np.full(n_queries, np.inf)


def _merge(indices: Rows, squares: Numbers, rows: Rows, columns: Rows, distances: Numbers) -> None:
    """Insert pairs into the lists of the nearest so far, ordered by distance, then by index."""
    k = indices.shape[1]
    order = np.lexsort((columns, distances, rows))
    rows, columns, distances = rows[order], columns[order], distances[order]
    touched, firsts = np.unique(rows, return_index=True)
    places = np.arange(len(rows)) - np.repeat(firsts, np.diff(np.append(firsts, len(rows))))
    useful = places < k
    width = int(places[useful].max()) + 1
    new_squares = np.full((len(touched), width), np.inf)
    new_indices = np.full((len(touched), width), np.iinfo(np.intp).max, dtype=np.intp)
    lines = np.searchsorted(touched, rows[useful])
    new_squares[lines, places[useful]] = distances[useful]
    new_indices[lines, places[useful]] = columns[useful]
    all_squares = np.concatenate([squares[touched], new_squares], axis=1)
    all_indices = np.concatenate([indices[touched], new_indices], axis=1)
    chosen = np.lexsort((all_indices, all_squares), axis=1)[:, :k]
    squares[touched] = np.take_along_axis(all_squares, chosen, axis=1)
    indices[touched] = np.take_along_axis(all_indices, chosen, axis=1)


def neighbour_overlap(
    original: TableLike, released: TableLike, k: int = 10, *, sample: int | None = 10_000, random_state: int = 0
) -> float:
    r"""Return the average number of a row's k nearest rows in the original that are also among its k nearest in the release.

    .. math::
        \frac{1}{n} \sum_{i=1}^{n} \lvert N_k(a_i) \cap N_k(b_i) \rvert

    with :math:`N_k` the k other rows at the smallest Euclidean distances. If several rows are equally distant and only some
    belong to the k, those are chosen that are also neighbours in the other table. Distances are equal up to rounding (1e-9 of
    themselves plus 1e-12 of the longest row). So it is exactly k for a translation, a rotation, or the same factor for all
    columns, but not for different factors.

    Parameters
    ----------
    original, released : array-like or data frame of shape (n_rows, n_columns)
        The table and its release. Values are not scaled: scale columns of different units first.
    k : int
        Number of neighbours, below the number of distinct rows of the original.
    sample : int or None
        In larger tables, this many random rows are measured, each among all others; None for all rows. The
        standard error of the mean is at most :math:`k / (2 \sqrt{\text{sample}})`, 0.005 k by default.
    random_state : int
        Seed of that choice.

    Returns
    -------
    float
        From 0 to k (all neighbours kept); about :math:`k^2 / n` for an unrelated table. Smaller is more distorted.

    References
    ----------
    Thapa (2013), Table 7.5, where rotated tables lost neighbours to rounding: what the table calls KnnM. Equation
    (7.12) defines KnnM as `neighbour_rank_change`.

    Examples
    --------
    >>> neighbour_overlap([[0.0], [1.0], [3.0], [7.0]], [[0.0], [1.0], [3.0], [-2.0]], k=1)
    0.75
    """
    pair, k, rows = _checked(original, released, k, sample, random_state)
    before, after = _search(pair.original, rows, k), _search(pair.released, rows, k)
    overlaps = np.empty(len(rows))
    listed = ~before.is_incomplete
    overlaps[listed] = _overlap(before, after, *_together(before, after, listed), listed)
    swapped = before.is_incomplete & ~after.is_incomplete
    overlaps[swapped] = _overlap(after, before, *_together(after, before, swapped), swapped)
    for some in _blocks(np.flatnonzero(before.is_incomplete & after.is_incomplete)):
        distances = before.full(some), after.full(some)
        overlaps[some] = _overlap(before, after, *distances, some)
    return float(overlaps.mean())


def neighbour_rank_change(
    original: TableLike, released: TableLike, k: int = 10, *, sample: int | None = 1_000, random_state: int = 0
) -> float:
    r"""Return the average change of the ranks of a row's k nearest rows, when all rows are ordered by their distance from it.

    .. math::
        \frac{1}{nk} \sum_{i=1}^{n} \sum_{j \in N_k(a_i)}
        \lvert \operatorname{rank}_{a_i}(j) - \operatorname{rank}_{b_i}(j) \rvert

    Ranks are among all other rows, 1 for the nearest. Equally distant rows (as in `neighbour_overlap`) have the mean of their
    ranks. It is exactly 0 for a translation, a rotation, or the same factor for all columns.

    Parameters
    ----------
    original, released : array-like or data frame of shape (n_rows, n_columns)
        The table and its release. Values are not scaled: scale columns of different units first.
    k : int
        Number of neighbours, below the number of distinct rows of the original.
    sample : int or None
        In larger tables, this many random rows are measured, each among all others; None for all rows.
    random_state : int
        Seed of that choice.

    Returns
    -------
    float
        From 0 (all ranks kept); about n/2 for an unrelated table. Larger is more distorted.

    References
    ----------
    Thapa (2013), section 7.2.3, KnnM: equation (7.12), which lacks the absolute value and draws the rows so that no two
    share neighbours.

    Examples
    --------
    >>> neighbour_rank_change([[0.0], [1.0], [3.0], [7.0]], [[0.0], [1.0], [3.0], [-2.0]], k=1)
    0.5
    """
    pair, k, rows = _checked(original, released, k, sample, random_state)
    before = _search(pair.original, rows, k)
    after = _Neighbours(pair.released, rows, k, before.indices, before.distances, _size(pair.released))
    total = 0.0
    for some in _blocks(np.arange(len(rows))):
        chosen = before.indices[some][:, :k]
        # If the lists hold all rows that are as near as the k-th, the ranks follow from them.
        listed = not before.is_incomplete[some].any()
        old = before.distances[some] if listed else before.full(some)
        old_places = np.broadcast_to(np.arange(k), chosen.shape) if listed else chosen
        total += float(np.abs(_ranks(old, old_places, before) - _ranks(after.full(some), chosen, after)).sum())
    return total / (len(rows) * k)


@dataclass(frozen=True, eq=False, repr=False)
class _Neighbours(Undisclosed):
    """The nearest rows of some rows of one table, with some beyond the k-th."""

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
    def is_incomplete(self) -> NDArray[np.bool_]:
        """Whether there may be more rows as near as the k-th than were kept."""
        kept_all = self.indices.shape[1] == len(self.table) - 1
        return (self.distances[:, -1] <= self.kth + self.slack(self.kth)) & (not kept_all)

    def full(self, some: Rows) -> Numbers:
        """Return the distances of some of the rows to all rows; infinite to themselves."""
        from scipy.spatial.distance import cdist

        distances: Numbers = cdist(self.table[self.rows[some]], self.table)
        distances[np.arange(len(some)), self.rows[some]] = np.inf
        return distances

    def kinds(self, distances: Numbers, some: Places) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return whether rows at these distances are nearer than the k-th, and whether they are as near."""
        kth = self.kth[some][:, None]
        slack = self.slack(kth)
        return distances < kth - slack, np.abs(distances - kth) <= slack


def _checked(
    original: TableLike, released: TableLike, k: object, sample: object, random_state: object
) -> tuple[TablePair, int, Rows]:
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


def _search(table: Numbers, rows: Rows, k: int) -> _Neighbours:
    kept = min(k + _KEPT_BEYOND, len(table) - 1)
    indices, squares = nearest(table, table[rows], kept, own=rows)
    return _Neighbours(table, rows, k, indices, np.sqrt(squares), _size(table))


def _size(table: Numbers) -> float:
    """Return the length of the longest row."""
    return float(np.sqrt(np.einsum("ij,ij->i", table, table).max()))


def _blocks(places: Rows) -> list[Rows]:
    return [places[start : start + _FULL_ROWS_AT_ONCE] for start in range(0, len(places), _FULL_ROWS_AT_ONCE)]


def _together(one: _Neighbours, other: _Neighbours, some: Places) -> tuple[Numbers, Numbers]:
    """Return the distances, in both tables, of the rows in one table's lists."""
    indices = one.indices[some]
    lines = np.repeat(one.rows[some], indices.shape[1])
    squares = squared_distances(other.table, other.table, lines, indices.ravel())
    return one.distances[some], np.sqrt(squares).reshape(indices.shape)


def _overlap(
    one: _Neighbours, other: _Neighbours, in_one: Numbers, in_other: Numbers, some: Places
) -> NDArray[np.int64]:
    """Return the largest overlap over all choices among equally distant rows.

    The distances in both tables are given for at least all rows that are nearer than, or as near as, the k-th in one table.
    """
    sure, tied = one.kinds(in_one, some)
    other_sure, other_tied = other.kinds(in_other, some)
    places = one.k - sure.sum(axis=1)
    # All rows nearer than the k-th are in the lists, also in incomplete ones.
    other_places = one.k - other.kinds(other.distances[some], some)[0].sum(axis=1)
    from_tied = np.minimum(places, (tied & other_sure).sum(axis=1))
    to_tied = np.minimum(other_places, (sure & other_tied).sum(axis=1))
    both = np.minimum(np.minimum(places - from_tied, other_places - to_tied), (tied & other_tied).sum(axis=1))
    overlaps: NDArray[np.int64] = (sure & other_sure).sum(axis=1) + from_tied + to_tied + both
    return overlaps


def _ranks(distances: Numbers, chosen: Rows, neighbours: _Neighbours) -> Numbers:
    """Return the ranks of chosen rows by their distance; equal distances have the mean of their ranks."""
    ranks = np.empty(chosen.shape)
    for line, (row, places) in enumerate(zip(distances, chosen, strict=True)):
        own = row[places]
        slack = neighbours.slack(own)
        # Only rows nearer than the farthest chosen one are sorted.
        near = np.sort(row[row <= (own + slack).max()])
        nearer = np.searchsorted(near, own - slack, side="left")
        up_to = np.searchsorted(near, own + slack, side="right")
        ranks[line] = (nearer + up_to + 1) / 2
    return ranks
