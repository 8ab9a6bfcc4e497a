"""What noisy sums say about the items: normal distributions, narrowed by every release. All of it is post-processing."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tacit.factor.kernels import one_blas_thread, parallel_for
from tacit.factor.noisy_moments.constants import BIAS_DOUBT, BIAS_VARIANCE, CO_RATING, DIAGONAL_STEPS, TINY
from tacit.factor.noisy_moments.symmetric import semicircle_edge
from tacit.factor.small_solves import Floats, factorise, fused, substitute


def loadings(
    second: NDArray[np.float64], noise: float, weights: NDArray[np.float64], n_users: float, most: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the factors of the popular items and the variance of each, from the noisy second moment.

    Its diagonal, which was not asked for, is filled in by what the directions above the noise say, a few times over.
    Eigenvalues are shrunk by the Frobenius-optimal rule for symmetric noise (see `tacit.factor.noisy_moments.symmetric`).
    """
    edge = semicircle_edge(noise, len(second))
    # the largest eigenvalue of noise alone goes beyond the edge by about this much one time in two hundred (Tracy-Widom)
    threshold = max(edge * (1 + len(second) ** (-2 / 3)), TINY)
    shrunk, vectors = np.zeros(len(second)), np.zeros_like(second)
    filled = second.copy()
    with one_blas_thread():
        for _ in range(DIAGONAL_STEPS):
            values, vectors = np.linalg.eigh(filled)
            shrunk = np.where(values > threshold, np.sqrt(np.maximum(values**2 - edge**2, 0.0)), 0.0)
            np.fill_diagonal(filled, (vectors**2 * shrunk).sum(axis=1))
    kept = np.argsort(-shrunk, kind="stable")[:most]
    kept = kept[shrunk[kept] > 0]
    scale = weights[:, None] * math.sqrt(CO_RATING / n_users)
    factors = vectors[:, kept] * np.sqrt(shrunk[kept]) / scale
    return factors, noise**2 / 2 / shrunk[kept] / scale**2


@dataclass(frozen=True)
class ItemPosterior:
    """Mean and precision (the inverse of the covariance) of every item's factors and, last, bias.

    Attributes
    ----------
    mean : float
        Of all ratings.
    weights : ndarray of shape (n_items,)
        Noisy popularities, positive.
    n_users : float
        Noisy.
    means : ndarray of shape (n_items, size)
    precisions : ndarray of shape (n_items, size, size)
    """

    mean: float
    weights: NDArray[np.float64]
    n_users: float
    means: NDArray[np.float64]
    precisions: NDArray[np.float64]

    @property
    def size(self) -> int:
        """Number of factors, plus one for the bias."""
        return int(self.means.shape[1])

    @classmethod
    def of_biases(
        cls, mean: float, biases: NDArray[np.float64], weights: NDArray[np.float64], noise: float, n_users: float
    ) -> ItemPosterior:
        """Return what the first moments say."""
        variance = BIAS_VARIANCE * noise**2 / (weights**2 * BIAS_VARIANCE + noise**2 + TINY) + BIAS_DOUBT
        return cls(mean, weights, n_users, biases[:, None].copy(), 1 / variance[:, None, None])

    def with_factors(
        self, popular: NDArray[np.intp], factors: NDArray[np.float64], variances: NDArray[np.float64]
    ) -> ItemPosterior:
        """Add factors: those found for popular items; for the others, zero with the variance that the popular ones have."""
        items, count = len(self.means), factors.shape[1]
        usual = (factors**2).mean(axis=0) if count else np.zeros(0)
        means = np.zeros((items, count + 1))
        means[popular, :-1] = factors
        means[:, -1] = self.means[:, -1]
        diagonal = np.empty((items, count + 1))
        diagonal[:, :-1] = 1 / np.maximum(usual, TINY)
        diagonal[popular, :-1] = 1 / np.maximum(np.minimum(variances, usual), TINY)
        diagonal[:, -1] = self.precisions[:, -1, -1]
        return replace(self, means=means, precisions=diagonal[:, :, None] * np.eye(count + 1))

    def gain(self, power: float) -> NDArray[np.float64]:
        """Return by how much an item's ratings are lifted for its being rare; 1 for the most popular."""
        lifted: NDArray[np.float64] = (self.weights / self.weights.max()) ** -power
        return lifted

    def corrected(
        self, moments: NDArray[np.float64], gram: NDArray[np.float64], noise: float, power: float
    ) -> ItemPosterior:
        """Return what is known after one regression.

        An item's moments are its weight times `gram` times the correction due, plus the release's noise, plus the noise of
        the ratings: every user sent a vector of norm 1, so the ratings' noise has total variance `n_users`, spread
        over items by their weights and over the regressors by `gram`.
        """
        with one_blas_thread():
            values, vectors = np.linalg.eigh(gram)
        values = np.maximum(values, max(0.02 * values[-1], TINY))
        gain = self.gain(power)
        reach, energy = self.weights * gain, self.weights * gain**2
        sampling = self.n_users * energy / energy.sum() / values.sum()
        means, precisions = self.means.copy(), np.empty_like(self.precisions)
        given = self.precisions, moments, values, np.ascontiguousarray(vectors.T), reach, sampling, noise**2 + TINY
        parallel_for(
            lambda start, stop: _correct(*given, means, precisions, start, stop),
            np.arange(len(means) + 1) * self.size**3,
        )
        return replace(self, means=means, precisions=precisions)


@fused
def _correct(
    before: Floats,
    moments: Floats,
    values: Floats,
    vectors: Floats,
    reach: Floats,
    sampling: Floats,
    noise: float,
    means: Floats,
    precisions: Floats,
    start: int,
    stop: int,
) -> None:
    """Set the precisions of some items, and move their means, in place."""
    size = len(values)
    upper, pull, step = np.empty((size, size)), np.empty(size), np.empty(size)
    for i in range(start, stop):
        pull[:] = 0
        precisions[i] = before[i]
        for e in range(size):  # along gram's eigenvectors, the rows, the observation's parts are independent
            slope, total, vector = reach[i] * values[e], 0.0, vectors[e]
            pulled = slope / (sampling[i] * values[e] + noise)
            for a in range(size):
                total += moments[i, a] * vector[a]
            for a in range(size):
                pull[a] += total * pulled * vector[a]
                length, row = slope * pulled * vector[a], precisions[i, a]
                for c in range(size):
                    row[c] += length * vector[c]
        factorise(precisions[i], upper)
        substitute(upper, pull, step)
        for a in range(size):
            means[i, a] += step[a]
