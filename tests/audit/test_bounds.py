"""Lower bounds are below what they bound as often as they say, and not far below."""

import math

import numpy as np
import pytest
from scipy import stats

from tacit.audit.bounds import (
    Rates,
    area,
    best_threshold,
    epsilon_of,
    found_at,
    halved_test,
    lower_fraction,
    noise_ratio,
    one_run_epsilon,
    one_run_mu,
    rates_at,
    upper_fraction,
)


@pytest.mark.parametrize(("hits", "count"), [(0, 10), (3, 10), (10, 10), (40, 1000)])
def test_bounds_of_a_fraction_are_exact(hits, count):
    low, high = lower_fraction(hits, count, 0.05), upper_fraction(hits, count, 0.05)
    assert low <= hits / count <= high
    if hits:
        assert stats.binom.sf(hits - 1, count, low) == pytest.approx(0.05)
    if hits < count:
        assert stats.binom.cdf(hits, count, high) == pytest.approx(0.05)


@pytest.mark.slow
def test_rates_of_randomised_response_never_show_more_than_its_epsilon():
    """Its privacy loss is known: the bound exceeds it in at most 5% of the audits, and comes near it with many runs."""
    random, epsilon = np.random.default_rng(0), 1.0
    honest = math.exp(epsilon) / (1 + math.exp(epsilon))
    found = [
        Rates(random.binomial(500, honest), 500, random.binomial(500, 1 - honest), 500).epsilon(0.0, 0.05)
        for _ in range(300)
    ]
    assert sum(one > epsilon for one in found) <= stats.binom.ppf(0.999, 300, 0.05)
    many = Rates(random.binomial(10**6, honest), 10**6, random.binomial(10**6, 1 - honest), 10**6)
    assert 0.98 * epsilon < many.epsilon(0.0, 0.05) < epsilon


def test_both_directions_count():
    assert Rates(1000, 1000, 900, 1000).epsilon(0.0, 0.05) == pytest.approx(
        Rates(100, 1000, 0, 1000).epsilon(0.0, 0.05)
    )


@pytest.mark.slow
def test_mu_of_gaussian_scores():
    random = np.random.default_rng(1)
    present, absent = random.normal(1.0, size=100_000), random.normal(size=100_000)
    found = halved_test(present, absent, delta=1e-5, level=0.05)
    assert 0.9 < found.mu < 1.0
    assert 0 < found.epsilon < epsilon_of(1.0, 1e-5)
    assert found.area == pytest.approx(stats.norm.cdf(1 / math.sqrt(2)), abs=0.005)


@pytest.mark.slow
def test_a_threshold_is_reported_on_other_scores_than_those_it_was_chosen_on():
    """Scores that mean nothing: the best threshold looks good on its own scores, and shows nothing on others."""
    random = np.random.default_rng(2)
    overfitted, shown = 0, 0
    for _ in range(60):
        present, absent = random.normal(size=40), random.normal(size=40)
        threshold = best_threshold(present, absent, lambda rates: rates.epsilons(0.0, 0.5))
        overfitted += rates_at(present, absent, threshold).epsilon(0.0, 0.5) > 0
        shown += halved_test(present, absent, delta=0.0, level=0.05).epsilon > 0
    assert overfitted > 30
    assert shown <= stats.binom.ppf(0.999, 60, 0.05)


def test_found_at_a_low_rate_of_false_alarms():
    present, absent = np.array([5.0, 4.0, 1.0, 0.5]), np.arange(100) / 50
    assert found_at(present, absent, 0.0) == 0.5
    assert found_at(present, absent, 0.5) == 0.75
    assert area(np.array([1.0]), np.array([1.0])) == 0.5


@pytest.mark.slow
def test_noise_ratio_has_its_level():
    random = np.random.default_rng(3)
    squares = (0.8 * random.normal(size=(400, 100))) ** 2
    found = [noise_ratio(float(one.sum()), 100, 0.05) for one in squares]
    assert sum(high < 0.8 for _, _, high in found) <= stats.binom.ppf(0.999, 400, 0.05)
    assert np.mean([estimate for estimate, _, _ in found]) == pytest.approx(0.8, abs=0.01)


def guessed(random, mu, canaries, guesses):
    inside = random.integers(0, 2, canaries)
    scores = random.normal(size=canaries) + mu * (inside - 0.5)
    sure = np.argsort(-np.abs(scores))[:guesses]
    return int(((scores[sure] > 0) == inside[sure]).sum())


@pytest.mark.slow
def test_one_run_bounds_stay_below_the_truth_and_use_most_of_it():
    random, mu, delta = np.random.default_rng(4), 1.85, 1e-6
    truth = epsilon_of(mu, delta)
    correct = [guessed(random, mu, 1000, 200) for _ in range(8)]
    by_mu = [epsilon_of(one_run_mu(1000, 200, one, level=0.05), delta) for one in correct]
    by_epsilon = [one_run_epsilon(1000, 200, one, delta=delta, level=0.05) for one in correct]
    assert max(by_mu + by_epsilon) < truth
    assert np.mean(by_mu) > 0.5 * truth
    assert np.mean(by_mu) > np.mean(by_epsilon) > 0.2 * truth


def test_one_run_with_chance_guesses_shows_nothing():
    assert one_run_epsilon(1000, 200, 100, delta=1e-6, level=0.05) == 0.0
    assert one_run_mu(1000, 200, 100, level=0.05) < 0.05
    assert one_run_mu(10, 0, 0, level=0.05) == 0.0


def test_steinke_bound_without_delta_is_the_binomial_tail():
    found = one_run_epsilon(100, 100, 90, delta=0.0, level=0.05)
    accuracy = 1 / (1 + math.exp(-found))
    assert stats.binom.sf(89, 100, accuracy) == pytest.approx(0.05)
