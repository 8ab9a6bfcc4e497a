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
    """Set `upper` to the transposed Cholesky factor of `gram`, which is given by its lower triangle."""
    size = gram.shape[0]
    for a in range(size):
        for c in range(a + 1):
            upper[c, a] = gram[a, c]
    for c in range(size):
        row = upper[c]
        pivot = 1 / np.sqrt(row[c])
        for b in range(c, size):
            row[b] *= pivot
        for a in range(c + 1, size):
            length, below = row[a], upper[a]
            for b in range(a, size):
                below[b] -= length * row[b]


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
        for c in range(a):
            length, above = upper[c, a], inverse[c]
            for b in range(c + 1):
                row[b] -= length * above[b]
        pivot = 1 / upper[a, a]
        for b in range(a):
            row[b] *= pivot
        row[a] = pivot
