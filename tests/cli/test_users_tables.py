"""Tables as users have them: ids, dates, categories, gaps, a column of texts; and messages that name options."""

import gzip

import numpy as np
import polars as pl
import pytest
from test_cli import invoke

from tacit.cli.read import chosen_columns, prepare, read_history, read_labelled, write_histories
from tacit.data import read_matrix
from tacit.data.files import read_columns, read_frame, scan_frame
from tacit.data.schema import CategoryColumn, DateColumn, IntegerColumn, NumberColumn, draft_schema
from tacit.errors import InvalidInputError
from tacit.estimators.verdict import about_ratings

MIXED = pl.DataFrame(
    {
        "customer_id": range(30),
        "age": [20 + place % 11 for place in range(30)],
        "income": [None if place % 7 == 0 else 1000.5 + place for place in range(30)],
        "city": ["Ulm", "Bonn", "Kiel"] * 10,
        "joined": [f"2024-0{1 + place % 9}-11" for place in range(30)],
        "note": ["moon star", "team goal", None] * 10,
        "y": [0, 1] * 15,
    }
)


@pytest.fixture
def table(tmp_path):
    MIXED.write_csv(tmp_path / "customers.csv")
    return tmp_path / "customers.csv"


def test_one_message_names_all_that_keeps_a_table_from_being_read(table):
    told = str(invoke("fit", "nmf", table, "-k", 2, "--output", table.parent / "out").exception)
    for part in ("customer_id", "city, joined, note", "empty cells in income", "--missing 0", "--text-column"):
        assert part in told
    assert "--drop customer_id,city,joined,note" in told
    assert "drop=" not in told
    options = told.partition("--drop ")[2].partition(".")[0]
    read = prepare(
        table,
        private=True,
        unit_rows=False,
        vocabulary=None,
        idf="uniform",
        shape=None,
        chosen=chosen_columns(None, options, "0", private=True),
    )
    assert list(read.names) == ["age", "income", "y"]
    assert read.X[0, 1] == 0


def test_columns_are_read_in_the_order_in_which_they_are_named(table):
    read = read_matrix(table, columns=["income", "age"], missing=-1.0)
    assert read.names == ("income", "age")
    assert read.X[0].tolist() == [-1.0, 20.0]
    filled = read_matrix(table, columns=["income"], missing="median").X[:, 0]
    assert filled[0] == MIXED["income"].median()


def test_an_identifier_is_used_only_where_it_is_named(table):
    with pytest.raises(InvalidInputError, match="identifiers in customer_id"):
        read_matrix(table, drop=["city", "joined", "note"], missing=0)
    assert read_matrix(table, columns=["customer_id"]).X[3, 0] == 3


@pytest.mark.parametrize("command", ["nmf", "pca", "svd"])
def test_gaps_of_a_private_fit_are_filled_by_a_public_number_only(table, command):
    told = invoke("fit", command, table, "-k", 2, "--epsilon", 1, "--missing", "mean", "--output", table.parent / "out")
    assert "released without a charge" in str(told.exception)
    assert not (table.parent / "out").exists()


def test_labelled_tables_choose_their_columns(table):
    rows = read_labelled(table, "y", chosen_columns("age", None, "refuse", private=True))
    assert rows.names == ("age",)
    with pytest.raises(InvalidInputError, match="no column height"):
        read_labelled(table, "y", chosen_columns(None, "height", "refuse", private=True))


def test_texts_of_a_column(table):
    read = prepare(
        table,
        private=False,
        unit_rows=True,
        vocabulary=None,
        idf="uniform",
        shape=None,
        chosen=chosen_columns(None, None, "refuse", "note", private=False),
    )
    assert sorted(read.names) == ["goal", "moon", "star", "team"]
    assert read.X.shape[0] == 30
    assert read.X[2].sum() == 0  # an empty cell is an empty text
    told = invoke("fit", "nmf", table, "-k", 2, "--text-column", "notes", "--output", table.parent / "out")
    assert "--text-column" in str(told.exception)


def test_a_draft_has_dates_gaps_and_decimals(table):
    draft = draft_schema(pl.read_csv(table, infer_schema=False)).columns
    assert draft["joined"] == DateColumn("2024-01-01", "2024-12-31")
    assert draft["income"] == NumberColumn(0.0, 2000.0, decimals=1, missing=True)
    assert draft["age"] == IntegerColumn(0, 50)
    assert "customer_id" not in draft


@pytest.mark.parametrize(
    ("arguments", "told", "untold"),
    [
        (("fit", "nmf", "-k", 2, "--epsilon", 1, "--delta", 0.5), "--delta of a private fit", "delta="),
        (("fit", "nmf", "-k", 2, "--method", "fast"), "--method to be one of", "for method"),
        (("fit", "pca", "-k", 2, "--epsilon", 1), "--row-norm", "row_norm"),
        (("perturb", "--target-distortion", 0.1, "-o", "OUT.csv"), "--drop", "unchanged="),
    ],
)
def test_a_command_names_its_options(table, arguments, told, untold):
    name, *rest = arguments
    words = [name, rest.pop(0)] if name == "fit" else [name]
    rest = [table.parent / "r.csv" if word == "OUT.csv" else word for word in rest]
    where = ("--report", table.parent / "out") if name == "perturb" else ("--output", table.parent / "out")
    given = ("--columns", "age,y") if name == "fit" else ()
    message = str(invoke(*words, table, *given, *rest, *where).exception)
    assert told in message
    assert untold not in message


def test_values_in_messages_are_plain():
    from tacit.errors import parameter

    assert parameter(np.str_("x")) == "'x'"
    assert parameter((np.float64(1.5), [np.int64(2)])) == "(1.5, [2])"


def test_one_users_history_is_read_without_the_others(tmp_path):
    frame = pl.DataFrame({"user": [2, 1, 2, 10], "item": ["a", "b", "c", "d"], "rating": [1.0, 2.0, 3.0, 4.0]})
    write_histories(frame, tmp_path)
    assert read_history(tmp_path, "2")["item"].to_list() == ["a", "c"]
    assert read_history(tmp_path, "3").is_empty()
    assert (tmp_path / "histories.parquet").stat().st_mode & 0o077 == 0
    assert read_history(tmp_path / "other", "2") is None


def test_a_copy_of_ratings_is_for_its_owner_whatever_was_there_before(tmp_path):
    (tmp_path / "histories.parquet").write_bytes(b"")
    (tmp_path / "histories.parquet").chmod(0o644)
    write_histories(pl.DataFrame({"user": [1], "item": [2], "rating": [3.0]}), tmp_path)
    assert (tmp_path / "histories.parquet").stat().st_mode & 0o777 == 0o600


@pytest.mark.slow
def test_a_refused_fit_leaves_the_histories_of_the_earlier_model(tmp_path):
    """They belong to a model that was paid for, and that the refused fit did not replace."""
    users, items = np.divmod(np.arange(120), 6)
    pl.DataFrame({"user": users, "item": items, "rating": 1.0 + items % 5}).write_csv(tmp_path / "ratings.csv")
    pl.DataFrame({"item": range(6)}).write_csv(tmp_path / "items.csv")
    arguments = ("fit", "recommend", tmp_path / "ratings.csv", "--catalogue", tmp_path / "items.csv", "--factors", 2)
    arguments += ("--output", tmp_path / "out", "--json")
    assert invoke(*arguments, "--epsilon", 4).exit_code == 0
    before = (tmp_path / "out" / "histories.parquet").read_bytes()
    assert invoke(*arguments, "--epsilon", 4, "--overwrite", "--ledger", tmp_path / "no.db").exit_code != 0
    assert (tmp_path / "out" / "histories.parquet").read_bytes() == before


def test_equal_ratings_are_a_concern():
    assert "--implicit" in about_ratings([1.0, 1.0])[0].advice
    assert not about_ratings([1.0, 2.0])
    assert not about_ratings([])


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_the_first_line_says_what_separates_cells(tmp_path, separator):
    plain = pl.DataFrame({"Reader": [1, 2], "Title, part": ["a", "b"]}).rename({"Title, part": "title"})
    plain.write_csv(tmp_path / "books.csv", separator=separator)
    assert read_frame(tmp_path / "books.csv").equals(plain)
    assert [part.height for part in scan_frame(tmp_path / "books.csv", 10)] == [2]
    (tmp_path / "books.csv.gz").write_bytes(gzip.compress((tmp_path / "books.csv").read_bytes()))
    assert list(read_columns(tmp_path / "books.csv.gz")) == ["Reader", "title"]


def test_a_comma_in_the_first_line_wins(tmp_path):
    (tmp_path / "a.csv").write_text("a;b,c\n1,2\n")
    assert read_frame(tmp_path / "a.csv").columns == ["a;b", "c"]


def test_marks_of_empty_cells_are_gaps_in_numbers_and_names_elsewhere(tmp_path):
    (tmp_path / "a.csv").write_text("n,x,land,id\n1,2.5,NA,NA\nNA,N/A,DE,7\n,nan,FR,8\n")
    frame = read_frame(tmp_path / "a.csv", text=("id",))
    assert frame["n"].to_list() == [1, None, None]
    assert frame["x"].to_list()[:2] == [2.5, None]
    assert frame["land"].to_list() == ["NA", "DE", "FR"]
    assert frame["id"].to_list() == ["NA", "7", "8"]
    cells = read_frame(tmp_path / "a.csv", as_text=True)
    draft = draft_schema(cells)
    assert isinstance(draft.columns["x"], (NumberColumn, CategoryColumn))
    numbers = NumberColumn(0, 10, missing=True).numbers(cells["x"].to_numpy(), "x")
    assert numbers[0] == 2.5
    assert np.isnan(numbers[1:]).all()
    with pytest.raises(InvalidInputError, match="no missing cell"):
        NumberColumn(0, 10).numbers(cells["x"].to_numpy(), "x")


def test_a_draft_leaves_out_columns_of_one_value_which_a_private_table_refuses():
    draft = draft_schema(pl.DataFrame({"sex": ["f", "m"], "country": ["DE", "DE"], "test": ["0", "0"]}))
    assert list(draft.columns) == ["sex"]
    assert draft.left_out == ("country", "test")


def test_a_draft_sees_numbers_beside_marks_of_empty_cells():
    income = [f"{1000 + 1.25 * place:.2f}" if place % 3 else "NA" for place in range(60)]
    drafted = draft_schema(pl.DataFrame({"income": income})).columns["income"]
    assert isinstance(drafted, NumberColumn)
    assert drafted.missing


def test_wrong_columns_are_answered_with_what_to_do(tmp_path):
    pl.DataFrame({"listener": ["a"], "track": ["t"]}).write_csv(tmp_path / "plays.csv")
    told = str(invoke("fit", "recommend", tmp_path / "plays.csv", "--output", tmp_path / "o").exception)
    assert "no column user, item, rating among 2. Name the columns" in told
    two = ("fit", "recommend", tmp_path / "plays.csv", "--columns", "listener,track", "--output", tmp_path / "o")
    assert "add --implicit" in str(invoke(*two).exception)
    pl.DataFrame({"song": ["t"], "year": [1]}).write_csv(tmp_path / "songs.csv")
    told = str(invoke(*two, "--implicit", "--epsilon", 1, "--catalogue", tmp_path / "songs.csv").exception)
    assert "got none among 2" in told


def test_a_draft_is_refused_before_the_rows_are_read(table, tmp_path):
    invoke("tables", "schema", table, "-o", tmp_path / "columns.toml")
    table.write_bytes(b"\xff")  # would be refused if it were read
    arguments = ("perturb", table, "--method", "private-table", "--schema", tmp_path / "columns.toml", "--epsilon", 1)
    told = str(invoke(*arguments, "-o", tmp_path / "r.csv", "--report", tmp_path / "p").exception)
    assert "set public = true in its file: this" in told
    assert "confirmed()" not in told


def test_without_a_schema_the_message_says_how_to_get_one(table, tmp_path):
    arguments = ("perturb", table, "--method", "private-table", "--epsilon", 1, "-o", tmp_path / "r.csv")
    told = str(invoke(*arguments, "--report", tmp_path / "p").exception)
    assert "tacit tables schema" in told
    assert "left_out" not in told
