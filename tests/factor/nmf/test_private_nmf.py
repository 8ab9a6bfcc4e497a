"""Private factorisation: equal to the plain one without noise, near it with little, honest about the published one."""

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.utils.estimator_checks import check_estimator

import tacit
from tacit import NMF, Ledger, PrivateNMF, choose_rank
from tacit.data import make_documents, make_images
from tacit.errors import BudgetError, InvalidInputError, PrivacyWarning
from tacit.factor.nmf.saha_imtiaz import SahaImtiazSettings
from tacit.factor.nmf.start import nndsvd
from tacit.factor.nmf.topics import flattened, refined, topics_of
from tacit.factor.noisy_moments.alike_columns import likely_rest
from tacit.factor.noisy_moments.centred import CentredMoments, divide, shrunk_sums
from tacit.factor.noisy_moments.symmetric import (
    leading,
    leading_off_diagonal,
    leading_sparse,
    pack,
    semicircle_edge,
    unpack,
)
from tacit.measure import held_out_error, match_topics
from tacit.privacy.published import saha_noise_multiplier

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


@pytest.mark.slow
def test_the_dictionary_is_non_negative_with_rows_in_the_unit_ball():
    for method in METHODS:
        T = PrivateNMF(5, epsilon=1.0, method=method).fit(TRAIN).components_
        assert T.min() >= 0
        assert np.linalg.norm(T, axis=1).max() <= 1 + 1e-9


def test_published_says_that_it_has_no_guarantee_and_why():
    model = PrivateNMF(4, epsilon=1.0, method="published", rounds=3).fit(TRAIN)
    assert not model.guarantee_.holds
    assert "NNDSVD" in str(model.guarantee_)


def test_one_iteration_of_the_published_method_is_algorithm_two():
    """Lines 2 to 5 with the paper's step sizes and no noise, by hand."""
    start = PrivateNMF(3, method="published", rounds=1, published=SahaImtiazSettings(epsilon_t=math.inf, eta_W=1e-12))
    W = start.fit(TRAIN).components_.T  # a step of no length: the start
    V, N = TRAIN.T, len(TRAIN)
    H, lengths = nndsvd(TRAIN, 3)[0].T, np.maximum(np.linalg.norm(nndsvd(TRAIN, 3)[1], axis=1), 1)
    H = H * lengths[:, None]
    threshold, M, eta_H, eta_W = 0.1, 0.3, 100.0, 0.05

    def outliers(H):
        left = V - W @ H
        return np.sign(left) * np.clip(np.abs(left) - threshold, 0, M)

    for _ in range(2):
        H = np.maximum(H - eta_H / N * (W.T @ W @ H - W.T @ (V - outliers(H))), 0)
    unit = H / np.maximum(np.linalg.norm(H, axis=0), 1e-12)
    A, B = unit @ unit.T / N, (V - outliers(H)) @ unit.T / N
    stepped = np.maximum(W - eta_W * (W @ A - B), 0)
    stepped /= np.maximum(np.linalg.norm(stepped, axis=0), 1)
    paper = SahaImtiazSettings(eta_H=eta_H, eta_W=eta_W, H_steps=2, M=M, epsilon_t=math.inf)
    for form in (np.asarray, sparse.csr_array):
        model = PrivateNMF(3, method="published", rounds=1, outliers=threshold, published=paper).fit(form(TRAIN))
        assert np.allclose(model.components_, stepped.T, atol=1e-10)


def test_the_published_noise_is_that_of_one_iteration_if_it_is_given():
    paper = SahaImtiazSettings(epsilon_t=0.5)
    assert paper.noise_multiplier(9.0, 1e-5, 7) == pytest.approx(math.sqrt(2 * math.log(1.25e5)) / 0.5)
    assert SahaImtiazSettings().noise_multiplier(1.0, 1e-5, 7) == pytest.approx(saha_noise_multiplier(1.0, 1e-5, 14))
    model = PrivateNMF(3, method="published", rounds=6, published=replace(paper, keep_every=3)).fit(TRAIN)
    assert model.components_by_round_.shape == (2, 3, TRAIN.shape[1])
    assert np.array_equal(model.components_by_round_[-1], model.components_)
    random = PrivateNMF(3, method="published", rounds=1, published=SahaImtiazSettings(start="random")).fit(TRAIN)
    assert "NNDSVD" not in str(random.guarantee_)


@pytest.mark.parametrize("wrong", [{"eta_H": 0.0}, {"M": -1.0}, {"W_steps": 0}, {"epsilon_t": -1.0}, {"start": "svd"}])
def test_settings_of_the_paper_are_checked(wrong):
    with pytest.raises(InvalidInputError, match=next(iter(wrong))):
        SahaImtiazSettings(**wrong)
    with pytest.raises(InvalidInputError, match="method='published'"):
        PrivateNMF(3, published=SahaImtiazSettings()).fit(TRAIN)


@pytest.mark.slow
def test_topics_of_sparse_documents_are_found():
    documents = make_documents(6000, n_topics=4, words_per_document=80)
    rows = sparse.csr_array(documents.counts.astype(float))
    rows = sparse.csr_array(sparse.diags_array(1 / np.sqrt(rows.multiply(rows).sum(axis=1))) @ rows)
    model = PrivateNMF(5, epsilon=2.0, delta=1e-6, insecure_seed=1).fit(rows)
    plain = NMF(5, random_state=0).fit(rows)
    assert match_topics(plain.components_, model.components_).mean_similarity > 0.8


def test_sparse_rows_have_topics_and_dense_rows_parts():
    """The container decides, or `goal`."""
    counts = make_documents(1500, n_topics=4).counts.astype(float)
    X = sparse.csr_array(counts / np.maximum(np.linalg.norm(sparse.csr_array(counts).toarray(), axis=1), 1.0)[:, None])
    settings = {"epsilon": 3.0, "delta": 1e-6, "insecure_seed": 1}
    topics, parts = (PrivateNMF(5, goal=goal, **settings).fit(X).components_ for goal in ("topics", "error"))
    assert np.array_equal(PrivateNMF(5, **settings).fit(X).components_, topics)
    assert not np.array_equal(topics, parts)
    dense = PrivateNMF(5, max_columns=100, **settings).fit(X.toarray())
    assert np.array_equal(
        dense.components_, PrivateNMF(5, max_columns=100, goal="error", **settings).fit(X).components_
    )


def planted_topics(noise, n_topics=4, words=10, common=5, rank=None):
    """Return exact moments of documents with disjoint topics and a few common words that vary by themselves."""
    size = n_topics * words + common
    blocks = np.zeros((n_topics, size))
    for topic in range(n_topics):
        blocks[topic, topic * words : (topic + 1) * words] = 1.0
    covariance = (blocks.T @ blocks) * 0.02
    covariance[-common:, -common:] = np.diag(np.full(common, 5.0))
    mean = np.r_[np.full(n_topics * words, 0.02), np.full(common, 1.0)]
    values, vectors = leading_off_diagonal(covariance, 0.05)
    return CentredMoments(1000.0, 1.0, mean, mean, np.arange(size), values[:rank], vectors[:rank], noise), blocks


def test_topics_are_the_words_that_occur_together_and_not_the_common_ones():
    moments, blocks = planted_topics(1e-4)
    T = topics_of(moments, 4, 0)
    assert match_topics(blocks, T).mean_similarity > 0.99
    assert T[:, -5:].max() < 0.01


def test_the_last_topic_is_the_mean_if_few_directions_rose_above_the_noise():
    moments, _ = planted_topics(1e-4, rank=2)
    T = topics_of(moments, 4, 0)
    assert np.allclose(T[-1], moments.mean / np.linalg.norm(moments.mean))
    assert not np.allclose(topics_of(planted_topics(1e-4)[0], 4, 0)[-1], T[-1])


def test_directions_off_the_diagonal_do_not_depend_on_it():
    rng = np.random.default_rng(0)
    loadings = rng.normal(size=(3, 60))
    common = loadings.T @ loadings
    spoilt = common + np.diag(rng.uniform(0, 500, size=60))
    values, vectors = leading_off_diagonal(spoilt, 1.0)
    again = leading_off_diagonal(spoilt + np.diag(rng.normal(size=60)), 1.0)
    assert np.allclose(values, again[0])
    found = (vectors.T * values) @ vectors
    assert np.linalg.norm(found - common) < 0.2 * np.linalg.norm(common)
    values, vectors = leading(spoilt, 1.0)
    assert np.linalg.norm((vectors.T * values) @ vectors - common) > np.linalg.norm(common)


def symmetric_noise(rng, size, noise):
    return unpack(rng.normal(size=size * (size + 1) // 2) * noise * math.sqrt(2), size)


def test_directions_of_few_columns_are_found_below_the_edge_of_the_noise():
    """Twelve columns with entries of three standard deviations: 36 together, where the edge of 500 columns is at 45."""
    rng = np.random.default_rng(0)
    direction = np.where(np.arange(500) < 12, math.sqrt(3.0), 0.0)
    noisy = np.outer(direction, direction) + symmetric_noise(rng, 500, 1.0)
    values, vectors, left = leading_sparse(noisy, 1.0)
    overlap = np.abs(vectors @ direction) / np.linalg.norm(direction)
    assert overlap.max() > 0.8
    usual = leading_off_diagonal(noisy, semicircle_edge(math.sqrt(2), 500))[1]
    assert np.max(np.abs(usual @ direction), initial=0) / np.linalg.norm(direction) < 0.8
    again = leading_sparse(noisy + np.diag(rng.uniform(0, 500, size=500)), 1.0)
    assert np.allclose(values, again[0])
    assert left == again[2]


def test_noise_alone_has_no_directions_after_the_threshold():
    rng = np.random.default_rng(0)
    noise = symmetric_noise(rng, 400, 2.0)
    values, _, left = leading_sparse(noise, 2.0)
    drawn = np.maximum(np.abs(noise) - 2.0, 0.0)[~np.eye(400, dtype=bool)]
    assert left == pytest.approx(math.sqrt((drawn**2).mean()), rel=0.02)
    assert len(values) <= 2
    assert np.all(values < 0.2 * semicircle_edge(math.sqrt(2) * left, 400))


def test_topics_of_entries_at_the_level_of_the_noise_are_refined():
    """Fifteen words of each topic, whose entries are one to two standard deviations; the start has few of them."""
    rng = np.random.default_rng(0)
    blocks = np.kron(np.eye(4), np.ones(15)) * rng.uniform(1.0, 1.4, size=60)
    noisy = blocks.T @ blocks + symmetric_noise(rng, 60, 1.0)
    start = blocks * (np.arange(60) % 15 < 4)
    T = refined(noisy, start.T, start, 1.0)
    assert match_topics(blocks, start).mean_similarity < 0.6
    assert match_topics(blocks, T).mean_similarity > 0.9
    spoilt = noisy + np.diag(rng.uniform(0, 500, size=60))
    assert np.array_equal(refined(spoilt, start.T, start, 1.0), T)
    assert np.array_equal(refined(noisy, start.T, start, 1e6), start)  # all vanish, so all stay


def test_topics_are_refined_if_enough_directions_rose_above_the_noise():
    moments, blocks = planted_topics(1e-4)
    released = blocks.T @ blocks * (1 + np.arange(blocks.shape[1]) % 2)[:, None]
    given = {"covariance": released + released.T, "covariance_noise": 1e-4}
    assert not np.allclose(topics_of(replace(moments, **given), 4, 0), topics_of(moments, 4, 0))
    few, _ = planted_topics(1e-4, rank=2)
    assert np.array_equal(topics_of(replace(few, **given), 4, 0), topics_of(few, 4, 0))


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_flattened_rows_keep_their_lengths(form):
    """And each row is treated by itself, to the last bit, so that a neighbouring data set has the same other rows."""
    rng = np.random.default_rng(0)
    rows = rng.gamma(0.3, size=(40, 15)) * (rng.random((40, 15)) < 0.4)
    rows[3], rows[4] = 0.0, 1e-160
    rows[5] = np.arange(15) == 2
    flat = flattened(form(rows))
    dense = flat if isinstance(flat, np.ndarray) else flat.toarray()
    assert np.allclose(np.linalg.norm(dense, axis=1), np.linalg.norm(rows, axis=1), rtol=1e-12)
    assert np.array_equal(dense[5], rows[5])
    used = rows[0] > 0
    ratios = dense[0, used] / np.sqrt(rows[0, used])
    assert np.allclose(ratios, ratios[0])
    assert np.allclose(flattened(form(7.0 * rows))[[0]].sum(), 7.0 * dense[0].sum())
    kept = np.delete(np.arange(40), 7)
    others = flattened(form(rows[kept]))
    assert np.array_equal(others if isinstance(others, np.ndarray) else others.toarray(), dense[kept])


def test_a_repeated_word_counts_little_more_than_one_that_occurs():
    """Topics of documents in which one word of each is repeated many times are those of documents without repetitions."""
    rng = np.random.default_rng(0)
    topic = rng.integers(4, size=3000)
    present = rng.random((3000, 40)) < np.where(np.arange(40) // 10 == topic[:, None], 0.5, 0.05)
    counts = present * np.where(rng.random((3000, 40)) < 0.1, 16.0, 1.0)
    lengths = np.maximum(np.linalg.norm(counts, axis=1, keepdims=True), 1.0)
    model = PrivateNMF(4, epsilon=3.0, delta=1e-6, insecure_seed=1).fit(sparse.csr_array(counts / lengths))
    assert match_topics(np.kron(np.eye(4), np.ones(10)), model.components_).mean_similarity > 0.9


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


def test_the_noise_decides_about_the_covariance():
    """Without noise it has all columns; the stronger the noise the fewer, and the more of the budget the mean gets."""
    sizes = np.full(500, 2.0)
    assert divide(sizes, 0.0, 0.0, 1.0, 600)[0] == 500
    assert divide(sizes, 0.0, 0.0, 1.0, 40)[0] == 40
    found = [divide(sizes, noise, noise, 1.0, 500) for noise in (1e-4, 3e-3, 1e-2, 3e-2, 1.0)]
    columns, fractions = zip(*found, strict=True)
    assert list(columns) == sorted(columns, reverse=True)
    assert list(fractions) == sorted(fractions)
    assert found[-1] == (0, 1.0)
    # a few columns that have nearly all of the rows are enough, where many alike are not
    uneven = np.r_[np.full(20, 100.0), np.full(480, 0.1)]
    assert 0 < divide(uneven, 3e-2, 1e-2, 1.0, 500)[0] <= 40


@pytest.mark.parametrize("shape", ["flat", "sparse", "rising"])
def test_shrinking_noisy_sums_brings_them_nearer(shape):
    """Mean over 40 draws: never worse than the noisy sums, and much better where the noise drowns them."""
    truth = {"flat": np.full(300, 5.0), "sparse": np.r_[np.full(5, 200.0), np.zeros(295)], "rising": np.arange(300.0)}
    rng, apart = np.random.default_rng(0), {}
    for noise in (1.0, 30.0):
        draws = truth[shape] + noise * rng.normal(size=(40, 300))
        found = np.array([shrunk_sums(draw, noise, non_negative=True) for draw in draws])
        apart[noise] = np.mean((found - truth[shape]) ** 2) / noise**2
    assert apart[1.0] < 1.02
    assert apart[30.0] < {"flat": 0.04, "sparse": 0.4, "rising": 1.0}[shape]
    assert np.array_equal(shrunk_sums(truth[shape], 0.0, non_negative=True), truth[shape])


def constant_error(rows):
    return held_out_error(rows, np.full((1, rows.shape[1]), 0.1))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*components are zero")
@pytest.mark.parametrize("n_rows", [100, 400])
def test_a_wide_table_is_not_fitted_worse_than_by_a_constant_or_a_noisy_mean(n_rows):
    """1,600 columns, more than rows: the noise decides what is released, and no column is left blank for being the 1,001st."""
    wide = make_images(n_rows + 200, side=40, n_parts=6, random_state=3).images
    wide /= np.linalg.norm(wide, axis=1, keepdims=True)
    train, test = wide[:n_rows], wide[n_rows:]
    rng = np.random.default_rng(0)
    for epsilon in (0.3, 3.0):
        noise = tacit.gaussian_noise_multiplier(epsilon, 1e-5)
        means = [np.maximum(train.sum(axis=0) + noise * rng.normal(size=1600), 0)[None] for _ in range(3)]
        fits = [PrivateNMF(6, epsilon=epsilon, delta=1e-5, insecure_seed=seed).fit(train) for seed in range(3)]
        error = np.mean([held_out_error(test, fit.components_) for fit in fits])
        assert error <= 1.001 * min(np.mean([held_out_error(test, mean) for mean in means]), constant_error(test))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tacit.errors.PrivacyWarning")
@pytest.mark.parametrize("n_rows", [60, 300])
@pytest.mark.parametrize("kind", ["nearly constant", "mixed"])
def test_one_component_is_not_worse_than_a_constant(kind, n_rows):
    """There is no room for a constant beside the mean, so the mean must not hold noise that looks like one."""
    rng = np.random.default_rng(0)
    if kind == "mixed":
        rows = rng.dirichlet(np.full(5, 0.3), n_rows + 200) @ rng.exponential(size=(5, 60))
    else:
        rows = 1 + 0.1 * rng.random((n_rows + 200, 100))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    for epsilon in (0.1, 0.3, 1.0, 3.0):
        for seed in range(6):
            fit = PrivateNMF(1, epsilon=epsilon, delta=1e-5, insecure_seed=seed).fit(rows[:n_rows])
            # of unit rows: 0.5 is the error of predicting nothing
            assert held_out_error(rows[n_rows:], fit.components_) <= constant_error(rows[n_rows:]) + 0.005


def test_a_row_beyond_the_bound_does_not_decide_what_is_said_about_the_fit():
    """Its length is clipped in the fit, so it is clipped where the fit is compared with a constant."""
    rows = np.vstack([TRAIN, np.full((1, TRAIN.shape[1]), 1e6)])
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        PrivateNMF(3, epsilon=5.0, delta=1e-5, insecure_seed=1).fit(rows)
    assert [str(one.message) for one in warned] == []


def test_blank_components_are_said():
    with pytest.warns(PrivacyWarning, match="3 of 5 components are zero"):
        model = PrivateNMF(5, epsilon=0.01, insecure_seed=1).fit(TRAIN[:50])
    assert model.components_.any(axis=1).tolist() == [True, True, False, False, False]


def test_the_semicircle_edge_is_where_noise_ends():
    """Eigenvalues of packed Gaussian noise stay within the edge (up to the fluctuations of a 300 x 300 matrix)."""
    size = 300
    noise = np.random.default_rng(0).normal(size=len(pack(np.eye(size)))) * 3.0
    values = np.linalg.eigvalsh(unpack(noise, size))
    assert values.max() == pytest.approx(semicircle_edge(3.0, size), rel=0.03)
    assert len(leading(unpack(noise, size), 1.03 * semicircle_edge(3.0, size))[0]) == 0


def test_shrinking_brings_a_noisy_matrix_nearer_to_the_truth():
    rng = np.random.default_rng(1)
    vectors = np.linalg.qr(rng.normal(size=(120, 3)))[0]
    truth = (vectors * [90.0, 60.0, 45.0]) @ vectors.T
    noisy = truth + unpack(rng.normal(size=len(pack(truth))), 120)
    values, directions = leading(noisy, semicircle_edge(1.0, 120))
    assert len(values) == 3
    estimate = (directions.T * values) @ directions
    assert np.linalg.norm(estimate - truth) < 0.5 * np.linalg.norm(noisy - truth)


def smooth_covariance(side=12):
    """Return a covariance of the pixels of an image whose neighbours vary together, with eigenvalues that fall slowly."""
    places = np.stack(np.meshgrid(np.arange(side), np.arange(side)), axis=-1).reshape(-1, 2)
    squares = ((places[:, None] - places[None]) ** 2).sum(axis=2)
    return np.exp(-squares / 8.0) / side**2


def noisy(covariance, noise, seed):
    """Return the covariance with symmetric noise, the eigenvalues and eigenvectors above it, as they are released."""
    size = len(covariance)
    packed = np.random.default_rng(seed).standard_normal(size * (size + 1) // 2) * noise * math.sqrt(2)
    found = covariance + unpack(packed, size)
    return found, *leading(found, semicircle_edge(noise * math.sqrt(2), size))


def test_what_noise_hides_is_guessed_from_columns_that_are_alike():
    true = smooth_covariance()
    found, values, directions = noisy(true, 0.002, seed=0)
    assert 3 <= len(values) <= 20  # a part of some thirty directions
    likely, hidden = likely_rest(found, values, directions, 0.002)
    assert np.all(likely > 0)
    assert np.allclose(hidden @ directions.T, 0, atol=1e-9)
    assert np.allclose(hidden @ hidden.T, np.eye(len(hidden)), atol=1e-9)
    above = (directions.T * values) @ directions
    with_guess = above + (hidden.T * likely) @ hidden
    assert np.linalg.norm(with_guess - true) < 0.95 * np.linalg.norm(above - true)
    # of the variance that the strong directions leave, a few guessed ones explain far more than so many others would
    left = true - above
    explained = np.einsum("ij,jk,ik->", hidden[:20], left, hidden[:20])
    assert explained > 2 * 20 / len(true) * np.trace(left)


def test_nothing_is_guessed_where_columns_have_only_their_strong_directions():
    generator = np.random.default_rng(1)
    strong = np.linalg.qr(generator.standard_normal((100, 3)))[0]
    true = (strong * [1.0, 0.7, 0.5]) @ strong.T
    guesses = [len(likely_rest(*noisy(true, 0.01, seed), 0.01)[0]) for seed in range(20)]
    assert sum(size > 0 for size in guesses) <= 1
    assert len(likely_rest(true, np.ones(3), strong.T, 0.0)[0]) == 0  # no noise hides anything


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


def test_rows_of_unit_length_are_not_said_to_be_clipped():
    """Scaling rows leaves some of them a last bit longer than 1."""
    assert (np.linalg.norm(TRAIN, axis=1) > 1).any()
    assert PrivateNMF(2, row_norm=1.0).fit(TRAIN).clipped_fraction_ == 0.0


def test_a_ledger_is_charged_once_for_all_sums(tmp_path):
    ledger = Ledger(tmp_path / "l.db")
    ledger.open_account("faces", 1.2, 1e-6)
    PrivateNMF(3, epsilon=1.0, ledger=ledger, dataset="faces").fit(TRAIN)
    assert len(ledger.history("faces")) == 1
    assert ledger.remaining("faces").spent == pytest.approx(1.0, rel=1e-3)
    with pytest.raises(BudgetError):
        PrivateNMF(3, epsilon=1.0, ledger=ledger, dataset="faces").fit(TRAIN)


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tacit.errors.PrivacyWarning")
def test_passes_scikit_learns_checks():
    # with fixed noise: fresh noise at every fit is what the check for idempotence would fail on
    check_estimator(PrivateNMF(2, insecure_seed=0))
