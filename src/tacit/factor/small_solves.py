"""Compiled solvers of many small least-squares problems, one per row (per user, per item, per entity).

With the factors ``f_j`` of the entities that row i has values for, their variances ``v_j`` (which count as noise
in the regressors), targets ``t_j``, noise variance s and prior precision p, a row's problem is

    (sum f_j f_j' + diag(sum v_j) + s diag(p)) x = sum f_j t_j.

`factorise`, `substitute` and `invert` work on one small symmetric matrix, row by row so that they vectorise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

from tacit.factor.arrays import SomeFloats
from tacit.factor.kernels import parallel_for

Loop = TypeVar("Loop", bound=Callable[..., object])
WIDE = 16
"""Factors with at least this many entries are multiplied by BLAS; for fewer, the call costs more than the work. Set by hand."""
AT_ONCE = 2**17
"""Most products in one call of BLAS: it bounds the memory of the gathered factors. Set by hand."""


def fused(loop: Loop) -> Loop:
    """Compile as `tacit.factor.kernels.compiled` does, and let sums be formed in any fixed order."""
    return cast(Loop, njit(cache=True, nogil=True, fastmath={"contract", "nsz", "reassoc"})(loop))


@fused
def factorise(gram: SomeFloats, upper: SomeFloats) -> None:
    """Set `upper` to the transposed Cholesky factor of `gram`, which is given by its lower triangle.

    Four rows are finished at a time, so that each row below is read and written once for all four.
    """
    size = gram.shape[0]
    for a in range(size):
        for c in range(a + 1):
            upper[c, a] = gram[a, c]
    for first in range(0, size, 4):
        last = min(first + 4, size)
        for c in range(first, last):
            row = upper[c]
            for p in range(first, c):
                above = upper[p]
                length = above[c]
                for b in range(c, size):
                    row[b] -= length * above[b]
            pivot = 1 / np.sqrt(row[c])
            for b in range(c, size):
                row[b] *= pivot
        if last == size:
            break
        r0, r1, r2, r3 = upper[first], upper[first + 1], upper[first + 2], upper[first + 3]
        for a in range(last, size):
            below = upper[a]
            l0, l1, l2, l3 = r0[a], r1[a], r2[a], r3[a]
            for b in range(a, size):
                below[b] -= (l0 * r0[b] + l1 * r1[b]) + (l2 * r2[b] + l3 * r3[b])


@fused
def substitute(upper: SomeFloats, linear: SomeFloats, solution: SomeFloats) -> None:
    """Solve ``upper' upper x = linear``."""
    size = upper.shape[0]
    for a in range(size):
        solution[a] = linear[a]
    for c in range(size):
        row = upper[c]
        solution[c] /= row[c]
        length = solution[c]
        for b in range(c + 1, size):
            solution[b] -= length * row[b]
    for a in range(size - 1, -1, -1):
        row = upper[a]
        total = solution[a]
        for b in range(a + 1, size):
            total -= row[b] * solution[b]
        solution[a] = total / row[a]


@fused
def invert(upper: SomeFloats, inverse: SomeFloats) -> None:
    """Set `inverse` to that of ``upper'``, a lower triangle: ``inverse' inverse`` is the inverse of ``upper' upper``."""
    size = upper.shape[0]
    for a in range(size):
        row = inverse[a]
        row[:] = 0
        whole = a // 4 * 4
        for c in range(0, whole, 4):  # four at a time; what is above an inverse's diagonal is zero
            l0, l1, l2, l3 = upper[c, a], upper[c + 1, a], upper[c + 2, a], upper[c + 3, a]
            r0, r1, r2, r3 = inverse[c], inverse[c + 1], inverse[c + 2], inverse[c + 3]
            for b in range(c + 4):
                row[b] -= (l0 * r0[b] + l1 * r1[b]) + (l2 * r2[b] + l3 * r3[b])
        for c in range(whole, a):
            length, above = upper[c, a], inverse[c]
            for b in range(c + 1):
                row[b] -= length * above[b]
        pivot = 1 / upper[a, a]
        for b in range(a):
            row[b] *= pivot
        row[a] = pivot


@fused
def multiply_gathered(
    begin: int,
    end: int,
    columns: NDArray[np.int32],
    targets: SomeFloats,
    factors: SomeFloats,
    gathered: SomeFloats,
    gram: SomeFloats,
    linear: SomeFloats,
) -> None:
    """Add ``sum f f'`` and ``sum f t``: gather the factors, some ratings at a time, and leave the products to BLAS."""
    size = factors.shape[1]
    place = begin
    while place < end:
        many = min(len(gathered), end - place)
        for b in range(many):
            f, t = factors[columns[place + b]], targets[place + b]
            row = gathered[b]
            for a in range(size):
                row[a] = f[a]
                linear[a] += t * f[a]
        part = gathered[:many]
        gram += np.dot(part.T, part)
        place += many


@fused
def collect(
    begin: int,
    end: int,
    columns: NDArray[np.int32],
    targets: SomeFloats,
    factors: SomeFloats,
    variances: SomeFloats,
    gathered: SomeFloats,
    gram: SomeFloats,
    linear: SomeFloats,
) -> None:
    """Fill (at least) the lower triangle of ``sum f f' + diag(sum v)``, and ``sum f t``.

    Wide factors are multiplied by BLAS, in pieces too small to wake its threads; narrow ones four ratings at a time.
    """
    size = factors.shape[1]
    gram[:] = 0
    linear[:] = 0
    place = begin
    if size >= WIDE:
        multiply_gathered(begin, end, columns, targets, factors, gathered, gram, linear)
        place = end
    while place + 4 <= end:
        f0, f1 = factors[columns[place]], factors[columns[place + 1]]
        f2, f3 = factors[columns[place + 2]], factors[columns[place + 3]]
        t0, t1, t2, t3 = targets[place], targets[place + 1], targets[place + 2], targets[place + 3]
        for a in range(size):
            linear[a] += (t0 * f0[a] + t1 * f1[a]) + (t2 * f2[a] + t3 * f3[a])
        for a in range(size):
            a0, a1, a2, a3 = f0[a], f1[a], f2[a], f3[a]
            row = gram[a]
            for c in range(a + 1):
                row[c] += (a0 * f0[c] + a1 * f1[c]) + (a2 * f2[c] + a3 * f3[c])
        place += 4
    while place < end:
        f0, t0 = factors[columns[place]], targets[place]
        for a in range(size):
            linear[a] += t0 * f0[a]
            a0 = f0[a]
            for c in range(a + 1):
                gram[a, c] += a0 * f0[c]
        place += 1
    if variances.shape[0]:
        spread = gathered[0]  # free again; a sum along the diagonal itself would not vectorise
        spread[:] = 0
        for place in range(begin, end):
            v = variances[columns[place]]
            for a in range(size):
                spread[a] += v[a]
        for a in range(size):
            gram[a, a] += spread[a]


@fused
def workspace(size: int, sample: SomeFloats) -> tuple[SomeFloats, SomeFloats, SomeFloats, SomeFloats, SomeFloats]:
    """Return what `collect` gathers in, three square matrices and a vector."""
    return (
        np.empty((max(AT_ONCE // (size * size), 1), size), sample.dtype),
        np.empty((size, size), sample.dtype),
        np.empty((size, size), sample.dtype),
        np.empty((size, size), sample.dtype),
        np.empty(size, sample.dtype),
    )


@fused
def _ridge_rows(
    ends: NDArray[np.int64],
    columns: NDArray[np.int32],
    targets: SomeFloats,
    factors: SomeFloats,
    variances: SomeFloats,
    precision: SomeFloats,
    noise: float,
    solutions: SomeFloats,
    spreads: SomeFloats,
    errors: SomeFloats,
    start: int,
    stop: int,
) -> None:
    size = factors.shape[1]
    gathered, gram, upper, inverse, linear = workspace(size, factors)
    for i in range(start, stop):
        collect(ends[i], ends[i + 1], columns, targets, factors, variances, gathered, gram, linear)
        error = 0.0
        for place in range(ends[i], ends[i + 1]):
            error += targets[place] * targets[place]
        for a in range(size):
            gram[a, a] += noise * precision[a]
        factorise(gram, upper)
        x = solutions[i]
        substitute(upper, linear, x)
        invert(upper, inverse)
        spread = spreads[i]
        spread[:] = 0
        for a in range(size):
            row = inverse[a]
            for c in range(a + 1):
                spread[c] += row[c] * row[c]
        # the expected squared error, with x and the factors uncertain: t't - 2 b'x + x'Gx + sum of G_aa var(x_a)
        for a in range(size):
            spread[a] *= noise
            plain = gram[a, a] - noise * precision[a]
            product = x[a] * plain
            for c in range(a):
                product += 2 * gram[a, c] * x[c]
            error += x[a] * (product - 2 * linear[a]) + plain * spread[a]
        errors[i] = error


def ridge_rows(
    ends: NDArray[np.int64],
    columns: NDArray[np.int32],
    targets: SomeFloats,
    factors: SomeFloats,
    variances: SomeFloats,
    precision: SomeFloats,
    noise: float,
) -> tuple[SomeFloats, SomeFloats, SomeFloats]:
    """Solve every row's problem; return solutions, their posterior variances, and the expected squared errors.

    `variances` has no rows where the factors are taken as exact.
    """
    rows, size = len(ends) - 1, factors.shape[1]
    solutions, spreads = np.empty((rows, size), factors.dtype), np.empty((rows, size), factors.dtype)
    errors = np.empty(rows)
    parallel_for(
        lambda start, stop: _ridge_rows(
            ends, columns, targets, factors, variances, precision, noise, solutions, spreads, errors, start, stop
        ),
        ends * size * size + np.arange(rows + 1) * size**3,
    )
    return solutions, spreads, errors


@fused
def _normal_rows(
    ends: NDArray[np.int64],
    columns: NDArray[np.int32],
    targets: SomeFloats,
    factors: SomeFloats,
    variances: SomeFloats,
    grams: SomeFloats,
    linears: SomeFloats,
    first: int,
    start: int,
    stop: int,
) -> None:
    size = factors.shape[1]
    gathered, gram, _, _, linear = workspace(size, factors)
    for i in range(start, stop):
        collect(ends[first + i], ends[first + i + 1], columns, targets, factors, variances, gathered, gram, linear)
        place = 0
        for a in range(size):
            linears[i, a] = linear[a]
            for c in range(a + 1):
                grams[i, place] = gram[a, c]
                place += 1


def normal_rows(
    ends: NDArray[np.int64],
    columns: NDArray[np.int32],
    targets: SomeFloats,
    factors: SomeFloats,
    variances: SomeFloats,
    block: range,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the normal equations of a block of rows: lower triangles, packed row by row, and right-hand sides."""
    size = factors.shape[1]
    grams, linears = np.empty((len(block), size * (size + 1) // 2)), np.empty((len(block), size))
    parallel_for(
        lambda start, stop: _normal_rows(
            ends, columns, targets, factors, variances, grams, linears, block.start, start, stop
        ),
        (ends[block.start : block.stop + 1] - ends[block.start] + 1) * size * size - size * size,
    )
    return grams, linears


@fused
def _solve_packed(
    grams: SomeFloats,
    linears: SomeFloats,
    ridge: SomeFloats,
    noise: float,
    solutions: SomeFloats,
    spreads: SomeFloats,
    start: int,
    stop: int,
) -> None:
    size = linears.shape[1]
    _, gram, upper, inverse, _ = workspace(size, grams)
    for i in range(start, stop):
        place = 0
        for a in range(size):
            for c in range(a + 1):
                gram[a, c] = grams[i, place]
                place += 1
            gram[a, a] += ridge[a]
        factorise(gram, upper)
        substitute(upper, linears[i], solutions[i])
        invert(upper, inverse)
        spreads[i, :] = 0
        for a in range(size):
            for c in range(a + 1):
                spreads[i, c] += noise * inverse[a, c] * inverse[a, c]


def solve_packed(
    grams: SomeFloats, linears: SomeFloats, precision: SomeFloats, noise: float
) -> tuple[SomeFloats, SomeFloats]:
    """Solve the normal equations that `normal_rows` returns; return solutions and posterior variances."""
    solutions, spreads = np.empty_like(linears), np.empty_like(linears)
    parallel_for(
        lambda start, stop: _solve_packed(grams, linears, noise * precision, noise, solutions, spreads, start, stop),
        np.arange(len(linears) + 1) * linears.shape[1] ** 3,
    )
    return solutions, spreads
