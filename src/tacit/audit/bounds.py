r"""Lower bounds on the privacy loss from the outcomes of attacks, each with its confidence.

An attack is a test of "the unit is in the data" against "it is not". Differential privacy bounds what any test can do, so a
test that does better disproves the claim. All bounds here are one-sided: with probability at least `confidence` over the
randomness of the attack, the true privacy loss is at least the returned number.

References
----------
C. Clopper, E. Pearson. The use of confidence or fiducial limits illustrated in the case of the binomial. Biometrika 1934.
J. Dong, A. Roth, W. Su. Gaussian differential privacy. JRSS B 2022.
T. Steinke, M. Nasr, M. Jagielski. Privacy auditing with one (1) training run. NeurIPS 2023.
S. Mahloujifar, L. Melis, K. Chaudhuri. Auditing f-differential privacy in one run. 2024.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from scipy.special import ndtr, ndtri

from tacit.privacy.gaussian import epsilon_of_mu

Floats = NDArray[np.float64]
MOST_MU = 50.0
"""Searches for mu stop here: at delta 1e-6 it is an epsilon of about 1,500, which no number of runs can show."""
MOST_EPSILON = 60.0
"""Searches for epsilon stop here: the odds of a guess are then 1e26 to 1, which no number of runs can show."""
MOST_THRESHOLDS = 200
"""More are not tried: the best of many on one half of the runs is not the best on the other."""
SEARCH_STEPS = 50
"""Bisections of a search; the result is exact to 2^-50 of its range."""


def lower_fraction(hits: ArrayLike, count: int, level: float) -> Floats:
    """Return the Clopper-Pearson lower bound of a probability; it is wrong with probability at most `level`."""
    counted = np.asarray(hits, dtype=np.float64)
    return np.where(counted > 0, stats.beta.ppf(level, np.maximum(counted, 1), count - counted + 1), 0.0)


def upper_fraction(hits: ArrayLike, count: int, level: float) -> Floats:
    """Return the Clopper-Pearson upper bound of a probability; it is wrong with probability at most `level`."""
    counted = np.asarray(hits, dtype=np.float64)
    return np.where(counted < count, stats.beta.ppf(1 - level, counted + 1, np.maximum(count - counted, 1)), 1.0)


@dataclass(frozen=True)
class Rates:
    """How often a test said "present": in `present` runs with the unit, and in `absent` runs without it.

    `hits` and `alarms` may be arrays, one number for every threshold.
    """

    hits: int | NDArray[np.integer]
    present: int
    alarms: int | NDArray[np.integer]
    absent: int

    def epsilons(self, delta: float, level: float) -> Floats:
        r"""Return the largest epsilon that the two rates disprove at this delta.

        (epsilon, delta)-privacy implies :math:`TPR \le e^\varepsilon FPR + \delta` and
        :math:`1 - FPR \le e^\varepsilon (1 - TPR) + \delta` for every test. Both follow from a lower bound of TPR and an upper
        bound of FPR, each at half the level.
        """
        hit_rate, false = self._bounds(level)
        with np.errstate(divide="ignore", invalid="ignore"):
            sides = [
                np.log(np.maximum(over, 0.0) / under)
                for over, under in ((hit_rate - delta, false), (1 - false - delta, 1 - hit_rate))
            ]
        bounds: Floats = np.maximum(np.nan_to_num(np.maximum(*sides), nan=0.0, posinf=MOST_EPSILON), 0.0)
        return bounds

    def epsilon(self, delta: float, level: float) -> float:
        """Return the bound of a single threshold."""
        return float(self.epsilons(delta, level))

    def mus(self, level: float) -> Floats:
        r"""Return the largest mu that the two rates disprove: :math:`\Phi^{-1}(TPR) - \Phi^{-1}(FPR)` (Dong et al. 2022)."""
        hit_rate, false = self._bounds(level)
        with np.errstate(invalid="ignore"):
            return np.clip(np.nan_to_num(ndtri(hit_rate) - ndtri(false), nan=0.0), 0.0, MOST_MU)

    def mu(self, level: float) -> float:
        """Return the bound of a single threshold."""
        return float(self.mus(level))

    def _bounds(self, level: float) -> tuple[Floats, Floats]:
        return lower_fraction(self.hits, self.present, level / 2), upper_fraction(self.alarms, self.absent, level / 2)


def rates_at(present: Floats, absent: Floats, threshold: ArrayLike) -> Rates:
    """Return the rates of the test that says "present" if the score is at least the threshold, or each of several."""
    hits, alarms = (len(one) - np.searchsorted(np.sort(one), threshold, side="left") for one in (present, absent))
    return Rates(hits, len(present), alarms, len(absent))


def best_threshold(present: Floats, absent: Floats, value: Callable[[Rates], Floats]) -> float:
    """Return the threshold with the highest value on these scores. Report on other scores than those it was chosen on."""
    scores = np.unique(np.concatenate([present, absent]))
    if len(scores) > MOST_THRESHOLDS:
        scores = np.quantile(scores, np.linspace(0, 1, MOST_THRESHOLDS))
    return float(scores[int(np.argmax(value(rates_at(present, absent, scores))))])


@dataclass(frozen=True)
class Tested:
    """What a test showed whose threshold was chosen on other runs: its rates, and the lower bounds that follow."""

    rates: Rates
    threshold: float
    epsilon: float
    mu: float
    area: float


def halved_test(present: Floats, absent: Floats, *, delta: float, level: float) -> Tested:
    """Fix a threshold on the first half of the scores of both kinds; return what it shows on the second half.

    Two thresholds are chosen, the better one for epsilon and the better one for mu, and each bound has half of the level.
    """
    first, second = np.array_split(present, 2)
    early, late = np.array_split(absent, 2)
    for_epsilon = best_threshold(first, early, lambda rates: rates.epsilons(delta, level / 2))
    for_mu = best_threshold(first, early, lambda rates: rates.mus(level / 2))
    rates = rates_at(second, late, for_epsilon)
    return Tested(
        rates,
        for_epsilon,
        rates.epsilon(delta, level / 2),
        rates_at(second, late, for_mu).mu(level / 2),
        area(second, late),
    )


def area(present: Floats, absent: Floats) -> float:
    """Return the area under the ROC curve: the probability that a present unit has the higher score; ties count half."""
    ordered = np.sort(absent)
    below = np.searchsorted(ordered, present, side="left") + np.searchsorted(ordered, present, side="right")
    return float(below.mean() / (2 * len(absent)))


def found_at(present: Floats, absent: Floats, false_alarms: float) -> float:
    """Return the true-positive rate at a false-positive rate of at most `false_alarms`."""
    allowed = math.floor(false_alarms * len(absent))
    threshold = np.sort(absent)[len(absent) - 1 - allowed] if allowed < len(absent) else -math.inf
    return float((present > threshold).mean())


def noise_ratio(squares: float, count: float, level: float) -> tuple[float, float, float]:
    """Return the ratio of measured to stated noise: estimate, lower and upper bound, each wrong with at most `level`.

    Parameters
    ----------
    squares : float
        Sum of the squares of noise numbers, each divided by its stated standard deviation: chi-squared if it is as stated.
    count : float
        How many numbers there are.
    level : float
    """
    low, high = (squares / float(stats.chi2.ppf(tail, count)) for tail in (1 - level, level))
    return math.sqrt(squares / count), math.sqrt(low), math.sqrt(high)


def epsilon_of(mu: float, delta: float) -> float:
    """Return the epsilon that mu-Gaussian differential privacy is at this delta; 0 for mu = 0."""
    return 0.0 if mu <= 0 else epsilon_of_mu(min(mu, MOST_MU), delta)


def _largest(disproved: Callable[[float], bool], most: float) -> float:
    """Return the largest value that is disproved, by bisection; 0 if none is."""
    low, high = 0.0, most
    if not disproved(low):
        return 0.0
    for _ in range(SEARCH_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if disproved(middle) else (low, middle)
    return low


def one_run_epsilon(canaries: int, guesses: int, correct: int, *, delta: float, level: float) -> float:
    r"""Return the largest epsilon that one run with many canaries disproves (Steinke et al. 2023, Theorem 5.2).

    Every canary was in the data with probability 1/2, independently. If the run is (epsilon, delta)-private, v or more guesses
    are correct with a probability of at most

    .. math:: \beta + 2 m \delta \max_i \alpha_i / i, \qquad \beta = P[B \ge v], \qquad \alpha_i = P[v > B \ge v - i],

    with B binomial for `guesses` trials of probability :math:`e^\varepsilon / (1 + e^\varepsilon)`.
    """

    def disproved(epsilon: float) -> bool:
        accuracy = 1 / (1 + math.exp(-epsilon))
        tail = float(stats.binom.sf(correct - 1, guesses, accuracy))
        if tail > level:
            return False
        steps = np.arange(1, correct + 1)
        below = np.cumsum(stats.binom.pmf(correct - steps, guesses, accuracy))
        slope = float((below / steps).max()) if correct else 0.0
        return tail + 2 * canaries * delta * slope <= level

    return 0.0 if correct == 0 else _largest(disproved, MOST_EPSILON)


def one_run_mu(canaries: int, guesses: int, correct: int, *, level: float) -> float:
    r"""Return the largest mu that one run disproves for mu-Gaussian differential privacy (Mahloujifar et al. 2024).

    Their recursion (Algorithm 3) with the trade-off curve of mu: h and r bound the probabilities that a guess is wrong and right
    while at least i guesses are right; mu is disproved if they cannot add up to the fraction of canaries that were guessed.
    """

    def disproved(mu: float) -> bool:
        part = level * guesses / canaries
        right, wrong = part * correct / guesses, part * (guesses - correct) / guesses
        for place in range(correct - 1, -1, -1):
            further = max(wrong, float(ndtr(ndtri(min(right, 1.0)) - mu)))
            right, wrong = right + place / (guesses - place) * (further - wrong), further
            if right + wrong > guesses / canaries:
                return True
        return False

    return 0.0 if guesses == 0 or correct == 0 else _largest(disproved, MOST_MU)
