"""`tacit fit recommend`: a recommender from a file of ratings or interactions, private for users when --epsilon is given."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tacit.cli import options, partitions
from tacit.cli.budget import account
from tacit.cli.output import progress, show_fit
from tacit.cli.read import (
    HISTORIES,
    column_names,
    item_type_of,
    range_of,
    read_budgets,
    read_catalogue,
    read_item_features,
    read_ratings_file,
    write_histories,
)
from tacit.errors import InvalidInputError, words

if TYPE_CHECKING:
    from tacit.estimators.base import Estimator
    from tacit.report.result import FitResult

DATA = typer.Argument(
    help="A csv or parquet file with one row per rating, or per interaction; or files, as in 'ratings/*.parquet'."
)
CATALOGUE = typer.Option(
    None, help="File with all items, rated or not: public. A table with the column of items, or one item per line."
)


def recommend(
    data: Path = DATA,
    epsilon: float | None = typer.Option(None, help="Total privacy loss of a user's whole history; without it none."),
    epsilon_column: str | None = typer.Option(
        None,
        help="In place of --epsilon: column of the file with each user's own epsilon (public), inf for volunteers.",
    ),
    delta: float = options.DELTA,
    catalogue: Path | None = CATALOGUE,
    factors: int = typer.Option(16, help="Maximum number of factors."),
    rating_range: str = typer.Option("1:5", help="Least and greatest possible rating (public), as in 1:5."),
    implicit: bool = typer.Option(False, "--implicit", help="Rows are clicks, plays or purchases, not ratings."),
    features: str | None = typer.Option(None, help="With --epsilon: columns of the catalogue with public features."),
    titles: str | None = typer.Option(
        None,
        help="With --implicit and --epsilon: columns of the catalogue with public titles. Items that share a rare word, such as "
        "the parts of a series, are expected to belong together.",
    ),
    non_negative: bool = typer.Option(
        False, "--non-negative", help="Factors of ratings that are not negative and can be read, one by one."
    ),
    weighting: str = typer.Option("log", help="With --implicit: what a weight counts; log, linear or binary."),
    length: int = typer.Option(20, help="With --implicit: length of the lists that are measured."),
    columns: str | None = typer.Option(
        None, help="The file's columns: user,item,rating, or user,item[,weight] with --implicit."
    ),
    held_out: float = typer.Option(
        0.1, help="Fraction of the ratings (with --implicit: users) to hold out of the fit."
    ),
    frontier: bool = options.FRONTIER,
    seed: int = typer.Option(0, help="Seed of the split, without --epsilon."),
    output: Path = typer.Option(Path("tacit-recommend"), help="Folder to write to."),  # noqa: B008
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
    """Fit a recommender; with --epsilon the items' factors may be released. Users' own factors are never released.

    Writes model/recommender.tacit (the only file that may be passed on), result.json, report.html and histories.parquet (for
    the holder): the last is a copy of what was read, by user, from which `tacit recommend` reads one user.
    """
    from tacit.factor.implicit.private import PrivateImplicitRecommender
    from tacit.factor.ratings.private import PrivateRecommender
    from tacit.report.implicit import compare_implicit
    from tacit.report.recommender import compare_recommenders
    from tacit.report.result import ResultFolder

    columns = columns or ("user,item" if implicit else "user,item,rating")
    parts = partitions.Partitioned(data, scheduler, workers, blocks, resident, checkpoint, dashboard)
    if epsilon_column is not None and (implicit or epsilon is not None or parts.wanted):
        raise InvalidInputError(
            "--epsilon-column for ratings in one file, without --epsilon",
            words("--implicit, --epsilon or partitions"),
            "Give one epsilon for all users, or a column with each user's own; with --implicit one for all.",
        )
    if non_negative and (implicit or epsilon_column is not None or features is not None or parts.wanted):
        raise InvalidInputError(
            "--non-negative for ratings in one file, with one --epsilon for all users or none, without --features",
            words("--implicit, --epsilon-column, --features or partitions"),
            "Leave --non-negative out, or the other.",
        )
    private = epsilon is not None or epsilon_column is not None
    _check_described(features, titles, private=private, lists=implicit and epsilon is not None, catalogue=catalogue)
    if parts.wanted:
        if frontier:
            raise partitions.whole_data_only("--frontier")
        if epsilon is None or catalogue is None:
            raise InvalidInputError(
                "--epsilon and --catalogue for ratings in partitions",
                words("a fit without one of them"),
                "A recommender without privacy is fitted in memory; all items must be known in advance.",
            )
        items = read_catalogue(catalogue, columns, implicit=implicit)
        settings: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "catalogue": items.to_list()}
        settings |= parts.spending(ledger, dataset, private=True)
        if features is not None or titles is not None:
            settings["features"] = read_item_features(catalogue, columns, features, titles, implicit=implicit)
        model: Estimator
        if implicit:
            model = PrivateImplicitRecommender(weighting=weighting, **settings)
        else:
            model = PrivateRecommender(factors, rating_range=range_of(rating_range, "--rating-range"), **settings)
        parts.fit(
            model,
            "recommender",
            output,
            overwrite=overwrite,
            as_json=as_json,
            stages=partitions.STAGES,
            columns=column_names(columns, implicit=implicit),
            item_type=item_type_of(items),
        )
        (output / HISTORIES).unlink(missing_ok=True)  # of a model that was overwritten
        return None
    with ResultFolder(output, overwrite=overwrite, data=data), progress(6, quiet=as_json) as advance:
        advance("reading the interactions" if implicit else "reading the ratings")
        spending = account(ledger, dataset, data, private=private)
        listed = None if catalogue is None else read_catalogue(catalogue, columns, implicit=implicit)
        frame = read_ratings_file(data, columns, listed, implicit=implicit)
        common: dict[str, Any] = {
            "epsilon": epsilon,
            "delta": delta,
            "catalogue": None if listed is None else listed.to_list(),
            "features": None,
            "held_out": held_out,
            "frontier": frontier,
            **spending,
            "random_state": seed,
            "source": {"data": str(data.resolve()), "columns": columns}
            | ({} if catalogue is None else {"catalogue": str(catalogue.resolve())}),
            "progress": advance,
        }
        if catalogue is not None and (features is not None or titles is not None):
            common["features"] = read_item_features(catalogue, columns, features, titles, implicit=implicit)
        result: FitResult
        if implicit:
            result = compare_implicit(frame, weighting=weighting, k=length, **common)
        else:
            bounds = range_of(rating_range, "--rating-range")
            budgets = None if epsilon_column is None else read_budgets(data, columns, epsilon_column)
            result = compare_recommenders(
                frame, factors, rating_range=bounds, budgets=budgets, non_negative=non_negative, **common
            )
        advance("writing the report")
        result.write(output)
        write_histories(frame, output)
    return show_fit(result, output, as_json=as_json)


def _check_described(
    features: str | None, titles: str | None, *, private: bool, lists: bool, catalogue: Path | None
) -> None:
    """Refuse public columns of items where no fit uses them; `private` is any private fit, `lists` one of interactions."""
    if features is not None and (not private or catalogue is None):
        raise InvalidInputError(
            "--features together with --catalogue and --epsilon",
            words("without one of them"),
            "The features of items are columns of the catalogue's table, and help a private fit.",
        )
    if titles is not None and (not lists or catalogue is None):
        raise InvalidInputError(
            "--titles together with --implicit, --catalogue and --epsilon",
            words("without one of them"),
            "Titles of items are columns of the catalogue's table, and help private lists from interactions.",
        )
