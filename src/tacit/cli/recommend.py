"""`tacit recommend`: what a user may like, from a model and the user's own ratings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer

from tacit.cli.output import print_json, print_table
from tacit.cli.read_ratings import as_type_of, read_ratings_file
from tacit.errors import InvalidInputError, parameter, words

MODEL = typer.Argument(help="A model file, or a folder that `tacit fit recommend` wrote.")
RATINGS = typer.Option(None, help="A file with the user's own ratings (columns item and rating).")
DATA = typer.Option(None, help="The file of all ratings, to find --user in; a fit's folder knows it.")


def recommend(
    model: Path = MODEL,
    user: str | None = typer.Option(None, help="A user of the data."),
    ratings: Path | None = RATINGS,
    data: Path | None = DATA,
    columns: str = typer.Option("user,item,rating", help="The columns of --data."),
    top: int = typer.Option(10, help="How many items."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Recommend items. A model knows items, not users: the user's own ratings are read where they are."""
    if (user is None) == (ratings is None):
        raise InvalidInputError(
            "either --user or --ratings",
            words("both" if user is not None else "neither"),
            "Name a user of the data, or give a file with the ratings of one.",
        )
    import numpy as np
    import polars

    from tacit.estimators.registry import load

    file, data, columns = _found(model, data, columns)
    recommender = load(file)
    if not hasattr(recommender, "recommend_for"):
        raise InvalidInputError(
            "a recommender's model", parameter(type(recommender).__name__), "Fit one: tacit fit recommend."
        )
    items, values = _own_ratings(ratings, user, data, columns)
    ids = np.asarray(recommender.item_ids_)
    if ids.dtype.kind in "iuU":
        items = as_type_of(items, polars.Series(ids.tolist()))
    best = recommender.recommend_for(items, values, n=top)
    if as_json:
        print_json([{"item": item, "rating": rating} for item, rating in best])
        return
    print_table("Recommended", ["item", "expected rating"], [[str(item), f"{rating:.2f}"] for item, rating in best])


def _found(model: Path, data: Path | None, columns: str) -> tuple[Path, Path | None, str]:
    """Return the model's file, and, where `model` is a fit's folder, the data it was fitted to."""
    if not model.is_dir():
        return model, data, columns
    result = model / "result.json"
    if data is None and result.exists():
        known = json.loads(result.read_text(encoding="utf-8"))
        data, columns = Path(known["data"]), known["columns"]
    return model / "model" / "recommender.tacit", data, columns


def _own_ratings(ratings: Path | None, user: str | None, data: Path | None, columns: str) -> tuple[Any, Any]:
    if ratings is not None:
        from tacit.data.frames import read_frame

        frame = read_frame(ratings)
        if not {"item", "rating"} <= set(frame.columns):
            raise InvalidInputError(
                f"the columns item and rating in {ratings}", words("other columns"), "Give the user's own ratings."
            )
        return frame["item"], frame["rating"]
    if data is None:
        raise InvalidInputError(
            "--data with the file of all ratings",
            words("none"),
            "A model does not hold the users: give the file with their ratings.",
        )
    import polars

    frame = read_ratings_file(data, columns)
    own = frame.filter(polars.col("user").cast(polars.String) == user)
    if own.is_empty():
        raise InvalidInputError(
            f"--user to be a user in {data.name}", words("one without ratings there"), "Check the id and --columns."
        )
    return own["item"], own["rating"]
