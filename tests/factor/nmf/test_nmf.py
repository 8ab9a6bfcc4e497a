"""Non-negative factorisation: it descends, it arrives, it is the same among holders, and it is careful with input."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import linear_sum_assignment
from sklearn import decomposition
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import check_estimator

import tacit
from tacit import NMF
from tacit.channel import Clear, run, run_together
from tacit.errors import InvalidInputError
from tacit.factor.nmf.nnls import Outliers, Penalty, solve_rows
from tacit.factor.nmf.program import NMFSettings, factorise, nmf_program
from tacit.factor.nmf.start import nndsvd

rng = np.random.default_rng(11)


def low_rank(rows, columns, rank, density=0.5, seed=1):
    """Non-negative factors with zeros, and a component of its own in some rows and columns, so that they are unique."""
    generator = np.random.default_rng(seed)
    W = generator.random((rows, rank)) * (generator.random((rows, rank)) < density)
    T = generator.random((rank, columns)) * (generator.random((rank, columns)) < density)
    W[: 2 * rank] = np.repeat(np.eye(rank), 2, axis=0)
    T[:, : 2 * rank] = np.repeat(np.eye(rank), 2, axis=1)
    return W, T


def matched_cosines(found, true):
    """Cosine of every true component with the one found for it, matched one to one."""
    cosines = (found / np.linalg.norm(found, axis=1)[:, None]) @ (true / np.linalg.norm(true, axis=1)[:, None]).T
    return cosines[linear_sum_assignment(-cosines)]


X = np.maximum(rng.random((120, 6)) @ rng.random((6, 40)) + 0.3 * rng.standard_normal((120, 40)), 0)
X[rng.random(X.shape) < 0.4] = 0
X[13] = 0

VARIANTS = {
    "plain": {},
    "outliers": {"outliers": 0.2},
    "bounded": {"outliers": 0.2, "outlier_bound": 0.5},
    "penalised": {"l1_W": 0.1, "l2_W": 0.2, "l1_T": 0.3, "l2_T": 0.1},
    "all": {"outliers": 0.3, "l1_W": 0.05, "l2_T": 0.1},
}


def objective(rows, model, W):
    """The objective, written down once more from its definition."""
    T, residual = model.components_, rows - W @ model.components_
    R = np.zeros_like(residual)
    if model.outliers is not None:
        R = np.sign(residual) * np.clip(np.abs(residual) - model.outliers, 0, model.outlier_bound)
    total = np.sum((residual - R) ** 2) / 2 + (model.outliers or 0) * np.abs(R).sum()
    total += model.l1_W * W.sum() + model.l2_W / 2 * np.sum(W**2)
    return total + model.l1_T * T.sum() + model.l2_T / 2 * np.sum(T**2)


@pytest.mark.slow
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("init", ["nndsvd", "random"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_objective_never_increases_and_is_the_objective(variant, init, dtype, form):
    model = NMF(6, init=init, tol=0, max_iter=40, **VARIANTS[variant])
    W = model.fit_transform(form(X.astype(dtype)))
    rounding = 1e-6 if dtype == np.float32 else 1e-12
    assert np.all(np.diff(model.loss_curve_) <= rounding * model.loss_curve_[0])
    assert model.loss_curve_[-1] < 0.98 * model.loss_curve_[0]
    # solving the rows once more can only lower what the last sweep reached, and not by much
    last = objective(X, model, W.astype(np.float64))
    assert 0.97 * model.loss_curve_[-1] < last <= model.loss_curve_[-1] * (1 + 10 * rounding)
    assert W.dtype == model.components_.dtype == dtype
    assert min(W.min(), model.components_.min()) >= 0


@pytest.mark.parametrize("variant", ["plain", "penalised"])
def test_it_ends_where_the_gradient_allows_no_descent(variant):
    """Karush-Kuhn-Tucker: the gradient is zero where a factor is positive and not negative where it is zero."""
    model = NMF(4, tol=0, max_iter=3000, **VARIANTS[variant])
    W = model.fit_transform(X)
    T = model.components_
    gradient_W = (W @ T - X) @ T.T + model.l1_W + model.l2_W * W
    gradient_T = W.T @ (W @ T - X) + model.l1_T + model.l2_T * T
    for factor, gradient, scale in ((W, gradient_W, X @ T.T), (T, gradient_T, W.T @ X)):
        projected = np.where(factor > 0, gradient, np.minimum(gradient, 0))
        assert np.abs(projected).max() < 1e-4 * np.abs(scale).max()


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_a_separable_matrix_is_recovered(form):
    W, T = low_rank(150, 60, 5)
    model = NMF(5, tol=0, max_iter=1000).fit(form(W @ T))
    assert model.reconstruction_err_ < 1e-4 * np.linalg.norm(W @ T)
    assert matched_cosines(model.components_, T).min() > 0.9999


@pytest.mark.parametrize("init", ["nndsvd", "random"])
def test_the_loss_is_that_of_scikit_learn_from_the_same_start(init):
    W, T = nndsvd(X, 6) if init == "nndsvd" else (rng.random((120, 6)), rng.random((6, 40)))
    theirs = decomposition.NMF(6, init="custom", solver="cd", tol=1e-6, max_iter=3000)
    theirs.fit_transform(X, W=W.copy(), H=T.copy())
    ours = NMF(6, init=T, tol=1e-8, max_iter=3000).fit(X)
    assert ours.reconstruction_err_**2 <= 1.01 * theirs.reconstruction_err_**2


def test_nndsvd_is_that_of_scikit_learn():
    """Their start, run for no iteration at all, is the product of the published construction."""
    W, T = nndsvd(X, 6)
    with pytest.warns(ConvergenceWarning):
        theirs = decomposition.NMF(6, init="nndsvd", max_iter=1, random_state=0).fit(X)
    ours = decomposition.NMF(6, init="custom", max_iter=1)
    with pytest.warns(ConvergenceWarning):
        ours.fit_transform(X, W=W.copy(), H=T.copy())
    assert np.allclose(ours.components_, theirs.components_, atol=1e-6)


@pytest.mark.parametrize("variant", VARIANTS)
def test_sparse_is_dense_and_single_is_double(variant):
    settings = {"max_iter": 15, "tol": 0, **VARIANTS[variant]}
    dense = NMF(6, **settings).fit(X)
    start = NMF(6, init=dense.components_, **settings)
    reference = start.fit(X).loss_curve_
    for form in (sparse.csr_array(X), sparse.csc_matrix(X), np.asfortranarray(X)):
        other = clone(start).fit(form)
        assert np.allclose(other.loss_curve_, reference, rtol=1e-9)
        assert np.allclose(other.components_, start.components_, atol=1e-6)
    single = clone(start).fit(X.astype(np.float32))
    assert np.allclose(single.loss_curve_, reference, rtol=1e-3)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(
    "settings",
    [
        NMFSettings(max_iter=30),
        NMFSettings(max_iter=30, outliers=Outliers(0.2, np.inf)),
        NMFSettings(max_iter=30, row_penalty=Penalty(0.1, 0.1), dictionary_penalty=Penalty(0.1, 0.1)),
    ],
)
def test_holders_together_are_the_pooled_run(settings, form):
    T = rng.random((5, 40))
    pooled = run(nmf_program(form(X), T, settings=settings), Clear())
    channel = Clear()
    parts = [X[:30], X[30:31], X[31:31], X[31:]]  # one holder has a single row, one has none
    together = run_together([nmf_program(form(part), T, settings=settings) for part in parts], channel)
    assert len(channel.transcript) == len(pooled.public["loss_curve"]), "one sum a sweep"
    assert np.allclose(together[0].public["loss_curve"], pooled.public["loss_curve"], rtol=1e-9)
    assert np.allclose(together[0].public["T"], pooled.public["T"], atol=1e-7)
    assert np.allclose(np.vstack([one.private["W"] for one in together]), pooled.private["W"], atol=1e-6)
    assert together[0].public["squared_error"] == pytest.approx(pooled.public["squared_error"])


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_public_rows_are_factorised_as_by_the_estimator(form):
    X = form(rng.random((40, 9)))
    model = NMF(3, random_state=2)
    weights = model.fit_transform(X)
    W, T = factorise(X, 3, random_state=2)
    assert np.array_equal(T, model.components_)
    assert np.array_equal(solve_rows(X, T, W), weights)


def test_only_statistics_leave_a_holder():
    channel = Clear()
    run(nmf_program(X, rng.random((5, 40)), settings=NMFSettings(max_iter=3)), channel)
    assert [dict(entry.shapes) for entry in channel.transcript] == [{"WX": (5, 40), "WW": (5, 5), "own": (2,)}] * 3


@pytest.mark.parametrize("variant", ["plain", "outliers", "penalised"])
def test_transform_gives_the_rows_their_factors(variant):
    model = NMF(4, **VARIANTS[variant])
    W = model.fit_transform(X)
    assert np.allclose(model.transform(X), W, atol=1e-4 * W.max())
    assert np.allclose(model.transform(X[5:9]), model.transform(X)[5:9], atol=1e-8)
    assert model.inverse_transform(W).shape == X.shape
    if variant == "plain":
        assert np.linalg.norm(X - model.inverse_transform(W)) == pytest.approx(model.reconstruction_err_, rel=1e-3)
        assert np.allclose(np.linalg.norm(model.components_, axis=1), 1)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_outliers_take_the_corruption(form):
    W, T = low_rank(200, 50, 4)
    clean = W @ T
    spoiled, where = clean.copy(), rng.random(clean.shape) < 0.03
    spoiled[where] += 5
    robust = NMF(4, outliers=0.1, max_iter=400, tol=1e-7).fit(form(spoiled))
    plain = NMF(4, max_iter=400, tol=1e-7).fit(form(spoiled))

    def error_on_clean_rows(model):
        return np.linalg.norm(clean - solve_rows(clean, model.components_) @ model.components_)

    assert error_on_clean_rows(robust) < 0.5 * error_on_clean_rows(plain)
    R = robust.outliers_of(form(spoiled))
    assert R.shape == clean.shape
    assert np.abs(R.toarray()[where] - 5).max() < 1
    assert R.nnz < 3 * where.sum()
    assert plain.outliers_of(form(spoiled)).nnz == 0
    bounded = NMF(4, outliers=0.1, outlier_bound=2.0).fit(form(spoiled))
    assert np.abs(bounded.outliers_of(form(spoiled)).toarray()).max() <= 2 + 1e-9


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_mini_batches_come_near_the_batch_loss(form):
    data = np.vstack([X, X + 0.01, np.maximum(X - 0.02, 0), X + 0.03])
    data = data[np.random.default_rng(2).permutation(len(data))]
    batch = NMF(4).fit(form(data))
    online = NMF(4)
    for _ in range(12):
        for start in range(0, len(data), 60):
            online.partial_fit(form(data[start : start + 60]))
    loss = np.linalg.norm(data - online.inverse_transform(online.transform(form(data))))
    assert loss < 1.02 * batch.reconstruction_err_
    first = NMF(4).fit(form(data[:60]))
    assert loss < np.linalg.norm(data - first.inverse_transform(first.transform(form(data))))


def test_partial_fit_goes_on_from_a_fit():
    """Two rows move the dictionary of 120 a little only."""
    model = NMF(4, forget_factor=1.0).fit(X)
    before, sweeps = model.components_.copy(), model.n_iter_
    model.partial_fit(X[:2])
    assert 0 < np.abs(model.components_ - before).max() < 0.1
    assert model.n_iter_ == sweeps + 1


@pytest.mark.slow
def test_passes_scikit_learns_checks():
    check_estimator(NMF(2))
    check_estimator(NMF(2, outliers=0.5, l1_W=0.01, l1_T=0.01))


def test_a_fit_can_be_repeated_and_leaves_the_data_alone():
    kept = X.copy()
    first, second = NMF(4, init="random", random_state=3).fit(X), NMF(4, init="random", random_state=3).fit(X)
    assert np.array_equal(first.components_, second.components_)
    assert np.array_equal(X, kept)
    assert not np.allclose(first.components_, NMF(4, init="random", random_state=4).fit(X).components_)


def test_save_and_load(tmp_path):
    model = NMF(4, outliers=0.3).fit(X)
    model.save(tmp_path / "model.tacit")
    again = tacit.load(tmp_path / "model.tacit")
    assert np.array_equal(again.transform(X), model.transform(X))
    assert again.get_params() == model.get_params()
    assert again.guarantee_ == model.guarantee_
    assert "no privacy guarantee" in str(again.guarantee_)
    assert np.array_equal(again.partial_fit(X[:50]).components_, model.partial_fit(X[:50]).components_)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(("bad", "says"), [(-1.0, "Negative"), (np.nan, "NaN"), (np.inf, "inf")])
def test_bad_entries(form, bad, says):
    broken = X.copy()
    broken[3, 2] = bad
    for call in (NMF(3).fit, NMF(3).fit(X).transform, NMF(3).fit(X).partial_fit):
        with pytest.raises(InvalidInputError, match=says):
            call(form(broken))


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_a_table_of_zeros_is_refused_but_not_rows_of_zeros(form):
    with pytest.raises(InvalidInputError, match="zeros"):
        NMF(2).fit(form(np.zeros((5, 4))))
    model = NMF(2).fit(form(X))
    assert np.array_equal(model.transform(form(np.zeros((2, 40)))), np.zeros((2, 2)))


def test_too_many_components():
    with pytest.raises(InvalidInputError, match="init='random'"):
        NMF(11).fit(X[:10])
    assert NMF(11, init="random", max_iter=5).fit(X[:10]).components_.shape == (11, 40)
    with pytest.raises(InvalidInputError, match="fewer"):
        NMF(41, init="random").fit(X)


def test_data_of_lower_rank_than_asked_for():
    model = NMF(5, tol=1e-6).fit(np.outer(np.arange(1.0, 9), np.arange(1.0, 8)))
    assert model.reconstruction_err_ < 0.01
    assert np.all(np.isfinite(model.components_))


@pytest.mark.parametrize(
    "settings",
    [
        {"n_components": 0},
        {"n_components": 2.5},
        {"outliers": 0},
        {"outliers": 0.1, "outlier_bound": 0},
        {"max_iter": 0},
        {"tol": -1},
        {"l1_W": -0.1},
        {"l2_T": np.nan},
        {"init": "svd"},
        {"init": np.ones((3, 7))},
        {"init": -np.ones((3, 40))},
        {"init": np.zeros((3, 40))},
        {"random_state": None},
    ],
)
def test_bad_parameters(settings):
    with pytest.raises(InvalidInputError):
        NMF(**{"n_components": 3, **settings}).fit(X)
    with pytest.raises(InvalidInputError):
        NMF(3, forget_factor=0).fit(X).partial_fit(X)
