r"""Coupled factorisation as a program: factors are updated one after another, shared ones from totals over all holders.

This is the maximum-likelihood and a-posteriori estimate of Ermis 2020, section 3.1.1 (CTF-ML). The first sum is
eq. 2.3, with the divergences of eq. 2.4; together with the second it is minus the logarithm of the posterior of
eq. 3.1, up to constants:

.. math:: \min_{\Theta \ge 0} \sum_v \frac{1}{\phi_v} \sum_{i \in \text{known}} d_{p_v}\big(X^{(v)}_i, \hat X^{(v)}_i\big)
          - \sum_d \log p(\Theta_d)

Each holder has its own relations. Factors that several holders use are shared, and are updated by totals. The others never
leave their holder.

*Update of a factor.* If its rows have the same quadratic problem, they are solved by least squares. Otherwise each
entry is multiplied by :math:`(num / den)^\gamma`, where num and den are the sums over v in the numerator and the
denominator of eq. 3.2. (Eq. 3.2 and Table 3.1 have :math:`\gamma = 1` for every p.) Relations with powers :math:`p_v`
have surrogates with derivatives :math:`den_v u^{a_v} - num_v u^{-b_v}` in the change u (see `curvatures`). For u
between 1 and :math:`(\sum num_v / \sum den_v)^\gamma` with :math:`\gamma = 1 / (\max a_v + \max b_v)`, their sum does
not change its sign. So the step never raises the cost, for any mixture of divergences. For a single p up to 1,
:math:`\gamma = 1`, the usual update.

*Extrapolation.* A sweep starts from factors that are extrapolated along their last change. If the cost is higher there, all
holders undo the sweep and repeat it without extrapolation, so the cost never rises.

References
----------
Ermis 2020, eqs 2.3 and 3.1 to 3.4; Yılmaz, Cemgil & Şimşekli 2011 (generalised coupled tensor factorisation); Févotte &
Idier 2011 (surrogates); Ang & Gillis 2019 (extrapolation).
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tacit.channel import Outcome, Program, Sum, Total
from tacit.errors import InvalidInputError, words
from tacit.factor import kernels
from tacit.factor.arrays import Floats
from tacit.factor.coupled.divergence import curvatures
from tacit.factor.coupled.einsum import Layout
from tacit.factor.coupled.plain.terms import Term, term_of
from tacit.factor.coupled.predict import in_order
from tacit.factor.coupled.relation import Relation
from tacit.factor.extrapolation import Extrapolation

SWEEPS, SHRINK, ROUNDING = 20, 0.1, 1e-14
"""Inner sweeps of coordinate descent, see `kernels.hals_sweep`: most sweeps per update of a factor; a row ends when a sweep
changes it by less than SHRINK times the change of its first sweep, or than ROUNDING times the row. A diagonal below ROUNDING
times the largest counts as zero. Set by hand: the next update continues from there, so few inner sweeps are needed."""
LEAST_CHANGE, MOST_CHANGE = 0.1, 10.0
"""Limits of an entry's change in one sweep, when it is extrapolated. Set by hand: an entry near zero may change by a large
factor that does not continue."""
Factors = dict[str, Floats]


@dataclass(frozen=True)
class Prior:
    r"""A Gamma prior on every entry of every factor: :math:`\mathcal G(\theta; a, b)` of Ermis 2020, section 3.1.2.

    Parameters
    ----------
    shape : float
        At least 1 for a point estimate; with a smaller shape, the mode is at zero.
    rate : float
        Shape divided by mean. The defaults are a flat prior: maximum likelihood.
    """

    shape: float = 1.0
    rate: float = 0.0

    def cost(self, factor: Floats) -> float:
        """Return minus the log density, up to a constant."""
        if self.shape == 1:
            return self.rate * float(factor.sum()) if self.rate else 0.0
        return self.rate * float(factor.sum()) - (self.shape - 1) * float(np.log(np.maximum(factor, 1e-300)).sum())


FLAT = Prior()
"""The prior of maximum likelihood."""
Priors = Prior | Mapping[str, Prior]
"""One prior for all factors, or one per factor; a factor that is not named has a flat one."""


def prior_of(priors: Priors, name: str) -> Prior:
    """Return the prior of one factor."""
    return priors if isinstance(priors, Prior) else priors.get(name, FLAT)


@dataclass(frozen=True)
class Rule:
    """How one factor is updated.

    Parameters
    ----------
    exponent : float
        Exponent of the multiplicative step.
    solve : Layout, optional
        The factor's rows, if all relations give them the same quadratic problem, so that they can be solved instead.
    """

    exponent: float = 1.0
    solve: Layout | None = None


def rules_for(relations: Sequence[Relation], priors: Priors) -> dict[str, Rule]:
    """Return the rule of every factor. Sites that share a factor must use the same rule, made from all their relations."""
    rules = {}
    for name in dict.fromkeys(name for relation in relations for name in relation.factors):
        uses = [(relation, relation.factors.index(name)) for relation in relations if name in relation.factors]
        bends, prior = [curvatures(relation.power) for relation, _ in uses], prior_of(priors, name)
        if prior != FLAT:
            bends.append((0.0, 1.0))
        exponent = 1 / (max(rise for rise, _ in bends) + max(fall for _, fall in bends))
        layouts = {Layout.of(relation.spec, place) for relation, place in uses}
        quadratic = prior.shape == 1 and all(_shares_gram(relation, place) for relation, place in uses)
        rules[name] = Rule(exponent, layouts.pop() if quadratic and len(layouts) == 1 else None)
    return rules


def _shares_gram(relation: Relation, place: int) -> bool:
    """Whether a relation gives all rows of a factor the same quadratic problem, except for its linear part."""
    spec = relation.spec
    gaps = relation.stored_only or relation.mask is not None or len(relation.holes) > 0
    others = "".join(group for at, group in enumerate(spec.inputs) if at != place)
    data = spec.data_letters(place)
    own_gaps = any(relation.keep[spec.output.index(letter)] is not None for letter in data)
    return relation.power == 0 and not gaps and not own_gaps and not set(data) & set(others)


def multiplied(factor: Floats, numerator: Floats, denominator: Floats, prior: Prior, exponent: float) -> Floats:
    """Return the factor after one multiplicative step (Ermis 2020, eq. 3.2); entries without known cells do not change.

    Eq. 3.2 is the case of a flat prior and the exponent 1. The prior adds the derivative of its logarithm,
    ``(a - 1) / theta - b``, times theta: the positive part above, the negative part below.
    """
    top, bottom = factor * numerator + (prior.shape - 1), factor * (denominator + prior.rate)
    with np.errstate(divide="ignore", invalid="ignore"):
        change = top / bottom
    change = np.where(np.isfinite(change), change, 1.0)
    return factor * (change if exponent == 1 else change**exponent)


def solved(layout: Layout, factor: Floats, numerator: Floats, gram: Floats, prior: Prior) -> Floats:
    """Return the factor after several sweeps of coordinate descent on ``1/2 v'Gv - v'b`` over rows ``v >= 0``."""
    rows = np.array(layout.rows(factor), order="C")
    linear = np.ascontiguousarray(layout.rows(numerator)) - prior.rate
    diagonal = np.diag(gram)
    steep = diagonal > ROUNDING * max(float(diagonal.max()), 1e-300)
    inverse = np.where(steep, 1 / np.where(steep, diagonal, 1.0), 0.0)
    values = np.empty(len(rows))
    kernels.parallel_for(
        lambda start, stop: kernels.hals_sweep(
            gram, inverse, linear, rows, values, SWEEPS, SHRINK, ROUNDING, start, stop
        ),
        np.arange(len(rows) + 1) * gram.size,
    )
    return layout.back(rows, factor.shape)


@dataclass(frozen=True)
class CoupledSettings:
    """Public settings, the same for all holders of a run.

    Parameters
    ----------
    rules : mapping of factor to Rule
        How the shared factors are updated, from `rules_for` all holders' relations; a holder's own factors need none.
    prior : Prior, or mapping of factor to Prior
        Those of shared factors must be the same at all holders.
    max_iter : int
        Most sweeps.
    tol : float
        Stop when a sweep lowers the cost by less than this fraction of it; 0 makes all sweeps.
    extrapolate : bool
        Whether sweeps start from extrapolated factors.
    estimate_dispersion : bool
        Whether every relation's dispersion is estimated by maximum likelihood: twice its mean divergence.
    """

    rules: Mapping[str, Rule] = field(default_factory=dict)
    prior: Priors = FLAT
    max_iter: int = 500
    tol: float = 1e-6
    extrapolate: bool = True
    estimate_dispersion: bool = False


class Holder:
    """One holder's relations, and which of them use which factor."""

    def __init__(self, relations: Sequence[Relation], shared: Sequence[str]) -> None:
        self.terms: list[Term] = [term_of(relation) for relation in relations]
        self.dispersions = [relation.dispersion for relation in relations]
        names = dict.fromkeys(name for relation in relations for name in relation.factors)
        self.own = [name for name in names if name not in shared]
        self.shared = list(shared)
        # R^{v,d} of Ermis 2020, eq. 3.3, as lists: the relations v that a factor d is in, and its place in each
        self.uses = {
            name: [
                (index, relation.factors.index(name))
                for index, relation in enumerate(relations)
                if name in relation.factors
            ]
            for name in [*self.own, *self.shared]
        }

    def factors_of(self, index: int, factors: Factors) -> tuple[Floats, ...]:
        """Return a relation's factors, in the order of its einsum."""
        return in_order(self.terms[index].relation.factors, factors)

    def statistics(self, name: str, factors: Factors, losses: list[float | None], rule: Rule) -> dict[str, Floats]:
        """Return the statistics of one factor, summed over this holder's relations.

        The losses of relations that are still None, because none of their factors was updated yet, are set.
        """
        top, bottom = np.zeros(factors[name].shape), np.zeros(factors[name].shape)
        gram: Floats | None = None
        for index, place in self.uses[name]:
            term, mine = self.terms[index], self.factors_of(index, factors)
            part = term.statistics(place, mine, loss=losses[index] is None)
            losses[index] = part.loss if losses[index] is None else losses[index]
            weight = 1 / self.dispersions[index]  # phi_v^{-1} in eqs 2.3 and 3.2
            if rule.solve:
                more = term.gram(place, mine)
                assert more is not None
                gram = more * weight if gram is None else gram + more * weight
                top += weight * part.numerator
            else:
                # under Euclid, negative data makes the numerator negative, which then counts in the denominator
                top += weight * np.maximum(part.numerator, 0)
                bottom += weight * (part.denominator + np.maximum(-part.numerator, 0))
        if not rule.solve:
            return {"numerator": top, "denominator": bottom}
        width = rule.solve.size(top.shape)[1]
        return {"numerator": top, "gram": np.zeros((width, width)) if gram is None else gram}

    def costs(self, losses: Sequence[float | None], *, estimated: bool) -> tuple[Floats, list[float]]:
        """Return the cost with the current and with the best dispersions, and the best dispersions."""
        known = [float(loss) for loss in losses if loss is not None]
        counts = [term.n_observed for term in self.terms]
        best = list(self.dispersions)
        if estimated:
            # phi = 2D/n minimises D/phi + (n/2) log phi, for the divergence D of n cells: the likelihood of Normal
            # cells, and for other p the saddle-point approximation of Tweedie's (Ermis 2020, section 3.1.1, leaves this
            # to its reference [17])
            best = [max(2 * loss / count, 1e-12) for loss, count in zip(known, counts, strict=True)]

        def cost(dispersions: list[float]) -> float:
            total = sum(loss / phi for loss, phi in zip(known, dispersions, strict=True))
            if estimated:
                total += sum(count / 2 * np.log(phi) for count, phi in zip(counts, dispersions, strict=True))
            return float(total)

        return np.array([cost(self.dispersions), cost(best)]), best


def coupled_program(
    relations: Sequence[Relation], start: Mapping[str, Floats], *, shared: Sequence[str] = (), settings: CoupledSettings
) -> Program:
    """One holder's view of the factorisation of all holders' relations.

    Parameters
    ----------
    relations : sequence of Relation
        This holder's relations.
    start : mapping of factor to ndarray
        The initial factors; those of shared factors must be the same at all holders.
    shared : sequence of str
        The factors that holders share, in the same order at all holders. The others are updated first, in order of appearance.
    settings : CoupledSettings

    Returns
    -------
    Program
        The outcome's public part has each shared factor as ``factor:<name>``, ``loss_curve`` (the cost at every kept sweep) and
        ``loss``; the private part has ``factors`` and ``dispersions``.
    """
    holder = Holder(relations, shared)
    rules = {**rules_for(relations, settings.prior), **settings.rules}
    point: Factors = {name: np.array(start[name], dtype=np.float64) for name in [*holder.own, *holder.shared]}
    base, best, lead, ahead = point, np.inf, Extrapolation(), False
    curve: list[float] = []
    for _ in range(settings.max_iter):
        moved, cost, renewed = yield from _sweep(holder, point, rules, settings)
        if not np.isfinite(cost[0]):
            raise InvalidInputError("a finite cost", words("NaN or infinity"), "Scale the data, or change the start.")
        if cost[0] > best:
            if not ahead:  # without extrapolation, the cost rises by rounding only: the fit has converged
                break
            point, ahead = base, False
            lead.failed()
            continue
        gained, best = best - cost[0], cost[1]
        curve.append(float(cost[0]))
        holder.dispersions = renewed
        point = _ahead(base, moved, lead.fraction, rules) if settings.extrapolate and len(curve) > 1 else moved
        ahead, base = point is not moved, moved
        if ahead:
            lead.worked()
        if gained <= settings.tol * abs(best) and settings.tol > 0:
            break
    losses = [term.loss(holder.factors_of(index, base)) for index, term in enumerate(holder.terms)]
    costs, _ = holder.costs(losses, estimated=settings.estimate_dispersion)
    total = yield Sum(loss=costs + _prior_cost(holder.own, base, settings))
    final = float(total.loss[0]) + _prior_cost(holder.shared, base, settings)
    public = {f"factor:{name}": base[name] for name in holder.shared}
    return Outcome(
        public={**public, "loss_curve": np.array(curve), "loss": final},
        private={"factors": base, "dispersions": holder.dispersions, "losses": losses},
    )


def _sweep(
    holder: Holder, point: Factors, rules: Mapping[str, Rule], settings: CoupledSettings
) -> Generator[Sum, Total, tuple[Factors, Floats, list[float]]]:
    """Update every factor once. Return the factors, the costs at the start of the sweep, and the dispersions for these costs."""
    factors = dict(point)
    losses: list[float | None] = [None] * len(holder.terms)
    for name in holder.own:
        statistics = holder.statistics(name, factors, losses, rules[name])
        factors[name] = _moved(factors[name], statistics, rules[name], prior_of(settings.prior, name))
    total: Total | None = None
    renewed = holder.dispersions
    for name in holder.shared:
        statistics = holder.statistics(name, factors, losses, rules[name])
        if name == holder.shared[-1]:
            costs, renewed = holder.costs(losses, estimated=settings.estimate_dispersion)
            statistics["loss"] = costs + _prior_cost(holder.own, point, settings)
        total = yield Sum(**statistics)  # type: ignore[arg-type]
        factors[name] = _moved(factors[name], dict(total), rules[name], prior_of(settings.prior, name))
    if total is None:
        costs, renewed = holder.costs(losses, estimated=settings.estimate_dispersion)
        total = yield Sum(loss=costs + _prior_cost(holder.own, point, settings))
    return factors, total.loss + _prior_cost(holder.shared, point, settings), renewed


def _moved(factor: Floats, statistics: Mapping[str, Floats], rule: Rule, prior: Prior) -> Floats:
    if not rule.solve:
        return multiplied(factor, statistics["numerator"], statistics["denominator"], prior, rule.exponent)
    return solved(rule.solve, factor, statistics["numerator"], statistics["gram"], prior)


def _prior_cost(names: Sequence[str], factors: Factors, settings: CoupledSettings) -> float:
    return sum(prior_of(settings.prior, name).cost(factors[name]) for name in names)


def _ahead(base: Factors, moved: Factors, fraction: float, rules: Mapping[str, Rule]) -> Factors:
    """Extrapolate the factors: by differences if they are solved, by quotients if they are multiplied."""
    ahead = {}
    for name, factor in moved.items():
        if rules[name].solve:
            ahead[name] = np.maximum(factor + fraction * (factor - base[name]), 0)
        else:
            with np.errstate(divide="ignore", invalid="ignore"):
                change = factor / base[name]
            change = np.where(np.isfinite(change), np.clip(change, LEAST_CHANGE, MOST_CHANGE), 1.0)
            ahead[name] = factor * change**fraction
    return ahead
