r"""Attack 2: white box. Exact likelihood ratios of all noisy answers, for the unit that moves them most.

For full-batch sums the logarithm of the likelihood ratio is normal with variance :math:`\mu^2` and mean
:math:`\pm\mu^2/2`, where :math:`\mu` is the distance of the two data sets' sums in standard deviations of the noise. The
distance is known exactly; what has to be measured is the noise. Its standard deviation along the distance is estimated from
the runs, with a chi-squared interval, and gives an interval of :math:`\mu`. If the distance differs between trajectories, the
smallest that was seen counts; that no other trajectory has a smaller one is not part of the confidence. All noise numbers
of all runs together give a narrower interval, if they are independent and equally wide, as the channel states; the bound of
the finding does not assume that, and a figure shows what it would be. The rates of the best threshold, chosen on other runs,
give a second bound that assumes nothing (Clopper-Pearson).

For sampled sums the likelihood is a mixture. The distance of every sum, and the measured noise, then give the loss distribution
of a Poisson-sampled Gaussian, whose epsilon is bounded from below by an optimistic discretisation.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict

import numpy as np
from scipy import stats

from tacit.audit.bounds import Tested, epsilon_of, halved_test, noise_ratio
from tacit.audit.findings import WHITE_BOX, Finding
from tacit.audit.journal import AuditJournal
from tacit.audit.subject import Subject
from tacit.audit.trajectory import Loss, measured_loss
from tacit.audit.units import NeighbourPair
from tacit.channel.plan import Plan
from tacit.errors import PrivacyViolationError
from tacit.privacy.accountant import Accountant
from tacit.privacy.gaussian import mu_of_epsilon
from tacit.privacy.releases import GaussianRelease

TESTS = 4
"""Statistical tests of this attack: mu, epsilon by rates, the noise, the samples. Each has a quarter of the level."""
DELTAS = (1e-3, 1e-2, 0.1)
"""A claim (epsilon, delta) of a plan states an epsilon at every delta. The rates are compared with these too: with few runs,
larger deltas show more."""
NOISE_TOLERANCE = 5e-3
"""Noise may be this much narrower than stated before it counts as a violation: the grid's own rounding is far below."""
LEAST_RUNS = 16
"""Fewest runs of an attack that is limited by time, so that slow fits have a first answer soon. Set by hand."""
LEAST_PAIRS = 2
"""Fewest neighbours among which the worst is chosen, if that is limited by time. Set by hand."""
PROMISING = 0.9
"""Neighbours whose first distance is at least this part of the largest are tried further. Set by hand."""
TRIED_RUNS = 12
"""Runs of each of these: a distance that a run's choices lower in one run of five is noticed in 19 of 20 audits."""
ALIKE = 5e-3
"""Distances that differ by less than this part count as the same. 400 runs measure the noise along a distance to about 9%, so
that a distance which stays the same in all runs is worth more than one that was this much larger in the first."""


def worst_pair(
    subject: Subject,
    pairs: Sequence[NeighbourPair],
    *,
    seconds: float = math.inf,
    step: Callable[[], None] = lambda: None,
) -> NeighbourPair:
    """Return the neighbours whose sums differ most, in standard deviations of the noise.

    One run of each decides which are tried further. Of those, the one with the largest distance that was the smallest of
    `TRIED_RUNS` runs is returned, because the attack counts the smallest of its runs. Of neighbours that are alike
    (`ALIKE`), the first is returned: canaries that do not depend on what a run chooses come first. Sampled sums differ from
    run to run by their samples, so one run of each decides. After `seconds` no further run is made.
    """
    begun = time.monotonic()

    def distance(pair: NeighbourPair) -> float:
        try:
            return measured_loss(subject.fitted, pair.present, pair.absent, unit_present=True).mu
        except PrivacyViolationError:
            return math.inf  # the replay names what is wrong; here it is the pair to attack

    least: dict[int, float] = {}
    for place, pair in enumerate(pairs):
        if len(least) >= LEAST_PAIRS and time.monotonic() - begun > seconds:
            break
        least[place] = distance(pair)
        step()
    best = max(least.values())
    if subject.plan is not None and subject.is_full_batch and math.isfinite(best):
        least = {place: moved for place, moved in least.items() if moved >= PROMISING * best}
        for _ in range(TRIED_RUNS - 1):  # all pairs in turn, so that a lack of time treats them alike
            for place in least:
                if time.monotonic() - begun > seconds:
                    break
                least[place] = min(least[place], distance(pairs[place]))
    best = max(least.values())
    return pairs[next(place for place, moved in least.items() if moved >= (1 - ALIKE) * best)]


def losses(
    subject: Subject,
    pair: NeighbourPair,
    *,
    runs: int,
    least: int = LEAST_RUNS,
    seconds: float = math.inf,
    journal: AuditJournal | None = None,
    step: Callable[[], None] = lambda: None,
) -> list[Loss]:
    """Run the fit alternately with and without the unit; return what every run tells an attacker.

    Parameters
    ----------
    subject : Subject
    pair : Pair
    runs : int
        Number of runs of both kinds together.
    least, seconds : int, float
        Stop after this time, with at least this many runs.
    journal : Journal, optional
        Earlier runs are read from it, and new ones are added.
    step : callable
        Called after every run.
    """
    key = f"{WHITE_BOX}: {pair.name}: {subject.fingerprint}: {subject.data.digest()}"
    measured = [Loss(**values) for values in ([] if journal is None else journal.read(key))][:runs]
    begun = time.monotonic()
    while len(measured) < runs:
        if len(measured) >= least and time.monotonic() - begun > seconds:
            break
        loss = measured_loss(subject.fitted, pair.present, pair.absent, unit_present=len(measured) % 2 == 0)
        measured.append(loss)
        if journal is not None:
            journal.add(key, asdict(loss))
        step()
    return measured


def white_box(
    subject: Subject,
    pair: NeighbourPair,
    *,
    runs: int = 400,
    least: int = LEAST_RUNS,
    seconds: float = math.inf,
    level: float = 0.05,
    journal: AuditJournal | None = None,
    step: Callable[[], None] = lambda: None,
) -> Finding:
    """Attack with the likelihood ratio; see the module. `level` is the probability of a wrong statement.

    Parameters
    ----------
    subject, pair, runs, least, seconds, journal, step
        See `losses`.
    level : float
    """
    if subject.plan is None:
        return Finding(
            WHITE_BOX,
            pair.name,
            None,
            1.0,
            violation="statistics leave without the noise of a channel: nothing bounds what they tell",
        )
    try:
        seen = losses(subject, pair, runs=runs, least=least, seconds=seconds, journal=journal, step=step)
    except PrivacyViolationError as violation:
        return Finding(WHITE_BOX, pair.name, None, 1.0, violation=str(violation))
    return judged(subject, pair.name, seen, level=level)


def judged(subject: Subject, name: str, seen: Sequence[Loss], *, level: float) -> Finding:
    """Return what the runs show, and whether it contradicts the claim."""
    plan, part = subject.plan, level / TESTS
    assert plan is not None
    epsilon, delta = subject.claimed
    present = np.array([loss.score for loss in seen if loss.present])
    absent = np.array([loss.score for loss in seen if not loss.present])
    by_rates = halved_test(present, absent, delta=delta, level=part)
    along = np.array([loss.along for loss in seen])
    ratio, _, widest = noise_ratio(float(along @ along), len(along), part)
    least = min(loss.mu for loss in seen)
    overall, _, most = noise_ratio(sum(loss.squares for loss in seen), sum(loss.numbers for loss in seen), part)
    figures = {
        "runs": len(seen),
        "epsilon by rates": by_rates.epsilon,
        "mu by rates": by_rates.mu,
        "area under the ROC curve": by_rates.area,
        "distance of the sums": least,
        "measured over stated noise": overall,
        "epsilon recomputed from the stated noise": recomputed(plan, seen),
    }
    lower = by_rates.epsilon
    if subject.is_full_batch:
        figures |= {
            "mu": least / ratio,
            "mu, lower": least / widest,
            "mu, claimed": mu_of_epsilon(epsilon, delta),
            "epsilon if all noise is alike": epsilon_of(least / most, delta),
        }
        lower = max(lower, epsilon_of(least / widest, delta))
    else:
        figures["epsilon of the mixture"] = mixture_epsilon(plan, min(loss.least for loss in seen) / widest)
        lower = max(lower, figures["epsilon of the mixture"])
    violations = [
        _over(f"epsilon of at least {lower:.4g} at delta {delta:g}", lower, epsilon),
        _by_rates(subject, present, absent, part),
        "" if most >= 1 - NOISE_TOLERANCE else f"noise of at most {most:.3f} of the width that the channel states",
        _over("epsilon of the stated noise", figures["epsilon recomputed from the stated noise"], epsilon * 1.001),
        _samples(seen, part),
    ]
    return Finding(
        WHITE_BOX,
        name,
        lower,
        1 - level,
        violation="; ".join(one for one in violations if one),
        remark="The attacker knows all units but one, all sums and the program.",
        figures=figures,
        curve=roc(present, absent),
    )


def mixture_epsilon(plan: Plan, distance: float) -> float:
    """Return a lower bound on the epsilon of the plan's sampled sums, each of which moves by `distance` deviations."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    if distance <= 0 or plan.choices:
        return 0.0
    total = None
    for step in plan.steps:
        one = pld.from_gaussian_mechanism(
            1 / distance,
            sampling_prob=step.sampling_rate,
            pessimistic_estimate=False,
            use_connect_dots=False,  # it has pessimistic bounds only
            value_discretization_interval=1e-3 if step.count < 1000 else 1e-4,
        ).self_compose(step.count)
        total = one if total is None else total.compose(one)
    assert total is not None
    return float(total.get_epsilon_for_delta(plan.delta))


def recomputed(plan: Plan, seen: Sequence[Loss]) -> float:
    """Return the epsilon of the noise that the channel stated in the most expensive run, for the sensitivities it stated."""
    cost = max(loss.cost for loss in seen)
    factor = 2.0 if plan.adjacency == "replace-one" else 1.0
    if all(step.sampling_rate == 1 for step in plan.steps) and not plan.choices:
        return epsilon_of(cost, plan.delta)
    planned = math.sqrt(sum(step.count * (factor / plan.multiplier(step.weight)) ** 2 for step in plan.steps))
    return Accountant(
        plan.adjacency,
        tuple(
            GaussianRelease(
                noise_multiplier=plan.multiplier(step.weight) * planned / cost,
                sampling_rate=step.sampling_rate,
                count=step.count,
            )
            for step in plan.steps
        ),
    ).epsilon(plan.delta) + sum(plan.choices)


def _by_rates(subject: Subject, present: np.ndarray, absent: np.ndarray, level: float) -> str:
    """Compare the rates with the epsilon that the plan states at larger deltas; each has its part of the level."""
    for delta in DELTAS:
        tested: Tested = halved_test(present, absent, delta=delta, level=level / len(DELTAS))
        claim = subject.claimed_at(delta)
        if tested.epsilon > claim:
            return f"epsilon of at least {tested.epsilon:.4g} at delta {delta:g}, where the plan states {claim:.4g}"
    return ""


def _samples(seen: Sequence[Loss], level: float) -> str:
    draws, drawn, expected = (int(sum(getattr(loss, name) for loss in seen)) for name in ("draws", "drawn", "expected"))
    if not draws or stats.binomtest(drawn, draws, expected / draws, alternative="greater").pvalue > level:
        return ""
    return f"samples of {drawn / draws:.3g} of the units, where {expected / draws:.3g} was stated"


def _over(what: str, value: float, claim: float) -> str:
    return f"{what} ({value:.4g}) above the claimed {claim:.4g}" if value > claim * (1 + 1e-6) else ""


def roc(present: np.ndarray, absent: np.ndarray, points: int = 60) -> tuple[tuple[float, float], ...]:
    """Return points of the ROC curve, dense at low false-positive rates."""
    rates = np.unique(
        np.concatenate([np.geomspace(1 / max(len(absent), 2), 1, points // 2), np.linspace(0, 1, points // 2)])
    )
    thresholds = np.quantile(absent, 1 - rates, method="higher")
    return tuple((float((absent >= one).mean()), float((present >= one).mean())) for one in thresholds)
