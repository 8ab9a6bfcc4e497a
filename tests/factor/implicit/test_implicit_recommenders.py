"""Recommenders from interactions: agreement with independent computations, input, bad input, privacy, use."""

import itertools
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone

import tacit
from tacit import ImplicitRecommender, PrivateImplicitRecommender
from tacit.channel import Clear, Noisy, Plan, run, run_together
from tacit.data import make_ratings
from tacit.errors import InvalidInputError
from tacit.factor.implicit import item_model
from tacit.factor.implicit.co_occurrence import ChosenItems, second_moment
from tacit.factor.implicit.interactions import read_interactions
from tacit.factor.implicit.item_model import (
    broad_and_narrow,
    estimated_moment,
    expected_pairs,
    item_regression,
    likeness,
    shared_with_like_items,
    significant_pairs,
)
from tacit.factor.implicit.multiplied_tastes import multiplied_tastes
from tacit.factor.implicit.program import SPLIT, choose_items, implicit_program, unit_rows
from tacit.factor.noisy_moments.known_directions import denoised_loadings, public_directions
from tacit.factor.noisy_moments.symmetric import unpack
from tacit.measure import ranking_scores
from tacit.testing import check_neighbours

DATA = make_ratings(400, 40, n_factors=3, ratings_per_user=14, noise=0.4, random_state=3)
LIKED = DATA.ratings >= 3
USERS, ITEMS = DATA.users[LIKED], DATA.items[LIKED]
CATALOGUE = list(range(40))
GENRES = np.eye(4)[np.arange(40) % 4]
PLAIN = ImplicitRecommender(catalogue=CATALOGUE)
PRIVATE = PrivateImplicitRecommender(epsilon=50.0, catalogue=CATALOGUE, insecure_seed=4)
both = pytest.mark.parametrize("estimator", [PLAIN, PRIVATE], ids=["plain", "private"])


def quietly(model, *data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(*data)


def fitted(estimator, **settings):
    return quietly(clone(estimator).set_params(**settings), USERS, ITEMS)


def same(first, second):
    for name in first._released:
        assert np.array_equal(getattr(first, name), getattr(second, name)), name


def dense():
    found = np.zeros((USERS.max() + 1, 40))
    found[USERS, ITEMS] = 1.0
    return found


# agreement with independent computations ------------------------------------------------------------------------------


def test_the_plain_model_is_ease_as_published():
    """B = -P / diag(P), zero on its diagonal, with P = (X'X + ridge)^-1; scores are X B over a power of the popularity."""
    X = dense()
    P = np.linalg.inv(X.T @ X + 20.0 * np.eye(40))
    B = -P / np.diag(P)
    np.fill_diagonal(B, 0.0)
    model = fitted(PLAIN, ridge=20.0, user_power=0.0)
    np.testing.assert_allclose(model.item_regression_, B, rtol=1e-5, atol=1e-7)
    history = [1, 5, 30]
    scores = B[history].sum(axis=0) / model.item_weights_**0.1
    expected = [item for item in np.argsort(-scores) if item not in history][:6]
    assert [item for item, _ in model.recommend_for(history, 6)] == expected


def test_without_noise_the_private_model_predicts_each_item_from_the_others():
    """Its regression is that of one positive definite inverse P: the score of j is the sum over the history of -P_ij / P_jj."""
    model = quietly(PrivateImplicitRecommender(epsilon=np.inf, catalogue=CATALOGUE), USERS, ITEMS)
    X = dense()
    norms = np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12)
    np.testing.assert_allclose(model.item_weights_, (X / norms).sum(axis=0))
    B = model.item_regression_.astype(float)
    np.testing.assert_array_equal(np.diag(B), 0.0)
    ratios = np.where(B.T != 0, B / np.where(B.T != 0, B.T, 1.0), 0.0)  # P_ii / P_jj
    P = np.diag(ratios[:, 0].clip(1e-12))
    P[0, 0] = 1.0
    P = P - B * np.diag(P)
    np.testing.assert_allclose(P, P.T, rtol=1e-3, atol=1e-5)
    assert np.linalg.eigvalsh(P).min() > 0
    scores = X[7] @ B
    assert [item for item, _ in model.recommend(7, 5, exclude_seen=False)] == np.argsort(-scores)[:5].tolist()
    assert not set(ITEMS[USERS == 7]) & {item for item, _ in model.recommend(7, 5)}


@pytest.mark.parametrize("kept", [1.0, 0.2])
def test_the_second_moment_is_that_of_shortened_rows_of_norm_one(kept):
    table = read_interactions(USERS, ITEMS, catalogue=CATALOGUE)
    items = np.array([0, 3, 4, 9, 17, 20, 21, 38])
    direction = np.random.default_rng(0).random(8)
    chosen = ChosenItems(items, direction / np.linalg.norm(direction), kept)
    found = unpack(second_moment(table.ends, table.columns, table.values, 40, chosen), 8)
    Y = dense()[:, items]
    Y = Y - (1 - kept) * np.outer(Y @ chosen.direction, chosen.direction)
    lengths = np.linalg.norm(Y, axis=1, keepdims=True)
    Y = Y / np.where(lengths > 0, lengths, 1.0)
    np.testing.assert_allclose(found, Y.T @ Y, atol=1e-12)
    vectors = np.random.default_rng(1).normal(size=(8, 3))
    shortened = vectors - (1 - kept) * np.outer(chosen.direction, chosen.direction @ vectors)
    np.testing.assert_allclose(chosen.restored(shortened), vectors)


def test_each_user_moves_the_sums_by_at_most_one_whatever_the_weights():
    chosen = ChosenItems(np.arange(30), np.full(30, 30**-0.5), 0.2)
    generator = np.random.default_rng(1)
    norms = []
    for count, weights in itertools.product((1, 2, 7, 30), ("ones", "huge", "tiny", "mixed")):
        values = {
            "ones": np.ones(count),
            "huge": np.full(count, 1e200),
            "tiny": np.full(count, 1e-200),
            "mixed": 10.0 ** generator.uniform(-150, 150, count),
        }[weights]
        table = read_interactions(["u"] * count, np.arange(count), values, catalogue=range(30), weighting="linear")
        norms.append(np.linalg.norm(second_moment(table.ends, table.columns, table.values, 30, chosen)))
        assert np.linalg.norm(unit_rows(table)) == pytest.approx(1.0, abs=1e-9)
    np.testing.assert_allclose(norms, 1.0, atol=1e-9)  # the bound is attained by every history


def shortened_moment(X, kept):
    """Return the second moment of rows, shortened along their mean and divided by the shortened norm; and of the rows alone."""
    direction = X.mean(axis=0) / np.linalg.norm(X.mean(axis=0))
    short = X - (1 - kept) * np.outer(X @ direction, direction)
    lengths = np.linalg.norm(short, axis=1, keepdims=True)
    return ChosenItems(np.arange(X.shape[1]), direction, kept), (short / lengths).T @ (short / lengths), X / lengths


@pytest.mark.parametrize("kept", [1.0, 0.3])
def test_the_estimate_undoes_the_shortening_and_finds_tastes_pairs_and_diagonal(kept):
    """With many users and without noise the estimate is the second moment of the rows that were not shortened."""
    generator, users, size = np.random.default_rng(5), 40_000, 30
    tastes = generator.normal(size=(users, 2)) @ generator.normal(size=(2, size))
    X = 1.5 + 0.3 * tastes + generator.normal(size=(users, size))
    X[:, 1] += 0.7 * (X[:, 0] - 1.5 - 0.3 * tastes[:, 0])  # two items that belong together, whatever the taste
    chosen, noisy, rows = shortened_moment(X, kept)
    expected = rows.T @ rows
    found = estimated_moment(noisy, 0.0, users, chosen, X.mean(axis=0), None)
    assert np.linalg.norm(found - expected) < 0.03 * np.linalg.norm(expected)
    away = np.abs(found - expected) / np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    assert away.max() < 0.1
    together = item_regression(found)[0, 1] / np.abs(np.triu(item_regression(found), 1)).mean()
    assert together > 3


def test_pairs_are_kept_where_they_stand_out_and_nothing_is_kept_of_noise():
    generator, size = np.random.default_rng(6), 200
    noise = np.triu(generator.normal(size=(size, size)), 1)
    spread, groups = np.ones((size, size)), np.zeros(size * (size - 1) // 2, dtype=np.int64)
    planted = np.zeros((size, size))
    planted[np.arange(0, 100, 2), np.arange(1, 101, 2)] = 8.0
    alone = significant_pairs(noise + noise.T, spread, groups)
    assert np.abs(alone).sum() < 2.0
    found = significant_pairs(noise + planted + (noise + planted).T, spread, groups)
    np.testing.assert_array_equal(found, found.T)
    assert (found[planted > 0] > 2.0).all()
    assert np.abs(found[(planted + planted.T) == 0]).sum() < 0.2 * found[planted > 0].sum()


def test_what_like_items_share_is_found_below_the_noise_and_nothing_is_found_in_noise():
    """Groups of eight items whose entries are below the noise of each: items of one group have like loadings."""
    generator, size = np.random.default_rng(7), 240
    noise = np.triu(generator.normal(size=(size, size)), 1)
    noise += noise.T
    group = np.repeat(np.arange(size // 8), 8)
    loadings = generator.normal(size=(size // 8, 12))[group] + 0.3 * generator.normal(size=(size, 12))
    alike = likeness(loadings, generator.uniform(1, 5, size), None)
    assert np.abs(shared_with_like_items(noise, 1.0, alike)).mean() < 0.03
    planted = 0.8 * (group[:, None] == group)
    np.fill_diagonal(planted, 0.0)
    found = shared_with_like_items(planted + noise, 1.0, alike)
    np.testing.assert_allclose(found, found.T, atol=1e-12)
    np.testing.assert_array_equal(np.diag(found), 0.0)
    assert np.linalg.norm(found - planted) < 0.85 * np.linalg.norm(planted)  # with nothing found 1, with the noise 7


def test_pairs_that_share_a_word_are_expected_to_belong_together_and_nothing_is_found_in_noise():
    generator, count = np.random.default_rng(8), 400
    size = generator.uniform(0.2, 2.0, count) ** 2
    noise = generator.normal(size=count)
    assert np.abs(expected_pairs(noise, np.ones(count), size)).mean() < 0.15
    planted = 0.8 * np.sqrt(size) * generator.uniform(0.5, 1.5, count)
    found = expected_pairs(planted + noise, np.ones(count), size)
    assert np.linalg.norm(found - planted) < 0.5 * np.linalg.norm(planted)  # with nothing found 1, with the noise 1.1
    np.testing.assert_allclose(expected_pairs(planted, np.zeros(count), size), planted)


def planted_tastes(kept, tastes=3, size=60):
    """Return chosen items, a moment whose entries off its diagonal are exponentials of tastes, and what shortens it."""
    generator = np.random.default_rng(9)
    levels, loadings = generator.uniform(0.5, 1.5, size), generator.normal(size=(size, tastes))
    moment = np.exp(levels[:, None] + levels + loadings @ loadings.T * 0.75 / tastes)
    moment[np.diag_indices(size)] *= 4.0  # what each item has alone
    direction = np.exp(levels) / np.linalg.norm(np.exp(levels))
    shortening = np.eye(size) - (1 - kept) * np.outer(direction, direction)
    return ChosenItems(np.arange(size), direction, kept), moment, shortening


def symmetric_noise(size, seed):
    noise = np.triu(np.random.default_rng(seed).normal(size=(size, size)), 1)
    return noise + noise.T


def off_diagonal(moment):
    return moment - np.diag(np.diag(moment))


@pytest.mark.parametrize("kept", [1.0, 0.3])
def test_tastes_that_multiply_are_found_and_nothing_is_found_in_noise(kept):
    chosen, moment, shortening = planted_tastes(kept)
    noise, start = 3.0 * symmetric_noise(60, 10), moment + 3.0 * symmetric_noise(60, 11)
    spread = np.full((60, 60), 3.0)
    found = multiplied_tastes(shortening @ moment @ shortening + noise, spread, 1e6, chosen, start)
    np.testing.assert_array_equal(np.diag(found), 0.0)
    np.testing.assert_allclose(found, found.T)
    assert (found + np.eye(60) > 0).all()
    away = shortening @ off_diagonal(found - moment) @ shortening
    assert np.linalg.norm(away) < 0.75 * np.linalg.norm(noise)
    popularity = 480 * np.outer(chosen.direction, chosen.direction)
    released = shortening @ popularity @ shortening + noise
    away = multiplied_tastes(released, spread, 1e6, chosen, popularity + noise) - off_diagonal(popularity)
    assert np.linalg.norm(shortening @ away @ shortening) < 0.75 * np.linalg.norm(noise)
    # without noise to speak of the model is exact; L-BFGS stops before
    exact = multiplied_tastes(shortening @ moment @ shortening, spread / 300, 1e6, chosen, moment)
    assert np.linalg.norm(off_diagonal(exact - moment)) < 0.02 * np.linalg.norm(off_diagonal(moment))


@pytest.mark.parametrize("least", [1, 60])
def test_a_part_of_the_estimate_are_tastes_that_multiply(monkeypatch, least):
    """If there are enough tastes: then the errors of both kinds of tastes partly cancel."""
    chosen, moment, shortening = planted_tastes(0.3)
    noisy = shortening @ moment @ shortening + 3.0 * symmetric_noise(60, 12)
    users, errors = float(np.trace(moment)), []
    popularity = chosen.direction * users / chosen.direction.sum()
    monkeypatch.setattr(item_model, "LEAST_TASTES", least)
    for part in (0.0, item_model.MULTIPLIED):
        monkeypatch.setattr(item_model, "MULTIPLIED", part)
        found = estimated_moment(noisy, 3.0 * 2**0.5, users, chosen, popularity, None)
        errors.append(np.linalg.norm(shortening @ off_diagonal(found - moment) @ shortening))
        assert np.linalg.eigvalsh(found).min() > 0
    assert errors[1] < 0.99 * errors[0] if least == 1 else errors[1] == errors[0]


def test_features_of_few_items_are_narrow_and_in_a_small_catalogue_none_is():
    features = np.zeros((1000, 4))
    features[:, 0], features[:500, 1], features[:15, 2], features[3, 3] = 1.0, 1.0, 1.0, 1.0
    broad, narrow = broad_and_narrow(features)
    assert broad.shape[1] == 2
    assert narrow.shape[1] == 1  # a feature of one item says nothing
    small, none = broad_and_narrow(GENRES)
    assert small.shape == GENRES.shape
    assert none is None
    assert broad_and_narrow(None) == (None, None)


def dense_clicks(seed, users=800, items=80):
    """Return clicks of many users on few items: five tastes, uneven popularities, about three clicks in ten."""
    generator = np.random.default_rng(seed)
    tastes = generator.normal(size=(users, 5)) @ generator.normal(size=(5, items)) / 5**0.5
    logits = 1.5 * tastes + 0.8 * generator.normal(size=items) - 1.2
    return sparse.csr_array((generator.random((users, items)) < 1 / (1 + np.exp(-logits))).astype(float))


def test_more_budget_does_not_give_worse_lists_of_dense_clicks():
    recalls = {epsilon: [] for epsilon in (1.0, 10.0, 100.0, np.inf, "plain", "popular")}
    for seed in range(3):
        rows = dense_clicks(seed)
        train, held = rows[:500], rows[500:]
        for epsilon, found in recalls.items():
            if epsilon == "plain":
                model = ImplicitRecommender()
            else:
                model = PrivateImplicitRecommender(epsilon=np.inf if epsilon == "popular" else epsilon)
            model = quietly(model, train)
            if epsilon == "popular":
                model.item_regression_ = np.zeros_like(model.item_regression_)
            found.append(model.evaluate_new_users(held, k=10).recall)
    mean = {epsilon: float(np.mean(found)) for epsilon, found in recalls.items()}
    assert mean[10.0] > mean[1.0] - 0.01
    assert mean[100.0] > mean[10.0] - 0.01
    assert mean[np.inf] > mean[100.0] - 0.01
    assert mean[np.inf] > mean["popular"] + 0.05
    assert mean[np.inf] > mean["plain"] - 0.01


def test_a_signal_in_known_directions_is_found_below_the_edge_of_the_whole_noise():
    generator, size = np.random.default_rng(3), 300
    noise = np.triu(generator.normal(0, 2**-0.5, (size, size)), 1)
    noise += noise.T
    directions = public_directions(np.ones(size), np.eye(5)[np.arange(size) % 5])
    assert directions.shape == (size, 5)
    np.testing.assert_allclose(directions.T @ directions, np.eye(5), atol=1e-12)
    signal = np.where(np.arange(size) % 5 < 2, 1.0, -1.0) / np.sqrt(size)
    strength = 0.7 * np.sqrt(2 * size)
    noisy = noise + strength * np.outer(signal, signal)
    without = denoised_loadings(noisy, 1.0, np.eye(size)[:, :1])
    found = denoised_loadings(noisy, 1.0, directions)
    assert np.linalg.norm(signal @ found) ** 2 > 0.7 * strength
    assert np.linalg.norm(signal @ without) ** 2 < 0.5 * strength
    exact = generator.normal(size=(20, 4))
    recovered = denoised_loadings(exact @ exact.T, 0.0, public_directions(np.ones(20), None))
    away = (recovered @ recovered.T - exact @ exact.T)[~np.eye(20, dtype=bool)]
    assert np.linalg.norm(away) < 0.2 * np.linalg.norm(exact @ exact.T)  # the diagonal had to be guessed


# use ------------------------------------------------------------------------------------------------------------------


@both
def test_arrays_frames_and_sparse_matrices_are_the_same(estimator):
    model = fitted(estimator)
    frame = {"item": ITEMS, "user": USERS}
    same(quietly(clone(estimator), pl.DataFrame(frame)), model)
    same(quietly(clone(estimator), pd.DataFrame(frame)), model)
    matrix = sparse.csr_array((np.ones(len(USERS)), (USERS, ITEMS)), shape=(USERS.max() + 1, 40))
    if len(np.unique(USERS)) == matrix.shape[0]:  # a row without entries is a user
        same(quietly(clone(estimator).set_params(catalogue=CATALOGUE), matrix), model)
    order = np.random.default_rng(0).permutation(len(USERS))
    same(quietly(clone(estimator), USERS[order], ITEMS[order]), model)
    binary = clone(estimator).set_params(weighting="binary")
    same(quietly(binary, USERS, ITEMS, np.random.default_rng(0).uniform(1, 9, len(USERS))), model)


@both
def test_a_new_user_with_the_same_history_gets_the_same_list_also_from_a_file(estimator, tmp_path):
    model = fitted(estimator)
    history = ITEMS[USERS == 5]
    assert model.recommend_for(history, 7) == model.recommend(5, 7)
    assert model.rank([history, []], 7)[0] == [item for item, _ in model.recommend(5, 7)]
    model.save(tmp_path / "model")
    loaded = tacit.load(tmp_path / "model")
    assert loaded.recommend_for(history, 7) == model.recommend(5, 7)
    assert loaded.similar_items(3, 4) == model.similar_items(3, 4)
    with pytest.raises(InvalidInputError, match="no users"):
        loaded.recommend(5)


@both
def test_ids_and_order_come_from_the_catalogue(estimator):
    names = [f"film {item}" for item in CATALOGUE][::-1]
    model = quietly(clone(estimator).set_params(catalogue=names), USERS, [f"film {item}" for item in ITEMS])
    assert list(model.item_ids_) == names
    weights = fitted(PLAIN).item_weights_
    assert np.argmax(model.item_weights_) == 39 - np.argmax(weights)
    assert all(isinstance(item, str) for item, _ in model.recommend_for(["film 3"], 4))


@both
def test_progress_names_the_stages(estimator):
    told = []
    with tacit.show_progress(told.append):
        fitted(estimator)
    stages = [str(one) for one in told if one.done is None]
    assert len(stages) >= 4
    assert stages[0] == "reading the interactions"


def test_partial_correlations_agree_with_the_inverse():
    model = fitted(PLAIN, user_power=0.0)
    P = np.linalg.inv(dense().T @ dense() + model.ridge * np.eye(40))
    partial = -P / np.sqrt(np.outer(np.diag(P), np.diag(P)))
    found = model.similar_items(3, 5)
    expected = [item for item in np.argsort(-partial[3]) if item != 3][:5]
    assert [item for item, _ in found] == expected
    np.testing.assert_allclose([value for _, value in found], partial[3, expected], rtol=1e-4)


@pytest.mark.slow
def test_lists_are_better_than_popularity_for_new_users_and_for_held_out_items():
    """Four kinds of users, each of which prefers a quarter of the items; all items are equally popular."""
    generator = np.random.default_rng(8)
    likes = np.where(np.arange(40)[None, :] % 4 == np.arange(1500)[:, None] % 4, 0.6, 0.1)
    users, items = np.nonzero(generator.random((1500, 40)) < likes)
    new = users >= 1200
    taken = (generator.random(len(users)) < 0.2) & ~new
    fit = ~new & ~taken
    popular = np.argsort(-np.bincount(items[fit], minlength=40))
    for estimator in (PLAIN, clone(PRIVATE).set_params(epsilon=20.0)):
        model = quietly(clone(estimator), users[fit], items[fit])
        strangers = model.evaluate_new_users(users[new], items[new], k=5, random_state=1)
        assert strangers.n_users > 250
        held_out = model.evaluate(users[taken], items[taken], k=5)
        histories, relevant = [], []
        for user in range(1200):
            histories.append(items[fit & (users == user)])
            relevant.append(items[taken & (users == user)])
        trivial = [[item for item in popular if item not in set(history)][:5] for history in histories]
        assert held_out.recall == pytest.approx(ranking_scores(model.rank(histories, 5), relevant, k=5).recall)
        baseline = ranking_scores(trivial, relevant, k=5).recall
        assert held_out.recall > 1.5 * baseline
        assert strangers.recall > 1.5 * baseline
        assert strangers.coverage > 0.9


def test_features_help_where_noise_is_strong():
    """Users who like one of four genres; at this noise single items cannot be learned about."""
    generator = np.random.default_rng(5)
    catalogue = np.arange(160)
    users = np.repeat(np.arange(900), 8)
    items = np.concatenate(
        [generator.choice(np.flatnonzero(catalogue % 4 == user % 4), 8, replace=False) for user in range(900)]
    )
    fractions = []
    for features in (None, np.eye(4)[catalogue % 4]):
        model = PrivateImplicitRecommender(
            epsilon=0.7, delta=1e-4, catalogue=catalogue, features=features, insecure_seed=2
        )
        lists = quietly(model, users, items).rank([[kind, kind + 4, kind + 8, kind + 12] for kind in range(4)], 10)
        fractions.append(np.mean([[item % 4 == kind for item in best] for kind, best in enumerate(lists)]))
    assert fractions[1] > 0.9
    assert fractions[1] > fractions[0] + 0.2


@pytest.mark.parametrize("channel", [Clear, lambda: Noisy(Plan.for_budget(20.0, 1e-5, steps=SPLIT), insecure_seed=1)])
def test_several_holders_find_what_one_with_all_users_finds(channel):
    def program(users):
        chosen = np.isin(USERS, users)
        return implicit_program(read_interactions(USERS[chosen], ITEMS[chosen], catalogue=CATALOGUE), 30, GENRES)

    everybody = np.unique(USERS)
    alone = run(program(everybody), channel()).public
    together = run_together([program(part) for part in (everybody[:7], everybody[7:90], everybody[90:])], channel())
    for name, value in alone.items():
        np.testing.assert_allclose(together[2].public[name], value, rtol=1e-4, atol=1e-4, err_msg=name)


# input that is bad or odd ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model", [ImplicitRecommender(), PrivateImplicitRecommender(epsilon=1.0, catalogue=["a", "b"])]
)
def test_weights_beside_a_whole_table_are_refused(model):
    """They were ignored: the table has its own weights, or none."""
    frame = pl.DataFrame({"user": [1, 2], "item": ["a", "b"]})
    with pytest.raises(InvalidInputError, match="third column"):
        model.fit(frame, weights=[1.0, 2.0])


def test_repetitions_are_collapsed_without_weights_and_added_up_with_them():
    table = read_interactions([1, 1, 1], ["a", "a", "b"], catalogue=["a", "b"])
    assert table.values.tolist() == [1.0, 1.0]
    assert table.duplicates == 1
    counted = read_interactions([1, 1, 1], ["a", "a", "b"], [1, 2, 1], catalogue=["a", "b"], weighting="linear")
    assert counted.values.tolist() == [3.0, 1.0]
    logarithmic = read_interactions([1, 1, 1], ["a", "a", "b"], [1, 2, 1], catalogue=["a", "b"])
    np.testing.assert_allclose(logarithmic.values, [2.0, 1.0])
    zero = read_interactions([1, 2], ["a", "b"], [0, 1], catalogue=["a", "b"])
    assert zero.counts.tolist() == [0, 1]


@both
def test_users_without_history_items_without_interactions_and_one_user_with_half_of_everything(estimator):
    users = np.r_[USERS, np.full(len(USERS), 999)]
    items = np.r_[ITEMS, np.arange(len(USERS)) % 40]
    model = quietly(clone(estimator).set_params(catalogue=[*CATALOGUE, 77]), users, items)
    by_popularity = [model.item_ids_[place] for place in np.argsort(-model.item_weights_, kind="stable")]
    assert [item for item, _ in model.recommend_for([], 41)] == by_popularity
    assert [item for item, _ in model.recommend(999, 50)] == [77]
    assert np.isfinite(model.item_weights_).all()
    with_empty_rows = sparse.csr_array((np.ones(len(USERS)), (USERS + 1, ITEMS)), shape=(USERS.max() + 3, 40))
    matrix_model = quietly(clone(estimator).set_params(catalogue=CATALOGUE), with_empty_rows)
    assert len(matrix_model.recommend(0, 4)) == 4


def test_unknown_items_at_fold_in():
    model = fitted(PRIVATE)
    with pytest.raises(InvalidInputError, match="unknown item"):
        model.recommend_for([3, 1000], 4)
    assert model.recommend_for([3, 1000], 4, unknown="ignore") == model.recommend_for([3], 4)
    assert model.rank([[3, 1000]], 4) == [[item for item, _ in model.recommend_for([3], 4)]]


def test_a_column_of_counts_is_one_of_weights():
    counts = np.random.default_rng(0).integers(1, 9, len(USERS))
    given = ImplicitRecommender().fit(USERS, ITEMS, counts)
    for columns in ({"count": counts}, {"weight": counts, "count": np.ones(len(USERS))}):
        same(ImplicitRecommender().fit(pd.DataFrame({"user": USERS, "item": ITEMS, "time": 0, **columns})), given)


def test_scores_are_the_predictions_over_a_small_power_of_the_popularity():
    model = ImplicitRecommender().fit(USERS, ITEMS)
    predicted = model.item_regression_[[3, 5]].sum(axis=0, dtype=np.float64)
    popularity = model.item_weights_ / model.item_weights_.max()
    found = dict(model.recommend_for([3, 5], n=40, exclude_seen=False))
    expected = predicted / popularity**0.1 + 1e-6 * popularity
    np.testing.assert_allclose([found[item] for item in range(40)], expected, rtol=1e-6)


def test_an_item_of_which_only_the_popularity_is_known_is_like_no_other():
    model = fitted(PRIVATE, max_columns=30)
    assert model.n_learned_ == 30
    (rare,) = np.setdiff1d(np.arange(40), model.learned_items_)[:1]
    with pytest.raises(InvalidInputError, match="only the popularity"):
        model.similar_items(int(rare))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: PrivateImplicitRecommender().fit([1, 2], [1, 2]), "catalogue"),
        (lambda: PrivateImplicitRecommender(catalogue=[1]).fit([1, 2], [1, 2]), "items of the catalogue"),
        (lambda: PrivateImplicitRecommender(catalogue=[1, 1]).fit([1], [1]), "without repetitions"),
        (lambda: PrivateImplicitRecommender(catalogue=[]).fit([1], [1]), "at least one item"),
        (lambda: PrivateImplicitRecommender(catalogue=[1, 2], features=[[1.0]]).fit([1], [1]), "features"),
        (lambda: PrivateImplicitRecommender(catalogue=[1], features=[["x"]]).fit([1], [1]), "features"),
        (lambda: PrivateImplicitRecommender(catalogue=[1], features=[[-1.0]]).fit([1], [1]), "features"),
        (lambda: PrivateImplicitRecommender(catalogue=[1], weighting="root").fit([1], [1]), "weighting"),
        (lambda: ImplicitRecommender().fit([1, 2], [1, 2], [1, -1]), "weights of at least 0"),
        (lambda: ImplicitRecommender().fit([1, 2], [1, 2], [1, np.nan]), "finite weights"),
        (lambda: ImplicitRecommender().fit([1, 2], [1]), "equal numbers of users"),
        (lambda: ImplicitRecommender().fit([], []), "at least one interaction"),
        (lambda: ImplicitRecommender().fit(pl.DataFrame({"user": [1, None], "item": [1, 2]})), "without gaps"),
        (lambda: ImplicitRecommender().fit(pl.DataFrame({"a": [1]})), "columns named user"),
        (lambda: ImplicitRecommender().fit({"a": 1}), "a data frame"),
        (lambda: ImplicitRecommender(catalogue=[1]).fit(sparse.csr_array(np.eye(2))), "per column"),
        (lambda: ImplicitRecommender(ridge=0).fit([1], [1]), "ridge"),
        (lambda: ImplicitRecommender(user_power=2).fit([1], [1]), "user_power"),
        (lambda: ImplicitRecommender().recommend(1), "fitted"),
    ],
)
def test_what_is_refused(call, words):
    with pytest.raises(InvalidInputError, match=words):
        call()


def test_one_user_one_item():
    for model in (ImplicitRecommender(), PrivateImplicitRecommender(catalogue=["a"])):
        quietly(model, ["u"], ["a"])
        assert model.recommend("u") == []
        assert [item for item, _ in model.recommend("u", exclude_seen=False)] == ["a"]


def test_items_that_noise_alone_lifts_are_not_learned_about():
    weights = np.random.default_rng(0).normal(0, 10.0, 20_000)
    weights[:50] += 500
    found = choose_items(weights, 10.0, 1500.0, 2000)
    assert set(range(50)) <= set(found.items.tolist())
    assert len(found.items) < 50 + 90  # 50 by noise on average; 90 with probability below 1e-6
    assert found.direction @ found.direction == pytest.approx(1.0)


# privacy --------------------------------------------------------------------------------------------------------------

EXTRA = {
    "one item": ([-1], [3]),
    "two items": ([-1] * 2, [3, 30]),
    "everything": ([-1] * 40, CATALOGUE),
    "repeated": ([-1] * 90, [5] * 90),
}


def released(model):
    return {name: getattr(model, name) for name in model._released}


def with_user(users, items):
    return np.r_[np.array(users, int), USERS], np.r_[np.array(items, int), ITEMS]


@pytest.mark.parametrize("extra", EXTRA)
@pytest.mark.parametrize("features", [None, GENRES], ids=["plain", "features"])
def test_one_more_user_moves_no_sum_beyond_its_bound_and_nothing_else(extra, features):
    def fit(data):
        return released(quietly(clone(PRIVATE).set_params(features=features), *data))

    check_neighbours(fit, with_user(*EXTRA[extra]), (USERS, ITEMS), unit=0)


@pytest.mark.parametrize(("first", "second"), list(itertools.combinations(EXTRA, 2)))
def test_another_user_moves_no_sum_beyond_its_bound(first, second):
    def fit(data):
        return released(quietly(clone(PRIVATE).set_params(adjacency="replace-one"), *data))

    check_neighbours(fit, with_user(*EXTRA[first]), with_user(*EXTRA[second]), unit=0)


def test_weights_do_not_move_a_sum_beyond_its_bound():
    weights = np.ones(len(USERS))

    def fit(data):
        return released(quietly(clone(PRIVATE).set_params(weighting="linear"), *data))

    planted = (*with_user([-1] * 3, [0, 1, 2]), np.r_[[1e9, 1.0, 1e-9], weights])
    check_neighbours(fit, planted, (USERS, ITEMS, weights), unit=0)


def test_the_guarantee_is_what_was_asked_for_and_the_noise_is_fresh():
    models = [quietly(PrivateImplicitRecommender(epsilon=3.0, catalogue=CATALOGUE), USERS, ITEMS) for _ in range(2)]
    guarantee = models[0].guarantee_
    assert guarantee.holds
    assert 2.99 < guarantee.epsilon <= 3.0
    assert (guarantee.unit, guarantee.adjacency) == ("user", "add-remove")
    assert any("catalogue" in assumption for assumption in guarantee.assumptions)
    assert not np.array_equal(models[0].item_weights_, models[1].item_weights_)
