"""The einsum of a relation: its data letters and summed letters, the sizes of its factors, and factors as matrices.

The models of Ermis 2020 are einsums: CP (eqs 2.1 and 6.1) is ``ir,jr,kr->ijk``, a matrix (eqs 2.2 and 6.2)
``ir,jr->ij``, and Tucker (eq. 6.5) ``ir,js,kt,rst->ijk``. Factors that relations share (eq. 3.3) have the same name.

A `Layout` arranges a factor as a matrix, with one row for every index of its data letters and one column for every index of
its summed letters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tacit.errors import InvalidInputError, parameter, words
from tacit.factor.arrays import Floats
from tacit.validation import check_count

if TYPE_CHECKING:
    from tacit.factor.coupled.relation import Relation

EXAMPLE = 'Write one group of letters per factor and the letters of the data, for example "ir,jr,kr->ijk".'


@dataclass(frozen=True)
class Spec:
    """A parsed einsum.

    Parameters
    ----------
    inputs : tuple of str
        The letters of every factor.
    output : str
        The letters of the data, one per axis.
    """

    inputs: tuple[str, ...]
    output: str

    @property
    def text(self) -> str:
        """The einsum as it is written."""
        return f"{','.join(self.inputs)}->{self.output}"

    @cached_property
    def summed(self) -> str:
        """The letters that are summed over, in order of appearance; each has a rank."""
        return "".join(dict.fromkeys(letter for group in self.inputs for letter in group if letter not in self.output))

    def data_letters(self, place: int) -> str:
        """The letters of the factor at `place` that are axes of the data."""
        return "".join(letter for letter in self.inputs[place] if letter in self.output)

    def summed_letters(self, place: int) -> str:
        """The letters of the factor at `place` that are summed over."""
        return "".join(letter for letter in self.inputs[place] if letter not in self.output)

    @cached_property
    def is_cp(self) -> bool:
        """Whether every factor is one axis by the one summed letter, and every axis has one factor."""
        rank = self.summed
        groups = [group.replace(rank, "") for group in self.inputs] if len(rank) == 1 else []
        return sorted(groups) == sorted(self.output) and all(len(group) == 2 for group in self.inputs)

    @classmethod
    def parse(cls, text: object, n_factors: int, order: int) -> Spec:
        """Read an einsum for `n_factors` factors and data with `order` axes; raise an error that names the mistake."""
        if not isinstance(text, str) or text.count("->") != 1:
            raise InvalidInputError("an einsum with one arrow", parameter(text), EXAMPLE)
        left, output = text.replace(" ", "").split("->")
        inputs = tuple(left.split(","))
        for letter in left.replace(",", "") + output:
            if not (letter.isascii() and letter.isalpha()):
                raise InvalidInputError(f"only letters, commas and an arrow in {text!r}", parameter(letter), EXAMPLE)
        if "" in inputs:
            raise InvalidInputError(f"letters for every factor in {text!r}", words("an empty group"), EXAMPLE)
        if len(inputs) != n_factors:
            raise InvalidInputError(
                f"one group of letters per factor, for {n_factors} factors",
                words(f"{len(inputs)} groups in {text!r}"),
                "Name as many factors as there are groups before the arrow.",
            )
        if len(output) != order:
            raise InvalidInputError(
                f"one letter per axis of the data, which has {order}",
                words(f"{len(output)} letters after the arrow of {text!r}"),
                "Write one letter after the arrow for every axis of the data.",
            )
        for group in (*inputs, output):
            twice = [letter for letter in group if group.count(letter) > 1]
            if twice:
                raise InvalidInputError(
                    f"no letter twice in one group of {text!r}",
                    words(f"{twice[0]!r} twice in {group!r}"),
                    "Diagonals are not supported; use another letter.",
                )
        for letter in output:
            if letter not in left:
                raise InvalidInputError(
                    f"every axis of {text!r} to come from a factor",
                    words(f"the letter {letter!r} in no factor"),
                    f"Give a factor the letter {letter!r}.",
                )
        return cls(inputs, output)


def checked_ranks(ranks: object, relations: Sequence[Relation]) -> dict[str, int]:
    """Return the ranks of all summed letters; an integer stands for all of them."""
    needed = dict.fromkeys(letter for relation in relations for letter in relation.spec.summed)
    if not isinstance(ranks, Mapping):
        return dict.fromkeys(needed, check_count(ranks, "ranks"))
    for letter in ranks:
        if letter not in needed:
            raise InvalidInputError(
                f"ranks for summed letters only ({', '.join(needed) or 'there are none'})",
                parameter(letter),
                f"No relation sums over {letter!r}: take it out of ranks, or use it in an einsum.",
            )
    for relation in relations:
        for letter in relation.spec.summed:
            if letter not in ranks:
                raise InvalidInputError(
                    f"a rank for every summed letter: {letter!r} of {relation.name!r} ({relation.spec.text}) has none",
                    parameter(dict(ranks)),
                    f"Add it: ranks={{..., {letter!r}: 5}}.",
                )
    return {letter: check_count(ranks[letter], f"the rank of {letter!r}") for letter in needed}


def factor_shapes(relations: Sequence[Relation], ranks: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """Return the shape of every factor by name; raise if two relations need different shapes."""
    shapes: dict[str, tuple[int, ...]] = {}
    first: dict[str, str] = {}
    for relation in relations:
        sizes = {**ranks, **dict(zip(relation.spec.output, relation.shape, strict=True))}
        for factor, letters in zip(relation.factors, relation.spec.inputs, strict=True):
            shape = tuple(sizes[letter] for letter in letters)
            if shapes.setdefault(factor, shape) != shape:
                raise InvalidInputError(
                    f"the same shape of the factor {factor!r} in all relations: {shapes[factor]} in {first[factor]!r}",
                    words(f"{shape} in {relation.name!r} ({relation.spec.text})"),
                    "Factors with the same name are the same factor: rename it, or make the data and ranks agree.",
                )
            first.setdefault(factor, relation.name)
    return shapes


@dataclass(frozen=True)
class Layout:
    """Arrangement of a factor as a matrix.

    Parameters
    ----------
    order : tuple of int
        The factor's axes, those of the rows first.
    data : int
        Number of axes that make the rows.
    """

    order: tuple[int, ...]
    data: int

    @classmethod
    def of(cls, spec: Spec, place: int) -> Layout:
        """Return the layout of the factor at `place` of an einsum."""
        letters = spec.inputs[place]
        order = sorted(range(len(letters)), key=lambda axis: letters[axis] not in spec.output)
        return cls(tuple(order), len(spec.data_letters(place)))

    def size(self, shape: tuple[int, ...]) -> tuple[int, int]:
        """Return the number of rows and of columns."""
        arranged = [shape[axis] for axis in self.order]
        rows = int(np.prod(arranged[: self.data], dtype=np.int64))
        return rows, int(np.prod(arranged[self.data :], dtype=np.int64))

    def rows(self, factor: Floats) -> Floats:
        """Return the factor as a matrix; a view where possible."""
        return factor.transpose(self.order).reshape(self.size(factor.shape))

    def back(self, rows: Floats, shape: tuple[int, ...]) -> Floats:
        """Return the factor for a matrix that `rows` made."""
        arranged = rows.reshape([shape[axis] for axis in self.order])
        return np.ascontiguousarray(arranged.transpose(np.argsort(self.order)))
