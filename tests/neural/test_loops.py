"""Compiled loops give the numbers of NumPy in float64; a row's square depends on that row alone, and a bucket on its own."""

import numpy as np
import pytest
from scipy.special import expit

from tacit.neural.loops import RELU, SIGMOID, TANH, add_row_squares, add_units, pass_forward, put_rows

RANDOM = np.random.default_rng(0)
ROWS = RANDOM.normal(size=(37, 48)).astype(np.float32)


@pytest.mark.parametrize("width", [1, 7, 8, 9, 41, 48])
def test_squares_of_rows(width):
    totals = np.ones(37)
    add_row_squares(ROWS, width, totals)
    assert np.allclose(totals, 1 + (ROWS[:, :width].astype(float) ** 2).sum(axis=1), rtol=1e-14)
    alone = np.ones(1)
    add_row_squares(ROWS[20:21], width, alone)
    assert alone[0] == totals[20]


def test_squares_that_float32_cannot_hold():
    totals = np.zeros(2)
    add_row_squares(np.array([[1e30, 1e30], [np.inf, 0.0]], np.float32), 2, totals)
    assert totals[0] == pytest.approx(2e60, rel=1e-6)
    assert np.isinf(totals[1])


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("counts", [[37], [20, 0, 17], [3, 30, 4]])
def test_totals_are_those_in_float64(begun, counts):
    """With 25 examples at most in a product in float32; numbers beyond the width are not used."""
    slopes, factors = ROWS[:, :5], RANDOM.random(37).astype(np.float32)
    weights, bias = np.full((5, 40), 2.0**30), np.full(5, 2.0**30)
    start = 2.0**30 if begun else 0.0
    add_units(weights, bias, slopes, ROWS, factors, np.array(counts), 25, begun)
    scaled = (slopes * factors[:, None]).astype(float)
    assert np.allclose(weights - start, scaled.T @ ROWS[:, :40].astype(float), rtol=0, atol=1e-5)
    assert np.allclose(bias - start, scaled.sum(axis=0), rtol=0, atol=1e-6)


def test_a_large_bucket_is_added_up_in_float64():
    rows = np.repeat(np.float32([[1.0, 2.0**-24]]), 30, axis=0)
    found = {}
    for most in (29, 30):
        found[most] = np.zeros((2, 2))
        add_units(found[most], np.empty(0), rows, rows, np.ones(30, np.float32), np.array([30]), most, True)
    assert found[29][0, 1] == 30 * 2.0**-24
    exact = rows.astype(float).T @ rows.astype(float)
    assert np.array_equal(found[29], exact)


def test_buckets_are_added_up_one_after_the_other():
    """What a bucket adds has the same bits, whatever the others hold."""
    slopes, factors, counts = ROWS[:, :16], np.ones(37, np.float32), np.array([12, 25])
    whole, bias = np.zeros((16, 48)), np.zeros(16)
    add_units(whole, bias, slopes, ROWS, factors, counts, 192, False)
    one, other = np.zeros((16, 48)), np.zeros((16, 48))
    add_units(one, bias, slopes[:12], ROWS[:12], factors[:12], counts[:1], 192, False)
    add_units(other, bias, slopes[12:], ROWS[12:], factors[12:], counts[1:], 192, False)
    assert np.array_equal(one.astype(np.float32), one)  # a product in float32
    assert np.array_equal(whole, one + other)


def test_rows_are_put_into_a_block_with_zeros_around():
    block = np.full((6, 50), 7.0, np.float32)
    put_rows(ROWS.astype(float), np.array([3, 0, 36]), block)
    assert np.array_equal(block[:3, :48], ROWS[[3, 0, 36]])
    assert not block[3:].any()
    assert not block[:, 48:].any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("function", "expected"),
    [(TANH, np.tanh), (SIGMOID, expit), (RELU, lambda x: np.maximum(x, 0.0))],
)
def test_activations(function, expected, dtype):
    x = np.concatenate([np.linspace(-30, 30, 4001), [0.0, 1e-30, -1e-30, 1e30, -1e30]]).astype(dtype)
    wanted = expected(x.astype(float))
    rows, found = np.append(x, np.nan).astype(dtype)[:, None], np.empty((len(x) + 1, 1), dtype)
    products, scores = np.empty_like(rows), np.empty_like(rows)
    one, zero = np.ones((1, 1), dtype), np.zeros(1, dtype)
    pass_forward((rows, found), (products, scores), (one, one), (zero, zero), np.array([function]), dtype is np.float32)
    unit = np.finfo(dtype).eps
    assert (np.abs(found[:-1, 0] - wanted) <= 8 * unit * np.maximum(np.abs(wanted), 1e-30)).all()
    assert np.isnan(found[-1, 0])
    assert np.array_equal(scores, found, equal_nan=True)
