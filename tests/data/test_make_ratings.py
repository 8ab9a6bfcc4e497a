import tracemalloc

import numpy as np
import pytest
from scipy.stats import chisquare, norm, spearmanr

from tacit.data import Ratings, make_ratings
from tacit.data.ratings import _by_ranking, _by_rejection
from tacit.errors import InvalidInputError

ARRAYS = ("users", "items", "ratings", "user_biases", "item_biases", "user_factors", "item_factors", "popularity")


def gini(amounts):
    amounts = np.sort(amounts)
    n = len(amounts)
    return (2 * np.arange(1, n + 1) - n - 1) @ amounts / (n * amounts.sum())


def share_of_top_tenth(amounts):
    amounts = np.sort(amounts)[::-1]
    return amounts[: len(amounts) // 10].sum() / amounts.sum()


@pytest.fixture(scope="module")
def default() -> Ratings:
    return make_ratings()


@pytest.fixture(scope="module")
def large() -> Ratings:
    """As many users, items and ratings as MovieLens 1M."""
    return make_ratings(6040, 3706, ratings_per_user=165, random_state=3)


def test_same_seed_same_data_other_seed_other_data(default):
    again, other = make_ratings(), make_ratings(random_state=1)
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(default, name), getattr(again, name))
        assert not np.array_equal(getattr(default, name), getattr(other, name))


def test_shapes_types_and_ranges(default):
    assert default.shape == (600, 300)
    assert default.user_factors.shape == (600, 4)
    assert default.item_factors.shape == (300, 4)
    assert default.users.dtype == default.items.dtype == default.ratings.dtype == np.int64
    assert len(default.users) == len(default.items) == len(default.ratings)
    assert 0 <= default.items.min() <= default.items.max() < 300
    assert set(default.ratings) == {1, 2, 3, 4, 5}
    assert default.popularity.sum() == pytest.approx(1)


@pytest.mark.parametrize("data", ["default", "large"])
def test_nobody_rates_an_item_twice_and_pairs_are_sorted(data, request):
    data = request.getfixturevalue(data)
    pairs = data.users * data.shape[1] + data.items
    assert np.all(np.diff(pairs) > 0)


@pytest.mark.parametrize("per_user", [1, 3, 5, 6, 40, 150, 290])
def test_average_activity_is_the_one_asked_for(per_user):
    data = make_ratings(ratings_per_user=per_user)
    counts = np.bincount(data.users, minlength=600)
    # Rounding at random has a variance of at most 1/4 for each of 600 users.
    assert abs(counts.mean() - per_user) <= 4 * 0.5 / np.sqrt(600)
    assert counts.min() >= min(5, per_user)
    assert counts.max() <= 300


def test_all_items_rated_by_all_users():
    data = make_ratings(20, 15, ratings_per_user=15)
    np.testing.assert_array_equal(data.users, np.repeat(np.arange(20), 15))
    np.testing.assert_array_equal(data.items, np.tile(np.arange(15), 20))


def test_tails_of_popularity_and_activity(default, large):
    for data, item_gini, top_share, user_gini in ((default, 0.55, 0.35, 0.42), (large, 0.6, 0.4, 0.48)):
        per_item = np.bincount(data.items, minlength=data.shape[1])
        per_user = np.bincount(data.users)
        assert item_gini < gini(per_item) < 0.75
        assert top_share < share_of_top_tenth(per_item) < 0.6
        assert user_gini < gini(per_user) < 0.6
        # Most items are rare, and most users rate less than the average.
        assert np.median(per_item) < 0.5 * per_item.mean()
        assert np.median(per_user) < 0.7 * per_user.mean()
    assert np.bincount(large.users).max() > 1000
    assert (np.bincount(large.items, minlength=3706) < 20).mean() > 0.1


def test_items_are_rated_in_order_of_popularity_but_not_of_number(large):
    per_item = np.bincount(large.items, minlength=large.shape[1])
    assert spearmanr(per_item, large.popularity).statistic > 0.98
    assert abs(spearmanr(per_item, np.arange(len(per_item))).statistic) < 4 / np.sqrt(len(per_item))


@pytest.mark.parametrize("draw", [_by_ranking, _by_rejection])
def test_draws_without_replacement_one_after_the_other(draw):
    n_users, rates = 20_000, np.array([0.6, 0.25, 0.1, 0.05])
    counts = np.full(n_users, 2)
    found = np.concatenate([*draw(np.random.default_rng(7), np.arange(n_users), counts, rates)])
    users, items = np.divmod(np.sort(found), len(rates))
    np.testing.assert_array_equal(users, np.repeat(np.arange(n_users), 2))
    first, second = items.reshape(-1, 2).T
    # A pair comes in either order: first i by p_i, then j by p_j among the remaining items.
    pairs = [(i, j) for i in range(4) for j in range(i + 1, 4)]
    expected = [rates[i] * rates[j] * (1 / (1 - rates[i]) + 1 / (1 - rates[j])) for i, j in pairs]
    observed = [int(((first == i) & (second == j)).sum()) for i, j in pairs]
    assert chisquare(observed, n_users * np.array(expected)).pvalue > 0.001


@pytest.mark.parametrize("rating_range", [(1, 5), (0, 10), (-3, 3)])
def test_without_noise_a_rating_is_the_rounded_score(rating_range):
    data = make_ratings(noise=0, rating_range=rating_range)
    score = data.expected(data.users, data.items)
    np.testing.assert_array_equal(data.ratings, np.clip(np.floor(score + 0.5), *rating_range))
    assert set(data.ratings) == set(range(rating_range[0], rating_range[1] + 1))


@pytest.mark.parametrize("noise", [0.5, 0.8, 2.0])
def test_ratings_follow_the_truth(noise):
    data = make_ratings(2000, noise=noise, random_state=4)
    score = data.expected(data.users, data.items)
    # P(rating >= star) for each star above the least; their sum is the mean above the least.
    at_least = norm.cdf((score[:, None] - (np.arange(2, 6) - 0.5)) / noise)
    mean = 1 + at_least.sum(axis=1)
    slope, intercept = np.polyfit(mean, data.ratings, 1)
    residual = data.ratings - mean
    slope_error = residual.std() / (mean.std() * np.sqrt(len(mean)))
    assert abs(slope - 1) < 4 * slope_error < 0.1
    assert abs(intercept + slope * mean.mean() - mean.mean()) < 4 * residual.std() / np.sqrt(len(mean))
    expected = -np.diff(np.column_stack([np.ones(len(mean)), at_least, np.zeros(len(mean))]), axis=1)
    observed = np.bincount(data.ratings, minlength=6)[1:]
    # Probabilities differ between ratings, which only makes the statistic smaller than chi-square's.
    assert chisquare(observed, expected.sum(axis=0)).pvalue > 0.001


def test_ratings_correlate_with_the_score(default):
    score = default.expected(default.users, default.items)
    assert np.corrcoef(score, default.ratings)[0, 1] > 0.6


def test_score_is_biases_plus_tastes(default):
    users, items = np.array([0, 5, 599]), np.array([299, 0, 7])
    full = (
        default.global_mean
        + default.user_biases[:, None]
        + default.item_biases
        + default.user_factors @ default.item_factors.T
    )
    np.testing.assert_allclose(default.expected(users, items), full[users, items])
    np.testing.assert_allclose(default.expected(np.arange(600)[:, None], np.arange(300)), full)


def test_another_scale_is_the_same_data_stretched(default):
    wide = make_ratings(rating_range=(0, 40), noise=8.0)
    score = default.expected(default.users, default.items)
    np.testing.assert_array_equal(wide.items, default.items)
    np.testing.assert_allclose(wide.expected(wide.users, wide.items), 10 * (score - 1))
    # Both are the same noisy score, the one rounded to stars and the other to tenths of stars.
    within = (wide.ratings > 0) & (wide.ratings < 40)
    assert np.abs(wide.ratings / 10 + 1 - default.ratings)[within].max() <= 0.55 + 1e-9


@pytest.mark.parametrize("n_factors", [1, 4, 20])
def test_tastes_weigh_the_same_whatever_their_number(n_factors):
    data = make_ratings(800, 600, n_factors=n_factors, rating_range=(1, 9))
    tastes = data.user_factors @ data.item_factors.T
    assert tastes.std() == pytest.approx(0.5 * 2, rel=0.1)
    assert np.linalg.matrix_rank(tastes) == n_factors


def test_without_tastes_only_biases_remain():
    data = make_ratings(n_factors=0)
    by_bias = data.global_mean + data.user_biases[data.users] + data.item_biases[data.items]
    np.testing.assert_allclose(data.expected(data.users, data.items), by_bias)


def test_popular_items_are_better_liked(large):
    per_item = np.bincount(large.items, minlength=large.shape[1])
    often = per_item >= 20
    stars = np.bincount(large.items, large.ratings)[often] / per_item[often]
    # MovieLens has 0.37 (1M) and 0.47 (100K).
    assert 0.25 < np.corrcoef(np.log(per_item[often]), stars)[0, 1] < 0.65


def test_matrix_holds_exactly_the_ratings():
    data = make_ratings(50, 30, ratings_per_user=10, rating_range=(0, 2))
    matrix = data.to_csr()
    assert matrix.shape == (50, 30)
    assert matrix.nnz == len(data.ratings)
    assert (data.ratings == 0).any(), "the case of a stored zero is what this test is about"
    rows, columns = matrix.tocoo().coords
    np.testing.assert_array_equal(rows, data.users)
    np.testing.assert_array_equal(columns, data.items)
    np.testing.assert_array_equal(matrix.data, data.ratings)
    matrix.data[:] = 9
    assert data.ratings.max() == 2


@pytest.mark.slow
def test_two_million_ratings_without_a_dense_matrix():
    tracemalloc.start()
    data = make_ratings(50_000, 20_000, ratings_per_user=40)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(data.ratings) == pytest.approx(2_000_000, rel=0.001)
    # A byte for each of the 10^9 cells would be 1000 MB; the ratings themselves are 48 MB.
    assert peak < 200e6


@pytest.mark.parametrize(
    "settings",
    [
        {"n_users": 0},
        {"n_items": 2.5},
        {"n_factors": -1},
        {"ratings_per_user": 0},
        {"ratings_per_user": 301},
        {"rating_range": (5, 1)},
        {"rating_range": (1, 1)},
        {"rating_range": (1.0, 5.0)},
        {"rating_range": (1, 3, 5)},
        {"rating_range": 5},
        {"noise": -0.1},
        {"noise": float("inf")},
        {"noise": float("nan")},
        {"noise": "much"},
        {"noise": True},
        {"random_state": -1},
        {"random_state": None},
    ],
)
def test_impossible_settings_are_refused(settings):
    with pytest.raises(InvalidInputError, match=next(iter(settings))):
        make_ratings(**settings)
