r"""From a noisy second moment of users' shortened rows to an item-item regression. All of it is post-processing.

The second moment of the rows is modelled as :math:`C = L L' + \Psi + S`: a few tastes L that many items share, what each
item has alone (:math:`\Psi`, diagonal), and what pairs of items have together beyond tastes (S). The latter is learned from
items that are alike (`shared_with_like_items`), from pairs that stand out, such as the parts of a series
(`significant_pairs`), and from those that share a rare feature, such as a word of their titles (`expected_pairs`). With
:math:`A = I - (1 - s)\,d d'`, which shortens rows along the direction d, the release is

.. math:: \bar M = A C A + \text{noise} = \bar L \bar L' + A \Psi A + S + \text{noise}, \qquad \bar L = A L .

(S is taken to have no part along d.) The unknowns are estimated in turn. Noise is that of the release and
what chance puts into a sample of users; without the latter a large epsilon would learn the sample by heart, and more budget
would give worse lists.

The estimate is a mean of this one and of one whose tastes multiply (`tacit.factor.implicit.multiplied_tastes`).

The inverse P of C gives the best linear prediction of each item from all others (EASE [1]_): :math:`-P_{ij} / P_{jj}` is the
weight of item i for item j.

References
----------
.. [1] H. Steck. Embarrassingly shallow autoencoders for sparse data. WWW 2019.
.. [2] Y. Benjamini, Y. Hochberg. Controlling the false discovery rate. J. R. Stat. Soc. B 1995.
.. [3] J. Fan, Y. Liao, M. Mincheva. Large covariance estimation by thresholding principal orthogonal complements. J. R. Stat.
   Soc. B 2013.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfc

from tacit.factor.arrays import Floats, Integers
from tacit.factor.implicit.co_occurrence import ChosenItems
from tacit.factor.implicit.multiplied_tastes import multiplied_tastes
from tacit.factor.kernels import one_blas_thread
from tacit.factor.noisy_moments.known_directions import public_directions, shrunk_loadings

STEPS = 3
"""How often tastes, diagonal and pairs are estimated in turn; more change nothing that shows."""
LEAST_OWN = 0.1
"""An item has at least this part of its diagonal alone. Set by hand: it keeps the inverse bounded."""
FALSE_PAIRS = 0.5
"""Pairs are kept from the level on at which about this fraction of them is chance [2]_. As they are also drawn towards zero by
that level, those near it count little. Chosen on validation users of MovieLens 1M, Steam and Last.fm."""
LEVELS = np.linspace(2.0, 8.0, 241)
"""The levels that are tried, in standard deviations of an entry."""
ALIKE = (0.8, 0.95)
"""With features, pairs are judged in three groups by how alike their features are (cosine), cut at these quantiles: pairs of
films of one genre and decade belong together far more often."""
LIKENESS_POWER, LIKENESS_POPULARITY = 2, 0.5
"""Items count as alike by the cosine of their loadings to the first power, if it is positive, and what they have together grows
with their popularities to the second. Chosen on validation users of MovieLens 1M."""
LEAST_LIKENESS = 0.3
"""With features, the likeness of items is multiplied by the cosine of their features, of which this part is 1 for all pairs.
Chosen with the former."""
NARROW_ITEMS, NARROW_PART = 15, 0.02
"""A feature that at most this many items and at most this part of the catalogue have is narrow, such as a word of titles: a
taste for it alone is too rare to be found, but two items that share it may belong together. Set by hand."""
LEAST_SHARING = 20
"""With fewer pairs that share a narrow feature nothing is expected of them. Set by hand."""
LEAST_TASTES = 8
"""With fewer tastes nothing is smoothed: in few dimensions unlike items have large cosines. Chosen on validation users of Steam,
where at epsilon 1, with 6 or 7 tastes, NDCG at 10 fell by 3%. Multiplied tastes are left out, too; that was set by hand."""
SIGNALS = np.concatenate([[0.0], np.geomspace(1e-4, 10.0, 21)])
"""What is tried in `shared_with_like_items` as the mean variance of signal, over that of noise."""
MULTIPLIED = 0.3
"""The part of multiplied tastes (`tacit.factor.implicit.multiplied_tastes`) in the estimate. Chosen on validation users of
MovieLens 1M at epsilon 8."""
LEAST_LEFT = 0.2
"""The smallest eigenvalue of C is at least this part of the smallest entry of Psi, or the pairs are halved. Set by hand."""


def item_regression(second: Floats) -> NDArray[np.float32]:
    """Return the weight of each item (row) for each item (column): -P_ij / P_jj with the inverse P, and 0 for itself."""
    with one_blas_thread():
        inverse = np.linalg.inv(second)
    regression: Floats = inverse / -np.diag(inverse)
    np.fill_diagonal(regression, 0.0)
    return regression.astype(np.float32)


def estimated_moment(
    noisy: Floats,
    noise: float,
    users: float,
    chosen: ChosenItems,
    popularity: Floats,
    features: Floats | None,
    narrow: Floats | None = None,
) -> Floats:
    """Return C, the second moment of rows that were divided by their shortened norm: positive definite.

    Parameters
    ----------
    noisy : ndarray of shape (size, size)
        The second moment of the shortened rows, as released.
    noise : float
        Standard deviation of the packed noise.
    users : float
        Number of users.
    chosen : ChosenItems
    popularity : ndarray of shape (size,)
        Positive.
    features : ndarray of shape (size, n_features), optional
        Public.
    narrow : ndarray of shape (size, n_narrow), optional
        Features of few items each; public.
    """
    size, d, taken = len(noisy), chosen.direction, 1 - chosen.kept
    directions = public_directions(popularity, features)
    fractions = popularity / popularity.sum()
    # the squared entries of a user's outer product add up to 1: on average an entry varies by users / size^2, and an entry of
    # two items in proportion to their popularities
    everywhere = math.hypot(noise, math.sqrt(2 * users) / size)
    spread = np.sqrt(noise**2 / 2 + users * np.outer(fractions, fractions))
    groups = _alike(features, size)
    diagonal = _diagonal(np.diag(noisy), noise, users, fractions)
    own, pairs = diagonal.copy(), np.zeros_like(noisy)
    short = np.zeros((size, 0))
    loadings = short
    for step in range(STEPS):
        # A Psi A without its diagonal
        along = np.outer(d, taken * (own * d - taken / 2 * float(own @ d**2) * d))
        tastes = noisy + along + along.T
        left = tastes - pairs
        np.fill_diagonal(left, (short**2).sum(axis=1))
        short = shrunk_loadings(left, everywhere, directions)
        loadings = chosen.restored(short)
        if step >= STEPS - 2:
            pairs = significant_pairs(tastes - short @ short.T, spread, groups)
        # the diagonal of C from that of A C A, and Psi from what tastes leave of it
        towards = loadings @ (d @ loadings) + own * d
        whole = diagonal + 2 * taken * d * towards - taken**2 * float(d @ towards) * d**2
        own = np.maximum(whole - (loadings**2).sum(axis=1), LEAST_OWN * diagonal)
    left = tastes - short @ short.T
    np.fill_diagonal(left, 0.0)
    smooth = np.zeros_like(left)
    if short.shape[1] >= LEAST_TASTES:
        # with features what like items have together is learned first, without them what stands out: each order was the better
        # one on validation users of MovieLens 1M
        first = pairs if features is None else 0.0
        smooth = shared_with_like_items(left - first, everywhere**2 / 2, likeness(short, popularity, features))
        if features is not None:
            pairs = significant_pairs(left - smooth, spread, groups)
    if narrow is not None:
        sharing = np.triu(narrow @ narrow.T > 0, 1)
        if sharing.sum() >= LEAST_SHARING:
            expected = expected_pairs(
                (left - smooth)[sharing], spread[sharing], np.outer(fractions, fractions)[sharing]
            )
            pairs[sharing] = expected
            pairs.T[sharing] = expected
    pairs = pairs + smooth
    shared = loadings @ loadings.T + np.diag(own)
    least = LEAST_LEFT * float(own.min())
    added = _with_pairs(shared, pairs, least)
    if short.shape[1] < LEAST_TASTES:
        return added
    away = MULTIPLIED * (multiplied_tastes(noisy, spread, users, chosen, added) - added)
    np.fill_diagonal(away, 0.0)
    return _with_pairs(added, away, least)


def likeness(loadings: Floats, popularity: Floats, features: Floats | None) -> Floats:
    """Return how much items have in common, by their tastes, popularities and features."""
    alike = np.maximum(_cosines(loadings), 0.0) ** LIKENESS_POWER
    if features is not None and features.shape[1]:
        alike *= LEAST_LIKENESS + (1 - LEAST_LIKENESS) * _cosines(features)
    size = (popularity / popularity.mean()) ** (LIKENESS_POPULARITY / 2)
    return alike * np.outer(size, size)


def shared_with_like_items(residual: Floats, variance: float, alike: Floats) -> Floats:
    r"""Return what items have together beyond tastes, learned from items like them: a posterior mean, with a zero diagonal.

    The entries are normal beforehand, and those of like items correlated: the covariance of :math:`E_{ij}` and
    :math:`E_{kl}` is :math:`\tau K_{ik} K_{jl}`. With :math:`K = U \kappa U'`, each entry of :math:`U' E U` has the variance
    :math:`\tau \kappa_a \kappa_b` and independent noise, and is shrunk by itself. The factor :math:`\tau` is the most likely
    one of `SIGNALS`, and 0 where the residual is no larger than noise.

    Parameters
    ----------
    residual : ndarray of shape (size, size)
        Symmetric.
    variance : float
        Of the noise of every entry.
    alike : ndarray of shape (size, size)
        K, symmetric; negative eigenvalues count as 0.
    """
    with one_blas_thread():
        values, vectors = np.linalg.eigh(alike)
        turned = vectors.T @ residual @ vectors
    positive = np.maximum(values, 0.0)
    prior = np.outer(positive, positive / max(float(positive.mean()) ** 2, np.finfo(float).tiny))
    squares = turned**2 / max(variance, np.finfo(float).tiny)

    def unlikely(signal: float) -> float:
        total = 1 + signal * prior
        return float((np.log(total) + squares / total).sum())

    signal = min(SIGNALS.tolist(), key=unlikely)
    turned *= signal * prior / (1 + signal * prior)
    with one_blas_thread():
        found: Floats = vectors @ turned @ vectors.T
    np.fill_diagonal(found, 0.0)
    return found


def broad_and_narrow(features: Floats | None) -> tuple[Floats | None, Floats | None]:
    """Return the features that tastes are looked for along, and those of few items; None for those there are none of."""
    if features is None:
        return None, None
    holders = (features > 0).sum(axis=0)
    few = holders <= min(NARROW_ITEMS, NARROW_PART * len(features))
    broad, narrow = features[:, ~few], features[:, few & (holders > 1)]
    return broad if broad.shape[1] else None, narrow if narrow.shape[1] else None


def expected_pairs(residual: Floats, spread: Floats, size: Floats) -> Floats:
    """Return the posterior means of entries that share something, such as a word of their titles.

    Beforehand an entry has a mean and a standard deviation in proportion to the root of `size`, the product of the items'
    popularities. Both factors are estimated from the entries, the mean less what noise alone gives, and it is not negative.

    Parameters
    ----------
    residual, spread, size : ndarray of shape (n_entries,)
        The entries, the standard deviation of their noise, and the products of popularities.
    """
    root, noise = np.sqrt(size), spread**2
    total = max(float(size.sum()), np.finfo(float).tiny)
    factor = float(residual @ root) / total
    chance = float(noise @ size) / total**2
    factor = max(factor - chance / factor, 0.0) if factor > 0 else 0.0
    away = residual - factor * root
    signal = max(float((away**2).sum() - noise.sum()), 0.0) / total * size
    found: Floats = factor * root + away * signal / np.maximum(signal + noise, np.finfo(float).tiny)
    return found


def significant_pairs(residual: Floats, spread: Floats, groups: Integers) -> Floats:
    """Return the entries that stand out from chance, drawn towards zero by the level from which on they do.

    Parameters
    ----------
    residual : ndarray of shape (size, size)
        Symmetric; its diagonal is not used.
    spread : ndarray of shape (size, size)
        Standard deviation of every entry.
    groups : ndarray of int
        The group of every entry above the diagonal; each group has a level of its own.
    """
    upper = np.triu_indices(len(residual), 1)
    entries, spreads = residual[upper], spread[upper]
    heights = np.abs(entries) / np.maximum(spreads, np.finfo(float).tiny)
    shrunk = np.zeros_like(entries)
    for group in np.unique(groups):
        own = groups == group
        level = _level(heights[own])
        shrunk[own] = np.sign(entries[own]) * np.maximum(np.abs(entries[own]) - level * spreads[own], 0.0)
    pairs = np.zeros_like(residual)
    pairs[upper] = shrunk
    return pairs + pairs.T


def _level(heights: Floats) -> float:
    """Return the least level at which the expected number of normal entries above it is FALSE_PAIRS of those above it."""
    above = len(heights) - np.searchsorted(np.sort(heights), LEVELS)
    by_chance = 1 + len(heights) * erfc(LEVELS / math.sqrt(2))  # and one more, so that few entries are no evidence
    reached = np.flatnonzero(by_chance <= FALSE_PAIRS * above)
    return float(LEVELS[reached[0]]) if len(reached) else math.inf


def _alike(features: Floats | None, size: int) -> Integers:
    """Return the group of each entry above the diagonal, by how alike the features of its items are."""
    upper = np.triu_indices(size, 1)
    if features is None or not features.shape[1]:
        return np.zeros(len(upper[0]), dtype=np.int64)
    cosines = _cosines(features)[upper]
    return np.searchsorted(np.quantile(cosines, ALIKE), cosines).astype(np.int64)


def _cosines(rows: Floats) -> Floats:
    """Return the cosines of all pairs of rows; 0 for a row of zeros."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit = rows / np.where(lengths > 0, lengths, 1.0)
    cosines: Floats = unit @ unit.T
    return cosines


def _diagonal(noisy: Floats, noise: float, users: float, fractions: Floats) -> Floats:
    """Return the diagonal of the release: in proportion to the popularities, and as far from that as it rises above the noise."""
    total = min(max(float(noisy.sum()), LEAST_OWN * users), users)
    usual = total * fractions
    away = noisy - usual
    real = max(float((away**2).mean()) - noise**2, 0.0)
    kept = real / (real + noise**2) if noise > 0 else 1.0
    diagonal: Floats = np.maximum(usual + kept * away, LEAST_OWN * usual)
    return diagonal


def _with_pairs(shared: Floats, pairs: Floats, least: float) -> Floats:
    """Return the sum, with the pairs halved until the smallest eigenvalue is at least `least`."""
    floor = least * np.eye(len(shared))
    while pairs.any():
        try:
            with one_blas_thread():
                np.linalg.cholesky(shared + pairs - floor)
        except np.linalg.LinAlgError:
            pairs = np.where(np.abs(pairs) > least / len(shared), pairs / 2, 0.0)
        else:
            break
    return shared + pairs
