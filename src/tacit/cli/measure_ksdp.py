"""`tacit measure ksdp`: whether a document's presence shows in what a fit among holders sends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer

from tacit.cli.output import print_json, progress
from tacit.cli.prepare import prepare
from tacit.errors import InvalidInputError, parameter
from tacit.validation import check_choice, check_count

DATA = typer.Argument(help="A folder of .txt files or of images, or a matrix: npz, mtx, npy, csv, parquet.")
OUTPUT = typer.Option(Path("tacit-ksdp"), help="Folder to write to.")
FOR_THE_HOLDER = (
    "A measurement on the holder's own documents, not a guarantee. It names documents: it is for the holder, who may leave "
    "those that show out of the fit."
)


def ksdp(
    data: Path = DATA,
    model: str = typer.Option("nmf", help="nmf, svd or pca."),
    rank: int = typer.Option(..., "--rank", "-k", help="Number of topics or components."),
    reveal_singular_values: bool = typer.Option(False, help="svd, pca: run on plain sums, not normalised ones."),
    documents: int = typer.Option(20, help="How many rows to measure, drawn at random."),
    only: str | None = typer.Option(None, help="Measure these rows instead: numbers from 0, with commas."),
    size: int | None = typer.Option(None, help="Rows of the holder in a run; a tenth of the table if not given."),
    holders: str = typer.Option("", help="Rows of other honest holders, with commas; without it all others collude."),
    samples: int = typer.Option(50, help="Runs with each document, and runs without."),
    level: float = typer.Option(0.05, help="Corrected p-values up to this are flagged."),
    unit_rows: bool = typer.Option(True, help="Scale each row to L2 norm 1 (texts always are)."),
    seed: int = typer.Option(0, help="Of the samples."),
    jobs: int = typer.Option(2, help="Processes."),
    output: Path = OUTPUT,
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object and no progress."),
) -> None:
    """Run a fit with and without each document, and compare all that others would see of it.

    Writes result.json and report.html, both for the holder.
    """
    from tacit.privacy import ksdp as measure
    from tacit.report import Report

    with progress(3, quiet=as_json) as advance:
        advance("reading the data")
        estimator = _estimator(model, rank, reveal_singular_values, seed)
        others = _numbers(holders, "--holders")
        rows = prepare(data, private=False, unit_rows=unit_rows, vocabulary=None, idf="uniform", shape=None).X
        chosen = _chosen(only, documents, rows.shape[0], seed)
        advance(f"running {samples * (len(chosen) + 1)} fits")
        found = measure(
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
        advance("writing the report")
        output.mkdir(parents=True, exist_ok=True)
        report = Report("What a document's presence changes", FOR_THE_HOLDER)
        report.guarantee(found.guarantee)
        report.figure("P-values", found.figure(), "Each point is a document. Points far below the line are told apart.")
        table = [
            [str(document), f"{p:.3g}", f"{corrected:.3g}", "shows" if corrected <= found.level else "-"]
            for document, p, corrected in zip(found.documents, found.pi, found.corrected, strict=True)
        ]
        report.table("Documents", ["row", "smallest p-value", "corrected", ""], table)
        report.write(output / "report.html")
        (output / "result.json").write_text(json.dumps(found.to_dict(), indent=2), encoding="utf-8")
    if as_json:
        print_json(found.to_dict())
        return
    typer.echo(str(found))
    typer.echo(f"Report: {output / 'report.html'}")


def _estimator(model: str, rank: int, reveal: bool, seed: int) -> Any:
    from tacit.factor import NMF, PCA, SVD

    check_choice(model, "--model", ("nmf", "svd", "pca"))
    if model == "nmf":
        return NMF(rank, init="random", random_state=seed)
    return (SVD if model == "svd" else PCA)(rank, hide_singular_values=not reveal, random_state=seed)


def _chosen(only: str | None, documents: int, rows: int, seed: int) -> list[int]:
    import numpy as np

    if only is not None:
        return _numbers(only, "--only")
    count = check_count(documents, "--documents")
    if count >= rows:
        raise InvalidInputError(
            f"fewer documents than the {rows} rows", parameter(count), "Give a smaller --documents."
        )
    drawn: list[int] = np.sort(np.random.default_rng(seed).choice(rows, size=count, replace=False)).tolist()
    return drawn


def _numbers(text: str, name: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise InvalidInputError(
            f"whole numbers with commas as {name}", parameter(text), f"As in {name} 3,17,40."
        ) from None
