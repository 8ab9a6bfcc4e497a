"""How far released values are from the original ones, and how far they moved in the order of values.

The formulas are those of Thapa (2013), section 2.4. A is the original table of n rows and m columns, B the release.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import InvalidInputError, words
from tacit.measure.inputs import Pair, table_pair


def value_difference(original: Any, released: Any) -> float:
    r"""Return VD, the relative difference of the values.

    .. math::
        VD = \frac{\lVert A - B \rVert_F}{\lVert A \rVert_F}

    0 for a release that changes nothing; 1 for a table of zeros, or for one as far away. It depends on the units and on
    where zero is: a translation that hides nothing has a large VD.

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
    return float(np.linalg.norm(pair.original / scale - pair.released / scale)) / size


def rank_position(original: Any, released: Any) -> float:
    r"""Return RP, by how many places a value moves on average in the order of its column.

    .. math::
        RP = \frac{1}{nm} \sum_{j=1}^{m} \sum_{i=1}^{n} \lvert \operatorname{rank}(a_{ij}) - \operatorname{rank}(b_{ij}) \rvert

    Ranks are among the n values of a column; equal values share the mean of their places, so that the order of the
    rows does not count. About n/3 for a release that has nothing to do with the original.

    Parameters
    ----------
    original, released : array-like or data frame of shape (n_rows, n_columns)
        The table and its release.

    Returns
    -------
    float
        From 0, all ranks kept, to n/2; larger is more distorted.

    References
    ----------
    Thapa (2013), equation (2.8).

    Examples
    --------
    >>> rank_position([[1.0], [2.0], [3.0]], [[10.0], [30.0], [20.0]])
    0.6666666666666666
    """
    before, after = _ranks_in_columns(table_pair(original, released, least_rows=2))
    return float(np.abs(before - after).mean())


def rank_maintenance(original: Any, released: Any) -> float:
    """Return RM, the share of values that keep their rank in their column.

    Ranks are as in `rank_position`; equation (2.9) of Thapa (2013).

    Parameters
    ----------
    original, released : array-like or data frame of shape (n_rows, n_columns)
        The table and its release.

    Returns
    -------
    float
        From 0 to 1, all ranks kept; smaller is more distorted.

    Examples
    --------
    >>> rank_maintenance([[1.0], [2.0], [3.0]], [[10.0], [30.0], [20.0]])
    0.3333333333333333
    """
    before, after = _ranks_in_columns(table_pair(original, released, least_rows=2))
    return float(np.mean(before == after))


def attribute_rank_change(original: Any, released: Any) -> float:
    r"""Return CP, by how many places a column moves on average when the columns are ordered by their means.

    .. math::
        CP = \frac{1}{m} \sum_{j=1}^{m}
        \lvert \operatorname{rank}(\bar a_j) - \operatorname{rank}(\bar b_j) \rvert

    Columns with equal means share the mean of their places.

    Parameters
    ----------
    original, released : array-like or data frame of shape (n_rows, n_columns)
        The table and its release.

    Returns
    -------
    float
        From 0, the order kept, to m/2; larger is more distorted.

    References
    ----------
    Thapa (2013), equation (2.10).

    Examples
    --------
    >>> attribute_rank_change([[1.0, 2.0, 3.0]], [[1.0, 3.0, 2.0]])
    0.6666666666666666
    """
    before, after = _ranks_of_columns(table_pair(original, released))
    return float(np.abs(before - after).mean())


def attribute_rank_maintenance(original: Any, released: Any) -> float:
    """Return CK, the share of columns that keep their place when the columns are ordered by their means.

    Ranks are as in `attribute_rank_change`; equation (2.11) of Thapa (2013).

    Parameters
    ----------
    original, released : array-like or data frame of shape (n_rows, n_columns)
        The table and its release.

    Returns
    -------
    float
        From 0 to 1, the order kept; smaller is more distorted.

    Examples
    --------
    >>> attribute_rank_maintenance([[1.0, 2.0, 3.0]], [[1.0, 3.0, 2.0]])
    0.3333333333333333
    """
    before, after = _ranks_of_columns(table_pair(original, released))
    return float(np.mean(before == after))


def _ranks_in_columns(pair: Pair) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    from scipy.stats import rankdata

    return rankdata(pair.original, axis=0), rankdata(pair.released, axis=0)


def _ranks_of_columns(pair: Pair) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    from scipy.stats import rankdata

    return rankdata(pair.original.mean(axis=0)), rankdata(pair.released.mean(axis=0))
