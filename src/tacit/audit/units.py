"""Data as units that an audit can take out, put in and exchange: rows, users with their ratings, users or cells of relations.

The audited unit is always the last one, so that programs that sample have it in the last place.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.audit.trajectory import World
from tacit.data.files import as_frame
from tacit.errors import InvalidInputError, Undisclosed, kind_of, words
from tacit.estimators.base import Estimator
from tacit.privacy.fingerprint import fingerprint

if TYPE_CHECKING:
    import polars

    from tacit.factor.coupled.relation import Relation

Places = NDArray[np.intp]
Unit = tuple[Any, ...]
"""One unit, in parts: a row and its label, a user's items and ratings, or cells and values. Each kind of units has its own."""


@dataclass(frozen=True, repr=False)
class NeighbourPair(Undisclosed):
    """Two neighbouring data sets: `present` has the audited unit in its last place, `absent` lacks it or has another."""

    name: str
    present: World
    absent: World


class Units(ABC):
    """The data of an audit, unit by unit."""

    @property
    @abstractmethod
    def count(self) -> int:
        """The number of units."""

    @abstractmethod
    def arguments(self) -> tuple[object, ...]:
        """Return what `fit` takes."""

    @abstractmethod
    def take(self, places: Places) -> Self:
        """Return the data with these units only, in this order."""

    @abstractmethod
    def unit(self, place: int) -> Unit:
        """Return one unit, in the form that `added` takes."""

    @abstractmethod
    def added(self, unit: Unit) -> Self:
        """Return the data with one more unit, in the last place."""

    def with_units(self, units: Sequence[Unit]) -> Self:
        """Return the data with these units too."""
        data = self
        for unit in units:
            data = data.added(unit)
        return data

    @abstractmethod
    def digest(self) -> str:
        """Return a hash of the data, by which a journal knows its runs again. It stays with the holder."""

    def world(self, unit: Unit | None) -> World:
        """Return the data with a unit in the last place, or without one."""
        return World(self, False) if unit is None else World(self.added(unit), True)

    def pair(self, name: str, unit: Unit, other: Unit | None = None) -> NeighbourPair:
        """Return the neighbours with the unit, and without it or with the other in its place."""
        return NeighbourPair(name, self.world(unit), self.world(other))


@dataclass(frozen=True, repr=False)
class RowUnits(Undisclosed, Units):
    """Rows of an array, a CSR matrix or a data frame, with labels or targets if the model has some."""

    X: Any
    y: NDArray[Any] | None = None

    @property
    def count(self) -> int:
        """The number of rows."""
        return int(self.X.shape[0])

    def arguments(self) -> tuple[object, ...]:
        """Return the rows, and the labels if there are some."""
        return (self.X,) if self.y is None else (self.X, self.y)

    def digest(self) -> str:
        """Return a hash of the rows and labels."""
        return fingerprint(self.arguments())

    def take(self, places: Places) -> RowUnits:
        """Return these rows."""
        chosen = self.X[places.tolist()] if hasattr(self.X, "iter_columns") else self.X[places]
        return RowUnits(chosen, None if self.y is None else self.y[places])

    def unit(self, place: int) -> Unit:
        """Return one row, with its label."""
        one = self.take(np.array([place]))
        return one.X, one.y

    def added(self, unit: Unit) -> RowUnits:
        """Return the rows and one more."""
        row, label = unit
        return RowUnits(stacked(self.X, row), None if self.y is None else np.concatenate([self.y, label]))

    def with_units(self, units: Sequence[Unit]) -> RowUnits:
        """Return the rows and these below them; all at once, because there may be thousands."""
        if not units:
            return self
        if isinstance(units[0][0], np.ndarray):
            label = None if self.y is None else np.concatenate([unit[1] for unit in units])
            return self.added((np.vstack([unit[0] for unit in units]), label))
        return super().with_units(units)


def stacked(X: Any, row: Any) -> Any:
    """Return rows and one more below them, in the form of the rows."""
    if hasattr(X, "iter_columns"):
        import polars

        return polars.concat([X, row], how="vertical_relaxed")
    if hasattr(X, "tocsr"):
        from scipy.sparse import csr_array, vstack

        return csr_array(vstack([X, csr_array(row)]))
    return np.vstack([X, row])


@dataclass(frozen=True, repr=False)
class PersonUnits(Undisclosed, Units):
    """Rows of a table that belong to persons; `owner`, a column of the table, numbers the persons from 0."""

    X: polars.DataFrame
    owner: str

    @staticmethod
    def of(frame: polars.DataFrame, owner: str) -> PersonUnits:
        """Return the table with the persons numbered."""
        numbers = np.unique(frame[owner].cast(str).to_numpy(), return_inverse=True)[1]
        return PersonUnits(frame, owner)._numbered(frame, numbers)

    def _numbered(self, frame: polars.DataFrame, numbers: NDArray[np.integer]) -> PersonUnits:
        import polars

        return replace(self, X=frame.with_columns(polars.Series(self.owner, numbers.astype(np.int64))))

    @property
    def _numbers(self) -> NDArray[np.int64]:
        return np.asarray(self.X[self.owner].to_numpy(), dtype=np.int64)

    @property
    def count(self) -> int:
        """The number of persons."""
        return int(self._numbers.max(initial=-1)) + 1

    def arguments(self) -> tuple[object, ...]:
        """Return the table."""
        return (self.X,)

    def digest(self) -> str:
        """Return a hash of the table."""
        return fingerprint(self.arguments())

    def take(self, places: Places) -> PersonUnits:
        """Return the rows of these persons, numbered anew."""
        order = np.argsort(self._numbers, kind="stable")
        starts = np.searchsorted(self._numbers[order], np.arange(self.count + 1))
        parts = [order[starts[place] : starts[place + 1]] for place in places]
        rows = np.concatenate([np.zeros(0, np.int64), *parts])
        return self._numbered(self.X[rows.tolist()], np.repeat(np.arange(len(parts)), [len(part) for part in parts]))

    def unit(self, place: int) -> Unit:
        """Return the rows of one person."""
        return self.X[np.flatnonzero(self._numbers == place).tolist()], None

    def added(self, unit: Unit) -> PersonUnits:
        """Return the table with the rows of one more person."""
        rows = unit[0]
        numbers = np.concatenate([self._numbers, np.full(len(rows), self.count)])
        return self._numbered(stacked(self.X, rows), numbers)


@dataclass(frozen=True, repr=False)
class RatingUnits(Undisclosed, Units):
    """Users with their ratings; `owner` numbers the users from 0, and the ids that a model sees are these numbers.

    With `cells`, a unit is one rating: its value may be exchanged, and who rated what is public.
    """

    owner: NDArray[np.int64]
    items: NDArray[np.generic]
    values: NDArray[np.float64]
    cells: bool = False

    @staticmethod
    def of(users: ArrayLike, items: ArrayLike, values: ArrayLike, *, cells: bool = False) -> RatingUnits:
        """Return ratings with the users numbered."""
        owner = np.unique(np.asarray(users), return_inverse=True)[1]
        # texts that a data frame gives as objects become an array of texts, which has a digest
        ids = np.asarray(np.asarray(items).tolist())
        return RatingUnits(owner.astype(np.int64), ids, np.asarray(values, dtype=np.float64), cells)

    @property
    def count(self) -> int:
        """The number of users, or of ratings."""
        return len(self.owner) if self.cells else (int(self.owner.max()) + 1 if len(self.owner) else 0)

    def arguments(self) -> tuple[object, ...]:
        """Return users, items and ratings."""
        return self.owner, self.items, self.values

    def digest(self) -> str:
        """Return a hash of the ratings."""
        return fingerprint(self.arguments())

    def take(self, places: Places) -> RatingUnits:
        """Return these users, numbered anew."""
        if self.cells:
            return replace(self, owner=self.owner[places], items=self.items[places], values=self.values[places])
        order = np.argsort(self.owner, kind="stable")
        starts = np.searchsorted(self.owner[order], np.arange(self.count + 1))
        parts = [order[starts[place] : starts[place + 1]] for place in places]
        rows = np.concatenate([np.zeros(0, np.int64), *parts])
        owner = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        return replace(self, owner=owner, items=self.items[rows], values=self.values[rows])

    def unit(self, place: int) -> Unit:
        """Return the items and ratings of one user, or one rating with its user."""
        if self.cells:
            return self.owner[[place]], self.items[[place]], self.values[[place]]
        own = self.owner == place
        return self.items[own], self.values[own]

    def added(self, unit: Unit) -> RatingUnits:
        """Return the ratings of one more user, or one more rating of the user that it names."""
        *whose, items, values = unit
        owner = whose[0] if whose else np.full(len(items), self.count)
        return replace(
            self,
            owner=np.concatenate([self.owner, owner]),
            items=np.concatenate([self.items, items]),
            values=np.concatenate([self.values, values]),
        )


@dataclass(frozen=True, repr=False)
class CellUnits(Undisclosed, Units):
    """Relations of which one is private: its users, or its cells, are the units. The list of users is public and stays.

    `places` numbers the units that are there. A user who is not there has no cells.
    """

    relations: tuple[Relation, ...]
    private: int
    axis: int
    coords: NDArray[np.int64]
    values: NDArray[np.float64]
    by_cell: bool = False

    @staticmethod
    def of(relations: Sequence[Relation], entity: str, *, by_cell: bool) -> CellUnits:
        """Find the relation with the entity, and add a user without cells for the audited unit."""
        having = [place for place, one in enumerate(relations) if entity in one.factors]
        if len(having) != 1:
            raise InvalidInputError(
                "one relation with the protected entity",
                words(f"{len(having)}"),
                "The audit of coupled models covers one private relation.",
            )
        relation = relations[having[0]]
        coords, values = relation.stored()
        axis = relation.factors.index(entity)
        return CellUnits(tuple(relations), having[0], axis, coords.astype(np.int64), np.asarray(values), by_cell)

    @property
    def count(self) -> int:
        """The number of cells, or of users with cells."""
        return len(self.coords) if self.by_cell else len(np.unique(self.coords[:, self.axis]))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the private relation, with one more user than the data has."""
        shape = list(self.relations[self.private].shape)
        shape[self.axis] += 1
        return tuple(shape)

    def arguments(self) -> tuple[object, ...]:
        """Return the relations."""
        from tacit.factor.coupled.relation import Relation

        old = self.relations[self.private]
        made = Relation(
            (self.coords, self.values, self.shape),
            old.spec.text,
            old.factors,
            observed="stored",
            divergence=old.power,
            dispersion=old.dispersion,
            name=old.name,
        )
        listed = list(self.relations)
        listed[self.private] = made
        return (listed,)

    def _users(self) -> NDArray[np.int64]:
        return np.unique(self.coords[:, self.axis])

    def digest(self) -> str:
        """Return a hash of the cells."""
        return fingerprint((self.coords, self.values))

    def take(self, places: Places) -> CellUnits:
        """Return the cells of these units; users keep their places in the list."""
        if self.by_cell:
            return replace(self, coords=self.coords[places], values=self.values[places])
        kept = np.isin(self.coords[:, self.axis], self._users()[places])
        return replace(self, coords=self.coords[kept], values=self.values[kept])

    def unit(self, place: int) -> Unit:
        """Return the cells of one unit, and their values."""
        if self.by_cell:
            return self.coords[[place]], self.values[[place]]
        own = self.coords[:, self.axis] == self._users()[place]
        return self.coords[own], self.values[own]

    def added(self, unit: Unit) -> CellUnits:
        """Return the cells of one more user, who has the last place in the list, or one more cell."""
        coords, values = unit
        coords = coords.copy()
        if not self.by_cell:
            coords[:, self.axis] = self.shape[self.axis] - 1
        return replace(self, coords=np.concatenate([self.coords, coords]), values=np.concatenate([self.values, values]))

    def with_units(self, units: Sequence[Unit]) -> CellUnits:
        """Return the cells of these units too; users keep the places that they had."""
        coords = np.concatenate([self.coords, *(unit[0] for unit in units)])
        return replace(self, coords=coords, values=np.concatenate([self.values, *(unit[1] for unit in units)]))

    def world(self, unit: Unit | None) -> World:
        """Return the data with a unit or without one; the list of users has a place for it in any case."""
        return World(self if unit is None else self.added(unit), not self.by_cell or unit is not None)


def units_of(estimator: Estimator, data: Any) -> Units:
    """Return the data of an estimator as units.

    Parameters
    ----------
    estimator : estimator
    data : object
        What `fit` takes: rows, a tuple of rows and labels, a tuple of users, items and ratings, or a list of relations.
    """
    if isinstance(data, Units):
        return data
    if isinstance(data, list | tuple) and data and all(hasattr(one, "factors") for one in data):
        return CellUnits.of(data, estimator.private, by_cell=estimator.unit == "cell")
    if isinstance(data, tuple) and len(data) == 3 and hasattr(estimator, "rating_range"):
        return RatingUnits.of(*data, cells=getattr(estimator, "unit", "user") == "cell")
    if isinstance(data, tuple) and len(data) == 2:
        return RowUnits(_rows(data[0]), np.asarray(data[1]))
    rows = _rows(data)
    owner = getattr(estimator, "unit_column", None)
    return PersonUnits.of(rows, str(owner)) if owner is not None and hasattr(rows, "iter_columns") else RowUnits(rows)


def _rows(X: Any) -> Any:
    if hasattr(X, "tocsr"):
        from scipy.sparse import csr_array

        return csr_array(X)
    if hasattr(X, "iter_columns"):
        return X
    frame = as_frame(X)
    if frame is not None:
        import polars

        return polars.DataFrame({str(name): frame[name].to_list() for name in frame.columns}, strict=False)
    rows = np.asarray(X)
    if rows.ndim != 2 or rows.dtype.kind not in "fiub":
        raise InvalidInputError(
            "rows of numbers, a data frame, a sparse matrix, ratings or relations",
            kind_of(X),
            "Give the data as `fit` takes it.",
        )
    return rows.astype(np.float64)
