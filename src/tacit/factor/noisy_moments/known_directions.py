r"""Denoising a noisy second moment with the help of directions that are known without the data.

The noise is a symmetric Gaussian matrix, whose largest eigenvalue grows with the square root of its size. In a few
directions that are likely to matter and are known without the data (the popularity of items, which was released, alone and
times their public features), the noise is that of a small matrix, so that much weaker signals rise above it. The second
moment is therefore cut into three parts, within these directions, between them and the others, and within the
others, and each is shrunk by the edge of its own noise [1]_, [2]_. Its diagonal, which was not asked for, is filled in
from the result, several times. All of it is post-processing.

References
----------
.. [1] D. Donoho, M. Gavish, I. Johnstone. Optimal shrinkage of eigenvalues in the spiked covariance model. Ann. Stat. 2018.
.. [2] M. Gavish, D. Donoho. Optimal shrinkage of singular values. IEEE Trans. Inf. Theory 2017.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import eigh, svd

from tacit.factor.arrays import Floats
from tacit.factor.kernels import one_blas_thread

DIAGONAL_STEPS = 3
"""How often the diagonal is filled in; more change nothing that shows."""
SAME_DIRECTION = 0.01
"""Directions whose singular value is below this part of the largest are combinations of the others."""
BETWEEN = 0.85
"""The part between the directions and the others is shrunk as if its noise were this much of what it is: of a direction that
matters, also what is weak in each item helps (chosen on validation users of MovieLens 1M)."""
NEGLIGIBLE = 1e-6
"""Eigenvalues below this part of the largest are rounding."""


def public_directions(popularity: Floats, features: Floats | None) -> Floats:
    """Return orthonormal columns that span the popularity, and the features times its square root.

    Co-occurrences grow with the popularity of both items; the square root, rather than the popularity itself, lets less
    popular items have their say (chosen on validation users of MovieLens 1M).
    """
    columns = popularity[:, None]
    if features is not None and features.shape[1]:
        weighted = features * np.sqrt(popularity)[:, None]
        lengths = np.linalg.norm(weighted, axis=0)
        columns = np.concatenate(
            [columns / np.linalg.norm(columns), weighted[:, lengths > 0] / lengths[lengths > 0]], 1
        )
    left, sizes, _ = svd(columns, full_matrices=False)
    basis: Floats = left[:, sizes > SAME_DIRECTION * sizes[0]]
    return basis


def denoised_loadings(noisy: Floats, noise: float, directions: Floats) -> Floats:
    """Return L such that L L' estimates a second moment.

    Parameters
    ----------
    noisy : ndarray of shape (size, size)
        Symmetric; its diagonal is not used.
    noise : float
        Standard deviation of the packed noise: off-diagonals carry noise / sqrt(2).
    directions : ndarray of shape (size, n_directions)
        Orthonormal columns.
    """
    loadings = np.zeros((len(noisy), 0))
    for _ in range(DIAGONAL_STEPS):
        filled = noisy.copy()
        np.fill_diagonal(filled, (loadings**2).sum(axis=1))
        loadings = shrunk_loadings(filled, noise, directions)
    return loadings


def shrunk_loadings(filled: Floats, noise: float, directions: Floats) -> Floats:
    """Return L such that L L' estimates a second moment whose diagonal is filled in: one step of `denoised_loadings`."""
    size, few = directions.shape
    with one_blas_thread():
        across = directions.T @ filled
        within = across @ directions
        between = across - within @ directions.T
        others = filled - directions @ across - between.T @ directions.T
        small = _shrunk_symmetric(within, few, noise)
        mixed = directions @ _shrunk_rectangle(between, few, size - few, BETWEEN * noise / math.sqrt(2))
        estimate = directions @ small @ directions.T + mixed + mixed.T
        estimate += _shrunk_symmetric(others, size - few, noise)
        values, vectors = eigh(estimate)
    kept = values > NEGLIGIBLE * max(values[-1], 0.0)
    loadings: Floats = vectors[:, kept] * np.sqrt(values[kept])
    return loadings


def _shrunk_symmetric(matrix: Floats, size: int, noise: float) -> Floats:
    """Return the Frobenius-optimal estimate of a positive low-rank matrix; `size` is the dimension that the noise fills."""
    edge = math.sqrt(2.0 * size) * noise
    values, vectors = eigh(matrix)
    kept = values > max(edge, NEGLIGIBLE * max(values[-1], 0.0))
    estimate: Floats = (vectors[:, kept] * np.sqrt(np.maximum(values[kept] ** 2 - edge**2, 0.0))) @ vectors[:, kept].T
    return estimate


def _shrunk_rectangle(matrix: Floats, rows: int, columns: int, noise: float) -> Floats:
    """Return the Frobenius-optimal estimate of a low-rank matrix from itself plus noise that fills `rows` x `columns`."""
    left, values, right = svd(matrix, full_matrices=False)
    if noise > 0 and columns > 0:
        long, beta = max(rows, columns), min(rows, columns) / max(rows, columns)
        y = values / (noise * math.sqrt(long))
        inside = np.maximum((y**2 - beta - 1) ** 2 - 4 * beta, 0.0)
        values = np.where(y > 1 + math.sqrt(beta), np.sqrt(inside) / np.maximum(y, 1.0), 0.0) * noise * math.sqrt(long)
    estimate: Floats = (left * values) @ right
    return estimate
