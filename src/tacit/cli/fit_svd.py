"""`tacit fit svd` and `tacit fit pca`: singular vectors and principal components of a table or of texts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer

from tacit.cli.output import print_json, progress
from tacit.cli.prepare import Prepared, prepare
from tacit.errors import InvalidInputError, parameter

DATA = typer.Argument(help="A folder of .txt files or of images, or a matrix: npz, mtx, npy, csv, parquet.")
RANK = typer.Option(..., "--rank", "-k", help="Number of components.")
HIDE = typer.Option(False, help="Leave the singular values out of the model, as a fit among holders does.")
UNIT_ROWS = typer.Option(False, help="Scale each row to L2 norm 1 (texts always are).")
HELD_OUT = typer.Option(0.1, help="Share of the rows kept out of the fit, to measure its error on.")
SEED = typer.Option(0, help="Of the split and of the first directions.")
JSON = typer.Option(False, "--json", help="Print one JSON object and no progress.")


def svd(
    data: Path = DATA,
    rank: int = RANK,
    hide_singular_values: bool = HIDE,
    unit_rows: bool = UNIT_ROWS,
    held_out: float = HELD_OUT,
    seed: int = SEED,
    output: Path = typer.Option(Path("tacit-svd"), help="Folder to write to."),  # noqa: B008
    as_json: bool = JSON,
) -> None:
    """Find the leading singular vectors: the best approximation of the rows by few. No privacy.

    Writes model/svd.tacit, result.json and report.html.
    """
    _fit("svd", data, rank, hide_singular_values, unit_rows, held_out, seed, output, as_json)


def pca(
    data: Path = DATA,
    rank: int = RANK,
    hide_singular_values: bool = HIDE,
    unit_rows: bool = UNIT_ROWS,
    held_out: float = HELD_OUT,
    seed: int = SEED,
    output: Path = typer.Option(Path("tacit-pca"), help="Folder to write to."),  # noqa: B008
    as_json: bool = JSON,
) -> None:
    """Find the principal components: the directions in which the rows differ most. No privacy.

    Writes model/pca.tacit, result.json and report.html.
    """
    _fit("pca", data, rank, hide_singular_values, unit_rows, held_out, seed, output, as_json)


def _fit(
    kind: str,
    data: Path,
    rank: int,
    hide: bool,
    unit_rows: bool,
    held_out: float,
    seed: int,
    output: Path,
    as_json: bool,
) -> None:
    if not 0 < held_out < 1:
        raise InvalidInputError(
            "--held-out between 0 and 1", parameter(held_out), "Give the share of rows to keep out, as 0.1."
        )
    from tacit.data.split import held_out_by_seed
    from tacit.factor import PCA, SVD

    with progress(3, quiet=as_json) as advance:
        advance("reading the data")
        rows = prepare(data, private=False, unit_rows=unit_rows, vocabulary=None, idf="uniform", shape=None)
        kept_out = held_out_by_seed(rows.X.shape[0], fraction=held_out, random_state=seed)
        train, test = rows.X[~kept_out], rows.X[kept_out]
        advance("fitting")
        model = (SVD if kind == "svd" else PCA)(rank, hide_singular_values=hide, random_state=seed).fit(train)
        advance("writing the report")
        measures = {"share explained": _explained(model, train)}
        if test.shape[0]:
            measures["share explained, held out"] = _explained(model, test)
        result = {
            "guarantee": model.guarantee_.to_dict(),
            "rows": int(train.shape[0]),
            "columns": int(train.shape[1]),
            "exchanges": model.n_iter_,
            "residual": model.residual_,
            "measures": measures,
            "settings": {"n_components": rank, "hide_singular_values": hide, "random_state": seed},
        }
        if not hide:
            result["singular_values"] = [float(value) for value in model.singular_values_]
        (output / "model").mkdir(parents=True, exist_ok=True)
        model.save(output / "model" / f"{kind}.tacit")
        _report(kind, rows, model, measures).write(output / "report.html")
        (output / "result.json").write_text(json.dumps(result, indent=2), encoding="utf-8")
    if as_json:
        print_json(result)
        return
    typer.echo(str(model.guarantee_))
    for name, value in measures.items():
        typer.echo(f"{name}: {value:.4f}")
    typer.echo(f"Report: {output / 'report.html'}")


def _explained(model: Any, rows: Any) -> float:
    """Return the share of the rows' squared length (less the mean, for principal components) that their scores have."""
    import numpy as np

    squares = float(np.sum(np.square(rows if isinstance(rows, np.ndarray) else rows.data), dtype=np.float64))
    if hasattr(model, "mean_"):
        sums = np.asarray(rows.sum(axis=0)).ravel()
        squares += rows.shape[0] * float(model.mean_ @ model.mean_) - 2 * float(model.mean_ @ sums)
    kept = float(np.sum(np.square(model.transform(rows)), dtype=np.float64))
    return kept / squares if squares > 0 else 1.0


def _report(kind: str, rows: Prepared, model: Any, measures: dict[str, float]) -> Any:
    from tacit.report import Report
    from tacit.report.figures import curves, image_rows

    report = Report("Singular vectors" if kind == "svd" else "Principal components", "For the holder of the rows.")
    report.guarantee(model.guarantee_)
    report.table("Measures", ["measure", "value"], [[name, f"{value:.4f}"] for name, value in measures.items()])
    if hasattr(model, "singular_values_"):
        values = {"singular values": [float(value) for value in model.singular_values_]}
        figure = curves(values, step_name="component", value_name="singular value")
        report.figure("Singular values", figure, "A steep start and a flat end: few components carry most of the rows.")
    if rows.names is not None:
        table = [
            [str(place + 1), _ends(component, rows.names, 1), _ends(component, rows.names, -1)]
            for place, component in enumerate(model.components_)
        ]
        report.table("Columns at the two ends of each component", ["component", "positive", "negative"], table)
    if rows.shape is not None:
        caption = "Each component as an image."
        report.figure("Components", image_rows({"components": model.components_}, rows.shape), caption)
    return report


def _ends(component: Any, names: Any, sign: int) -> str:
    """Return the names of the columns with the largest entries of this sign."""
    import numpy as np

    order = np.argsort(-sign * component, kind="stable")[:8]
    return " ".join(str(names[place]) for place in order if sign * component[place] > 0)
