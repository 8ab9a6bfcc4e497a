r"""The two halves of a sweep of non-negative factorisation, each a non-negative least-squares problem with a small Gram matrix.

With the dictionary T fixed, every row w of W minimises a quadratic with Gram matrix :math:`T T^\top`; with W fixed, every
column of T one with :math:`W^\top W`. Both are lowered by HALS, coordinate after coordinate, for several sweeps a Gram matrix.

References
----------
N. Gillis, F. Glineur, "Accelerated multiplicative updates and hierarchical ALS algorithms for nonnegative matrix
factorization", Neural Computation 24(4), 2012.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.channel.asks import COLUMNS_TOGETHER
from tacit.factor.arrays import SomeFloats
from tacit.factor.kernels import gram, hals_sweep, look_ahead, parallel_for
from tacit.factor.row_table import Table, clean, product_of

TO_CONVERGENCE, MOST_SWEEPS = 1e-14, 2000
"""A row is solved when a sweep changes it by less than this fraction of its first change, in squared norm (1e-7 in norm); and the
most sweeps. Set by hand."""
ROUNDS_WITH_OUTLIERS = 500
"""Most alternations of weights and outliers per row. Set by hand."""


@dataclass(frozen=True)
class Penalty:
    r"""What a factor F costs beside the fit: :math:`l_1 \sum |F_{ij}| + \frac{l_2}{2} \sum F_{ij}^2`.

    In eq. 3 of Tsikhanovich et al. (2019), :math:`\alpha` and :math:`\beta` are l1 and l2 of T, and :math:`\gamma` and
    :math:`\delta` those of W.
    """

    l1: float = 0.0
    l2: float = 0.0

    def of(self, factor: SomeFloats) -> float:
        """Return the penalty of a non-negative factor."""
        total = self.l1 * float(np.sum(factor, dtype=np.float64)) if self.l1 else 0.0
        return total + (self.l2 / 2 * float(np.sum(np.square(factor), dtype=np.float64)) if self.l2 else 0.0)

    def __bool__(self) -> bool:
        return self.l1 > 0 or self.l2 > 0


@dataclass(frozen=True)
class Outliers:
    """The cost of an outlier per unit of its size, and its largest size: lambda and M of Saha and Imtiaz (2022)."""

    threshold: float
    bound: float


class RowStatistics(NamedTuple):
    """What the dictionary step needs of a holder's rows; all of it adds up over rows and holders."""

    WX: NDArray[np.float64]
    WW: NDArray[np.float64]
    own: NDArray[np.float64]


NO_PENALTY = Penalty()


def solve_rows(
    X: Table | Any,
    T: SomeFloats,
    W: SomeFloats | None = None,
    *,
    penalty: Penalty = NO_PENALTY,
    outliers: Outliers | None = None,
    most_sweeps: int = MOST_SWEEPS,
    shrink: float = TO_CONVERGENCE,
    in_place: bool = False,
) -> SomeFloats:
    r"""Lower :math:`\frac12\|X - WT - R\|_F^2 + \lambda\|R\|_1` plus the penalty over :math:`W \ge 0` (and R), from `W`.

    Parameters
    ----------
    X : Table, ndarray or CSR matrix of shape (n, d)
    T : ndarray of shape (k, d)
        The dictionary.
    W : ndarray of shape (n, k), optional
        Where to start; zeros if not given. It is left as it is, unless `in_place`.
    penalty : Penalty, optional
        On W.
    outliers : Outliers, optional
        Lets R take what the dictionary does not explain.
    most_sweeps : int
        Most sweeps over the coordinates. With outliers, R and W are minimised in turn, once if this is less than the
        default, and else to convergence.
    shrink : float
        A row is done when a sweep moves less than this fraction of what its first sweep moved (squared length). The default
        solves to convergence. Each row is judged by itself, so that the result of a row does not depend on the others.
    in_place : bool
        Whether `W` may be overwritten.

    Returns
    -------
    W : ndarray of shape (n, k)
        In the precision of `X`.
    """
    table = X if isinstance(X, Table) else Table(X)
    if W is None:
        W = np.zeros((table.shape[0], len(T)), dtype=table.dtype)
    else:
        W = np.array(W, dtype=table.dtype, order="C", copy=None if in_place else True)
    columns = np.ascontiguousarray(T.T, dtype=table.dtype)
    square = gram(columns).astype(table.dtype)
    if outliers is None:
        lower, rows = _Descent.of(square, W.dtype, penalty, most_sweeps, shrink), W
        table.each_product(columns, lambda linear, start, stop: lower(linear, rows[start:stop]), square.size)
        return W
    T = np.ascontiguousarray(T, dtype=table.dtype)
    lower = _Descent.of(square, W.dtype, penalty, most_sweeps, shrink)

    def alternate(block: SomeFloats, ahead: SomeFloats, W: SomeFloats) -> None:
        """Lower W, in place, for the outliers R that are best at `ahead`."""
        cleaned, _ = clean(block, ahead, T, outliers.threshold, outliers.bound)
        lower.on_all_cores(product_of(cleaned, columns), W)

    for place, block in table.dense_blocks():
        if most_sweeps < MOST_SWEEPS:
            alternate(block, W[place], W[place])
        else:
            _converge(alternate, block, square, W[place])
    return W


def _converge(
    alternate: Callable[[SomeFloats, SomeFloats, SomeFloats], None],
    block: SomeFloats,
    square: SomeFloats,
    W: SomeFloats,
) -> None:
    """Minimise R and W in turn, W in place, until each row by itself has converged.

    Eliminating R leaves a convex cost of W that curves no more than the square's; a round is a proximal gradient step in
    that metric, and Nesterov's momentum, restarted row by row when it points uphill, makes the rounds few.
    """
    tolerance = float(np.finfo(W.dtype).eps) ** 0.75  # three quarters of the digits; set by hand
    left, before, ahead, momentum = np.arange(len(W)), W.copy(), W.copy(), np.ones(len(W))
    for _ in range(ROUNDS_WITH_OUTLIERS):
        moved, done = before.copy(), np.zeros(len(left), dtype=bool)
        alternate(block, ahead, moved)
        parallel_for(
            partial(look_ahead, square, before, moved, ahead, momentum, tolerance, done),
            np.arange(len(left) + 1) * square.size,
        )
        W[left] = before = moved
        if done.all():
            return
        if done.any():
            block, before, ahead = block[~done], before[~done], ahead[~done]
            left, momentum = left[~done], momentum[~done]


def total_rows(
    X: Table,
    T: SomeFloats,
    W: SomeFloats,
    *,
    penalty: Penalty = NO_PENALTY,
    outliers: Outliers | None = None,
    out: NDArray[np.float64] | None = None,
) -> RowStatistics:
    r"""Return the statistics of these rows and their factors; with `out` (F-ordered, the shape of T) ``WX`` is put there.

    Returns
    -------
    Statistics
        ``WX``: :math:`W^\top (X - R)` (k x d), ``WW``: :math:`W^\top W` (k x k), and ``own``: the parts of the objective
        that T does not enter, :math:`\frac12\|X - R\|_F^2` and the penalties of W and R.
    """
    penalties = penalty.of(W)
    if outliers is None:
        WX, squares = X.transposed_times(W, None if out is None else out.T), X.squares
    else:
        WX, squares = np.zeros((X.shape[1], W.shape[1])) if out is None else out.T, 0.0
        WX[:] = 0
        for rows, cleaned, size in X.clean_blocks(W, T, outliers.threshold, outliers.bound):
            WX += cleaned.T @ W[rows]
            squares += float(np.sum(np.square(cleaned), dtype=np.float64))
            penalties += outliers.threshold * size
    return RowStatistics(WX.T, gram(W), np.array([squares / 2, penalties]))


def solve_dictionary(
    T: NDArray[np.float64],
    WX: NDArray[np.float64],
    WW: NDArray[np.float64],
    *,
    penalty: Penalty = NO_PENALTY,
    most_sweeps: int = MOST_SWEEPS,
    shrink: float = TO_CONVERGENCE,
    in_place: bool = False,
) -> tuple[NDArray[np.float64], float]:
    r"""Lower :math:`\frac12\langle WW, T T^\top\rangle - \langle WX, T\rangle` plus the penalty over :math:`T \ge 0`, from `T`.

    It sees the totals only, and its sums run in a fixed order: holders with the same totals get the same T, bit by bit.

    Parameters
    ----------
    T : ndarray of shape (k, d)
        Where to start; left as it is, unless `in_place`.
    WX : ndarray of shape (k, d)
    WW : ndarray of shape (k, k)
        Symmetric and positive semi-definite.
    penalty : Penalty, optional
        On T.
    most_sweeps, shrink
        As in `solve_rows`, for the columns of T.
    in_place : bool
        Whether `T` may be overwritten; it is if it is F-ordered.

    Returns
    -------
    T : ndarray of shape (k, d)
    value : float
        The minimum reached; the objective is this plus what T does not enter.
    """
    columns = np.array(T.T, dtype=np.float64, order="C", copy=None if in_place else True)
    values = lower_columns(columns, WX, WW, penalty=penalty, most_sweeps=most_sweeps, shrink=shrink)
    return columns.T, added(values)


def lower_columns(
    columns: NDArray[np.float64],
    WX: NDArray[np.float64],
    WW: NDArray[np.float64],
    *,
    penalty: Penalty,
    most_sweeps: int,
    shrink: float,
) -> NDArray[np.float64]:
    """Do what `solve_dictionary` does to some columns of T, given as rows and lowered in place; return the value of each.

    A column's result does not depend on the others, bit by bit.
    """
    lower = _Descent.of(WW, columns.dtype, penalty, most_sweeps, shrink)
    return lower.on_all_cores(np.ascontiguousarray(WX.T), columns)


def added(values: NDArray[np.float64]) -> float:
    """Add the values of all columns, group by group; a running sum has one order, `np.sum` has the processor's."""
    return float(np.cumsum(added_together(values))[-1])


def added_together(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sums of groups of `COLUMNS_TOGETHER` values; the last group may have fewer."""
    groups = np.zeros((-(-len(values) // COLUMNS_TOGETHER), COLUMNS_TOGETHER))
    groups.reshape(-1)[: len(values)] = values
    sums: NDArray[np.float64] = np.cumsum(groups, axis=1)[:, -1]
    return sums


class _Descent(NamedTuple):
    """All that is the same for every row: call it to lower the penalised quadratics of some rows, in place."""

    square: SomeFloats
    inverse: SomeFloats
    l1: Any
    most_sweeps: int
    shrink: float
    rounding: float

    @classmethod
    def of(cls, square: SomeFloats, dtype: Any, penalty: Penalty, most_sweeps: int, shrink: float) -> _Descent:
        square = np.ascontiguousarray(square + penalty.l2 * np.eye(len(square)), dtype=dtype)
        curvature = np.diag(square)
        # a coordinate without curvature is one that the data say nothing about: it stays where it is
        informed = curvature >= np.finfo(dtype).tiny
        inverse = np.where(informed, 1 / np.where(informed, curvature, 1), 0).astype(dtype)
        rounding = float(np.finfo(dtype).eps) ** 2
        return cls(square, inverse, np.dtype(dtype).type(penalty.l1), most_sweeps, shrink, rounding)

    def __call__(self, linear: SomeFloats, rows: SomeFloats) -> NDArray[np.float64]:
        if self.l1:
            linear = linear - self.l1
        values = np.empty(len(rows))
        ends = self.most_sweeps, self.shrink, self.rounding
        hals_sweep(self.square, self.inverse, linear, rows, values, *ends, 0, len(rows))
        return values

    def on_all_cores(self, linear: SomeFloats, rows: SomeFloats) -> NDArray[np.float64]:
        values = np.empty(len(rows))

        def some(start: int, stop: int) -> None:
            values[start:stop] = self(linear[start:stop], rows[start:stop])

        parallel_for(some, np.arange(len(rows) + 1) * self.square.size)
        return values
