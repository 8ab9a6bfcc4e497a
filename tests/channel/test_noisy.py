"""The noisy channel: the noise it adds is the noise it accounts, and it refuses before it releases."""

import math

import numpy as np
import pytest
from programs import mean_program
from scipy import stats

from tacit.channel import Bound, Clear, Noisy, NormedSum, Outcome, Plan, Sample, Step, Sum, run, run_together
from tacit.errors import BudgetError, InvalidInputError, ProtocolError, RangeError
from tacit.privacy import GaussianRelease, gaussian_noise_multiplier

X = np.random.default_rng(1).normal(size=(30, 5))


def ask_once(*, size=20_000, **settings):
    """A program that asks for one sum of zeros, so that the answer is the noise."""
    total = yield Sum(zeros=np.zeros(size), **{"bound": 1.0, "units": 3, **settings})
    return Outcome({"zeros": total.zeros})


def noise_of(plan, **settings):
    return run(ask_once(**settings), Noisy(plan, insecure_seed=3)).public["zeros"]


@pytest.mark.parametrize(("bound", "adjacency"), [(1.0, "add-remove"), (250.0, "add-remove"), (1e-6, "replace-one")])
def test_noise_has_the_calibrated_size_and_shape(bound, adjacency):
    plan = Plan.for_budget(1.0, 1e-5, adjacency=adjacency)
    noise = noise_of(plan, bound=bound)
    expected = bound * gaussian_noise_multiplier(1.0, 1e-5, adjacency=adjacency)
    # a Kolmogorov-Smirnov test against the calibrated normal, at level 1e-4: 3% off would fail with 20,000 draws
    assert stats.kstest(noise, stats.norm(scale=expected).cdf).pvalue > 1e-4
    assert noise.std() == pytest.approx(expected, rel=0.02)


def test_half_the_noise_would_fail_that_test():
    noise = noise_of(Plan.for_budget(1.0, 1e-5)) / 2
    expected = gaussian_noise_multiplier(1.0, 1e-5)
    assert stats.kstest(noise, stats.norm(scale=expected).cdf).pvalue < 1e-4


def test_replace_one_uses_the_stated_change():
    plan = Plan.for_budget(1.0, 1e-5, adjacency="replace-one")
    plain = noise_of(plan, bound=Bound(1.0)).std()
    tighter = noise_of(plan, bound=Bound(1.0, change=math.sqrt(2))).std()
    assert tighter / plain == pytest.approx(1 / math.sqrt(2), rel=0.02)


def two_arrays(fractions=None, bound=None):
    total = yield Sum(
        a=np.zeros(20_000), b=np.zeros(20_000), bound=bound or {"a": 1.0, "b": 10.0}, fractions=fractions, units=3
    )
    return Outcome(dict(total))


def test_arrays_get_their_shares_of_the_budget():
    plan = Plan.for_budget(1.0, 1e-5)
    found = run(two_arrays({"a": 0.9, "b": 0.1}), Noisy(plan, insecure_seed=5)).public
    z = plan.noise_multiplier
    assert found["a"].std() == pytest.approx(z / math.sqrt(0.9), rel=0.02)
    assert found["b"].std() == pytest.approx(10 * z / math.sqrt(0.1), rel=0.02)
    # together they cost exactly what one array would: sum of (bound/sigma)^2 is 1/z^2
    assert 1 / found["a"].var() + 100 / found["b"].var() == pytest.approx(1 / z**2, rel=0.05)


def test_a_joint_bound_gives_all_arrays_the_same_noise():
    plan = Plan.for_budget(1.0, 1e-5)
    found = run(two_arrays(bound=2.0), Noisy(plan, insecure_seed=5)).public
    assert found["a"].std() == pytest.approx(2 * plan.noise_multiplier, rel=0.02)
    assert found["b"].std() == pytest.approx(2 * plan.noise_multiplier, rel=0.02)


@pytest.mark.parametrize(
    "steps", [1, 5, [Step(2, weight=3.0), Step(4)], [Step(10, sampling_rate=0.1), Step(1, weight=2.0)]]
)
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_a_plan_costs_its_epsilon_and_not_less(steps, adjacency):
    plan = Plan.for_budget(1.5, 1e-6, steps=steps, adjacency=adjacency)
    assert 1.5 * (1 - 1e-3) <= plan.guarantee().epsilon <= 1.5


def test_the_guarantee_is_earned_from_the_transcript():
    channel = Noisy(Plan.for_budget(1.0, 1e-5, steps=3))
    assert channel.guarantee.epsilon == 0
    channel.open()
    for _ in range(2):
        channel.exchange([Sum(v=np.zeros(3), bound=1.0, units=3)])
    earned = channel.guarantee
    assert sum(release.count for release in earned.releases) == 2
    assert 0.5 < earned.epsilon < 0.9  # two of three rounds so far
    channel = Noisy(Plan.for_budget(1.0, 1e-5, steps=3))
    run(mean_program(X, rounds=3), channel)
    assert channel.guarantee.epsilon == pytest.approx(1.0, abs=1e-4)
    assert channel.guarantee.epsilon <= 1.0
    assert "1048576 units" in str(channel.guarantee)


def test_what_was_released_is_recorded_with_its_grid():
    channel = Noisy(Plan.for_budget(1.0, 1e-5, steps=[Step(1, weight=4.0), Step(1)]))
    run(ask_once(step=Step(weight=4.0), size=100), channel)
    (release,) = channel.transcript.releases
    assert isinstance(release, GaussianRelease)
    assert release.noise_multiplier == pytest.approx(channel.plan.noise_multiplier / 2)
    assert release.lattice_sigma >= 2**12
    assert release.dimension == 100


def test_answers_lie_on_the_grid():
    """Low bits of floating point carry nothing: every released number is a whole multiple of a power of two."""
    released = noise_of(Plan.for_budget(1.0, 1e-5), size=1000)
    channel = Noisy(Plan.for_budget(1.0, 1e-5))
    grid = channel.measure([Sum(zeros=np.zeros(1000), bound=1.0, units=3)])["zeros"].grid
    assert np.array_equal(grid.decode(grid.encode(released)), released)


def test_rounding_to_the_grid_is_counted_in_the_sensitivity():
    channel = Noisy(Plan.for_budget(1.0, 1e-5))
    measured = channel.measure([Sum(v=np.zeros(10_000), bound=1.0, units=3)])["v"]
    assert measured.sensitivity >= 1 / measured.grid.step + math.sqrt(10_000)
    # and costs little: under one part in a thousand
    assert measured.sensitivity * measured.grid.step < 1.001
    # more units that may be added up, more rounding that one of them may cause
    larger = Noisy(Plan.for_budget(1.0, 1e-5), max_units=2**23).measure([Sum(v=np.zeros(10), bound=1.0, units=3)])["v"]
    assert larger.sensitivity * larger.grid.step > 1.01


@pytest.mark.parametrize("holders", [2, 3, 10])
def test_rounding_is_counted_for_every_holder_that_has_a_part_of_a_unit(holders):
    """Each holder's numbers are just below half a grid step without the unit, and just above another half with it."""
    size = 2**14
    channel = Noisy(Plan.for_budget(1.0, 1e-6), max_units=10)

    def measured(term, bound):
        return channel.measure([Sum(x=np.full(size, term), bound=bound, units=10)] * holders)["x"]

    def moved(widened):
        step = measured(0.0, widened(1.0)).grid.step
        part = (math.floor(1 / math.sqrt(size) / step) + 0.02) * step
        bound = widened(part * math.sqrt(size))
        before, after = measured(0.49 * step, bound), measured(0.49 * step + part, bound)
        assert after.grid.step == step
        return np.linalg.norm((after.integers - before.integers).astype(float)) / after.sensitivity

    assert moved(lambda norm: Bound(norm).times(holders)) <= 1
    assert moved(lambda norm: Bound(norm * holders)) > 1, "the rounding of the other holders is not counted"


def test_several_holders_are_totalled_before_the_noise():
    plan = Plan.for_budget(1e6, 1e-5, steps=3)  # next to no noise
    alone = run(mean_program(X), Noisy(plan)).public["estimate"]
    together = run_together([mean_program(X[:7]), mean_program(X[7:])], Noisy(plan))
    assert np.allclose(together[1].public["estimate"], alone, atol=1e-2)
    assert together[0].private["residuals"].shape == (7, 5)


def test_normed_sums_are_normalised_after_the_noise():
    def program():
        total = yield NormedSum(v=np.eye(4) * 1e6, bound=1.0, units=3)
        return Outcome(dict(total))

    found = run(program(), Noisy(Plan.for_budget(1.0, 1e-5))).public["v"]
    assert np.allclose(np.linalg.norm(found, axis=0), 1)
    assert not np.array_equal(found, np.eye(4))


@pytest.mark.slow
def test_samples_are_poisson_at_the_asked_rate():
    channel = Noisy(Plan.for_budget(1.0, 1e-5, steps=[Step(1, sampling_rate=0.3)]), insecure_seed=11)
    mask, other = channel.sample([Sample(100_000, 0.3), Sample(100_000, 0.3)])  # of two holders
    assert stats.binomtest(int(mask.sum()), 100_000, 0.3).pvalue > 1e-4
    assert stats.binomtest(int((mask & other).sum()), 100_000, 0.09).pvalue > 1e-4


@pytest.mark.slow
def test_a_second_sample_before_the_sum_is_refused():
    """Else the first one's mask could be used at the second one's rate."""

    def program():
        yield Sample(30, 0.9)
        yield Sample(30, 0.1)

    with pytest.raises(ProtocolError, match="after every Sample"):
        run(program(), Noisy(Plan.for_budget(1.0, 1e-5, steps=[Step(1, sampling_rate=0.1)])))


@pytest.mark.slow
def test_a_sample_counts_for_one_sum_only():
    def program():
        mask = yield Sample(30, 0.5)
        for _ in range(2):
            total = yield Sum(v=X[mask].sum(axis=0), bound=100.0, units=30)
        return Outcome(dict(total))

    channel = Noisy(Plan.for_budget(1.0, 1e-5, steps=[Step(2, sampling_rate=0.5)]))
    with pytest.raises(BudgetError, match="sampling rate 1"):
        run(program(), channel)


class Account:
    """Replaces a ledger, and refuses charges on request."""

    def __init__(self, refuse=False):
        self.refuse, self.charged, self.settled = refuse, [], []

    def charge(self, guarantee):
        if self.refuse:
            raise BudgetError("enough budget", 0, "Stop.")
        self.charged.append(guarantee)
        return self

    def settle(self, guarantee):
        self.settled.append(guarantee)


def test_the_whole_plan_is_charged_before_the_first_release():
    account = Account()
    channel = Noisy(Plan.for_budget(1.0, 1e-5, steps=3), spending=account)
    run(mean_program(X), channel)
    (charged,) = account.charged
    assert charged.epsilon == pytest.approx(1.0, abs=1e-3)
    assert charged.epsilon >= channel.guarantee.epsilon * (1 - 1e-12)
    assert not account.settled


def test_a_refused_charge_releases_nothing():
    channel = Noisy(Plan.for_budget(1.0, 1e-5, steps=3), spending=Account(refuse=True))
    with pytest.raises(BudgetError):
        run(mean_program(X), channel)
    assert len(channel.transcript) == 0


def test_a_run_that_breaks_half_way_settles_to_what_it_released():
    def breaks(data):
        yield Sum(v=np.zeros(3), bound=1.0, units=3)
        raise RuntimeError("the power went out")

    account = Account()
    with pytest.raises(RuntimeError, match="power"):
        run(breaks(X), Noisy(Plan.for_budget(1.0, 1e-5, steps=3), spending=account))
    (settled,) = account.settled
    assert sum(release.count for release in settled.releases) == 1
    assert settled.epsilon < 0.7


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
def test_numbers_that_do_not_fit_cost_nothing(bad):
    account = Account()

    def program():
        yield Sum(v=[0.0, bad], bound=1.0, units=3)

    with pytest.raises(RangeError, match="Nothing was sent"):
        run(program(), Noisy(Plan.for_budget(1.0, 1e-5), spending=account))
    assert not account.charged


def test_one_sum_more_than_planned_is_refused():
    channel = Noisy(Plan.for_budget(1.0, 1e-5, steps=2))
    with pytest.raises(BudgetError, match="as planned"):
        run(mean_program(X, rounds=3), channel)
    assert len(channel.transcript) == 2


def test_a_fixed_seed_voids_the_guarantee():
    channel = Noisy(Plan.for_budget(1.0, 1e-5), insecure_seed=1)
    run(ask_once(), channel)
    assert not channel.guarantee.holds
    assert "seed" in str(channel.guarantee)


def test_secure_noise_is_fresh_every_time():
    plan = Plan.for_budget(1.0, 1e-5)
    first, second = (run(ask_once(), Noisy(plan)).public["zeros"] for _ in range(2))
    assert abs(np.corrcoef(first, second)[0, 1]) < 6 / math.sqrt(len(first))


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"bound": None}, ProtocolError, "bound"),
        ({"units": None}, ProtocolError, "units"),
        ({"units": 2**20 + 1}, InvalidInputError, "max_units"),
        ({"bound": -1}, InvalidInputError, "bound"),
        ({"bound": {"other": 1.0}}, InvalidInputError, "one bound for each"),
        ({"fractions": {"zeros": 1.0}}, InvalidInputError, "fractions"),
        ({"bound": {"zeros": 1.0}, "fractions": {"other": 1.0}}, InvalidInputError, "one fraction"),
    ],
)
def test_sums_that_cannot_be_protected_are_refused(settings, error, message):
    with pytest.raises(error, match=message):
        noise_of(Plan.for_budget(1.0, 1e-5), **settings)


@pytest.mark.parametrize(
    "settings", [{"epsilon": 0}, {"delta": 1}, {"steps": 0}, {"steps": []}, {"unit": "page"}, {"adjacency": "near"}]
)
def test_plans_that_make_no_sense_are_refused(settings):
    with pytest.raises(InvalidInputError):
        Plan.for_budget(**{"epsilon": 1.0, "delta": 1e-5, **settings})


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("rate", [1.0, 0.3])
def test_totals_say_how_much_noise_they_carry(adjacency, rate):
    """The stated standard deviation is that of the numbers, by a chi-squared test at level 1e-6 per array."""
    size = 40_000
    plan = Plan.for_budget(1.0, 1e-5, steps=[Step(1, sampling_rate=rate)], adjacency=adjacency)
    bounds = {"a": Bound(1.0, change=math.sqrt(2)), "b": Bound(10.0)}

    def program():
        if rate < 1:
            yield Sample(3, rate)
        total = yield Sum(a=np.zeros(size), b=np.zeros(size), bound=bounds, fractions={"a": 0.9, "b": 0.1}, units=3)
        return Outcome({"a": total.a, "b": total.b, "noise": dict(total.noise)})

    found = run(program(), Noisy(plan)).public
    low, high = stats.chi2.ppf([5e-7, 1 - 5e-7], size)
    for name in ("a", "b"):
        assert low <= (found[name] ** 2).sum() / found["noise"][name] ** 2 <= high


def test_a_channel_without_noise_says_zero():
    def program():
        total = yield Sum(a=[1.0])
        return Outcome({"noise": total.noise["a"]})

    assert run(program(), Clear()).public["noise"] == 0


def test_an_array_cannot_be_named_like_the_noise():
    with pytest.raises(InvalidInputError, match="noise"):
        Sum(noise=[1.0])


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_sums_in_less_than_double_precision_are_refused(dtype):
    """In float32 one row of norm 1 can move a sum of 65,536 rows by 2: 256 rows of 5/1024 then round up or away."""
    rows = np.concatenate([np.ones(2**16 - 1), [1.0], np.full(256, 5 * 2.0**-10)]).astype(dtype)[:, None]

    def program():
        total = yield Sum(rows=rows.sum(axis=0), bound=1.0, units=len(rows))
        return Outcome({"rows": total.rows})

    account = Account()
    with pytest.raises(ProtocolError, match="double-precision"):
        run(program(), Noisy(Plan.for_budget(1.0, 1e-6), spending=account))
    assert not account.charged
