"""Clusters: labels matched, the same starts for both tables, bad input."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ortho_group

from tacit.errors import InvalidInputError
from tacit.measure import clustering_accuracy, label_agreement
from tacit.measure.clusters import matched_labels


def groups(seed=0, n_rows=90):
    generator = np.random.default_rng(seed)
    centres = 8 * generator.normal(size=(3, 2))
    return generator, np.repeat(centres, n_rows // 3, axis=0) + generator.normal(size=(n_rows, 2))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=30))
@settings(derandomize=True, deadline=None)
def test_agreement_is_the_best_over_all_pairings(pairs):
    one, other = map(np.array, zip(*pairs, strict=True))
    best = max(np.mean(np.array(order)[other] == one) for order in permutations(range(4)))
    assert label_agreement(one, other) == pytest.approx(best)
    assert label_agreement(other, one) == pytest.approx(best)


def test_numbers_left_over_are_new_ones():
    assert matched_labels([0, 0, 1, 1], [5, 5, 7, 9]).tolist() in ([0, 0, 1, 2], [0, 0, 2, 1])


@pytest.mark.slow
@given(st.integers(0, 1000), st.integers(1, 7))
@settings(derandomize=True, deadline=None, max_examples=30)
def test_maps_that_keep_distances_keep_all_clusters(seed, n_clusters):
    """Also where k-means has many optima: both tables start from the same rows."""
    table = np.random.default_rng(seed).normal(size=(60, 3))
    assert clustering_accuracy(table, table, n_clusters) == 1
    turned = 3 * table @ ortho_group.rvs(3, random_state=seed) + 7
    assert clustering_accuracy(table, turned, n_clusters) == 1


def test_rows_moved_into_another_group_are_counted():
    _, table = groups()
    moved = table.copy()
    moved[:4] = table[40:44]
    assert clustering_accuracy(table, table, 3) == 1
    assert clustering_accuracy(table, moved, 3) == pytest.approx(1 - 4 / 90)


def test_a_shuffled_table_keeps_little():
    generator, table = groups()
    assert clustering_accuracy(table, generator.permutation(table), 3) < 0.6


def test_a_release_of_fewer_distinct_rows_is_measured_without_warnings(recwarn):
    _, table = groups()
    assert clustering_accuracy(table, np.zeros_like(table), 3) == pytest.approx(1 / 3)
    assert not recwarn.list


def test_bad_input():
    table = np.repeat([[0.0], [1.0]], 5, axis=0)
    with pytest.raises(InvalidInputError, match="at most 2, the number of distinct rows"):
        clustering_accuracy(table, table, 3)
    with pytest.raises(InvalidInputError, match="n_clusters to be an integer"):
        clustering_accuracy(table, table, 0)
    with pytest.raises(InvalidInputError, match="as original has"):
        clustering_accuracy(table, table[1:], 2)
    with pytest.raises(InvalidInputError, match="one for each row"):
        label_agreement([0, 1], [0])
