r"""Variational Bayes for counts: Poisson cells, Gamma factors, as a program (CTF-VB of Ermis 2020, section 3.1.2).

.. math:: \Theta_d \sim \mathrm{Gamma}(A_d, \text{mean } B_d), \qquad X_i \sim \mathrm{Poisson}(\hat X_i)

The posterior of every entry is approximated by its own Gamma distribution with shape C and scale D (eqs 3.10 and 3.11),

.. math:: C_d = A_d + L_d \circ \Delta_d(X / \hat X_L), \qquad D_d = \big(A_d / B_d + \Delta_d(1)\big)^{-1},

where E = C D is the mean of an entry (eq. 3.12), L the exponential of the mean of its logarithm and :math:`\hat X_L`
the model at L (eq. 3.7), and :math:`\Delta_d(1)`, the thesis's :math:`\Delta_d(M)`, is computed from the means of the
other factors. A relation's terms are divided by its dispersion, which the thesis takes to be 1. Each step maximises the
evidence lower bound over one distribution, and so does the adaptation of A and B (one pair per factor, or per
component). So the bound never falls.

References
----------
Ermis 2020, eqs 3.6 to 3.12 (eq. 3.6 is the bound, not worked out); Cemgil 2009 (the bound in closed form, and the
adaptation of A by Newton's method).
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import digamma, gammaln, polygamma

from tacit.channel import Outcome, Program, Sum, Total
from tacit.errors import InvalidInputError, words
from tacit.factor.arrays import Floats
from tacit.factor.coupled.plain.program import Holder
from tacit.factor.coupled.relation import Relation


@dataclass(frozen=True)
class BayesSettings:
    """Public settings, the same for all holders of a run.

    Parameters
    ----------
    shape, mean : float
        Initial A and B of the prior; 0.5 and 10 are the best of those in Figure 6.6 of Ermis 2020.
    adapt : {"factor", "component", "no"}
        Whether A and B are fitted, per factor or per component (index of its last axis).
    settle : int
        Number of sweeps before the first adaptation.
    max_iter, tol
        As for point estimates, with the evidence lower bound as cost.
    """

    shape: float = 0.5
    mean: float = 10.0
    adapt: str = "factor"
    settle: int = 10
    max_iter: int = 500
    tol: float = 1e-6


@dataclass(frozen=True, eq=False)
class Posterior:
    """Independent Gamma distributions of a factor's entries, and their prior."""

    shape: Floats
    scale: Floats
    prior_shape: Floats
    prior_mean: Floats

    @property
    def mean(self) -> Floats:
        """The mean of every entry: E = C D, eq. 3.12."""
        return self.shape * self.scale

    @property
    def geometric_mean(self) -> Floats:
        """The exponential of the mean logarithm of every entry: L of eq. 3.7."""
        return np.maximum(np.exp(digamma(self.shape)) * self.scale, 1e-300)

    def bound(self) -> float:
        """Return the factor's part of the evidence lower bound (eq. 3.6): minus its divergence from the prior."""
        a, b = self.prior_shape, self.prior_mean
        log_mean = digamma(self.shape) + np.log(self.scale)
        prior = a * np.log(a / b) - gammaln(a) + (a - 1) * log_mean - a / b * self.mean
        entropy = self.shape + np.log(self.scale) + gammaln(self.shape) + (1 - self.shape) * digamma(self.shape)
        return float((prior + entropy).sum())

    def adapted(self, by: str) -> Posterior:
        """Return the same posterior with the prior that fits it best."""
        axes = tuple(range(self.shape.ndim - (by == "component")))
        mean = self.mean.mean(axis=axes, keepdims=True)
        log_mean = (digamma(self.shape) + np.log(self.scale)).mean(axis=axes, keepdims=True)
        shape = fitted_shape(np.log(mean) - log_mean)
        full = self.shape.shape
        return Posterior(self.shape, self.scale, np.broadcast_to(shape, full), np.broadcast_to(mean, full))


def fitted_shape(gap: Floats) -> Floats:
    """Return a with ``log(a) - digamma(a) = gap``: the shape of a Gamma distribution from its log mean minus its mean log."""
    gap = np.maximum(gap, 1e-10)  # rounding may make it negative; this is a shape of 5e9
    # the start solves (1 + 1 / (6a + 1)) / (2a) = gap, an approximation of the left side; then Newton's method
    shape = (3 - gap + np.sqrt((gap - 3) ** 2 + 24 * gap)) / (12 * gap)
    for _ in range(20):
        value = np.log(shape) - digamma(shape) - gap
        slope = 1 / shape - polygamma(1, shape)
        shape = np.maximum(shape - value / slope, shape / 4)
    return np.clip(shape, 1e-6, 1e10)  # limits set by hand, so that the prior stays finite


def variational_program(
    relations: Sequence[Relation], start: Mapping[str, Floats], *, shared: Sequence[str] = (), settings: BayesSettings
) -> Program:
    """One holder's view of the posterior of all holders' relations; parameters as for `coupled_program`.

    The outcome's public part has ``shape:<name>`` and ``scale:<name>`` of every shared factor, and ``loss_curve`` (minus the
    evidence lower bound after every sweep, without the constant ``log x!``); the private part has ``posteriors``.
    """
    for relation in relations:
        if relation.power != 1:
            raise InvalidInputError(
                'divergence="kl" in every relation for inference="vb"',
                words(f"p = {relation.power:g} in {relation.name}"),
                'Use divergence="kl", or inference="map" or "sgld".',
            )
    holder = Holder(relations, shared)
    posteriors = {name: _first(np.asarray(start[name]), settings) for name in [*holder.own, *holder.shared]}
    curve: list[float] = []
    for sweep in range(settings.max_iter):
        adapt = settings.adapt if sweep >= settings.settle else "no"
        bound = yield from _sweep(holder, posteriors, adapt)
        curve.append(-bound)
        if sweep > settings.settle and curve[-2] - curve[-1] <= settings.tol * abs(curve[-1]) and settings.tol > 0:
            break
    public: dict[str, object] = {"loss_curve": np.array(curve), "loss": curve[-1]}
    for name in holder.shared:
        public[f"shape:{name}"], public[f"scale:{name}"] = posteriors[name].shape, posteriors[name].scale
    return Outcome(public=public, private={"posteriors": posteriors, "dispersions": holder.dispersions})


def _first(start: Floats, settings: BayesSettings) -> Posterior:
    """Return a narrow posterior around a start."""
    full = start.shape
    shape = np.full(full, 10.0)  # a standard deviation of a third of the mean; set by hand
    return Posterior(
        shape, np.maximum(start, 1e-12) / shape, np.full(full, settings.shape), np.full(full, settings.mean)
    )


def _sweep(holder: Holder, posteriors: dict[str, Posterior], adapt: str) -> Generator[Sum, Total, float]:
    """Update every factor's posterior once; return the evidence lower bound after it."""
    means = {name: posterior.mean for name, posterior in posteriors.items()}
    logs = {name: posterior.geometric_mean for name, posterior in posteriors.items()}
    for name in [*holder.own, *holder.shared]:
        counts, exposure = np.zeros(means[name].shape), np.zeros(means[name].shape)
        for index, place in holder.uses[name]:
            weight = 1 / holder.dispersions[index]
            # eqs 3.8 and 3.10: L o Delta(M o X / X_L); eq. 3.11: Delta(M)
            counts += weight * logs[name] * holder.terms[index].numerator(place, holder.factors_of(index, logs))
            exposure += weight * holder.terms[index].exposure(place, holder.factors_of(index, means))
        if name in holder.shared:
            total = yield Sum(counts=counts, exposure=exposure)
            counts, exposure = total.counts, total.exposure
        prior = posteriors[name]
        posterior = Posterior(
            prior.prior_shape + counts,  # C, eq. 3.10
            1 / (prior.prior_shape / prior.prior_mean + exposure),  # D, eq. 3.11
            prior.prior_shape,
            prior.prior_mean,
        )
        posteriors[name] = posterior if adapt == "no" else posterior.adapted(adapt)
        means[name], logs[name] = posterior.mean, posterior.geometric_mean
    own = sum(posteriors[name].bound() for name in holder.own)
    for index, term in enumerate(holder.terms):
        x, expected = term.means_of_stored(holder.factors_of(index, logs))
        mass = term.mass(holder.factors_of(index, means))
        own += (float(x @ np.log(np.maximum(expected, 1e-300))) - mass) / holder.dispersions[index]
    total = yield Sum(evidence=np.array([own]))
    return float(total.evidence[0]) + sum(posteriors[name].bound() for name in holder.shared)
