"""The fallback: bounded gains per example, from that example alone, and a scale that follows from released numbers."""

import math

import numpy as np
import pytest
import torch

from tacit.channel import Clear, Noisy
from tacit.neural import PrivateBayesianClassifier
from tacit.neural.buckets import ROUNDING
from tacit.neural.chain import BLOCK
from tacit.neural.fallback import (
    ENOUGH,
    LEAST_SCALE,
    MEASURED,
    MOST_GAIN,
    MOST_WEIGHT,
    SCALES,
    SEEN,
    ClassFrequencies,
    MeanTarget,
    chosen_scale,
    shrunk,
    weight_in_steps,
)
from tacit.neural.gradients import Learner
from tacit.neural.losses import regression_loss
from tacit.neural.network import perceptron
from tacit.neural.program import COUNT_FRACTION, MOST_COUNT_FRACTION, OF_THE_COUNTS, count_fraction_for
from tacit.privacy import gaussian_noise_multiplier

EXTREME = [0.0, 1.0, -30.0, 1e4, 1e300, math.inf, math.nan]


@pytest.mark.parametrize("value", EXTREME)
@pytest.mark.parametrize("fallback", [ClassFrequencies(), MeanTarget()], ids=["classes", "numbers"])
def test_no_example_gains_or_loses_more_than_the_bound(fallback, value):
    draw = torch.Generator().manual_seed(0)
    scores = torch.randn(3, 20, 4, generator=draw, dtype=torch.float64)
    scores[1, 3:9, 2] = value
    targets = torch.arange(20) % 4 if isinstance(fallback, ClassFrequencies) else torch.ones(20, 4).double()
    gains = fallback.gains(scores, targets, torch.zeros(4, dtype=torch.float64))
    assert gains.shape == (20, len(MEASURED))
    assert bool((gains.norm(dim=1) <= MOST_GAIN * (1 + 1e-12)).all())


def test_the_bound_is_attained_by_a_sure_and_wrong_prediction():
    scores = torch.tensor([[[1e4, 0.0]]], dtype=torch.float64)
    gains = ClassFrequencies().gains(scores, torch.tensor([1]), torch.zeros(2, dtype=torch.float64))
    assert float(gains.norm()) == pytest.approx(MOST_GAIN)
    assert bool((gains < 0).all())


@pytest.mark.parametrize("engine", ["chain", "one by one"])
@pytest.mark.parametrize("kind", ["classes", "numbers"])
def test_an_examples_gains_have_the_same_bits_in_any_company(kind, engine):
    random = np.random.default_rng(1)
    X = random.random((BLOCK + 9, 12), dtype=np.float32)
    if kind == "classes":
        fallback, targets, learner = ClassFrequencies(), torch.arange(len(X)) % 3, Learner(perceptron(12, (7,), 3, 0))
    else:
        fallback, targets = MeanTarget(), torch.from_numpy(random.uniform(-1, 1, (len(X), 3)))
        learner = Learner(perceptron(12, (7,), 3, 0), regression_loss)
    if engine == "chain":
        assert learner.use_chain()
    samples = random.normal(size=(4, learner.size)).astype(np.float32)
    baseline = torch.tensor([0.1, -0.2, 0.3], dtype=torch.float64)

    def gains(place):
        return learner.gains(X[place], targets[place], samples, fallback, baseline)

    alone = {place: gains([place]) for place in (0, 5, BLOCK, BLOCK + 8)}
    for others in (slice(1, 5), slice(6, BLOCK - 3), slice(20, BLOCK)):
        company = np.arange(len(X))[others]
        for place, own in alone.items():
            if place in company:
                continue
            # sums of a few numbers below 1: differences beyond a unit in the last place would show
            joined, without = gains(np.append(company, place)), gains(company)
            assert np.abs(joined - (without + own)).max() < 1e-13


def test_the_total_of_the_gains_is_of_the_predictions_that_are_made():
    random = np.random.default_rng(2)
    X, y = random.random((300, 5)), random.integers(0, 3, 300)
    model = PrivateBayesianClassifier(
        (4,), epsilon=math.inf, classes=range(3), epochs=1.0, step_size=0.1, n_samples=3
    ).fit(X, y)
    learner = model._learner(5, 3, (4,))
    inputs = (2 * X - 1).astype(np.float32)
    found = learner.gains(
        inputs, torch.from_numpy(y), model.weights_, ClassFrequencies(), torch.from_numpy(model.baseline_)
    )
    truth = np.eye(3)[y]
    without = ((np.exp(model.baseline_) - truth) ** 2).sum(axis=1)
    for scale, gain in zip(MEASURED, found, strict=True):
        model.scale_ = scale
        errors = ((model.predict_proba(X) - truth) ** 2).sum(axis=1)
        assert gain == pytest.approx((without - errors).sum(), abs=1e-9)  # no example is near the bound here


def test_frequencies_from_counts():
    fallback = ClassFrequencies()
    exact = np.exp(fallback.baseline(np.array([30.0, 10.0, 0.0]), 0.0, 40.0))
    assert exact == pytest.approx(np.array([30.5, 10.5, 0.5]) / 41.5)
    near = np.exp(fallback.baseline(np.array([3000.0, 1000.0, 0.0]), 1.0, 4000.0))
    assert near == pytest.approx(np.array([0.75, 0.25, 0.0]), abs=1e-3)
    for counts in ([-1e6, 1e6], [0.0, 0.0], [-5.0, -5.0, -5.0], [1e12, -1e12, 3.0]):
        assert np.isfinite(fallback.baseline(np.array(counts), 10.0, 1.0)).all()


def test_counts_that_are_noise_give_equal_frequencies():
    random = np.random.default_rng(0)
    apart = []
    for _ in range(50):
        frequencies = np.exp(ClassFrequencies().baseline(10 + 60 * random.standard_normal(38), 60.0, 380.0))
        apart.append(np.log(38) + np.log(frequencies).mean())  # minus the divergence from equal frequencies
    assert np.mean(apart) > -0.1


def test_unequal_frequencies_are_better_than_equal_ones_even_if_the_noise_is_as_large():
    """400 examples of ten classes as unequal as those of Zipf's law, with the noise of epsilon 0.3."""
    random = np.random.default_rng(0)
    true = 1 / np.arange(1, 11)
    true /= true.sum()
    noise = gaussian_noise_multiplier(0.3, 1e-5) / math.sqrt(count_fraction_for(0.3, 1e-5) * OF_THE_COUNTS["targets"])
    above = []
    for _ in range(100):
        noisy = random.multinomial(400, true) + noise * random.standard_normal(10)
        above.append(true @ (np.log(true) - ClassFrequencies().baseline(noisy, noise, 400.0)))
    assert np.mean(above) < 0.14  # equal frequencies: 0.31; with 5% of the budget: 0.22


def test_a_small_budget_counts_more_carefully():
    assert count_fraction_for(math.inf, 1e-5) == count_fraction_for(1.0, 1e-5) == COUNT_FRACTION
    assert COUNT_FRACTION < count_fraction_for(0.5, 1e-5) < count_fraction_for(0.3, 1e-5) == MOST_COUNT_FRACTION


def test_the_mean_target_is_shrunk_by_its_noise():
    fallback = MeanTarget()
    assert fallback.baseline(np.array([50.0]), 0.0, 100.0) == pytest.approx(0.5)
    assert 0 < fallback.baseline(np.array([50.0]), 100.0, 100.0)[0] < 0.2
    assert np.abs(fallback.baseline(np.array([1e9, -1e9]), 1.0, 1.0)).max() <= 1


def test_a_gain_counts_only_beyond_its_noise():
    assert chosen_scale(np.zeros(5), 1.0) == LEAST_SCALE
    assert chosen_scale(np.array([SEEN + 0.1, 0.0, 0.0, 0.0, 0.0]), 1.0) == SCALES[0]
    assert chosen_scale(np.array([SEEN - 0.1, 0.0, 0.0, 0.0, 0.0]), 1.0) == LEAST_SCALE
    assert chosen_scale(np.array([10.0, 9.5, 3.0, 1.0, 0.0]), 1.0) == SCALES[1]  # nearly as good, and safer
    assert chosen_scale(np.full(5, -9.0), 1.0) == 0.0


def test_scales_of_scores():
    scores, baseline = torch.tensor([[[4.0, math.inf]]]), torch.tensor([1.0, 2.0])
    assert shrunk(scores, baseline, 1.0) is scores
    assert torch.equal(shrunk(scores, baseline, 0.0)[0, 0], baseline)
    assert float(shrunk(scores, baseline, 0.5)[0, 0, 0]) == 2.5


def test_a_network_starts_with_the_class_frequencies(monkeypatch):
    first = []

    class Noticed(Clear):
        def exchange(self, asks):
            first.append(asks[0])
            return super().exchange(asks)

    random = np.random.default_rng(5)
    X, y = random.random((500, 4)), (random.random(500) < 0.1).astype(int)
    monkeypatch.setattr(PrivateBayesianClassifier, "_channel", lambda self, *arguments: Noticed())
    model = PrivateBayesianClassifier((3,), epsilon=math.inf, classes=(0, 1), epochs=1.0, sampling_rate=1.0).fit(X, y)
    share = y.mean()
    assert model.loss_curve_[0] == pytest.approx(-share * np.log(share) - (1 - share) * np.log(1 - share), rel=1e-2)
    assert first[0].names == ("count", "targets")
    assert len(first) == 2  # without noise nothing is measured after the training


def test_a_mean_of_few_targets_is_shrunk_by_the_noise_in_their_number_too():
    """100 targets at epsilon 0.3, where a mean of 0 was off by the size of the deviation of targets."""
    random, fallback = np.random.default_rng(0), MeanTarget()
    apart = {}
    for known in (0.0, 58.0):
        found = [
            fallback.baseline(random.normal(0, 29, 1), 29.0, max(random.normal(100, 58), 1), known)[0]
            for _ in range(4000)
        ]
        apart[known] = np.square(found).mean()
    assert apart[58.0] < 0.7 * apart[0.0]


def test_the_weight_of_counts_in_steps():
    assert weight_in_steps(100, 0.0, 10) == 0.0
    assert weight_in_steps(ENOUGH * 50, 5.0, 10) == 0.0
    assert weight_in_steps(1.0, 5.0, 10) == MOST_WEIGHT
    weights = [weight_in_steps(count, 5.0, 10) for count in (60, 80, 150, 199)]
    assert weights == sorted(weights, reverse=True)
    assert 0 < weights[-1] < MOST_WEIGHT


@pytest.fixture
def asked(monkeypatch):
    asks = []

    def exchange(self, given):
        total = honest(self, given)
        asks.append((given[0], total))
        return total

    honest = Noisy.exchange
    monkeypatch.setattr(Noisy, "exchange", exchange)
    return asks


FEW = np.random.default_rng(6)
FEW_ROWS, FEW_LABELS = FEW.random((200, 2)), FEW.choice(8, 200, p=np.array([60, 20, 8, 4, 3, 2, 2, 1]) / 100)


def test_steps_of_few_examples_go_on_counting(asked, monkeypatch):
    """The counts are part of one vector with the gradient; all together know the frequencies better than the first ones."""
    baselines = []
    honest = ClassFrequencies.baseline
    monkeypatch.setattr(ClassFrequencies, "baseline", lambda *given: baselines.append(honest(*given)) or baselines[-1])
    true = np.bincount(FEW_LABELS, minlength=8) / 200
    above = []
    for seed in range(8):
        asked.clear()
        baselines.clear()
        model = PrivateBayesianClassifier((), epsilon=0.3, delta=1e-5, classes=range(8), clip=0.5, insecure_seed=seed)
        model.fit(FEW_ROWS, FEW_LABELS)
        assert np.array_equal(model.baseline_, baselines[-1])
        above.append([true @ (np.log(true) - baseline) for baseline in (baselines[0], baselines[-1])])
        steps = [ask for ask, _ in asked if "gradient" in ask.names]
        weight = steps[0].bound.norm ** 2 - (0.5 * (1 + ROUNDING)) ** 2
        for ask in steps:
            assert ask.names == ("gradient", "targets")
            counts = ask.arrays["targets"] / math.sqrt(weight)
            assert np.allclose(counts, counts.round())
            assert counts.sum() == pytest.approx(ask.units)
    first, last = np.mean(above, axis=0)
    assert last < 0.6 * first


def test_other_steps_do_not_count(asked):
    few = {"delta": 1e-5, "classes": range(8), "epochs": 2.0, "sampling_rate": 0.5}
    PrivateBayesianClassifier((), epsilon=8.0, **few).fit(FEW_ROWS, FEW_LABELS)
    PrivateBayesianClassifier((3,), epsilon=0.3, per_layer=True, **few).fit(FEW_ROWS, FEW_LABELS)
    assert len(asked) == 12
    assert [ask for ask, _ in asked if "targets" in ask.names] == [asked[0][0], asked[6][0]]
