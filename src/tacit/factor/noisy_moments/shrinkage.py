"""Biases and means from noisy counts and noisy sums: the best linear estimate when both have noise of a known size.

All of it is post-processing of released sums, so it costs no privacy. Where the noise is too strong, a row's bias falls
back to that of its group (rows of like popularity), the group's to zero, and the mean to the middle of the range.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tacit.factor.noisy_moments.constants import BIAS_VARIANCE, LEAST_COUNT, LEAST_KEPT, POPULARITY_BINS, TINY
from tacit.factor.noisy_moments.symmetric import Floats


def first_biases(
    weights: NDArray[np.float64], sums: NDArray[np.float64], weight_noise: float, sum_noise: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return positive weights and shrunk biases of the items.

    Items are put into bins of about equal total weight, by popularity. A bin's ratio of sums to weights is the prior mean
    of its items, an item's own ratio is weighed against it by the noise.
    """
    positive = np.maximum(weights, max(weight_noise / 2, TINY))
    order = np.argsort(-weights, kind="stable")
    covered = np.cumsum(np.maximum(weights[order], 0.0))
    bins = np.zeros(len(weights), dtype=np.int64)
    bins[order] = np.minimum(covered / max(covered[-1], TINY) * POPULARITY_BINS, POPULARITY_BINS - 1).astype(np.int64)
    weight, total = np.bincount(bins, weights), np.bincount(bins, sums)
    noise = np.bincount(bins) * sum_noise**2
    weight = np.maximum(weight, 0.0)
    prior = (total * weight * BIAS_VARIANCE / (weight**2 * BIAS_VARIANCE + noise + TINY))[bins]
    own = (sums - prior * positive) * positive * BIAS_VARIANCE / (positive**2 * BIAS_VARIANCE + sum_noise**2 + TINY)
    return positive, np.clip(prior + own, -2.0, 2.0)


def likely_counts(counts: Floats, noise: float) -> tuple[Floats, float]:
    """Return noisy counts drawn towards their average as far as the noise asks for, and how much of their spread is real."""
    average = max(float(counts.mean()), TINY)
    real = max(float(counts.var()) - noise**2, 0.0)
    kept = real / (real + noise**2 + TINY)
    return np.maximum(average + kept * (counts - average), LEAST_COUNT * average), kept


def shrunk_biases(
    counts: Floats,
    sums: Floats,
    *,
    count_noise: float,
    sum_noise: float,
    variance: float,
    value_noise: float,
    features: Floats | None = None,
    bins: int = POPULARITY_BINS,
) -> tuple[Floats, Floats]:
    """Return likely counts and biases.

    Parameters
    ----------
    counts, sums : ndarray of shape (n,)
        Noisy number and sum of residuals of every row.
    count_noise, sum_noise : float
        Standard deviation of the noise in them.
    variance : float
        Of the rows' biases around their group's.
    value_noise : float
        Variance of one value.
    features : ndarray of shape (n, q), optional
        Public: what a row's group is, beside how common it is.
    bins : int
        Into so many groups of about equal weight the rows are put, by how common they are.
    """
    likely, kept = likely_counts(counts, count_noise)
    doubt = kept * count_noise**2
    covered = np.cumsum(likely[order := np.argsort(-likely, kind="stable")])
    group = np.empty(len(likely), dtype=np.int64)
    group[order] = np.minimum(covered / max(covered[-1], TINY) * bins, bins - 1).astype(np.int64)
    # groups by how common rows are mean as much as the counts tell
    design, prior = np.eye(bins)[group], np.full(bins, variance * max(kept, LEAST_KEPT))
    if features is not None:
        design = np.concatenate([design, features], axis=1)
        prior = np.append(prior, np.full(features.shape[1], variance / (2 * features.shape[1])))
    trust = 1 / ((likely**2 + doubt) * variance + likely * value_noise + sum_noise**2 + TINY)
    scaled = design * likely[:, None]
    gram = (scaled * trust[:, None]).T @ scaled + np.diag(1 / prior)
    explained = design @ np.linalg.solve(gram, scaled.T @ (trust * sums))
    own = (sums - likely * explained) * likely * variance * trust
    return likely, np.clip(explained + own, -2.0, 2.0)


def shrunk_mean(total: float, count: float, noise: float, variance: float) -> float:
    """Return a mean from a noisy sum, drawn towards the middle of the range as far as the noise asks for."""
    return float(np.clip(total * count * variance / (count**2 * variance + noise**2 + TINY), -1.0, 1.0))
