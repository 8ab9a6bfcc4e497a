"""`tacit fit recommend`: a recommender from a file of ratings, private for users when --epsilon is given."""

from __future__ import annotations

from pathlib import Path

import typer

from tacit.cli import options
from tacit.cli.budget import account
from tacit.cli.output import progress, show_fit
from tacit.cli.prepare import range_of
from tacit.cli.read_ratings import read_catalogue, read_ratings_file

DATA = typer.Argument(help="A csv or parquet file with one row per rating.")
CATALOGUE = typer.Option(
    None, help="File with all items, rated or not: public. A table with the column of items, or one item per line."
)
OTHER_EPSILONS = (0.25, 0.5, 2.0, 4.0)
"""Multiples of epsilon at which the recommender is fitted too, to draw what privacy costs."""


def recommend(
    data: Path = DATA,
    epsilon: float | None = typer.Option(None, help="Total privacy loss of a user's whole history; without it none."),
    delta: float = typer.Option(1e-5, help="Failure probability."),
    catalogue: Path | None = CATALOGUE,
    factors: int = typer.Option(16, help="Most factors."),
    rating_range: str = typer.Option("1:5", help="Least and greatest rating there are (public), as in 1:5."),
    columns: str = typer.Option("user,item,rating", help="The file's columns for users, items and ratings."),
    held_out: float = typer.Option(0.1, help="Fraction of the ratings to hold out of the fit."),
    frontier: bool = typer.Option(True, help="Also fit at other epsilons, to draw what privacy costs."),
    seed: int = typer.Option(0, help="Seed of the split, without --epsilon."),
    output: Path = typer.Option(Path("tacit-recommend"), help="Folder to write to."),  # noqa: B008
    overwrite: bool = options.OVERWRITE,
    ledger: Path | None = options.LEDGER,
    dataset: str | None = options.DATASET,
    as_json: bool = options.JSON,
) -> None:
    """Learn to recommend; with --epsilon the items' side may be released, and users' own factors never are.

    Writes model/recommender.tacit (all that may be passed on), result.json and report.html (for the holder).
    """
    from tacit.report import ResultFolder, compare_recommenders

    with ResultFolder(output, overwrite=overwrite), progress(6, quiet=as_json) as advance:
        advance("reading the ratings")
        spending = account(ledger, dataset, data, private=epsilon is not None)
        items = None if catalogue is None else read_catalogue(catalogue, columns)
        found = compare_recommenders(
            read_ratings_file(data, columns, items),
            factors,
            epsilon=epsilon,
            delta=delta,
            rating_range=range_of(rating_range, "--rating-range"),
            catalogue=None if items is None else items.to_list(),
            held_out=held_out,
            other_epsilons=[epsilon * part for part in OTHER_EPSILONS] if epsilon is not None and frontier else (),
            **spending,
            random_state=seed,
            source={"data": str(data.resolve()), "columns": columns},
            progress=advance,
        )
        advance("writing the report")
        found.write(output)
    show_fit(found, output, as_json=as_json)
