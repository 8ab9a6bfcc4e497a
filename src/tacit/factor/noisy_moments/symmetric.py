r"""Symmetric matrices in noisy sums: one triangle leaves, and the noise is shrunk away by the edge of its spectrum.

Noise on a packed triangle is a symmetric Gaussian matrix, whose eigenvalues fill a semicircle up to a known edge `e`.
Eigenvalues of the sum below the edge are noise; those above are shrunk to :math:`\sqrt{\lambda^2 - e^2}`, which is optimal in
the Frobenius norm for symmetric noise [1]_.

References
----------
.. [1] D. Donoho, M. Gavish, I. Johnstone. Optimal shrinkage of eigenvalues in the spiked covariance model. Ann. Stat. 2018.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def pack(symmetric: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return one triangle of a symmetric matrix, off-diagonals times sqrt(2): half the numbers, the same L2 norm."""
    upper = np.triu_indices(len(symmetric))
    return symmetric[upper] * np.where(upper[0] == upper[1], 1.0, np.sqrt(2.0))


def unpack(triangle: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """Invert `pack`."""
    upper = np.triu_indices(size)
    square = np.zeros((size, size))
    square[upper] = triangle / np.where(upper[0] == upper[1], 1.0, np.sqrt(2.0))
    return square + np.triu(square, 1).T


def nearest_semidefinite(symmetric: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the closest positive semi-definite matrix (Frobenius): negative eigenvalues, which are noise, become zero."""
    values, vectors = np.linalg.eigh(symmetric)
    repaired: NDArray[np.float64] = (vectors * np.maximum(values, 0)) @ vectors.T
    return repaired


def semicircle_edge(noise: float, size: int) -> float:
    """Return the largest eigenvalue of `pack`ed Gaussian noise: off-diagonals carry noise / sqrt(2)."""
    return math.sqrt(2.0 * size) * noise


def shrink(symmetric: NDArray[np.float64], edge: float) -> tuple[NDArray[np.float64], int]:
    """Return the Frobenius-optimal estimate of a low-rank matrix from itself plus symmetric noise, and its rank."""
    values, vectors = np.linalg.eigh(symmetric)
    kept = values > edge
    shrunk = np.sqrt(np.maximum(values[kept] ** 2 - edge**2, 0.0))
    estimate: NDArray[np.float64] = (vectors[:, kept] * shrunk) @ vectors[:, kept].T
    return estimate, int(kept.sum())
