"""Linear dependence of the original on its release: per column (CM), and for all columns together (CCA).

CM and CCA are sections 7.2.1 and 7.2.2 of Thapa (2013).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tacit.errors import InvalidInputError, words
from tacit.measure.inputs import TablePair, table_pair
from tacit.validation import TableLike

# Directions with less than this fraction of the largest singular value of standardised columns count as rounding.
_RANK_TOLERANCE = 1e-9


def correlation_measure(original: TableLike, released: TableLike) -> float:
    r"""Return CM, the mean correlation of each column with its release.

    .. math::
        CM = \frac{1}{m} \sum_{j=1}^{m} \operatorname{corr}(a_{\cdot j}, b_{\cdot j})

    Adding a constant to a column or multiplying it by a positive number does not change it. A column that is constant in the
    release counts as 0.

    Parameters
    ----------
    original, released : array-like or data frame of shape (n_rows, n_columns)
        The table, without constant columns, and its release.

    Returns
    -------
    float
        From -1 to 1; the closer to 0, the more distorted.

    References
    ----------
    Thapa (2013), equation (7.1), where n stands for the number of columns.

    Examples
    --------
    >>> round(correlation_measure([[1.0, 0.0], [2.0, 1.0], [3.0, 1.0]], [[12.0, 5.0], [14.0, 5.0], [16.0, 5.0]]), 12)
    0.5
    """
    pair = table_pair(original, released, least_rows=2, varying=True)
    before, after = _unit_columns(pair.original), _unit_columns(pair.released)
    correlations = np.clip(np.einsum("ij,ij->j", before, after), -1.0, 1.0)
    return float(correlations.mean())  # CM, equation (7.1)


def canonical_correlation(original: TableLike, released: TableLike) -> float:
    r"""Return CCA, the mean of the canonical correlations between the table and its release.

    .. math::
        CCA = \frac{1}{r} \sum_{j} \lambda_j, \qquad R_{11}^{-1/2} R_{12} R_{22}^{-1/2} = U \Lambda V^\top

    where R are the correlations within and between the tables, and r is the number of columns of the original, or the rank of
    its correlations if that is smaller. It is 1 for any invertible linear map of the columns, such as a rotation, and any
    translation: such a release hides nothing from an attacker who knows a few rows.

    The singular values are computed from orthonormal bases of the centred columns, without an inverse. For an unrelated
    release it is about :math:`\sqrt{m / n}`, which is large for few rows.

    Parameters
    ----------
    original, released : array-like or data frame of shape (n_rows, n_columns)
        The table, without constant columns and with more rows than columns, and its release.

    Returns
    -------
    float
        From 0 to 1 (the release determines the original); smaller is more distorted.

    References
    ----------
    Thapa (2013), equations (7.9) and (7.10), where k is the number of columns.

    Examples
    --------
    >>> table = [[1.0, 0.0], [2.0, 1.0], [3.0, 0.0], [1.0, 5.0]]
    >>> turned = [[7.0 - y, x] for x, y in table]
    >>> round(canonical_correlation(table, turned), 12)
    1.0
    """
    pair = table_pair(original, released, least_rows=2, varying=True)
    _check_rows(pair)
    before, after = _basis(pair.original), _basis(pair.released)
    if after.shape[1] == 0:
        return 0.0
    values = np.linalg.svd(before.T @ after, compute_uv=False)  # Lambda of equation (7.9)
    return float(np.clip(values, 0.0, 1.0).sum() / before.shape[1])  # CCA, equation (7.10)


def _check_rows(pair: TablePair) -> None:
    n_rows, n_columns = pair.original.shape
    if n_rows <= n_columns:
        raise InvalidInputError(
            f"more rows than the {n_columns} columns",
            words(f"{n_rows} rows"),
            "Compare fewer columns: with fewer rows than columns, any two tables are perfectly correlated.",
        )


def _unit_columns(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the columns centred and of norm 1; constant ones as zeros."""
    # Scaling first keeps the squares of very large and very small values in range.
    spread = np.ptp(table, axis=0)
    centred = np.where(spread > 0, table - table.mean(axis=0), 0.0) / np.where(spread > 0, spread, 1.0)
    norms = np.linalg.norm(centred, axis=0)
    return centred / np.where(norms > 0, norms, 1.0)


def _basis(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return an orthonormal basis of the space that the centred columns span."""
    left, sizes, _ = np.linalg.svd(_unit_columns(table), full_matrices=False)
    basis: NDArray[np.float64] = left[:, sizes > _RANK_TOLERANCE * max(float(sizes[0]), 1e-300)]
    return basis
