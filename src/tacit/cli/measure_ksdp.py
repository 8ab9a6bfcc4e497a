"""`tacit measure ksdp`: whether a document's presence shows in what a fit among holders sends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from tacit.cli import options
from tacit.cli.output import print_json, progress
from tacit.cli.prepare import prepare
from tacit.errors import InvalidInputError, parameter
from tacit.validation import check_choice


def ksdp(
    data: Path = options.MATRIX,
    model: str = typer.Option("nmf", help="nmf, svd or pca."),
    rank: int = options.RANK,
    reveal_singular_values: bool = typer.Option(False, help="svd, pca: run on plain sums, not normalised ones."),
    documents: int = typer.Option(20, help="How many rows to measure, drawn at random."),
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
    """Run a fit with and without each document, and compare everything that others would see of it.

    Writes result.json and report.html, both for the holder.
    """
    from tacit.report import ResultFolder, measure_presence

    with ResultFolder(output, overwrite=overwrite, model=False), progress(2, quiet=as_json) as advance:
        advance("reading the data")
        estimator = _estimator(model, rank, reveal_singular_values, seed)
        others = _numbers(holders, "--holders")
        chosen = documents if only is None else _numbers(only, "--only")
        rows = prepare(data, private=False, unit_rows=unit_rows, vocabulary=None, idf="uniform", shape=None).X
        count = documents if only is None else len(_numbers(only, "--only"))
        advance(f"running {samples * (count + 1)} fits")
        found = measure_presence(
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
        found.write(output)
    if as_json:
        print_json(found.summary)
        return
    typer.echo(str(found.ksdp))
    typer.echo(f"Report: {output / 'report.html'}")


def _estimator(model: str, rank: int, reveal: bool, seed: int) -> Any:
    from tacit.factor import NMF, PCA, SVD

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
