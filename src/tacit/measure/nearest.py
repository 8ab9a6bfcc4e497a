"""Exact nearest rows in tables of many rows and columns, in blocks, without a matrix of all distances.

Trees gain little beyond ten columns or so. Here a product of matrices in float32 gives a lower bound of every squared
distance in a block, at the speed of BLAS; the few pairs that the bound leaves open are computed in float64 from differences.
So the answer is exact, and memory is that of a few blocks.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.intp]
Numbers = NDArray[np.float64]

QUERIES_AT_ONCE = 1024
POINTS_AT_ONCE = 4096
_PAIRS_AT_ONCE = 1 << 18


def nearest(points: Numbers, queries: Numbers, k: int, own: Rows | None = None) -> tuple[Rows, Numbers]:
    """Return the k points nearest to each query, nearest first, and their squared distances.

    Parameters
    ----------
    points, queries : ndarray of shape (n_points, n_columns), (n_queries, n_columns)
        Finite numbers; at least k points, besides a query's own.
    k : int
        How many.
    own : ndarray of shape (n_queries,), optional
        The point that is the query itself and does not count as its neighbour.

    Returns
    -------
    tuple of ndarray of shape (n_queries, k)
        Indices of points and squared Euclidean distances. Of equally near points those with smaller indices come first.
    """
    indices = np.empty((len(queries), k), dtype=np.intp)
    squares = np.empty((len(queries), k))
    for block in query_blocks(queries):
        mine = None if own is None else own[block]
        indices[block], squares[block] = _nearest_in_block(points, queries[block], k, mine)
    return indices, squares


def query_blocks(queries: Numbers) -> Iterator[Rows]:
    """Yield the queries in blocks of similar ones, along the direction in which they spread most.

    The bound of a block is computed about its centre: the tighter the block, the tighter the bound.
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
    float32 matrices. s covers the rounding: a product of m + 2 terms is off by at most (m + 4) 2^-24 of the sum of their
    sizes, which is at most 2 (|q|² + |p|²).

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
        # One place in memory for all chunks: fresh pages for each would take longer than the product.
        self._space = np.empty(len(queries) * POINTS_AT_ONCE, dtype=np.float32)

    def keep(self, queries: NDArray[np.bool_]) -> None:
        """Go on with some of the queries only."""
        self._left = self._left[queries]

    def below(self, start: int, stop: int, limits: Numbers) -> tuple[Rows, Rows]:
        """Return the pairs of a query and a point in a range whose squared distance may be below the query's limit."""
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
    found = np.empty(len(rows))
    for start in range(0, len(rows), _PAIRS_AT_ONCE):
        piece = slice(start, start + _PAIRS_AT_ONCE)
        difference = queries[rows[piece]] - points[columns[piece]]
        found[piece] = np.einsum("ij,ij->i", difference, difference)
    return found


def _nearest_in_block(points: Numbers, queries: Numbers, k: int, own: Rows | None) -> tuple[Rows, Numbers]:
    bounds = LowerBounds(points, queries)
    n_queries, n_points = len(queries), len(points)
    # The nearest so far; an index of -1 is a free place.
    indices = np.full((n_queries, k), -1, dtype=np.intp)
    squares = np.full((n_queries, k), np.inf)
    # Any k points give a limit to begin with; those of smallest bounds in the first chunk give a good one.
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
    """Return the k-th smallest distance of each query, its own point left out; infinite where there are fewer."""
    if own is not None:
        distances = np.where(columns == own[rows], np.inf, distances)
    table = distances.reshape(n_queries, -1)
    return np.partition(table, k - 1, axis=1)[:, k - 1] if table.shape[1] >= k else np.full(n_queries, np.inf)


def _merge(indices: Rows, squares: Numbers, rows: Rows, columns: Rows, distances: Numbers) -> None:
    """Put found pairs into the lists of the nearest so far, each kept in order of distance, then of index."""
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
