"""Compiled loops give the numbers of NumPy in float64, and a row's square depends on that row alone."""

import numpy as np
import pytest

from tacit.neural.loops import add_columns, add_row_squares, add_single

ROWS = np.random.default_rng(0).normal(size=(37, 48)).astype(np.float32)


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


def test_totals_are_in_float64():
    total = np.full(48, 2.0**30)
    add_single(total, ROWS[0])
    assert np.array_equal(total, 2.0**30 + ROWS[0].astype(float))
    columns = np.full(40, 2.0**30)
    add_columns(ROWS, columns)
    assert np.allclose(columns - 2.0**30, ROWS[:, :40].astype(float).sum(axis=0), rtol=0, atol=1e-4)
    assert not np.array_equal(columns, 2.0**30 + ROWS[:, :40].sum(axis=0))
