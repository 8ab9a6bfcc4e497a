"""`tacit perturb` on files, as a user runs it."""

import json
import re
from itertools import cycle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from test_cli import invoke, tacit_command

from tacit.errors import BudgetError, InvalidInputError, LedgerError
from tacit.measure import value_difference
from tacit.privacy.ledger import Ledger
from tacit.testing import check_neighbours

GENERATOR = np.random.default_rng(0)
CLASSES = np.arange(150) % 3
VALUES = np.array([[1.0, 8.0, 3.0], [6.0, 2.0, 9.0], [9.0, 7.0, 1.0]])[CLASSES] + GENERATOR.normal(size=(150, 3))
FRAME = pl.DataFrame(
    {
        "age": VALUES[:, 0],
        "state": np.array(["ill", "well", "unknown"])[CLASSES],
        "weight": VALUES[:, 1],
        "dose": VALUES[:, 2],
    }
)
NUMBERS = ["age", "weight", "dose"]


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table.csv"
    FRAME.write_csv(path)
    return path


def refused(*arguments):
    """Return the error's message; the command line prints it and ends with the error's exit code."""
    found = invoke(*arguments)
    assert isinstance(found.exception, InvalidInputError), found.output
    return str(found.exception)


def release(table, *arguments):
    folder = table.parent
    found = invoke(
        "perturb",
        table,
        "-o",
        folder / "release.csv",
        "--report",
        folder / "report",
        "--json",
        *arguments,
        "--overwrite",
    )
    assert found.exit_code == 0, found.exception
    return json.loads(found.stdout), pl.read_csv(folder / "release.csv")


@pytest.mark.slow
def test_the_command_of_the_documentation(table):
    out = table.parent / "release.parquet"
    found = tacit_command(
        *("perturb", table, "--method", "compressed-nmf", "--target-distortion", 0.14, "--columns", "age,dose"),
        *("--pass", "weight", "--label", "state", "-o", out, "--report", table.parent / "report"),
    )
    assert found.returncode == 0, found.stderr
    assert "no privacy guarantee" in found.stdout
    released = pl.read_parquet(out)
    assert released.columns == FRAME.columns
    assert released["state"].equals(FRAME["state"])
    np.testing.assert_allclose(released["weight"], FRAME["weight"])
    reached = value_difference(FRAME.select("age", "dose"), released.select("age", "dose"))
    assert reached == pytest.approx(0.14, rel=0.02)
    page = (table.parent / "report" / "report.html").read_text()
    assert "tacit measure TABLE RELEASE --label state" in page
    assert "Released unchanged: state, weight." in page
    assert "Released unchanged: state, weight" in found.stdout
    assert f"tacit measure {table} {out} --label state" in found.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("--method", "uniform-noise", "--level", 0.1, "--seed", 3),
        ("--method", "truncated-svd", "--level", 2),
        ("--method", "sparsified-nmf", "--level", 0.8, "--set", "sparsify=0.05"),
        ("--method", "correlation-aware", "--level", 0.5, "--set", "eta=0.3"),
        ("--method", "neighbourhood-aware", "--target-distortion", 0.1),
        ("--method", "hide-membership", "--hide", "0=anywhere else,1=anywhere else"),
    ],
    ids=lambda arguments: arguments[1],
)
def test_methods_by_name(table, arguments):
    result, released = release(table, "--label", "state", *arguments)
    assert released.columns == FRAME.columns
    assert released["state"].equals(FRAME["state"])
    assert result["guarantee"]["epsilon"] is None
    measured = value_difference(FRAME.select(NUMBERS), released.select(NUMBERS))
    assert result["measures"]["distortion"] == pytest.approx(measured)
    assert json.loads((table.parent / "report" / "result.json").read_text()) == result


@pytest.mark.slow
def test_what_was_hidden_and_what_was_filled_is_reported(table):
    result, _ = release(table, "--label", "state", "--method", "hide-membership", "--hide", "0=anywhere else")
    assert result["measures"]["rows moved"] == 1
    assert result["measures"]["side effects"] == 0
    (moved,) = result["rows"]
    assert (moved["row"], moved["what"]) == (0, "moved as asked")
    assert moved["before"] != moved["after"]
    clusters = result["clusters"]
    assert sum(one["rows before"] for one in clusters) == sum(one["rows after"] for one in clusters) == 150
    assert clusters[moved["after"]]["rows after"] == clusters[moved["after"]]["rows before"] + 1
    own = FRAME.filter(pl.Series(CLASSES[0] == CLASSES))["age"].mean()
    assert clusters[moved["before"]]["means before"]["age"] == pytest.approx(own, abs=0.5)
    page = (table.parent / "report" / "report.html").read_text()
    assert "Rows that moved" in page
    # by number: the target cluster of the row is given
    result, _ = release(
        *(table, "--label", "state", "--method", "hide-membership", "--hide", f"0={moved['after']},3={moved['after']}")
    )
    assert [row["after"] for row in result["rows"]] == [moved["after"]] * 2
    FRAME.with_columns(age=pl.when(pl.col("dose") < 2).then(None).otherwise(pl.col("age"))).write_csv(table)
    assert "missing values in the columns age" in refused(
        "perturb", table, "--label", "state", "--method", "nmf", "--level", 2
    )
    result, _ = release(table, "--label", "state", "--method", "nmf", "--level", 2, "--missing", "mean")
    assert result["measures"]["missing values filled"] == int((FRAME["dose"] < 2).sum()) > 0
    page = (table.parent / "report" / "report.html").read_text()
    assert "--label state --missing mean" in page
    assert page.count("<svg") == 1


@pytest.mark.slow
def test_a_seed_repeats_a_release_and_none_does_not(table):
    noise = ("--label", "state", "--method", "uniform-noise", "--level", 0.1)
    seeded = release(table, *noise, "--seed", 3)[1]
    assert seeded.equals(release(table, *noise, "--seed", 3)[1])
    assert not seeded.equals(release(table, *noise)[1])


@pytest.mark.slow
def test_a_private_table(table):
    result, released = release(
        *(table, "--method", "private-table", "--epsilon", 5, "--label", "state"),
        *("--bounds", "age=-5:15,weight=-5:15,dose=-5:15", "--categories", "state=ill|well|unknown"),
    )
    assert result["guarantee"]["epsilon"] <= 5
    assert released.columns == FRAME.columns
    assert set(released["state"]) <= {"ill", "well", "unknown"}
    assert not set(released["age"]) & set(FRAME["age"])
    assert released.height == result["measures"]["rows drawn"]
    assert isinstance(result["measures"]["rows (noisy)"], int), "rows are counted, not 1.999e+04"


@pytest.mark.slow
def test_the_report_of_a_private_table_marks_what_may_be_passed_on_and_measure_runs_on_it(table):
    folder, output = table.parent / "report", table.parent / "synthetic.csv"
    found = invoke(
        *("perturb", table, "--method", "private-table", "--epsilon", 5, "--delta", 0.01, "--label", "state"),
        *("--bounds", "age=-5:15,weight=-5:15,dose=-5:15", "--categories", "state=ill|well|unknown"),
        *("--report", folder, "--output", output, "--json"),
    )
    assert not {"compared", "concerns"} & json.loads(found.stdout).keys()  # what is printed may be passed on
    result = json.loads((folder / "result.json").read_text())
    assert any("delta = 0.01 is not below" in concern["what"] for concern in result["concerns"])
    assert result["releasable"] == ["guarantee", "measures"]
    assert set(result["compared"]["columns"]) == set(FRAME.columns)
    assert 0 < result["compared"]["mean_pair"] < 0.6
    page = (folder / "report.html").read_text()
    marks = re.findall(r'<h2>([^<]*?) ?<span class="mark \w+">([^<]*)</span>', page)
    assert ("What was done", "may be passed on") in marks
    assert len([heading for heading, mark in marks if mark == "for the holder only"]) >= 3
    measured = json.loads(
        invoke(
            "measure", table, output, "--synthetic", "--label", "state", "--output", table.parent / "m", "--json"
        ).stdout
    )
    assert measured["pairs"] == pytest.approx(result["compared"]["pairs"])
    assert set(measured["classifiers"]) == {"logistic-l1", "tree"}
    assert "only --label, --outsiders and --seed" in refused("measure", table, output, "--synthetic", "--clusters", 3)
    assert "only --label, --outsiders and --seed" in refused("measure", table, output, "--outsiders", table)


def test_one_row_and_constant_columns_are_refused_by_name(table):
    options = ("--label", "state", "--method", "nmf", "--level", 2)
    FRAME.with_columns(kind=pl.lit(3.0)).write_csv(table)
    assert "the same value in every row of kind" in refused("perturb", table, *options)
    assert "the same value in every row of kind" in refused("perturb", table, "--compare", "--label", "state")
    FRAME.head(1).write_csv(table)
    assert "at least two rows" in refused("perturb", table, *options)
    FRAME.head(9).write_csv(table)
    assert "at least 10 rows" in refused("perturb", table, "--compare", "--label", "state")
    FRAME.with_columns(state=pl.lit("ill")).write_csv(table)
    assert "at least two classes" in refused("perturb", table, "--compare", "--label", "state")


@pytest.mark.slow
def test_the_comparison_draws_the_frontier_with_the_private_table(table):
    folder = table.parent / "compared"
    found = invoke(
        *("perturb", table, "--compare", "--label", "state", "--distortions", "0.1", "--epsilons", "3"),
        *("--report", folder, "--json"),
    )
    result = json.loads(found.stdout)
    points = {point["method"]: point for point in result["releases"]}
    assert {"uniform-noise", "compressed-nmf", "correlation-aware", "neighbourhood-aware"} <= set(points)
    assert "bounds were computed from the data" in points["private-table"]["note"]
    for point in points.values():
        assert point["note"].startswith("cannot") or (0 <= point["leak"] <= 1 and 0 <= point["utility"] <= 1)
    # attacks recover a table with correlated columns and a little noise, but not one of synthetic rows
    assert points["uniform-noise"]["leak"] > 0.5 > points["private-table"]["leak"]
    page = (folder / "report.html").read_text()
    assert "<svg" in page
    assert "private-table" in page
    assert json.loads((folder / "result.json").read_text()) == result
    assert result["verdict"] in page.replace("&#39;", "'")
    assert result["verdict"].endswith(".")
    assert "not beaten in both" in page


@pytest.mark.slow
def test_the_comparison_fills_when_asked_and_says_what_it_left_out(table):
    FRAME.with_columns(
        age=pl.when(pl.col("dose") < 2).then(None).otherwise(pl.col("age")), town=pl.lit("here")
    ).write_csv(table)
    options = ("--compare", "--label", "state", "--distortions", "0.1", "--epsilons", "3")
    assert "missing values in the columns age" in refused("perturb", table, *options)
    found = invoke("perturb", table, *options, "--missing", "mean", "--report", table.parent / "compared", "--json")
    result = json.loads(found.stdout)
    assert result["missing_filled"] == int((FRAME["dose"] < 2).sum()) > 0
    assert result["columns_left_out"] == ["town"]
    page = (table.parent / "compared" / "report.html").read_text()
    assert f"{result['missing_filled']} missing values were filled" in page
    assert "Left out: town" in page


@pytest.mark.slow
def test_the_comparison_without_labels_counts_clusters(table):
    FRAME.drop("state").write_csv(table)
    bounds = "age=-5:15,weight=-5:15,dose=-5:15"
    found = invoke(
        *("perturb", table, "--compare", "--distortions", "0.1,9", "--epsilons", "3", "--bounds", bounds),
        *("--report", table.parent / "compared"),
    )
    assert "clustering accuracy" in found.stdout
    assert "needs labels" in found.stdout
    assert "bounds taken" not in found.stdout


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--method", "reflection", "--level", 1), "method to be one of"),
        (("--method", "nmf", "--label", "state"), "exactly one of them"),
        (("--method", "nmf", "--label", "state", "--level", 2, "--target-distortion", 0.1), "exactly one of them"),
        (("--method", "nmf", "--level", 2, "--set", "eta=1"), "settings of nmf"),
        (("--method", "nmf", "--level", 2, "--set", "eta"), "a setting as in"),
        (("--method", "nmf", "--level", 2, "--label", "class"), "the label to be a column"),
        (("--method", "nmf", "--label", "state", "--level", 2, "--columns", "height"), "which the table does not have"),
        (("--method", "correlation-aware", "--level", 0.5, "--pass", "state"), "one label per row"),
        (("--method", "constrained-nmf", "--target-distortion", 9, "--label", "state"), "the largest is"),
        (("--method", "hide-membership", "--hide", "first=2", "--label", "state"), "--hide as in"),
        (("--method", "private-table"), "a schema that declares every column of the table; got nothing about age"),
        (("--method", "private-table", "--bounds", "age=low:high"), "bounds as in"),
        (("--method", "private-table", "--categories", "size"), "categories as in"),
        (("--method", "private-table", "--bounds", "age=0:9", "--categories", "age=a|b"), "both for age"),
        (("--method", "private-table", "--bounds", "age=0:9", "--integers", "dose"), "--integers to name columns"),
        (("--method", "private-table", "--bounds", "age=0:9.5", "--integers", "age"), "whole numbers as bounds"),
        (("--method", "private-table", "--bounds", "age=9:0"), "low < high"),
        (("--method", "private-table", "--dataset", "people"), "a ledger with --dataset"),
        (("--method", "nmf", "--level", 2, "--set", "columns=age"), "settings that have no option of their own"),
        (("--compare", "--distortions", "some"), "--distortions as positive numbers"),
        (("--compare", "--bounds", "age=0:1"), "a schema of all columns to compare on; got nothing about weight, dose"),
        (("--method", "nmf", "--level", 2, "--label", "state", "-o", "release.txt"), "ends in .csv or .parquet"),
    ],
)
def test_mistakes_are_explained(table, arguments, complaint, monkeypatch):
    monkeypatch.chdir(table.parent)
    assert complaint in refused("perturb", table, *arguments)


def test_text_is_refused_and_files_must_be_tables(table):
    assert "other kinds in the columns state" in refused("perturb", table, "--method", "nmf", "--level", 2)
    assert "does not exist" in refused("perturb", table.parent / "none.csv")
    FRAME.head(0).write_csv(table)
    assert "to have rows" in refused("perturb", table, "--method", "nmf", "--level", 2)
    assert "to have rows" in refused("measure", table, table)
    other = table.with_suffix(".txt")
    other.write_text("age\n1\n")
    assert "ends in .csv" in refused("perturb", other)


def private(table, *arguments):
    return (
        *("perturb", table, "--method", "private-table", "--label", "state", "--epsilon", 5, *arguments),
        *("--bounds", "age=-5:15,weight=-5:15,dose=-5:15", "--categories", "state=ill|well|unknown"),
        *("-o", table.parent / "synthetic.csv", "--report", table.parent / "report"),
    )


RELEASING = "level=1 target-distortion=0.1 pass=age set=eta=1 appended-to=x.csv"
PRIVATELY = "epsilon=1 delta=1e-6 schema=x.toml bounds=age=0:1 integers=age categories=a=b ledger=x.db dataset=people"
COMPARING = "distortions=0.1 epsilons=1"
UNUSED = {
    "private-table": f"{RELEASING} {COMPARING} hide=0=1 clusters=4",
    "nmf": f"{PRIVATELY} {COMPARING} hide=0=1 clusters=4",
    "truncated-svd": f"{PRIVATELY} {COMPARING} hide=0=1 clusters=4 seed=3",
    "compressed-nmf": f"{PRIVATELY} hide=0=1",
    "hide-membership": PRIVATELY,
    "uniform-noise": "clusters=4 hide=0=1",
    "--compare": "method=nmf output=x.csv level=1 target-distortion=0.1 pass=age drop=age hide=0=1 set=eta=1 epsilon=1 "
    "categories=a=b ledger=x.db dataset=people",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "option"), [(method, option) for method, options in UNUSED.items() for option in options.split()]
)
def test_an_option_that_a_method_does_not_use_is_refused(table, method, option):
    chosen = ["--compare"] if method == "--compare" else ["--method", method]
    complaint = refused("perturb", table, "--label", "state", *chosen, f"--{option}")
    assert f"only options that {method} uses; got --{option.split('=')[0]}." in complaint


@pytest.mark.slow
def test_nothing_passes_unasked(table):
    frame = FRAME.with_columns(
        patient=pl.Series([f"p{row}" for row in range(150)]), number=pl.Series(range(150)), town=pl.lit("here")
    )
    frame.write_csv(table)
    noise = ("--label", "state", "--method", "uniform-noise", "--level", 0.1)
    assert "other kinds in the columns patient, town" in refused("perturb", table, *noise)
    passing = (*noise, "--pass", "town", "--drop", "patient")
    assert "look like identifiers; got number" in refused("perturb", table, *passing)
    assert "neither for weight, dose, number" in refused("perturb", table, *passing, "--columns", "age")
    assert "height, which the table does not have" in refused("perturb", table, *noise, "--drop", "height")
    frame = frame.with_columns(town=pl.lit("01234"))
    frame.write_csv(table)
    result, released = release(table, *noise, "--pass", "town,number", "--drop", "patient")
    assert table.with_name("release.csv").read_text().splitlines()[1].endswith(",0,01234")  # to the letter
    assert released.columns == [name for name in frame.columns if name != "patient"]
    assert released["number"].equals(frame["number"])
    assert not released["age"].equals(frame["age"])
    assert result["unchanged"] == ["state", "number", "town"]
    assert result["changed"] == NUMBERS
    assert result["not_released"] == ["patient"]
    page = (table.parent / "report" / "report.html").read_text()
    assert "Released unchanged: state, number, town." in page
    assert "Of these, number may be identifiers" in page
    assert "Not released: patient." in page


@pytest.mark.slow
def test_nothing_is_overwritten_unasked(table):
    folder = table.parent
    noise = ("perturb", table, "--label", "state", "--method", "uniform-noise", "--level", 0.1)
    for taken in ("release.csv", "report/report.html", "report/result.json"):
        (folder / taken).parent.mkdir(exist_ok=True)
        (folder / taken).write_text("mine")
        outputs = ("-o", folder / "release.csv", "--report", folder / "report")
        assert taken.rpartition("/")[2] in refused(*noise, *outputs)
        assert (folder / taken).read_text() == "mine"
        (folder / taken).unlink()
    assert invoke(*noise, *outputs).exit_code == 0
    before = (folder / "release.csv").read_text()
    assert "does not exist yet" in refused(*noise, *outputs)
    assert "an earlier result" in refused(*noise, "-o", folder / "other.csv", "--report", folder / "report")
    assert "an earlier result" in refused("perturb", table, "--compare", "--report", folder / "report")
    assert (folder / "release.csv").read_text() == before
    assert invoke(*noise, *outputs, "--overwrite").exit_code == 0
    assert (folder / "release.csv").read_text() != before


@pytest.fixture
def ledger(tmp_path):
    book = Ledger(tmp_path / "book.db")
    book.open_account("people", epsilon=6.0, delta=1e-5)
    return book


def spent(ledger):
    return ledger.remaining("people").spent


@pytest.mark.slow
def test_a_private_table_is_charged(table, ledger, monkeypatch):
    account = ("--ledger", table.parent / "book.db", "--dataset", "people")
    assert invoke(*private(table, *account)).exit_code == 0
    assert 4 < spent(ledger) <= 5
    again = invoke(*private(table, *account, "--overwrite"))
    assert isinstance(again.exception, BudgetError)
    assert spent(ledger) <= 5
    # the environment names a ledger as well
    monkeypatch.setenv("TACIT_LEDGER", str(table.parent / "book.db"))
    found = invoke(*private(table, "--dataset", "people", "--overwrite"))
    assert isinstance(found.exception, BudgetError)
    assert isinstance(invoke(*private(table, "--overwrite")).exception, LedgerError)  # no account for this file
    # and a release without a guarantee says that it is not charged
    result, _ = release(table, "--label", "state", "--method", "uniform-noise", "--level", 0.1)
    assert "Nothing is charged" in result["ledger"]


@pytest.mark.slow
def test_what_can_fail_fails_before_the_charge(table, ledger, tmp_path):
    account = ("--ledger", tmp_path / "book.db", "--dataset", "people")
    draft = tmp_path / "draft.toml"
    invoke("tables", "schema", table, "-o", draft)
    (tmp_path / "file").write_text("")
    stated = ("--schema", draft)
    attempts = [
        (*private(table, *account), "-o", tmp_path / "synthetic.txt"),
        (*private(table, *account), "-o", tmp_path / "file" / "synthetic.csv"),
        (*private(table, *account), "-o", table),
        ("perturb", table, "--method", "private-table", *account, *stated, "-o", tmp_path / "a.csv"),
        (*private(table, *account), "--categories", "state=ill|well"),
        (*private(table, *account), "--label", "weight"),
        (*private(table, *account), "--report", tmp_path / "file"),
        (*private(table, *account), "--seed", -1),
        (*private(table, *account), "--level", 2),
    ]
    for attempt in attempts:
        found = invoke(*attempt)
        assert isinstance(found.exception, InvalidInputError | SystemExit), found.exception
        assert spent(ledger) == 0, attempt
    assert not (tmp_path / "a.csv").exists()
    assert not list(tmp_path.glob("*.partial"))


@pytest.mark.slow
def test_a_private_table_from_a_confirmed_schema(table, tmp_path):
    people = FRAME.with_columns(age=FRAME["age"].round().cast(pl.Int64), patient_id=pl.Series(range(150)))
    people.write_csv(table)
    schema = tmp_path / "columns.toml"
    found = tacit_command("tables", "schema", table, "-o", schema)
    assert found.returncode == 0, found.stderr
    assert "your statement that the schema is public" in " ".join(found.stdout.split())
    assert "or have one value only: patient_id" in found.stdout
    assert "does not exist yet" in refused("tables", "schema", table, "-o", schema)
    run = ("perturb", table, "--method", "private-table", "--schema", schema, "--label", "state", "--epsilon", 5)
    outputs = ("-o", tmp_path / "out.csv", "--report", tmp_path / "report")
    assert "a schema that a person has confirmed" in refused(*run, *outputs)
    assert "age declared twice" in refused(*run, *outputs, "--bounds", "age=0:9")
    schema.write_text(schema.read_text().replace("public = false", "public = true"))
    result = json.loads(invoke(*run, *outputs, "--json").stdout)
    assert result["not_released"] == ["patient_id"]
    released = pl.read_csv(tmp_path / "out.csv", infer_schema=False)
    assert released.columns == FRAME.columns
    assert all(cell.lstrip("-").isdigit() for cell in released["age"])
    assert "Not released: patient_id" in (tmp_path / "report" / "report.html").read_text()


NEIGHBOUR_SCHEMA = """
version = 1
public = true

[columns.visits]
kind = "integer"
low = 0
high = 9

[columns.dose]
kind = "number"
low = 0
high = 5
decimals = 1

[columns.stage]
kind = "category"
categories = [3, 1, 2]

[columns.town]
kind = "category"
categories = ["Ulm", "Bad Salzuflen-Schötmar", "elsewhere"]
other = "elsewhere"
"""
ROWS = [f"{row % 7},{row % 5}.5,{1 + row % 2},Ulm" for row in range(60)]
NEW_ROWS = {
    "another spelling": "3.0,2,3.0,Ulm",
    "a category that no row had": "3,2.5,2,Bad Salzuflen-Schötmar",
    "a value that nobody declared": "3,2.5,1,Castrop-Rauxel an der Emscher, Ortsteil Nord".replace(", ", " "),
    "values beyond the bounds": "99999999999,1e300,1,Ulm",
    "the longest string": f"3,2.{'5' * 300},1,{'x' * 5000}",
    "quotes": '" 4 ","2.5"," 1","Ulm"',
}


PLACES = {"first": 0, "middle": 30, "last": 60}
# one kind of row at every place, the others at one place each by turns: where a row is does not change how its cells are read
NEIGHBOURS = [("another spelling", place) for place in PLACES]
NEIGHBOURS += list(zip([name for name in NEW_ROWS if name != "another spelling"], cycle(PLACES), strict=False))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("row", "place"),
    [(NEW_ROWS[row], PLACES[place]) for row, place in NEIGHBOURS],
    ids=[f"{row}-{place}" for row, place in NEIGHBOURS],
)
def test_a_row_more_changes_no_byte_of_the_synthetic_table_but_by_the_noisy_sums(tmp_path, row, place):
    """The command runs on two neighbouring files with the same answers of the channel: every byte is the same."""
    (tmp_path / "columns.toml").write_text(NEIGHBOUR_SCHEMA)
    runs = iter(range(2))

    def run(lines):
        folder = tmp_path / str(next(runs))
        folder.mkdir()
        (folder / "table.csv").write_text("\n".join(["visits,dose,stage,town", *lines]) + "\n")
        found = invoke(
            *("perturb", folder / "table.csv", "--method", "private-table", "--schema", tmp_path / "columns.toml"),
            *("--label", "stage", "--epsilon", 8, "--seed", 1, "--json"),
            *("-o", folder / "synthetic.csv", "--report", folder / "report"),
        )
        assert found.exit_code == 0, found.exception
        printed = json.loads(found.stdout)
        del printed["table"], printed["output"]
        return {"file": (folder / "synthetic.csv").read_bytes(), "printed": json.dumps(printed)}

    assert check_neighbours(run, ROWS, [*ROWS[:place], row, *ROWS[place:]]).largest <= 1
    written = pl.read_csv(tmp_path / "1" / "synthetic.csv", infer_schema=False)
    assert set(written["stage"]) <= {"1", "2", "3"}
    assert set(written["visits"]) <= set("0123456789")
    assert set(written["town"]) <= {"Ulm", "Bad Salzuflen-Schötmar", "elsewhere"}
    assert all(len(cell) == 3 for cell in written["dose"])


@pytest.mark.parametrize(
    "row",
    [
        "Zaphod,1,1,Ulm",
        "3,Zaphod,1,Ulm",
        "3,1,Zaphod,Ulm",
        "4.25,1,1,Ulm",
        "3,,1,Ulm",
        "3,1,4711,Ulm",
        "3,1,,Ulm",
        "3,1",
    ],
)
def test_a_value_that_does_not_fit_is_refused_by_column_alone(tmp_path, row):
    (tmp_path / "columns.toml").write_text(NEIGHBOUR_SCHEMA)
    (tmp_path / "table.csv").write_text("\n".join(["visits,dose,stage,town", *ROWS, row]) + "\n")
    complaint = refused(
        *("perturb", tmp_path / "table.csv", "--method", "private-table", "--schema", tmp_path / "columns.toml"),
        *("-o", tmp_path / "synthetic.csv", "--report", tmp_path / "report"),
    )
    assert "in the column " in complaint
    for planted in ("Zaphod", "4.25", "4711", "61", "60"):
        assert planted not in complaint
    assert not (tmp_path / "synthetic.csv").exists()


@pytest.mark.slow
def test_a_notebook_gets_what_the_command_writes(table):
    from tacit.data import CategoryColumn, NumberColumn
    from tacit.report.tables import compare_table, perturb_table, synthesize_table

    noise = {"label": "state", "level": 0.1, "random_state": 3}
    result, released = release(
        *(table, "--label", "state", "--method", "uniform-noise", "--level", 0.1, "--seed", 3),
    )
    found = perturb_table(FRAME, "uniform-noise", **noise)
    assert found.table.select(NUMBERS).to_numpy() == pytest.approx(released.select(NUMBERS).to_numpy())
    assert json.loads(json.dumps(found.summary)).items() <= result.items()
    assert "Released unchanged: state." in found._repr_html_()
    pandas = perturb_table(pd.DataFrame(FRAME.to_dict(as_series=False)), "uniform-noise", **noise)
    assert list(pandas.table["state"]) == list(FRAME["state"])
    schema = {name: NumberColumn(-5, 15) for name in NUMBERS} | {"state": CategoryColumn(("ill", "well", "unknown"))}
    synthetic = synthesize_table(pd.DataFrame(FRAME.to_dict(as_series=False)), schema, epsilon=5.0, label="state")
    assert list(synthetic.table.columns) == FRAME.columns
    assert "A synthetic table" in synthetic._repr_html_()
    compared = compare_table(FRAME, label="state", distortions=[0.1], epsilons=[3.0])
    assert compared.summary["releases"][0] == compared.releases[0].to_dict()
    assert "Ways to release a table" in compared._repr_html_()
    for wrong in (np.zeros((3, 2)), FRAME.head(0)):
        with pytest.raises(InvalidInputError, match=r"a data frame|to have rows"):
            perturb_table(wrong, "nmf", level=2)


@pytest.mark.slow
def test_later_rows_are_changed_as_the_earlier_table_taught_and_released_alone(tmp_path):
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(60, 2)) @ rng.normal(size=(2, 3))
    whole = pl.DataFrame(rows, schema=["a", "b", "c"])
    whole[:50].write_csv(tmp_path / "earlier.csv")
    whole[50:].write_csv(tmp_path / "later.csv")
    whole.write_csv(tmp_path / "whole.csv")
    settings = ["--method", "rotation", "--level", "0.5"]
    appended = ["--appended-to", tmp_path / "earlier.csv"]
    later = release(tmp_path / "later.csv", *settings, "--seed", "5", *appended)[1].to_numpy()
    assert later.shape == (10, 3)
    earlier = release(tmp_path / "earlier.csv", *settings, "--seed", "5")[1].to_numpy()
    # one rotation for both: what is fitted on the earlier release maps the later rows too
    found, *_ = np.linalg.lstsq(np.c_[rows[:50], np.ones(50)], earlier, rcond=None)
    np.testing.assert_allclose(np.c_[rows[50:], np.ones(10)] @ found, later, atol=1e-9)
    assert "seed" in refused("perturb", tmp_path / "later.csv", *settings, *appended, "-o", tmp_path / "other.csv")
    whole = ["perturb", tmp_path / "whole.csv", *settings, "--seed", "5", *appended, "-o", tmp_path / "other.csv"]
    assert "earlier rows" in refused(*whole)
    assert not (tmp_path / "other.csv").exists()


EARLIER, LATER = (
    pl.DataFrame({"age": generator.integers(0, 90, rows), "dose": generator.random(rows)})
    for generator, rows in ((np.random.default_rng(4), 40), (np.random.default_rng(5), 10))
)
AGAIN = {
    "before the later ones": pl.concat([EARLIER, LATER]),
    "after the later ones": pl.concat([LATER, EARLIER]),
    "in another order": pl.concat([EARLIER, LATER]).sort("dose"),
    "all but one": pl.concat([EARLIER[1:], LATER]),
    "with another type of column": pl.concat([LATER, EARLIER]).with_columns(pl.col("age").cast(float)),
    "most of a short table": pl.concat([LATER[:3], EARLIER[:4]]),
}


def appended(frame, earlier=EARLIER, **settings):
    from tacit.report.tables import perturb_table

    settings = {"level": 0.1, "random_state": 1, "columns": ["age", "dose"], **settings}
    return perturb_table(frame, "uniform-noise", appended_to=earlier, **settings)


@pytest.mark.parametrize("name", AGAIN)
def test_earlier_rows_are_not_released_again(name):
    with pytest.raises(InvalidInputError, match="a table with rows of the earlier one"):
        appended(AGAIN[name])


def test_columns_that_are_not_released_do_not_hide_earlier_rows():
    numbered = [table.with_row_index("row", offset) for table, offset in ((EARLIER, 0), (EARLIER.reverse(), 99))]
    with pytest.raises(InvalidInputError, match="a table with rows of the earlier one"):
        appended(numbered[1], numbered[0], left_out=["row"])


def test_rows_that_equal_an_earlier_one_are_counted():
    assert "rows equal to an earlier one" not in appended(LATER).summary["measures"]
    some = pl.concat([LATER, EARLIER[:2]])
    assert appended(some).summary["measures"]["rows equal to an earlier one"] == 2
    answers = pl.DataFrame({"age": [1, 2] * 20, "dose": [0.0, 1.0, 1.0, 0.0] * 10})  # people give the same answers
    later = answers.reverse()
    assert appended(later, answers).summary["measures"]["rows equal to an earlier one"] == 40
