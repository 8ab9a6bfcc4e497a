"""Private factorisation: equal to the plain one without noise, near it with little, honest about the published one."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.utils.estimator_checks import check_estimator

import tacit
from tacit import NMF, Ledger, PrivateNMF, choose_rank
from tacit.data import make_documents, make_images
from tacit.errors import BudgetError, InvalidInputError, PrivacyWarning
from tacit.factor.noisy_moments.centred import columns_above_noise
from tacit.factor.noisy_moments.symmetric import pack, semicircle_edge, shrink, unpack
from tacit.measure import held_out_error, match_topics

IMAGES = make_images(4000, side=8, n_parts=4)
X = IMAGES.images / np.linalg.norm(IMAGES.images, axis=1, keepdims=True)
TRAIN, TEST = X[:3600], X[3600:]
INF = float("inf")
METHODS = ["moments", "rounds"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_infinite_epsilon_is_the_plain_factorisation(method, form):
    private = PrivateNMF(4, epsilon=INF, method=method).fit(form(TRAIN))
    plain = NMF(4, random_state=0).fit(form(TRAIN))
    assert np.allclose(private.components_, plain.components_, rtol=1e-10, atol=1e-12)
    assert "in the clear" in str(private.guarantee_)


@pytest.mark.parametrize("method", METHODS)
def test_large_epsilon_comes_near_the_plain_error_and_small_epsilon_does_not(method):
    plain = held_out_error(TEST, NMF(4, random_state=0).fit(TRAIN).components_)
    found = {
        epsilon: held_out_error(
            TEST, PrivateNMF(4, epsilon=epsilon, delta=1e-6, method=method, insecure_seed=1).fit(TRAIN).components_
        )
        for epsilon in (0.02, 20.0)
    }
    assert plain < found[20.0] < 2.5 * plain + 0.01
    assert found[0.02] > 2 * found[20.0]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"method": "rounds"},
        {"method": "rounds", "sampling_rate": 0.2},
        {"method": "rounds", "init": "noisy", "rounds": 2},
    ],
)
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_the_guarantee_is_the_target(settings, adjacency):
    model = PrivateNMF(3, epsilon=0.8, delta=1e-6, adjacency=adjacency, **settings).fit(TRAIN)
    assert 0.795 < model.guarantee_.epsilon <= 0.8
    assert model.guarantee_.adjacency == adjacency


def test_the_dictionary_is_non_negative_with_rows_in_the_unit_ball():
    for method in METHODS:
        T = PrivateNMF(5, epsilon=1.0, method=method).fit(TRAIN).components_
        assert T.min() >= 0
        assert np.linalg.norm(T, axis=1).max() <= 1 + 1e-9


def test_published_says_that_it_has_no_guarantee_and_why():
    model = PrivateNMF(4, epsilon=1.0, method="published", rounds=3).fit(TRAIN)
    assert not model.guarantee_.holds
    assert "NNDSVD" in str(model.guarantee_)


def test_topics_of_sparse_documents_are_found():
    documents = make_documents(6000, n_topics=4, words_per_document=80)
    rows = sparse.csr_array(documents.counts.astype(float))
    rows = sparse.csr_array(sparse.diags_array(1 / np.sqrt(rows.multiply(rows).sum(axis=1))) @ rows)
    model = PrivateNMF(5, epsilon=2.0, delta=1e-6, insecure_seed=1).fit(rows)
    plain = NMF(5, random_state=0).fit(rows)
    assert match_topics(plain.components_, model.components_).mean_similarity > 0.8


def test_outliers_are_cut_off_at_no_extra_noise():
    """Spikes on a tenth of the rows: the robust private dictionary is better on clean rows, with the same noise."""
    rng = np.random.default_rng(1)
    spoilt = IMAGES.images[:3600].copy()
    rows = rng.random(3600) < 0.1
    spoilt[rows] += 3.0 * (rng.random((int(rows.sum()), 64)) < 0.1)
    clean = IMAGES.images[3600:]
    settings = {"epsilon": 5.0, "delta": 1e-6, "row_norm": 6.0, "insecure_seed": 1}
    plain = PrivateNMF(4, **settings).fit(spoilt)
    robust = PrivateNMF(4, outliers=0.7, **settings).fit(spoilt)
    assert held_out_error(clean, robust.components_) < 0.9 * held_out_error(clean, plain.components_)
    assert [r.noise_multiplier for r in robust.guarantee_.releases] == [
        r.noise_multiplier for r in plain.guarantee_.releases
    ]


def test_columns_that_drown_in_noise_are_left_out_and_said():
    sums = np.array([5.0, 100.0, -3.0, 90.0])
    assert columns_above_noise(sums, 10.0, 10).tolist() == [0, 1, 3]  # room for all
    assert columns_above_noise(sums, 10.0, 3).tolist() == [1, 3]  # a choice: 5 is less than noise may be
    assert columns_above_noise(sums, 10.0, 1).tolist() == [1]
    assert columns_above_noise(-sums, 0.0, 3).tolist() == [2]
    assert columns_above_noise(-np.abs(sums), 0.0, 9).tolist() == [2]
    with pytest.warns(PrivacyWarning, match="rose above the noise"):
        model = PrivateNMF(5, epsilon=0.01, max_columns=10, insecure_seed=1).fit(TRAIN[:50])
    assert model.components_.shape == (5, 64)


def test_the_semicircle_edge_is_where_noise_ends():
    """Eigenvalues of packed Gaussian noise stay within the edge (up to the fluctuations of a 300 x 300 matrix)."""
    size = 300
    noise = np.random.default_rng(0).normal(size=len(pack(np.eye(size)))) * 3.0
    values = np.linalg.eigvalsh(unpack(noise, size))
    assert values.max() == pytest.approx(semicircle_edge(3.0, size), rel=0.03)
    estimate, rank = shrink(unpack(noise, size), 1.03 * semicircle_edge(3.0, size))
    assert rank == 0
    assert not estimate.any()


def test_shrinking_brings_a_noisy_matrix_nearer_to_the_truth():
    rng = np.random.default_rng(1)
    vectors = np.linalg.qr(rng.normal(size=(120, 3)))[0]
    truth = (vectors * [90.0, 60.0, 45.0]) @ vectors.T
    noisy = truth + unpack(rng.normal(size=len(pack(truth))), 120)
    estimate, rank = shrink(noisy, semicircle_edge(1.0, 120))
    assert rank == 3
    assert np.linalg.norm(estimate - truth) < 0.5 * np.linalg.norm(noisy - truth)


def test_transform_uses_the_released_dictionary():
    model = PrivateNMF(4, epsilon=5.0).fit(TRAIN)
    W = model.transform(TEST)
    assert W.shape == (400, 4)
    assert W.min() >= 0
    error = 0.5 * np.mean(((TEST - model.inverse_transform(W)) ** 2).sum(axis=1))
    assert error == pytest.approx(held_out_error(TEST, model.components_), rel=1e-6)


def test_saved_models_hold_the_dictionary_only(tmp_path):
    model = PrivateNMF(3, epsilon=1.0, init="random").fit(TRAIN)
    model.save(tmp_path / "m")
    again = tacit.load(tmp_path / "m")
    assert np.array_equal(again.components_, model.components_)
    assert again.guarantee_ == model.guarantee_
    assert not hasattr(again, "clipped_fraction_")
    assert np.allclose(again.transform(TEST), model.transform(TEST))


def test_the_share_of_clipped_rows_is_reported():
    assert PrivateNMF(2, row_norm=0.5).fit(TRAIN).clipped_fraction_ == 1.0
    assert PrivateNMF(2, row_norm=1.5).fit(TRAIN).clipped_fraction_ == 0.0


def test_a_ledger_is_charged_once_for_all_sums(tmp_path):
    ledger = Ledger(tmp_path / "l.db")
    ledger.open_account("faces", 1.2, 1e-6)
    PrivateNMF(3, epsilon=1.0, ledger=ledger, dataset="faces").fit(TRAIN)
    assert len(ledger.history("faces")) == 1
    assert ledger.remaining("faces").spent == pytest.approx(1.0, rel=1e-3)
    with pytest.raises(BudgetError):
        PrivateNMF(3, epsilon=1.0, ledger=ledger, dataset="faces").fit(TRAIN)


def test_private_choice_of_rank():
    """Images of 4 parts: with little noise 4 is chosen of 1, 2, 4 and 12, and the model comes with it."""
    found = choose_rank(TRAIN, [1, 2, 4, 12], epsilon=20.0, delta=1e-6, cost=0.01)
    assert found.rank == choose_rank(TRAIN, [1, 2, 4, 12], cost=0.01).rank == 4
    assert found.model.components_.shape == (4, 64)
    assert 19.5 < found.guarantee.epsilon <= 20.0
    assert {release.kind for release in found.guarantee.releases} == {"gaussian", "exponential"}
    assert found.scores is None


def test_choice_of_rank_by_coherence_has_no_private_form():
    documents = make_documents(400, n_topics=3)
    found = choose_rank(documents.counts.astype(float), [2, 3, 8], by="coherence")
    assert found.rank == max(found.scores, key=found.scores.get)
    with pytest.raises(InvalidInputError, match="private choice"):
        choose_rank(documents.counts.astype(float), [2, 3], by="coherence", epsilon=1.0)
    with pytest.raises(InvalidInputError, match="at least one rank"):
        choose_rank(TRAIN, [])


@pytest.mark.parametrize(
    "settings",
    [
        {"epsilon": 0},
        {"delta": 1.0},
        {"row_norm": -1},
        {"method": "magic"},
        {"rounds": 0, "method": "rounds"},
        {"sampling_rate": 0, "method": "rounds"},
        {"outliers": 0},
        {"init": "warm", "method": "rounds"},
        {"init": np.ones((2, 2)), "method": "rounds"},
        {"init": -np.ones((2, 64)), "method": "rounds"},
        {"random_state": None},
        {"n_components": 0},
    ],
)
def test_bad_parameters(settings):
    with pytest.raises(InvalidInputError):
        PrivateNMF(**{"n_components": 2, **settings}).fit(TRAIN)


@pytest.mark.parametrize("method", METHODS)
def test_more_components_than_columns_are_refused_before_anything_is_charged(method, tmp_path):
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.open_account("faces", epsilon=1.0, delta=1e-5)
    model = PrivateNMF(5, epsilon=1.0, delta=1e-5, method=method, ledger=ledger, dataset="faces")
    with pytest.raises(InvalidInputError, match="n_components <= 4"):
        model.fit(np.ones((30, 4)))
    assert ledger.remaining("faces").spent == 0


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
def test_bad_entries(bad):
    spoilt = TRAIN.copy()
    spoilt[1, 2] = bad
    with pytest.raises(InvalidInputError):
        PrivateNMF(2).fit(spoilt)


def test_empty_rows_and_zero_tables_are_handled():
    rows = np.vstack([TRAIN, np.zeros((5, 64))])
    assert np.isfinite(PrivateNMF(2, epsilon=2.0).fit(rows).components_).all()
    assert np.isfinite(PrivateNMF(2, method="rounds", rounds=2).fit(np.zeros((30, 6))).components_).all()


@pytest.mark.filterwarnings("ignore::tacit.errors.PrivacyWarning")
def test_passes_scikit_learns_checks():
    # with fixed noise: fresh noise at every fit is what the check for idempotence would fail on
    check_estimator(PrivateNMF(2, insecure_seed=0))
