"""Non-negative factors of ratings with privacy: the plain ones without noise, near them with little, per user."""

import numpy as np
import pytest

import tacit
from tacit import PrivateRatingNMF, RatingNMF
from tacit.data import make_ratings
from tacit.errors import InvalidInputError
from tacit.testing import check_neighbours

DATA = make_ratings(1500, 60, ratings_per_user=30, random_state=2)
RATINGS = DATA.users, DATA.items, DATA.ratings
TEST = np.random.default_rng(0).random(len(DATA.ratings)) < 0.1
TRAIN = tuple(part[~TEST] for part in RATINGS)
INF = float("inf")


def error(model):
    predicted = model.predict(DATA.users[TEST], DATA.items[TEST], unknown="mean")
    return float(np.sqrt(np.mean((predicted - DATA.ratings[TEST]) ** 2)))


@pytest.mark.slow
def test_infinite_epsilon_is_the_plain_factorisation():
    private = PrivateRatingNMF(3, epsilon=INF).fit(*TRAIN)
    plain = RatingNMF(3, rating_range=(1, 5)).fit(*TRAIN)
    assert np.array_equal(private.item_factors_, plain.item_factors_)
    assert error(private) == error(plain)
    assert not private.guarantee_.holds


@pytest.mark.slow
def test_factors_are_not_negative_and_predict_better_than_the_mean():
    model = PrivateRatingNMF(3, epsilon=10.0, insecure_seed=1).fit(*TRAIN)
    assert model.item_factors_.shape == (60, 3)
    assert model.item_factors_.min() >= 0
    assert model.user_factors([3, 5], [5, 1]).min() >= 0
    mean = float(np.sqrt(np.mean((DATA.ratings[TEST] - TRAIN[2].mean()) ** 2)))
    assert error(model) < 0.95 * mean
    assert error(model) < error(PrivateRatingNMF(3, epsilon=0.01, insecure_seed=1).fit(*TRAIN))


def test_the_guarantee_is_per_user_and_the_file_holds_items_only(tmp_path):
    model = PrivateRatingNMF(2, epsilon=2.0).fit(*TRAIN)
    assert 1.99 < model.guarantee_.epsilon <= 2.0
    assert model.guarantee_.unit == "user"
    assert any("list of items is public" in one for one in model.guarantee_.assumptions)
    model.save(tmp_path / "model")
    again = tacit.load(tmp_path / "model")
    assert np.array_equal(again.item_factors_, model.item_factors_)
    assert again.predict_for([3], [5.0], [4]).shape == (1,)
    with pytest.raises(InvalidInputError):
        again.predict([DATA.users[0]], [DATA.items[0]])


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_a_whole_history_moves_no_sum_beyond_its_bound(adjacency):
    few = tuple(part[DATA.users < 200] for part in RATINGS)
    others = [np.r_[few[0], np.full(60, 999)], np.r_[few[1], np.arange(60)]]
    extreme = (*others, np.r_[few[2], np.arange(60) % 2 * 4.0 + 1])
    friendly = (*others, np.r_[few[2], np.full(60, 5.0)])

    def fit(data):
        settings = {"catalogue": list(range(60)), "adjacency": adjacency, "insecure_seed": 3}
        model = PrivateRatingNMF(2, epsilon=20.0, **settings).fit(*data)
        return {name: getattr(model, name) for name in model._released if hasattr(model, name)}

    pair = (few, extreme) if adjacency == "add-remove" else (friendly, extreme)
    assert 0.3 < check_neighbours(fit, *pair).largest <= 1 + 1e-9


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"n_factors": 0}, "n_factors"),
        ({"rating_range": (-1, 1)}, "below 0"),
        ({"rating_range": None}, "rating_range"),
        ({"penalty": 0}, "penalty"),
        ({"epsilon": 0}, "epsilon"),
    ],
)
def test_bad_parameters(settings, said):
    with pytest.raises(InvalidInputError, match=said):
        PrivateRatingNMF(**settings).fit(*TRAIN)
