"""The shared privacy check passes a program that keeps the rules and finds every planted way to break them."""

import numpy as np
import pytest
from programs import (
    bound_from_the_data,
    clear_row_count,
    clip,
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

from tacit.channel import Clear, Grid, Noisy, Outcome, Plan, Sample, Step, Sum, noisy, run
from tacit.errors import PrivacyViolationError
from tacit.testing import check_neighbours

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


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_sample_that_is_drawn_but_not_used_is_found():
    with pytest.raises(PrivacyViolationError, match="not in the sample"):
        check_neighbours(fit_with(sample_ignored, steps=[Step(2, sampling_rate=0.5)]), X, X[:-1])


def test_a_statistic_in_the_clear_is_found():
    def fit(data):
        return run(unclipped(data), Clear()).public

    with pytest.raises(PrivacyViolationError, match="noisy channel"):
        check_neighbours(fit, X, X[:-1])


def test_a_way_around_the_program_is_found():
    """A fit that reads the data outside its program is detected by its release."""
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


@pytest.mark.parametrize("unit", [0, 17, 39])
@pytest.mark.parametrize("rate", [None, 0.5])
def test_the_unit_may_stand_anywhere(unit, rate):
    steps = 3 if rate is None else [Step(3, sampling_rate=rate)]
    fit = fit_with(lambda data: mean_program(data, rate=rate), steps=steps)
    others = np.delete(X, unit, axis=0)
    replaced = X.copy()
    replaced[unit] = FAR
    assert 0 < check_neighbours(fit, X, others, unit=unit).largest <= 1
    assert 0 < check_neighbours(fit, others, X, unit=unit).largest <= 1
    assert check_neighbours(fit_with(mean_program, adjacency="replace-one"), X, replaced, unit=unit).largest <= 1


def sampled_twice(used_in_first, clipped_in_second):
    """Two sampled sums: the first may ignore its sample, the second may forget to clip."""

    def program(X):
        estimate = np.zeros(X.shape[1])
        for _ in range(3):
            mask = yield Sample(len(X), 0.1)
            rows = X[mask] if used_in_first else X
            first = yield Sum(a=clip(rows).sum(axis=0), bound=1.0, units=len(rows))
            mask = yield Sample(len(X), 0.1)
            rows = X[mask]
            rows = clip(rows) if clipped_in_second else rows
            second = yield Sum(b=rows.sum(axis=0), bound=1.0, units=len(rows))
            estimate = estimate + first.a + second.b
        return Outcome({"estimate": estimate})

    return fit_with(program, steps=[Step(6, sampling_rate=0.1)])


@pytest.mark.slow
def test_both_parities_of_sampled_steps_are_seen():
    """A bug that shows only while the unit is out of the even samples, or only while it is in the odd ones."""
    far = np.vstack([X, FAR])
    assert check_neighbours(sampled_twice(True, True), X, far).largest <= 1
    for bugs in ((False, True), (True, False), (False, False)):
        with pytest.raises(PrivacyViolationError):
            check_neighbours(sampled_twice(*bugs), X, far)


@pytest.mark.slow
def test_a_single_sampled_sum_that_ignores_its_sample_is_found():
    def program(X):
        yield Sample(len(X), 0.1)
        total = yield Sum(a=clip(X).sum(axis=0), bound=1.0, units=len(X))
        return Outcome({"a": total.a})

    with pytest.raises(PrivacyViolationError, match="not in the sample"):
        check_neighbours(fit_with(program, steps=[Step(1, sampling_rate=0.1)]), X, X[:-1])


def test_who_is_not_in_the_sample_may_not_move_a_sum_at_all():
    """Three parts in ten thousand of the bound, in every step, is not amplified: at a million steps it is most of the cost."""

    def program(X):
        mask = yield Sample(len(X), 0.1)
        own = clip(X)[mask].sum(axis=0) + 3e-4 * clip(X).sum(axis=0) / (1 + 3e-4)
        total = yield Sum(a=own, bound=1.0, units=len(X))
        return Outcome({"a": total.a})

    with pytest.raises(PrivacyViolationError, match="not in the sample"):
        check_neighbours(fit_with(program, steps=[Step(1, sampling_rate=0.1)]), X, X[:-1])


def settings_from_the_data(**chosen):
    def fit(data):
        budget = {name: choice(data) for name, choice in chosen.items()}
        max_units = budget.pop("max_units", 2**20)
        multiplier = budget.pop("multiplier", None)
        plan = Plan.for_budget(**{"epsilon": 1.0, "delta": 1e-6, **budget})
        if multiplier is not None:
            plan = Plan(1.0, 1e-6, (Step(),), multiplier)

        def program():
            total = yield Sum(a=clip(data).sum(axis=0), bound=1.0, units=len(data))
            return Outcome({"a": total.a})

        return run(program(), Noisy(plan, max_units=max_units)).public

    return fit


@pytest.mark.parametrize(
    "chosen",
    [
        {"delta": lambda data: 1 / (100 * len(data))},
        {"epsilon": lambda data: len(data) / 10},
        {"max_units": len},
        {"multiplier": lambda data: 1.0 if np.abs(data).max() > 10 else 1e4},
        {"unit": lambda data: "row" if len(data) % 2 else "user"},
    ],
    ids=lambda chosen: next(iter(chosen)),
)
def test_a_plan_that_sees_the_data_is_found(chosen):
    with pytest.raises(PrivacyViolationError, match="to ask for"):
        check_neighbours(settings_from_the_data(**chosen), X, np.vstack([X, FAR]))


def test_numbers_that_are_not_numbers_do_not_pass():
    def fit(data):
        return {"loss": float("nan") if len(data) % 2 else 0.0}

    with pytest.raises(PrivacyViolationError, match="released 'loss'"):
        check_neighbours(fit, X, X[:-1])


def test_bytes_are_compared_to_the_last():
    with pytest.raises(PrivacyViolationError, match="released 'file'"):
        check_neighbours(lambda data: {"file": b"model" + b"\0" * (len(data) % 2)}, X, X[:-1])


@pytest.mark.parametrize("part", ["grid", "sensitivity", "sigma"])
def test_noise_that_sees_the_data_behind_the_plan_is_found(part, monkeypatch):
    """The plan and the bounds are the same for both data sets; only what the channel makes of them differs."""
    scales, seen = noisy.scales, []

    def leaky(*given):
        grid, sensitivity, sigma = scales(*given)
        wrong = {"grid": Grid(grid.exponent + 1), "sensitivity": 1.1 * sensitivity, "sigma": 0.9 * sigma}
        whole = {"grid": grid, "sensitivity": sensitivity, "sigma": sigma}
        return tuple({**whole, **({part: wrong[part]} if seen[-1] > len(X) else {})}.values())

    def fit(data):
        seen.append(len(data))
        return fit_with(mean_program)(data)

    monkeypatch.setattr(noisy, "scales", leaky)
    with pytest.raises(PrivacyViolationError, match="to ask for"):
        check_neighbours(fit, X, np.vstack([X, FAR]))
