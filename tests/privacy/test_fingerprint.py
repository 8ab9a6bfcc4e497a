"""Fingerprints: the same content has the same one however it is stored, other content has another."""

from __future__ import annotations

import datetime
import os
import re
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from tacit.errors import InvalidInputError
from tacit.privacy.fingerprint import _CHUNK_BYTES, _CHUNK_VALUES, fingerprint

X = np.arange(12.0).reshape(3, 4) / 8


def test_the_form_of_a_fingerprint_is_fixed() -> None:
    assert re.fullmatch("sha256:[0-9a-f]{64}", fingerprint(X))
    # written down once: a ledger made by one version must be found again by the next
    assert fingerprint(X) == "sha256:41cc03d759f778ef35d54400cb937f24ffaa173e585a65c959c726b53f383876"


SAME_ARRAYS = {
    "Fortran order": (X, np.asfortranarray(X)),
    "single precision": (X, X.astype(np.float32)),
    "half precision": (X, X.astype(np.float16)),
    "extended precision": (X, X.astype(np.longdouble)),
    "byte order": (X, X.astype(">f8")),
    "a view": (X[::-1, ::2], X[::-1, ::2].copy()),
    "a broadcast": (np.broadcast_to(X[0], (3, 4)), np.tile(X[0], (3, 1))),
    "widths of integers": (np.arange(9, dtype=np.uint8), np.arange(9, dtype=np.int64)),
    "large unsigned integers that fit": (np.arange(9, dtype=np.uint64), np.arange(9, dtype=np.int16)),
    "zeros": (np.array([0.0, 1.0]), np.array([-0.0, 1.0])),
    "NaNs": (np.array([np.nan]), np.array([0x7FF8000000000001], dtype=np.uint64).view(np.float64)),
    "complex": (np.array([1 + 2j, -0.0]), np.array([1 + 2j, 0.0], dtype=np.complex64)),
    "texts": (np.array(["a", "bc"]), np.array(["a", "bc"], dtype="U9")),
    "times": (np.array(["2024-01-01", "NaT"], "M8[D]"), np.array(["2024-01-01", "NaT"], "M8[ns]")),
    "durations": (np.array([60], "m8[s]"), np.array([1], "m8[m]")),
}


@pytest.mark.parametrize("name", SAME_ARRAYS)
def test_arrays_with_the_same_values_agree(name: str) -> None:
    one, other = SAME_ARRAYS[name]
    assert fingerprint(one) == fingerprint(other)
    assert fingerprint((one, X)) == fingerprint((other, X))


def test_different_data_have_different_fingerprints(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(X.tobytes())
    different: list[object] = [
        X,
        X.T,
        X.ravel(),
        X.reshape(4, 3),
        X.astype(np.int64),
        X[:, ::-1],
        X.astype(np.complex128),
        X.astype(str),
        np.array(["ab", "c"]),
        np.array(["a", "bc"]),
        np.array([b"a", b"bc"]),
        np.array([0, 1]),
        np.array([False, True]),
        np.array([0, 1], dtype="m8[s]"),
        np.array([0, 1], dtype="M8[s]"),
        np.array([0, 1], dtype="M8[ms]"),
        np.array([0, 2**64 - 1], dtype=np.uint64),
        np.array([0, -1], dtype=np.int64),
        np.array([np.inf]),
        np.array([np.nan]),
        np.array(1.0),
        np.array([1.0]),
        np.array([[1.0]]),
        np.zeros((0, 3)),
        np.zeros((3, 0)),
        (),
        (X,),
        (X, X),
        ((X,), X),
        (X, (X,)),
        sp.csr_array(X),
        sp.csr_array(X.T),
        sp.csr_array((3, 5)),
        sp.csr_array((5, 3)),
        pl.DataFrame(X),
        pl.DataFrame(),
        tmp_path,
        tmp_path / "file",
    ]
    assert len({fingerprint(data) for data in different}) == len(different)


@pytest.mark.slow
@given(npst.arrays(st.sampled_from(["f8", "i4", "?", "U2"]), npst.array_shapes(max_dims=3, max_side=4)), st.data())
def test_one_changed_value_changes_it_and_a_layout_does_not(array: np.ndarray, data: st.DataObject) -> None:
    before = fingerprint(array)
    assert fingerprint(np.asfortranarray(array)) == before
    assert fingerprint(array[..., None])[: len(before)] != before
    place = data.draw(st.tuples(*(st.integers(0, side - 1) for side in array.shape)))
    changed = array.copy()
    value = data.draw(npst.from_dtype(array.dtype))
    changed[place] = value
    same = np.array_equal(changed, array, equal_nan=array.dtype.kind == "f")
    assert (fingerprint(changed) == before) == same


def test_every_value_of_an_array_longer_than_a_chunk_counts() -> None:
    long = np.zeros((3, _CHUNK_VALUES // 2))
    seen = {fingerprint(long)}
    for place in [(0, 0), (1, 5), (2, 0), (2, -1)]:
        changed = long.copy()
        changed[place] = 1
        seen |= {fingerprint(changed), fingerprint(np.asfortranarray(changed))}
    assert len(seen) == 5


def test_every_value_of_a_column_longer_than_a_chunk_counts() -> None:
    values = np.zeros(2 * _CHUNK_VALUES + 1)
    seen = {fingerprint(pl.DataFrame({"a": values}))}
    for place in (0, _CHUNK_VALUES - 1, _CHUNK_VALUES, -1):
        changed = values.copy()
        changed[place] = 1
        seen.add(fingerprint(pl.DataFrame({"a": changed})))
    assert len(seen) == 5


def test_no_copy_of_a_large_array_is_made() -> None:
    large = np.ones((1000, 4000), dtype=np.float32, order="F")
    fingerprint(large[:1])
    tracemalloc.start()
    fingerprint(large)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < large.nbytes / 4


def test_sparse_formats_of_the_same_matrix_agree() -> None:
    matrix = sp.random_array((30, 20), density=0.2, rng=np.random.default_rng(0), format="csr")
    expected = fingerprint(matrix)
    assert {fingerprint(matrix.asformat(kind)) for kind in ("coo", "csc", "lil", "dok", "bsr", "dia")} == {expected}
    assert fingerprint(sp.csr_matrix(matrix)) == expected
    wide_indices = matrix.copy()
    wide_indices.indices, wide_indices.indptr = matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)
    assert fingerprint(wide_indices) == expected
    changed = matrix.copy()
    changed.data[7] += 1e-12
    assert fingerprint(changed) != expected
    assert fingerprint(matrix.T) != expected


def test_stored_zeros_and_duplicates_do_not_count_and_the_matrix_is_left_alone() -> None:
    plain = sp.coo_array(([200, 3], ([0, 2], [1, 2])), shape=(3, 3))
    messy = sp.coo_array((np.array([3, 0, 100, 100], np.int8), ([2, 1, 0, 0], [2, 0, 1, 1])), shape=(3, 3))
    assert fingerprint(messy) == fingerprint(plain)  # although 100 + 100 is too much for a byte
    assert messy.nnz == 4
    unsorted = sp.csr_array((np.array([2.0, 0.0, 1.0]), np.array([2, 1, 0]), np.array([0, 3])), shape=(1, 3))
    assert fingerprint(unsorted) == fingerprint(sp.csr_array(np.array([[1.0, 0.0, 2.0]])))
    assert unsorted.indices.tolist() == [2, 1, 0]


DAY = datetime.datetime(2024, 1, 2, 3, 4, 5, 678)
COLUMNS: dict[str, list[object]] = {
    "integers": [1, -2, 3],
    "reals": [1.5, None, -0.0],
    "texts": ["x", None, "zoë"],
    "booleans": [True, False, True],
    "times": [DAY, None, datetime.datetime(1850, 1, 1)],
    "durations": [datetime.timedelta(days=300, microseconds=7), None, datetime.timedelta(0)],
}


def test_frames_of_polars_and_pandas_agree() -> None:
    for name, values in COLUMNS.items():
        assert fingerprint(pl.DataFrame({name: values})) == fingerprint(pd.DataFrame({name: values})), name
    expected = fingerprint(pl.DataFrame(COLUMNS))
    assert fingerprint(pd.DataFrame(COLUMNS)) == expected
    assert fingerprint(pd.DataFrame(COLUMNS, index=[7, 8, 9])) == expected
    assert fingerprint(pd.concat([pd.DataFrame(COLUMNS)[:1], pd.DataFrame(COLUMNS)[1:]])) == expected
    halves = pl.concat([pl.DataFrame(COLUMNS)[:1], pl.DataFrame(COLUMNS)[1:]], rechunk=False)
    assert fingerprint(halves) == expected


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pd.array([1, None], dtype="Int64"), pl.Series([1, None])),
        (pd.array([2**60 + 1, None], dtype="Int64"), pl.Series([2**60 + 1, None])),
        (pd.array([1.5, None], dtype="Float64"), pl.Series([1.5, None])),
        (pd.array([True, None], dtype="boolean"), pl.Series([True, None])),
        (np.array(["x", None], dtype=object), pl.Series(["x", None])),
        (pd.Categorical(["x", None]), pl.Series(["x", None], dtype=pl.Categorical)),
        (pd.Categorical(["x", None]), pl.Series(["x", None], dtype=pl.Enum(["w", "x"]))),
        (
            pd.to_datetime(["2024-01-01", None], utc=True),
            pl.Series([DAY.replace(2024, 1, 1, 0, 0, 0, 0), None]).dt.replace_time_zone("UTC"),
        ),
        (np.array([1, 2], dtype=np.int8), pl.Series([1, 2], dtype=pl.UInt32)),
        (np.array([0.5], dtype=np.float32), pl.Series([0.5])),
    ],
)
def test_columns_agree_however_they_are_stored(one: object, other: pl.Series) -> None:
    assert fingerprint(pd.DataFrame({"c": one})) == fingerprint(pl.DataFrame({"c": other}))


def test_any_change_of_a_frame_changes_it() -> None:
    frame = pl.DataFrame(COLUMNS)
    seen = [fingerprint(frame), fingerprint(frame[::-1]), fingerprint(frame[:2]), fingerprint(frame[:, ::-1])]
    for name, values in COLUMNS.items():
        seen.append(fingerprint(frame.rename({name: f"{name}_"})))
        seen.append(fingerprint(frame.drop(name)))
        for place in range(3):
            other = [*values[:place], values[(place + 1) % 3], *values[place + 1 :]]
            if other != values:
                seen.append(fingerprint(frame.with_columns(pl.Series(name, other, dtype=frame.schema[name]))))
    seen.append(fingerprint(frame.with_columns(pl.col("integers").cast(pl.Float64))))
    seen.append(fingerprint(frame.with_columns(pl.col("times").dt.replace_time_zone("UTC"))))
    seen.append(fingerprint(frame.with_columns(pl.col("times").cast(pl.Datetime("ns")) + pl.duration(nanoseconds=1))))
    seen.append(fingerprint(frame.with_columns(pl.col("times").cast(pl.Date))))
    seen.append(fingerprint(frame.with_columns(pl.col("texts").fill_null(""))))
    seen.append(fingerprint(frame.with_columns(pl.col("texts").cast(pl.Categorical))))
    assert len(set(seen)) == len(seen)
    for value in (0, False, "", "-"):
        kind = pl.Series([value]).dtype
        gaps = [pl.DataFrame({"a": pl.Series([first], dtype=kind)}) for first in (None, value)]
        assert fingerprint(gaps[0]) != fingerprint(gaps[1])
    empty = {fingerprint(pl.DataFrame(schema={"a": kind})) for kind in (pl.Int64, pl.Float64, pl.String)}
    assert len(empty) == 3
    assert fingerprint(pd.DataFrame({0: [1]})) != fingerprint(pd.DataFrame({"0": [1]}))


def test_files_and_folders_count_by_their_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder, names in ((first, ["b", "a/c"]), (second, ["a/c", "b"])):
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(name.encode() * _CHUNK_BYTES)
    original = fingerprint(first)
    assert fingerprint(second) == original
    assert fingerprint(first / "b") == fingerprint(second / "b") != fingerprint(second / "a" / "c")
    (second / "b").rename(second / "d")
    assert fingerprint(second) != original
    (second / "d").rename(second / "b")
    assert fingerprint(second) == original
    with (second / "b").open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"!")
    assert fingerprint(second) != original
    module = sys.modules["tacit.privacy.fingerprint"]
    monkeypatch.setattr(module, "_files", lambda folder, walk=module._files: reversed(list(walk(folder))))
    assert fingerprint(first) == original
    monkeypatch.undo()
    (first / ".hidden").touch()
    assert fingerprint(first) != original


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (np.array([object()]), "plain values"),
        (np.array([1, "a"], dtype=object), "plain values"),
        (np.zeros(2, dtype=[("a", "f8")]), "plain values"),
        (np.ma.masked_array([1.0, 2.0], [True, False]), "masked"),
        (np.array([1], dtype=np.longdouble) / 3, "double precision"),
        (np.array(["2024"], dtype="M8[Y]"), "weeks to nanoseconds"),
        ((X, [1, 2]), "got a value of type list"),
        ([X], "got a value of type list"),
        ("data.csv", "pathlib.Path"),
        (None, "got None"),
        (pl.DataFrame({"a": [[1]]}), "column 'a' of type List"),
        (pd.DataFrame({"a": [object(), 1]}), "column 'a' of type Object"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "distinct columns"),
        (pl.DataFrame({"a": [1]}).lazy(), "collect a lazy frame"),
        (sp.coo_array(np.ones(3)), "two dimensions"),
    ],
)
def test_what_has_no_fingerprint_is_refused(data: object, message: str) -> None:
    if isinstance(data, np.ndarray) and data.dtype == np.longdouble and np.finfo(np.longdouble).nmant == 52:
        pytest.skip("long doubles are doubles here")
    with pytest.raises(InvalidInputError, match=message):
        fingerprint(data)


def test_paths_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="a path that exists"):
        fingerprint(tmp_path / "missing")
    (tmp_path / "circle").symlink_to(tmp_path, target_is_directory=True)
    with pytest.raises(InvalidInputError, match="files and folders"):
        fingerprint(tmp_path)
