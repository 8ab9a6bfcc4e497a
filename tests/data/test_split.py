"""Splits of private data: one unit's presence changes nothing for the others."""

from collections import Counter

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse, stats

from tacit.data.split import held_out_by_seed, held_out_pairs, held_out_rows, held_out_users, new_key, parts_of_rows
from tacit.errors import InvalidInputError

KEY = bytes(range(32))
X = np.random.default_rng(0).standard_normal((400, 3))


@pytest.mark.parametrize("place", [0, 1, 200, 399])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, sparse.csr_matrix, sparse.coo_array])
def test_removing_a_row_changes_nothing_for_the_others(place, form):
    rows = np.where(X > 0.5, X, 0.0)
    rows = rows[np.unique(rows, axis=0, return_index=True)[1]]
    place = min(place, len(rows) - 1)
    whole = held_out_rows(form(rows), fraction=0.3, key=KEY)
    less = held_out_rows(form(np.delete(rows, place, axis=0)), fraction=0.3, key=KEY)
    assert np.array_equal(np.delete(whole, place), less)
    assert 0 < whole.sum() < len(rows)


@pytest.mark.slow
@given(
    rows=st.lists(st.sampled_from("abc"), min_size=1, max_size=40),
    place=st.integers(0, 39),
    key=st.binary(min_size=32, max_size=32),
)
@settings(deadline=None)
def test_with_copies_the_kept_rows_differ_by_the_removed_one_at_most(rows, place, key):
    place %= len(rows)
    codes = np.array([ord(row) for row in rows])

    def kept(some):
        return Counter(some[~held_out_rows(some, fraction=0.5, key=key)].tolist())

    with_it, without = kept(codes), kept(np.delete(codes, place))
    difference = with_it - without
    assert not without - with_it
    assert difference.total() <= 1
    assert set(difference) <= {codes[place]}


def test_copies_do_not_all_go_the_same_way():
    out = held_out_rows(np.ones((10_000, 2)), fraction=0.2)
    assert 0.17 < out.mean() < 0.23


def test_the_label_is_part_of_the_row():
    labels = np.array(["a", "b"] * 200)
    plain = held_out_rows(X, labels, fraction=0.5, key=KEY)
    other = held_out_rows(X, np.where(np.arange(400) == 7, "c", labels), fraction=0.5, key=KEY)
    assert np.array_equal(np.delete(plain, 7), np.delete(other, 7))
    assert not np.array_equal(plain, held_out_rows(X, fraction=0.5, key=KEY))


def test_the_type_of_a_column_changes_nothing():
    whole = np.arange(50) % 7
    as_float, as_text = whole.astype(np.float32), whole.astype(str)
    out = held_out_rows(whole, whole, fraction=0.5, key=KEY)
    assert np.array_equal(out, held_out_rows(as_float, as_text, fraction=0.5, key=KEY))
    assert np.array_equal(held_out_rows([-0.0], fraction=0.5, key=KEY), held_out_rows([0.0], fraction=0.5, key=KEY))
    users = pl.Series([1, 2, 3, 4] * 20)
    pairs = held_out_pairs(users, whole[:80].repeat(2)[:80], fraction=0.5, key=KEY)
    same = held_out_pairs(users.cast(pl.String), whole[:80].repeat(2)[:80].astype(float), fraction=0.5, key=KEY)
    assert np.array_equal(pairs, same)


def test_stored_zeros_and_the_order_of_entries_change_nothing():
    stored = sparse.csr_array((np.array([2.0, 1.0, 0.0]), np.array([2, 0, 1]), np.array([0, 3])), shape=(1, 3))
    outs = [
        [held_out_rows(rows, fraction=0.5, key=bytes([n]) * 32)[0] for n in range(64)]
        for rows in (stored, sparse.csr_array(stored.toarray()))
    ]
    assert outs[0] == outs[1]


def test_removing_a_user_changes_nothing_for_other_users():
    random = np.random.default_rng(1)
    users, items = random.integers(0, 40, 900), random.integers(0, 30, 900)
    whole = held_out_pairs(users, items, fraction=0.3, key=KEY)
    for user in (users[0], users[-1], 17):
        others = users != user
        assert np.array_equal(whole[others], held_out_pairs(users[others], items[others], fraction=0.3, key=KEY))


def test_user_and_item_are_not_confused():
    one = [held_out_pairs(["1"], ["23"], fraction=0.5, key=bytes([n]) * 32)[0] for n in range(64)]
    two = [held_out_pairs(["12"], ["3"], fraction=0.5, key=bytes([n]) * 32)[0] for n in range(64)]
    assert one != two


def test_parts_of_rows():
    parts = parts_of_rows(X, 3, key=KEY)
    assert np.array_equal(parts[1:], parts_of_rows(X[1:], 3, key=KEY))
    assert stats.chisquare(np.bincount(parts, minlength=3)).pvalue > 1e-6
    with pytest.raises(InvalidInputError):
        parts_of_rows(X, 0)


def test_the_decisions_are_as_those_of_independent_coins():
    """Over keys, each row is held out with the requested probability, and two rows independently."""
    decisions = np.stack([held_out_rows(X[:2], fraction=0.3) for _ in range(4000)])
    held_out = np.bincount(decisions.sum(axis=1), minlength=3)
    assert stats.chisquare(held_out, 4000 * np.array([0.49, 0.42, 0.09])).pvalue > 1e-6
    assert stats.binomtest(int(decisions[:, 0].sum()), 4000, 0.3).pvalue > 1e-6


def test_the_key_is_new_and_comes_from_the_operating_system(monkeypatch):
    assert new_key() != new_key()
    assert len(new_key()) == 32
    assert not np.array_equal(held_out_rows(X, fraction=0.5), held_out_rows(X, fraction=0.5))
    monkeypatch.setattr("os.urandom", bytes)
    assert np.array_equal(held_out_rows(X, fraction=0.5), held_out_rows(X, fraction=0.5, key=bytes(32)))


def test_a_split_by_seed_repeats():
    out = held_out_by_seed(1000, fraction=0.1, random_state=3)
    assert np.array_equal(out, held_out_by_seed(1000, fraction=0.1, random_state=3))
    assert 60 < out.sum() < 140


@pytest.mark.parametrize("fraction", [0, 1, -0.1, 2.0, float("nan")])
def test_a_fraction_that_is_none_is_refused(fraction):
    for call in (
        lambda: held_out_rows(X, fraction=fraction),
        lambda: held_out_pairs([1], [2], fraction=fraction),
        lambda: held_out_by_seed(9, fraction=fraction, random_state=0),
    ):
        with pytest.raises(InvalidInputError, match="between 0 and 1"):
            call()


def test_users_are_held_out_whole_and_each_by_itself():
    users, key = np.random.default_rng(0).integers(0, 400, 5000), b"k" * 32
    out = held_out_users(users, fraction=0.2, key=key)
    for user in range(400):
        assert len(set(out[users == user])) <= 1
    kept = users != users[0]
    assert np.array_equal(held_out_users(users[kept], fraction=0.2, key=key), out[kept])
    assert np.array_equal(held_out_users([str(user) for user in users], fraction=0.2, key=key), out)
    # a binomial draw of 400 users at 0.2 is within 0.1 of it with probability above 1 - 1e-6
    assert 0.1 < np.mean([out[users == user][0] for user in np.unique(users)]) < 0.3
    assert not np.array_equal(held_out_users(users, fraction=0.5), held_out_users(users, fraction=0.5))
