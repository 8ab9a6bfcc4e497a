"""Scales of columns: a method works on scaled columns, its release is in the units of the table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.errors import Undisclosed
from tacit.validation import check_choice

SCALES = ("range", "unit", "standard", "none")


@dataclass(frozen=True, repr=False)
class Scaling(Undisclosed):
    """A shift and a factor a column: ``scaled = (values - shift) / factor``."""

    shift: NDArray[np.float64]
    factor: NDArray[np.float64]

    @classmethod
    def of(cls, values: NDArray[np.float64], kind: str) -> Scaling:
        """Learn the scale of columns that vary.

        Parameters
        ----------
        values : ndarray of shape (n_rows, n_columns)
        kind : {"range", "unit", "standard", "none"}
            To the range [0, 1]; to columns of length 1; to mean 0 and variance 1; or as they are.
        """
        check_choice(kind, "scale", SCALES)
        zero, one = np.zeros(values.shape[1]), np.ones(values.shape[1])
        match kind:
            case "range":
                return cls(values.min(axis=0), np.ptp(values, axis=0))
            case "unit":
                return cls(zero, np.linalg.norm(values, axis=0))
            case "standard":
                return cls(values.mean(axis=0), values.std(axis=0))
        return cls(zero, one)

    def down(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return scaled values."""
        scaled: NDArray[np.float64] = (values - self.shift) / self.factor
        return scaled

    def up(self, scaled: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return values in the table's units."""
        values: NDArray[np.float64] = scaled * self.factor + self.shift
        return values
