r"""The released factors, and solving one site's own factors given them.

The expectation of a cell is :math:`\mu + b_u + \sum_d b^{(d)} + \sum_r \theta_{ur} \prod_d f^{(d)}_r`. There are biases beside
the product of factors because means can still be estimated where the noise is too strong for factors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tacit.channel import Outcome
from tacit.factor.arrays import Floats
from tacit.factor.coupled.cells import added
from tacit.factor.coupled.private.budget import CoupledMomentSettings
from tacit.factor.coupled.private.unit_cells import UnitCells
from tacit.factor.noisy_moments.constants import UNIT_BIAS_VARIANCE, VALUE_VARIANCE
from tacit.factor.noisy_moments.leave_one_out import leave_one_out
from tacit.factor.small_solves import ridge_rows

OWN_SWEEPS = 4
"""Sweeps of the final solution for a site's own factors. Set by hand: they start from the released rows."""
OWN_VARIANCE = 0.05
"""Prior variance of a site's own row around its noisy value, when the site solves it again without noise. Set by hand."""


@dataclass(frozen=True, eq=False)
class FixedFactors:
    """Rows of every factor except the protected entity's: factors and, last, bias.

    There may be factors of other sites too; a site's cells use those of its own relation.

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
        """Prior precision of an entity's factors and bias."""
        return np.append(np.ones(self.size - 1), 1 / UNIT_BIAS_VARIANCE)

    def product(self, cells: UnitCells, *, without: str | None = None) -> Floats:
        """Return, for every cell, the product of the factors of all modes, or of all except `without`."""
        product = np.ones((len(cells.values), self.size - 1))
        for name, rows in self.rows.items():
            if name != without and name in cells.rows:
                product *= rows[cells.rows[name], :-1]
        return product

    def targets(self, cells: UnitCells) -> Floats:
        """Return the values minus the mean and the biases of these factors."""
        targets: Floats = cells.values - self.mean
        for name, rows in self.rows.items():
            if name in cells.rows:
                targets = targets - rows[cells.rows[name], -1]
        return targets

    def regressors(self, cells: UnitCells) -> Floats:
        """Return, for every cell, the regressors of the entity's factors and bias: the product of the factors, and 1."""
        return np.ascontiguousarray(np.concatenate([self.product(cells), np.ones((len(cells.values), 1))], axis=1))

    def solve(self, cells: UnitCells) -> Floats:
        """Return every entity's factors and bias, from its own cells."""
        none = np.zeros((0, self.size))
        solved, _, _ = ridge_rows(
            cells.ends, cells.each, self.targets(cells), self.regressors(cells), none, self.precision, self.noise
        )
        return np.asarray(solved)

    def spread(self, cells: UnitCells) -> Floats:
        r"""Return the posterior covariance of every entity's factors and bias given these rows, :math:`(X'X/s^2 + P)^{-1}`."""
        regressors, size = self.regressors(cells), self.size
        gram = np.empty((cells.n_entities, size, size))
        for one in range(size):
            gram[:, one] = cells.per_entity(regressors * regressors[:, [one]])
        return np.asarray(np.linalg.inv(gram / self.noise + np.diag(self.precision)))

    def leave_one_out(self, cells: UnitCells) -> tuple[Floats, Floats]:
        """Return, for every cell, its entity's factors and bias solved without the cell, and the cell's error under them."""
        return leave_one_out(cells.ends, self.targets(cells), self.regressors(cells), self.precision, self.noise)

    def with_own(self, cells: UnitCells, names: Sequence[str]) -> FixedFactors:
        """Solve this site's own rows again from its data, without noise; the result stays with the site."""
        now = self
        for _ in range(OWN_SWEEPS if names else 0):
            own = now.solve(cells)[cells.entity]
            for name in names:
                product = now.product(cells, without=name) * own[:, :-1]
                regressors = np.concatenate([product, np.ones((len(product), 1))], axis=1)
                here = now.rows[name][cells.rows[name]]
                errors = now.targets(cells) - own[:, -1] - (product * here[:, :-1]).sum(axis=1)
                gram = added(cells.rows[name], regressors[:, :, None] * regressors[:, None, :], cells.sizes[name])
                linear = added(cells.rows[name], errors[:, None] * regressors, cells.sizes[name])
                ridge = now.noise / OWN_VARIANCE  # towards the noisy row
                difference = self.rows[name] - now.rows[name]
                gram += ridge * np.eye(now.size)
                step = np.linalg.solve(gram, (linear + ridge * difference)[:, :, None])[:, :, 0]
                now = replace(now, rows={**now.rows, name: now.rows[name] + step})
        return now


def constant(mean: float, cells: UnitCells, entity: str, settings: CoupledMomentSettings) -> Outcome:
    """Return the model that consists of the mean."""
    rows = {name: np.zeros((size, 1)) for name, size in cells.sizes.items()}
    own = rows.pop(entity)
    released = {f"rows:{name}": one for name, one in rows.items()}
    return Outcome({"mean": mean, "noise": VALUE_VARIANCE, "own": own if settings.release_own else None, **released})
