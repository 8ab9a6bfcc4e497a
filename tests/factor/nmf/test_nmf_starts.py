"""Starts and schedules of non-negative factorisation among holders: nothing of them is one holder's own."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import brentq
from sklearn.base import clone

from tacit import NMF
from tacit.channel import Clear, Outcome, run, run_together
from tacit.errors import InvalidInputError
from tacit.factor.nmf.nnls import solve_rows
from tacit.factor.nmf.pd_nmf import merge_program, topic_program, weighted_topics
from tacit.factor.nmf.program import NMFSettings
from tacit.factor.nmf.start import nndsvd, nndsvd_program

rng = np.random.default_rng(21)
TOPICS = rng.random((5, 30)) * (rng.random((5, 30)) < 0.4)
X = rng.random((150, 5)) ** 3 @ TOPICS + 0.02 * rng.random((150, 30))
PARTS = [slice(0, 60), slice(60, 61), slice(61, 150)]


def together(model, form=np.asarray):
    """Fit copies of the model among holders in one process; return them and the channel."""
    channel, models = Clear(keep_values=True), [clone(model) for _ in PARTS]
    programs = [one._program(form(X[part])) for one, part in zip(models, PARTS, strict=True)]
    outcomes = run_together(programs, channel)
    return [one._learned(outcome) for one, outcome in zip(models, outcomes, strict=True)], outcomes, channel


def error(components, rows=X):
    return np.linalg.norm(rows - solve_rows(rows, components) @ components)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("schedule", ["sweep", "topic"])
@pytest.mark.parametrize("init", ["nndsvd", "random", TOPICS + 0.1], ids=["nndsvd", "random", "given"])
def test_a_fit_among_holders_is_the_pooled_fit(init, schedule, form):
    model = NMF(5, init=init, schedule=schedule, max_iter=20, tol=0)
    pooled = clone(model)
    alone = run(pooled._program(form(X)), Clear())
    pooled._learned(alone)
    models, outcomes, _ = together(model, form)
    for one in models:
        assert np.array_equal(one.components_, models[0].components_)
    assert np.allclose(models[0].loss_curve_, pooled.loss_curve_, rtol=1e-8)
    assert np.linalg.norm(models[0].components_ - pooled.components_) < 1e-7 * np.linalg.norm(pooled.components_)
    assert models[0].reconstruction_err_ == pytest.approx(pooled.reconstruction_err_, rel=1e-8)
    own = np.vstack([outcome.private["W"] for outcome in outcomes])
    assert np.allclose(own, alone.private["W"], atol=1e-6)


def test_nndsvd_of_totals_is_that_of_the_pooled_rows():
    T = _run_raw([_returned(nndsvd_program(X[part], 4, random_state=0)) for part in PARTS])
    reference = nndsvd(X, 4)[1]
    assert np.linalg.norm(T - reference) < 0.02 * np.linalg.norm(reference)


def _returned(program):
    """Wrap a step that returns (T, rows) into a program that returns an outcome."""
    T, rows = yield from program
    return Outcome(public={"T": T, "rows": rows})


def _run_raw(programs):
    outcomes = run_together(programs, Clear())
    assert outcomes[0].public["rows"] == len(X)
    return outcomes[0].public["T"]


def test_merging_weights_topics_by_their_use():
    """Algorithm 2, steps 2 to 5: the length of a column of W times the topic, whatever their scale."""
    settings = NMFSettings()
    topics = weighted_topics(X[:60], 5, random_state=0, settings=settings)
    alone = NMF(5, init=nndsvd(X[:60], 5)[1]).fit(X[:60])
    W = alone.transform(X[:60])
    assert np.allclose(topics, np.linalg.norm(W, axis=0)[:, None] * alone.components_, rtol=1e-2, atol=1e-2)
    # each holder's pseudo-rows carry about as much as its rows do
    assert np.sum(topics**2) == pytest.approx(np.sum(X[:60] ** 2), rel=0.7)
    assert weighted_topics(X[60:61], 5, random_state=0, settings=settings).shape == (1, 30)


@pytest.mark.slow
def test_merging_starts_near_where_all_rows_would_end():
    merged = _run_raw([_returned(merge_program(X[part], 5, random_state=0, settings=NMFSettings())) for part in PARTS])
    best = NMF(5, tol=1e-8, max_iter=2000).fit(X).reconstruction_err_
    random = np.abs(np.random.default_rng(0).standard_normal((5, 30)))
    assert error(merged) < 1.3 * best < 0.5 * error(random)
    models, _, channel = together(NMF(5, init="merge-local"))
    assert error(models[0].components_) < 1.1 * best
    assert np.array_equal(models[0].components_, models[2].components_)
    # what leaves are sums over k x d and k x k, never a holder's topics
    assert {frozenset(entry.shapes) for entry in channel.transcript} == {
        frozenset({"entries", "count"}),
        frozenset({"WX", "WW", "own"}),
    }
    assert NMF(5, init="merge-local").fit(X).reconstruction_err_ < 1.1 * best


@pytest.mark.slow
@pytest.mark.parametrize("penalties", [{}, {"l1_W": 0.02, "l2_W": 0.1, "l1_T": 0.05, "l2_T": 0.05}])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_the_topic_schedule_descends_to_where_no_schedule_can_go_on(form, penalties):
    """Fixed points of both schedules (Karush-Kuhn-Tucker): the gradient is zero where a factor is positive, else not negative."""
    data = X[:40, :20]
    model = NMF(3, schedule="topic", tol=0, max_iter=1500, **penalties)
    outcome = run(model._program(form(data)), Clear())
    curve, W, T = outcome.public["loss_curve"], outcome.private["W"], outcome.public["T"]
    assert np.all(np.diff(curve) <= 1e-10 * curve[0])
    assert curve[-1] < 0.95 * curve[0]
    gradient_W = (W @ T - data) @ T.T + model.l1_W + model.l2_W * W
    gradient_T = W.T @ (W @ T - data) + model.l1_T + model.l2_T * T
    for factor, gradient, scale in ((W, gradient_W, data @ T.T), (T, gradient_T, W.T @ data)):
        projected = np.where(factor > 0, gradient, np.minimum(gradient, 0))
        assert np.abs(projected).max() < 1e-4 * np.abs(scale).max()


def test_the_objective_of_the_topic_schedule_is_the_objective():
    settings = NMFSettings(max_iter=7, tol=0)
    outcome = run(topic_program(X, TOPICS + 0.1, settings=settings), Clear())
    W, public = outcome.private["W"], outcome.public
    left = np.sum((X - W @ public["T"]) ** 2)
    assert public["squared_error"] == pytest.approx(left)
    assert public["loss_curve"][-1] == pytest.approx(left / 2)
    assert np.allclose(public["WX"], W.T @ X)
    assert np.allclose(public["WW"], W.T @ W)
    assert np.allclose(np.linalg.norm(public["T"], axis=1), 1)


def test_one_step_of_the_topic_schedule_is_algorithm_one():
    start, W = TOPICS + 0.1, np.zeros((150, 5))
    T = start.copy()
    for t in range(5):
        residual = X - W @ T + np.outer(W[:, t], T[t])
        W[:, t] = np.maximum(residual @ T[t], 0) / (T[t] @ T[t])
        T[t] = np.maximum(W[:, t] @ residual, 0) / (W[:, t] @ W[:, t])
    found = run(topic_program(X, start, settings=NMFSettings(max_iter=1)), Clear()).public["T"]
    assert np.allclose(found, T / np.linalg.norm(T, axis=1)[:, None])


def test_the_topic_schedule_projects_onto_the_simplex_as_printed():
    """Line 8 of Algorithm 1, by hand; the objective is still that of the projected topics, and a fit stops."""
    start, W = TOPICS + 0.1, np.zeros((150, 5))
    T = start.copy()
    for t in range(5):
        residual = X - W @ T + np.outer(W[:, t], T[t])
        W[:, t] = np.maximum(residual @ T[t], 0) / (T[t] @ T[t])
        moved = np.maximum(W[:, t] @ residual, 0) / (W[:, t] @ W[:, t])
        shift = brentq(lambda s, moved=moved: np.maximum(moved - s, 0).sum() - 1, -2, moved.max())
        T[t] = np.maximum(moved - shift, 0)
    outcome = run(topic_program(X, start, settings=NMFSettings(max_iter=1, simplex=True)), Clear())
    assert np.allclose(outcome.public["T"], T)
    assert outcome.public["squared_error"] == pytest.approx(np.sum((X - W @ T) ** 2))
    for init in ("merge-local", "random"):
        model = NMF(5, schedule="topic", simplex=True, init=init, max_iter=500).fit(X)
        assert np.allclose(model.components_.sum(axis=1), 1)
        assert model.n_iter_ < 500
    with pytest.raises(InvalidInputError, match="simplex"):
        NMF(5, simplex=True).fit(X)
    with pytest.raises(InvalidInputError, match="simplex"):
        NMF(5, schedule="topic", simplex=1).fit(X)


def test_exchanges_of_the_topic_schedule():
    _, _, channel = together(NMF(5, init=TOPICS + 0.1, schedule="topic", max_iter=3, tol=0))
    names = [set(entry.shapes) for entry in channel.transcript]
    sweep = [{"numerator", "denominator"}] * 4 + [{"numerator", "denominator", "own"}]
    assert names == sweep * 3 + [{"WX", "WW"}]


def test_a_topic_that_nobody_uses_stays_finite():
    start = np.vstack([TOPICS + 0.1, np.eye(30)[29:] * 1e-300])
    model = NMF(6, init=start, schedule="topic", max_iter=10).fit(X * (np.arange(30) < 29))
    assert np.all(np.isfinite(model.components_))


@pytest.mark.parametrize(
    "settings", [{"schedule": "columns"}, {"schedule": "topic", "outliers": 0.1}, {"init": "merge"}]
)
def test_bad_parameters(settings):
    with pytest.raises(InvalidInputError):
        NMF(3, **settings)._program(X)


def test_too_many_components_for_the_rows_of_all_holders():
    """A holder may have fewer rows than components as long as all together have enough."""
    model = NMF(10, max_iter=3)
    programs = [clone(model)._program(X[part]) for part in (slice(0, 4), slice(4, 12))]
    assert run_together(programs, Clear())[0].public["T"].shape == (10, 30)
    with pytest.raises(InvalidInputError, match="init='random'"):
        run_together([clone(model)._program(X[part]) for part in (slice(0, 4), slice(4, 9))], Clear())
