"""`tacit fit recommend`: a recommender from a file of ratings, private for users when --epsilon is given."""

from __future__ import annotations

import json
import math
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tacit.cli.budget import account
from tacit.cli.output import print_json, progress
from tacit.cli.read_ratings import read_ratings_file
from tacit.errors import InvalidInputError, parameter

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DATA = typer.Argument(help="A csv or parquet file with a row a rating.")
OUTPUT = typer.Option(Path("tacit-recommend"), help="Folder to write to.")
LEDGER = typer.Option(None, help="Ledger to charge; the account is --dataset, or the fingerprint of DATA.")
FOR_THE_HOLDER = (
    "All errors were computed from held-out ratings without noise, and so were the figures of the model without privacy and of "
    "other epsilons. They are for the holder: pass on the model, not this page."
)
GROUPS = 5


def recommend(
    data: Path = DATA,
    epsilon: float | None = typer.Option(None, help="Total privacy loss of a user's whole history; without it none."),
    delta: float = typer.Option(1e-5, help="Failure probability."),
    factors: int = typer.Option(16, help="Most factors."),
    least: float = typer.Option(1.0, help="Least rating there is (public)."),
    greatest: float = typer.Option(5.0, help="Greatest rating there is (public)."),
    columns: str = typer.Option("user,item,rating", help="The file's columns for users, items and ratings."),
    held_out: float = typer.Option(0.1, help="Share of the ratings kept out of the fit."),
    frontier: bool = typer.Option(True, help="Also fit at other epsilons, to draw what privacy costs."),
    seed: int = typer.Option(0, help="Seed of the split, without --epsilon. It protects nothing."),
    output: Path = OUTPUT,
    ledger: Path | None = LEDGER,
    dataset: str | None = typer.Option(None, help="The ledger's account."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object and no progress."),
) -> None:
    """Learn to recommend; with --epsilon the items' side may be released, and users' own factors never are.

    Writes model/recommender.tacit (all that may be passed on), result.json and report.html (for the holder).
    """
    from tacit.data.split import held_out_by_seed, held_out_pairs
    from tacit.errors import PrivacyWarning
    from tacit.factor import PrivateRecommender, Recommender

    if not 0 < held_out < 1:
        raise InvalidInputError(
            "--held-out between 0 and 1", parameter(held_out), "Give the share of ratings to keep out, as 0.1."
        )
    with progress(6, quiet=as_json) as advance:
        advance("reading the ratings")
        frame = read_ratings_file(data, columns)
        if epsilon is None:
            out = held_out_by_seed(len(frame), fraction=held_out, random_state=seed)
        else:
            out = held_out_pairs(frame["user"], frame["item"], fraction=held_out)
        train, test = frame.filter(~out), frame.filter(out)
        span: dict[str, Any] = {"rating_range": (least, greatest), "random_state": seed}
        advance("fitting without privacy, to compare")
        plain = Recommender(factors, **span).fit(train)
        model: Any = plain
        if epsilon is not None:
            advance("fitting with privacy")
            settings: dict[str, Any] = {"delta": delta, **span}
            model = PrivateRecommender(factors, epsilon=epsilon, **settings, **account(ledger, dataset, data)).fit(
                train
            )
        advance("measuring")
        found = {"private": model, "without privacy": plain} if model is not plain else {"fitted": model}
        scores = {name: vars(candidate.evaluate(test)) for name, candidate in found.items()}
        scores["a user's own mean"] = {"rmse": _own_mean_rmse(train, test)}
        curve: dict[float, float] = {}
        if epsilon is not None and frontier:
            advance("fitting at other epsilons")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", PrivacyWarning)  # meant for the fit that is released
                for candidate in (epsilon / 4, epsilon / 2, epsilon * 2, epsilon * 4):
                    other = PrivateRecommender(factors, epsilon=candidate, **settings).fit(train)
                    curve[candidate] = other.evaluate(test).rmse
            curve[epsilon] = scores["private"]["rmse"]
        advance("writing the report")
        (output / "model").mkdir(parents=True, exist_ok=True)
        model.save(output / "model" / "recommender.tacit")
        result = {
            "guarantee": model.guarantee_.to_dict(),
            "data": str(data.resolve()),
            "columns": columns,
            "ratings": len(train),
            "held_out": len(test),
            "scores": scores,
            "frontier": {f"{key:g}": curve[key] for key in sorted(curve)},
        }
        _report(model, found, scores, curve, train, test).write(output / "report.html")
        (output / "result.json").write_text(json.dumps(result, indent=2), encoding="utf-8")
    if as_json:
        print_json(result)
        return
    typer.echo(result["guarantee"]["sentence"])
    for name, values in scores.items():
        typer.echo(f"{name}: RMSE {values['rmse']:.4f}")
    typer.echo(f"Report: {output / 'report.html'}")


def _own_mean_rmse(train: Any, test: Any) -> float:
    """Predict each user's own mean, which costs no privacy; the overall mean for users who are new."""
    import polars

    means = train.group_by("user").agg(polars.col("rating").mean().alias("mean"))
    joined = test.join(means, on="user", how="left").with_columns(polars.col("mean").fill_null(train["rating"].mean()))
    return math.sqrt(float(((joined["rating"] - joined["mean"]) ** 2).mean()))


def _by_popularity(model: Any, train: Any, test: Any) -> NDArray[np.float64]:
    """Return the RMSE of the held-out ratings of ever more popular items, in groups of equal numbers of ratings."""
    import numpy as np
    import polars

    counts = train.group_by("item").agg(polars.len().alias("count"))
    known = test.join(counts, on="item", how="left").with_columns(polars.col("count").fill_null(0))
    errors = model.predict(known["user"], known["item"], unknown="mean") - known["rating"].to_numpy()
    order = np.argsort(known["count"].to_numpy(), kind="stable")
    return np.array(
        [math.sqrt(float(np.mean(errors[part] ** 2))) for part in np.array_split(order, GROUPS) if len(part)]
    )


def _report(
    model: Any, found: dict[str, Any], scores: dict[str, Any], curve: dict[float, float], train: Any, test: Any
) -> Any:
    from tacit.report import Report
    from tacit.report.figures import bars, frontier, histogram

    report = Report("Recommender", FOR_THE_HOLDER)
    report.guarantee(model.guarantee_)
    rows = [
        [name, *(f"{values[key]:.4f}" if key in values else "" for key in ("rmse", "mae", "recall", "ndcg"))]
        for name, values in scores.items()
    ]
    report.table("Held-out ratings", ["model", "RMSE", "MAE", "recall at 10", "NDCG at 10"], rows)
    if curve:
        figure = frontier(
            sorted(curve),
            [curve[key] for key in sorted(curve)],
            reference=scores["without privacy"]["rmse"],
            value_name="RMSE on held-out ratings",
            reference_name="without privacy",
            baseline=(scores["a user's own mean"]["rmse"], "a user's own mean (free)"),
        )
        report.figure("What privacy costs", figure, "Lower is better. A user's own mean costs no privacy at all.")
    groups = {name: list(_by_popularity(candidate, train, test)) for name, candidate in found.items()}
    labels = ["rarest", *[""] * (GROUPS - 2), "most popular"]
    report.figure(
        "Error by popularity",
        bars(labels, groups, value_name="RMSE"),
        "Held-out ratings in five groups of equal size, from those of rare items to those of popular ones.",
    )
    report.figure(
        "Contributions",
        histogram(train.group_by("user").len()["len"].to_numpy(), value_name="ratings of a user"),
        "Some users rate much more than others. In a private fit each user's contribution is scaled to the same norm.",
    )
    return report
