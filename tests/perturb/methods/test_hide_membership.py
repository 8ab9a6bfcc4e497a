import warnings

import numpy as np
import pytest
from perturbed_tables import TABLE as ANY_SIGN

from tacit.errors import InvalidInputError
from tacit.measure.clusters import cluster_labels
from tacit.perturb import HideMembership
from tacit.perturb.methods.hide_membership import Moves, matched_labels

TABLE = np.abs(ANY_SIGN)
CLUSTERS = HideMembership(n_clusters=3, scale="none").clusters(TABLE)


def wishes(count):
    rows = np.random.default_rng(0).permutation(len(TABLE))[:count]
    return {int(row): "anywhere else" if row % 2 else int((CLUSTERS[row] + 1) % 3) for row in rows}


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 12, 40])
def test_chosen_rows_move_and_no_others(count):
    hide = wishes(count)
    method = HideMembership(hide, n_clusters=3, scale="none")
    released = method.fit_transform(TABLE)
    assert sorted(method.changes_) == sorted(hide)
    assert not method.missed_.size
    assert not method.side_effects_.size
    np.testing.assert_array_equal(method.labels_, CLUSTERS)
    # the labels it reports are those that k-means finds in the release
    found = cluster_labels((TABLE, released), 3)[1]
    others = np.array([row not in hide for row in range(len(TABLE))])
    matched = matched_labels(CLUSTERS, found.astype(np.intp), others, 3)
    np.testing.assert_array_equal(matched, method.new_labels_)
    for row, target in hide.items():
        assert matched[row] != CLUSTERS[row] if target == "anywhere else" else matched[row] == target


@pytest.mark.slow
def test_the_loop_raises_beta_only_as_far_as_it_must():
    method = HideMembership(wishes(12), n_clusters=3, scale="none").fit(TABLE)
    assert [trial.alpha + trial.beta for trial in method.trials_] == pytest.approx([1.0] * len(method.trials_))
    *before, last = method.trials_
    assert last.missed == last.side_effects == 0
    assert all(trial.missed or trial.side_effects for trial in before)
    assert last.beta == method.level_


def test_what_could_not_be_hidden_is_reported():
    # no row can be moved by a factorisation in which memberships have no weight
    method = HideMembership({0: "anywhere else", 1: int((CLUSTERS[1] + 1) % 3)}, n_clusters=3, beta=0.0, scale="none")
    method.fit(TABLE)
    np.testing.assert_array_equal(np.union1d(method.missed_, method.changes_), [0, 1])
    assert method.missed_.size


def test_a_warning_says_what_the_loop_left_undone(monkeypatch):
    monkeypatch.setattr("tacit.perturb.methods.hide_membership.BETAS", (0.0,))
    with pytest.warns(UserWarning, match=r"rows not moved and \d+ side effects at beta 0"):
        HideMembership({1: int((CLUSTERS[1] + 1) % 3)}, n_clusters=3, scale="none").fit(TABLE)


@pytest.mark.slow
def test_nothing_is_said_where_all_went_well():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        method = HideMembership({0: "anywhere else"}, n_clusters=3).fit(TABLE)
    np.testing.assert_array_equal(method.changes_, [0])
    assert not method.missed_.size


def test_missed_rows_and_side_effects_are_counted_right():
    before, after = np.array([0, 0, 1, 1, 2, 2]), np.array([1, 0, 1, 2, 0, 2])
    found = Moves.of({0: 1, 3: "anywhere else", 5: 1}, before, 3)
    np.testing.assert_array_equal(found.missed(before, after), [5])
    np.testing.assert_array_equal(found.side_effects(before, after), [4])
    swapped = matched_labels(before, (after + 1) % 3, np.array([False, True, True, False, True, True]), 3)
    np.testing.assert_array_equal(swapped, after)


def test_memberships_are_those_asked_for():
    before = np.array([0, 0, 1, 2])
    C = Moves.of({0: 2, 2: "anywhere else"}, before, 3).memberships(before, 3, np.random.default_rng(0))
    np.testing.assert_array_equal(C[[0, 1, 3]], [[0, 0, 1], [1, 0, 0], [0, 0, 1]])
    assert C[2, 1] == 0
    assert C[2].sum() == pytest.approx(1)
    assert (C[2, [0, 2]] > 0).all()


@pytest.mark.parametrize(
    ("hide", "complaint"),
    [
        (None, "at least one row"),
        ({}, "at least one row"),
        ({500: "anywhere else"}, "rows from 0 to 119"),
        ({-1: "anywhere else"}, "rows from 0 to 119"),
        ({"a": "anywhere else"}, "rows from 0 to 119"),
        ({0: "somewhere"}, "'anywhere else' or a cluster from 0 to 2"),
        ({0: 3}, "'anywhere else' or a cluster from 0 to 2"),
        ({0: int(CLUSTERS[0])}, "other than the row's own"),
        ([0, 1], "a mapping"),
    ],
)
def test_moves_that_are_not_possible_are_refused(hide, complaint):
    with pytest.raises(InvalidInputError, match=complaint):
        HideMembership(hide, n_clusters=3, scale="none").fit(TABLE)


def test_clusters_have_no_numbers_without_a_seed():
    with pytest.raises(InvalidInputError, match="random_state"):
        HideMembership(random_state=None).clusters(TABLE)
