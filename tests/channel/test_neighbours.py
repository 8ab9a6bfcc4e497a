"""The shared privacy check passes a program that keeps the rules and finds every planted way to break them."""

import numpy as np
import pytest
from programs import (
    bound_from_the_data,
    clear_row_count,
    data_dependent_start,
    fit_with,
    mean_program,
    private_thing_made_public,
    sample_ignored,
    scaled_by_the_largest,
    shape_from_the_data,
    tolerance_stop,
    unclipped,
)

from tacit.channel import Clear, Outcome, Step, Sum, check_neighbours, run
from tacit.errors import PrivacyViolationError

X = np.random.default_rng(0).normal(size=(40, 6))
FAR = 50 * np.ones((1, 6))
NEIGHBOURS = {
    "removed": X[:-1],
    "added far away": np.vstack([X, FAR]),
    "added zeros": np.vstack([X, 0 * FAR]),
}


@pytest.mark.parametrize("neighbour", NEIGHBOURS.values(), ids=NEIGHBOURS)
def test_a_sound_program_passes(neighbour):
    report = check_neighbours(fit_with(mean_program), X, neighbour)
    assert len(report.moved) == 2 * 3  # two bounded arrays in each of three rounds
    assert 0 < report.largest <= 1


@pytest.mark.parametrize("neighbour", NEIGHBOURS.values(), ids=NEIGHBOURS)
def test_a_sound_sampled_program_passes(neighbour):
    fit = fit_with(lambda data: mean_program(data, rate=0.5), steps=[Step(3, sampling_rate=0.5)])
    assert check_neighbours(fit, X, neighbour).largest <= 1


def test_replace_one_allows_the_change_and_no_more():
    replaced = np.vstack([X[:-1], -FAR])
    data = np.vstack([X[:-1], FAR])
    sound = fit_with(mean_program, adjacency="replace-one")
    # the two rows are clipped to opposite unit vectors: the whole allowance of twice the norm is used
    assert check_neighbours(sound, data, replaced).largest == pytest.approx(1.0, rel=1e-3)

    def understated(rows):  # says that two rows differ by at most one norm
        from tacit.channel import Bound

        lengths = np.maximum(1, np.linalg.norm(rows, axis=1, keepdims=True))
        total = yield Sum(shift=(rows / lengths).sum(axis=0), bound=Bound(1.0, change=1.0), units=len(rows))
        return Outcome({"estimate": total.shift})

    with pytest.raises(PrivacyViolationError, match="to move by at most"):
        check_neighbours(fit_with(understated, adjacency="replace-one"), data, replaced)


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (data_dependent_start, "released 'estimate'|to move by"),
        (tolerance_stop, "rounds on both data sets"),
        (unclipped, "to move by at most"),
        (clear_row_count, "released 'estimate'"),
        (scaled_by_the_largest, "to move by at most"),
        (bound_from_the_data, "to ask for"),
        (shape_from_the_data, "to ask for"),
        (private_thing_made_public, "released 'loss'"),
    ],
)
def test_planted_bugs_are_found(program, message):
    with pytest.raises(PrivacyViolationError, match=message):
        check_neighbours(fit_with(program), X, NEIGHBOURS["added far away"])


@pytest.mark.parametrize("program", [data_dependent_start, clear_row_count, private_thing_made_public])
def test_planted_bugs_are_found_even_when_an_ordinary_row_is_removed(program):
    with pytest.raises(PrivacyViolationError):
        check_neighbours(fit_with(program), X, X[:-1])


def test_a_sample_that_is_drawn_but_not_used_is_found():
    with pytest.raises(PrivacyViolationError, match="not in the sample"):
        check_neighbours(fit_with(sample_ignored, steps=[Step(2, sampling_rate=0.5)]), X, X[:-1])


def test_a_statistic_in_the_clear_is_found():
    def fit(data):
        return run(unclipped(data), Clear()).public

    with pytest.raises(PrivacyViolationError, match="noisy channel"):
        check_neighbours(fit, X, X[:-1])


def test_a_way_around_the_program_is_found():
    """A fit that looks at the data outside its program is seen by what it releases."""
    sound = fit_with(mean_program)

    def fit(data):
        return {**sound(data), "scale": float(data.std())}

    with pytest.raises(PrivacyViolationError, match="released 'scale'"):
        check_neighbours(fit, X, X[:-1])


def test_fewer_rounds_on_the_neighbour_are_found():
    def rounds_from_the_size(data):
        return mean_program(data, rounds=1 + len(data) % 2)

    with pytest.raises(PrivacyViolationError, match="rounds on both"):
        check_neighbours(fit_with(rounds_from_the_size), X[:-1], X)
    with pytest.raises(PrivacyViolationError, match="rounds on both"):
        check_neighbours(fit_with(rounds_from_the_size), X, X[:-1])
