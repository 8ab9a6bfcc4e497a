r"""The released factors, and solving one site's own factors given them.

A cell's expectation is :math:`\mu + b_u + \sum_d b^{(d)} + \sum_r \theta_{ur} \prod_d f^{(d)}_r`: biases beside the product of
factors, since a mean is what survives the strongest noise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tacit.channel import Outcome
from tacit.factor.coupled.private.budget import CoupledMomentSettings
from tacit.factor.coupled.private.unit_cells import UnitCells, added
from tacit.factor.noisy_moments.constants import ENTITY_BIAS, NOISE
from tacit.factor.noisy_moments.leave_one_out import left_out
from tacit.factor.noisy_moments.symmetric import Floats
from tacit.factor.small_solves import ridge_rows

OWN_SWEEPS = 4
OWN_VARIANCE = 0.05
"""Around its noisy value, of a site's own row that the site solves again in the clear."""


@dataclass(frozen=True, eq=False)
class FixedFactors:
    """Rows of every factor but one: factors and, last, bias.

    Attributes
    ----------
    mean : float
    rows : mapping of factor to ndarray of shape (n, rank + 1)
    noise : float
        Variance of a value around its expectation.
    """

    mean: float
    rows: Mapping[str, Floats]
    noise: float

    @property
    def size(self) -> int:
        """The number of factors, plus one for the bias."""
        return int(next(iter(self.rows.values())).shape[1])

    @property
    def precision(self) -> Floats:
        """Of the prior of an entity's factors and bias."""
        return np.append(np.ones(self.size - 1), 1 / ENTITY_BIAS)

    def product(self, cells: UnitCells, *, without: str | None = None) -> Floats:
        """Return for every cell the product of the factors of all modes, or of all but one."""
        found = np.ones((len(cells.values), self.size - 1))
        for name, rows in self.rows.items():
            if name != without:
                found *= rows[cells.rows[name], :-1]
        return found

    def targets(self, cells: UnitCells) -> Floats:
        """Return what is left of every value for the entity to explain."""
        left: Floats = cells.values - self.mean
        for name, rows in self.rows.items():
            left = left - rows[cells.rows[name], -1]
        return left

    def regressors(self, cells: UnitCells) -> Floats:
        """Return what an entity's factors and bias are multiplied with in every cell."""
        return np.ascontiguousarray(np.concatenate([self.product(cells), np.ones((len(cells.values), 1))], axis=1))

    def solve(self, cells: UnitCells) -> Floats:
        """Return every entity's factors and bias, from its own cells."""
        none = np.zeros((0, self.size))
        found, _, _ = ridge_rows(
            cells.ends, cells.each, self.targets(cells), self.regressors(cells), none, self.precision, self.noise
        )
        return np.asarray(found)

    def left_out(self, cells: UnitCells) -> tuple[Floats, Floats]:
        """Return the same for every cell without that cell, and the cell's error."""
        return left_out(cells.ends, self.targets(cells), self.regressors(cells), self.precision, self.noise)

    def with_own(self, cells: UnitCells, names: Sequence[str]) -> FixedFactors:
        """Solve the rows that belong to this site alone again, from its data in the clear; the result stays with the site."""
        side = self
        for _ in range(OWN_SWEEPS if names else 0):
            own = side.solve(cells)[cells.entity]
            for name in names:
                product = side.product(cells, without=name) * own[:, :-1]
                regressors = np.concatenate([product, np.ones((len(product), 1))], axis=1)
                here = side.rows[name][cells.rows[name]]
                errors = side.targets(cells) - own[:, -1] - (product * here[:, :-1]).sum(axis=1)
                gram = added(cells.rows[name], regressors[:, :, None] * regressors[:, None, :], cells.sizes[name])
                linear = added(cells.rows[name], errors[:, None] * regressors, cells.sizes[name])
                ridge = side.noise / OWN_VARIANCE  # towards the noisy row
                behind = self.rows[name] - side.rows[name]
                gram += ridge * np.eye(side.size)
                step = np.linalg.solve(gram, (linear + ridge * behind)[:, :, None])[:, :, 0]
                side = replace(side, rows={**side.rows, name: side.rows[name] + step})
        return side


def constant(mean: float, cells: UnitCells, entity: str, settings: CoupledMomentSettings) -> Outcome:
    """Return the model that knows the mean alone."""
    rows = {name: np.zeros((size, 1)) for name, size in cells.sizes.items() if name in cells.rows}
    own = rows.pop(entity)
    found = {f"rows:{name}": one for name, one in rows.items()}
    return Outcome({"mean": mean, "noise": NOISE, "own": own if settings.release_own else None, **found})
