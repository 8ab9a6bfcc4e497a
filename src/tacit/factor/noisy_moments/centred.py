r"""Mean and covariance of rows, in three noisy sums, each of which makes the next one cheaper.

1. The number of rows and the column sums. Where there are many columns, those whose noisy sum does not rise above the
   noise are left out from here on: which ones is seen in what was released, so the choice is free.
2. One number: how far, on average, a row lies from the mean on the columns that are left.
3. The second moment of the rows' *distances to the mean*, clipped to the length found in 2. A row of norm 1 that lies
   0.5 from the mean moves it by 0.25 in place of 1: a quarter of the noise.

The noise of step 3 is a symmetric Gaussian matrix, whose eigenvalues fill a semicircle up to a known edge; the
eigenvalues of the covariance are shrunk accordingly [1]_.

References
----------
.. [1] D. Donoho, M. Gavish, I. Johnstone. Optimal shrinkage of eigenvalues in the spiked covariance model. Ann. Stat.
2018;
   for symmetric noise the Frobenius-optimal rule is :math:`\sqrt{\lambda^2 - e^2}` above the edge `e`, zero below.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.channel import Bound, Outcome, Program, Split, Sum
from tacit.estimators.rows import clip_rows, row_norms
from tacit.factor.noisy_moments.symmetric import pack, semicircle_edge, shrink, unpack

SPLIT = Split(sums=0.15, spread=0.02, second=0.83)
"""How the three sums divide their budget."""
COUNT_FRACTION = 0.1
"""Fraction of the first sum's budget that the number of rows gets; the column sums get the rest."""
BLOCK = 2048
LEAST_SPREAD = 0.05
"""The clipping length of step 3 is at least this share of the row norm, whatever the noisy spread says."""


@dataclass(frozen=True)
class CentredMoments:
    """What the three sums say.

    Attributes
    ----------
    count : float
        Noisy number of rows.
    columns : ndarray of int
        The columns that rose above the noise, in order.
    mean : ndarray of shape (n_columns,)
        On these columns, not negative.
    covariance : ndarray of shape (n_columns, n_columns)
        Shrunk; positive semi-definite.
    rank : int
        Directions in which the covariance rose above the noise.
    """

    count: float
    columns: NDArray[np.intp]
    mean: NDArray[np.float64]
    covariance: NDArray[np.float64]
    rank: int


def centred_moments_program(
    X: Any,
    *,
    row_norm: float,
    max_columns: int,
    outliers: float | None,
    split: Split = SPLIT,
) -> Program:
    """One holder's view of the three sums.

    Parameters
    ----------
    X : array or CSR matrix, not negative
    row_norm : float
        Rows are clipped to this L2 norm.
    max_columns : int
        At most so many columns enter the covariance: those with the largest noisy sums.
    outliers : float or None
        Entries of a row may differ from the mean by at most this much; what is beyond counts as an outlier and is cut
        off. (Soft thresholding the difference by `outliers` and taking the result away leaves just that.) The
        clipping of rows comes after it, so the bound stays.
    split : Split
        With the steps "sums", "spread" and "second".
    """
    rows = clip_rows(X, row_norm)
    units = rows.shape[0]
    total = yield Sum(
        count=[units],
        total=np.asarray(rows.sum(axis=0)).ravel(),
        bound={"count": 1.0, "total": Bound(row_norm, change=math.sqrt(2) * row_norm)},
        fractions={"count": COUNT_FRACTION, "total": 1 - COUNT_FRACTION},
        step=split["sums"],
        units=units,
    )
    count = max(float(total["count"][0]), 1.0)
    columns = columns_above_noise(total.total, total.noise["total"], max_columns)
    mean = np.maximum(total.total[columns], 0.0) / count

    squares = sum(
        float(np.minimum(row_norms(away) ** 2, row_norm**2).sum()) for away in _distances(rows, columns, mean, outliers)
    )
    spread = yield Sum(
        spread=[squares], bound=Bound(row_norm**2, change=row_norm**2), step=split["spread"], units=units
    )
    length = math.sqrt(min(max(float(spread.spread[0]) / count, (LEAST_SPREAD * row_norm) ** 2), row_norm**2))

    outer = np.zeros((len(columns), len(columns)))
    for away in _distances(rows, columns, mean, outliers):
        clipped = clip_rows(away, length)
        outer += clipped.T @ clipped
    second = yield Sum(
        second=pack(outer),
        bound=Bound(length**2, change=math.sqrt(2) * length**2),
        step=split["second"],
        units=units,
    )
    edge = semicircle_edge(second.noise["second"], len(columns))
    covariance, rank = shrink(unpack(second.second, len(columns)) / count, edge / count)
    return Outcome({"moments": CentredMoments(count, columns, mean, covariance, rank)})


def columns_above_noise(sums: NDArray[np.float64], noise: float, most: int) -> NDArray[np.intp]:
    """Return the columns worth keeping: at least one, at most `most`, those with the largest sums.

    Where a choice has to be made, a column must exceed what the largest of as many noise terms would be; where there is
    room for all, it need only be positive (a weak column then costs little, and leaving out a dark pixel more).
    """
    threshold = noise * math.sqrt(2 * math.log(len(sums))) if len(sums) > most else 0.0
    return np.sort(np.argsort(-sums, kind="stable")[: max(1, min(most, int((sums > threshold).sum())))])


def _distances(
    rows: Any, columns: NDArray[np.intp], mean: NDArray[np.float64], outliers: float | None
) -> Iterator[NDArray[np.float64]]:
    """Yield the rows' distances to the mean, a block of rows at a time, so that sparse data is never dense as a whole."""
    for start in range(0, rows.shape[0], BLOCK):
        chosen = rows[start : start + BLOCK][:, columns]
        away = (chosen if isinstance(chosen, np.ndarray) else chosen.toarray()) - mean
        yield away if outliers is None else np.clip(away, -outliers, outliers)
