r"""Coupled factorisation by noisy gradients of Poisson samples: DP-SGLD for any einsum, Euclid or Kullback-Leibler.

Algorithms 1 (matrices, DP-CMF) and 2 (tensors, DP-CTF) of Ermis 2020, repaired.

In every step, each unit takes part with probability q. Its gradient by all noised factors together, summed over its cells, is
clipped to a norm. The noisy total updates the factors, and the noise of the channel is the noise of Langevin dynamics [1]_:

.. math:: \Theta_{t+1} = \Theta_t + \frac{\eta_0}{t^\gamma s_t}\Big(\frac1q\big(\sum_u \bar g_u + \xi\big) - \lambda\Theta_t\Big)

It has the gradient of eq. 4.18 (eq. 4.7 for matrices), with 1/q for :math:`C_v/B`, and the update of eq. 4.20
(eq. 4.9). In place of eq. 4.19 (eq. 4.8), which clips the gradient of the whole minibatch to G, each unit's gradient is
clipped, and the prior's is not. Here :math:`s_t` is the running root mean square of the noisy gradient of a factor,
which is public. The average over the second half of the steps is released. The temperature of the dynamics follows from
the noise that privacy needs, and is not that of the posterior. Without noise this is gradient descent, and converges to
the mode.

A gradient may depend on one unit's data and on earlier totals only. An entity's own factors satisfy this if the entity
is the unit: they are solved from its own cells. Anything computed from more than one unit is noised, even if it never
leaves its site. In the thesis, for site-level privacy, a site's factors are updated from its data without noise
*during* the steps (eqs 4.10, 4.11, 4.21 and 4.22); its sensitivity does not cover this. For user-level privacy it
noises them too (eqs 4.12 to 4.14 and 4.23 to 4.25), which is `SgldSettings.noised` here.

The noise is that of the accountant for the whole fit. The bounds on step sizes of Theorems 4.1 to 4.3 have unnamed
constants, and that of eq. 4.27 is not used; the default decay of 0.33 is about the :math:`t^{-1/3}` of Theorem 4.1.

References
----------
.. [1] Y.-X. Wang, S. Fienberg, A. Smola. Privacy for free: posterior sampling and stochastic gradient Monte Carlo. ICML 2015;
   Ermis 2020, Algorithms 1 and 2 (sections 4.1.3 and 4.2.2) and appendix A.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.channel import Bound, Outcome, Program, Sample, Sum
from tacit.errors import Undisclosed
from tacit.factor.arrays import Floats, Integers
from tacit.factor.coupled.cells import added
from tacit.factor.coupled.einsum import Spec
from tacit.factor.coupled.predict import cell_letter
from tacit.factor.coupled.private.problem import Kind, Problem
from tacit.factor.coupled.private.unit_cells import Pairs, UnitCells
from tacit.factor.coupled.relation import Relation
from tacit.factor.noisy_moments.constants import VALUE_VARIANCE
from tacit.factor.small_solves import ridge_rows

LEAST_MEAN = 1e-2
"""Means are raised to this in the gradient of Kullback-Leibler, x / mean - 1. Set by hand: it bounds the gradient of a cell
with a small mean, which would be clipped anyway."""
LEVEL, SPREAD = 0.5, 0.1
"""The start: the first component is this level in all rows, and all components get normal noise with this standard
deviation. Set by hand; the start is public."""
RIDGE = 0.2
"""lambda, the precision of the normal prior of the factors. Set by hand."""
OWN_NOISE = 0.2
"""Variance of a value when an entity's own factors are solved. Set by hand, close to VALUE_VARIANCE of the moments."""
MEMORY = 0.9
"""Decay of the running mean square s. Set by hand, as is usual for RMSprop."""
OWN_STEPS = 8
"""Number of steps of expectation-maximisation for an entity's own factors. Set by hand: fixed per entity, so that an entity's
solution does not depend on others."""
LEAST = 1e-3
"""Non-negative factors are raised to this. Set by hand: a factor of zero would have no gradient by the others."""


@dataclass(frozen=True, eq=False, repr=False)
class Cells(Undisclosed):
    """Cells of one relation, with the row of each in every factor, from which gradients are computed.

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
    rows: Mapping[str, Integers]
    values: Floats
    power: float

    def subset(self, chosen: NDArray[np.bool_]) -> Cells:
        """Return some of the cells."""
        rows = {name: one[chosen] for name, one in self.rows.items()}
        return Cells(self.spec, self.names, self.ranks, rows, self.values[chosen], self.power)

    def means(self, factors: Mapping[str, Floats]) -> Floats:
        """Return the model's mean of every cell; `factors` are matrices with one row per entity."""
        groups, operands = self._operands(factors, range(len(self.names)))
        return np.asarray(np.einsum(f"{','.join(groups)}->{cell_letter(self.spec)}", *operands, optimize=True))

    def mean_gradient(self, factors: Mapping[str, Floats]) -> Floats:
        """Return the derivative of the log-likelihood by the mean of every cell: minus eq. A.1, (x - m) / m^p."""
        means = self.means(factors)
        return self.values - means if self.power == 0 else self.values / np.maximum(means, LEAST_MEAN) - 1

    def slopes(self, name: str, factors: Mapping[str, Floats]) -> Floats:
        """Return the derivative of the mean by the row of one factor, with one row per cell."""
        place, new = self.names.index(name), cell_letter(self.spec)
        groups, operands = self._operands(factors, [other for other in range(len(self.names)) if other != place])
        summed = self.spec.summed_letters(place)
        # letters that only this factor has: all entries along them get the same derivative
        free = [letter for letter in summed if letter not in "".join(groups)]
        operands += [np.ones(len(self.values)), *(np.ones(self.ranks[letter]) for letter in free)]
        text = ",".join([*groups, new, *free])
        slopes = np.asarray(np.einsum(f"{text}->{new}{summed}", *operands, optimize=True))
        # the width is not left to numpy (-1), because a sample may have no cells
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
    relations: Sequence[tuple[Cells, Integers]],
    factors: Mapping[str, Floats],
    names: Sequence[str],
    units: int,
    clip: float,
) -> dict[str, Floats]:
    """Return the sum over the units of their gradients by the named factors, each clipped to the norm `clip`.

    Parameters
    ----------
    relations : sequence of (Cells, units)
        Cells, and the unit of each.
    factors : mapping of factor to ndarray
    names : sequence of str
    units : int
        Number of units.
    clip : float
    """
    terms: dict[str, list[Floats]] = {name: [] for name in names}
    places: dict[str, list[tuple[Integers, Integers]]] = {name: [] for name in names}
    for cells, unit in relations:
        by_mean = cells.mean_gradient(factors)
        for name in names:
            if name in cells.names:
                terms[name].append(by_mean[:, None] * cells.slopes(name, factors))
                places[name].append((unit, cells.rows[name]))
    gathered: dict[str, tuple[Pairs, Floats]] = {}
    squares = np.zeros(units)
    for name in names:
        if not terms[name]:  # a factor of other sites
            continue
        unit = np.concatenate([one for one, _ in places[name]])
        row = np.concatenate([one for _, one in places[name]])
        pairs = Pairs.of(unit, row, len(factors[name]))
        total = pairs.total(np.concatenate(terms[name]))
        squares += added(pairs.unit, (total**2).sum(axis=1), units)
        gathered[name] = pairs, total
    # 1 / max(1, |g| / G) as in eq. 4.19, for each unit's gradient by all named factors together
    scales = np.minimum(1.0, clip / np.maximum(np.sqrt(squares), 1e-300))
    sums = {name: np.zeros_like(factors[name]) for name in names}
    for name, (pairs, total) in gathered.items():
        sums[name] = added(pairs.row, total * scales[pairs.unit][:, None], len(factors[name]))
    return sums


@dataclass(frozen=True)
class SgldSettings:
    r"""Public settings, the same for all holders.

    Attributes
    ----------
    steps : int
    rate : float
        q, the probability with which a unit takes part in a step.
    clip : float
        Largest norm of one unit's gradient; G of eq. 4.19.
    step_size, step_decay : float
        :math:`\eta_0` and :math:`\gamma`.
    noised : tuple of str
        The factors that are updated by noisy totals.
    by_cell : bool
        Whether a unit is one cell.
    random_state : int
        Seed of the start, which is public.
    hyper : tuple of float, optional
        a_0 and b_0 of the Gamma prior of the precisions :math:`\lambda_{dk}` of the factors' components; without it all are
        RIDGE.
    value_variance : float
        Public guess of the variance of a cell's value around its mean, which turns precisions into penalties; for
        Kullback-Leibler the dispersion.
    repeats : float
        How many times its bound at one site a unit can move a sum over all sites (`Problem.repeats`).
    """

    steps: int
    rate: float
    clip: float
    step_size: float
    step_decay: float
    noised: tuple[str, ...]
    by_cell: bool
    random_state: int
    hyper: tuple[float, float] | None = None
    value_variance: float = VALUE_VARIANCE
    repeats: float = 1.0


def sgld_program(
    problem: Problem, private: Sequence[UnitCells], ranks: Mapping[str, int], settings: SgldSettings
) -> Program:
    """One holder's view; the outcome's public part has the noised factors as ``rows:<name>``, over all sites."""
    mine = [_cells(one, ranks) for one in private]
    public = [_public_cells(relation, ranks) for relation in problem.public]
    factors = public_start(problem, ranks, settings, non_negative=any(cells.power for cells in mine))
    units = [_units(private, index, settings.by_cell) for index in range(len(private))]
    n_units = sum(len(one.values) for one in private) if settings.by_cell else private[0].n_entities
    moving = [*settings.noised, *(name for name in factors if name not in (*settings.noised, problem.entity))]
    scales = dict.fromkeys(moving, 0.0)
    averages = {name: np.zeros_like(factors[name]) for name in moving}
    first_kept = settings.steps // 2
    for step in range(settings.steps):
        taken = yield Sample(n_units, settings.rate)
        sampled = [(cells.subset(taken[unit]), unit[taken[unit]]) for cells, unit in zip(mine, units, strict=True)]
        at = dict(factors)
        if problem.entity not in settings.noised:
            at[problem.entity] = _solve_entities(sampled, factors, problem)
        gradients = clipped_gradients(sampled, at, settings.noised, n_units, settings.clip)
        asked: dict[str, Any] = {f"factor:{name}": gradient for name, gradient in gradients.items()}
        total = yield Sum(bound=Bound(settings.clip).times(settings.repeats), units=int(taken.sum()), **asked)
        for name in moving:
            # eq. 4.18, with the noise xi of eq. 4.20 in the total, and the gradient of the Normal prior
            gradient = total[f"factor:{name}"] / settings.rate if name in settings.noised else 0.0
            gradient = gradient + sum(_gradient(cells, name, factors) for cells in public)
            gradient = gradient - penalties(factors[name], settings) * factors[name]
            scales[name] = MEMORY * scales[name] + (1 - MEMORY) * float(np.mean(gradient**2))
            size = np.sqrt(scales[name] / (1 - MEMORY ** (step + 1))) + 1e-12  # s_t; 1e-12 for a gradient of zero
            # eq. 4.20, with eta_t = eta_0 / (t^gamma s_t)
            factors[name] = factors[name] + settings.step_size / (step + 1) ** settings.step_decay * gradient / size
            if any(cells.power for cells in mine):
                factors[name] = np.maximum(factors[name], LEAST)
            if step >= first_kept:
                averages[name] += factors[name] / (settings.steps - first_kept)
    return Outcome({f"rows:{name}": averages[name] for name in moving})


def penalties(factor: Floats, settings: SgldSettings) -> Floats | float:
    r"""Return the weight of the normal prior of every component: its posterior mean precision under a Gamma prior (a_0, b_0).

    With n rows, :math:`\lambda_k = (a_0 + n/2) / (b_0 + \sum_i \theta_{ik}^2/2)`: the mean of the Gamma distribution
    that follows from the prior of Ermis 2020, section 4.2.1 (p. 59), and n Normal entries; the thesis prints the prior
    only. The gradient of the cells here is that of the divergence, which is the log-likelihood times the dispersion of a
    cell; so the prior's is multiplied by it too. Without that, the prior outweighs cells of a small dispersion, its
    precisions grow as the factors shrink, and the factors vanish. The factor is computed from noisy totals, so that this
    is post-processing.
    """
    if settings.hyper is None:
        return RIDGE
    shape, rate = settings.hyper
    means: Floats = (shape + len(factor) / 2) / (rate + (factor**2).sum(axis=0) / 2)
    return settings.value_variance * means


def solve_own(
    problem: Problem, private: Sequence[UnitCells], ranks: Mapping[str, int], factors: Mapping[str, Floats]
) -> Floats:
    """Return the protected entities' own rows, from their cells and the released factors; they stay with the site."""
    units = [_units(private, index, False) for index in range(len(private))]
    listed = [(_cells(one, ranks), unit) for one, unit in zip(private, units, strict=True)]
    return _solve_entities(listed, factors, problem)


def public_start(
    problem: Problem, ranks: Mapping[str, int], settings: SgldSettings, *, non_negative: bool
) -> dict[str, Floats]:
    """Return initial factors that do not depend on data; the same at every site."""
    draw = np.random.default_rng(settings.random_state)
    factors = {}
    for name in sorted(problem.sizes):
        width = int(np.prod(_summed_shape(problem, ranks, name)))
        rows = SPREAD * draw.standard_normal((problem.sizes[name], width))
        rows[:, 0] += LEVEL
        factors[name] = np.abs(rows) if non_negative else rows
    return factors


def _summed_shape(problem: Problem, ranks: Mapping[str, int], name: str) -> list[int]:
    described: list[Kind | Relation] = [kind for kinds in problem.kinds for kind in kinds]
    for relation in [*described, *problem.public]:
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


def _units(private: Sequence[UnitCells], index: int, by_cell: bool) -> Integers:
    """Return the unit of every cell of a relation."""
    if not by_cell:
        return private[index].entity
    before = sum(len(one.values) for one in private[:index])
    return before + np.arange(len(private[index].values))


def _gradient(cells: Cells, name: str, factors: Mapping[str, Floats]) -> Floats | float:
    if name not in cells.names:
        return 0.0
    terms = cells.mean_gradient(factors)[:, None] * cells.slopes(name, factors)
    return added(cells.rows[name], terms, len(factors[name]))


def _solve_entities(
    relations: Sequence[tuple[Cells, Integers]], factors: Mapping[str, Floats], problem: Problem
) -> Floats:
    """Return the protected entities' factor, with the rows of entities that have cells here solved, and the others unchanged."""
    entities = factors[problem.entity].copy()
    rows = np.concatenate([cells.rows[problem.entity] for cells, _ in relations])
    order = np.argsort(rows, kind="stable")
    present, counts = np.unique(rows, return_counts=True)
    if not len(present):
        return entities
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
    entities[present] = solved
    return entities
