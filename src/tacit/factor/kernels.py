"""Compiled inner loops: coordinate descent on many small non-negative problems, products, outliers.

Every loop works on a range of rows that do not depend on each other, releases the interpreter's lock, and is shared out
to plain threads. Numba's own parallel loops are not used: their OpenMP layer aborts a forked child, the fallback aborts on
two calls at once.

**A row's result is a function of that row and of the shared arguments alone, bit for bit.** It does not depend on the number
of cores, on where the row stands or on which other rows are there. A private fit needs this: where a comparison decides
(which weights are zero, when to stop), a last bit that depends on the other rows would move the result by more than any bound
on one row covers. So the loops of this module have a fixed order of additions and are compiled without fast-math options,
and products of rows that reach such a comparison do not use BLAS, which rounds a row by its position in a block.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, TypeVar, cast

import numpy as np
from numba import config as numba_config
from numba import njit
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from tacit.factor.arrays import SomeFloats

Loop = TypeVar("Loop", bound=Callable[..., object])
PIECES_PER_THREAD = 4
"""Pieces of work per thread, so that threads that finish early take more. Set by hand."""
WORTH_A_THREAD = 1 << 18
"""Least number of operations for which threads are started (about 0.1 ms of work). Set by hand; it affects speed only."""
THREADS: int = vars(numba_config)["NUMBA_NUM_THREADS"]


def compiled(loop: Loop) -> Loop:
    """Compile a loop once, keep it on disk, and let other threads run while it does."""
    return cast(Loop, njit(cache=True, nogil=True)(loop))


@cache
def _pool(process: int) -> ThreadPoolExecutor:
    """The threads of this process; a forked child has another number, and so gets its own."""
    return ThreadPoolExecutor(THREADS, thread_name_prefix=f"tacit-{process}")


@cache
def _controller() -> Any:
    return ThreadpoolController()  # looks through all loaded libraries, which takes a while


def one_blas_thread() -> AbstractContextManager[object]:
    """Keep BLAS to one thread for a while.

    Its others go on spinning after a call, on the cores that `parallel_for` wants; and they change the order of additions,
    where all holders must make the same of a total.
    """
    limited: AbstractContextManager[object] = _controller().limit(limits=1, user_api="blas")
    return limited


def parallel_for(
    loop: Callable[[int, int], object], work: NDArray[np.integer], pieces_per_thread: int = PIECES_PER_THREAD
) -> None:
    """Run ``loop(start, stop)`` over ranges that cover all rows, on ``NUMBA_NUM_THREADS`` threads (all cores if not set).

    Parameters
    ----------
    loop : callable
        Works on the rows from `start` up to `stop`.
    work : ndarray of shape (n_rows + 1,)
        Work up to each row, ascending from 0: the ranges are cut to equal work. Little work is done at once.
    pieces_per_thread : int
        More of them even out work that was misjudged; fewer are better where each piece costs something of its own.
    """
    if THREADS == 1 or work[-1] < WORTH_A_THREAD:
        if len(work) > 1:
            loop(0, len(work) - 1)
        return
    cuts = np.searchsorted(work, np.linspace(0, float(work[-1]), THREADS * pieces_per_thread + 1)[1:-1])
    ends = [0, *(int(cut) for cut in cuts), len(work) - 1]
    ranges = [(start, stop) for start, stop in itertools.pairwise(ends) if stop > start]
    if len(ranges) == 1:
        loop(*ranges[0])
        return
    waiting = [_pool(os.getpid()).submit(loop, start, stop) for start, stop in ranges]
    for piece in waiting:
        piece.result()


@compiled
def _set_gradient(gram: SomeFloats, linear: SomeFloats, row: SomeFloats, gradient: SomeFloats) -> None:
    """Set `gradient` to ``linear - gram @ row``, skipping zeros of the row."""
    for j in range(row.size):
        gradient[j] = linear[j]
    for j in range(row.size):
        length = row[j]
        if length != 0:
            for m in range(row.size):
                gradient[m] -= length * gram[j, m]


@compiled
def hals_sweep(
    gram: SomeFloats,
    inverse: SomeFloats,
    linear: SomeFloats,
    rows: SomeFloats,
    values: SomeFloats,
    most_sweeps: int,
    shrink: float,
    rounding: float,
    start: int,
    stop: int,
) -> None:
    """Lower ``1/2 v' gram v - linear_i' v`` over ``v >= 0`` from each row ``v`` of `rows`, in place.

    Coordinates are minimised exactly, one after the other (HALS). The gradient is kept up to date, so that a coordinate
    that stays at zero costs nothing. A row ends when a sweep moves less than `shrink` of what its first sweep moved, or
    than `rounding` of the row itself, in squared length measured by the curvature. `inverse` is 1 over gram's diagonal, 0
    where a coordinate is to be left alone; `values` receives the minima found.
    """
    size = rows.shape[1]
    gradient = np.empty(size, dtype=rows.dtype)
    for i in range(start, stop):
        row = rows[i]
        _set_gradient(gram, linear[i], row, gradient)
        enough = 0.0
        for sweep in range(most_sweeps):
            moved = 0.0
            for j in range(size):
                old = row[j]
                new = max(old + gradient[j] * inverse[j], gram.dtype.type(0))
                step = new - old
                if step != 0:
                    row[j] = new
                    for m in range(size):
                        gradient[m] -= step * gram[j, m]
                    moved += step * step * gram[j, j]
            if sweep == 0:
                for j in range(size):
                    enough += rounding * row[j] * row[j] * gram[j, j]
                enough = max(enough, shrink * moved)
            if moved <= enough:
                break
        # 1/2 v'Gv - b'v = -1/2 v'(b + gradient), for the gradient b - Gv
        value = 0.0
        for j in range(size):
            value -= 0.5 * row[j] * (linear[i, j] + gradient[j])
        values[i] = value


GRAM_BLOCK = 512
"""Rows per block of `gram`. Fixed, so that the order of additions is. Set by hand."""


def gram(rows: SomeFloats) -> NDArray[np.float64]:
    """Return ``rows.T @ rows`` in double precision.

    Factors are mostly zeros, which are skipped; and BLAS, for products this narrow, loses more by waking its threads
    than it gains. Blocks of fixed size are added in order, so the sum does not depend on the number of cores.
    """
    blocks = -(-len(rows) // GRAM_BLOCK)
    partial = np.zeros((blocks, rows.shape[1], rows.shape[1]))
    parallel_for(
        lambda start, stop: _gram(rows, partial, start, stop), np.arange(blocks + 1) * GRAM_BLOCK * rows.shape[1] ** 2
    )
    total: NDArray[np.float64] = partial.sum(axis=0)
    return total


@compiled
def _gram(rows: SomeFloats, partial: NDArray[np.float64], start: int, stop: int) -> None:
    """Set `partial` to the products of blocks, which are zero before.

    Two rows are added at a time, one after the other. Where both are zero they are skipped, by a list of the other places:
    processors would guess wrongly which of single numbers are zero. What is added for a zero beside another number changes no
    bit of a sum.
    """
    size = rows.shape[1]
    places = np.empty(size + 1, dtype=np.int64)
    for block in range(start, stop):
        sums = partial[block]
        end = min((block + 1) * GRAM_BLOCK, rows.shape[0])
        for i in range(block * GRAM_BLOCK, end, 2):
            row, following = rows[i], rows[min(i + 1, end - 1)]
            there = rows.dtype.type(i + 1 < end)  # 0 if there is no second row
            count = 0
            for j in range(size):
                places[count] = j
                count += (row[j] != 0) | (following[j] != 0)
            for place in range(count):
                j = places[place]
                first, second = row[j], following[j] * there
                for m in range(size):
                    sums[j, m] = (sums[j, m] + first * row[m]) + second * following[m]


@compiled
def multiply(
    data: SomeFloats,
    indices: NDArray[np.integer],
    ends: NDArray[np.integer],
    factor: SomeFloats,
    product: SomeFloats,
    start: int,
    stop: int,
) -> None:
    """Set rows of `product` to those of the CSR matrix (data, indices, ends) times the dense `factor`.

    Eight stored entries are added at a time, which saves seven of eight passes over the sum; it is kept in float64.
    """
    size = factor.shape[1]
    total = np.empty(size, dtype=np.float64)
    for i in range(start, stop):
        for j in range(size):
            total[j] = 0.0
        place = ends[i]
        end = ends[i + 1]
        while place + 8 <= end:
            x0, x1, x2, x3 = data[place], data[place + 1], data[place + 2], data[place + 3]
            x4, x5, x6, x7 = data[place + 4], data[place + 5], data[place + 6], data[place + 7]
            f0, f1 = factor[indices[place]], factor[indices[place + 1]]
            f2, f3 = factor[indices[place + 2]], factor[indices[place + 3]]
            f4, f5 = factor[indices[place + 4]], factor[indices[place + 5]]
            f6, f7 = factor[indices[place + 6]], factor[indices[place + 7]]
            for j in range(size):
                first = (x0 * f0[j] + x1 * f1[j]) + (x2 * f2[j] + x3 * f3[j])
                total[j] += first + ((x4 * f4[j] + x5 * f5[j]) + (x6 * f6[j] + x7 * f7[j]))
            place += 8
        while place < end:
            x = data[place]
            f = factor[indices[place]]
            for j in range(size):
                total[j] += x * f[j]
            place += 1
        for j in range(size):
            product[i, j] = total[j]


DEPTH, WIDTH = 256, 256
"""Block of the factor that `multiply_dense` keeps in the cache: 512 kB in double precision. Set by hand."""


@compiled
def multiply_dense(rows: SomeFloats, factor: SomeFloats, product: SomeFloats, start: int, stop: int) -> None:
    """Set rows of `product` to those of the C-ordered `rows` times the C-ordered `factor`.

    Four rows are taken at a time, so that the factor is read once for all four; at the end, the last row stands in for the
    missing ones. The terms of a sum are added one after the other, in blocks of `DEPTH` terms.
    """
    inner, size = factor.shape
    total = np.empty(4 * WIDTH, dtype=product.dtype)
    product[start:stop] = 0
    for first in range(0, inner, DEPTH):
        last = min(first + DEPTH, inner)
        for left in range(0, size, WIDTH):
            width = min(WIDTH, size - left)
            for i in range(start, stop, 4):
                x, y = rows[i], rows[min(i + 1, stop - 1)]
                z, u = rows[min(i + 2, stop - 1)], rows[min(i + 3, stop - 1)]
                for j in range(width):
                    total[j] = total[WIDTH + j] = total[2 * WIDTH + j] = total[3 * WIDTH + j] = 0
                c = first
                while c + 4 <= last:
                    f0, f1, f2, f3 = factor[c, left:], factor[c + 1, left:], factor[c + 2, left:], factor[c + 3, left:]
                    x0, x1, x2, x3 = x[c], x[c + 1], x[c + 2], x[c + 3]
                    y0, y1, y2, y3 = y[c], y[c + 1], y[c + 2], y[c + 3]
                    z0, z1, z2, z3 = z[c], z[c + 1], z[c + 2], z[c + 3]
                    u0, u1, u2, u3 = u[c], u[c + 1], u[c + 2], u[c + 3]
                    for j in range(width):
                        g0, g1, g2, g3 = f0[j], f1[j], f2[j], f3[j]
                        total[j] = (((total[j] + x0 * g0) + x1 * g1) + x2 * g2) + x3 * g3
                        total[WIDTH + j] = (((total[WIDTH + j] + y0 * g0) + y1 * g1) + y2 * g2) + y3 * g3
                        total[2 * WIDTH + j] = (((total[2 * WIDTH + j] + z0 * g0) + z1 * g1) + z2 * g2) + z3 * g3
                        total[3 * WIDTH + j] = (((total[3 * WIDTH + j] + u0 * g0) + u1 * g1) + u2 * g2) + u3 * g3
                    c += 4
                while c < last:
                    f0 = factor[c, left:]
                    x0, y0, z0, u0 = x[c], y[c], z[c], u[c]
                    for j in range(width):
                        g0 = f0[j]
                        total[j] += x0 * g0
                        total[WIDTH + j] += y0 * g0
                        total[2 * WIDTH + j] += z0 * g0
                        total[3 * WIDTH + j] += u0 * g0
                    c += 1
                for r in range(min(4, stop - i)):
                    row = product[i + r, left:]
                    for j in range(width):
                        row[j] += total[r * WIDTH + j]


@compiled
def count_columns(indices: NDArray[np.integer], counts: NDArray[np.int64]) -> None:
    """Set ``counts[c + 1]`` to the number of stored entries in column c of a CSR matrix."""
    for place in range(indices.size):
        counts[indices[place] + 1] += 1


@compiled
def multiply_transposed(
    data: SomeFloats,
    indices: NDArray[np.integer],
    ends: NDArray[np.integer],
    factor: SomeFloats,
    product: NDArray[np.float64],
    start: int,
    stop: int,
) -> None:
    """Set rows of `product` to those of the *transposed* CSR matrix (data, sorted indices, ends) times the dense `factor`.

    Every thread passes over all rows of the matrix and takes the entries in its own range of columns, so no two write to
    the same place, no transposed copy is needed, and every sum runs in the order of the rows on any number of threads.
    """
    size = factor.shape[1]
    for column in range(start, stop):
        for j in range(size):
            product[column, j] = 0.0
    for i in range(ends.size - 1):
        end = ends[i + 1]
        place, high = ends[i], end
        while place < high:  # the first entry of the row that is in the range
            middle = (place + high) // 2
            if indices[middle] < start:
                place = middle + 1
            else:
                high = middle
        row = factor[i]
        while place < end and indices[place] < stop:
            x = data[place]
            sums = product[indices[place]]
            for j in range(size):
                sums[j] += x * row[j]
            place += 1


@compiled
def set_aside(
    rows: SomeFloats, fitted: SomeFloats, threshold: float, bound: float, sizes: SomeFloats, start: int, stop: int
) -> None:
    """Replace `fitted` by ``rows - R``, where R minimises ``1/2 (rows - fitted - R)**2 + threshold |R|`` over ``|R| <= bound``.

    That is soft-thresholding of the residual, cut at the bound: S_{lambda,M} in eq. 9 of Saha and Imtiaz (2022).
    `sizes` receives the sum of ``|R|`` of every row.
    """
    for i in range(start, stop):
        total = 0.0
        for j in range(rows.shape[1]):
            residual = rows[i, j] - fitted[i, j]
            size = min(max(abs(residual) - threshold, 0.0), bound)
            total += size
            fitted[i, j] = rows[i, j] - (size if residual > 0 else -size)
        sizes[i] = total


@compiled
def look_ahead(
    gram: SomeFloats,
    before: SomeFloats,
    moved: SomeFloats,
    ahead: SomeFloats,
    momentum: SomeFloats,
    tolerance: float,
    done: NDArray[np.bool_],
    start: int,
    stop: int,
) -> None:
    """Extrapolate each row's move from `before` to `moved`, a step that was taken at `ahead`, by Nesterov's momentum.

    Set `ahead` to the point for the next step and `momentum` to its new value; the momentum starts again at 1 where it
    points uphill. Set `done` where no coordinate moved by more than `tolerance` times the largest one.
    """
    size = gram.shape[0]
    for i in range(start, stop):
        uphill, largest, longest = 0.0, 0.0, 0.0
        for j in range(size):
            step = moved[i, j] - before[i, j]
            slope = 0.0
            for m in range(size):
                slope += (ahead[i, m] - moved[i, m]) * gram[j, m]
            uphill += slope * step
            longest = max(longest, abs(step))
            largest = max(largest, moved[i, j])
        done[i] = longest <= tolerance * largest
        old = 1.0 if uphill > 0 else momentum[i]
        momentum[i] = (1 + np.sqrt(1 + 4 * old * old)) / 2
        for j in range(size):
            ahead[i, j] = moved[i, j] + (old - 1) / momentum[i] * (moved[i, j] - before[i, j])
