"""Noise of a known size taken off a matrix of low rank."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

FILLINGS = 15
"""How often the unknown blocks are filled."""
Matrix = NDArray[np.float64]


def centred(table: Matrix) -> Matrix:
    """Return a table less the means of its rows and columns: what is left of noise that is orthogonal to both."""
    rows = table - table.mean(axis=-1, keepdims=True)
    between: Matrix = rows - rows.mean(axis=-2, keepdims=True)
    return between


def shrunk(residual: Matrix, noise: float, *, is_centred: bool = False) -> Matrix:
    r"""Return a matrix of low rank from one with noise of a known size.

    Singular values are shrunk by the rule that is optimal for the Frobenius norm, with :math:`\beta = \min / \max` of the
    shape and y in units of :math:`\sigma \sqrt{\max}`:

    .. math::
        \eta(y) = \sqrt{(y^2 - \beta - 1)^2 - 4 \beta} / y \quad (y > 1 + \sqrt \beta), \quad 0 \text{ otherwise.}

    A matrix that `centred` returned has the singular values of one with a row and a column less.

    References
    ----------
    Gavish & Donoho, "Optimal shrinkage of singular values", IEEE Transactions on Information Theory, 2017, equation (7).
    """
    if noise <= 0:
        return residual
    shape = [length - is_centred for length in residual.shape]
    if min(shape) == 0:
        return np.zeros_like(residual)
    u, values, v = np.linalg.svd(residual, full_matrices=False)
    beta, unit = min(shape) / max(shape), noise * math.sqrt(max(shape))
    y = np.maximum(values / unit, 1e-300)
    inner = np.maximum((y**2 - beta - 1) ** 2 - 4 * beta, 0.0)
    low_rank: Matrix = (u * (np.where(y > 1 + math.sqrt(beta), np.sqrt(inner) / y, 0.0) * unit)) @ v
    return low_rank


def shrunk_matrix(residual: Matrix, noise: Matrix, *, n_centred: int = 0) -> Matrix:
    r"""Return a symmetric matrix of low rank from one with noise, in which some blocks, as those on the diagonal, are not known.

    Eigenvalues are shrunk as in `shrunk`, for symmetric noise (edge :math:`2 \sigma \sqrt n`); unknown blocks take the values
    of the last estimate, in turn. Blocks are divided by their noise first, so that all have the same; a noise of 0 marks those
    that are not known. With `n_centred` groups of rows and of columns, whose blocks are all centred, n is less by that number.
    """
    scale = np.where(noise > 0, noise, 1.0)
    if not noise.any():
        return residual
    known, unit = residual / scale, math.sqrt(max(len(residual) - n_centred, 1))
    low_rank = np.zeros_like(known)
    for _ in range(FILLINGS):
        filled = np.where(noise > 0, known, low_rank)
        values, vectors = np.linalg.eigh(filled)
        y = np.abs(values) / unit
        low_rank = (vectors * (np.sign(values) * np.sqrt(np.maximum(y**2 - 4, 0.0)) * unit)) @ vectors.T
    result: Matrix = low_rank * scale
    return result
