r"""Non-negative factorisation as a program: rows step, one sum, dictionary step; and the same for one mini-batch.

.. math:: \min_{W, T \ge 0,\ |R| \le M}\ \frac12\|X - WT - R\|_F^2 + \lambda\|R\|_1 + \text{penalties of } W \text{ and } T

The first two terms are the model with outliers of Saha and Imtiaz (2022, eq. 1, without its factor 1/N and with T not
confined to the unit ball); the penalties are reg(W, T) of Tsikhanovich et al. (2019, eq. 3). Their private and
distributed algorithms are in `saha_imtiaz.py` and `pd_nmf.py`. This one is the two-block coordinate descent of
Algorithm 1 of the former, by HALS with extrapolation.

Every holder has its own rows of X, W and R; the dictionary T is shared. A sweep starts not at T but a little further along
the way that T last moved. If that did not lower the objective, the sweep is taken back by all holders and made again
without the lead, so the objective never increases. The lead, the objective and the decision follow from totals alone.

References
----------
A. M. S. Ang, N. Gillis, "Accelerating nonnegative matrix factorization algorithms using extrapolation", Neural Computation
31(2), 2019. There both factors are extrapolated; here the shared one only, as each row is nearly solved for its dictionary.
J. Mairal, F. Bach, J. Ponce, G. Sapiro, "Online learning for matrix factorization and sparse coding", JMLR 11, 2010.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.channel import Columnwise, Outcome, Program, Sum, Total, run_alone
from tacit.channel.asks import COLUMNS_TOGETHER
from tacit.estimators.input import Rows
from tacit.factor.arrays import Precision, SomeFloats
from tacit.factor.extrapolation import Extrapolation
from tacit.factor.kernels import compiled, parallel_for
from tacit.factor.nmf.nnls import (
    NO_PENALTY,
    Outliers,
    Penalty,
    added,
    added_together,
    lower_columns,
    solve_dictionary,
    solve_rows,
    total_rows,
)
from tacit.factor.nmf.start import nndsvd_program
from tacit.factor.row_table import Table


@dataclass(frozen=True)
class NMFSettings:
    """What all holders of a run agree on.

    Parameters
    ----------
    outliers : Outliers, optional
    row_penalty, dictionary_penalty : Penalty
        On W and on T.
    max_iter : int
        Most sweeps, which is the number of sums.
    tol : float
        Stop when a sweep lowers the objective by less than this fraction of it; 0 makes all sweeps.
    simplex : bool
        Project each topic onto the simplex after its update: line 8 of Algorithm 1 of Tsikhanovich et al., for
        `topic_program`.
    row_sweeps, row_shrink, dictionary_sweeps, dictionary_shrink
        How far each half of a sweep goes; see `solve_rows`. The dictionary step costs little next to the sum that
        precedes it, so it goes further.
    """

    outliers: Outliers | None = None
    row_penalty: Penalty = NO_PENALTY
    dictionary_penalty: Penalty = NO_PENALTY
    max_iter: int = 200
    tol: float = 1e-5
    simplex: bool = False
    row_sweeps: int = 20
    row_shrink: float = 0.1
    dictionary_sweeps: int = 50
    dictionary_shrink: float = 1e-2


def nmf_program(X: Rows, T: NDArray[np.float64], *, settings: NMFSettings) -> Program:
    """One holder's view of the factorisation of all holders' rows, from the dictionary `T` (k x d), the same for all.

    The outcome's public part has ``T``, the last totals ``WX`` and ``WW``, ``squared_error`` (of ``X - WT - R``, all holders)
    and ``loss_curve`` (the objective after every sweep); the private part has this holder's ``W``. Without penalties,
    which would fix the scale, the rows of T are brought to unit length.
    """
    table, W = Table(X), None
    before: tuple[PackedFactor, PackedFactor | WorkedFactor] | None = None
    # Both halves of a sweep overwrite what they start from, and the two large arrays, the dictionary and the sum, change
    # places; what a sweep may have to go back to is kept packed.
    T = np.array(T, dtype=np.float64, order="F")
    spare = np.empty_like(T)
    best, squared_error, lead, leading = np.inf, np.inf, Extrapolation(), False
    curve: list[float] = []
    for left in reversed(range(settings.max_iter)):
        W = _rows_step(table, T, W, settings)
        answer = yield _sum(table, T, W, settings, out=spare, columnwise=_divided(T, settings))
        if answer.worked is None:
            T, value = _dictionary_step(T, answer.WX, answer.WW, settings)
        else:  # each party has solved some of the columns
            T, value = WorkedFactor(answer.worked).put_into(T), added(answer.worked[:, -1])
        objective = float(answer.own[0] + answer.own[1]) + value
        if before is not None and objective > best:
            curve.append(best)
            before[0].put_into(W)
            before[1].put_into(T)
            if not leading:  # a sweep without a lead fails by rounding only: there is nothing left to gain
                break
            leading = False
            lead.failed()
            continue
        curve.append(objective)
        gained, best, squared_error = best - objective, objective, _squared_error(answer, value, T, settings)
        if not left or (gained <= settings.tol * objective and settings.tol > 0):
            break
        last = None
        if before is not None:
            last = before[1].worked if isinstance(before[1], WorkedFactor) else before[1].put_into(spare).T
        before = None  # let go of the older before the newer is packed
        before = PackedFactor(W), PackedFactor(T) if answer.worked is None else WorkedFactor(answer.worked)
        if last is not None:
            _extrapolate(last, T.T, lead.fraction, spare.T)
            T, spare, leading = spare, T, True
        lead.worked()
    assert W is not None
    # where parties divided the work nobody has the total yet; `spare` still has this holder's own, of the last sum
    WX = answer.WX if answer.worked is None else (yield Sum(WX=spare)).WX
    public, scale = released(T, WX, answer.WW, squared_error, settings, out=spare)
    W *= scale.astype(W.dtype)
    return Outcome(public={**public, "loss_curve": np.array(curve)}, private={"W": W})


def factorise(X: Rows, n_components: int, *, random_state: int) -> tuple[SomeFloats, NDArray[np.float64]]:
    """Return the factors W and T of rows that are public: `tacit.NMF` with its defaults, without estimator and channel.

    Of rows that are not public nothing protects the result.
    """
    T, _ = run_alone(nndsvd_program(X, n_components, random_state=random_state))
    outcome = run_alone(nmf_program(X, T, settings=NMFSettings()))
    return outcome.private["W"], outcome.public["T"]


def batch_program(
    X: Rows,
    T: SomeFloats,
    WX: NDArray[np.float64],
    WW: NDArray[np.float64],
    *,
    forget: float,
    settings: NMFSettings,
) -> Program:
    """One holder's view of one mini-batch of online factorisation; the outcome is as that of `nmf_program`, without a curve.

    The batch's rows are solved for the current dictionary, their totals are added to those of earlier batches (`WX` and `WW`),
    which count `forget` times as much as they did, and the dictionary is solved from the sums.
    """
    table = Table(X)
    start = np.array(T, dtype=np.float64, order="F")
    W = _rows_step(table, start, None, settings)
    total = yield _sum(table, start, W, settings)
    WX, WW = forget * WX + total.WX, forget * WW + total.WW
    solved, _ = _dictionary_step(start, WX, WW, settings)
    residual = (
        2 * float(total.own[0]) - 2 * float(np.vdot(total.WX, solved)) + float(np.vdot(total.WW, solved @ solved.T))
    )
    public, scale = released(solved, WX, WW, max(residual, 0.0), settings)
    return Outcome(public=public, private={"W": W * scale.astype(W.dtype)})


def _rows_step(table: Table, T: NDArray[np.float64], W: SomeFloats | None, settings: NMFSettings) -> SomeFloats:
    return solve_rows(
        table,
        T,
        W,
        penalty=settings.row_penalty,
        outliers=settings.outliers,
        most_sweeps=settings.row_sweeps,
        shrink=settings.row_shrink,
        in_place=True,
    )


def _sum(
    table: Table,
    T: NDArray[np.float64],
    W: SomeFloats,
    settings: NMFSettings,
    out: NDArray[np.float64] | None = None,
    columnwise: Columnwise | None = None,
) -> Sum:
    own = total_rows(table, T, W, penalty=settings.row_penalty, outliers=settings.outliers, out=out)
    return Sum(WX=own.WX, WW=own.WW, own=own.own, columnwise=columnwise)


def _divided(T: NDArray[np.float64], settings: NMFSettings) -> Columnwise:
    """Return the dictionary step as work on columns of the total of W'X: the column of T, and what it adds to the objective.

    The first column of each group has the sum of the group, the others have zero, which is not sent.
    """

    def work(columns: slice, WX: NDArray[np.float64], totals: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:
        solved = np.empty((WX.shape[1], len(T) + 1))
        rows = np.array(T.T[columns], order="C")
        values = lower_columns(
            rows,
            WX,
            totals["WW"],
            penalty=settings.dictionary_penalty,
            most_sweeps=settings.dictionary_sweeps,
            shrink=settings.dictionary_shrink,
        )
        solved[:, :-1] = rows
        solved[:, -1] = 0.0
        solved[::COLUMNS_TOGETHER, -1] = added_together(values)
        return solved

    return Columnwise("WX", len(T) + 1, work)


def _dictionary_step(
    T: NDArray[np.float64], WX: NDArray[np.float64], WW: NDArray[np.float64], settings: NMFSettings
) -> tuple[NDArray[np.float64], float]:
    return solve_dictionary(
        T,
        WX,
        WW,
        penalty=settings.dictionary_penalty,
        most_sweeps=settings.dictionary_sweeps,
        shrink=settings.dictionary_shrink,
        in_place=True,
    )


@compiled
def _extrapolate(
    last: NDArray[np.float64], moved: NDArray[np.float64], fraction: float, out: NDArray[np.float64]
) -> None:
    """Set `out` to ``max(moved + fraction * (moved - last), 0)``; `last` may be `out`, and its rows may be longer."""
    for row in range(moved.shape[0]):
        for place in range(moved.shape[1]):
            number = moved[row, place]
            out[row, place] = max((number - last[row, place]) * fraction + number, 0.0)


def _squared_error(total: Total, value: float, T: NDArray[np.float64], settings: NMFSettings) -> float:
    """Return what is left of the objective, doubled, without any penalty: the squared norm of X - WT - R."""
    return max(0.0, 2 * (float(total.own[0]) + value - settings.dictionary_penalty.of(T)))


def released(
    T: NDArray[np.float64],
    WX: NDArray[np.float64],
    WW: NDArray[np.float64],
    squared_error: float,
    settings: NMFSettings,
    out: NDArray[np.float64] | None = None,
) -> tuple[dict[str, Any], NDArray[np.float64]]:
    """Return what is public, in its final scale (T is overwritten), and the factors by which each holder scales its W.

    The scaled `WX` is put into `out`, which is this holder's own: the totals may be shared with others.
    """
    lengths = np.sqrt(np.einsum("ij,ij->i", T, T))
    free = not (settings.row_penalty or settings.dictionary_penalty or settings.simplex)
    scale = np.where((lengths > 0) & free, lengths, 1.0)
    T /= scale[:, None]
    scaled = np.multiply(WX, scale[:, None], out=out)
    return {"T": T, "WX": scaled, "WW": WW * np.outer(scale, scale), "squared_error": squared_error}, scale


class WorkedFactor:
    """A dictionary as parties have worked it out (`_divided`), kept as it came: packing takes longer than it saves memory."""

    def __init__(self, worked: NDArray[np.float64]) -> None:
        self.worked = worked

    def put_into(self, factor: NDArray[np.float64]) -> NDArray[np.float64]:
        """Overwrite `factor`, of the dictionary's shape, and return it."""
        factor.T[:] = self.worked[:, :-1]
        return factor


BLOCK = 1 << 12
"""Numbers that are packed together; a multiple of 8."""


class PackedFactor:
    """A copy of a factor, exact, in as little memory as its zeros allow.

    Examples
    --------
    >>> import numpy as np
    >>> from tacit.factor.nmf.program import PackedFactor
    >>> kept = PackedFactor(np.array([[0.0, 2.0], [0.0, 0.0]]))
    >>> kept.put_into(np.empty((2, 2)))
    array([[0., 2.],
           [0., 0.]])
    """

    def __init__(self, factor: SomeFloats) -> None:
        numbers = factor.ravel(order="K")
        blocks = -(-numbers.size // BLOCK)
        self._work = np.arange(blocks + 1) * BLOCK
        self._ends = np.zeros(blocks + 1, dtype=np.int64)
        parallel_for(lambda start, stop: _count(numbers, self._ends, start, stop), self._work)
        np.cumsum(self._ends, out=self._ends)
        self._values = np.empty(self._ends[-1], dtype=numbers.dtype)
        self._places = np.empty(-(-numbers.size // 8), dtype=np.uint8)
        parallel_for(
            lambda start, stop: _pack(numbers, self._ends, self._values, self._places, start, stop), self._work
        )

    def put_into(self, factor: NDArray[Precision]) -> NDArray[Precision]:
        """Overwrite `factor`, of the shape and order of what was kept, and return it."""
        numbers = factor.ravel(order="K")
        assert np.shares_memory(numbers, factor) or not factor.size
        parallel_for(
            lambda start, stop: _unpack(numbers, self._ends, self._values, self._places, start, stop), self._work
        )
        return factor


@compiled
def _count(numbers: SomeFloats, ends: NDArray[np.int64], start: int, stop: int) -> None:
    for block in range(start, stop):
        for place in range(block * BLOCK, min((block + 1) * BLOCK, numbers.size)):
            ends[block + 1] += numbers[place] != 0


@compiled
def _pack(
    numbers: SomeFloats,
    ends: NDArray[np.int64],
    values: SomeFloats,
    places: NDArray[np.uint8],
    start: int,
    stop: int,
) -> None:
    for block in range(start, stop):
        filled = ends[block]
        for first in range(block * BLOCK, min((block + 1) * BLOCK, numbers.size), 8):
            bits = 0
            for place in range(first, min(first + 8, numbers.size)):
                if numbers[place] != 0:
                    values[filled] = numbers[place]
                    filled += 1
                    bits |= 1 << (place - first)
            places[first // 8] = bits


@compiled
def _unpack(
    numbers: SomeFloats,
    ends: NDArray[np.int64],
    values: SomeFloats,
    places: NDArray[np.uint8],
    start: int,
    stop: int,
) -> None:
    for block in range(start, stop):
        filled = ends[block]
        for first in range(block * BLOCK, min((block + 1) * BLOCK, numbers.size), 8):
            bits = places[first // 8]
            for place in range(first, min(first + 8, numbers.size)):
                if bits >> (place - first) & 1:
                    numbers[place] = values[filled]
                    filled += 1
                else:
                    numbers[place] = 0
