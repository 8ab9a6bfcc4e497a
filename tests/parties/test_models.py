"""Estimators among parties as processes: the programs of one holder, unchanged, give the centralised result."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy.linalg import subspace_angles
from scipy.sparse import csr_array

from tacit import (
    NMF,
    PCA,
    SVD,
    PrincipalComponentRegression,
    PrivateImplicitRecommender,
    PrivateNMF,
    PrivateRecommender,
    PrivateTable,
)
from tacit.data import CategoryColumn, IntegerColumn
from tacit.errors import InvalidInputError
from tacit.parties import run_local

pytestmark = pytest.mark.slow
GENERATOR = np.random.default_rng(3)
X = np.maximum(
    GENERATOR.gamma(0.6, size=(60, 3)) @ GENERATOR.gamma(0.7, size=(3, 9)) + GENERATOR.normal(scale=0.05, size=(60, 9)),
    0,
)
CUTS = [1, 25]  # the first party has one row
START = np.random.default_rng(0).random((3, 9))


def split(table):
    return [table[: CUTS[0]], table[CUTS[0] : CUTS[1]], table[CUTS[1] :]]


def distance(left, right):
    return np.linalg.norm(left - right) / np.linalg.norm(right)


@pytest.mark.parametrize("schedule", ["sweep", "topic"])
def test_nmf_of_sparse_rows_in_both_schedules(schedule):
    table = csr_array(np.where(X > 0.5, X, 0.0))
    model = NMF(3, init=START, schedule=schedule, max_iter=15, tol=0)
    alone = NMF(3, init=START, schedule=schedule, max_iter=15, tol=0).fit(table)
    for fitted in run_local(model, split(table)):
        assert distance(fitted.components_, alone.components_) < 1e-8
        assert fitted.traffic_["rounds"] >= 15
        assert 0 < fitted.traffic_["fitting"] <= fitted.traffic_["seconds"] - fitted.traffic_["connecting"]
        assert "masked" in str(fitted.guarantee_)


def test_nmf_starts_among_parties():
    for fitted in run_local(NMF(3, init="merge-local", max_iter=60), split(X)):
        assert distance(fitted.transform(X) @ fitted.components_, X) < 0.2


def test_singular_vectors_with_norms_hidden():
    """By general secure computation over the same connections."""
    models = run_local(SVD(3), split(X))
    _, _, rights = np.linalg.svd(X)
    for fitted in models:
        np.testing.assert_array_equal(fitted.components_, models[0].components_)
        assert subspace_angles(fitted.components_.T, rights[:3].T).max() < 1e-6
        assert "norms stay hidden while at most 1" in str(fitted.guarantee_)


@pytest.mark.parametrize(("parts", "colluding"), [([X[:20], X[20:]], 1), (split(X), 2)])
def test_norms_stay_hidden_from_all_parties_but_one(parts, colluding):
    """Two parties, and three of whom two may collude; those that do not ask for it say what is revealed."""
    _, _, rights = np.linalg.svd(X)
    for fitted in run_local(SVD(2), parts, colluding=colluding):
        assert subspace_angles(fitted.components_.T, rights[:2].T).max() < 1e-6
        assert f"norms stay hidden while at most {colluding}" in str(fitted.guarantee_)
        assert "singular values" not in str(fitted.guarantee_)


def test_norms_that_are_not_hidden_are_named():
    assert "singular values" in str(run_local(SVD(2), [X[:20], X[20:]], hide_norms=False)[0].guarantee_)


def test_components_are_centred_by_the_mean_of_all():
    models = run_local(PCA(2, hide_singular_values=False), split(X + np.arange(9)))
    alone = PCA(2, hide_singular_values=False).fit(X + np.arange(9))
    for fitted in models:
        np.testing.assert_allclose(fitted.mean_, alone.mean_, atol=1e-9)
        assert subspace_angles(fitted.components_.T, alone.components_.T).max() < 1e-6


def test_regression_on_components():
    y = X @ np.arange(9.0) + 2.0
    models = run_local(PrincipalComponentRegression(3, hide_singular_values=False), split(X), split(y))
    alone = PrincipalComponentRegression(3, hide_singular_values=False).fit(X, y)
    for fitted in models:
        np.testing.assert_allclose(fitted.coef_, alone.coef_, rtol=1e-5)


def test_private_models_release_the_same_everywhere_and_say_whom_they_trust():
    rows = np.random.default_rng(0).dirichlet(np.ones(6), size=400)
    models = run_local(PrivateNMF(2, epsilon=8.0, delta=1e-6), [rows[:100], rows[100:150], rows[150:]], colluding=2)
    for fitted in models:
        np.testing.assert_array_equal(fitted.components_, models[0].components_)
        assert fitted.guarantee_.epsilon <= 8.0
        assert "Nobody is trusted" in fitted.guarantee_.trust
        assert "2 of the 3 parties" in fitted.guarantee_.trust


def test_a_private_recommender_among_parties():
    generator = np.random.default_rng(1)
    ratings = np.where(generator.random((240, 12)) < 0.6, generator.integers(1, 6, size=(240, 12)), 0).astype(float)
    parts = [csr_array(ratings[:80]), csr_array(ratings[80:90]), csr_array(ratings[90:])]
    models = run_local(PrivateRecommender(2, epsilon=20.0, delta=1e-5), parts)
    for fitted in models:
        np.testing.assert_array_equal(fitted.item_biases_, models[0].item_biases_)
    assert models[0].guarantee_.holds


def test_a_private_implicit_recommender_among_parties():
    generator = np.random.default_rng(2)
    likes = np.where(np.arange(12)[None, :] % 3 == np.arange(600)[:, None] % 3, 0.7, 0.1)
    chosen = csr_array((generator.random((600, 12)) < likes).astype(float))
    model = PrivateImplicitRecommender(epsilon=20.0, delta=1e-5)
    models = run_local(model, [chosen[:200], chosen[200:230], chosen[230:]])
    for fitted in models:
        np.testing.assert_array_equal(fitted.item_regression_, models[0].item_regression_)
        assert fitted.recommend_for([0, 3], 2) == models[0].recommend_for([0, 3], 2)
    assert models[0].guarantee_.holds
    assert {item for item, _ in models[0].recommend_for([0, 3], 2)} == {6, 9}


def test_a_synthetic_table_among_parties():
    """All parties have the same model, whose tables are those of all rows."""
    generator = np.random.default_rng(4)
    sex = generator.integers(0, 2, 600)
    frame = pl.DataFrame({"sex": np.array(["f", "m"])[sex], "age": 10 * sex + generator.integers(0, 9, 600)})
    schema = {"sex": CategoryColumn(("f", "m")), "age": IntegerColumn(0, 19)}
    models = run_local(PrivateTable(epsilon=50.0, schema=schema), [frame[:100], frame[100:350], frame[350:]])
    for fitted in models:
        np.testing.assert_array_equal(fitted.tables_, models[0].tables_)
        np.testing.assert_array_equal(fitted.couplings_, models[0].couplings_)
        assert abs(fitted.count_ - 600) < 30
        assert "masked" in str(fitted.guarantee_)
        drawn = fitted.sample(500, random_state=0)
        assert drawn.filter((pl.col("sex") == "f") != (pl.col("age") < 10)).height < 25


def test_what_does_not_fit_is_the_error_of_the_party_that_has_it():
    with pytest.raises(InvalidInputError, match="same number of columns"):
        run_local(NMF(2), [X, X[:, :4]])
    with pytest.raises(InvalidInputError, match="party-1"):
        run_local(NMF(2, init=START[:2]), [X, np.full((2, 9), np.nan)])
    with pytest.raises(InvalidInputError, match="at least one record from party-1"):
        run_local(NMF(2, init=START[:2]), [X, X[:0]])
