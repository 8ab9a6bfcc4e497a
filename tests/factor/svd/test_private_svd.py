"""Private components: equal to the plain ones without noise, near them with little, and no known number of rows."""

import numpy as np
import pytest
from scipy import sparse
from scipy.linalg import subspace_angles
from sklearn.utils.estimator_checks import check_estimator

import tacit
from tacit import PCA, SVD, PrincipalComponentRegression, PrivatePCA, PrivatePCR, PrivateSVD
from tacit.errors import InvalidInputError, PrivacyWarning
from tacit.estimators.input import clip_rows
from tacit.factor.svd.private import explained_variance
from tacit.parties import run_local

INF = float("inf")
rng = np.random.default_rng(4)
DIRECTIONS = np.linalg.qr(rng.standard_normal((20, 3)))[0].T
X = 0.3 * rng.standard_normal((4000, 3)) * [1.0, 0.7, 0.5] @ DIRECTIONS + 0.01 * rng.standard_normal((4000, 20)) + 0.1
Y = X @ DIRECTIONS[0] + 0.05 * rng.standard_normal(4000)
KINDS = [(PrivateSVD, SVD), (PrivatePCA, PCA)]


def angle(found, true):
    return subspace_angles(found.T, true.T).max()


@pytest.mark.parametrize(("private", "plain"), KINDS)
def test_infinite_epsilon_is_the_plain_fit_of_the_clipped_rows(private, plain):
    model, reference = private(3, epsilon=INF, row_norm=0.5).fit(X), plain(3).fit(clip_rows(X, 0.5))
    assert angle(model.components_, reference.components_) < 1e-6
    assert 0.1 < model.clipped_fraction_ < 0.9
    assert not model.guarantee_.holds


def test_a_regression_with_infinite_epsilon_is_the_plain_one():
    model = PrivatePCR(3, epsilon=INF, row_norm=10.0, target_range=(-3, 3)).fit(X, Y)
    reference = PrincipalComponentRegression(3).fit(X, Y)
    assert np.allclose(model.predict(X), reference.predict(X), atol=1e-6)


@pytest.mark.parametrize(("private", "plain"), KINDS)
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_more_budget_brings_the_components_nearer(private, plain, form):
    reference = plain(3).fit(X).components_
    apart = [
        np.mean([angle(private(3, epsilon=e, insecure_seed=s).fit(form(X)).components_, reference) for s in range(3)])
        for e in (0.3, 3.0, 30.0)
    ]
    assert apart[0] > apart[1] > apart[2]
    assert apart[2] < 0.05


@pytest.mark.parametrize(("private", "plain"), KINDS)
def test_components_are_orthonormal_also_where_they_drown(private, plain):
    with pytest.warns(PrivacyWarning, match="did not rise above the noise"):
        model = private(6, epsilon=0.05).fit(X[:100])
    assert np.allclose(model.components_ @ model.components_.T, np.eye(6), atol=1e-9)


@pytest.mark.slow
def test_the_second_moment_is_rebuilt_from_mean_and_covariance():
    """A strong mean is the first singular vector, and its singular value is the length of the rows."""
    rows = X + 0.4
    model = PrivateSVD(4, epsilon=50.0, row_norm=4.0).fit(rows)
    values = np.linalg.svd(rows)[1][:4]
    assert model.singular_values_[0] == pytest.approx(values[0], rel=0.05)
    assert angle(model.components_[:1], SVD(1).fit(rows).components_) < 0.02


def test_public_ranges_replace_standardisation():
    """Columns in other units: with their public ranges the components are those of the scaled columns."""
    units = 10.0 ** rng.integers(-3, 4, 20)
    shift = rng.uniform(-5, 5, 20) * units
    ranges = shift - units, shift + units
    model = PrivatePCA(3, epsilon=50.0, feature_range=ranges).fit(X * units + shift)
    same = PrivatePCA(3, epsilon=INF, feature_range=(-1, 1)).fit(X)
    assert angle(model.components_, same.components_) < 0.05
    assert np.allclose((model.mean_ - shift) / units, X.mean(axis=0), atol=0.02)
    back = model.inverse_transform(model.transform(X * units + shift))
    assert np.abs((back - shift) / units - X).mean() < 0.05
    with pytest.raises(InvalidInputError, match="dense rows"):
        PrivatePCA(3, feature_range=(-1, 1)).fit(sparse.csr_array(X))


def test_a_regression_predicts_better_than_the_mean_and_within_the_range():
    settings = {"row_norm": 1.0, "target_range": (-1, 1)}
    model = PrivatePCR(3, epsilon=5.0, insecure_seed=1, **settings).fit(X, Y)
    assert model.score(X, Y) > 0.5
    assert PrivatePCR(3, epsilon=0.05, insecure_seed=1, **settings).fit(X, Y).score(X, Y) > -0.1
    assert np.abs(model.predict(100 * X)).max() <= 1


def test_the_guarantee_is_the_target_and_the_file_holds_what_was_released(tmp_path):
    for model in (PrivateSVD(2), PrivatePCA(2), PrivatePCR(2, target_range=(-1, 1))):
        model.fit(X, Y)
        assert 0.99 < model.guarantee_.epsilon <= 1.0
        model.save(tmp_path / "model")
        again = tacit.load(tmp_path / "model")
        assert np.array_equal(again.transform(X), model.transform(X))
        assert not hasattr(again, "clipped_fraction_")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"n_components": 0}, "n_components"),
        ({"n_components": 21}, "n_components <= 20"),
        ({"row_norm": 0}, "row_norm"),
        ({"feature_range": (1, 0)}, "feature_range"),
        ({"non_negative": True}, "non-negative"),
        ({"max_columns": 0}, "max_columns"),
        ({"epsilon": -1}, "epsilon"),
    ],
)
@pytest.mark.parametrize("estimator", [PrivateSVD, PrivatePCA, PrivatePCR])
def test_bad_parameters(estimator, settings, said):
    with pytest.raises(InvalidInputError, match=said):
        estimator(**settings).fit(X, Y)


def test_bad_targets():
    with pytest.raises(InvalidInputError, match="target_range"):
        PrivatePCR(2, target_range=(1, 1)).fit(X, Y)
    with pytest.raises(InvalidInputError, match="target"):
        PrivatePCR(2).fit(X, Y[:-1])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tacit.errors.PrivacyWarning")
@pytest.mark.parametrize("estimator", [PrivateSVD, PrivatePCA, PrivatePCR])
def test_passes_scikit_learns_checks(estimator):
    check_estimator(estimator(2, insecure_seed=0))


@pytest.mark.slow
def test_holders_add_their_noise_to_one_sum():
    """Three processes learn the same components, near those of the pooled rows, with a guarantee against one who colludes."""
    parts = [X[:1500], X[1500:1600], X[1600:]]
    models = run_local(PrivatePCA(3, epsilon=30.0, delta=1e-6), parts, colluding=1)
    assert all(np.array_equal(model.components_, models[0].components_) for model in models)
    assert 29.0 < models[0].guarantee_.epsilon <= 30.0
    assert "1 of the 3 parties pooled" in models[0].guarantee_.trust
    assert angle(models[0].components_, PCA(3).fit(X).components_) < 0.15
    assert models[0].count_ == pytest.approx(4000, rel=0.05)


@pytest.mark.filterwarnings("ignore::tacit.errors.PrivacyWarning")
@pytest.mark.parametrize(("epsilon", "most"), [(0.1, 2.0), (0.3, 1.0)])
def test_a_regression_in_strong_noise_is_not_far_worse_than_the_middle_of_the_range(epsilon, most):
    """Coefficients that noise alone could explain are zero, and the constant is drawn to the middle of the range."""
    generator, n_rows = np.random.default_rng(0), 300
    X = generator.uniform(-1, 1, (n_rows + 500, 8))
    y = 0.2 + 0.05 * X[:, 0] + 0.1 * generator.standard_normal(len(X))
    errors = []
    for seed in range(12):
        model = PrivatePCR(6, epsilon=epsilon, feature_range=(-1, 1), target_range=(-1, 1), insecure_seed=seed)
        predicted = model.fit(X[:n_rows], y[:n_rows]).predict(X[n_rows:])
        errors.append(np.mean((y[n_rows:] - predicted) ** 2))
    middle = np.mean(y[n_rows:] ** 2)
    assert np.mean(errors) < most * middle


def test_what_scores_explain_is_measured_beyond_the_noise():
    generator = np.random.default_rng(3)
    scores = generator.standard_normal((2000, 5)) / 3
    design = np.hstack([np.ones((2000, 1)), scores])
    gram = design.T @ design
    chance = [
        explained_variance(gram, design.T @ np.full(2000, 0.3) + 20 * generator.standard_normal(6), 0.0, 20.0, 2000)
        for _ in range(40)
    ]
    assert np.median(chance) < 1e-3
    told = explained_variance(gram, design.T @ (0.3 + 0.3 * scores[:, 0]), 0.0, 0.0, 2000)
    assert np.isclose(told, 0.01, rtol=0.1)  # (0.3 / 3) squared
