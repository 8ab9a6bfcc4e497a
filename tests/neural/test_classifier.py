"""The classifier: its guarantee equals the target, its predictions are averages, its file has only released values."""

import json
import math

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from torch import nn

import tacit
from tacit import Ledger
from tacit.errors import InvalidInputError, PrivacyWarning
from tacit.neural import DivergedError, PrivateBayesianClassifier, dropout_rates, expected_calibration_error
from tacit.neural.fallback import LEAST_SCALE, MOST_SCORE_NOISE
from tacit.neural.program import GAIN_FRACTION, MOST_RATE, STEP_NOISE, STEPS, count_fraction_for, rate_for
from tacit.privacy import gaussian_epsilon, gaussian_noise_multiplier

X, Y = load_digits(return_X_y=True)
TRAIN, TEST = slice(0, 1400), slice(1400, None)
INF = math.inf
DIGITS = tuple(range(10))
QUICK = {"feature_range": (0, 16), "sampling_rate": 0.2, "epochs": 2.0, "delta": 1e-4, "classes": DIGITS}


def classifier(*hidden, **settings):
    return PrivateBayesianClassifier(hidden, **{**QUICK, **settings})


@pytest.fixture(scope="module")
def plain():
    return classifier(64, epsilon=INF, epochs=20.0, n_samples=6).fit(X[TRAIN], Y[TRAIN])


@pytest.fixture(scope="module")
def private():
    return classifier(8, epsilon=2.0, n_samples=3).fit(X[TRAIN], Y[TRAIN])


@pytest.mark.slow
def test_without_noise_digits_are_learned(plain):
    assert plain.score(X[TEST], Y[TEST]) > 0.9
    assert not plain.guarantee_.holds
    assert "in the clear" in str(plain.guarantee_)
    assert plain.step_noise_ == 0
    assert plain.loss_curve_[-1] < 0.3 * plain.loss_curve_[0]


@pytest.mark.slow
def test_the_average_is_at_least_as_well_calibrated_as_one_sample():
    model = classifier(64, epsilon=INF, epochs=30.0, n_samples=8, method="sgld", step_size=0.5).fit(X[TRAIN], Y[TRAIN])
    single = clone(model).fit(X[TRAIN], Y[TRAIN])
    single.weights_ = model.weights_[-1:]
    errors = [expected_calibration_error(found.predict_proba(X[TEST]), Y[TEST]) for found in (model, single)]
    assert errors[0] <= errors[1]


@pytest.mark.slow
def test_more_noise_learns_less():
    scores = [
        classifier(epsilon=epsilon, insecure_seed=3).fit(X[TRAIN], Y[TRAIN]).score(X[TEST], Y[TEST])
        for epsilon in (0.05, 8.0)
    ]
    assert scores[1] > scores[0] + 0.2


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"method": "sgld"},
        {"method": "dp-sgd"},
        {"per_layer": True},
        {"adjacency": "replace-one"},
        {"features": "scattering"},
    ],
    ids=str,
)
def test_the_guarantee_is_the_target(settings):
    model = classifier(6, epsilon=2.0, epochs=1.0, **settings).fit(X[TRAIN], Y[TRAIN])
    assert 1.98 < model.guarantee_.epsilon <= 2.0
    assert model.guarantee_.delta == 1e-4
    assert model.guarantee_.unit == "row"
    assert model.guarantee_.adjacency == settings.get("adjacency", "add-remove")
    assert sum(release.count for release in model.guarantee_.releases) == 1 + 5 + 1
    assert "the classes are public" in str(model.guarantee_)


@pytest.mark.slow
def test_probabilities_are_the_average_of_the_samples(private):
    singles = []
    for sample in private.weights_:
        one = clone(private)
        vars(one).update(vars(private))
        one.weights_ = sample[None]
        singles.append(one.predict_proba(X[TEST]))
    average = private.predict_proba(X[TEST])
    assert np.allclose(average, np.mean(singles, axis=0), rtol=1e-12)
    assert np.allclose(private.predict_spread(X[TEST]), np.std(singles, axis=0), rtol=1e-9, atol=1e-15)
    assert np.allclose(average.sum(axis=1), 1)
    assert np.array_equal(private.predict(X[TEST]), private.classes_[average.argmax(axis=1)])


def test_a_perceptron_by_hand_gives_the_same_scores(private):
    sample = private.weights_[-1].astype(np.float64)
    W1, b1, W2, b2 = np.split(sample, np.cumsum([64 * 8, 8, 8 * 10]))
    inputs = (X[TEST] / 8 - 1).astype(np.float32).astype(np.float64)
    scores = np.tanh(inputs @ W1.reshape(8, 64).T + b1) @ W2.reshape(10, 8).T + b2
    scores = private.scale_ * scores + (1 - private.scale_) * private.baseline_
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    one = clone(private)
    vars(one).update(vars(private))
    one.weights_ = private.weights_[-1:]
    assert np.allclose(one.predict_proba(X[TEST]), shares / shares.sum(axis=1, keepdims=True), rtol=1e-9)


def test_dropout_rates_are_those_of_the_last_steps_noise(private):
    noise = private.step_noise_
    (release,) = [found for found in private.guarantee_.releases if found.sampling_rate < 1]
    first = 2.0 * release.noise_multiplier / (0.2 * private.count_)
    in_score = first * np.sqrt(10 * 64) / (1 - private.momentum)
    expected = first * min(1, MOST_SCORE_NOISE / in_score) / (1 + 10 * 9 / 10) ** 0.25
    assert noise == pytest.approx(expected, rel=0.006)  # it also covers rounding
    assert private.dropout_rate_["mean"] == pytest.approx(dropout_rates(private.weights_[-1], noise).mean())


def test_steps_are_made_smaller_where_their_noise_would_be_large():
    training = classifier(epsilon=1.0, step_size=4.0)._training()
    assert training.step_scale(0.0, 1000, 64, MOST_SCORE_NOISE) == 1
    assert training.step_scale(0.05, 1000, 64, MOST_SCORE_NOISE) == 1
    for width in (64, 10_000):
        moved = 4.0 * 5.0 / (0.2 * 1000) / (1 - training.momentum) * np.sqrt(training.steps * width)
        assert training.step_scale(5.0, 1000, width, MOST_SCORE_NOISE) * moved == pytest.approx(MOST_SCORE_NOISE)


def test_the_rate_follows_from_the_budget_alone():
    rates = [rate_for(epsilon, 1e-5) for epsilon in (0.1, 1.0, 3.0, 10.0, INF)]
    assert rates == [0.1, 0.11, 0.29, MOST_RATE, 0.1]
    noise = gaussian_noise_multiplier(3.0, 1e-5, steps=STEPS, sampling_rate=0.29)
    assert noise == pytest.approx(STEP_NOISE, rel=0.1)
    assert PrivateBayesianClassifier(epsilon=3.0, delta=1e-5)._rate_and_steps() == (0.29, STEPS)
    assert PrivateBayesianClassifier(epsilon=3.0, epochs=2)._rate_and_steps() == (0.1, 20)
    assert PrivateBayesianClassifier(epsilon=3.0, sampling_rate=0.5)._rate_and_steps() == (0.5, 20)


def test_a_network_that_learned_nothing_falls_back_on_the_class_frequencies_and_says_so():
    random = np.random.default_rng(3)
    rows, labels = random.random((400, 30)), (random.random(400) < 0.2).astype(int)  # nothing to learn
    model = PrivateBayesianClassifier((), epsilon=0.5, classes=(0, 1), epochs=2.0, insecure_seed=4)
    with pytest.warns(PrivacyWarning, match="predictions are almost the class frequencies, whatever the inputs"):
        model.fit(rows, labels)
    assert model.scale_ <= LEAST_SCALE
    frequencies = np.exp(model.baseline_)
    assert frequencies.sum() == pytest.approx(1)
    assert np.abs(model.predict_proba(rows) - frequencies).max() < 0.05
    assert set(model.predict(rows)) == {0}
    unscaled = clone(model)
    vars(unscaled).update(vars(model))
    unscaled.scale_ = 1.0
    truth = labels[:, None] == [0, 1]
    losses = [-np.log(one.predict_proba(rows)[truth]).mean() for one in (model, unscaled)]
    assert losses[0] < losses[1]


def test_a_network_that_learned_something_is_trusted(private):
    assert private.scale_ > LEAST_SCALE
    assert private.score(X[TEST], Y[TEST]) > 0.5


def test_the_scale_follows_from_released_values(private, tmp_path):
    private.save(tmp_path / "model.tacit")
    loaded = tacit.load(tmp_path / "model.tacit")
    assert loaded.scale_ == private.scale_
    assert np.array_equal(loaded.baseline_, private.baseline_)
    assert np.array_equal(loaded.predict_proba(X[TEST]), private.predict_proba(X[TEST]))


@pytest.mark.slow
def test_convolutions_of_pixels(tmp_path):
    random = np.random.default_rng(0)
    images = random.random((150, 14, 12))
    labels = (images[:, :7].mean(axis=(1, 2)) > images[:, 7:].mean(axis=(1, 2))).astype(int)
    images[labels == 1, :7] /= 2
    settings = {"features": "convolution", "epsilon": INF, "classes": (0, 1), "n_samples": 1, "momentum": 0.5}
    model = PrivateBayesianClassifier(sampling_rate=0.3, epochs=3.0, **settings).fit(images, labels)
    assert (model.features_, model.hidden_, model.image_shape_) == ("convolution", [], [14, 12])
    assert (model.predict(images) == labels).mean() > 0.9
    model.save(tmp_path / "network.tacit")
    loaded = tacit.load(tmp_path / "network.tacit")
    assert np.array_equal(loaded.predict_proba(images), model.predict_proba(images))
    for small, more in ((images[:, :11], {}), (images, {"module": torch.nn.Linear(168, 2)})):
        with pytest.raises(InvalidInputError, match="at least 12 x 12 pixels and no module"):
            PrivateBayesianClassifier(**settings, **more).fit(small, labels)


def test_images_get_the_front_end_and_tables_do_not():
    images, labels = X[TRAIN].reshape(-1, 8, 8), Y[TRAIN]
    settings = {"epsilon": INF, "feature_range": (0, 16), "classes": range(10), "epochs": 1.0}
    model = PrivateBayesianClassifier(**settings).fit(images, labels)
    assert (model.features_, model.hidden_) == ("scattering", [])
    assert model.predict_proba(images[:2]).shape == (2, 10)
    shaped = PrivateBayesianClassifier(image_shape=(8, 8), **settings).fit(X[TRAIN], labels)
    assert (shaped.features_, shaped.hidden_) == ("scattering", [])
    table = PrivateBayesianClassifier(**settings).fit(X[TRAIN], labels)
    assert (table.features_, table.hidden_) == (None, [100])
    small = PrivateBayesianClassifier(**settings).fit(X[TRAIN][:, :49].reshape(-1, 7, 7), labels)
    assert small.features_ is None  # too small for the front end
    pixels = PrivateBayesianClassifier(features=None, **settings).fit(images, labels)
    assert (pixels.features_, pixels.hidden_) == (None, [100])
    with pytest.raises(InvalidInputError, match="features"):
        PrivateBayesianClassifier(features="wavelets", **settings).fit(images, labels)


def test_samples_are_kept_on_the_last_quarter_of_the_path():
    model = classifier(epsilon=INF, n_samples=3, epochs=4.0)
    assert model._training().kept_steps() == {15, 17, 19}
    assert model.fit(X[TRAIN], Y[TRAIN]).weights_.shape == (3, 650)
    assert classifier(epsilon=INF, n_samples=500)._training().kept_steps() == {7, 8, 9}
    assert classifier(epsilon=INF, n_samples=1)._training().kept_steps() == {9}
    assert classifier(epsilon=INF, method="dp-sgd")._training().kept_steps() == {9}


@pytest.mark.slow
def test_a_fixed_seed_repeats_and_voids_the_guarantee():
    first, second, other = (
        classifier(epsilon=2.0, epochs=1.0, insecure_seed=seed).fit(X[TRAIN], Y[TRAIN]) for seed in (1, 1, 2)
    )
    assert np.array_equal(first.weights_, second.weights_)
    assert not np.array_equal(first.weights_, other.weights_)
    assert not first.guarantee_.holds


@pytest.mark.slow
def test_the_published_noise_says_what_it_costs():
    settings = {"epsilon": 0.5, "epochs": 20.0, "accounting": "DPD-zCDP"}
    with pytest.warns(PrivacyWarning, match="really costs"):
        model = classifier(**settings).fit(X[TRAIN], Y[TRAIN])
    (release,) = [found for found in model.guarantee_.releases if found.sampling_rate < 1]
    cost = gaussian_epsilon(release.noise_multiplier, 1e-4, steps=100, sampling_rate=0.2)
    more = 1 + count_fraction_for(0.5, 1e-4) + GAIN_FRACTION  # what the counts and gains take
    assert model.guarantee_.epsilon == pytest.approx(cost * more**0.5, rel=0.02)


def test_saved_and_loaded_it_predicts_the_same(private, tmp_path):
    path = tmp_path / "network.tacit"
    private.save(path)
    loaded = tacit.load(path)
    assert np.array_equal(loaded.predict_proba(X[TEST]), private.predict_proba(X[TEST]))
    assert loaded.guarantee_.epsilon == pytest.approx(private.guarantee_.epsilon)
    with np.load(path, allow_pickle=False) as archive:
        header = json.loads(archive["model.json"].tobytes())
        assert set(archive.files) == {"model.json", "weights_", "classes_", "feature_range_", "baseline_"}
    assert not {"loss_curve_", "clipped_fraction_", "dropped_fraction_"} & set(header["values"])


def test_a_loaded_module_wants_its_module(tmp_path):
    module = nn.Sequential(nn.Linear(64, 5), nn.ReLU(), nn.Linear(5, 10))
    model = PrivateBayesianClassifier(module=module, **QUICK, epsilon=INF).fit(X[TRAIN], Y[TRAIN])
    model.save(tmp_path / "network.tacit")
    loaded = tacit.load(tmp_path / "network.tacit")
    with pytest.raises(InvalidInputError, match=r"set_params\(module"):
        loaded.predict(X[TEST])
    with pytest.raises(InvalidInputError, match=r"a module with 385 weights.*one with 650"):
        loaded.set_params(module=nn.Linear(64, 10)).predict(X[TEST])
    assert np.array_equal(loaded.set_params(module=module).predict(X[TEST]), model.predict(X[TEST]))


@pytest.mark.slow
def test_images_as_a_stack_as_a_list_and_as_rows_are_the_same():
    stack = X[TRAIN].reshape(-1, 8, 8)
    first, second, third = (
        classifier(epsilon=1.0, epochs=1.0, features="scattering", insecure_seed=1).fit(images, Y[TRAIN])
        for images in (X[TRAIN], stack, list(stack))
    )
    assert np.array_equal(first.weights_, second.weights_)
    assert np.array_equal(first.weights_, third.weights_)
    assert first.image_shape_ == [8, 8]
    assert np.array_equal(first.predict(X[TEST]), first.predict(X[TEST].reshape(-1, 8, 8)))


@pytest.mark.slow
@pytest.mark.parametrize(
    "classes",
    [
        ["even", "odd"],
        ("odd", "even"),
        np.array(["even", "odd"]),
        np.array(["even", "odd"], object),
        np.array(["even", "odd"], np.dtypes.StringDType()),
        [np.str_("odd"), np.str_("even")],
    ],
    ids=["list", "tuple", "text", "objects", "strings", "scalars"],
)
@pytest.mark.parametrize("kind", [np.str_, object, np.dtypes.StringDType()], ids=["text", "objects", "strings"])
def test_text_labels_of_any_type_are_fitted_charged_and_saved(classes, kind, tmp_path):
    names = np.array(["even", "odd"])[Y % 2].astype(kind)
    model = classifier(epsilon=2.0, epochs=0.4, classes=classes).fit(X[TRAIN], names[TRAIN])
    assert model.classes_.tolist() == ["even", "odd"]
    model.save(tmp_path / "network.tacit")
    loaded = tacit.load(tmp_path / "network.tacit")
    assert np.array_equal(loaded.classes_, model.classes_)
    assert np.array_equal(loaded.predict(X[TEST]), model.predict(X[TEST]))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (Y, DIGITS),
        (Y.astype(np.int8), DIGITS),
        (Y.astype(float), DIGITS),
        (Y.astype(object), DIGITS),
        (Y, [float(digit) for digit in DIGITS]),
        (Y, np.array(DIGITS, object)),
        (Y.astype(str), [str(digit) for digit in DIGITS]),
        (Y[:, None], DIGITS),
        (Y, (*DIGITS, 10, 11)),
    ],
)
def test_the_classes_are_those_given_whatever_the_labels_type(labels, classes):
    model = classifier(epsilon=2.0, epochs=0.4, classes=classes).fit(X[TRAIN], labels[TRAIN])
    assert model.classes_.tolist() == list(classes)
    assert model.classes_.dtype.kind in "ifU"


@pytest.mark.parametrize("settings", [{}, {"insecure_seed": 1}, {"accounting": "DPD-AC"}], ids=str)
def test_a_private_fit_does_not_read_the_classes_off_the_labels(settings):
    model = classifier(epsilon=2.0, classes=None, **settings)
    with pytest.raises(InvalidInputError, match=r"`classes`.*for a private fit.*Give classes="):
        model.fit(X[TRAIN], Y[TRAIN])
    assert not hasattr(model, "classes_")
    assert classifier(epsilon=INF, classes=None).fit(X[TRAIN], Y[TRAIN]).classes_.tolist() == list(DIGITS)


@pytest.mark.parametrize(
    "odd", [77, 0.31, "a secret", None, np.nan, True + 10**6], ids=["int", "float", "text", "none", "nan", "large"]
)
@pytest.mark.parametrize("kind", [object, None], ids=["objects", "list"])
def test_a_label_that_is_no_class_is_refused_and_not_shown(odd, kind):
    labels = [*Y[:300].tolist(), odd]
    given = np.array(labels, kind) if kind else labels
    with pytest.raises(
        InvalidInputError, match="among the 10 classes given; got a label that is not one of them"
    ) as error:
        classifier(epsilon=2.0).fit(X[:301], given)
    for shown in ("77", "0.31", "secret", "nan", "1000001", "301", "300"):
        assert shown not in str(error.value).replace("Name", "")


@pytest.mark.slow
def test_it_is_a_scikit_learn_classifier_with_names_for_classes():
    names = np.array(["even", "odd"])[Y % 2]
    model = make_pipeline(FunctionTransformer(lambda rows: rows / 16), PrivateBayesianClassifier((), epsilon=INF))
    model.fit(X[TRAIN], names[TRAIN])
    assert set(model.predict(X[TEST])) == {"even", "odd"}
    assert model.score(X[TEST], names[TEST]) > 0.8
    fresh = clone(model[-1])
    assert fresh.get_params() == model[-1].get_params()
    assert not hasattr(fresh, "weights_")


def test_bounds_cut_off_and_are_counted():
    wild = X[TRAIN].copy()
    wild[0, 0], wild[1, 1] = 1e9, -5.0
    model = classifier(epsilon=INF).fit(wild, Y[TRAIN])
    assert model.clipped_fraction_ == pytest.approx(2 / wild.size)


@pytest.mark.parametrize(
    ("X_given", "y_given", "settings", "message"),
    [
        (X, Y + 0.5, {"epsilon": INF, "classes": None}, "labels that are classes.*continuous"),
        (X, np.where(Y > 3, np.nan, 1.0), {"epsilon": INF, "classes": None}, "labels"),
        (X, np.zeros(len(X), int), {"epsilon": INF, "classes": None}, "at least two classes; got one class. Give"),
        (X, Y, {"classes": (3,)}, "at least two classes; got one class. Give"),
        (X, Y, {"classes": ()}, "at least two classes; got none"),
        (X, Y[:-1], {}, "one label per row; got more or fewer"),
        (X, np.stack([Y, Y], axis=1), {}, "one label per row; got several columns"),
        (X, [[0], [1, 2]], {}, "one label per row; got lists of several lengths"),
        (X, None, {}, "label for every row"),
        (X, Y, {"classes": (0, 1, 2)}, "labels among the 3 classes given; got a label that is not one of them"),
        (X, Y.astype(str), {}, "labels among the 10 classes given; got a label that is not one of them"),
        ([np.zeros((4, 4)), np.zeros((4, 5))], [0, 1], {}, "images of one size; got images of several sizes"),
        (X, Y, {"feature_range": (1, 0)}, "low < high"),
        (X, Y, {"feature_range": 3}, "low < high"),
        (X, Y, {"features": "wavelets"}, "features to be one of"),
        (X[:, :63], Y, {"features": "scattering"}, "63 pixels"),
        (X, Y, {"image_shape": (3, 3)}, "64 pixels"),
        (X, Y, {"method": "adam"}, "method to be one of"),
        (X, Y, {"momentum": 1.0}, "momentum"),
        (X, Y, {"sampling_rate": 0.0}, "sampling_rate"),
        (X, Y, {"hidden": (0,)}, "hidden"),
        (X, Y, {"epsilon": -1.0}, "epsilon"),
        (np.where(X > 15, np.nan, X), Y, {}, "finite numbers"),
    ],
)
def test_wrong_input_is_refused(X_given, y_given, settings, message):
    model = PrivateBayesianClassifier(**{**QUICK, "hidden": (), **settings})
    with pytest.raises(InvalidInputError, match=message):
        model.fit(X_given, y_given)


def test_an_epsilon_too_small_for_the_steps_names_the_noise_and_what_to_change():
    model = classifier(epsilon=1e-4, epochs=20.0, max_units=2000)
    with pytest.raises(InvalidInputError, match=r"smallest feasible noise of \d.*fewer steps .epochs., larger batches"):
        model.fit(X[TRAIN], Y[TRAIN])


def test_noise_beyond_what_the_batch_can_say_is_warned_of():
    with pytest.warns(PrivacyWarning, match="exceeds the total of a batch"):
        classifier(epsilon=2e-3, epochs=2.0, insecure_seed=2).fit(X[:300], Y[:300])


class Breaks(nn.Module):
    """A network that returns NaN once its weights have changed."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 10)
        self.register_buffer("start", self.layer.weight.detach().clone())

    def forward(self, x):
        scores = self.layer(x)
        return scores * torch.where((self.layer.weight - self.start).abs().max() > 0, torch.nan, 1.0)


@pytest.mark.slow
def test_losses_that_are_no_numbers_do_not_stop_a_fit(tmp_path):
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.open_account("digits", epsilon=3.0, delta=1e-4)
    model = PrivateBayesianClassifier(module=Breaks(), **QUICK, epsilon=2.0, ledger=ledger, dataset="digits")
    model.fit(X[TRAIN], Y[TRAIN])
    assert ledger.remaining("digits").spent == pytest.approx(2.0, abs=0.02)
    assert np.isfinite(model.weights_).all()
    # all examples of the nine steps after the first are dropped
    assert model.dropped_fraction_ == pytest.approx(0.9, abs=0.03)
    assert np.isfinite(model.loss_curve_[0])
    assert np.isnan(model.loss_curve_[1:]).all()


@pytest.mark.slow
def test_weights_that_overflow_stop_a_fit_and_what_was_released_is_charged(tmp_path):
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.open_account("digits", epsilon=3.0, delta=1e-4)
    # the prior alone makes the weights grow by a factor of about a thousand per step, whatever the data
    model = classifier(epsilon=2.0, epochs=20.0, prior=1e-3, ledger=ledger, dataset="digits")
    with pytest.raises(DivergedError, match=r"finite weights.*after step \d+ of 100.*charged"):
        model.fit(X[TRAIN], Y[TRAIN])
    assert 0.1 < ledger.remaining("digits").spent < 2.0
    assert not hasattr(model, "weights_")


@pytest.mark.slow
def test_a_fit_is_charged_and_an_empty_account_refuses_it(tmp_path):
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.open_account("digits", epsilon=1.0, delta=1e-4)
    classifier(epsilon=0.9, epochs=1.0, ledger=ledger, dataset="digits").fit(X[TRAIN], Y[TRAIN])
    assert ledger.remaining("digits").spent == pytest.approx(0.9, abs=0.01)
    with pytest.raises(tacit.errors.BudgetError):
        classifier(epsilon=0.9, epochs=1.0, ledger=ledger, dataset="digits").fit(X[TRAIN], Y[TRAIN])


def test_progress_is_told():
    told = []
    with tacit.show_progress(told.append):
        classifier(epsilon=INF).fit(X[TRAIN], Y[TRAIN])
    assert [one.done for one in told if one.what == "sum"] == list(range(1, 12))  # the count, and ten steps
