import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from perturbed_tables import TABLE, make_table
from scipy.spatial.distance import pdist

from tacit.errors import InvalidInputError
from tacit.perturb import NeighbourhoodAware
from tacit.perturb.methods.neighbourhood_aware import leader_clusters


def naive_leaders(rows, radius):
    """Algorithm 6 computed from all distances, removing rows once they are placed."""
    free, members, count = list(range(len(rows))), np.full(len(rows), -1), 0
    while free:
        leader = free[0]
        taken = [row for row in free if row == leader or np.linalg.norm(rows[row] - rows[leader]) < radius]
        members[taken] = count
        free = [row for row in free if row not in taken]
        count += 1
    return members


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 2**31), radius=st.floats(0.01, 3))
def test_leader_clustering_agrees_with_all_distances(seed, radius):
    rows = np.random.default_rng(seed).random((60, 3)).round(1)  # rounded: duplicates, and distances that are equal
    # a distance equal to the radius up to rounding may count as inside or outside
    assume(np.abs(pdist(rows) - radius).min() > 1e-9)
    np.testing.assert_array_equal(leader_clusters(rows, radius).members, naive_leaders(rows, radius))


@pytest.mark.parametrize("radius", range(1, 9))
def test_rows_at_the_radius_itself_are_not_near(radius):
    rows = np.random.default_rng(radius).integers(0, 10, size=(200, 3)).astype(float)  # whole numbers: no rounding
    assert (pdist(rows) == radius).any()
    np.testing.assert_array_equal(leader_clusters(rows, radius).members, naive_leaders(rows, radius))


def test_rows_join_leaders_from_before():
    rows = np.random.default_rng(0).random((100, 2))
    known = leader_clusters(rows[:60], 0.2)
    again = leader_clusters(rows[:60], 0.2, known.leaders)
    np.testing.assert_array_equal(again.members, known.members)
    assert len(again.leaders) == len(known.leaders)
    new = leader_clusters(np.array([[50.0, 50.0], [50.1, 50.0]]), 0.2, known.leaders)
    np.testing.assert_array_equal(new.members, [len(known.leaders)] * 2)


def test_values_stay_between_their_place_and_its_mirror_image():
    method = NeighbourhoodAware(3.0, scale="none", random_state=0)
    released = method.fit_transform(TABLE)
    found = leader_clusters(TABLE, 3.0)
    centres = found.leaders[found.members]
    assert (np.abs(released - centres) <= np.abs(TABLE - centres) + 1e-12).all()
    assert (np.sign(released - TABLE) * np.sign(centres - TABLE) >= 0).all()
    assert method.n_neighbourhoods_ == len(found.leaders)
    # leaders are released unchanged, and are counted
    assert method.n_unchanged_ == (released == TABLE).all(axis=1).sum() >= len(found.leaders)


def test_about_means_only_lonely_rows_stay_and_means_are_kept_on_average():
    method = NeighbourhoodAware(4.0, centre="mean", scale="none", random_state=0)
    method.fit(TABLE)
    sizes = np.bincount(leader_clusters(TABLE, 4.0).members)
    assert method.n_unchanged_ == (sizes == 1).sum() < method.n_neighbourhoods_


def test_no_radius_changes_nothing_and_the_largest_makes_one_neighbourhood():
    tiny = NeighbourhoodAware(1e-9, scale="none", random_state=0)
    np.testing.assert_array_equal(tiny.fit_transform(TABLE), TABLE)
    huge = NeighbourhoodAware(1e9, random_state=0).fit(TABLE)
    assert huge.n_neighbourhoods_ == 1


@pytest.mark.parametrize("target", [0.02, 0.1, 0.4])
def test_targets_between_two_radii_are_reached_by_strength(target):
    rows, _ = make_table(rows=5)  # so few rows that neighbourhoods change in large jumps
    method = NeighbourhoodAware(target_distortion=target, random_state=0).fit(rows)
    assert method.distortion_ == pytest.approx(target, rel=1e-3)
    assert 0 < method.strength_ <= 2


def test_new_rows_near_fitted_ones_move_even_one_at_a_time():
    method = NeighbourhoodAware(0.5, random_state=0).fit(TABLE)
    row = TABLE[[3]] + 0.01
    assert not np.array_equal(method.transform(row), row)
    np.testing.assert_array_equal(method.transform(TABLE), method.fit_transform(TABLE))


@pytest.mark.parametrize(
    "method", [NeighbourhoodAware(0.0), NeighbourhoodAware(-1.0), NeighbourhoodAware(1.0, centre="median")]
)
def test_settings_that_make_no_sense(method):
    with pytest.raises(InvalidInputError):
        method.fit(TABLE)
