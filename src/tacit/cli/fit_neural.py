"""`tacit fit neural`: classes or numbers of images or of rows of a table, from a private Bayesian network."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tacit.cli.budget import account
from tacit.cli.neural_tasks import Task, task_of
from tacit.cli.output import print_json, progress
from tacit.cli.read_labelled import Labelled, read_bounds, read_labelled
from tacit.errors import InvalidInputError, parameter, words

if TYPE_CHECKING:
    from collections.abc import Callable

DATA = typer.Argument(help="A csv or parquet table, an npz archive, or a folder of images with one folder a class.")
BOUNDS = typer.Option(None, help="Table with the columns name, low, high: the public range of every column.")
OUTPUT = typer.Option(Path("tacit-neural"), help="Folder to write to.")
LEDGER = typer.Option(None, help="Ledger to charge; the account is --dataset, or the fingerprint of DATA.")
FOR_THE_HOLDER = (
    "Losses, and all measures and figures on held-out examples, were computed from private data without noise. They are for "
    "the holder: pass on the model, not this page."
)
PARTS = 10
"""The bar moves so many times while the network is trained."""


def neural(
    data: Path = DATA,
    label: str | None = typer.Option(None, help="Column (or array) with the labels; for images, their folders."),
    label_range: str | None = typer.Option(None, help="Labels are numbers, in this public range, as in 0:100."),
    epsilon: float | None = typer.Option(
        None, help="Total privacy loss of an example; without it there is no privacy."
    ),
    delta: float = typer.Option(1e-6, help="Failure probability."),
    hidden: str = typer.Option("100", help="Widths of the hidden layers, as 1000 or 200,100; none for a linear model."),
    method: str = typer.Option("dropout", help="dropout, sgld or dp-sgd."),
    features: str = typer.Option("none", help="scattering: a fixed front end for images that has seen no data."),
    image_shape: str | None = typer.Option(None, help="Rows are images of this shape, as in 28x28."),
    low: float | None = typer.Option(None, help="Public lowest value of all features."),
    high: float | None = typer.Option(None, help="Public highest value of all features."),
    bounds: Path | None = BOUNDS,
    epochs: float = typer.Option(10.0, help="Passes over the data."),
    sampling_rate: float = typer.Option(0.1, help="Share of the examples in a step."),
    clip: float = typer.Option(1.0, help="Largest norm of one example's gradient."),
    step_size: float | None = typer.Option(None, help="Size of the first step; 2 for classes, 0.5 for numbers."),
    held_out: float = typer.Option(0.2, help="Share of the examples kept out of the fit."),
    seed: int = typer.Option(0, help="Seed of the start and, without --epsilon, of the split. It protects nothing."),
    output: Path = OUTPUT,
    ledger: Path | None = LEDGER,
    dataset: str | None = typer.Option(None, help="The ledger's account."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object and no progress."),
) -> None:
    """Learn classes, or with --label-range numbers; with --epsilon the network may be released.

    Writes model/network.tacit (all that may be passed on), result.json and report.html (for the holder).
    """
    from tacit.neural.requirement import require_torch

    require_torch()
    if not 0 < held_out < 1:
        raise InvalidInputError(
            "--held-out between 0 and 1", parameter(held_out), "Give the share of examples to keep out, as 0.2."
        )
    with progress(3 + PARTS * (1 if epsilon is None else 2), quiet=as_json) as advance:
        advance("reading the data")
        rows = read_labelled(data, label)
        settings = {
            "hidden": _widths(hidden),
            "method": method,
            "features": None if features == "none" else features,
            "image_shape": rows.shape if image_shape is None else _shape(image_shape),
            "bounds": _bounds(rows, low, high, bounds, private=epsilon is not None),
            "epochs": epochs,
            "sampling_rate": sampling_rate,
            "clip": clip,
            **({} if step_size is None else {"step_size": step_size}),
            "delta": delta,
            "random_state": seed,
        }
        task = task_of(rows.y, label_range)
        result = _fit_and_report(
            rows, task, settings, epsilon, held_out, account(ledger, dataset, data), output, advance
        )
    if as_json:
        print_json(result)
        return
    typer.echo(result["guarantee"]["sentence"])
    for name, value in result["measures"].items():
        typer.echo(f"{name}: {value:.4f}")
    typer.echo(f"Report: {output / 'report.html'}")


def _fit_and_report(
    rows: Labelled,
    task: Task,
    settings: dict[str, Any],
    epsilon: float | None,
    held_out: float,
    spending: dict[str, Any],
    output: Path,
    advance: Callable[[str], None],
) -> dict[str, Any]:
    import numpy as np

    from tacit.data.split import held_out_by_seed, held_out_rows

    if epsilon is None:
        out = held_out_by_seed(rows.X.shape[0], fraction=held_out, random_state=settings["random_state"])
    else:
        out = held_out_rows(rows.X, rows.y, fraction=held_out)
    train, test = (rows.X[~out], rows.y[~out]), (rows.X[out], rows.y[out])
    steps = max(1, round(settings["epochs"] / settings["sampling_rate"]))
    told = _every_part(advance, steps, "training without privacy, to compare")
    plain = task.model(**settings, epsilon=math.inf, progress=told).fit(*train)
    found = {"fitted": plain}
    if epsilon is not None:
        told = _every_part(advance, steps, "training with privacy")
        model = task.model(**settings, epsilon=epsilon, progress=told, **spending).fit(*train)
        found = {"private": model, "without privacy": plain}
    advance("measuring")
    model = next(iter(found.values()))
    measures = {**task.measures(found, *test), "share of values beyond the bounds": model.clipped_share_}
    advance("writing the report")
    (output / "model").mkdir(parents=True, exist_ok=True)
    model.save(output / "model" / "network.tacit")
    result = {
        "guarantee": model.guarantee_.to_dict(),
        "examples": len(train[1]),
        "held_out": len(test[1]),
        **task.described(),
        "measures": measures,
        "dropout_rate": model.dropout_rate_,
        "settings": {
            **settings,
            "bounds": np.asarray(settings["bounds"]).tolist(),
            "step_size": model.step_size,
            "epsilon": epsilon,
            "steps": steps,
        },
    }
    _report(task, found, measures, test).write(output / "report.html")
    (output / "result.json").write_text(json.dumps(result, indent=2), encoding="utf-8")
    return result


def _report(task: Task, found: dict[str, Any], measures: dict[str, float], test: tuple[Any, Any]) -> Any:
    from tacit.report import Report
    from tacit.report.figures import curves

    model = next(iter(found.values()))
    report = Report("Private Bayesian network", FOR_THE_HOLDER)
    report.guarantee(model.guarantee_)
    report.table("Held-out examples", ["measure", "value"], [[key, f"{value:.4f}"] for key, value in measures.items()])
    losses = {key: list(candidate.loss_curve_) for key, candidate in reversed(found.items())}
    report.figure(
        "Learning curve",
        curves(losses, step_name="step", value_name="mean loss of the step's examples"),
        "Computed without noise, for the holder. The number of steps is fixed and does not depend on it.",
    )
    task.add_figures(report, found, *test)
    rates = [[key, f"{value:.4f}"] for key, value in model.dropout_rate_.items()]
    report.table(
        "Dropout rate of the weights", ["over the weights", "rate"], rates, "What the last step's noise amounts to."
    )
    return report


def _every_part(advance: Callable[[str], None], steps: int, what: str) -> Callable[[int], None]:
    marks = {math.ceil(steps * part / PARTS): part for part in range(1, PARTS + 1)}

    def told(done: int) -> None:
        if done in marks:
            advance(f"{what}: step {done} of {steps}")

    return told


def _bounds(rows: Labelled, low: float | None, high: float | None, file: Path | None, *, private: bool) -> Any:
    if file is not None:
        return read_bounds(file, rows.names)
    if low is not None and high is not None:
        return low, high
    if rows.bounds is not None:
        return rows.bounds
    if private:
        raise InvalidInputError(
            "the public range of the features for a private fit",
            words("none: a range computed from the private rows would be a release that nobody paid for"),
            "Give --low and --high, or --bounds FILE with one line a column.",
        )
    least, greatest = rows.X.min(axis=0), rows.X.max(axis=0)
    return least, least + (greatest - least) + (greatest == least)


def _widths(text: str) -> tuple[int, ...]:
    try:
        return () if text == "none" else tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InvalidInputError(
            "widths as in 200,100, or none", parameter(text), "Give --hidden WIDTH[,WIDTH...]."
        ) from None


def _shape(text: str) -> tuple[int, int]:
    from tacit.cli.fit_nmf import _shape as shape_of

    return shape_of(text)
