"""The square-root factorisation of prefix sums: exact algebra, the worst pattern by brute force, the promised figures."""

import itertools

import numpy as np
import pytest

from tacit.channel.noisy import scales, with_float_errors
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


@pytest.mark.parametrize("releases", [1, 4, 52, 365])
@pytest.mark.parametrize("size", [1, 100, 40_000])
def test_the_noise_covers_the_rounding_of_all_releases_to_their_grids(releases, size):
    """The channel counts the rounding of one sum; a schedule rounds in each of its releases."""
    schedule, max_units = Schedule(releases), 2**20
    grid, sensitivity, _ = scales(schedule.reach(max_units), size, 3.0, max_units)
    moved = with_float_errors(schedule.sensitivity, max_units) / grid.step + np.sqrt(releases * size)
    assert moved <= sensitivity


def test_the_noise_covers_the_rounding_of_added_terms():
    """Few units and many releases: what the sum of earlier terms errs by, against fractions, is within the reserve."""
    from fractions import Fraction

    schedule = Schedule(300)
    running, exact, errors = RunningTotal(schedule), [], []
    coefficients = [Fraction(c) for c in schedule.coefficients]
    for value in np.random.default_rng(0).random(300):
        term = running.next_terms({"x": np.array([value])})["x"][0]
        exact.insert(0, Fraction(value))
        errors.append(float(abs(Fraction(term) - sum(c * x for c, x in zip(coefficients, exact, strict=False)))))
    reserve = schedule.reach(1) * (1 - np.sqrt(300) * 2.0**-13) - schedule.sensitivity
    assert 0 < 2 * np.linalg.norm(errors) <= reserve * (1 + 1e-6)
