"""The regressor: its gradients are those of half the squared error, its guarantee is the target, its units are the user's."""

import math

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.linear_model import LinearRegression

import tacit
from tacit.errors import InvalidInputError
from tacit.neural import PrivateBayesianRegressor
from tacit.neural.gradients import Learner
from tacit.neural.losses import regression_loss
from tacit.neural.network import perceptron

RANDOM = np.random.default_rng(0)
X = RANDOM.random((3000, 3))
Y = 10 + 20 * X[:, 0] - 5 * X[:, 1] * X[:, 2] + RANDOM.standard_normal(3000) * 0.2
TRAIN, TEST = slice(0, 2500), slice(2500, None)
QUICK = {"delta": 1e-5, "target_range": (0, 40), "epochs": 5.0}


def regressor(*hidden, **settings):
    return PrivateBayesianRegressor(hidden, **{**QUICK, **settings})


@pytest.fixture(scope="module")
def private():
    return regressor(20, epsilon=3.0, n_samples=4).fit(X[TRAIN], Y[TRAIN])


@pytest.mark.slow
def test_without_clipping_or_noise_a_linear_model_is_least_squares():
    model = regressor(
        epsilon=math.inf, clip=1e6, step_size=5e5, sampling_rate=1.0, epochs=600, step_decay=0.0, prior=1e6
    )
    exact = LinearRegression().fit(X, Y)
    assert np.allclose(model.fit(X, Y).predict(X), exact.predict(X), atol=1e-4)


def test_clipped_totals_are_the_sum_of_clipped_gradients_of_half_the_squared_error():
    network = perceptron(3, (4,), 2, 0)
    with torch.no_grad():
        for value in network.parameters():
            value.add_(torch.randn(value.shape, generator=torch.Generator().manual_seed(1), dtype=value.dtype))
    rows, targets = torch.from_numpy(X[:40]), torch.from_numpy(RANDOM.random((40, 2)))
    totals, losses = Learner(network, regression_loss).clipped_totals(rows, targets, 0.5)
    expected = torch.zeros_like(totals["gradient"])
    for row, target, loss in zip(rows, targets, losses, strict=True):
        value = 0.5 * ((network(row) - target) ** 2).sum()
        gradient = torch.cat([part.flatten() for part in torch.autograd.grad(value, list(network.parameters()))])
        expected += gradient * min(1.0, 0.5 / float(gradient.norm()))
        assert float(loss) == pytest.approx(float(value.detach()))
    assert torch.allclose(totals["gradient"], expected)


@pytest.mark.slow
def test_the_guarantee_is_the_target_and_says_what_is_public(private):
    assert private.guarantee_.holds
    assert 2.9 < private.guarantee_.epsilon <= 3.0
    assert "the range of the targets is public" in private.guarantee_.assumptions
    assert private.score(X[TEST], Y[TEST]) > 0.9


@pytest.mark.slow
def test_predictions_do_not_depend_on_the_units(private):
    seeded = {"epsilon": 3.0, "insecure_seed": 1}
    first = regressor(6, **seeded).fit(X, Y)
    second = regressor(6, **seeded, target_range=(-1000, 3000)).set_params().fit(X, Y * 100 - 1000)
    assert np.allclose(second.predict(X), first.predict(X) * 100 - 1000)
    assert np.allclose(second.predict_spread(X), first.predict_spread(X) * 100)


def test_the_prediction_is_the_average_of_the_samples(private):
    singles = []
    for sample in private.weights_:
        single = clone(private)
        single.__dict__.update(private.__dict__)
        single.weights_ = sample[None]
        singles.append(single.predict(X[TEST]))
    assert np.allclose(private.predict(X[TEST]), np.mean(singles, axis=0))
    assert np.allclose(private.predict_spread(X[TEST]), np.std(singles, axis=0))
    assert private.predict_spread(X[TEST]).max() > 0


def test_several_targets_keep_their_columns():
    both = np.stack([Y, 100 - 2 * Y], axis=1)
    model = regressor(20, epsilon=math.inf, target_range=([0, 0], [40, 100])).fit(X, both)
    assert model.predict(X).shape == both.shape
    assert model.score(X, both) > 0.9


@pytest.mark.slow
def test_targets_beyond_the_bounds_are_cut_off_and_counted():
    wild = Y.copy()
    wild[:30] = 1e9
    tame = np.where(wild > 1e6, 40, Y)
    models = [regressor(epsilon=1.0, insecure_seed=3).fit(X, targets) for targets in (wild, tame)]
    assert models[0].clipped_target_fraction_ == pytest.approx(0.01)
    assert models[1].clipped_target_fraction_ == 0
    assert np.array_equal(models[0].weights_, models[1].weights_)


def test_a_saved_model_predicts_the_same_and_holds_no_unnoised_figure(private, tmp_path):
    private.save(tmp_path / "network.tacit")
    loaded = tacit.load(tmp_path / "network.tacit")
    assert np.array_equal(loaded.predict(X[TEST]), private.predict(X[TEST]))
    assert not hasattr(loaded, "loss_curve_")
    assert not hasattr(loaded, "clipped_target_fraction_")


@pytest.mark.parametrize(
    ("y", "settings", "words"),
    [
        (None, {}, "target for every row"),
        (["a"] * 3000, {}, "targets that are numbers"),
        (Y[:10], {}, "one target per row.*; got more or fewer targets than rows"),
        (Y.reshape(-1, 1, 1), {}, "one target per row.*; got 3 dimensions"),
        (np.where(X[:, 0] < 0.01, np.nan, Y), {}, "finite targets"),
        (Y, {"target_range": (5, 5)}, "target_range to be the lowest and the highest"),
        (Y, {"target_range": ([0, 0], [1, 1])}, "target_range to be the lowest and the highest"),
    ],
)
def test_bad_targets_are_refused(y, settings, words):
    with pytest.raises(InvalidInputError, match=words):
        regressor(epsilon=1.0, **settings).fit(X, y)


@pytest.mark.slow
def test_few_rows_are_learned_from_with_the_default_settings():
    """Noise that a class's score can bear would be larger than any target, and its gain too small to be seen."""
    random = np.random.default_rng(3)
    rows = np.clip(random.standard_normal((840, 8)), -3, 3)
    targets = np.clip(2 * rows[:, 0] + 0.3 * random.standard_normal(840), -8, 8)
    for seed in range(2):
        model = PrivateBayesianRegressor(
            epsilon=3.0, delta=1e-5, target_range=(-8, 8), feature_range=(-3, 3), insecure_seed=seed
        ).fit(rows[:640], targets[:640])
        assert model.score(rows[640:], targets[640:]) > 0.85
