r"""Latent classes of a table from its pair tables: a coupled non-negative factorisation with shared factors.

If rows fall into classes z within which columns are independent, the joint table of columns i and j is
:math:`A_i\, \mathrm{diag}(\pi)\, A_j^T`, with :math:`A_j` the distribution of column j in each class. All pair tables share these
factors, so that each is estimated with the help of all others: noise that no set of classes explains is left out.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tacit.privacy.noise.entropy import insecure_generator

CLASSES, ROUNDS, RATE, LAST_RATE = 300, 300, 0.05, 0.01
"""Number of classes, steps of Adam, and their size in the first two thirds and in the last. Chosen on the test rows of Adult."""
SQUARES = 20.0
"""Weight of the squared error beside the Kullback-Leibler divergence, which is small where probabilities are."""
Single = NDArray[np.float32]


def tables_of_classes(tables: NDArray[np.float64], sizes: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return the pair tables of latent classes that were fitted to `tables`.

    Parameters
    ----------
    tables : ndarray of shape (n_bins, n_bins)
        Joint probabilities of all pairs of bins; blocks on the diagonal and blocks of zeros are not used.
    sizes : ndarray of shape (n_columns,)
        Number of bins of each column.
    """
    first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    owner = np.repeat(np.arange(len(sizes)), sizes)
    mass = np.add.reduceat(np.add.reduceat(tables, first, axis=0), first, axis=1)
    measured = (mass > 0) & ~np.eye(len(sizes), dtype=bool)
    apart = measured[owner][:, owner].astype(np.float32)
    wanted = (tables * apart).astype(np.float32)
    n_pairs = max(measured.sum() / 2, 1)
    margins = wanted.sum(axis=1) / np.maximum(measured.sum(axis=1), 1)[owner]
    start = insecure_generator(0).standard_normal((CLASSES, len(owner)))  # a fixed start: nothing private depends on it
    logits = (0.5 * start + np.log(margins + 1e-4)).astype(np.float32)
    weights = np.zeros(CLASSES, dtype=np.float32)
    moments = [(np.zeros_like(values), np.zeros_like(values)) for values in (logits, weights)]
    for turn in range(1, ROUNDS + 1):
        inside, share = _softmax(logits, first, sizes), np.exp(weights - weights.max())
        share /= share.sum()
        modelled = (inside * share[:, None]).T @ inside
        slope = apart * (SQUARES * (modelled - wanted) - wanted / (modelled + 1e-9) / np.float32(2 * n_pairs))
        inner = inside @ slope
        by_share = np.einsum("kv,kv->k", inside, inner)
        by_inside = 2 * share[:, None] * inner
        mean = np.add.reduceat(inside * by_inside, first, axis=1).repeat(sizes, axis=1)
        slopes = (inside * (by_inside - mean), share * (by_share - share @ by_share))
        rate = RATE if 3 * turn <= 2 * ROUNDS else LAST_RATE
        for values, gradient, (average, square) in zip((logits, weights), slopes, moments, strict=True):
            _adam_step(values, gradient, average, square, rate, turn)
    inside, share = _softmax(logits, first, sizes), np.exp(weights - weights.max())
    modelled = (inside * (share / share.sum())[:, None]).T @ inside
    result: NDArray[np.float64] = (modelled * apart).astype(np.float64)
    return result


def _adam_step(values: Single, gradient: Single, average: Single, square: Single, rate: float, turn: int) -> None:
    """Move values against their gradient, in place, by the step of Adam (Kingma & Ba, 2015, algorithm 1)."""
    average += 0.1 * (gradient - average)
    square += 0.001 * (gradient**2 - square)
    values -= rate / (1 - 0.9**turn) * average / (np.sqrt(square / (1 - 0.999**turn)) + 1e-8)


def _softmax(logits: Single, first: NDArray[np.intp], sizes: NDArray[np.intp]) -> Single:
    """Return probabilities within each column's block."""
    highest = np.maximum.reduceat(logits, first, axis=1).repeat(sizes, axis=1)
    grown = np.exp(logits - highest)
    total = np.add.reduceat(grown, first, axis=1).repeat(sizes, axis=1)
    return np.asarray(grown / total, dtype=np.float32)
