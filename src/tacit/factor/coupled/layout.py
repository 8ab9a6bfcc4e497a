"""A factor as a matrix: one row for every index of its data letters, one column for every index of its summed letters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.factor.coupled.divergence import Floats
from tacit.factor.coupled.spec import Spec


@dataclass(frozen=True)
class Layout:
    """Which axes of a factor make its rows.

    Parameters
    ----------
    order : tuple of int
        The factor's axes, those of the rows first.
    data : int
        How many of them make the rows.
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
        """Return what `rows` was made from."""
        arranged = rows.reshape([shape[axis] for axis in self.order])
        return np.ascontiguousarray(arranged.transpose(np.argsort(self.order)))
