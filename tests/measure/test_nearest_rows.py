"""The search for nearest rows in blocks: exact, however many rows its bound leaves to check."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

import tacit.measure.neighbours as module
from tacit.measure.neighbours import LowerBounds, nearest


def by_sorting(points, queries, k, own):
    squares = cdist(queries, points, "sqeuclidean")
    if own is not None:
        squares[np.arange(len(queries)), own] = np.inf
    order = np.argsort(squares, axis=1, kind="stable")[:, :k]
    return order, np.take_along_axis(squares, order, axis=1)


@pytest.mark.parametrize("with_own", [True, False])
@given(
    st.integers(0, 2**32 - 1),
    st.integers(3, 60),
    st.integers(1, 6),
    st.integers(1, 5),
    st.sampled_from([1e-150, 1.0, 1e6, 1e150]),
    st.sampled_from([0.0, 1e3]),
)
@settings(derandomize=True, deadline=None, max_examples=60)
def test_agreement_with_all_distances(with_own, seed, n_points, n_columns, k, size, shift):
    generator = np.random.default_rng(seed)
    # Few distinct values make many equal distances, which whole numbers keep exactly equal.
    points = (generator.integers(-3, 4, size=(n_points, n_columns)) + shift) * size
    own = np.arange(n_points) if with_own else None
    k = min(k, n_points - with_own)
    indices, squares = nearest(points, points, k, own)
    _, expected_squares = by_sorting(points, points, k, own)
    np.testing.assert_allclose(squares, expected_squares, rtol=1e-12)
    if size == 1:
        expected, _ = by_sorting(points, points, k, own)
        np.testing.assert_array_equal(indices, expected)


def test_many_blocks_and_chunks(monkeypatch):
    monkeypatch.setattr(module, "QUERIES_AT_ONCE", 7)
    monkeypatch.setattr(module, "POINTS_AT_ONCE", 11)
    monkeypatch.setattr(module, "_PAIRS_AT_ONCE", 5)
    generator = np.random.default_rng(0)
    points, queries = generator.normal(size=(100, 3)), generator.normal(size=(30, 3))
    for k in (1, 5, 20, 100):
        indices, squares = nearest(points, queries, k)
        expected, expected_squares = by_sorting(points, queries, k, None)
        np.testing.assert_array_equal(indices, expected)
        np.testing.assert_allclose(squares, expected_squares, rtol=1e-12)


def test_clusters_far_apart_are_resolved():
    """In float32 alone, all rows of a cluster would be at one point."""
    generator = np.random.default_rng(1)
    points = np.concatenate([generator.normal(size=(50, 2)) + shift for shift in (0.0, 1e9)])
    indices, _ = nearest(points, points, 3, np.arange(100))
    expected, _ = by_sorting(points, points, 3, np.arange(100))
    np.testing.assert_array_equal(indices, expected)


@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.floats(-3, 6))
@settings(derandomize=True, deadline=None, max_examples=60)
def test_the_bound_is_below_every_distance(seed, n_columns, magnitude):
    generator = np.random.default_rng(seed)
    points = generator.normal(size=(20, n_columns)) * 10**magnitude + generator.normal(size=n_columns) * 1e3
    queries = points[:8] + generator.normal(size=(8, n_columns)) * 1e-3
    bounds = LowerBounds(points, queries)
    found = bounds.of(0, 20).astype(np.float64) * bounds.unit**2
    exact = cdist(queries, points, "sqeuclidean")
    assert np.all(found <= exact)
    spread = np.square(points - queries.mean(axis=0)).sum(axis=1) + np.square(queries - queries.mean(axis=0)).sum(
        axis=1, keepdims=True
    )
    assert np.all(found >= exact - 1e-4 * spread)
