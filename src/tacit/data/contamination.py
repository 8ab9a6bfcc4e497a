"""Adds outliers to clean data, to test how fits handle them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.errors import InvalidInputError, Undisclosed, kind_of, parameter
from tacit.validation import check_rate, check_seed


@dataclass(frozen=True, eq=False, repr=False)
class Contaminated(Undisclosed):
    """Data with outliers, and their positions.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_columns)
        The data; equal to the clean data where `mask` is false.
    mask : ndarray of bool, shape (n_rows, n_columns)
        The entries with added noise.
    rows : ndarray of int
        The rows with such entries, in increasing order.
    """

    X: NDArray[Any]
    mask: NDArray[np.bool_]
    rows: NDArray[np.intp]


def contaminate(
    X: ArrayLike,
    *,
    rows: float = 0.1,
    entries: float = 0.7,
    low: float = -1.0,
    high: float = 1.0,
    clip: tuple[float, float] | None = (0.0, math.inf),
    random_state: int = 0,
) -> Contaminated:
    r"""Add uniform noise to a fraction of the entries of a fraction of the rows.

    Of n rows, ``round(rows * n)`` are drawn; in each of them, independently, ``round(entries * d)`` of the d entries.
    Only these entries change, by independent noise:

    .. math::
        x_{ij} \leftarrow \mathrm{clip}(x_{ij} + u_{ij}), \qquad u_{ij} \sim \mathrm{Uniform}(low, high).

    The fractions and the range are those of Saha and Imtiaz (2022), who contaminate 70% of the pixels of 10% of the
    images by U[-1, 1] and refer to Zhao and Tan (2017). They do not state whether noise is added to a pixel or replaces
    it; it is added here, as in their model X = WT + R. Nor do they state what happens to negative results, which a
    non-negative factorisation cannot use; by default they are set to zero (`clip`). The range suits data in [0, 1]:
    scale pixels of 0 to 255 first.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_columns)
        Clean data, which is not changed.
    rows : float
        The fraction of rows, in (0, 1], that get outliers.
    entries : float
        The fraction of the entries of these rows, in (0, 1], that get noise.
    low, high : float
        The range of the noise.
    clip : tuple of float or None
        The least and the greatest value that an entry may have after the noise, for example (0, 1) for images;
        None for no clipping.
    random_state : int
        Seed; the same seed gives the same outliers.

    Returns
    -------
    Contaminated
        The data with outliers, and their positions.

    References
    ----------
    S. Saha and H. Imtiaz (2022). Privacy-preserving non-negative matrix factorization with outliers. |
    R. Zhao and V. Y. F. Tan (2017). Online nonnegative matrix factorization with outliers. IEEE Transactions on
    Signal Processing 65(3).

    Examples
    --------
    >>> dirty = contaminate(np.full((20, 10), 0.5))
    >>> len(dirty.rows), int(dirty.mask.sum())
    (2, 14)
    """
    clean = np.asarray(X)
    if clean.ndim != 2 or clean.dtype.kind not in "biuf":
        raise InvalidInputError(
            "X to be a dense matrix of numbers",
            kind_of(X),
            "Call toarray() on a sparse matrix: noise fills most of a row.",
        )
    if not -math.inf < low < high < math.inf:
        raise InvalidInputError("low < high, both finite", parameter((low, high)), "Give the range of the noise.")
    if clip is not None and not clip[0] < clip[1]:  # may be infinite
        raise InvalidInputError(
            "clip to be two numbers, the smaller one first", parameter(clip), "Give for example (0.0, 1.0)."
        )
    n_rows = round(check_rate(rows, "rows") * clean.shape[0])
    n_entries = round(check_rate(entries, "entries") * clean.shape[1])
    rng = np.random.default_rng(check_seed(random_state))

    chosen = np.sort(rng.permutation(clean.shape[0])[:n_rows])
    columns = rng.random((n_rows, clean.shape[1])).argsort(axis=1)[:, :n_entries]
    mask = np.zeros(clean.shape, dtype=bool)
    mask[chosen[:, None], columns] = True

    dirty = clean.astype(clean.dtype if clean.dtype.kind == "f" else np.float64)
    changed = dirty[mask] + rng.uniform(low, high, size=int(mask.sum()))
    dirty[mask] = changed if clip is None else np.clip(changed, *clip)
    return Contaminated(X=dirty, mask=mask, rows=chosen)
