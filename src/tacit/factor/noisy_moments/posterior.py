r"""Normal posteriors of the rows (items) of a factor, updated after every noisy release. All of it is post-processing.

A row i has factors and a bias, with posterior mean :math:`\mu_i` and precision :math:`P_i`. The moments that one regression
releases for the row observe its correction :math:`\delta_i`, the difference of the true row to :math:`\mu_i`:

.. math:: m_i = H_i \delta_i + e_i, \qquad \delta_i \sim N(0, P_i^{-1}), \quad e_i \sim N(0, R_i)

and the Kalman step (in information form) is

.. math:: P_i \leftarrow P_i + H_i R_i^{-1} H_i, \qquad \mu_i \leftarrow \mu_i + P_i^{-1} H_i R_i^{-1} m_i .

Here :math:`H_i = w_i g_i G`, with the row's weight w, its gain g and the users' average Gram matrix G; and
:math:`R_i = s_i G + \sigma^2 I` adds the noise of the values themselves (`RowPosterior.corrected`) to the noise
:math:`\sigma` of the release. H and R have the eigenvectors of G, so their components are independent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tacit.factor.arrays import Floats
from tacit.factor.kernels import one_blas_thread, parallel_for
from tacit.factor.noisy_moments.constants import BIAS_DOUBT, BIAS_VARIANCE, CO_RATING, DIAGONAL_STEPS, TINY
from tacit.factor.noisy_moments.known_directions import denoised_loadings, public_directions
from tacit.factor.noisy_moments.symmetric import semicircle_edge
from tacit.factor.small_solves import factorise, fused, substitute

FEATURE_RIDGE = 5.0
"""Of the regression of factors on features: a feature of five rows is trusted half. Set by hand."""
LEAST_EIGENVALUE = 0.02
"""Eigenvalues of a noisy Gram matrix are raised to this fraction of the largest. Set by hand: a Gram matrix is positive,
and noise may make a small eigenvalue negative."""


def loadings(
    second: Floats,
    noise: float,
    weights: Floats,
    n_users: float,
    most: int,
    features: Floats | None = None,
    *,
    sampling: float = 0.0,
) -> tuple[Floats, Floats]:
    """Return the factors of the popular items and the variance of each, from the noisy second moment.

    With public features of the items, weaker directions are found (`tacit.factor.noisy_moments.known_directions`).

    The diagonal of the second moment is not released. It is filled in from the directions above the noise, several times.
    Eigenvalues are shrunk by the Frobenius-optimal rule for symmetric noise (see `tacit.factor.noisy_moments.symmetric`).

    `sampling` is the standard deviation of what chance alone puts into an entry, since the users are a sample. Where the
    release has little noise, it decides how many directions there are.
    """
    scale = weights[:, None] * math.sqrt(CO_RATING / n_users)
    if features is not None:
        directions = public_directions(weights, features)
        estimated = denoised_loadings(second, noise, directions)
        strengths = (estimated**2).sum(axis=0)
        order = np.argsort(-strengths, kind="stable")[:most]
        order = order[strengths[order] > max(semicircle_edge(noise, directions.shape[1]), TINY)]
        return estimated[:, order] / scale, noise**2 / 2 / strengths[order] / scale**2
    noise = math.hypot(noise, sampling)
    edge = semicircle_edge(noise, len(second))
    # the largest eigenvalue of noise alone exceeds the edge by more than this with probability about 1/200 (Tracy-Widom)
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
    factors = vectors[:, kept] * np.sqrt(shrunk[kept]) / scale
    return factors, noise**2 / 2 / shrunk[kept] / scale**2


@dataclass(frozen=True)
class RowPosterior:
    """Mean and precision (the inverse of the covariance) of the factors and, last, the bias of every row.

    Attributes
    ----------
    mean : float
        Of all values.
    weights : ndarray of shape (n_rows,)
        Noisy popularities, positive.
    n_users : float
        Noisy number of users (or other protected entities).
    means : ndarray of shape (n_rows, size)
    precisions : ndarray of shape (n_rows, size, size)
    """

    mean: float
    weights: Floats
    n_users: float
    means: Floats
    precisions: Floats

    @property
    def size(self) -> int:
        """Number of factors, plus one for the bias."""
        return int(self.means.shape[1])

    @classmethod
    def of_biases(cls, mean: float, biases: Floats, weights: Floats, noise: float, n_users: float) -> RowPosterior:
        """Return the posterior after the first moments: biases only. `noise` is that of the weighted sums of residuals."""
        variance = BIAS_VARIANCE * noise**2 / (weights**2 * BIAS_VARIANCE + noise**2 + TINY) + BIAS_DOUBT
        return cls(mean, weights, n_users, biases[:, None].copy(), 1 / variance[:, None, None])

    def with_factors(
        self, popular: NDArray[np.intp], factors: Floats, variances: Floats, features: Floats | None = None
    ) -> RowPosterior:
        """Add the factors of popular rows. Those of the others are zero, with the mean square of the popular ones as variance.

        With public features, those of the others are what a ridge regression on the features of the popular rows says.
        """
        rows, count = len(self.means), factors.shape[1]
        usual = (factors**2).mean(axis=0) if count else np.zeros(0)
        means = np.zeros((rows, count + 1))
        if features is not None and count:
            design = features[popular]
            gram = design.T @ design + FEATURE_RIDGE * np.eye(design.shape[1])
            means[:, :-1] = features @ np.linalg.solve(gram, design.T @ factors)
        means[popular, :-1] = factors
        means[:, -1] = self.means[:, -1]
        diagonal = np.empty((rows, count + 1))
        diagonal[:, :-1] = 1 / np.maximum(usual, TINY)
        diagonal[popular, :-1] = 1 / np.maximum(np.minimum(variances, usual), TINY)
        diagonal[:, -1] = self.precisions[:, -1, -1]
        return replace(self, means=means, precisions=diagonal[:, :, None] * np.eye(count + 1))

    def gain(self, power: float) -> Floats:
        """Return g, the factor by which the terms of a rare row are multiplied; 1 for the most popular row."""
        gain: Floats = (self.weights / self.weights.max()) ** -power
        return gain

    def corrected(self, moments: Floats, gram: Floats, noise: float, power: float) -> RowPosterior:
        r"""Return the posterior after one regression: the Kalman step of the module's docstring.

        The noise of the values, :math:`s_i G`: every user sent a vector of norm 1, so it has total variance `n_users`,
        divided among the rows by :math:`w_i g_i^2` and among the regressors by G.
        """
        with one_blas_thread():
            values, vectors = np.linalg.eigh(gram)
        values = np.maximum(values, max(LEAST_EIGENVALUE * values[-1], TINY))
        gain = self.gain(power)
        slopes, energy = self.weights * gain, self.weights * gain**2
        sampling = self.n_users * energy / energy.sum() / values.sum()
        means, precisions = self.means.copy(), np.empty_like(self.precisions)
        given = self.precisions, moments, values, np.ascontiguousarray(vectors.T), slopes, sampling, noise**2 + TINY
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
    slopes: Floats,
    sampling: Floats,
    noise: float,
    means: Floats,
    precisions: Floats,
    start: int,
    stop: int,
) -> None:
    """Do the Kalman step for the rows from `start` up to `stop`; `means` and `precisions` are set in place.

    `values` and the rows of `vectors` are the eigenvalues and eigenvectors of G.
    """
    size = len(values)
    upper, linear, step = np.empty((size, size)), np.empty(size), np.empty(size)
    for i in range(start, stop):
        linear[:] = 0
        precisions[i] = before[i]
        for e in range(size):  # along an eigenvector of G: H = slope, R = sampling * value + noise, all scalars
            slope, total, vector = slopes[i] * values[e], 0.0, vectors[e]
            gain = slope / (sampling[i] * values[e] + noise)  # H / R
            for a in range(size):
                total += moments[i, a] * vector[a]
            for a in range(size):
                linear[a] += total * gain * vector[a]  # H R^-1 m
                length, row = slope * gain * vector[a], precisions[i, a]
                for c in range(size):
                    row[c] += length * vector[c]  # P + H R^-1 H
        factorise(precisions[i], upper)
        substitute(upper, linear, step)
        for a in range(size):
            means[i, a] += step[a]
