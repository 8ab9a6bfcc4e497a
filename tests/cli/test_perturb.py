"""`tacit perturb` on files, as a user runs it."""

import json

import numpy as np
import polars as pl
import pytest
from test_cli import invoke, tacit_command

from tacit.errors import InvalidInputError
from tacit.measure import value_difference

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
    found = invoke("perturb", table, "-o", folder / "release.csv", "--report", folder / "report", "--json", *arguments)
    assert found.exit_code == 0, found.exception
    return json.loads(found.stdout), pl.read_csv(folder / "release.csv")


def test_the_command_of_the_documentation(table):
    out = table.parent / "release.parquet"
    found = tacit_command(
        *("perturb", table, "--method", "compressed-nmf", "--target-distortion", 0.14, "--columns", "age,dose"),
        *("--label", "state", "-o", out, "--report", table.parent / "report"),
    )
    assert found.returncode == 0, found.stderr
    assert "no privacy guarantee" in found.stdout
    released = pl.read_parquet(out)
    assert released.columns == FRAME.columns
    assert released["state"].equals(FRAME["state"])
    np.testing.assert_allclose(released["weight"], FRAME["weight"])
    reached = value_difference(FRAME.select("age", "dose"), released.select("age", "dose"))
    assert reached == pytest.approx(0.14, rel=0.02)
    assert "tacit measure" in (table.parent / "report" / "report.html").read_text()


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
    assert f"tacit measure {table} {table.parent / 'release.csv'} --label state" in page
    # by number: the row is told where to go
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


def test_a_seed_repeats_a_release_and_none_does_not(table):
    noise = ("--label", "state", "--method", "uniform-noise", "--level", 0.1)
    seeded = release(table, *noise, "--seed", 3)[1]
    assert seeded.equals(release(table, *noise, "--seed", 3)[1])
    assert not seeded.equals(release(table, *noise)[1])


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


def test_the_comparison_draws_the_frontier_with_the_private_table(table):
    folder = table.parent / "compared"
    found = invoke(
        *("perturb", table, "--compare", "--label", "state", "--distortions", "0.1", "--epsilons", "3"),
        *("--report", folder, "--json"),
    )
    result = json.loads(found.stdout)
    points = {point["method"]: point for point in result["releases"]}
    assert {"uniform-noise", "compressed-nmf", "correlation-aware", "neighbourhood-aware"} <= set(points)
    assert "bounds taken from the data" in points["private-table"]["note"]
    for point in points.values():
        assert point["note"].startswith("cannot") or (0 <= point["leak"] <= 1 and 0 <= point["utility"] <= 1)
    # a table with correlated columns and a little noise is given away, synthetic rows are not
    assert points["uniform-noise"]["leak"] > 0.5 > points["private-table"]["leak"]
    page = (folder / "report.html").read_text()
    assert "<svg" in page
    assert "private-table" in page
    assert json.loads((folder / "result.json").read_text()) == result
    assert result["verdict"] in page.replace("&#39;", "'")
    assert result["verdict"].endswith(".")
    assert "not beaten in both" in page


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
        (("--method", "rotation", "--level", 1), "method to be one of"),
        (("--method", "nmf", "--label", "state"), "in one way"),
        (("--method", "nmf", "--label", "state", "--level", 2, "--target-distortion", 0.1), "in one way"),
        (("--method", "nmf", "--level", 2, "--set", "eta=1"), "settings of nmf"),
        (("--method", "nmf", "--level", 2, "--set", "eta"), "a setting as in"),
        (("--method", "nmf", "--level", 2, "--label", "class"), "--label to be a column"),
        (("--method", "nmf", "--label", "state", "--level", 2, "--columns", "height"), "which are not there"),
        (("--method", "correlation-aware", "--level", 0.5, "--others", "pass"), "one label per row"),
        (("--method", "constrained-nmf", "--target-distortion", 9, "--label", "state"), "the largest is"),
        (("--method", "hide-membership", "--hide", "first=2", "--label", "state"), "--hide as in"),
        (("--method", "private-table"), "public bounds or categories"),
        (("--method", "private-table", "--bounds", "age=low:high"), "bounds as in"),
        (("--method", "private-table", "--categories", "size=1"), "categories as in"),
        (("--method", "private-table", "--categories", "age=a|b"), "numbers as values of age"),
        (("--compare", "--distortions", "some"), "--distortions as positive numbers"),
        (("--compare", "--bounds", "age=0:1"), "bounds of all columns"),
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
