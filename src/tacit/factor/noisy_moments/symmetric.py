r"""Symmetric matrices in noisy sums: one triangle is released, and the eigenvalues of the noisy matrix are shrunk.

Noise on a packed triangle is a symmetric Gaussian matrix. Its eigenvalues follow the semicircle law, up to a known edge
`e`. Eigenvalues of the noisy matrix below the edge are set to zero; those above it are shrunk to
:math:`\sqrt{\lambda^2 - e^2}`, which is optimal in the Frobenius norm for symmetric noise [1]_.

References
----------
.. [1] D. Donoho, M. Gavish, I. Johnstone. Optimal shrinkage of eigenvalues in the spiked covariance model. Ann. Stat. 2018.
.. [2] Y. Deshpande, A. Montanari. Sparse PCA via covariance thresholding. NIPS 2014.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.special import ndtr

from tacit.factor.arrays import Floats

FILLING_STEPS = 4
"""How often `leading_off_diagonal` fills in the diagonal. Set by hand; other numbers were not compared."""
THRESHOLD = 1.0
"""`leading_sparse` lowers entries by this many standard deviations of their noise. Of 0, 0.5, 0.75, 1, 1.25 and 1.5 it had the
highest mean coherence of topics over Enron, TDT2, Reuters, citeulike and posts of 20 newsgroups other than those of
docs/results/nmf.md."""


def pack(symmetric: Floats) -> Floats:
    """Return the upper triangle of a symmetric matrix, with off-diagonals times sqrt(2), so that the L2 norm is the same."""
    upper = np.triu_indices(len(symmetric))
    return symmetric[upper] * np.where(upper[0] == upper[1], 1.0, np.sqrt(2.0))


def unpack(triangle: Floats, size: int) -> Floats:
    """Invert `pack`."""
    upper = np.triu_indices(size)
    square = np.zeros((size, size))
    square[upper] = triangle / np.where(upper[0] == upper[1], 1.0, np.sqrt(2.0))
    return square + np.triu(square, 1).T


def nearest_semidefinite(symmetric: Floats) -> Floats:
    """Return the closest positive semi-definite matrix in the Frobenius norm: negative eigenvalues become zero."""
    values, vectors = np.linalg.eigh(symmetric)
    repaired: Floats = (vectors * np.maximum(values, 0)) @ vectors.T
    return repaired


def semicircle_edge(noise: float, size: int) -> float:
    """Return the edge of the spectrum of `pack`ed Gaussian noise of standard deviation `noise`.

    An unpacked off-diagonal entry has the standard deviation s = noise / sqrt(2), and the edge is 2 s sqrt(size).
    """
    return math.sqrt(2.0 * size) * noise


def leading(symmetric: Floats, edge: float, size: int | None = None) -> tuple[Floats, Floats]:
    """Return what rises above symmetric noise in a matrix: shrunk eigenvalues, the largest first, and eigenvectors as rows.

    Together they are the Frobenius-optimal estimate of a low-rank matrix. With `size`, exactly that many are returned, and
    those that did not rise above the noise have the value 0.
    """
    which: dict[str, Any] = {"subset_by_value": (edge, np.inf)}
    if size is not None:
        which = {"subset_by_index": (len(symmetric) - size, len(symmetric) - 1)}
    values, vectors = eigh(symmetric, check_finite=False, **which)
    return np.sqrt(np.maximum(np.maximum(values[::-1], 0.0) ** 2 - edge**2, 0.0)), vectors.T[::-1]


def leading_off_diagonal(symmetric: Floats, edge: float) -> tuple[Floats, Floats]:
    """Return what `leading` does, for a matrix whose diagonal has something else: it is filled in from the directions found."""
    filled = symmetric.copy()
    np.fill_diagonal(filled, 0.0)
    values, vectors = leading(filled, edge)
    for _ in range(FILLING_STEPS - 1):
        np.fill_diagonal(filled, (vectors**2 * values[:, None]).sum(axis=0))
        values, vectors = leading(filled, edge)
    return values, vectors


def leading_sparse(symmetric: Floats, noise: float) -> tuple[Floats, Floats, float]:
    r"""Return what `leading_off_diagonal` does, for directions in which few columns take part, and the noise that is left.

    Every entry is drawn towards zero by the threshold t = `THRESHOLD` times its noise s [2]_. Noise alone then has the standard
    deviation

    .. math:: s \sqrt{2 (1 + t^2)\, \Phi(-t) - 2 t\, \varphi(t)},

    0.39 s for t = 1, and the edge of its spectrum shrinks with it. A direction of few columns has few, large entries, which lose
    s each. So directions rise above the edge that would not without the threshold.

    An entry with a strong signal keeps all of its noise, so not every direction above that edge is one. As many are returned as
    rise above the usual edge, and above the smaller one in what these leave.

    Parameters
    ----------
    symmetric : ndarray of shape (size, size)
    noise : float
        Standard deviation of the noise in an entry off the diagonal.
    """
    density = math.exp(-(THRESHOLD**2) / 2) / math.sqrt(2 * math.pi)
    left = noise * math.sqrt(2 * (1 + THRESHOLD**2) * float(ndtr(-THRESHOLD)) - 2 * THRESHOLD * density)
    edge, smaller_edge = (semicircle_edge(math.sqrt(2.0) * one, len(symmetric)) for one in (noise, left))

    def drawn(matrix: Floats) -> Floats:
        result: Floats = np.sign(matrix) * np.maximum(np.abs(matrix) - THRESHOLD * noise, 0.0)
        return result

    strong, directions = leading_off_diagonal(symmetric, edge)
    weak, _ = leading_off_diagonal(drawn(symmetric - (directions.T * strong) @ directions), smaller_edge)
    values, vectors = leading_off_diagonal(drawn(symmetric), smaller_edge)
    size = len(strong) + len(weak)
    return values[:size], vectors[:size], left
