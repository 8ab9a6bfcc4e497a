"""`tacit measure`: what a release keeps and what it leaks. Without a subcommand, the arguments are read as two tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from tacit.cli import options
from tacit.cli.output import print_json, print_table, progress
from tacit.cli.read import prepare, read_table
from tacit.errors import InvalidInputError, parameter, words
from tacit.validation import check_choice

if TYPE_CHECKING:
    from tacit.estimators.base import Estimator


def ksdp(
    data: Path = options.MATRIX,
    model: str = typer.Option("nmf", help="nmf, svd or pca."),
    rank: int = options.RANK,
    reveal_singular_values: bool = typer.Option(False, help="svd, pca: run on plain sums, not normalised ones."),
    documents: int = typer.Option(20, help="Number of random rows to measure."),
    only: str | None = typer.Option(None, help="Measure these rows instead: numbers from 0, with commas."),
    size: int | None = typer.Option(None, help="Rows of the holder in a run; a tenth of the table if not given."),
    holders: str = typer.Option("", help="Rows of other honest holders, with commas; without it all others collude."),
    samples: int = typer.Option(50, help="Runs with each document, and runs without."),
    level: float = typer.Option(0.05, help="Corrected p-values up to this are flagged."),
    unit_rows: bool = typer.Option(True, help="Scale each row to L2 norm 1 (texts always are)."),
    seed: int = typer.Option(0, help="Seed of the samples."),
    jobs: int = typer.Option(2, help="Processes."),
    output: Path = typer.Option(Path("tacit-ksdp"), help="Folder to write to."),  # noqa: B008
    overwrite: bool = options.OVERWRITE,
    as_json: bool = options.JSON,
) -> None:
    """Run a fit with and without each document, and compare everything that others would see.

    Writes result.json and report.html, both for the holder.
    """
    from tacit.report.presence import measure_presence
    from tacit.report.result import ResultFolder

    with ResultFolder(output, overwrite=overwrite, model=False, data=data), progress(2, quiet=as_json) as advance:
        advance("reading the data")
        estimator = _estimator(model, rank, reveal_singular_values, seed)
        others = _numbers(holders, "--holders")
        chosen = documents if only is None else _numbers(only, "--only")
        rows = prepare(data, private=False, unit_rows=unit_rows, vocabulary=None, idf="uniform", shape=None).X
        count = documents if only is None else len(_numbers(only, "--only"))
        advance(f"running {samples * (count + 1)} fits")
        result = measure_presence(
            estimator,
            rows,
            chosen,
            samples=samples,
            size=size,
            holders=others,
            level=level,
            jobs=jobs,
            random_state=seed,
        )
        result.write(output)
    if as_json:
        print_json(result.summary)
        return
    typer.echo(str(result.ksdp))
    typer.echo(f"Report: {output / 'report.html'}")


def _estimator(model: str, rank: int, reveal: bool, seed: int) -> Estimator:
    from tacit.factor.nmf.estimator import NMF
    from tacit.factor.svd.estimator import SVD
    from tacit.factor.svd.pca import PCA

    check_choice(model, "--model", ("nmf", "svd", "pca"))
    if model == "nmf":
        return NMF(rank, init="random", random_state=seed)
    return (SVD if model == "svd" else PCA)(rank, hide_singular_values=not reveal, random_state=seed)


def _numbers(text: str, name: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise InvalidInputError(
            f"whole numbers with commas as {name}", parameter(text), f"As in {name} 3,17,40."
        ) from None


ORIGINAL = typer.Argument(help="The table: csv, csv.gz, tsv or parquet, with names of columns.")
RELEASED = typer.Argument(help="Its release, with the same rows in the same order; or synthetic rows (--synthetic).")
OUTSIDERS = typer.Option(None, help="--synthetic: real rows that were not in the table, for the attack on membership.")
OUTPUT = typer.Option(Path("tacit-measure"), help="Folder to write to.")


def table(
    original: Path = ORIGINAL,
    released: Path = RELEASED,
    label: str | None = typer.Option(
        None, help="Column with the classes, for the panel of classifiers; never attacked."
    ),
    columns: str | None = typer.Option(
        None, help="Numeric columns to measure, as in age,income; all except the label if not given."
    ),
    neighbours: int | None = typer.Option(None, help="Number of neighbours; 10 if not given."),
    clusters: int | None = typer.Option(None, help="Number of clusters; the number of classes, or 5, if not given."),
    test_rows: str = typer.Option(
        "original", help="Form of the rows that classifiers are tested on: original or released."
    ),
    missing: str = typer.Option(
        "refuse", help="Missing values: refuse, or fill each table by the mean or median of its own columns."
    ),
    synthetic: bool = typer.Option(
        False, "--synthetic", help="The release has rows of its own, as those of private-table: compare distributions."
    ),
    outsiders: Path | None = OUTSIDERS,
    seed: int = typer.Option(0, help="Seed of all random choices."),
    output: Path = OUTPUT,
    overwrite: bool = options.OVERWRITE,
    as_json: bool = options.JSON,
) -> None:
    """Measure what a released table keeps and what it leaks.

    Unchanged columns may be of any type: rows are linked by them. Writes report.html and result.json, which are for the holder of
    the original and not part of the release.
    """
    if synthetic or outsiders is not None:
        if not synthetic or columns or missing != "refuse" or neighbours or clusters or test_rows != "original":
            raise InvalidInputError(
                "only --label, --outsiders and --seed with --synthetic",
                words("other options"),
                "Leave them out: they would have no effect.",
            )
        _rows_of_their_own(original, released, label, outsiders, seed, output, overwrite, as_json)
        return
    from tacit.report.measure import measure_tables
    from tacit.report.result import ResultFolder

    with ResultFolder(output, overwrite=overwrite, model=False, data=original), progress(5, quiet=as_json) as advance:
        advance("reading the tables")
        result = measure_tables(
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
        result.write(output)
    if as_json:
        print_json(result.summary)
        return
    measures = result.measures
    typer.echo(measures.verdict)
    for remark in result.summary["remarks"]:
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


DEFAULT = "table"


class TableUnlessNamed(TyperGroup):
    """A group with a default command: ``measure a.csv b.csv`` is ``measure table a.csv b.csv``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert the default command before arguments that do not begin with a command."""
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = [DEFAULT, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=TableUnlessNamed,
    help="Measure a release: `tacit measure original.csv release.csv` for tables, or a command below.",
    no_args_is_help=True,
)
app.command(DEFAULT)(table)
app.command()(ksdp)


def _rows_of_their_own(
    original: Path,
    released: Path,
    label: str | None,
    outsiders: Path | None,
    seed: int,
    output: Path,
    overwrite: bool,
    as_json: bool,
) -> None:
    from tacit.report.measure import measure_synthetic_rows
    from tacit.report.result import ResultFolder

    with ResultFolder(output, overwrite=overwrite, model=False, data=original):
        measured = measure_synthetic_rows(
            read_table(original),
            read_table(released),
            label=label,
            outsiders=None if outsiders is None else read_table(outsiders),
            random_state=seed,
        )
        measured.write(output)
    if as_json:
        print_json(measured.summary)
        return
    rows = [[name, f"{value:.3f}"] for name, value in measured.measures.columns.items()]
    print_table(
        "Total variation", ["column", "value"], [*rows, ["mean of all pairs", f"{measured.measures.mean_pair:.3f}"]]
    )
    scores = [[name, f"{real:.3f}", f"{drawn:.3f}"] for name, (real, drawn) in measured.measures.classifiers.items()]
    if scores:
        print_table("AUC on real rows", ["classifier", "trained on real rows", "on synthetic rows"], scores)
    if measured.measures.attack is not None:
        typer.echo(str(measured.measures.attack))
    typer.echo(f"Report: {output / 'report.html'}")
