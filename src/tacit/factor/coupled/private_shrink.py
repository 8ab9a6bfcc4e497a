"""Biases from noisy counts and noisy sums: the best linear guess when both are uncertain by a known amount.

All of it is post-processing of what was released, and so costs no privacy: where the noise is too strong, a row's bias falls
back to its group's, the group's to zero, and the mean to the middle of the range.
"""

from __future__ import annotations

import numpy as np

from tacit.factor.coupled.private_cells import Floats

BINS = 8
TINY = 1e-9
LEAST_COUNT = 0.05
"""Of the average count: no row is taken to have less."""
LEAST_KEPT = 0.01


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
    bins: int = BINS,
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
