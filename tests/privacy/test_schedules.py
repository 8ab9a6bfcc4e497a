"""The square-root factorisation of prefix sums: exact algebra, the worst pattern by brute force, the promised figures."""

import itertools

import numpy as np
import pytest

from tacit.errors import InvalidInputError
from tacit.privacy.schedules import RunningTotal, Schedule


def matrix(schedule):
    n = schedule.releases
    found = np.zeros((n, n))
    for row, column in itertools.product(range(n), repeat=2):
        if row >= column:
            found[row, column] = schedule.coefficients[row - column]
    return found


def test_the_square_of_the_factor_is_the_matrix_of_prefix_sums():
    C = matrix(Schedule(40))
    np.testing.assert_allclose(C @ C, np.tril(np.ones((40, 40))), atol=1e-12)


@pytest.mark.parametrize(("participations", "separation"), [(1, 1), (2, 1), (2, 3), (3, 2), (4, 2), (9, 1), (5, 3)])
def test_the_sensitivity_is_the_largest_norm_over_all_patterns(participations, separation):
    schedule = Schedule(9, participations, separation)
    C, worst = matrix(schedule), 0.0
    for count in range(1, participations + 1):
        for weeks in itertools.combinations(range(9), count):
            if all(later - earlier >= separation for earlier, later in itertools.pairwise(weeks)):
                worst = max(worst, float(np.linalg.norm(C[:, weeks].sum(axis=1))))
    assert worst <= schedule.sensitivity <= worst * (1 + 1e-9)


def test_a_year_of_weekly_releases():
    assert Schedule(52).relative_noise(51) <= 2.4
    assert Schedule(52, 4, 4).relative_noise(51) <= 7.3
    assert Schedule(1).relative_noise(0) == pytest.approx(1.0)


def test_refused_where_units_take_part_every_week():
    Schedule(52).check_helps()
    Schedule(52, 4, 4).check_helps()
    with pytest.raises(InvalidInputError, match="few of the releases"):
        Schedule(52, 52, 1).check_helps()


def test_running_totals_are_exact_without_noise_and_have_the_stated_noise_with_it():
    schedule, generator = Schedule(20), np.random.default_rng(0)
    weekly = generator.random((20, 3))
    running, exact = RunningTotal(schedule), np.cumsum(weekly, axis=0)
    for week in range(20):
        total = running.total(running.next_terms({"x": weekly[week]}))
        np.testing.assert_allclose(total["x"], exact[week], rtol=1e-12)
    noisy, spread = RunningTotal(schedule), 0.7
    for week in range(20):
        sent = noisy.next_terms({"x": np.zeros(40_000)})
        total = noisy.total({"x": sent["x"] + generator.normal(0, spread, 40_000)})
        # 40,000 normal draws: the relative error of their standard deviation is below 2.5% with probability 1 - 1e-11
        assert np.std(total["x"]) == pytest.approx(noisy.noise(spread), rel=0.025), week
    assert noisy.noise(spread) == pytest.approx(spread * schedule.relative_noise(19) / schedule.sensitivity, rel=1e-9)


def test_no_release_beyond_the_schedule():
    running = RunningTotal(Schedule(1))
    running.next_terms({"x": np.ones(2)})
    with pytest.raises(InvalidInputError, match="at most 1 releases"):
        running.next_terms({"x": np.ones(2)})
    with pytest.raises(InvalidInputError):
        Schedule(3).relative_noise(3)
    with pytest.raises(InvalidInputError):
        Schedule(0)
