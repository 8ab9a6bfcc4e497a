r"""Mean and covariance of rows, in three noisy sums, each of which makes the next one cheaper.

1. The number of rows and the column sums, which give a first centre.
2. One number: how far, on average, a row lies from the centre.
3. The sum of the rows' *differences to the centre*, clipped to the length found in 2, which corrects the centre; and their
   second moment on chosen columns. A row of norm 1 that lies 0.5 from the centre moves the second moment by 0.25
   in place of 1: a quarter of the noise.

**The budget decides what is asked for in 3.** The first sum says how many rows there are, so it is known how strong the
noise of a covariance of m columns would be. The columns are as many as gain most under a model of its spectrum
(`divide`), or for topics those whose sums are clear of the noise. If the gain is nowhere positive there is no covariance,
and all that is left goes to the mean.
The mean itself is shrunk towards a constant, or to zero where it is small, as far as the noise asks for (`shrunk_sums`).
So a small data set ends with a mean, a tiny one with a constant. These choices use released numbers only.

The noise of a second moment is a symmetric Gaussian matrix, whose eigenvalues fill a semicircle up to a known edge; the
eigenvalues of the covariance are shrunk accordingly [1]_. What is below the edge is guessed from columns that are alike
(`tacit.factor.noisy_moments.alike_columns`).

References
----------
.. [1] D. Donoho, M. Gavish, I. Johnstone. Optimal shrinkage of eigenvalues in the spiked covariance model. Ann. Stat.
2018;
   for symmetric noise the Frobenius-optimal rule is :math:`\sqrt{\lambda^2 - e^2}` above the edge `e`, zero below.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.channel import Bound, Outcome, Program, Split, Sum
from tacit.estimators.input import Rows, clip_rows, row_norms
from tacit.factor.arrays import Floats
from tacit.factor.noisy_moments.alike_columns import likely_rest
from tacit.factor.noisy_moments.symmetric import leading, leading_sparse, pack, semicircle_edge, unpack

SPLIT = Split(sums=0.15, spread=0.02, second=0.83)
"""How the three sums divide their budget. Chosen on the CBCL faces of docs/results/nmf.md."""
COUNT_FRACTION = 0.1
"""Fraction of the first sum's budget that the number of rows gets; the column sums get the rest. Set by hand: the count
is one number, and is known well with little."""
MEAN_FRACTIONS = (0.1, 0.2, 0.4, 0.6, 0.8)
"""Of the third sum's budget, one of these fractions is for the correction of the mean, if there is a covariance."""
CAUTION = 2.0
"""The covariance is decided upon for a number of rows that lies this many standard deviations below the noisy one, and as many
are allowed for chance in the cautious mean. Set after 100 rows of Yale B at epsilon 0.3 had ended worse than a noisy mean: the
benchmark's own data."""
WEIGHT_FRACTION = 0.02
"""Fraction of the third sum's budget for the number of rows that count in the correction."""
SPECTRUM = 0.4 / np.arange(1, 101)
"""The covariance's eigenvalues are expected to be these fractions of the squared distance to the mean, times the part of the
rows' squared length that the mean has: where rows have much in common, they also differ in few directions. Chosen on MNIST, BBC
and synthetic images."""
SPREAD, SPREAD_DOUBT = 0.3, 0.2
"""Expected squared distance of a row to the centre, over the squared row norm, and the standard deviation of that guess."""
CLEAR, LEAST_CLEAR = 3.0, 20
"""Without the columns' own variances, the covariance has the columns whose sums are this many standard deviations of their noise,
if there are at least so many: `divide` weighs errors, and asks for too few columns for what they have in common. The first was
chosen between 1.5 and 4 on the corpora of `tacit.factor.nmf.topics` at epsilon 1 and 3, the second set by hand."""
ALLOWED, LEAST_ALLOWED = 7.0, 350
"""And at most the second number, or the first times the square root of the number of rows over the noise of a bound of 1 if that
is more: 358 for 4,000 rows at epsilon 3 and delta 1e-5. More columns bring more noise. There, 250, 360 and 510 were compared on
11 parts of these corpora: 360 had the most coherent topics and, with 250, the most different words. With 8,000 rows, and at
epsilon 10, more were better. The second was set after 267 words of BBC had been too few: the benchmark's own data."""
LEAST_SPREAD = 0.05
"""The clipping length of step 3 is at least this fraction of the row norm. Set by hand, so that a noisy spread near or below
zero does not clip all rows to nothing."""
TINY = 1e-12
"""Lower bound of divisors that may be zero, far below any length or variance that matters."""
BLOCK = 2**22
"""Numbers of dense rows in memory at a time."""


@dataclass(frozen=True)
class CentredMoments:
    """What the three sums say.

    Attributes
    ----------
    count : float
        Noisy number of rows.
    spread : float
        Noisy root mean square distance of a row to the centre.
    mean : ndarray of shape (n_features,)
        Shrunk; not negative if the rows are not.
    cautious_mean : ndarray of shape (n_features,)
        The mean without what may be noise, however it came out: for predictions that have nothing beside it.
    columns : ndarray of int
        The columns of the covariance, in order; empty if the noise would have drowned it.
    values : ndarray of shape (rank,)
        Eigenvalues of the covariance that rose above the noise, shrunk, the largest first; then the likely ones of what the noise
        hides, if that was asked for.
    vectors : ndarray of shape (rank, n_features)
        The eigenvectors, zero outside `columns`.
    noise : float
        Standard deviation of the noise in an entry of the covariance off its diagonal, before its directions were found. If
        entries were drawn towards zero, it is what that leaves of their noise.
    covariance : ndarray of shape (n_columns, n_columns)
        The covariance as it was released. Without entries if there is none, or if whoever makes the moments does not give it.
    covariance_noise : float
        Standard deviation of the noise in an entry of `covariance` off its diagonal.
    """

    count: float
    spread: float
    mean: Floats
    cautious_mean: Floats
    columns: NDArray[np.intp]
    values: Floats
    vectors: Floats
    noise: float
    covariance: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    covariance_noise: float = 0.0


def centred_moments_program(
    X: Rows,
    *,
    row_norm: float,
    max_columns: int,
    outliers: float | None = None,
    non_negative: bool = True,
    rank: int | None = None,
    own_variance: bool = True,
    shortening: float = 1.0,
    split: Split = SPLIT,
) -> Program:
    """One holder's view of the three sums.

    Parameters
    ----------
    X : array or CSR matrix
    row_norm : float
        Rows are clipped to this L2 norm.
    max_columns : int
        At most this many columns enter the covariance, which has their number squared of entries.
    outliers : float or None
        Entries of a row may differ from the centre by at most this much; what is beyond counts as an outlier and is
        cut off. (Soft thresholding the difference by `outliers` and taking the result away leaves just that.) The
        clipping of rows comes after it, so the bound stays.
    non_negative : bool
        Whether the entries are known not to be negative: then replacing a row moves the column sums less.
    rank : int, optional
        Ask for a covariance in any case, and return this many eigenvectors; the value of those that did not rise above
        the noise is 0.
    own_variance : bool
        Whether the directions explain the columns' variances too, and what the noise hides is guessed; or only what columns
        have in common, in directions of few columns (`tacit.factor.noisy_moments.symmetric.leading_sparse`).
    shortening : float
        The clipping length of the second moment, over the usual one.
    split : Split
        With the steps "sums", "spread" and "second".
    """
    rows = clip_rows(X, row_norm)
    units, features = rows.shape
    # two non-negative vectors of norm 1 are at most sqrt(2) apart, others 2; so are two outer products, at most sqrt(2)
    apart = math.sqrt(2) if non_negative else 2.0
    first = yield Sum(
        count=[units],
        total=np.asarray(rows.sum(axis=0)).ravel(),
        bound={"count": 1.0, "total": Bound(row_norm, change=apart * row_norm)},
        fractions={"count": COUNT_FRACTION, "total": 1 - COUNT_FRACTION},
        step=split["sums"],
        units=units,
    )
    count = max(float(first["count"][0]), 1.0)
    noise = first.noise["total"]
    sums = shrunk_sums(first.total, noise, non_negative=non_negative)
    centre = sums / count
    squares = sum(
        float(np.minimum(row_norms(away) ** 2, row_norm**2).sum()) for away in _differences(rows, centre, outliers)
    )
    spread = yield Sum(
        spread=[squares], bound=Bound(row_norm**2, change=row_norm**2), step=split["spread"], units=units
    )
    length = row_norm * clipping_length(
        float(spread.spread[0]) / row_norm**2 / count, spread.noise["spread"] / row_norm**2 / count
    )

    # the noise of a bound of 1 in step 3, from that of step 1: public, as both follow from the plan
    relative = noise / row_norm * math.sqrt(split["sums"].weight * (1 - COUNT_FRACTION) / split["second"].weight)
    energy = max(float(first.total @ first.total) - features * noise**2, 0.0) / count**2
    sizes = np.abs(sums) if non_negative else np.ones(features)
    # at least this many rows, as far as the noise lets that be said: a count that came out too high must not promise too much
    fewest = max(count - CAUTION * first.noise["count"], 1.0)
    kept, mean_fraction = divide(
        np.sort(sizes)[::-1],
        relative / fewest,
        noise / length / fewest,
        energy / length**2,
        max_columns,
    )
    clear = int((first.total > CLEAR * noise).sum())
    if not own_variance and clear >= LEAST_CLEAR:
        allowed = max(int(ALLOWED * math.sqrt(fewest / max(relative, TINY))), LEAST_ALLOWED)
        kept, mean_fraction = min(clear, allowed, max_columns), MEAN_FRACTIONS[0]
    if rank is not None and kept < rank:
        kept, mean_fraction = min(max(rank, max_columns), features), MEAN_FRACTIONS[0]
    columns = np.sort(np.argsort(-sizes, kind="stable")[:kept])
    # about the part of the squared distance that is in these columns
    length_kept = (
        shortening * length * math.sqrt(max(float(sizes[columns].sum() / max(sizes.sum(), TINY)), LEAST_SPREAD**2))
    )

    shift, weight, outer = _clipped_sums(rows, centre, outliers, columns, length, length_kept)
    arrays: dict[str, Any] = {"shift": shift, "weight": [weight]}
    bounds: dict[str, float | Bound] = {"shift": length, "weight": Bound(1.0, change=1.0)}
    fractions = {"shift": 1 - WEIGHT_FRACTION, "weight": WEIGHT_FRACTION}
    if len(columns):
        arrays["second"], bounds["second"] = pack(outer), Bound(length_kept**2, change=math.sqrt(2) * length_kept**2)
        left = 1 - WEIGHT_FRACTION
        fractions |= {"shift": left * mean_fraction, "second": left * (1 - mean_fraction)}
    last = yield Sum(**arrays, bound=bounds, fractions=fractions, step=split["second"], units=units)

    # a row that was clipped counts less in the correction, by as much as it was clipped
    weight = min(max(float(last["weight"][0]), LEAST_SPREAD * count), count)
    shift, shift_noise = last["shift"] / weight, last.noise["shift"] / weight
    mean, mean_noise = joined(first.total / count, noise / count, centre + shift, shift_noise)
    # around a centre that is off because the count is, all differences are clipped, and the correction repeats the first noise
    sure = (mean, mean_noise) if count > 2 * CAUTION * first.noise["count"] else (first.total / count, noise / count)
    cautious = shrunk_sums(*sure, non_negative=non_negative, caution=CAUTION)
    mean = shrunk_sums(mean, mean_noise, non_negative=non_negative)
    values, vectors, left_noise = np.zeros(0), np.zeros((0, features)), 0.0
    covariance, entry_noise = np.zeros((0, 0)), 0.0
    if len(columns):
        entry_noise = last.noise["second"] / math.sqrt(2) / count
        moved = shrunk_sums(shift, shift_noise, non_negative=False)[columns]
        covariance = unpack(last["second"], len(columns)) / count - np.outer(moved, moved)
        values, directions, left_noise = (
            with_rest(covariance, entry_noise, rank) if own_variance else leading_sparse(covariance, entry_noise)
        )
        vectors = np.zeros((len(values), features))
        vectors[:, columns] = directions
    found = (columns, values, vectors, left_noise, covariance, entry_noise)
    return Outcome({"moments": CentredMoments(count, length, mean, cautious, *found)})


def with_rest(covariance: Floats, noise: float, rank: int | None) -> tuple[Floats, Floats, float]:
    """Return the eigenvalues and eigenvectors above the noise, and the likely ones of the rest; and the noise.

    With `rank`, exactly that many are returned, and the values of those that did not rise above the noise are 0.
    """
    values, directions = leading(covariance, semicircle_edge(math.sqrt(2.0) * noise, len(covariance)), rank)
    above = values > 0
    likely, hidden = likely_rest(covariance, values[above], directions[above], noise)
    if rank is None:
        return np.concatenate([values[above], likely]), np.concatenate([directions[above], hidden]), noise
    # the best guess first, then the leading directions of the noise, made orthogonal to all before them
    basis, triangle = np.linalg.qr(np.concatenate([directions[above], hidden, directions[~above]])[:rank].T)
    return values, (basis * np.where(np.diag(triangle) < 0, -1.0, 1.0)).T, noise


def divide(sizes: Floats, relative: float, first: float, energy: float, most: int) -> tuple[int, float]:
    """Return how many columns the covariance should have, and the fraction of the third sum that the mean should have.

    Parameters
    ----------
    sizes : ndarray of shape (n_features,)
        How much of the rows is in each column, the largest first.
    relative : float
        Standard deviation of the noise in the third sum, over the number of rows and per unit of its bound.
    first : float
        Standard deviation of the noise in the mean after the first sum, over the spread of the rows.
    energy : float
        Squared length of the mean, over the squared spread.
    most : int
        At most this many columns.

    Notes
    -----
    With m columns, which have a fraction F of the sums, the eigenvalues and the squared clipping length are both about F
    times those of all columns; the edge e of the noise is sqrt(2 m) times the squared length times the noise. Of an
    eigenvalue t the noise leaves t - e^2 / (4 t), if that is positive [1]_: what it is worth times the squared cosine
    between its noisy eigenvector and the true one. The gain is F times the sum of that over the spectrum. From it the
    squared error of the mean is taken away, which is at most the mean's own squared length because the mean is shrunk. All
    in units of the squared spread.

    References
    ----------
    .. [1] F. Benaych-Georges, R. R. Nadakuditi. The eigenvalues and eigenvectors of finite, low rank perturbations of large
       random matrices. Adv. Math. 2011.
    """
    total = max(float(sizes.sum()), TINY)
    fraction = np.cumsum(sizes[:most]) / total
    edges = semicircle_edge(relative, 1) * np.sqrt(np.arange(1, len(fraction) + 1))[:, None]
    spectrum = SPECTRUM * max(energy, TINY) / (1 + energy)
    columns = total**2 / max(float(sizes @ sizes), TINY)  # as many columns of equal size would be as uneven

    def mean_error(part: float) -> float:
        noise = columns / (1 / max(first, TINY) ** 2 + part / max(relative, TINY) ** 2)
        return noise * energy / (noise + energy + TINY)

    best, kept, given = -mean_error(1.0), 0, 1.0
    for part in MEAN_FRACTIONS:
        left = np.maximum(spectrum - edges**2 / (1 - part) / (4 * spectrum), 0.0)
        gain = fraction * left.sum(axis=1)
        place = int(np.argmax(gain))
        if gain[place] > 0 and gain[place] - mean_error(part) > best:
            best, kept, given = gain[place] - mean_error(part), place + 1, part
    return kept, given


def clipping_length(spread: float, noise: float) -> float:
    """Return the root mean square distance to the centre, over the row norm, from a noisy mean square and a guess."""
    trust = SPREAD_DOUBT**2 / (SPREAD_DOUBT**2 + noise**2)
    return math.sqrt(min(max(SPREAD + trust * (spread - SPREAD), LEAST_SPREAD**2), 1.0))


def joined(first: Floats, first_noise: float, second: Floats, second_noise: float) -> tuple[Floats, float]:
    """Return the average of two noisy arrays, each weighted by the other's variance, and its noise."""
    variances = first_noise**2 + second_noise**2
    if variances == 0:
        return second, 0.0
    fraction = first_noise**2 / variances
    return fraction * second + (1 - fraction) * first, first_noise * second_noise / math.sqrt(variances)


def shrunk_sums(sums: Floats, noise: float, *, non_negative: bool, caution: float = 0.0) -> Floats:
    """Return noisy numbers drawn towards their average, or cut by a threshold, whichever promises the smaller error.

    Both errors are estimated from the numbers themselves (Stein's unbiased risk estimate; Donoho & Johnstone 1995): many
    numbers of like size are drawn together, a few large ones among many small ones stay and the small ones become zero.

    With `caution`, what this many standard deviations of chance could explain is taken for noise: in the energy around the
    average, which is then drawn together more; in the average, which is then larger, so that differences to it matter less; and
    in the estimated errors, of which a threshold must have a clearly smaller one.
    """
    size = len(sums)
    if noise > 0 and size > 3:
        level = float(sums.mean())
        away = sums - level
        energy, variance, chance = float(away @ away), noise**2, caution * math.sqrt(2 * size)
        kept = max(0.0, 1 - (size - 3 + chance) * variance / max(energy, variance * 1e-12))
        risk = variance * (size - (size - 3) * (1 - kept)) if kept > 0 else max(energy - (size - 2) * variance, 0.0)
        risk -= chance * variance
        if caution > 0:
            level = max(level, 0.0) + caution * noise / math.sqrt(size)
        best = level + kept * away
        for threshold in noise * np.linspace(0.5, math.sqrt(2 * math.log(size)), 8):
            small = np.minimum(np.abs(sums), threshold)
            expected = variance * (size - 2 * float((np.abs(sums) <= threshold).sum())) + float(small @ small)
            if expected < risk:
                best, risk = np.sign(sums) * (np.abs(sums) - small), expected
        sums = best
    return np.maximum(sums, 0.0) if non_negative else sums


def _clipped_sums(
    rows: Rows,
    centre: Floats,
    outliers: float | None,
    columns: NDArray[np.intp],
    length: float,
    length_kept: float,
) -> tuple[Floats, float, Floats]:
    """Return sums over the rows: of the differences, of their weights, and of the differences' outer products on `columns`.

    Differences are clipped to `length`, on the columns to `length_kept`. A row's weight is what clipping leaves of its length.
    """
    shift, weight, outer = np.zeros(rows.shape[1]), 0.0, np.zeros((len(columns), len(columns)))
    for away in _differences(rows, centre, outliers):
        weight += float(np.minimum(1.0, length / np.maximum(row_norms(away), length)).sum())
        shift += clip_rows(away, length).sum(axis=0)
        chosen = clip_rows(away[:, columns], length_kept)
        outer += chosen.T @ chosen
    return shift, weight, outer


def _differences(rows: Rows, centre: Floats, outliers: float | None) -> Iterator[Floats]:
    """Yield the rows' differences to the centre, a block of rows at a time, so that sparse data is never dense as a whole."""
    size = max(1, BLOCK // rows.shape[1])
    for start in range(0, rows.shape[0], size):
        block = rows[start : start + size]
        away = (block if isinstance(block, np.ndarray) else block.toarray()) - centre
        yield away if outliers is None else np.clip(away, -outliers, outliers)
