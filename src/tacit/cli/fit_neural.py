"""`tacit fit neural`: classes or numbers of images or of rows of a table, from a private Bayesian network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tacit.cli import options
from tacit.cli.budget import account
from tacit.cli.output import progress, show_fit
from tacit.cli.read import (
    Labelled,
    chosen_columns,
    feature_range_of,
    image_shape_of,
    labels_among,
    range_of,
    read_classes,
    read_labelled,
)
from tacit.errors import InvalidInputError, parameter, words

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


DATA = typer.Argument(help="A csv or parquet table, an npz archive, or a folder of images with one folder per class.")
CLASSES = typer.Option(
    None, help="All classes, as in a,b,c, or a file with one per line: public, and needed with --epsilon."
)


def neural(
    data: Path = DATA,
    label: str | None = typer.Option(None, help="Column (or array) with the labels; for images, their folders."),
    classes: str | None = CLASSES,
    label_range: str | None = typer.Option(None, help="Labels are numbers, in this public range, as in 0:100."),
    epsilon: float | None = typer.Option(
        None, help="Total privacy loss of an example; without it there is no privacy."
    ),
    delta: float = options.DELTA,
    hidden: str = typer.Option(
        "auto",
        help="Widths of the hidden layers, as 100 or 200,100; none for a linear model; auto: none behind a front end.",
    ),
    method: str = typer.Option("dropout", help="dropout, sgld or dp-sgd."),
    features: str = typer.Option(
        "auto",
        help="Front end: scattering (fixed, not fitted to data), convolution (learned), none, or auto: scattering for images.",
    ),
    image_shape: str | None = options.IMAGE_SHAPE,
    feature_range: str | None = options.FEATURE_RANGE,
    columns: str | None = options.COLUMNS,
    drop: str | None = options.DROP,
    missing: str = options.MISSING,
    epochs: float | None = typer.Option(
        None,
        help="Passes over the data. If neither this nor --sampling-rate is given: 100 steps, at a rate for the budget.",
    ),
    sampling_rate: float | None = typer.Option(
        None, help="Probability with which each example takes part in a step; 0.1 if only --epochs is given."
    ),
    clip: float = typer.Option(1.0, help="Largest norm of one example's gradient."),
    step_size: float | None = typer.Option(None, help="Size of the first step; 2 for classes, 0.5 for numbers."),
    frontier: bool = options.FRONTIER,
    held_out: float = typer.Option(0.2, help="Fraction of the examples to hold out of the fit."),
    seed: int = options.SPLIT_SEED,
    output: Path = typer.Option(Path("tacit-neural"), help="Folder to write to."),  # noqa: B008
    overwrite: bool = options.OVERWRITE,
    ledger: Path | None = options.LEDGER,
    dataset: str | None = options.DATASET,
    as_json: bool = options.JSON,
) -> None:
    """Learn classes, or with --label-range numbers; with --epsilon the network may be released.

    Writes model/network.tacit (the only file that may be passed on), result.json and report.html (for the holder).
    """
    from tacit.neural.requirement import require_torch
    from tacit.report.network import REPORTS_PER_TRAINING, compare_networks
    from tacit.report.result import ResultFolder

    require_torch()
    shape = None if image_shape is None else image_shape_of(image_shape)
    settings: dict[str, Any] = {
        "hidden": _widths(hidden),
        "method": method,
        "features": None if features == "none" else features,
        "epochs": epochs,
        "sampling_rate": sampling_rate,
        "clip": clip,
        **({} if step_size is None else {"step_size": step_size}),
    }
    target_range = None if label_range is None else range_of(label_range, "--label-range")
    stages = 3 + REPORTS_PER_TRAINING * (1 if epsilon is None else 2) + (epsilon is not None and frontier)
    with ResultFolder(output, overwrite=overwrite, data=data), progress(stages, quiet=as_json) as advance:
        advance("reading the data")
        spending = account(ledger, dataset, data, private=epsilon is not None)
        chosen = chosen_columns(columns, drop, missing, private=epsilon is not None)
        rows = read_labelled(data, label, chosen)
        named = None if classes is None else read_classes(classes)
        result = compare_networks(
            rows.X,
            rows.y if named is None else labels_among(rows.y, named),
            classes=named,
            target_range=target_range,
            epsilon=epsilon,
            delta=delta,
            held_out=held_out,
            frontier=frontier,
            **spending,
            random_state=seed,
            progress=advance,
            image_shape=shape or rows.shape,
            feature_range=_feature_range(rows, feature_range, private=epsilon is not None),
            **settings,
        )
        advance("writing the report")
        result.write(output)
    show_fit(result, output, as_json=as_json)


def _feature_range(rows: Labelled, given: str | None, *, private: bool) -> tuple[ArrayLike, ArrayLike]:
    if given is not None:
        return feature_range_of(given, rows.names)
    if rows.feature_range is not None:
        return rows.feature_range
    if private:
        raise InvalidInputError(
            "the public range of the features for a private fit",
            words("none, and the range of the private rows is private"),
            "Give --feature-range LOW:HIGH, or a table with the columns name, low, high.",
        )
    import numpy as np

    ends = rows.X.min(axis=0), rows.X.max(axis=0)
    least, greatest = (end if isinstance(end, np.ndarray) else end.toarray().ravel() for end in ends)
    return least, least + (greatest - least) + (greatest == least)


def _widths(text: str) -> tuple[int, ...] | None:
    if text == "auto":
        return None
    try:
        return () if text == "none" else tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InvalidInputError(
            "widths as in 200,100, or none, or auto", parameter(text), "Give --hidden WIDTH[,WIDTH...]."
        ) from None
