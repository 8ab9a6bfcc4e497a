r"""A Gaussian copula over bins: noisy histograms within classes, and one noisy correlation of normal scores.

A value's score is the mean of a standard normal variable within its bin's share of the probability,
:math:`s_k = E[Z \mid \Phi^{-1}(F_{k-1}) < Z < \Phi^{-1}(F_k)]`. If the columns are cut from normal variables of correlation
:math:`\rho`, then :math:`E[s_j s_l] = \rho\, v_j v_l` to first order in :math:`\rho` (exactly, where one of them is not cut),
with :math:`v = E[s^2]`, which the histogram gives. So categories need no jitter, and bins no correction.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2, norm

from tacit.channel import Bound, Outcome, Program, Split, Sum
from tacit.factor.noisy_moments.symmetric import nearest_semidefinite

HISTOGRAMS, CORRELATION = 0.6, 0.4
"""How the two sums divide the budget."""
COUNT_FRACTION = 0.05
"""Fraction of the first sum's budget that the class counts get; the histograms get the rest."""
MOST_SCORE = 4.0
Matrix = NDArray[np.float64]


def copula_split(n_columns: int) -> Split:
    """Return the sums to plan: a single column has no correlation."""
    if n_columns == 1:
        return Split(histograms=1.0)
    return Split(histograms=HISTOGRAMS, correlation=CORRELATION)


def copula_program(
    codes: NDArray[np.intp],
    classes: NDArray[np.intp],
    *,
    sizes: Sequence[int],
    n_classes: int,
) -> Program:
    """One holder's view: ask for class counts and histograms; turn rows into scores by them; ask for their products.

    Parameters
    ----------
    codes : ndarray of shape (n_rows, n_columns)
        Bins of the values.
    classes : ndarray of shape (n_rows,)
    sizes : sequence of int
        Number of bins of each column.
    n_classes : int
    """
    units, width = codes.shape
    split = copula_split(width)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    histograms = np.zeros((n_classes, int(starts[-1])))
    for place in range(width):
        np.add.at(histograms, (classes, starts[place] + codes[:, place]), 1.0)
    total = yield Sum(
        counts=np.bincount(classes, minlength=n_classes).astype(np.float64),
        histograms=histograms,
        # a row is 1 in one class, and 1 in one bin of every column
        bound={
            "counts": Bound(1.0, change=math.sqrt(2)),
            "histograms": Bound(math.sqrt(width), change=math.sqrt(2 * width)),
        },
        fractions={"counts": COUNT_FRACTION, "histograms": 1 - COUNT_FRACTION},
        step=split["histograms"],
        units=units,
    )
    counts = np.maximum(total.counts, 0.0)
    count = max(float(counts.sum()), 1.0)
    shares = counts / counts.sum() if counts.sum() > 0 else np.full(n_classes, 1 / n_classes)
    marginals = np.zeros_like(histograms)
    scores = np.zeros_like(histograms)
    for group in range(n_classes):
        for place in range(width):
            bins = slice(starts[place], starts[place + 1])
            marginals[group, bins] = to_simplex(total.histograms[group, bins] / max(counts[group], 1.0))
            scores[group, bins] = normal_scores(marginals[group, bins])
    correlation = np.eye(width)
    if width > 1:
        scored = scores[classes[:, None], starts[:-1] + codes]
        length = score_length(width)
        bound = products_bound(width)
        scored *= np.minimum(1.0, length / np.maximum(np.linalg.norm(scored, axis=1, keepdims=True), 1e-300))
        upper = np.triu_indices(width, 1)
        products = yield Sum(
            products=(scored.T @ scored)[upper],
            bound=bound,
            step=split["correlation"],
            units=units,
        )
        spread = np.add.reduceat(marginals * scores**2, starts[:-1], axis=1)
        scale = np.einsum("c,cj,cl->jl", shares, spread, spread)[upper] * count * kept_by_clipping(width)
        correlation = as_correlation(products.products, scale, products.noise["products"], width)
    return Outcome(
        public={"count": count, "class_fractions": shares, "marginals": marginals, "correlation": correlation}
    )


def score_length(width: int) -> float:
    """Return the L2 norm to which a row's scores are clipped: the square is the mean of a row's, and two of its deviations."""
    return math.sqrt(width + 2 * math.sqrt(2 * width))


def products_bound(width: int) -> Bound:
    r"""Return the bound of one row's products of scores: its norm, and how far the products of two rows can be apart.

    Let x and y be rows of scores with :math:`\|x\|, \|y\| \le L` and p(x) the vector of all :math:`x_j x_l` with j < l. Each
    product is an entry above the diagonal of :math:`x x^T`, so

    .. math::
        \|p(x)\|^2 = \tfrac12 \big(\|x\|^4 - \sum_j x_j^4\big) \le \tfrac12 L^4 (1 - 1/m)

    by the inequality of Cauchy and Schwarz, with equality where all :math:`|x_j|` are equal. For two rows

    .. math::
        \|p(x) - p(y)\|^2 = \tfrac12 \big(\|x x^T - y y^T\|_F^2 - \sum_j (x_j^2 - y_j^2)^2\big)
        \le \tfrac12 \big(\|x\|^4 + \|y\|^4 - 2 (x^T y)^2\big) \le L^4 ,

    which is less than twice the norm for m > 2. Equality: x has equal scores in an even number of columns and 0 in the others,
    and y is x with the signs of half of them changed. So the change of :math:`L^2` is attained for every m of at least 2.
    """
    square = score_length(width) ** 2
    return Bound(square * math.sqrt((1 - 1 / width) / 2), change=square)


def kept_by_clipping(width: int) -> float:
    """Return the share of the squared length of independent normal scores that is left when rows are clipped."""
    square = score_length(width) ** 2
    # E[min(r^2, L^2)] for r^2 of chi-squared law: r^2 f_k(r^2) = k f_{k+2}(r^2)
    return float(chi2.cdf(square, width + 2) + square / width * chi2.sf(square, width))


def to_simplex(values: Matrix) -> Matrix:
    """Return the nearest probabilities (Euclidean): what noise took below zero goes to zero, the rest gives way alike."""
    ordered = np.sort(values)[::-1]
    excess = (np.cumsum(ordered) - 1) / np.arange(1, len(values) + 1)
    threshold = excess[np.flatnonzero(ordered > excess)[-1]]
    nearest: Matrix = np.maximum(values - threshold, 0.0)
    return nearest


def normal_scores(probabilities: Matrix) -> Matrix:
    """Return the mean of a standard normal variable within each bin; where a bin is empty, its place."""
    ends = np.concatenate([[0.0], np.cumsum(probabilities)])
    cuts = np.clip(norm.ppf(np.clip(ends / ends[-1], 0.0, 1.0)), -MOST_SCORE, MOST_SCORE)
    density = norm.pdf(cuts)
    mass = np.diff(norm.cdf(cuts))
    middle = (cuts[1:] + cuts[:-1]) / 2
    means = np.divide(density[:-1] - density[1:], mass, out=middle.copy(), where=mass > 1e-9)
    scores: Matrix = np.clip(means, -MOST_SCORE, MOST_SCORE)
    return scores


def as_correlation(products: Matrix, scale: Matrix, noise: float, width: int) -> Matrix:
    """Return a correlation matrix from noisy sums of products of scores.

    The off-diagonals are shrunk together as far as they may be noise (positive-part James-Stein), then the matrix is brought to
    the nearest positive semi-definite one with ones on its diagonal.
    """
    upper = np.triu_indices(width, 1)
    usable = scale > 1e-6 * max(float(scale.max(initial=0.0)), 1e-300)
    off = np.divide(products, scale, out=np.zeros_like(products), where=usable)
    expected = float(np.sum((noise / scale[usable]) ** 2))
    energy = float(np.sum(off[usable] ** 2))
    off *= max(0.0, 1.0 - expected / energy) if energy > 0 else 0.0
    matrix = np.eye(width)
    matrix[upper] = np.clip(off, -0.999, 0.999)
    matrix = nearest_semidefinite(matrix + np.triu(matrix, 1).T)
    spread = np.sqrt(np.maximum(np.diag(matrix), 1e-12))
    correlation: Matrix = matrix / np.outer(spread, spread)
    np.fill_diagonal(correlation, 1.0)
    return correlation


def sample_codes(
    n_rows: int,
    shares: Matrix,
    marginals: Matrix,
    correlation: Matrix,
    starts: NDArray[np.intp],
    generator: np.random.Generator,
) -> tuple[NDArray[np.intp], NDArray[np.intp], Matrix]:
    """Return classes, bins and places within bins of new rows."""
    width = len(correlation)
    classes = generator.choice(len(shares), size=n_rows, p=shares)
    values, vectors = np.linalg.eigh(correlation)
    normal = generator.standard_normal((n_rows, width)) @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
    uniform = norm.cdf(normal)
    codes = np.zeros((n_rows, width), dtype=np.intp)
    within = np.zeros((n_rows, width))
    for group in np.unique(classes):
        rows = np.flatnonzero(classes == group)
        for place in range(width):
            bins = marginals[group, starts[place] : starts[place + 1]]
            ends = np.concatenate([[0.0], np.cumsum(bins)])
            ends /= ends[-1]
            found = np.clip(np.searchsorted(ends, uniform[rows, place], side="right") - 1, 0, len(bins) - 1)
            size = np.maximum(ends[found + 1] - ends[found], 1e-12)
            codes[rows, place] = found
            within[rows, place] = np.clip((uniform[rows, place] - ends[found]) / size, 0.0, 1.0)
    return classes, codes, within
