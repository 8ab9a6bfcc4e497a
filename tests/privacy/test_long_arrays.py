"""Memory of long arrays is used again, but never while an array or a view of it is alive."""

import numpy as np
import pytest

from tacit.privacy import long_arrays
from tacit.privacy.long_arrays import LEAST_KEPT, MOST_KEPT, empty

LONG = LEAST_KEPT // 8


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch):
    monkeypatch.setattr(long_arrays._Lease, "kept", [])


def address(array):
    return array.__array_interface__["data"][0]


def test_memory_is_used_again_once_nobody_refers_to_it():
    first = empty((LONG,), np.float64)
    before = address(first)
    view = first[5:].reshape(-1).view(np.int64)[3:]
    del first
    other = empty((LONG,), np.int64)
    assert not np.shares_memory(view, other)
    del view
    assert address(empty((LONG // 2, 2), np.int64)) == before


def test_arrays_have_their_shape_and_type_and_can_be_written():
    for shape, dtype in (((0,), np.int64), ((3, 4), np.float64), ((LONG, 2), np.float64), ((8 * LONG + 3,), np.uint8)):
        array = empty(shape, dtype)
        array.fill(1)
        assert array.shape == shape
        assert array.dtype == dtype
        assert array.flags.c_contiguous


def test_memory_of_other_sizes_stays_where_it_is():
    empty((LONG,), np.float64)
    empty((5 * LONG,), np.float64)
    assert [block.size for block in long_arrays._Lease.kept] == [8 * LONG, 40 * LONG]
    held = empty((2 * LONG,), np.float64)
    assert [block.size for block in long_arrays._Lease.kept] == [8 * LONG, 40 * LONG]
    del held
    assert [block.size for block in long_arrays._Lease.kept] == [8 * LONG, 40 * LONG, 16 * LONG]


def test_little_memory_is_kept():
    for _ in range(3):
        empty((MOST_KEPT // 16 + 1,), np.float64)
    several = [empty((MOST_KEPT // 16 + 1,), np.float64) for _ in range(3)]
    del several
    assert sum(block.size for block in long_arrays._Lease.kept) <= MOST_KEPT
    empty((MOST_KEPT,), np.float64)
    assert sum(block.size for block in long_arrays._Lease.kept) <= MOST_KEPT
