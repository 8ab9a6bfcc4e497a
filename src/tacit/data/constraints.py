"""Constraints between columns that are public, and hold in every row of the private table and of synthetic ones."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.errors import InvalidInputError, parameter, words

Table = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Constraint(ABC):
    """A statement about two columns, `first` and `second`, that holds in every row."""

    kind: ClassVar[str]
    first: str
    second: str

    @abstractmethod
    def broken(self, table: Table) -> NDArray[np.bool_]:
        """Return in which rows the constraint does not hold."""

    def check_rows(self, table: Table) -> None:
        """Raise, naming the columns, if a row breaks the constraint."""
        if self.broken(table).any():
            raise InvalidInputError(
                f"rows that keep the constraint between {self.first} and {self.second} ({self.kind})",
                words("a row that does not"),
                "Correct the table, or drop the constraint from the schema.",
            )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON or TOML."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        return {"kind": self.kind, **{name: list(v) if isinstance(v, tuple) else v for name, v in given.items()}}


@dataclass(frozen=True)
class AtMost(Constraint):
    """The number or date in `first` is at most that in `second`; a missing one breaks nothing.

    Both columns are of one kind, with as many decimals.
    """

    kind: ClassVar[str] = "at-most"

    def broken(self, table: Table) -> NDArray[np.bool_]:
        """Return where the first is larger."""
        return np.asarray(table[self.first] > table[self.second])


@dataclass(frozen=True)
class Implies(Constraint):
    """Where `first` has the category `value`, `second` has one of the categories `values`."""

    kind: ClassVar[str] = "implies"
    value: str | bool | int | float
    values: tuple[str | bool | int | float, ...]

    def broken(self, table: Table) -> NDArray[np.bool_]:
        """Return where the second has another category."""
        return np.asarray((table[self.first] == self.value) & ~np.isin(table[self.second], list(self.values)))


@dataclass(frozen=True)
class Determines(Constraint):
    """Each value of `first` goes with one value of `second`: a functional dependency, as of a town and its country.

    Which value that is, is learned from the noisy tables. Rows of the private table are not checked: whether they keep it would
    depend on other rows.
    """

    kind: ClassVar[str] = "determines"

    def broken(self, table: Table) -> NDArray[np.bool_]:
        """Return where a value of the first goes with another value of the second than in its first row."""
        _, where, place = np.unique(table[self.first].astype(str), return_index=True, return_inverse=True)
        text = table[self.second].astype(str)
        return np.asarray(text != text[where][place])

    def check_rows(self, table: Table) -> None:
        """Check nothing."""


CONSTRAINTS: dict[str, type[Constraint]] = {one.kind: one for one in (AtMost, Implies, Determines)}
"""Every kind of constraint, by the name that a schema file uses."""


def constraint_from_dict(values: Mapping[str, Any]) -> Constraint:
    """Return the constraint that `Constraint.to_dict` described."""
    kind = values.get("kind") if isinstance(values, Mapping) else None
    if kind not in CONSTRAINTS:
        raise InvalidInputError(
            f"the kind of a constraint to be one of {', '.join(CONSTRAINTS)}", parameter(kind), "State its kind."
        )
    wanted = {"kind", *(field.name for field in fields(CONSTRAINTS[kind]))}
    if set(values) != wanted:
        raise InvalidInputError(
            f"{', '.join(sorted(wanted))} in a constraint of kind {kind}",
            words(", ".join(sorted(values))),
            "Correct the schema.",
        )
    given: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in values.items() if name != "kind"
    }
    return CONSTRAINTS[kind](**given)
