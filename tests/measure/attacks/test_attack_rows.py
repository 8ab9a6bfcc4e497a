"""Attacks on rows: linkage, hidden attributes, membership; with a leak and without one."""

import numpy as np
import polars as pl
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import binom
from tables_to_attack import correlated, independent_copy, rotated, truncated

from tacit.errors import InvalidInputError
from tacit.measure.attacks import attribute_inference, fraction_interval, membership, record_linkage, unchanged_linkage
from tacit.measure.attacks.linkage import places_of_own
from tacit.measure.attacks.members import _area

ATTACKS = (record_linkage, attribute_inference, membership)


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_unchanged_table_gives_everything_away(attack):
    table = correlated(own=1.0)
    found = attack(table, table)
    assert found.recovered == 1
    assert found.leaks


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_independent_table_gives_nothing_away(attack):
    """Also where columns predict each other, which others' rows show as well."""
    for seed in range(5):
        table, other = independent_copy(seed)
        found = attack(table, other)
        assert not found.leaks
        assert found.recovered == pytest.approx(found.baseline, abs=0.01)
        assert found.interval[0] <= found.baseline


@pytest.mark.parametrize("attack", ATTACKS)
def test_translation_and_units_protect_nothing(attack):
    table = correlated(own=1.0)
    assert attack(table, table * np.arange(1, 9) + 1000).recovered == 1


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_release_of_one_value_gives_nothing_away(attack):
    table = correlated()
    found = attack(table, np.full_like(table, 3.0))
    assert not found.leaks
    assert found.recovered == pytest.approx(found.baseline, abs=0.01)


def test_truncated_svd_links_almost_every_row():
    table = correlated(1, n_factors=4, own=0.3)
    found = record_linkage(table, truncated(table, 6))
    assert found.recovered > 0.97
    assert found.top_5.recovered > 0.99
    assert found.baseline == 1 / 600
    assert found.top_5.baseline == 5 / 600
    assert found.interval[0] > 0.95


def test_more_noise_links_fewer_rows():
    table = correlated(2, own=1.0)
    noise = np.random.default_rng(2).normal(size=table.shape)
    shares = [record_linkage(table, table + level * noise).recovered for level in (0.1, 0.5, 2.0)]
    assert shares[0] > 0.95
    assert shares == sorted(shares, reverse=True)
    assert shares[2] < 0.2


def test_a_rotation_hides_rows_from_linkage_alone():
    """One attack is not enough: an attacker with some known rows can undo a rotation."""
    table = correlated(3, own=1.0)
    assert record_linkage(table, rotated(table)).recovered < 0.05


def test_knowing_fewer_columns_links_fewer_rows():
    table = correlated(4, own=1.0)
    noisy = table + 0.3 * np.random.default_rng(4).normal(size=table.shape)
    every, some, one = (record_linkage(table, noisy, columns=known) for known in (None, [0, 1, 2], ["column 5"]))
    assert every.recovered > some.recovered > one.recovered


@pytest.mark.parametrize("seed", range(10))
def test_places_of_the_own_row_by_all_distances(seed, monkeypatch):
    monkeypatch.setattr("tacit.measure.attacks.linkage._FIRST_POINTS", 8)
    monkeypatch.setattr("tacit.measure.neighbours.QUERIES_AT_ONCE", 16)
    generator = np.random.default_rng(seed)
    # Whole numbers, so that many distances are equal.
    points, queries = generator.integers(0, 4, size=(2, 60, 3)).astype(float)
    queries = np.where(generator.random((60, 1)) < 0.7, points, queries)
    own = np.arange(60)
    distances = cdist(queries, points)
    mine = distances[own, own][:, None]
    nearer, tied = places_of_own(points, queries, own)
    expected = (distances < mine - 1e-9).sum(axis=1)
    np.testing.assert_array_equal(np.minimum(nearer, 5), np.minimum(expected, 5))
    still_counted = expected < 5
    np.testing.assert_array_equal(tied[still_counted], (np.abs(distances - mine) <= 1e-9).sum(axis=1)[still_counted])


def test_equally_near_rows_are_guessed_among():
    """Two values, ten rows each: a row is found with one chance in ten, on a list of five with five."""
    table = np.repeat([[0.0, 1.0], [1.0, 0.0]], 10, axis=0)
    found = record_linkage(table, table)
    assert found.recovered == pytest.approx(0.1)
    assert found.top_5.recovered == pytest.approx(0.5)


def test_a_sample_of_targets():
    table = correlated(5, own=1.0)
    noisy = table + np.random.default_rng(5).normal(size=table.shape)
    every, some = record_linkage(table, noisy), record_linkage(table, noisy, sample=150)
    assert (every.n_targets, some.n_targets) == (600, 150)
    # chance is among all released rows, whichever rows are searched for
    assert some.baseline == every.baseline
    assert some.interval[0] < every.recovered < some.interval[1]


@pytest.mark.slow
def test_intervals_of_shares_cover():
    """Exactly, for 60 rows: whatever the true fraction, the interval contains it with probability at least 95%."""
    for share in np.linspace(0.01, 0.99, 50):
        covered = [low <= share <= high for low, high in (fraction_interval(hits, 60) for hits in range(61))]
        assert binom.pmf(np.arange(61), 60, share)[covered].sum() >= 0.95
    assert fraction_interval(60, 60)[1] == 1
    between = fraction_interval(3.5, 60)
    assert between == (fraction_interval(3, 60)[0], fraction_interval(4, 60)[1])


def test_hidden_attributes_come_from_the_own_row_or_from_the_population():
    table = correlated(6, n_columns=4, own=0.02)
    noisy = table + 0.001 * np.random.default_rng(6).normal(size=table.shape)
    found = attribute_inference(table, noisy)
    # Two factors explain four columns: other people's rows already predict much, and that is the baseline.
    assert found.baseline > found.best_constant
    assert found.recovered > found.baseline
    assert found.leaks
    assert set(found.by_column) == {f"column {place}" for place in range(4)}
    assert np.mean(list(found.by_column.values())) == pytest.approx(found.recovered)


def test_the_best_constant_by_hand():
    # standard deviation 2: within 0.25 of it, 0.5, one guess reaches 0, 0 and 1 of the four values, not 5
    values = np.array([0.0, 0.0, 1.0, 5.0])
    table = np.column_stack([values, values]) / values.std()
    found = attribute_inference(table, table, tolerance=0.5 / values.std())
    assert found.best_constant == 0.75


def test_membership_beside_outsiders():
    table, others = independent_copy(7, own=1.0)
    noise = 0.3 * np.random.default_rng(7).normal(size=table.shape)
    inside = membership(table, table + noise, outsiders=others)
    assert inside.leaks
    assert inside.recovered > 0.9
    assert inside.found_at_1_percent > 0.3
    nobody = membership(others, table + noise, outsiders=independent_copy(8, own=1.0)[0])
    assert nobody.recovered < 0.9
    fair = independent_copy(7, n_rows=1800, own=1.0)
    third = membership(fair[0][:900], fair[1][:900], outsiders=fair[0][900:])
    assert not third.leaks
    assert third.recovered == pytest.approx(0.5, abs=0.05)


def test_without_outsiders_membership_compares_a_row_with_its_absence():
    table = correlated(9, own=1.0)
    noisy = table + 0.3 * np.random.default_rng(9).normal(size=table.shape)
    with_others = membership(table, noisy, outsiders=independent_copy(9, own=1.0)[1])
    alone = membership(table, noisy)
    assert alone.recovered == pytest.approx(with_others.recovered, abs=0.06)


def test_the_area_by_hand():
    # pairs in which the member is nearer: 1 < 2, 1 < 4, 3 < 4, and half of 2 = 2 ... of six
    area, _ = _area(np.array([1.0, 3.0, 2.0]), np.array([2.0, 4.0]), paired=False)
    assert area == pytest.approx((2 + 1 + 1.5) / 6)


@pytest.mark.parametrize("attack", ATTACKS)
def test_bad_input(attack):
    table = correlated()
    with pytest.raises(InvalidInputError, match="as original has"):
        attack(table, table[1:])
    with pytest.raises(InvalidInputError, match="rows"):
        attack(table[:1], table[:1])
    with pytest.raises(InvalidInputError, match="a single value in column 0"):
        attack(np.ones_like(table), table)
    with pytest.raises(InvalidInputError, match="NaN or infinity"):
        attack(np.where(np.arange(600)[:, None] == np.arange(8), [np.nan, *[1.0] * 7], table), table)
    with pytest.raises(InvalidInputError, match="sample to be an integer of at least 2"):
        attack(table, table, sample=1)


def test_bad_settings():
    table = correlated()
    for wrong in (["age"], [8], []):
        with pytest.raises(InvalidInputError, match="columns among"):
            record_linkage(table, table, columns=wrong)
    with pytest.raises(InvalidInputError, match="at least two columns"):
        attribute_inference(table[:, :1], table[:, :1])
    with pytest.raises(InvalidInputError, match="tolerance to be a positive"):
        attribute_inference(table, table, tolerance=0)
    with pytest.raises(InvalidInputError, match="at least two rows of 8 columns"):
        membership(table, table, outsiders=table[:, :7])


def test_unchanged_columns_link_who_is_alone_in_them():
    keys = np.array([["10115", "f"], ["10115", "f"], ["10117", "f"], ["10119", "m"], ["10119", "f"]])
    found = unchanged_linkage(keys)
    assert found.recovered == pytest.approx((0.5 + 0.5 + 1 + 1 + 1) / 5)
    assert found.baseline == pytest.approx(0.2)
    assert found.top_5.recovered == 1
    frame = pl.DataFrame({"zip": keys[:, 0], "sex": keys[:, 1], "born": [1.5, 1.5, None, 2.0, 2.0]})
    assert unchanged_linkage(frame).recovered == found.recovered
    assert unchanged_linkage(frame.with_columns(born=pl.Series([1.0, 2.0, 3.0, 4.0, 5.0]))).recovered == 1
    nobody = unchanged_linkage(np.zeros((500, 2)))
    assert nobody.recovered == pytest.approx(1 / 500)
    assert nobody.baseline == 1 / 500
    assert not nobody.leaks
    with pytest.raises(InvalidInputError, match="unchanged columns"):
        unchanged_linkage(np.zeros(4))


def test_linkage_looks_among_rows_that_agree_in_unchanged_columns():
    """By brute force: the nearest released row among those with the same key."""
    generator = np.random.default_rng(0)
    table, keys = generator.normal(size=(300, 3)), generator.integers(0, 40, size=(300, 1))
    keys[0] = 99  # alone
    released = table + 1.5 * generator.normal(size=table.shape)
    found = record_linkage(table, released, unchanged=keys)
    points = (released - released.mean(axis=0)) / released.std(axis=0)
    targets = (table - table.mean(axis=0)) / table.std(axis=0)
    distances = np.linalg.norm(targets[:, None] - points[None], axis=2)
    distances[keys[:, 0][:, None] != keys[:, 0][None]] = np.inf
    assert found.recovered == pytest.approx(np.mean(distances.argmin(axis=1) == np.arange(300)))
    rank = (distances < np.diag(distances)[:, None]).sum(axis=1)
    assert found.top_5.recovered == pytest.approx(np.mean(rank < 5))
    assert record_linkage(table, released).recovered < found.recovered
    sampled = record_linkage(table, released, unchanged=keys, sample=100, random_state=3)
    assert sampled.recovered == pytest.approx(found.recovered, abs=0.15)
    assert sampled.n_targets == 100
    assert record_linkage(table, released, unchanged=np.arange(300)[:, None]).recovered == 1
    with pytest.raises(InvalidInputError, match="unchanged columns"):
        record_linkage(table, released, unchanged=keys[:10])
