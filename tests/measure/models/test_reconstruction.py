import math
import time

import numpy as np
import pytest
from scipy.optimize import nnls
from scipy.sparse import coo_array, csr_array, random_array

from tacit.errors import InvalidInputError
from tacit.measure import held_out_error, non_negative_rows, reconstruction_error


def directly(X, W, T):
    return 0.5 * np.mean(np.sum((X - W @ T) ** 2, axis=1))


def by_nnls(X, T):
    return np.mean([0.5 * nnls(T.T, row)[1] ** 2 for row in X])


@pytest.fixture
def factors():
    rng = np.random.default_rng(0)
    return rng.random((60, 4)), rng.random((4, 25))


def test_error_is_that_of_the_residual(factors):
    W, T = factors
    X = np.random.default_rng(1).random((60, 25))
    assert reconstruction_error(X, W, T) == pytest.approx(directly(X, W, T), rel=1e-12)


def test_known_noise_gives_known_error(factors):
    W, T = factors
    noise = np.random.default_rng(1).normal(size=(60, 25))
    assert reconstruction_error(W @ T + noise, W, T) == pytest.approx(0.5 * (noise**2).sum() / 60, rel=1e-10)
    exact = reconstruction_error(W @ T, W, T)
    assert 0 <= exact < 1e-13


def test_more_rows_than_a_block_and_every_kind_of_matrix():
    rng = np.random.default_rng(2)
    X = random_array((9000, 30), density=0.1, rng=rng, data_sampler=lambda size: rng.integers(1, 200, size))
    W, T = rng.random((9000, 3)), rng.random((3, 30))
    expected = directly(X.toarray(), W, T)
    # Squares of bytes do not fit a byte, and float32 sums would be off in the seventh digit.
    for dtype in (np.uint8, np.float32, np.float64):
        for form in (csr_array, coo_array, lambda matrix: matrix.toarray()):
            assert reconstruction_error(form(X.astype(dtype)), W, T) == pytest.approx(expected, rel=1e-12)


def test_held_out_error_is_that_of_the_best_rows():
    rng = np.random.default_rng(3)
    X, T = rng.random((50, 30)), rng.random((8, 30)) * (rng.random((8, 30)) < 0.5)
    expected = by_nnls(X, T)
    assert held_out_error(X, T) == pytest.approx(expected, rel=1e-9)
    assert held_out_error(csr_array(X), T) == pytest.approx(expected, rel=1e-9)
    assert held_out_error(X.astype(np.float32), T) == pytest.approx(expected, rel=1e-6)


def test_rows_satisfy_the_conditions_of_the_minimum():
    rng = np.random.default_rng(4)
    X, T = rng.normal(size=(40, 20)), rng.random((6, 20))
    H = non_negative_rows(X, T)
    gradient = (H @ T - X) @ T.T
    assert H.min() >= 0
    assert gradient.min() > -1e-9
    assert np.abs(gradient * H).max() < 1e-9
    assert (H > 0).any()
    assert (H == 0).any()


def test_rows_made_of_topics_are_explained():
    rng = np.random.default_rng(5)
    H, T = rng.random((30, 5)) * (rng.random((30, 5)) < 0.6), rng.random((5, 40))
    np.testing.assert_allclose(non_negative_rows(H @ T, T), H, atol=1e-10)
    assert held_out_error(H @ T, T) < 1e-13
    # More rows than one block has.
    many = np.tile(H, (150, 1))
    np.testing.assert_allclose(non_negative_rows(many @ T, T), many, atol=1e-10)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda T: np.vstack([T, T, 2 * T]),  # equal directions
        lambda T: np.vstack([T, np.zeros_like(T)]),  # dead topics
        lambda T: np.vstack([T, T[:2] + T[1:3]]),  # inside the cone of the others
        np.zeros_like,
    ],
)
def test_degenerate_dictionaries(spoil):
    rng = np.random.default_rng(6)
    X, T = rng.random((20, 15)), spoil(rng.random((6, 15)))
    assert held_out_error(X, T) == pytest.approx(by_nnls(X, T), rel=1e-9)


def test_more_topics_than_columns():
    rng = np.random.default_rng(7)
    X, T = rng.random((20, 5)), np.vstack([rng.random((6, 5)), np.eye(5)])
    assert held_out_error(X, T) < 1e-13


def test_negative_rows_get_nothing_from_non_negative_topics():
    X = -np.random.default_rng(8).random((10, 6))
    assert (non_negative_rows(X, np.ones((2, 6))) == 0).all()
    assert held_out_error(X, np.ones((2, 6))) == pytest.approx(0.5 * (X**2).sum(axis=1).mean())


def test_chosen_rows_by_index_and_by_mask():
    rng = np.random.default_rng(9)
    X, T = rng.random((20, 10)), rng.random((3, 10))
    chosen = [3, 17, 4]
    expected = by_nnls(X[chosen], T)
    mask = np.isin(np.arange(20), chosen)
    for data in (X, csr_array(X)):
        assert held_out_error(data, T, rows=chosen) == pytest.approx(expected)
        assert held_out_error(data, T, rows=mask) == pytest.approx(expected)


def test_five_hundred_faces_in_two_seconds():
    rng = np.random.default_rng(10)
    T = rng.random((49, 361)) * (rng.random((49, 361)) < 0.2)
    X = rng.random((500, 49)) @ T + 0.1 * rng.random((500, 361))
    # CPU time and not wall time: other work on the machine must not count.
    started = time.process_time()
    found = held_out_error(X, T)
    assert time.process_time() - started < 2
    assert held_out_error(X, T, rows=range(20)) == pytest.approx(by_nnls(X[:20], T), rel=1e-8)
    assert found > 0


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: reconstruction_error(np.ones((3, 4)), np.ones((3, 2)), np.ones((2, 5))), "T to have 4 columns"),
        (lambda: reconstruction_error(np.ones((3, 4)), np.ones((2, 2)), np.ones((2, 4))), "W to have 3 rows"),
        (lambda: held_out_error(np.ones((3, 4)), np.ones((2, 5))), "T to have 4 columns"),
        (lambda: held_out_error(np.ones((0, 4)), np.ones((2, 4))), "X to be a matrix"),
        (lambda: held_out_error([[math.inf, 1.0]], np.ones((1, 2))), "X to have finite"),
        (lambda: held_out_error(csr_array([[math.nan, 1.0]]), np.ones((1, 2))), "X to have finite"),
        (lambda: held_out_error(np.ones((3, 4)), np.ones((2, 4)), rows=[3]), "rows"),
        (lambda: held_out_error(np.ones((3, 4)), np.ones((2, 4)), rows=[-1]), "rows"),
        (lambda: held_out_error(np.ones((3, 4)), np.ones((2, 4)), rows=[]), "rows"),
        (lambda: held_out_error(np.ones((3, 4)), np.ones((2, 4)), rows=[False] * 3), "rows"),
    ],
)
def test_unusable_input_is_named(call, said):
    with pytest.raises(InvalidInputError, match=said):
        call()
