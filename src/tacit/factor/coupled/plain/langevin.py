r"""Stochastic gradient Langevin dynamics as a program: samples of the factors from their posterior.

Two models, by the divergence of the relations: Poisson cells with Gamma factors (KL), Normal cells with Normal factors
(Euclid, variance the dispersion; factors of both signs). With the gradient g of the log posterior by a factor, formed from a
random part of the stored cells and scaled up, a step at time t is

.. math:: \Theta \leftarrow \Theta + \kappa_t (G g + \Gamma) + \sqrt{2 \kappa_t G}\, \xi, \qquad \kappa_t = \kappa t^{-\gamma}

where G is a diagonal metric that does not depend on the units of the data, and :math:`\Gamma` the correction that a metric needs:
:math:`\Theta / (rate + \Delta(1))` with correction :math:`1 / (rate + \Delta(1))` for counts, reflected at zero, and the
inverse of a bound on the curvature, which does not depend on the entry itself, for Normal cells. Factors move in turn.

References
----------
Ermis 2020, eqs 3.16 to 3.18; Welling & Teh 2011; Patterson & Teh 2013 (the metric).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.channel import Outcome, Program, Sum
from tacit.errors import InvalidInputError, parameter
from tacit.factor.coupled.divergence import Floats
from tacit.factor.coupled.einsum import Layout
from tacit.factor.coupled.plain.program import Holder
from tacit.factor.coupled.plain.sparse_terms import ListedCells
from tacit.factor.coupled.plain.terms import Term, ZerosTerm
from tacit.factor.coupled.relation import Relation


@dataclass(frozen=True)
class LangevinSettings:
    r"""What all holders of a run agree on.

    Parameters
    ----------
    shape, scale : float
        Of the prior: a Gamma distribution's shape and mean; of a Normal one `scale` is the standard deviation.
    burn_in, n_samples, thin : int
        Steps before the first sample, samples, and steps for each.
    step_size, step_decay : float
        :math:`\kappa` and :math:`\gamma`.
    sampling_rate : float
        The share of the stored cells that each step looks at.
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
    holder_number: int = 0,
) -> Program:
    """One holder's view of samples from the posterior of all holders' relations; parameters as for `coupled_program`.

    The noise of shared factors comes from the common seed, so that all holders draw the same; `holder_number` keeps the
    rest apart. The outcome's public part has ``samples:<name>`` of every shared factor, the private part ``samples`` of all and
    ``losses`` (the divergence over dispersion, at every sample).
    """
    powers = {relation.power for relation in relations}
    if powers not in ({0.0}, {1.0}):
        raise InvalidInputError(
            'divergence="kl" in all relations, or "euclid" in all, for inference="sgld"',
            parameter(sorted(powers)),
            'Use one of the two, or inference="map".',
        )
    counts = powers == {1.0}
    holder = Holder(relations, shared)
    common = np.random.default_rng([settings.random_state, 1])
    local = np.random.default_rng([settings.random_state, 2, holder_number])
    factors = {name: np.array(start[name], dtype=np.float64) for name in [*holder.own, *holder.shared]}
    samples: dict[str, list[Floats]] = {name: [] for name in factors}
    losses: list[float] = []
    for time in range(1, settings.burn_in + settings.n_samples * settings.thin + 1):
        kappa = settings.step_size * time**-settings.step_decay
        batches = [Batch(term, settings.sampling_rate, local) for term in holder.terms]
        for name in [*holder.own, *holder.shared]:
            gradient, metric = _gradient_and_metric(holder, batches, name, factors, counts=counts)
            if name in holder.shared:
                total = yield Sum(gradient=gradient, metric=metric)
                gradient, metric = total.gradient, total.metric
            noise = (common if name in holder.shared else local).standard_normal(factors[name].shape)
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
    drawn = {name: np.stack(found) for name, found in samples.items()}
    return Outcome(
        public={**{f"samples:{name}": drawn[name] for name in holder.shared}, "loss_curve": total.losses},
        private={"samples": drawn, "dispersions": holder.dispersions},
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
        """Return an unbiased estimate of the numerator."""
        if self._part is None:
            return self.term.numerator(place, factors)
        return self._part.spread(place, factors, self.term.power, denominator=False)[0] / self.rate

    def residual(self, place: int, factors: tuple[Floats, ...]) -> Floats:
        """Return an unbiased estimate of minus the gradient of the divergence."""
        if self._part is None or isinstance(self.term, ZerosTerm):
            bottom = self.term.statistics(place, factors).denominator
            return self.numerator(place, factors) - bottom
        top, below, _ = self._part.spread(place, factors, self.term.power, denominator=True)
        assert below is not None
        return (top - below) / self.rate


def _listed(term: Term) -> tuple[NDArray[np.int32], Floats]:
    """Return the cells that a batch is drawn from: all known ones, or the stored ones where zeros are handled at once."""
    if isinstance(term, ZerosTerm):
        return term.listed.coords, term.listed.values
    return term.relation.known_cells()


def _gradient_and_metric(
    holder: Holder, batches: Sequence[Batch], name: str, factors: Mapping[str, Floats], *, counts: bool
) -> tuple[Floats, Floats]:
    """Return what the relations say: counts and exposure of a Poisson model, gradient and curvature of a Normal one."""
    gradient, metric = np.zeros(factors[name].shape), np.zeros(factors[name].shape)
    for index, place in holder.uses[name]:
        term, weight = holder.terms[index], 1 / holder.dispersions[index]
        mine = holder.factors_of(index, dict(factors))
        if counts:
            gradient += weight * batches[index].numerator(place, mine)
            metric += weight * term.exposure(place, mine)
        else:
            gradient += weight * batches[index].residual(place, mine)
            # the square of a sum is at most the number of its terms times the sum of squares
            others = [letter for letter in term.spec.summed if letter not in term.spec.inputs[place]]
            sizes = _sizes(term, mine)
            terms = float(np.prod([sizes[letter] for letter in others]))
            terms *= Layout.of(term.spec, place).size(mine[place].shape)[1]  # and entries of a row move at once
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
    drift = (settings.shape + factor * gradient) / rate - factor
    return np.maximum(np.abs(factor + kappa * drift + np.sqrt(2 * kappa * factor / rate) * noise), 1e-12)


def _normal_step(
    factor: Floats, gradient: Floats, curvature: Floats, noise: Floats, kappa: float, settings: LangevinSettings
) -> Floats:
    precision = settings.scale**-2
    metric = 1 / (precision + curvature)
    return factor + kappa * metric * (gradient - precision * factor) + np.sqrt(2 * kappa * metric) * noise
