"""What a program may ask of its channel: totals over all holders, and a random sample of its own units."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.channel.plan import Step
from tacit.errors import InvalidInputError, kind_of, parameter
from tacit.validation import check_count, check_positive, check_rate

ROUNDED_BY_EACH = 2.0**-12
"""Twice the largest rounding of one holder's term, as a fraction of the bound (LEAST_STEPS_PER_ROUNDING of the noisy channel
is 2**13)."""


@dataclass(frozen=True)
class Bound:
    """How far one unit can move a sum.

    Parameters
    ----------
    norm : float
        Largest L2 norm of one unit's contribution: what adding or removing it can move.
    change : float, optional
        Largest L2 distance between two contributions: what replacing one by another can move. ``2 * norm`` if not
        given; non-negative contributions, for instance, are at most ``sqrt(2) * norm`` apart.
    """

    norm: float
    change: float | None = None

    def __post_init__(self) -> None:
        check_positive(self.norm, "bound")
        if self.change is not None:
            check_positive(self.change, "change")

    @property
    def replaced(self) -> float:
        """What replacing one unit's data can move."""
        return 2 * self.norm if self.change is None else min(self.change, 2 * self.norm)

    def times(self, factor: float) -> Bound:
        r"""Return the bound of a unit that moves the sum `factor` times as far, because several holders have a part of it.

        Each holder rounds its own term to the grid, so that also the rounding, at most :math:`\sqrt d` grid steps for d
        numbers, is `factor` times that of one holder. The channel counts it once. The grid is so fine that it is at most
        ROUNDED_BY_EACH / 2 of the bound, and a bound that is wider by the fraction :math:`(factor - 1)` ROUNDED_BY_EACH covers
        the rest.
        """
        wider = factor * (1 + max(factor - 1, 0.0) * ROUNDED_BY_EACH)
        return Bound(wider * self.norm, None if self.change is None else wider * self.change)


COLUMNS_TOGETHER = 64
"""Columns that stay with one party where parties divide work: the bits of a word that says which numbers are zero."""


@dataclass(frozen=True)
class Columnwise:
    """What a program will do with the totals, column by column of one of them: parties can divide it among them.

    A channel that divides the work returns its result (`Total.worked`) in place of the total of that array. Others leave
    `worked` at None, and the program does the work on the total.

    Parameters
    ----------
    of : str
        The array, with fewer rows than columns.
    size : int
        Numbers of the result for each column.
    work : callable
        Called with a slice of columns, the total of these columns, and the totals of the other arrays; returns an array of
        shape (columns, size). Slices begin at multiples of `COLUMNS_TOGETHER`, and all but that of the last columns end there.
        A result must not depend, to the last bit, on which other columns are worked on, except those of its own such group.
    """

    of: str
    size: int
    work: Callable[[slice, NDArray[np.float64], Mapping[str, NDArray[np.float64]]], NDArray[np.float64]] = field(
        repr=False
    )


class Total(Mapping[str, NDArray[np.float64]]):
    """The totals of a `Sum`, by name: ``total.WX`` or ``total["WX"]``.

    Attributes
    ----------
    noise : mapping of name to float
        Standard deviation of the noise in every number of each array, as the channel added it: for its adjacency, its
        sampling rate, and the noise shares of all parties. Zero in a channel without noise; NaN for the direction of a
        noisy total (`NormedSum`), which has no single one. It is public: bounds, plan and the number of parties set it.
    worked : ndarray of shape (columns, size) or None
        The result of a `Columnwise` that the parties divided among them; its array is then not among the totals.
    """

    def __init__(
        self,
        arrays: Mapping[str, NDArray[np.float64]],
        noise: Mapping[str, float] | None = None,
        worked: NDArray[np.float64] | None = None,
    ) -> None:
        self._arrays = dict(arrays)
        self.worked = worked
        self.noise = MappingProxyType(dict.fromkeys(self._arrays, 0.0) if noise is None else dict(noise))

    def __getitem__(self, name: str) -> NDArray[np.float64]:
        return self._arrays[name]

    def __getattr__(self, name: str) -> NDArray[np.float64]:
        try:
            return self.__dict__["_arrays"][name]  # type: ignore[no-any-return]
        except KeyError:
            raise AttributeError(name) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)


class Sum:
    """Ask for the totals, over all holders, of these arrays: ``total = yield Sum(WX=W.T @ X, WW=W.T @ W)``.

    Parameters
    ----------
    **arrays : array_like
        This holder's terms, by name. Names and shapes are public and must not depend on private data.
        A channel with noise takes double precision only: its sensitivity covers the rounding of double-precision
        additions, not of shorter ones.
    bound : float, Bound, or mapping of name to either, optional
        How far one unit can move the arrays: one number for all arrays joined into one vector, or one per array. A
        channel with noise sizes its noise by it and refuses a sum without one.
    fractions : mapping of name to float, optional
        With one bound per array: the fraction of this sum's budget that each array gets; equal if not given.
    step : Step, optional
        The step of the plan that this sum is: one of the values of the run's `Split`. ``Step()`` if not given.
    units : int, optional
        How many units were added up here. It never leaves the holder; a noisy channel checks that it is within the
        number for which the bound covers the rounding of floating-point addition.
    columnwise : Columnwise, optional
        Work on the totals that parties may divide.
    """

    kind = "sum"

    def __init__(
        self,
        *,
        bound: float | Bound | Mapping[str, float | Bound] | None = None,
        fractions: Mapping[str, float] | None = None,
        step: Step | None = None,
        units: int | None = None,
        columnwise: Columnwise | None = None,
        **arrays: ArrayLike,
    ) -> None:
        if not arrays or "noise" in arrays:
            raise InvalidInputError(
                "at least one array to total, none of them named 'noise'",
                parameter(sorted(arrays)),
                "Name the statistics: Sum(WX=..., WW=...). `total.noise` is the noise of each.",
            )
        given = {name: np.asarray(array) for name, array in arrays.items()}
        self.short = tuple(name for name, array in given.items() if array.dtype.kind == "f" and array.itemsize < 8)
        """Names of the arrays that were given in less than double precision."""
        self.arrays = {name: _numbers(array) for name, array in given.items()}
        self.bound = _checked_bound(bound, self.arrays)
        self.fractions = _checked_fractions(fractions, self.bound)
        self.step = Step() if step is None else step
        self.units = None if units is None else check_count(units, "units", least=0)
        self.columnwise = columnwise

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the arrays, in order."""
        return tuple(self.arrays)

    @property
    def divisible(self) -> Columnwise | None:
        """The work that parties divide, if there is some and its array has fewer rows than columns."""
        rows, columns = self.arrays[self.columnwise.of].shape if self.columnwise is not None else (0, 0)
        return self.columnwise if rows < columns else None

    def signature(self) -> tuple[object, ...]:
        """Everything about the ask that is public; all holders, and all neighbouring data sets, must agree on it."""
        shapes = tuple((name, array.shape) for name, array in self.arrays.items())
        bound = tuple(self.bound.items()) if isinstance(self.bound, dict) else self.bound
        divided = () if self.divisible is None else ((self.divisible.of, self.divisible.size),)
        return (self.kind, shapes, bound, tuple(self.fractions.items()), self.step, *divided)

    @staticmethod
    def described(signature: tuple[Any, ...]) -> Sum:
        """Return an ask with this signature; its arrays take no memory and hold zeros."""
        kind, shapes, bound, fractions, step = signature
        arrays: dict[str, Any] = {name: np.broadcast_to(np.float64(0), shape) for name, shape in shapes}
        made = (NormedSum if kind == NormedSum.kind else Sum)(
            bound=dict(bound) if isinstance(bound, tuple) else bound, step=step, **arrays
        )
        made.fractions = dict(fractions)  # as they are: scaling them to 1 again could change their last bits
        return made


def _numbers(array: NDArray[np.generic]) -> NDArray[np.float64]:
    try:
        return np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError):  # the message of which would show what is not a number
        raise InvalidInputError("arrays of numbers to total", kind_of(array), "Convert them to floats.") from None


class NormedSum(Sum):
    """Ask for the direction of a total only: every column of every array's total divided by its own L2 norm.

    NormedSecSum of Tsikhanovich et al. (2019), appendix E; a plain `Sum` among parties is their SecSum.

    A column that sums to zero stays zero. Among parties the norms stay secret; in the clear and noisy channels the
    normalisation is done on the total that the channel knows.
    """

    kind = "normed-sum"


@dataclass(frozen=True)
class Sample:
    """Ask for a Poisson sample of this holder's own units, for the next `Sum` and no other.

    The channel draws the boolean mask (so that the rate it accounts is the rate that was used), and the mask never
    leaves the holder. Ask anew before every `Sum`: a mask used for two sums would not be amplified twice.
    """

    units: int = field(repr=False)
    rate: float

    def __post_init__(self) -> None:
        check_count(self.units, "units", least=0)
        check_rate(self.rate, "rate")

    def signature(self) -> tuple[object, ...]:
        """Everything public about the ask; the number of units is not."""
        return ("sample", self.rate)


class Choose:
    """Ask which of several candidates has the highest total score: ``winner = yield Choose(scores, bound=...)``.

    Only the winner's index leaves, by report-noisy-max; the scores stay.

    Parameters
    ----------
    scores : array_like of shape (n_candidates,)
        This holder's part of the score of each candidate; they are added up over the holders.
    bound : float
        The most that one unit can move any one score.
    units : int, optional
        As for `Sum`.
    """

    def __init__(self, scores: ArrayLike, *, bound: float, units: int | None = None) -> None:
        self.scores = np.atleast_1d(np.asarray(scores, dtype=np.float64))
        if self.scores.ndim != 1 or self.scores.size == 0:
            raise InvalidInputError(
                "one score per candidate", kind_of(self.scores), "Give a list with at least one score."
            )
        self.bound = check_positive(bound, "bound")
        self.units = None if units is None else check_count(units, "units", least=0)

    def signature(self) -> tuple[object, ...]:
        """Everything public about the ask."""
        return ("choose", self.scores.size, self.bound)


Ask = Sum | Sample | Choose


def normalise_columns(array: NDArray[np.float64]) -> NDArray[np.float64]:
    """Divide every column by its L2 norm; zero columns stay zero. A vector counts as one column."""
    norms = np.linalg.norm(array, axis=0)
    return array / np.where(norms > 0, norms, 1.0)


def _as_bound(value: float | Bound) -> Bound:
    return value if isinstance(value, Bound) else Bound(check_positive(value, "bound"))


def _checked_bound(
    bound: float | Bound | Mapping[str, float | Bound] | None, arrays: Collection[str]
) -> Bound | dict[str, Bound] | None:
    if not isinstance(bound, Mapping):
        return None if bound is None else _as_bound(bound)
    if set(bound) != set(arrays):
        raise InvalidInputError(
            f"one bound for each of {sorted(arrays)}",
            parameter(sorted(bound)),
            "Give every array its bound, or one for all.",
        )
    return {name: _as_bound(bound[name]) for name in arrays}


def _checked_fractions(
    fractions: Mapping[str, float] | None, bound: Bound | dict[str, Bound] | None
) -> dict[str, float]:
    if not isinstance(bound, dict):
        if fractions is not None:
            raise InvalidInputError(
                "fractions together with one bound per array",
                parameter(fractions),
                "Give `bound` as a mapping from array name to norm.",
            )
        return {}
    given = dict.fromkeys(bound, 1.0) if fractions is None else dict(fractions)
    if set(given) != set(bound):
        raise InvalidInputError(
            f"one fraction for each of {sorted(bound)}",
            parameter(sorted(given)),
            "Give every array its fraction of the budget.",
        )
    values = [check_positive(given[name], "fractions") for name in bound]
    return {name: value / math.fsum(values) for name, value in zip(bound, values, strict=True)}
