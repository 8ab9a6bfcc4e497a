r"""Stochastic gradient Langevin dynamics (SGLD) as a program: samples of the factors from their posterior.

The divergence of the relations decides between two models: Poisson cells with Gamma factors (KL), and Normal cells, whose
variance is the dispersion, with Normal factors of both signs (Euclid). With the gradient g of the log posterior by a factor,
estimated from a random part of the stored cells, a step at time t is

.. math:: \Theta \leftarrow \Theta + \kappa_t (G g + \Gamma) + \sqrt{2 \kappa_t G}\, \xi, \qquad \kappa_t = \kappa t^{-\gamma}

where G is a diagonal metric that makes the step independent of the units of the data, and :math:`\Gamma` the correction
for it. For counts, G is :math:`\Theta / (rate + \Delta(1))` with the correction :math:`1 / (rate + \Delta(1))`, and
entries are reflected at zero. For Normal cells, G is the inverse of a bound on the curvature, which does not depend on
the entry itself, and needs no correction (Patterson & Teh 2013). Factors are updated one after another. Eq. 3.18 of
Ermis 2020 is the case of G = 1 and :math:`\Gamma = 0`, with :math:`\psi = \sqrt{2\kappa_t}\,\xi`.

References
----------
Ermis 2020, section 3.1.3: eqs 3.16 (own factors), 3.17 (shared factors, from totals) and 3.18; eq. A.3 (gradients);
Welling & Teh 2011; Patterson & Teh 2013 (the metric).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.channel import Outcome, Program, Sum
from tacit.errors import InvalidInputError, parameter
from tacit.factor.arrays import Floats
from tacit.factor.coupled.einsum import Layout
from tacit.factor.coupled.plain.program import Holder
from tacit.factor.coupled.plain.sparse_terms import ListedCells
from tacit.factor.coupled.plain.terms import Term, ZerosTerm
from tacit.factor.coupled.relation import Relation


@dataclass(frozen=True)
class LangevinSettings:
    r"""Public settings, the same for all holders of a run.

    Parameters
    ----------
    shape, scale : float
        Shape and mean of the Gamma prior; for a Normal prior, `scale` is the standard deviation.
    burn_in, n_samples, thin : int
        Steps before the first sample, number of samples, and steps per sample.
    step_size, step_decay : float
        :math:`\kappa` and :math:`\gamma`.
    sampling_rate : float
        Probability with which each stored cell takes part in a step.
    random_state : int
    """

    shape: float = 1.0
    scale: float = 1.0
    burn_in: int = 500
    n_samples: int = 100
    thin: int = 5
    step_size: float = 0.3
    step_decay: float = 0.51
    sampling_rate: float = 1.0
    random_state: int = 0


def langevin_program(
    relations: Sequence[Relation],
    start: Mapping[str, Floats],
    *,
    shared: Sequence[str] = (),
    settings: LangevinSettings,
    first_relation: int = 0,
) -> Program:
    """One holder's view of samples from the posterior of all holders' relations.

    Every factor has its own random numbers, from the seed and its name, and every relation its own for its batches, from the
    seed and its number. So all holders draw the same for a shared factor, and several holders draw what one holder of all
    relations would. The outcome's public part has ``samples:<name>`` of every shared factor and ``loss_curve`` (the
    divergence over the dispersion at every sample, over all holders), the private part ``samples`` of all factors.

    Parameters
    ----------
    relations, start, shared
        As for `coupled_program`.
    settings : LangevinSettings
    first_relation : int
        The number of this holder's first relation, if the relations of all holders are counted in their order.
    """
    check_powers(relations)
    counts = relations[0].power == 1
    holder = Holder(relations, shared)
    seed = settings.random_state
    draw = {name: np.random.default_rng([seed, 1, *name.encode()]) for name in [*holder.own, *holder.shared]}
    pick = [np.random.default_rng([seed, 2, first_relation + index]) for index in range(len(relations))]
    factors = {name: np.array(start[name], dtype=np.float64) for name in [*holder.own, *holder.shared]}
    samples: dict[str, list[Floats]] = {name: [] for name in factors}
    losses: list[float] = []
    for time in range(1, settings.burn_in + settings.n_samples * settings.thin + 1):
        kappa = settings.step_size * time**-settings.step_decay  # kappa_t of eq. 3.18
        batches = [Batch(term, settings.sampling_rate, rng) for term, rng in zip(holder.terms, pick, strict=True)]
        for name in [*holder.own, *holder.shared]:
            gradient, metric = _gradient_and_metric(holder, batches, name, factors, counts=counts)
            if name in holder.shared:
                total = yield Sum(gradient=gradient, metric=metric)
                gradient, metric = total.gradient, total.metric
            noise = draw[name].standard_normal(factors[name].shape)
            move = _count_step if counts else _normal_step
            factors[name] = move(factors[name], gradient, metric, noise, kappa, settings)
        past = time - settings.burn_in
        if past > 0 and past % settings.thin == 0:
            for name, factor in factors.items():
                samples[name].append(factor)
            losses.append(
                sum(
                    term.loss(holder.factors_of(index, factors)) / holder.dispersions[index]
                    for index, term in enumerate(holder.terms)
                )
            )
    total = yield Sum(losses=np.array(losses))
    drawn = {name: np.stack(arrays) for name, arrays in samples.items()}
    return Outcome(
        public={**{f"samples:{name}": drawn[name] for name in holder.shared}, "loss_curve": total.losses},
        private={"samples": drawn, "dispersions": holder.dispersions},
    )


def check_powers(relations: Sequence[Relation]) -> None:
    """Raise unless all relations have Kullback-Leibler, or all Euclid."""
    powers = {relation.power for relation in relations}
    if powers not in ({0.0}, {1.0}):
        raise InvalidInputError(
            'divergence="kl" in all relations, or "euclid" in all, for inference="sgld"',
            parameter(sorted(powers)),
            'Use one of the two, or inference="map".',
        )


class Batch:
    """A random part of a relation's stored cells, for one step."""

    def __init__(self, term: Term, rate: float, rng: np.random.Generator) -> None:
        self.term, self.rate = term, rate
        self._part: ListedCells | None = None
        if rate < 1:
            cells, values = _listed(term)
            chosen: NDArray[np.bool_] = rng.random(len(values)) < rate
            self._part = ListedCells(term.spec, term.relation.shape, cells[chosen], values[chosen])

    def numerator(self, place: int, factors: tuple[Floats, ...]) -> Floats:
        """Return an unbiased estimate of the numerator; 1 / rate is C_v / B of eq. 3.18."""
        if self._part is None:
            return self.term.numerator(place, factors)
        return self._part.spread(place, factors, self.term.power, denominator=False)[0] / self.rate

    def residual(self, place: int, factors: tuple[Floats, ...]) -> Floats:
        """Return an unbiased estimate of minus the gradient of the divergence (eq. A.3)."""
        if self._part is None or isinstance(self.term, ZerosTerm):
            bottom = self.term.statistics(place, factors).denominator
            return self.numerator(place, factors) - bottom
        top, below, _ = self._part.spread(place, factors, self.term.power, denominator=True)
        assert below is not None
        return (top - below) / self.rate


def _listed(term: Term) -> tuple[NDArray[np.int32], Floats]:
    """Return the cells from which a batch is drawn: all known ones, or the stored ones if zeros are handled separately."""
    if isinstance(term, ZerosTerm):
        return term.listed.coords, term.listed.values
    return term.relation.known_cells()


def _gradient_and_metric(
    holder: Holder, batches: Sequence[Batch], name: str, factors: Mapping[str, Floats], *, counts: bool
) -> tuple[Floats, Floats]:
    """Return counts and exposure (Poisson), or gradient and a bound on the curvature (Normal), summed over relations."""
    gradient, metric = np.zeros(factors[name].shape), np.zeros(factors[name].shape)
    for index, place in holder.uses[name]:
        term, weight = holder.terms[index], 1 / holder.dispersions[index]
        mine = holder.factors_of(index, dict(factors))
        if counts:
            gradient += weight * batches[index].numerator(place, mine)
            metric += weight * term.exposure(place, mine)
        else:
            gradient += weight * batches[index].residual(place, mine)
            # the square of a sum is at most the number of terms times the sum of their squares
            others = [letter for letter in term.spec.summed if letter not in term.spec.inputs[place]]
            sizes = _sizes(term, mine)
            terms = float(np.prod([sizes[letter] for letter in others]))
            terms *= Layout.of(term.spec, place).size(mine[place].shape)[1]  # the entries of a row change together
            metric += weight * terms * term.exposure(place, tuple(factor**2 for factor in mine))
    return gradient, metric


def _sizes(term: Term, factors: tuple[Floats, ...]) -> dict[str, int]:
    return {
        letter: size
        for group, factor in zip(term.spec.inputs, factors, strict=True)
        for letter, size in zip(group, factor.shape, strict=True)
    }


def _count_step(
    factor: Floats, gradient: Floats, exposure: Floats, noise: Floats, kappa: float, settings: LangevinSettings
) -> Floats:
    rate = settings.shape / settings.scale + exposure
    # G g + Gamma, with G = theta / rate, Gamma = 1 / rate and g = (a - 1) / theta + gradient - rate
    drift = (settings.shape + factor * gradient) / rate - factor
    # reflected at zero, and not exactly zero, where the noise would vanish
    return np.maximum(np.abs(factor + kappa * drift + np.sqrt(2 * kappa * factor / rate) * noise), 1e-12)


def _normal_step(
    factor: Floats, gradient: Floats, curvature: Floats, noise: Floats, kappa: float, settings: LangevinSettings
) -> Floats:
    precision = settings.scale**-2  # of the Normal prior, whose gradient is -precision * factor
    metric = 1 / (precision + curvature)
    return factor + kappa * metric * (gradient - precision * factor) + np.sqrt(2 * kappa * metric) * noise
