import subprocess
import sys

import numpy as np
import pytest
from scipy.stats import chi2, norm

import tacit.data
from tacit.data import make_coupled
from tacit.errors import InvalidInputError

SIZES = {"user": 40, "place": 30, "activity": 6, "feature": 12}


def test_same_seed_same_data_other_seed_other_data():
    one, again, other = make_coupled(), make_coupled(), make_coupled(random_state=1)
    for name in ("tensor", "features"):
        np.testing.assert_array_equal(getattr(one, name), getattr(again, name))
        assert not np.array_equal(getattr(one, name), getattr(other, name))
    for name in SIZES:
        np.testing.assert_array_equal(one.factors[name], again.factors[name])
        assert not np.array_equal(one.factors[name], other.factors[name])


def test_shapes_types_and_ranges():
    data = make_coupled()
    assert data.tensor.shape == (40, 30, 6)
    assert data.features.shape == (30, 12)
    assert data.tensor.dtype == data.features.dtype == np.int64
    assert data.tensor.min() >= 0
    assert data.features.min() >= 0
    assert {name: factor.shape for name, factor in data.factors.items()} == {
        name: (size, 3) for name, size in SIZES.items()
    }
    assert all(factor.min() >= 0 for factor in data.factors.values())


def test_means_are_products_of_the_named_factors():
    data = make_coupled(5, 4, 3, rank=2, n_features=6)
    user, place, activity, feature = (data.factors[name] for name in SIZES)
    for i, j, k in np.ndindex(5, 4, 3):
        assert data.expected_tensor()[i, j, k] == pytest.approx(sum(user[i] * place[j] * activity[k]))
    np.testing.assert_allclose(data.expected_features(), place @ feature.T)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("relation", ["tensor", "features"])
def test_counts_are_poisson_with_these_means(relation, seed):
    data = make_coupled(random_state=seed)
    counts = getattr(data, relation)
    means = data.expected_tensor() if relation == "tensor" else data.expected_features()
    # Mean and variance agree in cells with enough counts: var((x - m)^2 / m) = 2 + 1/m.
    enough = means > 0.05
    x, m = counts[enough], means[enough]
    dispersion = ((x - m) ** 2 / m - 1).sum() / np.sqrt((2 + 1 / m).sum())
    # Six comparisons at most in each of ten cases, 0.0001 each.
    level = 0.0001
    assert abs(dispersion) < norm.isf(level / 2)
    for axis in range(counts.ndim):
        others = tuple(other for other in range(counts.ndim) if other != axis)
        x, m = counts.sum(axis=others), means.sum(axis=others)
        enough = m > 5
        statistic = ((x - m)[enough] ** 2 / m[enough]).sum()
        assert level / 2 < chi2.sf(statistic, enough.sum()) < 1 - level / 2


def test_totals_agree_over_many_draws():
    draws = [make_coupled(random_state=seed) for seed in range(60)]
    for counted, mean in (
        (sum(data.tensor.sum() for data in draws), sum(data.expected_tensor().sum() for data in draws)),
        (sum(data.features.sum() for data in draws), sum(data.expected_features().sum() for data in draws)),
    ):
        assert abs(counted - mean) < 4 * np.sqrt(mean) < 0.02 * mean


def test_factors_are_gamma_with_the_stated_means():
    for concentration in (0.3, 2.0):
        settings = {"concentration": concentration, "mean_count": 0.2, "mean_feature": 8.0}
        data = make_coupled(30, 30, 30, n_features=30, rank=40, **settings)
        means = {"user": 1, "place": 1, "activity": 0.2 / 40, "feature": 8 / 40}
        for name, mean in means.items():
            scaled = data.factors[name] / mean
            assert abs(scaled.mean() - 1) < 4 / np.sqrt(1200 * concentration)
            assert scaled.var() == pytest.approx(1 / concentration, rel=0.35)


def test_average_count_is_the_one_asked_for():
    averages = [make_coupled(mean_count=0.7, random_state=seed).tensor.mean() for seed in range(60)]
    spread = np.std(averages) / np.sqrt(len(averages))
    assert abs(np.mean(averages) - 0.7) < 4 * spread < 0.25


def test_places_are_shared_by_both_relations():
    data = make_coupled(200, 30, 20, mean_count=5.0, mean_feature=30.0, n_features=60)
    by_place = data.tensor.transpose(1, 0, 2).reshape(30, -1).astype(float)
    explained = []
    for truth in (data.factors["place"], np.roll(data.factors["place"], 1, axis=0)):
        for relation in (by_place, data.features.astype(float)):
            fitted = truth @ np.linalg.lstsq(truth, relation, rcond=None)[0]
            explained.append(1 - ((relation - fitted) ** 2).sum() / (relation**2).sum())
    assert min(explained[:2]) > 0.9
    assert max(explained[2:]) < 0.7


def test_coordinates_give_the_tensor_back():
    data = make_coupled()
    where, values = data.coordinates()
    assert where.shape == (np.count_nonzero(data.tensor), 3)
    assert values.min() >= 1
    assert values.sum() == data.tensor.sum()
    rebuilt = np.zeros_like(data.tensor)
    np.add.at(rebuilt, tuple(where.T), values)
    np.testing.assert_array_equal(rebuilt, data.tensor)


@pytest.mark.parametrize(
    "settings",
    [
        {"n_users": 0},
        {"n_places": -3},
        {"n_activities": 1.5},
        {"rank": 0},
        {"n_features": 0},
        {"mean_count": 0},
        {"mean_feature": -1.0},
        {"concentration": float("inf")},
        {"random_state": -1},
    ],
)
def test_impossible_settings_are_refused(settings):
    with pytest.raises(InvalidInputError, match=next(iter(settings))):
        make_coupled(**settings)


def test_everything_exported_is_there_and_the_import_is_cheap():
    assert all(hasattr(tacit.data, name) for name in tacit.data.__all__)
    script = (
        "import sys, tacit; before = set(sys.modules); import tacit.data; "
        "print([name for name in set(sys.modules) - before if name.startswith(('scipy', 'sklearn', 'pandas'))])"
    )
    printed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"
