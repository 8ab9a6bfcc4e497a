"""The grid: exact where it must be, refusing where it does not fit."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tacit.channel import Grid
from tacit.channel.fixedpoint import LIMIT, MANY, MANY_PER_CORE, Ring, exact_sum
from tacit.errors import InvalidInputError, RangeError

exponents = st.integers(-60, 20)
floats = st.floats(allow_nan=True, allow_infinity=True, width=64)


@given(hnp.arrays(np.float64, hnp.array_shapes(max_dims=3, max_side=5), elements=floats), exponents)
def test_encode_rounds_to_the_nearest_multiple_or_refuses(values, exponent):
    grid = Grid(exponent)
    step = Fraction(2) ** exponent
    fits = bool(np.all(np.isfinite(values))) and all(abs(Fraction(v)) < LIMIT * step for v in values.ravel().tolist())
    if not fits:
        with pytest.raises(RangeError, match="Nothing was sent"):
            grid.encode(values)
        return
    integers = grid.encode(values)
    assert integers.dtype == np.int64
    assert integers.shape == values.shape
    for value, integer in zip(values.ravel().tolist(), integers.ravel().tolist(), strict=True):
        assert abs(Fraction(value) / step - integer) <= Fraction(1, 2)


@given(hnp.arrays(np.int64, 7, elements=st.integers(-(2**52), 2**52)), exponents)
def test_decode_inverts_encode_on_the_grid(integers, exponent):
    grid = Grid(exponent)
    assert np.array_equal(grid.encode(grid.decode(integers)), integers)


@given(st.lists(hnp.arrays(np.int64, 3, elements=st.integers(-LIMIT + 1, LIMIT - 1)), min_size=1, max_size=6))
def test_sums_are_exact_or_refused_never_wrapped(terms):
    partial, fits = np.zeros(3, dtype=object), True
    for index, term in enumerate(terms):
        partial = partial + term.astype(object)
        fits = fits and (index == 0 or all(abs(value) < LIMIT for value in partial))
    if fits:
        assert exact_sum(terms).tolist() == partial.tolist()
    else:
        with pytest.raises(RangeError):
            exact_sum(terms)


def test_the_first_term_is_not_changed_by_summing():
    first = np.array([1, 2])
    exact_sum([first, np.array([10, 20])])
    assert first.tolist() == [1, 2]


@pytest.mark.parametrize("values", [["a"], [1j], [object()], [True]])
def test_things_that_are_not_real_numbers_are_refused(values):
    with pytest.raises(InvalidInputError, match="real numbers"):
        Grid(-8).encode(values)


@pytest.mark.parametrize("exponent", [1.5, True, None, 10_000])
def test_bad_exponents(exponent):
    with pytest.raises(InvalidInputError, match="exponent"):
        Grid(exponent)


@pytest.mark.parametrize("size", [MANY, 2 * MANY_PER_CORE])
@pytest.mark.parametrize("exponent", [-900, -40, 0, 7])
def test_many_numbers_are_put_on_the_grid_like_a_few(exponent, size):
    grid = Grid(exponent)
    values = np.ldexp(np.random.default_rng(0).normal(size=size) * 2.0**20, exponent)
    values[:4] = np.ldexp([0.5, 1.5, -2.5, 0.0], exponent)  # halves are rounded to even
    few = np.concatenate([grid.encode(part) for part in np.split(values, 64)])
    assert np.array_equal(grid.encode(values), few)
    assert np.array_equal(grid.encode(values.reshape(16, -1)), few.reshape(16, -1))
    assert grid.encode(values)[:4].tolist() == [0, 2, -2, 0]
    for wrong in (np.nan, np.inf, math.ldexp(2.0**62, exponent)):
        values[-1] = wrong
        with pytest.raises(RangeError, match="magnitude"):
            grid.encode(values)


@pytest.mark.parametrize("size", [MANY, 2 * MANY_PER_CORE])
@pytest.mark.parametrize("exponent", [-900, -40, 0, 7])
def test_many_numbers_are_taken_off_the_grid_like_a_few(exponent, size):
    grid = Grid(exponent)
    integers = np.random.default_rng(0).integers(-(2**62), 2**62, size=size)
    few = np.concatenate([grid.decode(part) for part in np.split(integers, 64)])
    assert np.array_equal(grid.decode(integers), few)
    assert np.array_equal(grid.decode(integers.reshape(16, -1)), few.reshape(16, -1))
    assert np.array_equal(grid.decode(integers[::2]), few[::2])


@pytest.mark.parametrize("parties", [1, 3])
def test_integers_that_could_wrap_are_refused(parties):
    most = 2**62 // parties - 1
    for fitting in ([], [0], [most, -most]):
        assert Ring(1).of_integers(np.array(fitting, np.int64), parties=parties)[0].view(np.int64).tolist() == fitting
    for beyond in (most + 1, -most - 1, -(2**63), 2**63 - 1):
        with pytest.raises(RangeError):
            Ring(1).of_integers(np.array([0, beyond]), parties=parties)
