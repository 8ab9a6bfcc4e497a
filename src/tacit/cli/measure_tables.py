"""`tacit measure original.csv release.csv`: distortion, use and attacks of a released table, in one report."""

from __future__ import annotations

from pathlib import Path

import typer

from tacit.cli import options
from tacit.cli.output import print_json, print_table, progress
from tacit.cli.read_table import read_table

ORIGINAL = typer.Argument(help="The table: csv, csv.gz, tsv or parquet, with names of columns.")
RELEASED = typer.Argument(help="Its release, with the same rows in the same order.")
OUTPUT = typer.Option(Path("tacit-measure"), help="Folder to write to.")


def table(
    original: Path = ORIGINAL,
    released: Path = RELEASED,
    label: str | None = typer.Option(
        None, help="Column with the classes, for the panel of classifiers; never attacked."
    ),
    columns: str | None = typer.Option(
        None, help="Numeric columns to measure, as in age,income; all but the label if not given."
    ),
    neighbours: int | None = typer.Option(None, help="Number of neighbours; 10 if not given."),
    clusters: int | None = typer.Option(None, help="Number of clusters; the number of classes, or 5, if not given."),
    test_rows: str = typer.Option(
        "original", help="Form of the rows that classifiers are tested on: original or released."
    ),
    missing: str = typer.Option(
        "refuse", help="Missing values: refuse, or fill each table by the mean or median of its own columns."
    ),
    seed: int = typer.Option(0, help="Seed of all random choices."),
    output: Path = OUTPUT,
    overwrite: bool = options.OVERWRITE,
    as_json: bool = options.JSON,
) -> None:
    """Measure what a released table kept and what it gives away.

    Columns that the release leaves as they are may be of any kind: rows are linked by them. Writes report.html and result.json.
    They are for the holder of the original, and no part of the release.
    """
    from tacit.report import ResultFolder, measure_tables

    with ResultFolder(output, overwrite=overwrite, model=False), progress(5, quiet=as_json) as advance:
        advance("reading the tables")
        found = measure_tables(
            read_table(original),
            read_table(released),
            label=label,
            columns=None if columns is None else [name.strip() for name in columns.split(",")],
            n_neighbours=neighbours,
            n_clusters=clusters,
            test_rows=test_rows,  # type: ignore[arg-type]  # checked there
            missing=missing,
            random_state=seed,
            advance=advance,
        )
        found.write(output)
    if as_json:
        print_json(found.summary)
        return
    measures = found.measures
    typer.echo(measures.verdict)
    for remark in found.summary["remarks"]:
        typer.echo(remark)
    rows = [[name, f"{value:.4g}"] for name, value in measures.distortion.items()]
    print_table("Distortion", ["metric", "value"], rows)
    rows = [
        [
            finding.attack,
            finding.measure,
            f"{finding.recovered:.3f}",
            f"{finding.baseline:.3f}",
            "yes" if finding.leaks else "no",
        ]
        for finding in measures.attacks
    ]
    print_table("Attacks", ["attack", "measure", "recovered", "without the release", "leaks"], rows)
    if measures.left_out:
        print_table("Left out", ["what", "why"], [[name, why] for name, why in measures.left_out.items()])
    typer.echo(f"Report: {output / 'report.html'}")
