"""Concerns: each is raised where it applies and nowhere else, at the top of the report, with advice and its basis."""

import dataclasses
import json
import math
import warnings

import narwhals as nw
import numpy as np
import polars as pl
import pytest
from scipy.sparse import csr_array

from tacit import (
    PrivateImplicitRecommender,
    PrivateNMF,
    PrivatePCA,
    PrivatePCR,
    PrivateRecommender,
    PrivateSVD,
)
from tacit.data import make_images, make_ratings
from tacit.errors import ConcernWarning
from tacit.estimators.verdict import (
    HOLDER,
    PUBLIC,
    RELEASED,
    about_columns,
    about_components,
    about_guarantee,
    about_losses,
    not_better_than,
    only_popularity,
    out_of_scale,
)
from tacit.measure import held_out_error
from tacit.measure.synthetic import measure_synthetic
from tacit.privacy import Guarantee, gaussian_noise_multiplier
from tacit.privacy.releases import GaussianRelease
from tacit.report import ResultFolder, compare_nmf, compare_recommenders, fit_components
from tacit.report.tables import _about_pairs

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def guarantee(epsilon, delta=1e-6):
    release = GaussianRelease(noise_multiplier=gaussian_noise_multiplier(epsilon, delta))
    return Guarantee.from_releases([release], delta=delta)


def whats(concerns):
    return " ".join(concern.what for concern in concerns)


def test_a_usual_guarantee_raises_nothing():
    assert about_guarantee(guarantee(1.0), 1000) == []
    assert about_guarantee(guarantee(9.9), None) == []
    assert about_guarantee(Guarantee.none("a test"), 10) == []


def test_a_large_epsilon_is_named_with_its_factor():
    (found,) = about_guarantee(guarantee(12.0), 1000)
    assert "factor of 1.63e+05" in found.what  # e^12
    assert found.basis == PUBLIC


@pytest.mark.parametrize(("units", "raised"), [(999, False), (1000, True), (10**6, True)])
def test_delta_is_compared_with_the_number_of_units(units, raised):
    found = about_guarantee(guarantee(1.0, delta=1e-3), units)
    assert [concern.basis for concern in found] == [HOLDER] * raised


def test_a_comparison_that_diverged_is_named():
    assert out_of_scale("a fit", 2.9, 1.0) == []
    for error in (3.1, 5e12, math.inf, math.nan):
        (found,) = out_of_scale("a fit", error, 1.0)
        assert "means nothing" in found.what
        assert found.basis == HOLDER
    assert "5e+12 times" in out_of_scale("a fit", 5e12, 1.0)[0].what
    assert out_of_scale("a fit", 1.0, 0.0)


def test_trivial_predictors():
    assert not_better_than("a constant", 0.9, 1.0, measure="RMSE") == []
    assert not_better_than("the prior", 0.9, 0.8, measure="accuracy", higher=True) == []
    for score in (1.0, 5e12, math.inf, math.nan):
        (found,) = not_better_than("a constant", score, 1.0, measure="RMSE")
        assert "not better than a constant" in found.what
    assert not_better_than("the prior", 0.2, 0.8, measure="accuracy", higher=True)


@pytest.mark.parametrize("make", [np.asarray, csr_array])
def test_a_column_that_outweighs_all_others_is_named(make):
    rows = np.random.default_rng(0).random((50, 3))
    assert about_columns(make(rows), ("a", "b", "c")) == []
    rows[:, 1] = np.arange(50) + 1000.0
    (found,) = about_columns(make(rows), ("a", "customer", "c"))
    assert "'customer'" in found.what
    assert found.basis == HOLDER
    assert "column 2" in about_columns(make(rows), None)[0].what
    assert about_columns(make(np.zeros((4, 2))), None) == []


def test_blank_components_and_few_columns():
    full = np.eye(3).repeat(3, axis=1)
    assert about_components(full) == []
    full[1] = 0
    assert "1 of 3 components are zero" in whats(about_components(full))
    few = np.zeros((20, 100))
    few[:, :30] = 1
    (found,) = about_components(few)
    assert "20 components share 30 columns" in found.what
    assert found.basis == RELEASED


def test_losses_that_rise():
    assert about_losses([4.0, 3.0, 2.0, 1.0]) == []
    assert about_losses([]) == about_losses([1.0]) == []
    assert "did not fall" in whats(about_losses([1.0, 1.5, 2.0, 2.5, 9.0]))


def test_the_fit_of_a_table_with_an_identifier_says_so_first(tmp_path):
    rows = np.random.default_rng(0).random((80, 4))
    rows[:, 0] = np.arange(80) + 500.0
    found = compare_nmf(rows, 1, terms=["id", "a", "b", "c"])
    assert "'id'" in whats(found.concerns)
    found.write(tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert page.index("Before you use this") < page.index("<h2>No guarantee")
    assert "for the holder only" in page
    assert json.loads((tmp_path / "result.json").read_text())["concerns"][0]["advice"]


def test_a_private_fit_that_loses_to_a_constant_says_so():
    found = compare_nmf(make_images(60, side=8, n_parts=3).images, 5, epsilon=0.01, held_out=0.5, random_state=1)
    # whether this fit loses depends on its noise, which has no seed
    constant = found.measures["held-out error of a constant row"]
    found = dataclasses.replace(found, measures={**found.measures, "held-out error": constant})
    assert "not better than a constant row" in whats(found.concerns)


def warned(fit):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit()
    return " ".join(str(one.message) for one in caught if issubclass(one.category, ConcernWarning))


def test_python_warns_of_a_column_that_outweighs_all_others():
    rows = pl.DataFrame(np.random.default_rng(0).random((80, 4)), schema=["id", "a", "b", "c"])
    counted = rows.with_columns(id=np.arange(80) + 500.0)
    for fit in (PrivateNMF(1, row_norm=600.0).fit, PrivateSVD(1, row_norm=600.0).fit):
        assert "'id'" in warned(lambda fit=fit: fit(counted))
        assert "for the holder only" in warned(lambda fit=fit: fit(counted))
        assert "'id'" not in warned(lambda fit=fit: fit(rows))


def test_one_range_for_all_columns_does_not_hide_an_identifier():
    rng = np.random.default_rng(0)
    rows = pl.DataFrame({"id": 5_000_000 + 10 * np.arange(300), "age": rng.integers(18, 90, 300), "h": rng.random(300)})
    model = PrivatePCA(1, epsilon=1.0, delta=1e-6, feature_range=(0, 6_000_000))
    assert "'id'" in warned(lambda: model.fit(rows))
    found = fit_components(rows.to_numpy(), 1, kind="pca", epsilon=1.0, feature_range=(0, 6e6), terms=rows.columns)
    assert "'id'" in whats(found.concerns)
    own = (np.array([5_000_000, 18, 0]), np.array([5_003_000, 90, 1]))
    assert "'id'" not in warned(lambda: PrivatePCA(1, epsilon=1.0, delta=1e-6, feature_range=own).fit(rows))


def test_a_large_mean_does_not_make_a_column_dominant_in_components():
    rows = np.random.default_rng(0).random((200, 3)) + np.array([2000.0, 0, 0])
    assert "'year'" not in whats(fit_components(rows, 1, kind="pca", terms=["year", "a", "b"]).concerns)
    assert "'year'" in whats(fit_components(rows, 1, kind="svd", terms=["year", "a", "b"]).concerns)


def test_python_warns_of_models_that_are_no_better_than_a_trivial_one():
    """Whether a fit with much noise loses is chance, so many fits are compared with what they should say."""
    random = np.random.default_rng(1)
    rows = np.zeros((60, 30))
    rows[:, 3] = 1.0
    constant, said = held_out_error(rows, np.ones((1, 30))), []
    for _ in range(12):
        model = PrivateNMF(1, epsilon=1e-3, method="rounds", rounds=1, row_norm=2.0)
        said.append("a constant row, which costs no privacy" in warned(lambda model=model: model.fit(rows)))
        assert said[-1] == (held_out_error(rows, model.components_) >= constant)
        model = PrivateSVD(1, epsilon=1e-3)
        said.append("directions drawn at random" in warned(lambda model=model: model.fit(rows)))
        assert said[-1] == (model.components_[0, 3] ** 2 <= 1 / 30)
    assert any(said)
    many = np.tile(rows + 0.01 * random.random((60, 30)), (200, 1))
    for model in (PrivateNMF(1, epsilon=9.0, row_norm=2.0), PrivateSVD(1, epsilon=9.0, row_norm=2.0)):
        assert "no privacy" not in warned(lambda model=model: model.fit(many))
    x, target = many[:, :2], random.uniform(0, 1, len(many))  # nothing to learn
    found, fitted = "", None
    for _ in range(4):
        fitted = PrivatePCR(1, epsilon=0.05)
        found += warned(lambda fitted=fitted: fitted.fit(x[:300], target[:300]))
    assert "the mean target" in found


def test_python_warns_of_few_columns_and_of_models_without_factors():
    rows = np.random.default_rng(0).random((4000, 4))
    assert "4 components share 4 columns" in warned(lambda: PrivateNMF(4, epsilon=9.0, row_norm=2.0).fit(rows))
    made = make_ratings(60, 10, ratings_per_user=5, random_state=1)
    lists = PrivateImplicitRecommender(epsilon=0.1, catalogue=range(10))
    assert ("Only the popularity" in warned(lambda: lists.fit(made.users, made.items))) == (not lists.n_learned_)
    assert only_popularity(0) != only_popularity(3) == []
    biases = PrivateRecommender(2, epsilon=0.1, catalogue=range(10))
    assert "biases only" in warned(lambda: biases.fit(made.users, made.items, made.ratings))
    several = PrivateRecommender(2, epsilon=0.1, catalogue=range(10), features=np.eye(10))
    assert "biases only" not in warned(lambda: several.fit(made.users, made.items, made.ratings))


def test_a_report_shows_a_concern_once(tmp_path):
    rows = np.random.default_rng(0).random((80, 4))
    rows[:, 0] = np.arange(80) + 500.0
    with ResultFolder(tmp_path / "out") as folder:
        fit_components(rows, 1, kind="svd", epsilon=1.0, row_norm=600.0).write(folder.path)
    page = (tmp_path / "out" / "report.html").read_text()
    assert page.count("Nearly all of the squared entries") == 1


@pytest.mark.slow
def test_a_good_fit_raises_nothing():
    found = compare_nmf(make_images(3000, side=6, n_parts=3).images, 3, epsilon=8.0, row_norm=1.5)
    assert found.concerns == []
    assert "Before you use this" not in found.report.html()


def ratings(values):
    made = make_ratings(60, 10, ratings_per_user=5, random_state=1)
    return pl.DataFrame({"user": made.users, "item": made.items, "rating": values(made)})


def test_a_log_of_clicks_is_recognised():
    found = compare_recommenders(ratings(lambda made: np.ones(len(made.users))), 2)
    assert "All ratings are equal" in whats(found.concerns)
    assert "--implicit" in found.concerns[0].advice
    usual = compare_recommenders(ratings(lambda made: made.ratings), 2)
    assert "equal" not in whats(usual.concerns)


def test_a_recommender_of_biases_only_says_so():
    frame = ratings(lambda made: made.ratings)
    found = compare_recommenders(frame, 2, epsilon=0.1, catalogue=range(10), delta=1e-3)
    assert "biases only" in whats(found.concerns)
    assert RELEASED in {concern.basis for concern in found.concerns}


def test_synthetic_rows_that_keep_no_relation_are_a_concern():
    random = np.random.default_rng(0)
    age = random.integers(0, 10, 2000)
    real = nw.from_native(pl.DataFrame({"age": age, "group": age // 5}))
    loose = pl.DataFrame({"age": random.integers(0, 10, 2000), "group": random.integers(0, 2, 2000)})
    (concern,) = _about_pairs(real, measure_synthetic(real, loose))
    assert "relations between columns" in concern.advice
    assert concern.basis == HOLDER
    assert not _about_pairs(real, measure_synthetic(real, real.to_native().sample(fraction=1, seed=1)))
    unrelated = nw.from_native(loose)
    assert not _about_pairs(
        unrelated, measure_synthetic(unrelated, loose.sample(fraction=1, with_replacement=True, seed=1))
    )


@pytest.mark.parametrize("method", ["fit", "fit_transform"])
def test_a_warning_points_at_the_line_that_called_tacit(method):
    """However many functions of tacit are in between."""
    X = np.random.default_rng(0).random((60, 8))
    with pytest.warns(ConcernWarning) as warned:
        getattr(PrivateNMF(2, epsilon=50.0), method)(X)
    assert {one.filename for one in warned if issubclass(one.category, ConcernWarning)} == {__file__}
