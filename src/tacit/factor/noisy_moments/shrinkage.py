"""Biases and means from noisy counts and noisy sums: the best linear estimate for noise of a known size.

All of it is post-processing of released sums, so it costs no privacy. With strong noise, the bias of a row becomes that of
its group (rows with a similar popularity), the bias of a group becomes zero, and the mean becomes the middle of the range.
"""

from __future__ import annotations

import numpy as np

from tacit.factor.arrays import Floats, Integers
from tacit.factor.noisy_moments.constants import BIAS_VARIANCE, LEAST_COUNT, LEAST_KEPT, POPULARITY_BINS, TINY

MOST_BIAS = 2.0
"""Biases are clipped to this: the width of the scale from -1 to 1."""


def popularity_groups(weights: Floats, bins: int) -> Integers:
    """Return the group of every row: `bins` groups with about the same total weight, by descending weight."""
    order = np.argsort(-weights, kind="stable")
    covered = np.cumsum(np.maximum(weights[order], 0.0))
    groups = np.empty(len(weights), dtype=np.int64)
    groups[order] = np.minimum(covered / max(covered[-1], TINY) * bins, bins - 1).astype(np.int64)
    return groups


def likely_counts(counts: Floats, noise: float) -> tuple[Floats, float]:
    """Return counts shrunk towards their average by the noise in them, and the fraction of their variance that is real."""
    average = max(float(counts.mean()), TINY)
    real = max(float(counts.var()) - noise**2, 0.0)
    kept = real / (real + noise**2 + TINY)
    least = max(min(LEAST_COUNT * average, noise / 2), TINY)
    return np.maximum(average + kept * (counts - average), least), kept


def shrunk_biases(
    counts: Floats,
    sums: Floats,
    *,
    count_noise: float,
    sum_noise: float,
    variance: float = BIAS_VARIANCE,
    value_noise: float = 0.0,
    features: Floats | None = None,
    bins: int = POPULARITY_BINS,
) -> tuple[Floats, Floats]:
    r"""Return likely counts n and biases b of rows with :math:`y_i = n_i b_i + e_i`.

    The bias is :math:`b_i = z_i \cdot \beta + \gamma_i`: the group and the features :math:`z_i` of a row explain a part, and
    :math:`\gamma_i \sim N(0, \tau)` is its own. With :math:`v_i`, the variance of :math:`y_i - n_i z_i \cdot \beta`, the
    estimates are the posterior means of :math:`\beta` under its normal prior, and then of :math:`\gamma_i`:

    .. math:: \hat\gamma_i = \frac{n_i \tau}{v_i}\,(y_i - n_i z_i \cdot \hat\beta), \qquad
              v_i = (n_i^2 + d)\,\tau + n_i s^2 + \sigma^2

    Parameters
    ----------
    counts, sums : ndarray of shape (n,)
        Noisy number of values of every row, and noisy sum y of their residuals.
    count_noise, sum_noise : float
        Standard deviation of the noise in them; d is the variance that it leaves in the likely counts, and the second is
        :math:`\sigma`.
    variance : float
        :math:`\tau`, the variance of the rows' biases around their group's.
    value_noise : float
        :math:`s^2`, the variance of one value.
    features : ndarray of shape (n, q), optional
        Public columns that describe the rows, beside their popularity.
    bins : int
        Number of groups by popularity.
    """
    likely, kept = likely_counts(counts, count_noise)
    doubt = kept * count_noise**2
    # groups by popularity mean as much as the noisy counts can tell rows apart
    design = np.eye(bins)[popularity_groups(likely, bins)]
    prior = np.full(bins, variance * max(kept, LEAST_KEPT))
    if features is not None:
        design = np.concatenate([design, features], axis=1)
        # features are standardised: together they explain about half of the variance
        prior = np.append(prior, np.full(features.shape[1], variance / (2 * features.shape[1])))
    trust = 1 / ((likely**2 + doubt) * variance + likely * value_noise + sum_noise**2 + TINY)
    scaled = design * likely[:, None]
    gram = (scaled * trust[:, None]).T @ scaled + np.diag(1 / prior)
    explained = design @ np.linalg.solve(gram, scaled.T @ (trust * sums))
    own = (sums - likely * explained) * likely * variance * trust
    return likely, np.clip(explained + own, -MOST_BIAS, MOST_BIAS)


def shrunk_mean(total: float, count: float, noise: float, variance: float) -> float:
    """Return a mean from a noisy sum, shrunk towards the middle of the range by the noise in the sum."""
    return float(np.clip(total * count * variance / (count**2 * variance + noise**2 + TINY), -1.0, 1.0))
