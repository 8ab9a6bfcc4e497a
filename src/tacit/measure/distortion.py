r"""Distances of released values to the original ones, and changes of their ranks.

The formulas are those of Thapa (2013), section 2.4, equations (2.7) to (2.11). A is the original table of n rows and m
columns, B the release, :math:`\tilde A` in the thesis.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tacit.errors import InvalidInputError, words
from tacit.measure.inputs import TablePair, table_pair
from tacit.validation import TableLike


def entropy_loss(original: TableLike, released: TableLike) -> float:
    r"""Return PL, how much of a value's uncertainty a release takes away: the mean over the columns of :math:`1 - 2^{-I(A; B)}`.

    A value that is known up to an interval of length L has the privacy :math:`2^{h} = L`, with h the differential entropy in
    bits. Seeing the release divides it by :math:`2^{I(A; B)}`. Mutual information I is estimated in parts of equal counts, with
    the bias of Miller and Madow taken off. 0: the release says nothing about the column; near 1: it says nearly everything (at
    most 1 - 1 / ENTROPY_PARTS is seen in parts).

    References
    ----------
    D. Agrawal and C. Aggarwal (2001). On the design and quantification of privacy preserving data mining algorithms. PODS,
    section 3.

    Examples
    --------
    >>> table = np.random.default_rng(0).normal(size=(2000, 1))
    >>> round(entropy_loss(table, table), 2)
    0.9
    """
    pair = table_pair(original, released)
    losses = []
    for before, after in zip(pair.original.T, pair.released.T, strict=True):
        codes = [np.searchsorted(_inner_quantiles(values), values, side="right") for values in (before, after)]
        joint = np.zeros((ENTROPY_PARTS, ENTROPY_PARTS))
        np.add.at(joint, tuple(codes), 1.0)
        entropies = [_entropy(joint.sum(axis=1)), _entropy(joint.sum(axis=0)), _entropy(joint.ravel())]
        losses.append(1 - 2.0 ** -max(entropies[0] + entropies[1] - entropies[2], 0.0))
    return float(np.mean(losses))


ENTROPY_PARTS = 10
"""Parts of a column, by quantiles, in which entropies are counted."""


def _inner_quantiles(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.unique(np.quantile(values, np.linspace(0, 1, ENTROPY_PARTS + 1)[1:-1]))


def _entropy(counts: NDArray[np.float64]) -> float:
    """Return the entropy in bits of the distribution that these counts are drawn from (Miller and Madow's estimate)."""
    known = counts[counts > 0]
    fractions = known / known.sum()
    return float(-np.sum(fractions * np.log2(fractions)) + (len(known) - 1) / (2 * known.sum() * np.log(2)))


def value_difference(original: TableLike, released: TableLike) -> float:
    r"""Return VD, the relative difference of the values.

    .. math::
        VD = \frac{\lVert A - B \rVert_F}{\lVert A \rVert_F}

    It is 0 for an unchanged table, and 1 for a table of zeros. It depends on the units and on the position of zero: a
    translation, which hides nothing, has a large VD.

    Parameters
    ----------
    original, released : array-like or data frame of shape (n_rows, n_columns)
        The table and its release.

    Returns
    -------
    float
        At least zero; larger is more distorted.

    References
    ----------
    N. Thapa (2013). Context aware privacy preserving clustering and classification. PhD thesis, University of
    Kentucky. Equation (2.7).

    Examples
    --------
    >>> value_difference([[3.0, 0.0], [0.0, 4.0]], [[3.0, 0.0], [0.0, 1.0]])
    0.6
    """
    pair = table_pair(original, released)
    # Scaling first keeps the squares of very large and very small values in range.
    scale = float(np.abs(pair.original).max())
    if scale == 0:
        raise InvalidInputError(
            "original to have values other than zero", words("zeros only"), "VD is relative to the original's size."
        )
    size = float(np.linalg.norm(pair.original / scale))
    return float(np.linalg.norm(pair.original / scale - pair.released / scale)) / size  # VD, equation (2.7)


def rank_position(original: TableLike, released: TableLike) -> float:
    r"""Return RP, the average change of a value's rank in its column.

    .. math::
        RP = \frac{1}{nm} \sum_{j=1}^{m} \sum_{i=1}^{n} \lvert \operatorname{rank}(a_{ij}) - \operatorname{rank}(b_{ij}) \rvert

    Ranks are among the n values of a column. Equal values have the mean of their ranks, so that the order of the rows does
    not matter. For an unrelated release it is about n/3.

    Parameters
    ----------
    original, released : array-like or data frame of shape (n_rows, n_columns)
        The table and its release.

    Returns
    -------
    float
        From 0 (all ranks kept) to n/2; larger is more distorted.

    References
    ----------
    Thapa (2013), equation (2.8).

    Examples
    --------
    >>> rank_position([[1.0], [2.0], [3.0]], [[10.0], [30.0], [20.0]])
    0.6666666666666666
    """
    before, after = _ranks_in_columns(table_pair(original, released, least_rows=2))
    return float(np.abs(before - after).mean())  # RP, equation (2.8)


def rank_maintenance(original: TableLike, released: TableLike) -> float:
    """Return RM, the fraction of values that keep their rank in their column.

    Ranks are as in `rank_position`; equation (2.9) of Thapa (2013).

    Parameters
    ----------
    original, released : array-like or data frame of shape (n_rows, n_columns)
        The table and its release.

    Returns
    -------
    float
        From 0 to 1 (all ranks kept); smaller is more distorted.

    Examples
    --------
    >>> rank_maintenance([[1.0], [2.0], [3.0]], [[10.0], [30.0], [20.0]])
    0.3333333333333333
    """
    before, after = _ranks_in_columns(table_pair(original, released, least_rows=2))
    return float(np.mean(before == after))  # RM, equation (2.9)


def attribute_rank_change(original: TableLike, released: TableLike) -> float:
    r"""Return CP, the average change of a column's rank when the columns are ordered by their means.

    .. math::
        CP = \frac{1}{m} \sum_{j=1}^{m}
        \lvert \operatorname{rank}(\bar a_j) - \operatorname{rank}(\bar b_j) \rvert

    Columns with equal means have the mean of their ranks.

    Parameters
    ----------
    original, released : array-like or data frame of shape (n_rows, n_columns)
        The table and its release.

    Returns
    -------
    float
        From 0 (same order) to m/2; larger is more distorted.

    References
    ----------
    Thapa (2013), equation (2.10).

    Examples
    --------
    >>> attribute_rank_change([[1.0, 2.0, 3.0]], [[1.0, 3.0, 2.0]])
    0.6666666666666666
    """
    before, after = _ranks_of_columns(table_pair(original, released))
    return float(np.abs(before - after).mean())  # CP, equation (2.10)


def attribute_rank_maintenance(original: TableLike, released: TableLike) -> float:
    """Return CK, the fraction of columns that keep their rank when the columns are ordered by their means.

    Ranks are as in `attribute_rank_change`; equation (2.11) of Thapa (2013).

    Parameters
    ----------
    original, released : array-like or data frame of shape (n_rows, n_columns)
        The table and its release.

    Returns
    -------
    float
        From 0 to 1 (same order); smaller is more distorted.

    Examples
    --------
    >>> attribute_rank_maintenance([[1.0, 2.0, 3.0]], [[1.0, 3.0, 2.0]])
    0.3333333333333333
    """
    before, after = _ranks_of_columns(table_pair(original, released))
    return float(np.mean(before == after))  # CK, equation (2.11)


def _ranks_in_columns(pair: TablePair) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    from scipy.stats import rankdata

    return rankdata(pair.original, axis=0), rankdata(pair.released, axis=0)


def _ranks_of_columns(pair: TablePair) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    from scipy.stats import rankdata

    return rankdata(pair.original.mean(axis=0)), rankdata(pair.released.mean(axis=0))
