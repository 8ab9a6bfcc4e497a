"""Recommenders whose users are spread over several holders fit the same model as one holder with all users."""

from dataclasses import replace

import numpy as np
import pytest

from tacit.channel import Clear, Noisy, Plan, run, run_together
from tacit.data import make_ratings
from tacit.errors import ProtocolError
from tacit.factor.ratings.als import als_program
from tacit.factor.ratings.item_moments import ItemMomentSettings, item_program
from tacit.factor.ratings.non_negative import rating_nmf_program
from tacit.factor.ratings.table import read_ratings

ROUNDS = 2
N_USERS, N_ITEMS = 400, 40
DATA = make_ratings(N_USERS, N_ITEMS, n_factors=2, ratings_per_user=15, noise=0.5, random_state=3)
CATALOGUE = list(range(N_ITEMS))
HOLDERS = [range(150), range(150, 151), range(151, N_USERS)]  # one of them has a single user


def table_of(users):
    mine = np.isin(DATA.users, list(users))
    return read_ratings(DATA.users[mine], DATA.items[mine], DATA.ratings[mine], catalogue=CATALOGUE)


def budgets(users):
    """Every third user contributes half as much as the bound allows."""
    return np.where(np.arange(N_USERS)[list(users)] % 3 == 0, 0.5, 1.0)


def private(plan, personal=False):
    settings = ItemMomentSettings(3, ROUNDS, N_ITEMS)

    def program(users):
        table = table_of(users)
        table = replace(table, values=(table.values - 3) / 2)
        return item_program(table, settings, budgets(users) if personal else None)

    return program


PLAIN = {
    "moments": private(None),
    "covariance, budgets of their own": private(None, personal=True),
    "als": lambda users: als_program(table_of(users), n_factors=2, sweeps=3, random_state=0),
    "non-negative": lambda users: rating_nmf_program(
        table_of(users), n_factors=2, sweeps=4, penalty=0.05, random_state=0
    ),
}


def same(found, expected, tolerance):
    assert set(found) == set(expected)
    for name in expected:
        assert np.allclose(found[name], expected[name], atol=tolerance), name


@pytest.mark.parametrize("method", PLAIN)
def test_without_noise_holders_together_are_the_pooled_fit(method):
    program = PLAIN[method]
    pooled = run(program(range(N_USERS)), Clear()).public
    together = run_together([program(users) for users in HOLDERS], Clear())
    assert pooled["factors"].shape[1] > 0
    # als computes in single precision, and its sums are formed in another order
    same(together[0].public, pooled, 2e-3 if method == "als" else 1e-7)


@pytest.mark.parametrize("personal", [False, True])
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_with_the_same_noise_holders_together_are_the_pooled_private_fit(adjacency, personal):
    """The noise is added once, to the total, and is the same: the only difference is the grid that every term is rounded to."""
    plan = Plan.for_budget(
        50.0, 1e-6, steps=ItemMomentSettings(3, ROUNDS, N_ITEMS).split, unit="user", adjacency=adjacency
    )
    program = private(plan, personal)
    alone, shared = Noisy(plan, insecure_seed=7), Noisy(plan, insecure_seed=7)
    pooled = run(program(range(N_USERS)), alone).public
    together = run_together([program(users) for users in HOLDERS], shared)
    assert pooled["factors"].shape[1] > 0
    for one in together:
        same(one.public, pooled, 1e-5)
    assert shared.transcript.releases == alone.transcript.releases
    assert shared.guarantee == alone.guarantee
    other = run_together([program(users) for users in HOLDERS], Noisy(plan, insecure_seed=8))[0].public
    assert np.abs(other["biases"] - pooled["biases"]).max() > 1e-3, "another noise must show, or the test shows nothing"


def test_holders_with_different_items_are_refused():
    """The list of items is public and must be the same for all: the sums are over items."""

    def program(users, items):
        mine = np.isin(DATA.users, list(users)) & np.isin(DATA.items, items)
        table = read_ratings(DATA.users[mine], DATA.items[mine], DATA.ratings[mine], catalogue=items)
        return rating_nmf_program(table, n_factors=2, sweeps=1, penalty=0.05, random_state=0)

    with pytest.raises(ProtocolError, match="same"):
        run_together([program(range(150), CATALOGUE), program(range(150, N_USERS), CATALOGUE[:-1])], Clear())
