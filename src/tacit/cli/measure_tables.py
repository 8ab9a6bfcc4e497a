"""`tacit measure original.csv release.csv`: distortion, use and attacks of a released table, in one report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tacit.cli.output import print_json, print_table, progress
from tacit.errors import InvalidInputError, words
from tacit.validation import check_choice

if TYPE_CHECKING:
    import polars as pl

ORIGINAL = typer.Argument(help="The table: csv, csv.gz or parquet, with names of columns.")
RELEASED = typer.Argument(help="Its release, with the same rows in the same order.")
OUTPUT = typer.Option(Path("tacit-measure"), help="Folder to write to.")


def table(
    original: Path = ORIGINAL,
    released: Path = RELEASED,
    label: str | None = typer.Option(
        None, help="Column with the classes, for the panel of classifiers; never attacked."
    ),
    columns: str | None = typer.Option(
        None, help="Columns to measure, as in age,income; all but the label if not given."
    ),
    neighbours: int | None = typer.Option(None, help="Number of neighbours; 10 if not given."),
    clusters: int | None = typer.Option(None, help="Number of clusters; the number of classes, or 5, if not given."),
    test_rows: str = typer.Option(
        "original", help="Form of the rows that classifiers are tested on: original or released."
    ),
    missing: str = typer.Option(
        "refuse", help="Missing values: refuse, or fill each table by the mean or median of its own columns."
    ),
    seed: int = typer.Option(0, help="Of all random choices."),
    output: Path = OUTPUT,
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object and no progress."),
) -> None:
    """Measure what a released table kept and what it gives away.

    Writes report.html and result.json. They are for the holder of the original, and no part of the release.
    """
    with progress(5, quiet=as_json) as advance:
        advance("reading the tables")
        before, after, classes = _read_pair(original, released, label, columns)
        (before, n_before), (after, n_after) = _filled(before, missing, original), _filled(after, missing, released)
        filled = {"original": n_before, "released": n_after}
        from tacit.measure.release import measure_release

        found = measure_release(
            before,
            after,
            classes,
            n_neighbours=neighbours,
            n_clusters=clusters,
            test_rows=test_rows,  # type: ignore[arg-type]  # checked there
            random_state=seed,
            advance=advance,
        )
        from tacit.cli.measure_report import release_report

        output.mkdir(parents=True, exist_ok=True)
        release_report(before, after, found, seed, _about_filled(filled, missing)).write(output / "report.html")
        about = {"rows": before.height, "columns": before.columns, "label": label, "missing_filled": filled}
        result = {**about, **found.to_dict()}
        (output / "result.json").write_text(json.dumps(result, indent=2), encoding="utf-8")
    if as_json:
        print_json(result)
        return
    typer.echo(found.verdict)
    if any(filled.values()):
        typer.echo(_about_filled(filled, missing))
    print_table("Distortion", ["metric", "value"], [[name, f"{value:.4g}"] for name, value in found.distortion.items()])
    rows = [
        [finding.attack, finding.measure, f"{finding.recovered:.3f}", f"{finding.baseline:.3f}", _yes(finding.leaks)]
        for finding in found.attacks
    ]
    print_table("Attacks", ["attack", "measure", "recovered", "without the release", "leaks"], rows)
    if found.left_out:
        print_table("Left out", ["what", "why"], [[name, why] for name, why in found.left_out.items()])
    typer.echo(f"Report: {output / 'report.html'}")


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _read_pair(
    original: Path, released: Path, label: str | None, columns: str | None
) -> tuple[pl.DataFrame, pl.DataFrame, Any]:
    from tacit.cli.perturb_tables import read_table

    before, after = read_table(original), read_table(released)
    if before.height != after.height:
        raise InvalidInputError(
            f"{released} to have {before.height} rows, as {original} has",
            words(f"{after.height}"),
            "Measure a release whose row i belongs to row i of the table. The rows of private-table are synthetic: measure them "
            "by tacit perturb --compare.",
        )
    classes = None
    if label is not None:
        classes = _labels(before, after, label, original, released)
        before, after = before.drop(label), after.drop(label, strict=False)
    if columns is not None:
        wanted = [name.strip() for name in columns.split(",")]
        before, after = _selected(before, wanted, original), _selected(after, wanted, released)
    return before, after, classes


def _filled(table: pl.DataFrame, missing: str, file: Path) -> tuple[pl.DataFrame, int]:
    """Return the table with its gaps filled from its own columns, and how many there were; tables without any as they are."""
    import polars as pl

    from tacit.perturb.table import MISSING, fill_missing, listed, read_chosen

    check_choice(missing, "--missing", MISSING)
    gaps = {name: int((table[name].is_null() | _is_nan(table[name])).sum()) for name in table.columns}
    numbers = table.with_columns(pl.col(pl.Boolean).cast(pl.Float64))
    if not any(gaps.values()) or not all(kind.is_numeric() for kind in numbers.dtypes):
        return table, 0  # what is no number is refused by the measures, and named there
    if missing == "refuse":
        where = [name for name, count in gaps.items() if count]
        raise InvalidInputError(
            f"{file} to have no missing values",
            words(f"missing values in {listed(where)}"),
            "Fill them, or give --missing mean or --missing median.",
        )
    chosen = read_chosen(numbers)
    values, _, count = fill_missing(chosen.values, missing, chosen.names)
    return pl.DataFrame(values, schema=list(chosen.names)), count


def _is_nan(column: pl.Series) -> Any:
    return column.is_nan().fill_null(False) if column.dtype.is_float() else False


def _about_filled(filled: dict[str, int], missing: str) -> str:
    """Return how many values were filled in, as a sentence; nothing if none were."""
    if not any(filled.values()):
        return ""
    return (
        f"Missing values filled by the {missing} of their column: {filled['original']} in the original, "
        f"{filled['released']} in the release. All figures count them as values."
    )


def _labels(before: pl.DataFrame, after: pl.DataFrame, label: str, original: Path, released: Path) -> Any:
    classes = _selected(before, [label], original)[label]
    if classes.null_count():
        raise InvalidInputError(
            f"a label in every row of {original}",
            words("missing labels"),
            "Drop these rows from both tables.",
        )
    if label in after.columns and (classes.cast(str) != after[label].cast(str).fill_null("")).any():
        raise InvalidInputError(
            f"the labels of {released} to match those of {original}",
            words(f"rows with another {label}"),
            "Keep the order of the rows, and the labels; or drop the column from the release.",
        )
    return classes.to_numpy()


def _selected(table: pl.DataFrame, names: list[str], file: Path) -> pl.DataFrame:
    missing = [name for name in names if name not in table.columns]
    if missing:
        raise InvalidInputError(
            f"columns of {file}",
            words(f"no column {', '.join(missing)}"),
            "Check the names after --columns and --label.",
        )
    return table.select(names)
