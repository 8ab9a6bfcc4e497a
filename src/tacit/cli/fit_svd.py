"""`tacit fit svd`, `tacit fit pca` and `tacit fit pcr`: singular vectors, principal components, and regression on them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tacit.cli import options, partitions
from tacit.cli.budget import account
from tacit.cli.output import progress, show_fit
from tacit.cli.read import ChosenColumns, chosen_columns, feature_range_of, prepare, range_of, read_labelled
from tacit.errors import InvalidInputError, words

if TYPE_CHECKING:
    from tacit.factor.svd.estimator import SVD
    from tacit.factor.svd.pca import PCA
    from tacit.factor.svd.private import PrivatePCA, PrivateSVD


# The numbers below are defaults; each option's help says what it is.
HIDE = typer.Option(
    False, help="Leave the singular values out of the model, as a fit among holders does; without --epsilon only."
)
UNIT_ROWS = typer.Option(False, help="Scale each row to L2 norm 1 (texts always are).")
NON_NEGATIVE = typer.Option(
    False, help="No entry is negative: helps a private fit of wide tables (texts always are non-negative)."
)
HELD_OUT = typer.Option(0.1, help="Fraction of the rows to hold out of the fit, to measure its error on.")
VOCABULARY = typer.Option(None, help="For texts: file with one public term per line; stop words are left out.")
RANGE_IS_PUBLIC = "the range of the columns is public"


def _command(name: str, what: str) -> Callable[..., None]:
    """Return the command that fits the model `name`; both models of this kind have the same options."""
    folder = typer.Option(Path(f"tacit-{name}"), help="Folder to write to.")

    def command(
        data: Path = options.MATRIX,
        rank: int = options.RANK,
        epsilon: float | None = options.EPSILON,
        delta: float = options.DELTA,
        row_norm: float | None = options.ROW_NORM,
        feature_range: str | None = options.FEATURE_RANGE,
        non_negative: bool = NON_NEGATIVE,
        hide_singular_values: bool = HIDE,
        unit_rows: bool = UNIT_ROWS,
        vocabulary: Path | None = VOCABULARY,
        text_column: str | None = options.TEXT_COLUMN,
        columns: str | None = options.COLUMNS,
        drop: str | None = options.DROP,
        missing: str = options.MISSING,
        frontier: bool = options.FRONTIER,
        held_out: float = HELD_OUT,
        seed: int = options.SPLIT_SEED,
        output: Path = folder,
        overwrite: bool = options.OVERWRITE,
        ledger: Path | None = options.LEDGER,
        dataset: str | None = options.DATASET,
        scheduler: str | None = partitions.SCHEDULER,
        workers: int | None = partitions.WORKERS,
        blocks: int = partitions.BLOCKS,
        resident: int | None = partitions.RESIDENT,
        checkpoint: Path | None = partitions.CHECKPOINT,
        dashboard: bool = partitions.DASHBOARD,
        as_json: bool = options.JSON,
    ) -> None:
        given = locals()
        given.pop("name")
        _fit(name, **given)

    command.__name__ = name
    command.__doc__ = f"""{what} With --epsilon they are private.

    A private fit needs the public length of a row (--row-norm or --unit-rows) or the public range of the columns
    (--feature-range). Writes model/{name}.tacit, result.json and report.html.
    """
    return command


svd = _command("svd", "Compute the leading singular vectors: the best low-rank approximation of the rows.")
pca = _command("pca", "Compute the principal components: the directions of the largest variance.")


def pcr(
    data: Path = typer.Argument(help="A csv or parquet table, or an npz archive."),  # noqa: B008
    label: str = typer.Option(..., help="Column (or array) with the targets, which are numbers."),
    rank: int = options.RANK,
    epsilon: float | None = options.EPSILON,
    delta: float = options.DELTA,
    label_range: str | None = typer.Option(
        None, help="Public range of the targets, as in 0:100; needed with --epsilon."
    ),
    row_norm: float | None = options.ROW_NORM,
    feature_range: str | None = options.FEATURE_RANGE,
    columns: str | None = options.COLUMNS,
    drop: str | None = options.DROP,
    missing: str = options.MISSING,
    frontier: bool = options.FRONTIER,
    held_out: float = HELD_OUT,
    seed: int = options.SPLIT_SEED,
    output: Path = typer.Option(Path("tacit-pcr"), help="Folder to write to."),  # noqa: B008
    overwrite: bool = options.OVERWRITE,
    ledger: Path | None = options.LEDGER,
    dataset: str | None = options.DATASET,
    as_json: bool = options.JSON,
) -> None:
    """Regress a column on the leading principal components of the others; with --epsilon the model may be released.

    Writes model/pcr.tacit, result.json and report.html.
    """
    from tacit.report.regression import fit_regression
    from tacit.report.result import ResultFolder

    target_range = None if label_range is None else range_of(label_range, "--label-range")
    if epsilon is not None and target_range is None:
        raise InvalidInputError(
            "--label-range, the public range of the targets, with --epsilon",
            words("none: a range computed from the private rows would be a release without a charge"),
            "Give --label-range LOW:HIGH.",
        )
    with (
        ResultFolder(output, overwrite=overwrite, data=data),
        progress(3 if epsilon is None else 4, quiet=as_json) as advance,
    ):
        advance("reading the data")
        spending = account(ledger, dataset, data, private=epsilon is not None)
        chosen = chosen_columns(columns, drop, missing, private=epsilon is not None)
        rows = read_labelled(data, label, chosen)
        result = fit_regression(
            rows.X,
            rows.y,
            rank,
            epsilon=epsilon,
            delta=delta,
            target_range=target_range,
            **_bounds(epsilon, row_norm, feature_range, rows.names, unit_rows=False),
            held_out=held_out,
            frontier=frontier,
            assumptions=("the columns of the table are public", RANGE_IS_PUBLIC),
            **spending,
            random_state=seed,
            progress=advance,
        )
        advance("writing the report")
        result.write(output)
    show_fit(result, output, as_json=as_json)


def _bounds(
    epsilon: float | None,
    row_norm: float | None,
    feature_range: str | None,
    names: tuple[str, ...] | None,
    *,
    unit_rows: bool,
) -> dict[str, Any]:
    """Return the public bounds of a private fit, or refuse one without."""
    if epsilon is not None and row_norm is None and feature_range is None and not unit_rows:
        raise InvalidInputError(
            "--row-norm, --unit-rows or --feature-range with --epsilon",
            words("none: bounds computed from the private rows would be a release without a charge"),
            "Give the public length of a row, or the public range of the columns.",
        )
    return {
        "row_norm": 1.0 if row_norm is None else row_norm,
        "feature_range": None if feature_range is None else feature_range_of(feature_range, names),
    }


def _partitioned_model(
    kind: str,
    rank: int,
    epsilon: float | None,
    delta: float,
    row_norm: float | None,
    feature_range: str | None,
    *,
    unit_rows: bool,
    non_negative: bool,
    hide: bool,
    names: tuple[str, ...] | None,
    spending: dict[str, Any],
) -> SVD | PCA | PrivateSVD | PrivatePCA:
    """Return the estimator for data in partitions, which have columns with these names."""
    from tacit.factor.svd.estimator import SVD
    from tacit.factor.svd.pca import PCA
    from tacit.factor.svd.private import PrivatePCA, PrivateSVD

    if epsilon is None:
        return (SVD if kind == "svd" else PCA)(rank, hide_singular_values=hide)
    bounds = _bounds(epsilon, row_norm, feature_range, names, unit_rows=unit_rows)
    settings: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "non_negative": non_negative, **bounds, **spending}
    return (PrivateSVD if kind == "svd" else PrivatePCA)(rank, **settings)


def _fit(
    kind: str,
    *,
    data: Path,
    rank: int,
    epsilon: float | None,
    delta: float,
    row_norm: float | None,
    feature_range: str | None,
    non_negative: bool,
    hide_singular_values: bool,
    unit_rows: bool,
    vocabulary: Path | None,
    text_column: str | None,
    columns: str | None,
    drop: str | None,
    missing: str,
    frontier: bool,
    held_out: float,
    seed: int,
    output: Path,
    overwrite: bool,
    ledger: Path | None,
    dataset: str | None,
    scheduler: str | None,
    workers: int | None,
    blocks: int,
    resident: int | None,
    checkpoint: Path | None,
    dashboard: bool,
    as_json: bool,
) -> None:
    from tacit.report.components import fit_components
    from tacit.report.result import ResultFolder

    private = epsilon is not None
    chosen = chosen_columns(columns, drop, missing, text_column, private=private)
    parts = partitions.Partitioned(data, scheduler, workers, blocks, resident, checkpoint, dashboard)
    if parts.wanted:
        if frontier or chosen != ChosenColumns():
            raise partitions.whole_data_only("--frontier, --columns, --drop, --missing or --text-column")
        model = _partitioned_model(
            kind,
            rank,
            epsilon,
            delta,
            row_norm,
            feature_range,
            unit_rows=unit_rows or vocabulary is not None,
            non_negative=non_negative,
            hide=hide_singular_values,
            names=parts.names,
            spending=parts.spending(ledger, dataset, private=private),
        )
        settings: dict[str, Any] = {"overwrite": overwrite, "as_json": as_json, "stages": partitions.STAGES}
        settings |= {"vocabulary": parts.terms(vocabulary), "unit_rows": unit_rows}
        parts.fit(model, kind, output, **settings, assumptions=(partitions.PUBLIC_COLUMNS, RANGE_IS_PUBLIC))
        return
    with ResultFolder(output, overwrite=overwrite, data=data), progress(4 if private else 3, quiet=as_json) as advance:
        advance("reading the data")
        spending = account(ledger, dataset, data, private=private)
        rows = prepare(
            data,
            private=private,
            unit_rows=unit_rows,
            vocabulary=vocabulary,
            idf="uniform",
            shape=None,
            chosen=chosen,
        )
        texts = rows.counts is not None
        result = fit_components(
            rows.X,
            rank,
            kind=kind,
            epsilon=epsilon,
            delta=delta,
            **_bounds(epsilon, row_norm, feature_range, rows.names, unit_rows=unit_rows or texts),
            non_negative=non_negative or texts,
            hide_singular_values=hide_singular_values,
            held_out=held_out,
            terms=rows.names,
            image_shape=rows.shape,
            frontier=frontier,
            assumptions=(*rows.assumptions, *([] if feature_range is None else [RANGE_IS_PUBLIC])),
            **spending,
            random_state=seed,
            progress=advance,
        )
        advance("writing the report")
        result.write(output)
    show_fit(result, output, as_json=as_json)
