"""`tacit recommend`: recommend items from a model and the user's own ratings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tacit.cli.output import print_json, print_table
from tacit.cli.read import as_type_of, read_history, read_item_names, read_ratings_file
from tacit.errors import InvalidInputError, parameter, words

if TYPE_CHECKING:
    import polars as pl

MODEL = typer.Argument(help="A model file, or a folder that `tacit fit recommend` wrote.")
RATINGS = typer.Option(None, help="A file with the user's own history (columns item and rating, or item[,weight]).")
DATA = typer.Option(None, help="The file of all ratings, with --user; the folder of a fit knows it.")


def recommend(
    model: Path = MODEL,
    user: str | None = typer.Option(None, help="A user of the data."),
    ratings: Path | None = RATINGS,
    data: Path | None = DATA,
    columns: str | None = typer.Option(None, help="The columns of --data, as for tacit fit recommend."),
    top: int = typer.Option(10, help="How many items."),
    catalogue: Path | None = typer.Option(None, help="The table of items, for --show; the folder of a fit knows it."),  # noqa: B008
    show: str | None = typer.Option(None, help="A column of the catalogue to show beside each item, as title."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Recommend items. A model holds items, not users: the user's own ratings are read from a file."""
    if (user is None) == (ratings is None):
        raise InvalidInputError(
            "either --user or --ratings",
            words("both" if user is not None else "neither"),
            "Give a user of the data, or a file with the ratings of one user.",
        )
    import numpy as np
    import polars

    from tacit.estimators.registry import load

    given = data
    file, data, columns, catalogue = _files(model, data, columns, catalogue)
    recommender = load(file)
    if not hasattr(recommender, "recommend_for"):
        raise InvalidInputError(
            "a recommender's model", parameter(type(recommender).__name__), "Fit one: tacit fit recommend."
        )
    from tacit.factor.implicit.model import ImplicitModel

    implicit = isinstance(recommender, ImplicitModel)
    columns = columns or ("user,item" if implicit else "user,item,rating")
    known = read_history(model, user) if user is not None and given is None and model.is_dir() else None
    items, values = _own_history(ratings, user, data, columns, known, implicit=implicit)
    ids = np.asarray(recommender.item_ids_)
    if ids.dtype.kind in "iuU":
        items = as_type_of(items, polars.Series(ids.tolist()))
    best = recommender.recommend_for(items, n=top, **({"weights": values} if implicit else {"ratings": values}))
    named = _item_names(catalogue, columns, show, implicit=implicit)
    if as_json:
        value_name = "score" if implicit else "rating"
        print_json(
            [
                {"item": item, value_name: value} | ({} if show is None else {show: named.get(str(item))})
                for item, value in best
            ]
        )
        return
    heading = "score" if implicit else "expected rating"
    digits = 4 if implicit else 2
    shown = [] if show is None else [show]
    print_table(
        "Recommended",
        ["item", *shown, heading],
        [[str(item), *(named.get(str(item), "") for _ in shown), f"{value:.{digits}f}"] for item, value in best],
    )


def _item_names(catalogue: Path | None, columns: str, show: str | None, *, implicit: bool) -> dict[str, str]:
    """Return what the catalogue says about the items in column `show`; nothing if none is to be shown."""
    if show is None:
        return {}
    if catalogue is None:
        raise InvalidInputError(
            "--catalogue together with --show", words("none"), "Give the table of items that has this column."
        )
    return read_item_names(catalogue, columns, show, implicit=implicit)


def _files(
    model: Path, data: Path | None, columns: str | None, catalogue: Path | None
) -> tuple[Path, Path | None, str | None, Path | None]:
    """Return the file of the model and, if `model` is the folder of a fit, those of its data and its catalogue."""
    if not model.is_dir():
        return model, data, columns, catalogue
    result = model / "result.json"
    if result.exists():
        known = json.loads(result.read_text(encoding="utf-8"))
        if data is None:
            data, columns = Path(known["data"]), known["columns"]
        if catalogue is None and "catalogue" in known:
            catalogue = Path(known["catalogue"])
    return model / "model" / "recommender.tacit", data, columns, catalogue


def _own_history(
    ratings: Path | None,
    user: str | None,
    data: Path | None,
    columns: str,
    known: pl.DataFrame | None,
    *,
    implicit: bool,
) -> tuple[pl.Series, pl.Series | None]:
    """Return a user's items, and the ratings or weights; None where there are no weights."""
    value = "weight" if implicit else "rating"
    if ratings is not None:
        from tacit.data.files import read_frame

        frame = read_frame(ratings)
        if not ({"item"} if implicit else {"item", "rating"}) <= set(frame.columns):
            wanted = "the column item" if implicit else "the columns item and rating"
            raise InvalidInputError(f"{wanted} in {ratings}", words("other columns"), "Give the user's own history.")
        return frame["item"], frame[value] if value in frame.columns else None
    if known is None and data is None:
        raise InvalidInputError(
            "--data with the file of all ratings",
            words("none"),
            "A model does not hold the users: give the file with their ratings.",
        )
    import polars

    own = known
    if own is None:
        assert data is not None
        frame = read_ratings_file(data, columns, implicit=implicit)
        own = frame.filter(polars.col("user").cast(polars.String) == user)
    if own.is_empty():
        raise InvalidInputError(
            "--user to be a user of the data", words("one without ratings there"), "Check the id and --columns."
        )
    return own["item"], own[value] if value in own.columns else None
