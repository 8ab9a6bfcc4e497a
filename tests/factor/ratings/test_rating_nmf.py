"""Non-negative factors of ratings: the objective falls, missing is not zero, and holders agree."""

from itertools import pairwise

import numpy as np
import pytest
from recommender_contract import ITEMS, RATINGS, USERS, RecommenderContract
from scipy.optimize import nnls

from tacit import RatingNMF
from tacit.channel import Clear, run, run_together
from tacit.data import make_ratings
from tacit.errors import InvalidInputError
from tacit.factor.ratings.non_negative import rating_nmf_program
from tacit.factor.ratings.table import read_ratings


class TestRatingNMF(RecommenderContract):
    estimator = RatingNMF(3, sweeps=5, rating_range=(1, 5))


def test_users_solve_their_non_negative_problem():
    model = RatingNMF(3, sweeps=5, penalty=0.1).fit(USERS, ITEMS, RATINGS)
    for user in (0, 17):
        mine = user == USERS
        ridge = np.sqrt(0.1 * mine.sum()) * np.eye(3)
        expected, _ = nnls(np.r_[model.item_factors_[ITEMS[mine]], ridge], np.r_[RATINGS[mine], np.zeros(3)])
        assert np.allclose(model._users[user, :-1], expected, atol=1e-4)


def objective(model, penalty):
    p, q = model._users[:, :-1], model.item_factors_
    errors = RATINGS - np.einsum("ij,ij->i", p[USERS], q[ITEMS])
    lengths = (p[USERS] ** 2).sum() + (q[ITEMS] ** 2).sum()
    return (errors**2).sum() + penalty * lengths


def test_the_objective_never_rises():
    models = [RatingNMF(3, sweeps=n, penalty=0.05).fit(USERS, ITEMS, RATINGS) for n in range(1, 8)]
    values = [objective(model, 0.05) for model in models]
    assert all(after <= before * (1 + 1e-9) for before, after in pairwise(values))
    assert values[-1] < 0.98 * values[0]
    assert all(model.item_factors_.min() >= 0 and model._users.min() >= 0 for model in models)


def test_missing_is_not_zero():
    """Rank-one data with nine tenths missing is recovered."""
    rng = np.random.default_rng(0)
    truth = np.outer(rng.uniform(1, 2, 80), rng.uniform(1, 2, 60))
    users, items = np.nonzero(rng.random(truth.shape) < 0.1)
    model = RatingNMF(1, sweeps=50, penalty=1e-6).fit(users, items, truth[users, items])
    everyone = np.indices(truth.shape).reshape(2, -1)
    found = model.predict(*everyone, unknown="mean")
    known = np.isin(everyone[0], users) & np.isin(everyone[1], items)
    assert np.abs(found - np.clip(truth.ravel(), model.least_, model.greatest_))[known].max() < 0.05


def test_two_holders_learn_what_one_would():
    data = make_ratings(120, 30, ratings_per_user=10, random_state=6)

    def program(mine):
        ratings = data.users[mine], data.items[mine], data.ratings[mine]
        table = read_ratings(*ratings, catalogue=list(range(30)))
        return rating_nmf_program(table, n_factors=2, sweeps=5, penalty=0.05, random_state=0)

    whole = run(program(data.users >= 0), Clear()).public
    parts = run_together([program(data.users < 50), program(data.users >= 50)], Clear())
    assert np.allclose(parts[1].public["factors"], whole["factors"], atol=1e-8)


def test_negative_ratings_are_refused():
    with pytest.raises(InvalidInputError, match="not negative"):
        RatingNMF(1).fit([1, 2], [1, 2], [-1, 3])
