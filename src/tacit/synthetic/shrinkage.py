"""Noise of a known size taken off a matrix of low rank."""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import NDArray

FILLINGS = 15
"""How often the unknown blocks on the diagonal are filled."""
Matrix = NDArray[np.float64]


def shrunk(residual: Matrix, noise: float) -> Matrix:
    r"""Return a matrix of low rank from one with noise of a known size.

    Singular values are shrunk by the rule that is optimal for the Frobenius norm, with :math:`\beta = \min / \max` of the
    shape and y in units of :math:`\sigma \sqrt{\max}`:

    .. math::
        \eta(y) = \sqrt{(y^2 - \beta - 1)^2 - 4 \beta} / y \quad (y > 1 + \sqrt \beta), \quad 0 \text{ otherwise.}

    References
    ----------
    Gavish & Donoho, "Optimal shrinkage of singular values", IEEE Transactions on Information Theory, 2017, equation (7).
    """
    if noise <= 0:
        return residual
    u, values, v = np.linalg.svd(residual, full_matrices=False)
    beta, unit = min(residual.shape) / max(residual.shape), noise * math.sqrt(max(residual.shape))
    y = np.maximum(values / unit, 1e-300)
    inner = np.maximum((y**2 - beta - 1) ** 2 - 4 * beta, 0.0)
    low_rank: Matrix = (u * (np.where(y > 1 + math.sqrt(beta), np.sqrt(inner) / y, 0.0) * unit)) @ v
    return low_rank


def shrunk_matrix(residual: Matrix, noise: Matrix, edges: NDArray[np.intp]) -> Matrix:
    r"""Return a symmetric matrix of low rank from one with noise, whose blocks on the diagonal are not known.

    Eigenvalues are shrunk as in `shrunk`, for symmetric noise (edge :math:`2 \sigma \sqrt n`); unknown blocks take the values
    of the last estimate, in turn. Blocks are divided by their noise first, so that all have the same.
    """
    scale = np.where(noise > 0, noise, 1.0)
    if not noise.any():
        return residual
    known, unit = residual / scale, math.sqrt(len(residual))
    low_rank = np.zeros_like(known)
    for _ in range(FILLINGS):
        filled = known.copy()
        for first, last in itertools.pairwise(edges):
            filled[first:last, first:last] = low_rank[first:last, first:last]
        values, vectors = np.linalg.eigh(filled)
        y = np.abs(values) / unit
        low_rank = (vectors * (np.sign(values) * np.sqrt(np.maximum(y**2 - 4, 0.0)) * unit)) @ vectors.T
    result: Matrix = low_rank * scale
    return result
