"""Choosing the best candidate: only the winner leaves, at the price that was planned."""

import math

import numpy as np
import pytest
from scipy import stats

from tacit.channel import Choose, Clear, Noisy, Outcome, Plan, Step, Sum, run, run_together
from tacit.errors import BudgetError, InvalidInputError, PrivacyViolationError, ProtocolError, RangeError
from tacit.testing import check_neighbours

X = np.random.default_rng(0).random((40, 3))


def vote_program(X, bound=1.0):
    winner = yield Choose(X.sum(axis=0), bound=bound, units=len(X))
    return Outcome({"winner": winner})


def planned(epsilon=1.0, choices=(0.5,)):
    return Plan.for_budget(epsilon, 1e-6, steps=1, choices=choices)


def test_in_the_clear_the_highest_total_wins():
    parts = [np.array([[1.0, 5.0, 2.0]]), np.array([[9.0, 1.0, 2.0]])]
    assert run(vote_program(parts[0]), Clear()).public["winner"] == 1
    assert [outcome.public["winner"] for outcome in run_together([vote_program(p) for p in parts], Clear())] == [0, 0]


@pytest.mark.slow
@pytest.mark.parametrize(("gap", "epsilon"), [(0.0, 0.5), (2.0, 0.5), (4.0, 1.0)])
def test_winners_come_with_the_probability_of_report_noisy_max(gap, epsilon):
    """For two candidates the winner depends on the difference of two Laplace draws of scale 2 / epsilon (level 1e-4)."""
    scale = 2 / epsilon
    t = gap / scale
    expected = 1 - math.exp(-t) / 2 * (1 + t / 2)  # P(gap + L1 - L2 > 0)
    data = np.array([[gap, 0.0]])
    plan = Plan.for_budget(3.0, 1e-6, steps=1, choices=(epsilon,))
    wins = sum(run(vote_program(data), Noisy(plan, insecure_seed=s)).public["winner"] == 0 for s in range(3000))
    assert stats.binomtest(wins, 3000, expected).pvalue > 1e-4


def test_the_price_is_recorded_and_the_sums_get_the_rest():
    def program():
        total = yield Sum(v=np.zeros(3), bound=1.0, units=3)
        winner = yield Choose([0.0, 1.0], bound=1.0, units=3)
        return Outcome({"v": total.v, "winner": winner})

    channel = Noisy(planned())
    run(program(), channel)
    kinds = [release.kind for release in channel.transcript.releases]
    assert kinds == ["gaussian", "exponential"]
    assert 0.99 < channel.guarantee.epsilon <= 1.0
    assert channel.plan.noise_multiplier > Plan.for_budget(1.0, 1e-6).noise_multiplier


def test_a_choice_that_was_not_planned_is_refused():
    with pytest.raises(BudgetError, match="0 choices"):
        run(vote_program(X), Noisy(Plan.for_budget(1.0, 1e-6)))


@pytest.mark.parametrize("choices", [(1.0,), (0.6, 0.5), (0.0,), (float("nan"),)])
def test_plans_must_leave_something_for_the_sums(choices):
    with pytest.raises(InvalidInputError):
        planned(choices=choices)


def test_bad_scores():
    with pytest.raises(InvalidInputError):
        Choose([], bound=1.0)
    with pytest.raises(InvalidInputError):
        Choose([1.0], bound=0.0)
    with pytest.raises(RangeError):
        run(vote_program(X * np.nan), Noisy(planned()))


@pytest.mark.parametrize(("units", "error"), [(None, ProtocolError), (2**20 + 1, InvalidInputError)])
def test_the_number_of_units_must_be_stated_and_within_the_bound(units, error):
    def program():
        yield Choose([0.0, 1.0], bound=1.0, units=units)

    with pytest.raises(error, match="units"):
        run(program(), Noisy(planned()))


def test_neighbours():
    def fit(bound):
        return lambda data: run(vote_program(data, bound), Noisy(planned())).public

    assert 0 < check_neighbours(fit(1.0), X, X[:-1]).largest <= 1
    with pytest.raises(PrivacyViolationError, match="scores"):
        check_neighbours(fit(1.0), X, np.vstack([X, [[0.0, 7.0, 0.0]]]))


def test_a_run_that_stops_before_its_choice_settles_without_it():
    class Account:
        def charge(self, guarantee):
            self.charged = guarantee
            return self

        def settle(self, guarantee):
            self.settled = guarantee

    def program():
        yield Sum(v=np.zeros(3), bound=1.0, units=3)
        return Outcome({})

    account = Account()
    run(program(), Noisy(Plan.for_budget(1.0, 1e-6, steps=[Step()], choices=(0.3,)), spending=account))
    assert [release.kind for release in account.charged.releases] == ["gaussian", "exponential"]
    assert [release.kind for release in account.settled.releases] == ["gaussian"]


@pytest.mark.slow
def test_under_replace_one_a_unit_moves_a_score_twice():
    """One row of score 1 for candidate 0 becomes one of score -1: the law of the winner, in closed form."""
    channel = Noisy(Plan.for_budget(2.0, 1e-6, steps=1, choices=(1.0,), adjacency="replace-one"))
    base = np.array([0.0, 20.0])
    scores, allowed = zip(
        *[channel.measure_scores([Choose(base + row, bound=1.0, units=2)]) for row in ([1.0, -1.0], [-1.0, 1.0])],
        strict=True,
    )
    assert np.abs(scores[0] - scores[1]).max() <= allowed[0]

    def win(gap, scale=2 * allowed[0]):
        """P(candidate 0 wins) for a lead of `gap` steps under discrete Laplace noise."""
        decay, reach = math.exp(-1 / scale), int(60 * scale)
        steps = np.arange(-reach, reach + 1)
        law = ((1 - decay) / (1 + decay)) ** 2 * decay ** np.abs(steps)
        law *= (1 + decay**2) / (1 - decay**2) + np.abs(steps)
        return law[steps >= -gap].sum()

    odds = [win(int(pair[0] - pair[1])) for pair in scores]
    assert math.log(odds[0] / odds[1]) <= 1.0
