"""Schemas of private tables: the values that each kind reads, writes and refuses, and schema files."""

import json

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tacit.data import (
    AtMost,
    CategoryColumn,
    DateColumn,
    Determines,
    Implies,
    IntegerColumn,
    NumberColumn,
    TableSchema,
)
from tacit.data.schema import draft_schema, looks_like_identifier
from tacit.errors import InvalidInputError

SECRET = "Zaphod4711"
SCHEMA = TableSchema(
    {
        "age": IntegerColumn(0, 120),
        "dose": NumberColumn(-0.5, 50.0, decimals=2),
        "sex": CategoryColumn(("f", "m", ""), other=""),
        "stage": CategoryColumn((3, 1, 2)),
        'odd "name".\t': CategoryColumn((True, False)),
        "weight": CategoryColumn((0.5, 1.0)),
        "begin": DateColumn("2020-01-01", "2020-12-31"),
        "end": DateColumn("2020-01-01", "2021-12-31", missing=True),
    },
    left_out=("patient id",),
    constraints=(AtMost("begin", "end"), Implies("sex", "stage", "f", (1, 2)), Determines("stage", "sex")),
)


def text(*cells):
    return np.array(cells, dtype=object)


@pytest.mark.parametrize(
    ("spec", "cells", "values"),
    [
        (IntegerColumn(0, 9), text("3", "3.0", "-5", "1e9"), [3, 3, 0, 9]),
        (IntegerColumn(0, 9), np.array([3.0, 2.0]), [3, 2]),
        (NumberColumn(0, 10), text("0", "10", "99", " 4.9 "), [0, 10, 10, 4.9]),
        (CategoryColumn(("b", "a")), text("a", "b"), ["a", "b"]),
        (CategoryColumn(("", "a")), text("a", None, ""), ["a", "", ""]),
        (CategoryColumn(("3", "1")), text("1", "3"), ["1", "3"]),
        (CategoryColumn((3, 1)), text("3.0", "1", "3"), [3, 1, 3]),
        (CategoryColumn((3, 1)), np.array([3.0, 1.0]), [3, 1]),
        (CategoryColumn((0.5, 2.0)), np.array([2]), [2.0]),
        (CategoryColumn((True, False)), text("true", "FALSE"), [True, False]),
        (CategoryColumn((True, False)), np.array([False, True]), [False, True]),
        (CategoryColumn(("a", "other"), other="other"), text("a", "zzz", None), ["a", "other", "other"]),
        (CategoryColumn((1, 9), other=9), text("1", "x", None), [1, 9, 9]),
    ],
)
def test_cells_are_read_one_by_one(spec, cells, values):
    codes = spec.cells(cells, "column")
    found = spec.values(codes, np.zeros(len(codes)))
    if isinstance(spec, CategoryColumn):
        assert found.tolist() == values
        assert [type(value) for value in found.tolist()] == [type(value) for value in values]
    else:  # a cell begins at most a cell's width below the value, and at the value where it has a cell of its own
        np.testing.assert_allclose(found, values, atol=(spec.high - spec.low) / 250 if spec.step is None else 0)


@pytest.mark.parametrize(
    ("spec", "cells"),
    [
        (IntegerColumn(0, 9), text("3", "2.5")),
        (IntegerColumn(0, 9), text("3", SECRET)),
        (IntegerColumn(0, 9), text("3", None)),
        (NumberColumn(0, 9), text("nan")),
        (NumberColumn(0, 9), np.array([np.inf])),
        (NumberColumn(0, 9), np.array(["2020-01-01"], dtype="datetime64[D]")),
        (CategoryColumn(("a", "b")), text("a", SECRET)),
        (CategoryColumn(("a", "b")), text("a", "A")),
        (CategoryColumn(("3", "1")), text("3.0")),
        (CategoryColumn(("3", "1")), np.array([3, 1])),
        (CategoryColumn(("3", "1"), other="1"), np.array([3, 1])),
        (CategoryColumn((3, 1)), text("4711")),
        (CategoryColumn((0, 1)), np.array([True])),
        (CategoryColumn((True, False)), np.array([1, 0])),
        (CategoryColumn((True, False)), text("yes")),
    ],
)
def test_cells_that_do_not_fit_are_refused_by_column_and_not_by_value(spec, cells):
    with pytest.raises(InvalidInputError, match="in the column planted") as refused:
        spec.cells(cells, "planted")
    error = refused.value
    while error is not None:  # nothing in the chain of causes either
        assert not {SECRET, "4711", "2.5", "3.0", "yes"} & set(str(error).replace("'", " ").split())
        error = error.__cause__


@given(
    low=st.integers(-(2**52), 2**52),
    width=st.integers(1, 10**6),
    where=st.floats(0, 1),
    step=st.floats(0, 1),
)
@example(low=2**52 - 1, width=4, where=0.5, step=0.0)  # half an integer is not representable from 2**52 on
@example(low=2**52 - 39, width=322, where=0.125, step=1.0)
@example(low=2**53 - 300, width=300, where=1.0, step=1.0)
def test_integers_fall_into_cells_that_give_them_back(low, width, where, step):
    spec = IntegerColumn(low, low + width)
    value = low + int(where * (spec.high - low))
    code = spec.cells(np.array([value]), "x")
    drawn = spec.values(code, np.array([step]))
    assert drawn.dtype == np.int64
    assert spec.low <= drawn[0] <= spec.high
    assert spec.cells(drawn, "x") == code
    assert 0 <= code[0] < spec.n_cells
    if width < 256:
        assert drawn[0] == value


@given(
    low=st.floats(-1e6, 1e6),
    width=st.floats(1e-3, 1e6),
    where=st.floats(0, 1),
    step=st.floats(0, 0.999),
)
def test_numbers_fall_into_cells_that_give_them_back(low, width, where, step):
    spec = NumberColumn(low, low + width)
    value = min(low + where * width, spec.high)
    code = spec.cells(np.array([value]), "x")
    drawn = spec.values(code, np.array([step]))
    assert spec.low <= drawn[0] <= spec.high
    assert abs(drawn[0] - value) <= width / 200 * 1.001
    for bound in (spec.low, spec.high):  # bounds have a cell of their own
        assert spec.values(spec.cells(np.array([bound]), "x"), np.array([step])) == pytest.approx(bound, rel=1e-12)


def test_cells_of_a_wide_column_begin_at_round_numbers():
    spec = IntegerColumn(0, 100_000)
    for value in (100, 1000, 2500, 7000, 15_000, 50_000, 99_500):
        below, at = spec.cells(np.array([value - 1, value]), "x")
        assert below < at


@pytest.mark.parametrize("spec", [IntegerColumn(10_000, 1_000_000), NumberColumn(0, 1e6, decimals=2)])
def test_round_values_of_a_wide_column_have_cells_of_their_own(spec):
    values = np.array([20_000, 50_000, 120_000, 240_000, 800_000])
    for step in (0.0, 0.7):
        np.testing.assert_array_equal(spec.values(spec.cells(values, "x"), np.full(5, step)), values)


def test_round_values_are_spelled_as_in_text():
    spec = NumberColumn(8, 14.9)
    values = np.array([8.3, 9.4, 11.7, 14.1])
    np.testing.assert_array_equal(spec.values(spec.cells(values, "x"), np.full(4, 0.7)), values)


def test_zero_has_a_cell_of_its_own():
    spec = NumberColumn(-3, 7)
    zero = spec.cells(np.array([0.0, 1e-300, -1e-300]), "x")
    assert len(set(zero.tolist())) == 3
    assert spec.values(zero[:1], np.array([0.9])).tolist() == [0.0]


def test_decimals_are_those_of_the_schema():
    spec = NumberColumn(0, 1, decimals=1)
    assert spec.values(spec.cells(np.array([0.3, 0.7]), "x"), np.array([0.9, 0.1])).tolist() == [0.3, 0.7]
    money = NumberColumn(0, 100_000, decimals=2)
    drawn = money.values(np.arange(money.n_cells), np.full(money.n_cells, 0.7))
    np.testing.assert_array_equal(np.round(drawn, 2), drawn)
    np.testing.assert_array_equal(money.cells(drawn, "x"), np.arange(money.n_cells))


def test_missing_values_have_a_cell_of_their_own():
    spec = IntegerColumn(0, 9, missing=True)
    cells = spec.cells(text("3", "", None), "x")
    assert cells.tolist() == [3, 10, 10]
    np.testing.assert_array_equal(spec.values(cells, np.zeros(3)), [3.0, np.nan, np.nan])
    assert NumberColumn(0, 9, missing=True).cells(np.array([np.nan, 0.0]), "x").tolist()[1] == 0
    with pytest.raises(InvalidInputError, match="finite numbers in the column x"):
        spec.cells(text("many"), "x")


def test_dates_are_read_from_dates_and_text_and_written_as_dates():
    spec = DateColumn("2024-01-01", "2024-12-31")
    days = np.array(["2024-02-29", "2024-12-31", "2030-01-01"], dtype="datetime64[D]")
    found = [
        spec.values(spec.cells(cells, "x"), np.zeros(3)) for cells in (days, days.astype(str), days.astype("M8[ms]"))
    ]
    for dates in found:
        assert dates.dtype == np.dtype("M8[D]")
        assert dates.astype(str).tolist() == ["2024-02-29", "2024-12-31", "2024-12-31"]
    with pytest.raises(InvalidInputError, match="dates in the column x") as refused:
        spec.cells(text("2024-02-31"), "x")
    assert "02-31" not in str(refused.value)
    missing = DateColumn("2024-01-01", "2024-12-31", missing=True)
    assert np.isnat(missing.values(missing.cells(text("", "2024-01-01"), "x"), np.zeros(2))).tolist() == [True, False]
    with pytest.raises(InvalidInputError, match="low < high"):
        DateColumn("2024-01-01", "someday")


@pytest.mark.parametrize(
    "constraint",
    [
        AtMost("age", "town"),
        AtMost("age", "age"),
        AtMost("age", "height"),
        Implies("town", "country", "Rome", ("DE",)),
        Implies("town", "country", "Ulm", ()),
        Determines("town", "planet"),
        "age <= height",
    ],
)
def test_constraints_that_do_not_fit_the_columns_are_refused(constraint):
    columns = {
        "age": IntegerColumn(0, 120),
        "height": NumberColumn(0, 3),
        "town": CategoryColumn(("Ulm", "Graz")),
        "country": CategoryColumn(("DE", "AT")),
    }
    with pytest.raises(InvalidInputError, match="constraint"):
        TableSchema(columns, constraints=[constraint])


@pytest.mark.parametrize("name", ["columns.toml", "columns.json"])
@pytest.mark.parametrize("public", [True, False])
def test_a_file_holds_the_schema(tmp_path, name, public):
    schema = TableSchema(SCHEMA.columns, SCHEMA.left_out, public, SCHEMA.constraints)
    schema.save(tmp_path / name)
    loaded = TableSchema.load(tmp_path / name)
    assert loaded == schema
    assert list(loaded.columns) == list(schema.columns)
    for one, other in zip(loaded.columns.values(), schema.columns.values(), strict=True):
        assert repr(one) == repr(other)  # types too: 1 is not 1.0 and not True
    assert loaded.confirmed().public


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("public = true\n[columns.a]\nkind='integer'\nlow=0\nhigh=1", "no version"),
        ("version = 1\n[columns.a]\nkind='integer'\nlow=0\nhigh=1", "no public"),
        ("version = 2\npublic = true\n[columns]", "version 1"),
        ("version = 1\npublic = 'yes'\n[columns]", "public = true or false"),
        ("version = 1\npublic = true\ncolour = 2\n[columns]", "unknown colour"),
        ("version = 1\npublic = true\n[columns.a]\nkind='time'", "kind of the column a to be one of number, integer"),
        ("version = 1\npublic = true\n[columns]\n[[constraints]]\nkind='equals'", "kind of a constraint to be one of"),
        ("version = 1\npublic = true\n[columns]\n[[constraints]]\nkind='at-most'\nfirst='a'", "first, kind, second"),
        ("version = 1\npublic = true\n[columns.a]\nkind='integer'\nlow=0", "no high"),
        ("version = 1\npublic = true\n[columns.a]\nkind='integer'\nlow=0\nhigh=1\nbins=3", "unknown bins"),
        ("version = 1\npublic = true\n[columns.a]\nkind='integer'\nlow=0.5\nhigh=1", "integers of at most 2"),
        ("version = 1\npublic = true\n[columns.a]\nkind='number'\nlow=2\nhigh=1", "low < high, in the column a"),
        ("version = 1\npublic = true\n[columns.a]\nkind='number'\nlow='a'\nhigh=1", "finite bounds"),
        ("version = 1\npublic = true\n[columns.a]\nkind='number'\nlow=0\nhigh=1.25\ndecimals=1", "at most 1 decimals"),
        ("version = 1\npublic = true\n[columns.a]\nkind='category'\ncategories=['x', 'x']", "different categories"),
        ("version = 1\npublic = true\n[columns.a]\nkind='category'\ncategories=['x', 1]", "all text, all integers"),
        ("version = 1\npublic = true\n[columns.a]\nkind='category'\ncategories=3", "right types, in the column a"),
        ("version = 1\npublic = true\n[columns.a]\nkind='category'\ncategories=['x']\nother='y'", "other to be one"),
        ("version = 1\npublic = true\nleft_out=['a']\n[columns.a]\nkind='number'\nlow=0\nhigh=1", "both for a"),
        ("version = ", "TOML or JSON"),
    ],
)
def test_files_that_are_no_schema_are_explained(tmp_path, content, complaint):
    (tmp_path / "columns.toml").write_text(content)
    with pytest.raises(InvalidInputError, match=complaint):
        TableSchema.load(tmp_path / "columns.toml")


def test_a_json_file_that_is_no_object_is_refused(tmp_path):
    (tmp_path / "columns.json").write_text(json.dumps([1]))
    with pytest.raises(InvalidInputError, match="to be a table schema"):
        TableSchema.load(tmp_path / "columns.json")


def test_schemas_are_joined_and_a_column_is_declared_once():
    other = TableSchema({"height": NumberColumn(0, 3)}, public=False)
    both = SCHEMA.joined(other)
    assert list(both.columns) == [*SCHEMA.columns, "height"]
    assert not both.public
    with pytest.raises(InvalidInputError, match="age declared twice"):
        SCHEMA.joined(TableSchema({"age": NumberColumn(0, 3)}))


def test_a_draft_fits_the_rows_and_is_not_public():
    rows = 30
    frame = pl.DataFrame(
        {
            "PatientID": [f"p{row % 7}" for row in range(rows)],
            "row": [str(row) for row in range(rows)],
            "age": [str(20 + row % 11 * 6) for row in range(rows)],
            "dose": [f"{row / 7 - 1:.3f}" for row in range(rows)],
            "flag": ["0", "1"] * (rows // 2),
            "sex": ["f", "m", None] * (rows // 3),
            "notes": [f"note {row}" for row in range(rows)],
        }
    )
    draft = draft_schema(frame)
    assert not draft.public
    assert draft.left_out == ("PatientID", "row", "notes")
    assert draft.columns == {
        "age": IntegerColumn(0, 100),
        "dose": NumberColumn(-1.0, 5.0),
        "flag": CategoryColumn((0, 1)),
        "sex": CategoryColumn(("", "f", "m")),
    }
    assert "That is your statement" in draft.toml()
    assert "DRAFT" not in draft.confirmed().toml()
    for name, spec in draft.columns.items():
        spec.cells(frame[name].to_numpy(), name)
    with pytest.raises(InvalidInputError, match="rows and columns"):
        draft_schema(frame.head(0))


def test_identifiers_are_known_by_name_or_by_their_values():
    for name in ("id", "user_id", "UserID", "customerId", "E-Mail", "phone number"):
        assert looks_like_identifier(name, np.zeros(3))
    for name in ("paid", "idle", "video", "holiday", "mid"):
        assert not looks_like_identifier(name, np.zeros(3))
    assert looks_like_identifier("x", np.random.default_rng(0).permutation(50).astype(float))
    assert looks_like_identifier("x", text(*map(str, range(50))))
    assert not looks_like_identifier("x", np.arange(50) / 7)
    assert not looks_like_identifier("x", np.array([*range(49), 3], dtype=float))
    assert not looks_like_identifier("x", np.arange(10.0))
