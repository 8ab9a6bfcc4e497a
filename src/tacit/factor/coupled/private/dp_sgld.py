r"""Coupled factorisation by noisy gradients of Poisson samples: DP-SGLD for any einsum, Euclid or Kullback-Leibler.

In every step each unit takes part with probability q; its gradient by all noised factors together, summed over its cells, is
clipped to a norm; the noisy total moves the factors, and the noise of the channel is the noise of Langevin dynamics [1]_:

.. math:: \Theta_{t+1} = \Theta_t + \frac{\eta_0}{t^\gamma s_t}\Big(\frac1q\big(\sum_u \bar g_u + \xi\big) - \lambda\Theta_t\Big)

with :math:`s_t` the running root mean square of the noisy gradient of a factor, which is public. The average over the second
half of the steps is released: a mean. The temperature of the dynamics follows from the noise that privacy asks for,
and is not that of the posterior; without noise this is gradient descent, and ends at the mode.

What feeds a gradient is a function of one unit's data and of earlier answers. An entity's own factors are, where the entity is
the unit: they are solved from its own cells. Whatever several units share is noised, also where it belongs to one site. That
the thesis lets a site's factors see its data in the clear *during* the steps is what its sensitivity does not cover.

References
----------
.. [1] Y.-X. Wang, S. Fienberg, A. Smola. Privacy for free: posterior sampling and stochastic gradient Monte Carlo. ICML 2015;
   Ermis 2020, Algorithms 1 and 2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.channel import Outcome, Program, Sample, Sum
from tacit.errors import Undisclosed
from tacit.factor.coupled.einsum import Spec
from tacit.factor.coupled.predict import cell_letter
from tacit.factor.coupled.private.problem import Problem
from tacit.factor.coupled.private.unit_cells import Pairs, UnitCells, Whole, added
from tacit.factor.coupled.relation import Relation
from tacit.factor.noisy_moments.symmetric import Floats
from tacit.factor.small_solves import ridge_rows

LEAST_MEAN = 1e-2
LEVEL, SPREAD = 0.5, 0.1
"""Start: one component in which all rows are alike, and small random ones."""
RIDGE = 0.2
OWN_NOISE = 0.2
MEMORY = 0.9
OWN_STEPS = 8
LEAST = 1e-3


@dataclass(frozen=True, eq=False, repr=False)
class Cells(Undisclosed):
    """Cells of one relation, with the row of each in every factor; what a gradient is computed from.

    Attributes
    ----------
    spec : Spec
    names : tuple of str
        The factors, in the order of the einsum.
    ranks : mapping of letter to int
    rows : mapping of factor to ndarray
    values : ndarray
    power : float
        0 for Euclid, 1 for Kullback-Leibler.
    """

    spec: Spec
    names: tuple[str, ...]
    ranks: Mapping[str, int]
    rows: Mapping[str, Whole]
    values: Floats
    power: float

    def taken(self, chosen: NDArray[np.bool_]) -> Cells:
        """Return some of the cells."""
        rows = {name: one[chosen] for name, one in self.rows.items()}
        return Cells(self.spec, self.names, self.ranks, rows, self.values[chosen], self.power)

    def means(self, factors: Mapping[str, Floats]) -> Floats:
        """Return the model's mean of every cell; `factors` are matrices, one row an entity."""
        groups, operands = self._operands(factors, range(len(self.names)))
        return np.asarray(np.einsum(f"{','.join(groups)}->{cell_letter(self.spec)}", *operands, optimize=True))

    def pull(self, factors: Mapping[str, Floats]) -> Floats:
        """Return the derivative of the log-likelihood by the mean, for every cell."""
        means = self.means(factors)
        return self.values - means if self.power == 0 else self.values / np.maximum(means, LEAST_MEAN) - 1

    def slopes(self, name: str, factors: Mapping[str, Floats]) -> Floats:
        """Return the derivative of the mean by the row of one factor: one row a cell."""
        place, new = self.names.index(name), cell_letter(self.spec)
        groups, operands = self._operands(factors, [other for other in range(len(self.names)) if other != place])
        summed = self.spec.summed_letters(place)
        # letters that this factor alone has: its entries all get the same
        free = [letter for letter in summed if letter not in "".join(groups)]
        operands += [np.ones(len(self.values)), *(np.ones(self.ranks[letter]) for letter in free)]
        text = ",".join([*groups, new, *free])
        slopes = np.asarray(np.einsum(f"{text}->{new}{summed}", *operands, optimize=True))
        # the width is counted, not left to numpy: a sample may have no cell
        return slopes.reshape(len(self.values), math.prod(self.ranks[letter] for letter in summed))

    def _operands(self, factors: Mapping[str, Floats], places: Sequence[int] | range) -> tuple[list[str], list[Floats]]:
        new = cell_letter(self.spec)
        groups, operands = [], []
        for place in places:
            summed = self.spec.summed_letters(place)
            shape = [self.ranks[letter] for letter in summed]
            rows = factors[self.names[place]]
            if self.spec.data_letters(place):
                groups.append(new + summed)
                operands.append(rows[self.rows[self.names[place]]].reshape(len(self.values), *shape))
            else:
                groups.append(summed)
                operands.append(rows.reshape(shape))
        return groups, operands


def clipped_gradients(
    relations: Sequence[tuple[Cells, Whole]],
    factors: Mapping[str, Floats],
    names: Sequence[str],
    units: int,
    clip: float,
) -> dict[str, Floats]:
    """Return the sum over the units of each one's gradient by the named factors, cut off at norm `clip`.

    Parameters
    ----------
    relations : sequence of (Cells, units)
        Cells, and the unit of each.
    factors : mapping of factor to ndarray
    names : sequence of str
    units : int
        How many units there are.
    clip : float
    """
    terms: dict[str, list[Floats]] = {name: [] for name in names}
    places: dict[str, list[tuple[Whole, Whole]]] = {name: [] for name in names}
    for cells, unit in relations:
        pull = cells.pull(factors)
        for name in names:
            if name in cells.names:
                terms[name].append(pull[:, None] * cells.slopes(name, factors))
                places[name].append((unit, cells.rows[name]))
    gathered: dict[str, tuple[Pairs, Floats]] = {}
    squares = np.zeros(units)
    for name in names:
        unit = np.concatenate([one for one, _ in places[name]])
        row = np.concatenate([one for _, one in places[name]])
        pairs = Pairs.of(unit, row, len(factors[name]))
        total = pairs.total(np.concatenate(terms[name]))
        squares += added(pairs.unit, (total**2).sum(axis=1), units)
        gathered[name] = pairs, total
    scales = np.minimum(1.0, clip / np.maximum(np.sqrt(squares), 1e-300))
    return {
        name: added(pairs.row, total * scales[pairs.unit][:, None], len(factors[name]))
        for name, (pairs, total) in gathered.items()
    }


@dataclass(frozen=True)
class SgldSettings:
    r"""What all holders agree on.

    Attributes
    ----------
    steps : int
    rate : float
        Probability with which a unit takes part in a step.
    clip : float
        Longest gradient of one unit.
    step_size, step_decay : float
        :math:`\eta_0` and :math:`\gamma`.
    noised : tuple of str
        The factors that move by noisy totals.
    by_cell : bool
        Whether a unit is one cell.
    random_state : int
        Of the start, which is public.
    """

    steps: int
    rate: float
    clip: float
    step_size: float
    step_decay: float
    noised: tuple[str, ...]
    by_cell: bool
    random_state: int


def sgld_program(
    problem: Problem, private: Sequence[UnitCells], ranks: Mapping[str, int], settings: SgldSettings
) -> Program:
    """One holder's view; the outcome's public part has the noised factors as ``rows:<name>``, over all sites."""
    mine = [_cells(one, ranks) for one in private]
    public = [_public_cells(relation, ranks) for relation in problem.public]
    factors = public_start(problem, ranks, settings, kept=any(cells.power for cells in mine))
    units = [_units(private, index, settings.by_cell) for index in range(len(private))]
    n_units = sum(len(one.values) for one in private) if settings.by_cell else private[0].n_entities
    moving = [*settings.noised, *(name for name in factors if name not in (*settings.noised, problem.entity))]
    scales = dict.fromkeys(moving, 0.0)
    averages = {name: np.zeros_like(factors[name]) for name in moving}
    first_kept = settings.steps // 2
    for step in range(settings.steps):
        taken = yield Sample(n_units, settings.rate)
        sampled = [(cells.taken(taken[unit]), unit[taken[unit]]) for cells, unit in zip(mine, units, strict=True)]
        at = dict(factors)
        if problem.entity not in settings.noised:
            at[problem.entity] = _solve_entities(sampled, factors, problem)
        gradients = clipped_gradients(sampled, at, settings.noised, n_units, settings.clip)
        asked: dict[str, Any] = {f"factor:{name}": gradient for name, gradient in gradients.items()}
        answer = yield Sum(bound=settings.clip, units=int(taken.sum()), **asked)
        for name in moving:
            total = answer[f"factor:{name}"] / settings.rate if name in settings.noised else 0.0
            total = total + sum(_gradient(cells, name, factors) for cells in public) - RIDGE * factors[name]
            scales[name] = MEMORY * scales[name] + (1 - MEMORY) * float(np.mean(total**2))
            size = np.sqrt(scales[name] / (1 - MEMORY ** (step + 1))) + 1e-12
            factors[name] = factors[name] + settings.step_size / (step + 1) ** settings.step_decay * total / size
            if any(cells.power for cells in mine):
                factors[name] = np.maximum(factors[name], LEAST)
            if step >= first_kept:
                averages[name] += factors[name] / (settings.steps - first_kept)
    return Outcome({f"rows:{name}": averages[name] for name in moving})


def solve_own(
    problem: Problem, private: Sequence[UnitCells], ranks: Mapping[str, int], factors: Mapping[str, Floats]
) -> Floats:
    """Return the protected entities' own rows, from their cells and the released factors; they stay with the site."""
    units = [_units(private, index, False) for index in range(len(private))]
    listed = [(_cells(one, ranks), unit) for one, unit in zip(private, units, strict=True)]
    return _solve_entities(listed, factors, problem)


def public_start(
    problem: Problem, ranks: Mapping[str, int], settings: SgldSettings, *, kept: bool
) -> dict[str, Floats]:
    """Return factors that no data was seen for; the same at every site."""
    draw = np.random.default_rng(settings.random_state)
    found = {}
    for name in sorted(problem.sizes):
        width = int(np.prod(_summed_shape(problem, ranks, name)))
        rows = SPREAD * draw.standard_normal((problem.sizes[name], width))
        rows[:, 0] += LEVEL
        found[name] = np.abs(rows) if kept else rows
    return found


def _summed_shape(problem: Problem, ranks: Mapping[str, int], name: str) -> list[int]:
    for relation in (*problem.private, *problem.public):
        if name in relation.factors:
            return [ranks[letter] for letter in relation.spec.summed_letters(relation.factors.index(name))]
    return [1]


def _cells(one: UnitCells, ranks: Mapping[str, int]) -> Cells:
    relation = one.relation
    values = one.values if relation.power == 0 else (one.values + 1) / 2
    return Cells(relation.spec, relation.factors, ranks, one.rows, values, relation.power)


def _public_cells(relation: Relation, ranks: Mapping[str, int]) -> Cells:
    coords, values = relation.known_cells()
    rows = {}
    for place, name in enumerate(relation.factors):
        letter = relation.spec.data_letters(place)
        column = coords[:, relation.spec.output.index(letter)] if letter else np.zeros(len(coords))
        rows[name] = column.astype(np.int64)
    largest = float(np.abs(values).max()) or 1.0
    return Cells(relation.spec, relation.factors, ranks, rows, values / largest, relation.power)


def _units(private: Sequence[UnitCells], index: int, by_cell: bool) -> Whole:
    """Return the unit of every cell of a relation."""
    if not by_cell:
        return private[index].entity
    before = sum(len(one.values) for one in private[:index])
    return before + np.arange(len(private[index].values))


def _gradient(cells: Cells, name: str, factors: Mapping[str, Floats]) -> Floats | float:
    if name not in cells.names:
        return 0.0
    terms = cells.pull(factors)[:, None] * cells.slopes(name, factors)
    return added(cells.rows[name], terms, len(factors[name]))


def _solve_entities(
    relations: Sequence[tuple[Cells, Whole]], factors: Mapping[str, Floats], problem: Problem
) -> Floats:
    """Return the protected entities' factor with its rows solved for those that have cells here; the others as they were."""
    found = factors[problem.entity].copy()
    rows = np.concatenate([cells.rows[problem.entity] for cells, _ in relations])
    order = np.argsort(rows, kind="stable")
    present, counts = np.unique(rows, return_counts=True)
    if not len(present):
        return found
    ends = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    slopes = np.concatenate([cells.slopes(problem.entity, factors) for cells, _ in relations])[order]
    values = np.concatenate([cells.values for cells, _ in relations])[order]
    each = np.arange(len(values), dtype=np.int32)
    width = slopes.shape[1]
    if all(cells.power == 0 for cells, _ in relations):
        solved, _, _ = ridge_rows(
            ends, each, values, np.ascontiguousarray(slopes), slopes[:0], np.ones(width), OWN_NOISE
        )
    else:
        solved = np.full((len(present), width), LEVEL)
        unit = np.repeat(np.arange(len(present)), counts)
        slopes = np.maximum(slopes, 0.0)
        exposure = added(unit, slopes, len(present)) + 1.0
        for _ in range(OWN_STEPS):  # expectation-maximisation for Poisson counts, with a Gamma prior
            means = np.maximum((solved[unit] * slopes).sum(axis=1), LEAST)
            solved = (solved * added(unit, slopes * (values / means)[:, None], len(present)) + LEAST) / exposure
    found[present] = solved
    return found
