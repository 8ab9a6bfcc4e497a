r"""Algorithms 2 and 3 of the thesis as printed: multiplicative updates from a random start, stopped early.

.. math::
    H \leftarrow H \circ \frac{\alpha A W^T + \beta C}{\alpha H W W^T + \beta H}, \qquad
    W \leftarrow W \circ \frac{H^T A}{H^T H W}

These are (3.25), with beta multiplying H in the denominator, and (3.24). `tacit.perturb` solves the same problem to convergence;
the thesis stops before it, and several of its tables and figures are about when.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.errors import Undisclosed

Matrix = NDArray[np.float64]
TINY = 1e-12
"""Keeps the divisors of the multiplicative updates above zero."""


@dataclass(frozen=True, eq=False, repr=False)
class Iteration(Undisclosed):
    """The factors after an iteration; `number` counts from 1."""

    number: int
    H: Matrix
    W: Matrix

    @property
    def product(self) -> Matrix:
        """The perturbed table."""
        product: Matrix = self.H @ self.W
        return product

    def sparsified(self, threshold: float) -> Matrix:
        """Return the perturbed table with entries of H up to the threshold set to zero (Algorithm 3)."""
        product: Matrix = np.where(self.threshold(threshold), self.H, 0.0) @ self.W
        return product

    def threshold(self, least: float) -> NDArray[np.bool_]:
        """Return which entries of H are kept."""
        kept: NDArray[np.bool_] = np.abs(self.H) > least
        return kept


def steps(A: Matrix, C: Matrix, alpha: float, beta: float, most: int, seed: int) -> Iterator[Iteration]:
    """Yield the factors of `A` with H near the memberships `C`, iteration by iteration."""
    draw = np.random.default_rng(seed)
    H, W = draw.random(C.shape), draw.random((C.shape[1], A.shape[1]))
    for number in range(1, most + 1):
        H = H * (alpha * A @ W.T + beta * C) / (alpha * H @ (W @ W.T) + beta * H + TINY)
        W = W * (H.T @ A) / (H.T @ H @ W + TINY)
        yield Iteration(number, H, W)
