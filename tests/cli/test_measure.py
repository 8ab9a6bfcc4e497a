"""`tacit measure` on tables, as a user runs it: the report, the verdict, and files that do not fit together."""

import json

import numpy as np
import pandas
import polars
import pytest
import typer
from test_cli import invoke, tacit_command
from typer.testing import CliRunner

from tacit.cli.measure import TableUnlessNamed
from tacit.errors import InvalidInputError
from tacit.measure import CLASSIFIERS


@pytest.fixture(scope="module")
def frame():
    generator = np.random.default_rng(0)
    kinds = generator.integers(0, 2, size=160)
    values = generator.normal(size=(160, 2)) @ generator.normal(size=(2, 4)) + 3 * kinds[:, None]
    columns = {f"x{place}": values[:, place] for place in range(4)}
    return polars.DataFrame({**columns, "kind": np.array(["oak", "elm"])[kinds]})


@pytest.fixture(scope="module")
def files(frame, tmp_path_factory):
    folder = tmp_path_factory.mktemp("measure")
    generator = np.random.default_rng(1)
    noisy = frame.with_columns([frame[f"x{place}"] + 0.3 * generator.normal(size=160) for place in range(4)])
    fresh = frame.with_columns([polars.Series(f"x{place}", generator.normal(size=160)) for place in range(4)])
    for name, table in {"original": frame, "release": noisy, "fresh": fresh}.items():
        table.write_csv(folder / f"{name}.csv")
    return folder


@pytest.fixture(scope="module")
def measured(files):
    arguments = [files / "original.csv", files / "release.csv", "--label", "kind", "--output", files / "out"]
    found = tacit_command("measure", *arguments, "--json")
    assert found.returncode == 0, found.stderr
    return json.loads(found.stdout)


@pytest.mark.slow
def test_one_report_with_everything(files, measured):
    page = (files / "out" / "report.html").read_text()
    assert "<dt>data</dt><dd>original.csv</dd>" in page
    assert "<dt>rows</dt><dd>160</dd>" in page
    for heading in (
        *("Verdict", "Distortion", "Clusters kept", "What classifiers learn", "What attackers recover"),
        *("Distributions", "Two components", "Clusters"),
    ):
        assert f"<h2>{heading} <span" in page or f"<h2>{heading}</h2>" in page
    assert page.count("<svg") == 5
    assert "http://" not in page.replace("http://www.w3.org", "").replace("http://purl.org", "").replace(
        "http://creativecommons.org", ""
    )
    assert json.loads((files / "out" / "result.json").read_text()) == measured


def test_the_figures_are_those_of_the_library(files, frame, measured):
    from tacit.measure import canonical_correlation, value_difference
    from tacit.measure.attacks import record_linkage

    numbers = [f"x{place}" for place in range(4)]
    release = polars.read_csv(files / "release.csv").select(numbers)
    table = frame.select(numbers)
    assert measured["columns"] == numbers
    assert measured["rows"] == 160
    assert measured["distortion"]["value difference (VD)"] == pytest.approx(value_difference(table, release))
    assert measured["distortion"]["canonical correlation (CCA)"] == pytest.approx(canonical_correlation(table, release))
    assert measured["attacks"][0]["recovered"] == pytest.approx(record_linkage(table, release).recovered)
    assert measured["attacks"][0]["top_5"]["recovered"] >= measured["attacks"][0]["recovered"]
    assert measured["attacks"][0]["top_5"]["leaks"]
    assert [score["classifier"] for score in measured["panel"]] == list(CLASSIFIERS)
    assert measured["n_clusters"] == 2
    assert len(measured["attacks"]) == 7


def test_the_verdict_names_what_leaks(measured):
    assert measured["verdict"].startswith("The release keeps")
    assert "hides little" in measured["verdict"]
    assert "no guarantee" in measured["verdict"]


@pytest.mark.slow
def test_an_unrelated_table_leaks_nothing_and_is_of_no_use(files, tmp_path):
    found = invoke("measure", files / "original.csv", files / "fresh.csv", "--label", "kind", "--output", tmp_path)
    assert found.exit_code == 0, found.output
    result = json.loads((tmp_path / "result.json").read_text())
    assert "loses much of its use" in result["verdict"]
    assert "nothing beyond chance" in result["verdict"]
    assert not any(attack["leaks"] for attack in result["attacks"])
    assert result["verdict"] in found.output


@pytest.mark.slow
def test_without_a_label_chosen_columns_are_measured(files, tmp_path):
    arguments = [files / "original.csv", files / "release.csv", "--columns", "x0, x2", "--clusters", 3]
    found = invoke("measure", *arguments, "--neighbours", 4, "--output", tmp_path, "--json")
    result = json.loads(found.output)
    assert result["columns"] == ["x0", "x2"]
    assert result["panel"] == []
    assert result["n_clusters"] == 3
    assert "neighbour overlap (of 4)" in result["distortion"]


@pytest.mark.slow
def test_parquet_and_a_release_without_the_label(files, frame, tmp_path):
    frame.drop("kind").write_parquet(tmp_path / "same.parquet")
    arguments = [files / "original.csv", tmp_path / "same.parquet", "--label", "kind", "--output", tmp_path / "out"]
    result = json.loads(invoke("measure", *arguments, "--test-rows", "released", "--json").output)
    assert result["distortion"]["value difference (VD)"] == pytest.approx(0, abs=1e-12)
    assert result["clustering_accuracy"] == 1
    assert {score["test_rows"] for score in result["panel"]} == {"released"}


@pytest.mark.slow
def test_the_command_may_be_named_and_others_may_stand_beside_it(files, tmp_path):
    named = invoke(
        "measure", "table", files / "original.csv", files / "release.csv", "--columns", "x0,x1", "--output", tmp_path
    )
    assert named.exit_code == 0
    assert "original.csv" in invoke("measure", "--help").output
    app = typer.Typer(cls=TableUnlessNamed)
    app.command("table")(lambda original: typer.echo(f"table {original}"))
    app.command("ksdp")(lambda sample: typer.echo(f"ksdp {sample}"))
    run = CliRunner().invoke
    assert run(app, ["a.csv"]).output == "table a.csv\n"
    assert run(app, ["table", "a.csv"]).output == "table a.csv\n"
    assert run(app, ["ksdp", "a.npz"]).output == "ksdp a.npz\n"


@pytest.mark.parametrize(
    ("change", "extra", "message"),
    [
        (lambda frame: frame.head(159), [], "another number of rows"),
        (lambda frame: frame.reverse(), [], "rows with another kind"),
        (lambda frame: frame.rename({"x1": "y1"}), [], "without x1; with y1"),
        (lambda frame: frame.with_columns(x2=polars.lit("many")), [], "other kinds in x2"),
        (lambda frame: frame.with_columns(x2=polars.when(polars.col("x2") > 0).then("x2")), [], "in x2"),
        (lambda frame: frame, ["--neighbours", "160"], "k to be below 160"),
        (lambda frame: frame, ["--clusters", "500"], "at most 160, the number of distinct rows"),
        (lambda frame: frame, ["--columns", "x0,x9"], "x9"),
        (lambda frame: frame, ["--test-rows", "both"], "--test-rows to be one of"),
    ],
)
def test_files_that_do_not_fit_are_refused(files, frame, tmp_path, change, extra, message):
    change(frame).write_csv(tmp_path / "release.csv")
    arguments = ["measure", files / "original.csv", tmp_path / "release.csv", "--label", "kind"]
    found = invoke(*arguments, "--output", tmp_path / "out", *extra)
    assert isinstance(found.exception, InvalidInputError)
    assert message in str(found.exception)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_columns_that_were_passed_on_are_attacked_and_what_was_not_looked_at_is_said(files, frame, tmp_path):
    """A zip code that was passed on links every row, however well the numbers are hidden."""
    zips = polars.Series("zip", [f"{row % 80:05}" for row in range(frame.height)], dtype=polars.String)
    fresh = polars.read_csv(files / "fresh.csv")
    before, after = frame.with_columns(zips, name=polars.lit("a")), fresh.with_columns(zips)
    before.write_csv(tmp_path / "before.csv")
    after.write_csv(tmp_path / "after.csv")
    arguments = ["measure", tmp_path / "before.csv", tmp_path / "after.csv", "--label", "kind"]
    found = invoke(*arguments, "--columns", "x0,x1", "--output", tmp_path / "out")
    assert found.exit_code == 0, found.exception
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert result["unchanged"] == ["zip"]
    assert result["not_measured"] == ["x2", "x3"]
    assert result["not_released"] == ["name"]
    first, second = result["attacks"][:2]
    assert first["attack"] == "linkage by unchanged columns"
    assert first["recovered"] == 0.5  # two rows for every zip code
    assert first["leaks"]
    assert second["attack"] == "record linkage"
    assert second["recovered"] > 0.3  # by zip code and numbers; the numbers alone say nothing
    assert "linkage by unchanged columns finds 50.0% of the rows" in result["verdict"]
    page = (tmp_path / "out" / "report.html").read_text()
    for said in (
        "Released unchanged, and used to link rows: zip.",
        "Changed, but not measured and not attacked: x2, x3.",
        "Not released: name.",
        "The label, kind, is not used by any attack.",
    ):
        assert said in page
        assert said in found.output.replace("\n", " ")
    # nothing is overwritten without --overwrite
    assert "an earlier result; got one that holds result.json" in str(
        invoke(*arguments, "--output", tmp_path / "out").exception
    )
    assert invoke(*arguments, "--output", tmp_path / "out", "--overwrite").exit_code == 0


@pytest.mark.slow
def test_a_notebook_gets_what_the_command_writes(files, frame, measured):
    from tacit.report.measure import measure_tables

    release = polars.read_csv(files / "release.csv")
    found = measure_tables(pandas.DataFrame(frame.to_dict(as_series=False)), release, label="kind")
    assert {**measured, "verdict": ""} == {**json.loads(json.dumps(found.summary)), "verdict": ""}
    assert "<iframe" in found._repr_html_()
    assert "Verdict" in found._repr_html_()
    with pytest.raises(InvalidInputError, match="a data frame"):
        measure_tables(np.zeros((3, 2)), release)


def test_constant_columns_and_single_rows_are_refused(frame, tmp_path):
    constant = frame.with_columns(x3=polars.lit(2.0))
    constant.write_csv(tmp_path / "constant.csv")
    found = invoke("measure", tmp_path / "constant.csv", tmp_path / "constant.csv", "--label", "kind")
    assert "a single value in x3" in str(found.exception)
    frame.head(1).write_csv(tmp_path / "one.csv")
    found = invoke("measure", tmp_path / "one.csv", tmp_path / "one.csv", "--columns", "x0,x1")
    assert "at least 2 rows" in str(found.exception)
    gaps = frame.with_columns(kind=polars.when(polars.col("x0") > 0).then("kind"))
    gaps.write_csv(tmp_path / "gaps.csv")
    found = invoke("measure", tmp_path / "gaps.csv", tmp_path / "gaps.csv", "--label", "kind")
    assert "a label in every row" in str(found.exception)


def with_gaps(frame, column, rows):
    """Return the table with these values of one column missing."""
    number = polars.int_range(frame.height)
    return frame.with_columns(polars.when(number.is_in(rows)).then(None).otherwise(polars.col(column)).alias(column))


@pytest.mark.slow
def test_missing_values_are_filled_when_asked_and_counted(files, frame, tmp_path):
    gaps = with_gaps(with_gaps(frame, "x0", [3, 50]), "x2", [7])
    gaps.write_csv(tmp_path / "gaps.csv")
    release = polars.read_csv(files / "release.csv")
    with_gaps(release, "x1", [0]).with_columns(x3=polars.col("x3").cast(str)).with_columns(
        x3=polars.when(polars.int_range(release.height) == 9).then(polars.lit("NaN")).otherwise("x3")
    ).write_csv(tmp_path / "release.csv")
    arguments = ["measure", tmp_path / "gaps.csv", tmp_path / "release.csv", "--label", "kind"]
    refused = invoke(*arguments, "--output", tmp_path / "refused")
    assert "the original to have no missing values; got missing values in x0, x2" in str(refused.exception)
    assert "--missing mean" in str(refused.exception)
    assert not (tmp_path / "refused").exists()
    found = invoke(*arguments, "--missing", "median", "--output", tmp_path / "out")
    assert found.exit_code == 0, found.exception
    said = "filled by the median of their column: 3 in the original, 2 in the release"
    assert said in found.output.replace("\n", " ")
    assert said in (tmp_path / "out" / "report.html").read_text()
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert result["missing_filled"] == {"original": 3, "released": 2}
    # the same as filling by hand, each table from its own columns
    from tacit.measure import value_difference

    numbers = [f"x{place}" for place in range(4)]
    by_hand = gaps.select(polars.col(name).fill_null(polars.col(name).median()) for name in numbers)
    second = release.select(numbers).to_numpy().copy()
    second[0, 1], second[9, 3] = np.median(second[1:, 1]), np.median(np.delete(second[:, 3], 9))
    assert result["distortion"]["value difference (VD)"] == pytest.approx(value_difference(by_hand, second))


def test_filling_does_not_let_text_through(files, frame, tmp_path):
    assert "missing to be one of" in str(
        invoke("measure", files / "original.csv", files / "release.csv", "--missing", "zero").exception
    )
    with_gaps(frame.with_columns(x1=polars.lit("many")), "x0", [3]).write_csv(tmp_path / "text.csv")
    frame.with_columns(x1=polars.lit("few")).write_csv(tmp_path / "changed.csv")
    arguments = ["measure", tmp_path / "text.csv", tmp_path / "changed.csv", "--label", "kind", "--missing", "mean"]
    assert "other kinds in x1" in str(invoke(*arguments, "--output", tmp_path / "out").exception)
    with_gaps(frame, "x0", range(160)).write_csv(tmp_path / "empty.csv")
    found = invoke(
        *("measure", files / "original.csv", tmp_path / "empty.csv", "--label", "kind", "--missing", "mean"),
        *("--output", tmp_path / "out"),
    )
    assert isinstance(found.exception, InvalidInputError)


@pytest.mark.slow
def test_what_a_table_does_not_allow_is_left_out_and_named(tmp_path):
    generator = np.random.default_rng(2)
    wide = polars.DataFrame(generator.normal(size=(9, 12)), schema=[f"x{place}" for place in range(12)])
    wide = wide.with_columns(kind=polars.Series(["oak"] * 8 + ["elm"]))
    wide.write_csv(tmp_path / "wide.csv")
    arguments = ["measure", tmp_path / "wide.csv", tmp_path / "wide.csv", "--label", "kind", "--output", tmp_path]
    found = invoke(*arguments)
    assert found.exit_code == 0, found.exception
    result = json.loads((tmp_path / "result.json").read_text())
    assert "more rows than the 12 columns" in result["left_out"]["canonical correlation (CCA)"]
    assert "canonical correlation (CCA)" not in result["distortion"]
    assert "k to be below 9" in result["left_out"]["neighbour overlap (of 10)"]
    assert "two rows of a class" in result["left_out"]["a class of one row"]
    assert "elm" not in result["left_out"]["a class of one row"]  # no label of the data
    assert "at least two classes" in result["left_out"]["classifiers"]
    assert result["distortion"]["value difference (VD)"] == 0
    page = (tmp_path / "report.html").read_text()
    assert "<h2>Left out <span" in page
    assert "more rows than the 12 columns" in page
    assert "<h2>What attackers recover <span" in page
    assert "more rows than the 12 columns" in found.output
    # requested explicitly, it is an error
    assert "k to be below 9" in str(invoke(*arguments, "--overwrite", "--neighbours", 10).exception)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [2, 3, 4, 5, 6])
def test_few_rows_make_a_report_that_says_what_is_missing(frame, tmp_path, rows):
    frame.head(rows).write_csv(tmp_path / "few.csv")
    found = invoke("measure", tmp_path / "few.csv", tmp_path / "few.csv", "--label", "kind", "--output", tmp_path)
    assert found.exit_code == 0, found.exception
    result = json.loads((tmp_path / "result.json").read_text(), parse_constant=pytest.fail)
    assert "known-sample regression" in result["left_out"] or rows >= 6
    assert result["attacks"]
    assert (tmp_path / "report.html").exists()


@pytest.mark.slow
def test_an_error_is_a_message_and_an_exit_code(files, tmp_path):
    found = tacit_command("measure", files / "original.csv", tmp_path / "nothing.csv", "--json")
    assert found.returncode == 2
    assert "does not exist" in json.loads(found.stdout)["error"]["message"]
