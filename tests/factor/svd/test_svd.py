"""Singular vectors, principal components and regression on them: exact, the same among holders, and hiding what they say."""

import numpy as np
import pytest
from scipy import sparse
from scipy.linalg import subspace_angles
from scipy.sparse.linalg import svds
from sklearn import decomposition
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.utils.estimator_checks import check_estimator

import tacit
from tacit import PCA, SVD, PrincipalComponentRegression
from tacit.channel import Clear, Total, run, run_together
from tacit.errors import InvalidInputError
from tacit.factor.svd.program import SVDSettings, pca_program, svd_program
from tacit.factor.svd.search import norms_within

rng = np.random.default_rng(5)
TIGHT = 1e-6


def spread(rows, columns, values, seed=1):
    """A matrix with these singular values, and the rows' directions that go with them."""
    generator = np.random.default_rng(seed)
    left = np.linalg.qr(generator.standard_normal((rows, len(values))))[0]
    right = np.linalg.qr(generator.standard_normal((columns, len(values))))[0]
    return (left * values) @ right.T, right.T


X, RIGHT = spread(200, 60, 100 * 0.8 ** np.arange(50))
Y = X + 0.1 * rng.standard_normal(60) * np.arange(60)
PARTS = [slice(0, 70), slice(70, 71), slice(71, 200)]  # one holder has a single row
SPARSE = sparse.random_array((400, 90), density=0.1, format="csr", rng=np.random.default_rng(3))
SPARSE = (SPARSE @ sparse.diags_array(0.9 ** np.arange(90))).tocsr()

CASES = {
    "decaying": X,
    "flat": rng.standard_normal((300, 40)),
    "one strong": rng.random((150, 50)),
    "steep": spread(80, 70, 10.0 ** -np.arange(0, 6, 0.5))[0],
    "wide": spread(30, 200, np.arange(30, 0, -1.0))[0],
    "sparse": SPARSE,
    "tiny scale": 1e-9 * X,
}


def angle(found, true):
    return subspace_angles(np.asarray(found, dtype=np.float64).T, np.asarray(true).T).max()


@pytest.mark.parametrize("hide", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_the_subspace_is_that_of_arpack(case, hide):
    data = CASES[case]
    _, values, right = svds(data, k=5, random_state=0, tol=1e-14)
    model = SVD(5, hide_singular_values=hide).fit(data)
    assert angle(model.components_, right) < TIGHT
    # and each vector is the right one, in the right order
    cosines = np.sum(model.components_ * right[::-1], axis=1)
    assert np.abs(np.abs(cosines) - 1).max() < TIGHT
    assert np.abs(model.components_ @ model.components_.T - np.eye(5)).max() < 1e-10
    assert model.residual_ < 1e-8
    if not hide:
        assert np.allclose(model.singular_values_, values[::-1], rtol=1e-9)


@pytest.mark.parametrize("hide", [True, False])
@pytest.mark.parametrize("data", [X, sparse.csr_array(X)], ids=["dense", "sparse"])
def test_holders_together_are_the_pooled_run(data, hide):
    settings = SVDSettings(4, hide_singular_values=hide)
    pooled, channel = run(svd_program(data, settings), Clear()), Clear()
    together = run_together([svd_program(data[part], settings) for part in PARTS], channel)
    assert len(channel.transcript) == together[0].public["n_iter"]
    assert np.allclose(together[0].public["components"], pooled.public["components"], atol=1e-9)
    assert angle(together[0].public["components"], RIGHT[:4]) < TIGHT


def test_with_hidden_singular_values_only_directions_leave():
    """All that leaves are totals with columns of length 1, so data of another scale leave exactly the same (powers of two)."""
    seen = []
    for scale in (1.0, 2.0**20):
        channel = Clear(keep_values=True)
        run_together([svd_program(scale * X[part], SVDSettings(4)) for part in PARTS], channel)
        assert {entry.kind for entry in channel.transcript} == {"normed-sum"}
        assert {tuple(entry.shapes) for entry in channel.transcript} == {("products",)}
        seen.append([entry.totals["products"] for entry in channel.transcript])
    for one, other in zip(*seen, strict=True):
        assert np.array_equal(one, other)
        assert np.allclose(np.linalg.norm(one, axis=0), 1)
    hidden = SVD(4).fit(X)
    assert not hasattr(hidden, "singular_values_")
    assert not hasattr(PCA(4).fit(X), "explained_variance_")


def test_ratios_of_hidden_singular_values_follow_from_the_directions():
    """So it is said in the documentation, and so it is: hiding hides the scale."""
    public = run(svd_program(X, SVDSettings(4)), Clear()).public
    assert np.allclose(public["relative_values"], 0.8 ** np.arange(4), rtol=1e-8)


def test_a_refit_that_hides_forgets_the_values_it_had():
    model = PCA(3, hide_singular_values=False).fit(X)
    model.set_params(hide_singular_values=True).fit(X)
    assert not hasattr(model, "singular_values_")
    assert not hasattr(model, "explained_variance_")


@pytest.mark.parametrize("hide", [True, False])
def test_power_iteration_is_algorithm_four(hide):
    """As printed, by hand: products, normalised or not, then orthonormalised, a given number of times; alone and together."""
    V = np.random.default_rng(0).standard_normal((X.shape[1], 3)) / np.sqrt(X.shape[1])
    for _ in range(4):
        V = np.linalg.qr(X.T @ (X @ V)).Q
    model = SVD(3, method="power", max_iter=4, hide_singular_values=hide).fit(X)
    assert np.allclose(np.abs(model.components_), np.abs(V.T))
    settings, channel = SVDSettings(3, hide_singular_values=hide, max_iter=4, power=True), Clear()
    together = run_together([svd_program(X[part], settings) for part in PARTS], channel)
    assert np.allclose(together[0].public["components"], model.components_)
    assert [entry.kind for entry in channel.transcript] == ["normed-sum" if hide else "sum"] * 4
    many = run(svd_program(X, SVDSettings(3, hide_singular_values=hide, max_iter=200, power=True)), Clear()).public
    assert angle(many["components"], RIGHT[:3]) < TIGHT
    assert many["residual"] < 1e-6
    if not hide:
        assert np.allclose(many["singular_values"], 100 * 0.8 ** np.arange(3))
    with pytest.raises(InvalidInputError, match="method"):
        SVD(3, method="krylov").fit(X)


class Coarse(Clear):
    """A channel whose answers have so many fractional bits, as those of masked sums."""

    def __init__(self, bits):
        super().__init__()
        self.bits = bits

    def exchange(self, asks):
        return Total(
            {
                name: np.ldexp(np.rint(np.ldexp(array, self.bits)), -self.bits)
                for name, array in super().exchange(asks).items()
            }
        )


@pytest.mark.parametrize(("bits", "reached"), [(40, 1e-8), (30, 1e-6), (24, 1e-4)])
@pytest.mark.parametrize("case", ["decaying", "flat", "one strong", "sparse", "steep"])
def test_totals_of_limited_precision_end_the_search_near_their_precision(case, bits, reached):
    data = CASES[case]
    dense = data.toarray() if sparse.issparse(data) else data
    public = run(svd_program(data, SVDSettings(5)), Coarse(bits)).public
    assert angle(public["components"], np.linalg.svd(dense)[2][:5]) < (reached if case != "steep" else 100 * reached)
    assert public["n_iter"] < 60


def test_norms_follow_from_symmetry():
    square = rng.standard_normal((6, 6))
    square = square @ square.T
    norms = rng.random(6) + 0.1
    found = norms_within(square / norms)
    assert np.allclose(found / found[0], norms / norms[0], rtol=1e-10)
    assert np.allclose(norms_within(np.eye(3)), 1 / np.sqrt(3))  # nothing is said: all alike


def test_oversampling_saves_exchanges():
    data = CASES["flat"]
    more, none = (run(svd_program(data, SVDSettings(5, oversample=size)), Clear()).public for size in (15, 0))
    assert more["n_iter"] < none["n_iter"]
    assert angle(none["components"], np.linalg.svd(data)[2][:5]) < TIGHT


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_single_precision_and_sparse(dtype, form):
    model = SVD(4).fit(form(X.astype(dtype)))
    scores = model.transform(form(X.astype(dtype)))
    assert model.components_.dtype == scores.dtype == dtype
    assert angle(model.components_, RIGHT[:4]) < (1e-5 if dtype == np.float32 else TIGHT)
    public = run(svd_program(form(X.astype(dtype)), SVDSettings(4)), Clear()).public
    assert public["n_iter"] < 20, "single precision ends the search"
    assert angle(public["components"], RIGHT[:4]) < (1e-5 if dtype == np.float32 else TIGHT)


@pytest.mark.parametrize("case", CASES)
def test_a_holder_alone_finds_what_holders_find(case):
    """Alone ARPACK does it, among holders the search: the same vectors, and PCA and regression rest on them alike."""
    data, target = CASES[case], rng.standard_normal(CASES[case].shape[0])
    for model in (SVD(4), PCA(4), PrincipalComponentRegression(4)):
        alone = model.fit(data, target)
        among = clone(model)._learned(run(clone(model)._program(data, target), Clear()))
        assert alone.n_iter_ > among.n_iter_  # one product at a time, against blocks of them
        assert angle(alone.components_, among.components_) < 1e-5
        if isinstance(model, PrincipalComponentRegression):
            assert np.allclose(alone.coef_, among.coef_, rtol=1e-4, atol=1e-6 * np.abs(among.coef_).max())


def test_sparse_rows_are_never_made_dense(monkeypatch):
    def dense(*args, **kwargs):
        raise AssertionError("sparse rows were made dense")

    expected = [clone(model).fit(SPARSE.toarray()).components_ for model in (SVD(3), PCA(3))]
    for cls in (sparse.csr_array, sparse.csc_array):
        monkeypatch.setattr(cls, "toarray", dense)
        monkeypatch.setattr(cls, "todense", dense)
    for model, components in zip((SVD(3), PCA(3)), expected, strict=True):
        assert angle(model.fit(SPARSE).components_, components) < 1e-5


def test_inverse_transform_is_the_best_approximation_of_that_rank():
    model = SVD(6)
    approximation = model.inverse_transform(model.fit_transform(X))
    left, values, right = np.linalg.svd(X, full_matrices=False)
    assert np.allclose(approximation, (left[:, :6] * values[:6]) @ right[:6], atol=1e-7)
    assert np.linalg.norm(X - approximation) == pytest.approx(np.sqrt(np.sum(values[6:] ** 2)))


@pytest.mark.parametrize("hide", [True, False])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_principal_components_are_those_of_scikit_learn(form, hide):
    data = Y * (rng.random(Y.shape) < 0.5)
    theirs = decomposition.PCA(5, svd_solver="full").fit(data)
    ours = PCA(5, hide_singular_values=hide).fit(form(data))
    assert angle(ours.components_, theirs.components_) < TIGHT
    assert np.allclose(ours.mean_, theirs.mean_)
    signs = np.sign(np.sum(ours.components_ * theirs.components_, axis=1))
    assert np.allclose(ours.transform(form(data)), theirs.transform(data) * signs, atol=1e-5)
    assert np.allclose(
        ours.inverse_transform(ours.transform(form(data))), theirs.inverse_transform(theirs.transform(data))
    )
    if not hide:
        assert np.allclose(ours.explained_variance_, theirs.explained_variance_, rtol=1e-8)
        assert np.allclose(ours.singular_values_, theirs.singular_values_, rtol=1e-8)


def test_the_mean_is_that_of_all_holders():
    """Holders with different means: centring each by its own would lose the direction between them."""
    parts = [X[part] + shift * RIGHT[40] for part, shift in zip(PARTS, (0.0, 500.0, 300.0), strict=True)]
    theirs = decomposition.PCA(3, svd_solver="full").fit(np.vstack(parts))
    together = run_together([pca_program(part, SVDSettings(3)) for part in parts], Clear())
    assert angle(together[0].public["components"], theirs.components_) < TIGHT
    assert np.allclose(together[0].public["mean"], theirs.mean_)
    assert together[0].public["count"] == 200
    own = np.vstack([part - part.mean(axis=0) for part in parts])
    assert angle(np.linalg.svd(own)[2][:3], theirs.components_) > 0.1


@pytest.mark.parametrize("hide", [True, False])
def test_regression_on_scores_is_least_squares(hide):
    target = Y @ rng.standard_normal(60) + rng.standard_normal(200) + 7
    scores = PCA(5).fit(Y)
    reference = LinearRegression().fit(scores.transform(Y), target)
    model = PrincipalComponentRegression(5, hide_singular_values=hide).fit(Y, target)
    assert np.allclose(model.predict(Y), reference.predict(scores.transform(Y)), atol=1e-6)
    assert np.allclose(model.score_coef_, reference.coef_, atol=1e-8)
    assert np.allclose(PrincipalComponentRegression(5).fit(sparse.csr_array(Y), target).coef_, model.coef_, atol=1e-8)
    channel, holders = Clear(keep_values=True), [clone(model) for _ in PARTS]
    programs = [one._program(Y[part], target[part]) for one, part in zip(holders, PARTS, strict=True)]
    for one, outcome in zip(holders, run_together(programs, channel), strict=True):
        assert np.allclose(one._learned(outcome).coef_, model.coef_, atol=1e-9)
    kinds = [entry.kind for entry in channel.transcript]
    assert kinds[0] == "sum"
    assert set(kinds[1:]) == {"normed-sum" if hide else "sum"}


def test_regression_when_a_component_has_no_variance():
    data = X[:, :1] @ np.ones((1, 4))
    model = PrincipalComponentRegression(3).fit(data, 2 * X[:, 0])
    assert np.allclose(model.predict(data), 2 * X[:, 0], atol=1e-6)


@pytest.mark.parametrize("estimator", [SVD, PCA, PrincipalComponentRegression])
@pytest.mark.parametrize("hide", [True, False])
def test_passes_scikit_learns_checks(estimator, hide):
    check_estimator(estimator(2, hide_singular_values=hide))


@pytest.mark.parametrize("estimator", [SVD, PCA, PrincipalComponentRegression])
def test_save_and_load(estimator, tmp_path):
    model = estimator(3, hide_singular_values=False).fit(X, X[:, 0])
    model.save(tmp_path / "model.tacit")
    again = tacit.load(tmp_path / "model.tacit")
    assert np.array_equal(again.transform(X), model.transform(X))
    assert np.array_equal(again.singular_values_, model.singular_values_)
    assert again.get_params() == model.get_params()
    assert "no privacy guarantee" in str(again.guarantee_)
    if estimator is PrincipalComponentRegression:
        assert np.array_equal(again.predict(X), model.predict(X))


def test_a_fit_can_be_repeated_and_leaves_the_data_alone():
    kept = Y.copy()
    assert np.array_equal(PCA(3).fit(Y).components_, PCA(3).fit(Y).components_)
    assert np.array_equal(Y, kept)


@pytest.mark.parametrize(
    "data", [np.zeros((5, 4)), np.ones((5, 4)), np.eye(6), np.ones((1, 3))], ids=["0", "1", "I", "row"]
)
@pytest.mark.parametrize("estimator", [SVD, PCA])
def test_rows_of_lower_rank_than_asked_for(estimator, data):
    model = estimator(3, hide_singular_values=False).fit(data)
    assert np.allclose(model.components_ @ model.components_.T, np.eye(3))
    if estimator is SVD:
        assert np.allclose(model.singular_values_, np.r_[np.linalg.svd(data)[1], 0, 0][:3], atol=1e-6)
    hidden = estimator(3).fit(data)
    assert np.allclose(hidden.components_ @ hidden.components_.T, np.eye(3))


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_bad_entries(form, bad):
    broken = X.copy()
    broken[3, 2] = bad
    for call in (SVD(3).fit, SVD(3).fit(X).transform, PCA(3).fit, PCA(3).fit(X).transform):
        with pytest.raises(InvalidInputError):
            call(form(broken))


@pytest.mark.parametrize(
    "settings",
    [
        {"n_components": 0},
        {"n_components": 2.5},
        {"n_components": 61},
        {"oversample": -1},
        {"max_iter": 0},
        {"tol": -1},
        {"hide_singular_values": "yes"},
        {"random_state": None},
    ],
)
@pytest.mark.parametrize("estimator", [SVD, PCA])
def test_bad_parameters(estimator, settings):
    with pytest.raises(InvalidInputError):
        estimator(**{"n_components": 3, **settings}).fit(X)


@pytest.mark.parametrize("target", [None, np.ones(5), np.full(200, np.nan), np.ones((200, 2)), ["a"] * 200])
def test_bad_targets(target):
    with pytest.raises(InvalidInputError):
        PrincipalComponentRegression(3).fit(X, target)
