"""`tacit fit svd` and `tacit fit pca`: singular vectors and principal components of a table or of texts."""

from __future__ import annotations

from pathlib import Path

import typer

from tacit.cli import options
from tacit.cli.output import progress, show_fit
from tacit.cli.prepare import prepare

HIDE = typer.Option(False, help="Leave the singular values out of the model, as a fit among holders does.")
UNIT_ROWS = typer.Option(False, help="Scale each row to L2 norm 1 (texts always are).")
HELD_OUT = typer.Option(0.1, help="Fraction of the rows to hold out of the fit, to measure its error on.")
SEED = typer.Option(0, help="Seed of the split and of the first directions.")


def svd(
    data: Path = options.MATRIX,
    rank: int = options.RANK,
    hide_singular_values: bool = HIDE,
    unit_rows: bool = UNIT_ROWS,
    held_out: float = HELD_OUT,
    seed: int = SEED,
    output: Path = typer.Option(Path("tacit-svd"), help="Folder to write to."),  # noqa: B008
    overwrite: bool = options.OVERWRITE,
    as_json: bool = options.JSON,
) -> None:
    """Find the leading singular vectors: the best approximation of the rows by a few. No privacy.

    Writes model/svd.tacit, result.json and report.html.
    """
    _fit("svd", data, rank, hide_singular_values, unit_rows, held_out, seed, output, overwrite, as_json)


def pca(
    data: Path = options.MATRIX,
    rank: int = options.RANK,
    hide_singular_values: bool = HIDE,
    unit_rows: bool = UNIT_ROWS,
    held_out: float = HELD_OUT,
    seed: int = SEED,
    output: Path = typer.Option(Path("tacit-pca"), help="Folder to write to."),  # noqa: B008
    overwrite: bool = options.OVERWRITE,
    as_json: bool = options.JSON,
) -> None:
    """Find the principal components: the directions in which the rows differ most. No privacy.

    Writes model/pca.tacit, result.json and report.html.
    """
    _fit("pca", data, rank, hide_singular_values, unit_rows, held_out, seed, output, overwrite, as_json)


def _fit(
    kind: str,
    data: Path,
    rank: int,
    hide: bool,
    unit_rows: bool,
    held_out: float,
    seed: int,
    output: Path,
    overwrite: bool,
    as_json: bool,
) -> None:
    from tacit.report import ResultFolder, fit_components

    with ResultFolder(output, overwrite=overwrite), progress(3, quiet=as_json) as advance:
        advance("reading the data")
        rows = prepare(data, private=False, unit_rows=unit_rows, vocabulary=None, idf="uniform", shape=None)
        found = fit_components(
            rows.X,
            rank,
            kind=kind,
            hide_singular_values=hide,
            held_out=held_out,
            terms=rows.names,
            image_shape=rows.shape,
            random_state=seed,
            progress=advance,
        )
        advance("writing the report")
        found.write(output)
    show_fit(found, output, as_json=as_json)
