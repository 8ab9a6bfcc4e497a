"""`tacit transform` and `tacit predict`: use a saved model on rows; what they write stays with the holder of the rows."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tacit.cli import options
from tacit.cli.output import check_output_file, print_json
from tacit.cli.read import chosen_columns, prepare, read_table
from tacit.errors import InvalidInputError, parameter, words

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

    from tacit.estimators.input import Rows
    from tacit.estimators.saved import SavedModel

MODEL = typer.Argument(help="A model file, or a folder that `tacit fit` wrote.")
TABLE = typer.Argument(help="A table of numbers with the columns of the fit: csv, tsv, parquet.")
OUTPUT = typer.Option(..., "--output", "-o", help="File to write: csv or parquet, one row per row of DATA.")
VOCABULARY = typer.Option(
    None, help="For texts: the file with the terms of the fit, one per line. The folder of a fit has it."
)
MISSING = typer.Option("refuse", help="For tables, empty cells: refuse, or fill by mean, median or a number.")
WRITERS = {".csv": "write_csv", ".parquet": "write_parquet"}


def transform(
    model: Path = MODEL,
    data: Path = options.MATRIX,
    output: Path = OUTPUT,
    vocabulary: Path | None = VOCABULARY,
    text_column: str | None = options.TEXT_COLUMN,
    columns: str | None = options.COLUMNS,
    drop: str | None = options.DROP,
    missing: str = MISSING,
    unit_rows: bool = typer.Option(True, help="Scale each row to L2 norm 1, as the fit did (texts always are)."),
    overwrite: bool = typer.Option(False, "--overwrite", help="Replace the output if it exists."),
    as_json: bool = options.JSON,
) -> None:
    """Write the weights of rows in a model's components: topics of documents, parts of images, principal components.

    The rows are read as `tacit fit` reads them. The weights depend on the rows without noise and stay with their holder.
    """
    check_written(output, overwrite=overwrite)
    fitted = loaded(model, "transform", "tacit recommend for a recommender, tacit predict for a network")
    if vocabulary is None and (text_column is not None or (data.is_dir() and any(data.rglob("*.txt")))):
        vocabulary = terms_of(model)
    rows = prepare(
        data,
        private=False,
        unit_rows=unit_rows,
        vocabulary=vocabulary,
        stop_words=True,  # the terms of the fit, all of them
        idf="uniform",
        shape=None,
        chosen=chosen_columns(columns, drop, missing, text_column, private=False),
    )
    _check_width(fitted, rows.X)
    weights = fitted.transform(rows.X)
    output_columns = {f"component_{place + 1}": weights[:, place] for place in range(weights.shape[1])}
    _write(output_columns, output, as_json=as_json)


def predict(
    model: Path = MODEL,
    data: Path = TABLE,
    output: Path = OUTPUT,
    columns: str | None = options.COLUMNS,
    drop: str | None = typer.Option(None, help="Columns of DATA that the fit did not have, as the labels: a,b."),
    missing: str = MISSING,
    overwrite: bool = typer.Option(False, "--overwrite", help="Replace the output if it exists."),
    as_json: bool = options.JSON,
) -> None:
    """Write a model's predictions for the rows of a table; for classes also the probability of each.

    Predictions depend on the rows and stay with their holder.
    """
    from tacit.data.tables import numbers_of

    check_written(output, overwrite=overwrite)
    fitted = loaded(model, "predict", "tacit recommend for a recommender, tacit transform for components")
    chosen = chosen_columns(columns, drop, missing, private=False)
    rows = numbers_of(read_table(data), data, **chosen.numbers).X
    _check_width(fitted, rows)
    output_columns: dict[str, NDArray[np.generic]] = {"prediction": fitted.predict(rows)}
    if hasattr(fitted, "predict_proba"):
        probabilities = fitted.predict_proba(rows)
        output_columns |= {f"probability_{name}": probabilities[:, place] for place, name in enumerate(fitted.classes_)}
    _write(output_columns, output, as_json=as_json)


def terms_of(model: Path) -> Path:
    """Return the file of terms beside a model."""
    from tacit.report.result import TERMS

    path = model / "model" / TERMS if model.is_dir() else model.with_name(TERMS)
    if not path.is_file():
        raise InvalidInputError(
            "--vocabulary with the terms of the fit",
            words(f"none, and no {TERMS} beside the model"),
            "Give the file of terms that `tacit fit nmf` was given or wrote, one per line.",
        )
    return path


def check_written(output: Path, *, overwrite: bool) -> None:
    """Raise unless rows can be written to this file."""
    if output.suffix.lower() not in WRITERS:
        raise InvalidInputError("an output that ends in .csv or .parquet", parameter(str(output)), "Rename it.")
    check_output_file(output, overwrite=overwrite)


def loaded(model: Path, method: str, instead: str) -> SavedModel:
    """Return the model in a file, or the only model in the folder of a fit; it must have the method."""
    from tacit.estimators.registry import load

    if model.is_dir():
        files = sorted((model / "model").glob("*.tacit"))
        if len(files) != 1:
            raise InvalidInputError(
                "a folder that `tacit fit` wrote", words(f"{len(files)} model files in it"), "Give the model's file."
            )
        model = files[0]
    fitted = load(model)
    # a recommender's `predict` takes users and items, not rows
    if not hasattr(fitted, method) or hasattr(fitted, "recommend_for"):
        raise InvalidInputError(f"a model with {method} for rows", parameter(type(fitted).__name__), f"Use {instead}.")
    return fitted


def _check_width(fitted: SavedModel, rows: Rows) -> None:
    """Raise unless the rows have as many columns as those of the fit."""
    expected = getattr(fitted, "n_features_in_", rows.shape[1])
    if rows.shape[1] != expected:
        raise InvalidInputError(
            f"rows with the {expected} columns of the fit",
            words(f"{rows.shape[1]} columns"),
            "Leave out the columns that the fit did not have, as the label, with --drop; or name those of the fit, in their "
            "order, in --columns.",
        )


def _write(columns: Mapping[str, NDArray[np.generic]], output: Path, *, as_json: bool) -> None:
    import polars as pl

    frame: pl.DataFrame = pl.DataFrame(columns)
    output.parent.mkdir(parents=True, exist_ok=True)
    # they describe the rows: no moment in which others can read them
    with open(output, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
        os.fchmod(file.fileno(), 0o600)  # of a file that is overwritten
        getattr(frame, WRITERS[output.suffix.lower()])(file)
    if as_json:
        print_json({"output": str(output), "rows": frame.height, "columns": frame.columns})
    else:
        typer.echo(f"{frame.height} rows written to {output}. They depend on the data: for its holder only.")
