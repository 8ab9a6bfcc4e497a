"""Compiled linear algebra of small symmetric matrices, row by row so that it vectorises; for the loops that need many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

Loop = TypeVar("Loop", bound=Callable[..., Any])
Floats = NDArray[Any]


def fused(loop: Loop) -> Loop:
    """Compile as `tacit.factor.kernels.compiled` does, and let sums be formed in any fixed order."""
    return cast(Loop, njit(cache=True, nogil=True, fastmath={"contract", "nsz", "reassoc"})(loop))


@fused
def factorise(gram: Floats, upper: Floats) -> None:
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
def substitute(upper: Floats, linear: Floats, solution: Floats) -> None:
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
def invert(upper: Floats, inverse: Floats) -> None:
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
