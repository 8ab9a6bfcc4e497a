"""A relation: one matrix or tensor, the set of its known cells, and its factors."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.errors import InvalidInputError, parameter, words
from tacit.factor.arrays import Floats
from tacit.factor.coupled.cells import (
    AllBut,
    Coords,
    ObservedLike,
    TensorLike,
    checked_cells,
    checked_observed,
    in_kept,
    is_among,
    refuse_duplicates,
)
from tacit.factor.coupled.divergence import checked_power
from tacit.factor.coupled.einsum import Spec
from tacit.validation import check_positive, refuse_dates

FLOOR = 1e-2
"""Zeros under Itakura-Saito become this fraction of the smallest positive value. Set by hand: smaller values cost more."""


def as_relation_data(data: Any, name: str) -> tuple[tuple[int, ...], Floats | None, Coords | None, Floats | None]:
    """Return the shape, and either the dense array or the stored cells and their values; the others are None."""
    if hasattr(data, "tocoo"):
        entries = data.tocoo()
        coords, values, shape = np.stack([*entries.coords], axis=1), entries.data, entries.shape
    elif isinstance(data, tuple) and len(data) == 3 and np.ndim(data[2]) == 1 and np.ndim(data[0]) == 2:
        coords, values, shape = data
    else:
        dense = _finite(data, name, unknown=True)
        if not dense.shape or 0 in dense.shape:
            raise InvalidInputError(f"data with cells in {name!r}", words("no cells"), "Give a matrix or a tensor.")
        return dense.shape, dense, None, None
    sizes = tuple(int(size) for size in shape)
    numbers = _finite(values, name)
    cells = checked_cells(coords, sizes, f"the stored cells of {name!r}")
    if numbers.shape != (len(cells),):
        raise InvalidInputError(
            f"one value for each stored cell of {name!r}",
            words("more or fewer values than cells"),
            "Give coords of shape (n, order) and values of shape (n,).",
        )
    refuse_duplicates(cells, sizes, f"the stored cells of {name!r}")
    return sizes, None, cells, numbers


def _finite(data: ArrayLike, name: str, *, unknown: bool = False) -> Floats:
    """Return numbers as floats; with `unknown`, NaN is accepted, because the cell may be unknown."""
    refuse_dates(data, f"data in {name!r}")
    try:
        array = np.array(data, dtype=np.float64, order="C")
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"numbers in {name!r}", words("text, objects, or rows of different lengths"), "Give an array of numbers."
        ) from None
    if np.isinf(array).any() or (not unknown and np.isnan(array).any()):
        raise InvalidInputError(f"finite numbers in {name!r}", words("NaN or infinity"), "Drop or fill them.")
    return array


class Relation:
    r"""One matrix or tensor of data, as an einsum over named factors.

    Factors with the same name are the same factor, in this relation and in others. This couples relations.

    Parameters
    ----------
    data : array_like, scipy sparse array or ``(coords, values, shape)``
        Dense, or sparse of any order. In the triple, `coords` has one row per stored cell and one column per axis, and `values`
        one number per cell. A cell may be stored only once.
    einsum : str
        The model of the data: ``"ir,jr->ij"`` (a matrix), ``"ir,jr,kr->ijk"`` (CP), ``"ir,js,kt,rst->ijk"`` (Tucker, with
        its core as the last factor), or anything else that sums products. No factor may be named twice in one relation.
    factors : sequence of str
        The factors' names, in the order of the einsum.
    observed : {"all", "stored"}, boolean mask or AllBut, default="all"
        Which cells are known. With "all", cells that are not stored are zeros; with "stored" they are unknown.
    divergence : {"kl", "euclid", "itakura-saito"} or float, default="kl"
        The loss; a number is the power p in [0, 2].
    dispersion : float, optional
        The loss of this relation is divided by this: the larger, the less weight it has. If not given, it is 1, unless the
        model estimates it.
    name : str, optional
        The factors' names joined, if not given.

    Attributes
    ----------
    shape : tuple of int
    spec : Spec
        The parsed einsum.
    power : float
        The p of the divergence.
    dispersion : float
    has_dispersion : bool
        Whether the dispersion was given.
    dense : ndarray or None
        The data if it is dense, with zeros in unknown cells.
    mask : ndarray of bool or None
        Which cells of `dense` are known; None if all are.
    coords, values : ndarray or None
        The stored cells that are known, if the data is sparse: shape (n, order) and (n,).
    stored_only : bool
        Whether cells that are not stored are unknown.
    holes : ndarray of shape (n, order)
        Sparse data: the single unknown cells.
    keep : tuple of (ndarray of bool or None)
        Sparse data: for every axis, which entities have known cells; None if all have.
    n_observed : int
        Number of known cells.

    Notes
    -----
    Itakura-Saito has no value at zero. Zeros are replaced by a hundredth of the smallest positive value, with a warning.

    Examples
    --------
    >>> from tacit import Relation
    >>> from tacit.data import make_coupled
    >>> data = make_coupled()
    >>> Relation(data.tensor, "ir,jr,kr->ijk", ("user", "place", "activity"))
    Relation('user-place-activity': 40 x 30 x 6, ir,jr,kr->ijk)
    >>> cells, counts = data.coordinates()
    >>> Relation((cells, counts, data.tensor.shape), "ir,jr,kr->ijk", ("user", "place", "activity")).n_observed
    7200
    """

    def __init__(
        self,
        data: TensorLike,
        einsum: str,
        factors: Sequence[str],
        *,
        observed: ObservedLike = None,
        divergence: str | float = "kl",
        dispersion: float | None = None,
        name: str | None = None,
    ) -> None:
        self.factors = _checked_names(factors)
        self.name = "-".join(self.factors) if name is None else str(name)
        self.shape, self.dense, self.coords, self.values = as_relation_data(data, self.name)
        self.mask: NDArray[np.bool_] | None = None
        self.stored_only = False
        self.spec = Spec.parse(einsum, len(self.factors), len(self.shape))
        self.power = checked_power(divergence)
        self.has_dispersion = dispersion is not None
        self.dispersion = 1.0 if dispersion is None else check_positive(dispersion, "dispersion")
        self.holes: Coords = np.zeros((0, len(self.shape)), np.int32)
        self.keep: tuple[NDArray[np.bool_] | None, ...] = (None,) * len(self.shape)
        self._observe(checked_observed(observed, self.shape))
        self._check_values()

    def __repr__(self) -> str:
        shape = " x ".join(str(size) for size in self.shape)
        return f"Relation({self.name!r}: {shape}, {self.spec.text})"

    @property
    def is_sparse(self) -> bool:
        """Whether the data is represented by its stored cells."""
        return self.dense is None

    @property
    def n_observed(self) -> int:
        """Number of known cells."""
        if self.dense is not None:
            return int(self.dense.size if self.mask is None else self.mask.sum())
        if self.stored_only:
            return len(self.stored()[1])
        kept = (size if kept is None else int(kept.sum()) for size, kept in zip(self.shape, self.keep, strict=True))
        return math.prod(kept) - len(self.holes)

    def stored(self) -> tuple[Coords, Floats]:
        """Return the stored cells that are known, and their values; for dense data, all known cells."""
        if self.dense is None:
            assert self.coords is not None
            assert self.values is not None
            return self.coords, self.values
        known = np.ones(self.shape, bool) if self.mask is None else self.mask
        cells = np.argwhere(known).astype(np.int32)
        return cells, self.dense[known]

    def known_cells(self, *, most: int = 50_000_000) -> tuple[Coords, Floats]:
        """Return every known cell and its value, zeros included; raise if there are more than `most` cells."""
        if self.dense is not None or self.stored_only:
            return self.stored()
        if math.prod(self.shape) > most:
            raise InvalidInputError(
                f"at most {most} cells to be listed",
                parameter(math.prod(self.shape)),
                'Use observed="stored", or less data.',
            )
        cells, values = self.stored()
        table, known = np.zeros(self.shape), np.ones(self.shape, bool)
        table[tuple(cells.T)] = values
        for axis, kept in enumerate(self.keep):
            if kept is not None:
                known &= kept.reshape([-1 if place == axis else 1 for place in range(len(self.shape))])
        known[tuple(self.holes.T)] = False
        return np.argwhere(known).astype(np.int32), table[known]

    def without(self, cells: ArrayLike) -> Relation:
        """Return the same relation with these cells also unknown; the data is not copied."""
        hidden = checked_cells(cells, self.shape, "the cells to hide")
        other = copy.copy(self)
        if self.dense is not None:
            other.mask = np.ones(self.shape, bool) if self.mask is None else self.mask.copy()
            other.mask[tuple(hidden.T)] = False
        else:
            other._drop(hidden)
            if not self.stored_only:
                hidden = hidden[in_kept(hidden, self.keep)]
                other.holes = np.ascontiguousarray(np.unique(np.vstack([self.holes, hidden]), axis=0))
        other._check_some_known()
        return other

    def as_sparse(self, *, holes: bool = True) -> Relation:
        """Return the same relation in sparse form; without `holes`, unknown cells become zeros."""
        other = copy.copy(self)
        if self.dense is not None:
            if self.mask is not None and holes:
                other.holes = np.argwhere(~self.mask).astype(np.int32)
            other.coords = np.argwhere(self.dense).astype(np.int32)
            other.values = self.dense[tuple(other.coords.T)]
            other.dense = other.mask = None
        return other

    def _observe(self, observed: str | AllBut | NDArray[np.bool_]) -> None:
        """Hide the unknown cells."""
        if self.dense is not None:
            if isinstance(observed, AllBut):
                self.holes, self.keep = observed.resolved(self.shape)
                mask = np.zeros(self.shape, bool)
                mask[np.ix_(*(slice_of(size, kept) for size, kept in zip(self.shape, self.keep, strict=True)))] = True
                mask[tuple(self.holes.T)] = False
                self.mask, self.holes, self.keep = mask, self.holes[:0], (None,) * len(self.shape)
            elif isinstance(observed, np.ndarray):
                self.mask = observed.copy()
            if self.mask is not None and self.mask.all():
                self.mask = None
        elif isinstance(observed, AllBut | np.ndarray):
            hidden = observed if isinstance(observed, AllBut) else AllBut(np.argwhere(~observed))
            self.holes, self.keep = hidden.resolved(self.shape)
            self._drop(self.holes)
        else:
            self.stored_only = observed == "stored"
        self._check_some_known()

    def _drop(self, hidden: Coords) -> None:
        """Remove stored cells that are unknown."""
        assert self.coords is not None
        assert self.values is not None
        known = in_kept(self.coords, self.keep) & ~is_among(self.coords, hidden, self.shape)
        if not known.all():
            self.coords, self.values = self.coords[known], self.values[known]

    def _check_some_known(self) -> None:
        if self.n_observed == 0:
            raise InvalidInputError(
                f"at least one known cell in {self.name!r}",
                words("none"),
                "Leave the relation out, or observe some of its cells.",
            )

    def _check_values(self) -> None:
        """Raise if the divergence is not defined for a value."""
        known = self.values if self.dense is None else (self.dense if self.mask is None else self.dense[self.mask])
        assert known is not None
        if np.isnan(known).any():
            raise InvalidInputError(
                f"numbers in all known cells of {self.name!r}",
                words("NaN"),
                "State which cells are known, for example observed=~numpy.isnan(data).",
            )
        if self.dense is not None and self.mask is not None:
            self.dense = np.where(self.mask, self.dense, 0.0)
        if self.power > 0 and known.min(initial=0.0) < 0:
            raise InvalidInputError(
                f"no negative numbers in {self.name!r} under its divergence",
                words("negative numbers"),
                'Shift or clip them, or use divergence="euclid".',
            )
        if self.power not in (0, 1) and self.dense is None and not self.stored_only:
            raise InvalidInputError(
                f'divergence="euclid" or "kl" for {self.name!r}: sparse data whose other cells are zeros',
                parameter(self.power),
                'Only these two can treat cells that are not stored as zeros: use observed="stored" or a dense array.',
            )
        if self.power == 2:
            self._raise_zeros(known)

    def _raise_zeros(self, known: Floats) -> None:
        if known.all():
            return
        if not known.any():
            raise InvalidInputError(f"a positive number in {self.name!r}", words("zeros only"), "Check the data.")
        floor = FLOOR * float(known[known > 0].min())
        warnings.warn(
            f"the zeros of {self.name!r} were replaced by {FLOOR:g} times its smallest positive value, because the "
            "Itakura-Saito divergence has no value at zero",
            stacklevel=4,
        )
        if self.dense is not None:
            raised = np.maximum(self.dense, floor)
            self.dense = raised if self.mask is None else np.where(self.mask, raised, 0.0)
        else:
            self.values = np.maximum(known, floor)


def slice_of(size: int, kept: NDArray[np.bool_] | None) -> NDArray[np.int64]:
    """Return the indices of the kept entities of an axis."""
    return np.arange(size) if kept is None else np.flatnonzero(kept)


def _checked_names(factors: Iterable[str]) -> tuple[str, ...]:
    names = (factors,) if isinstance(factors, str) else tuple(factors)
    for factor in names:
        if not isinstance(factor, str) or not factor:
            raise InvalidInputError(
                "factors to be names", parameter(factor), 'Name every factor, for example ("user", "item").'
            )
    for factor in names:
        if names.count(factor) > 1:
            raise InvalidInputError(
                "different factors in one relation",
                words(f"{factor!r} twice"),
                "A factor times itself (a symmetric model) is not supported: give the second use another name.",
            )
    return names


Relations = Relation | Sequence[Relation]
"""What one holder brings: a relation, or some."""
