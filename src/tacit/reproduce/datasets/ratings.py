"""Ratings: MovieLens 100K and 1M, the Netflix Prize slice and the slice of the Anime Recommendations Database."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tacit.data import make_ratings
from tacit.data.files import reading
from tacit.errors import Undisclosed
from tacit.reproduce.data import DataFolder, FileLayout, PaperDataSet, data_set

MOVIELENS = "https://grouplens.org/datasets/movielens/"


@dataclass(frozen=True, eq=False, repr=False)
class RatingTriples(Undisclosed):
    """Ratings as positions: users and items are numbered from zero, without gaps."""

    users: NDArray[np.int64]
    items: NDArray[np.int64]
    ratings: NDArray[np.float64]
    rating_range: tuple[int, int]

    @property
    def shape(self) -> tuple[int, int]:
        """Number of users and number of items."""
        return int(self.users.max()) + 1, int(self.items.max()) + 1

    def those(self, mask: NDArray[np.bool_]) -> RatingTriples:
        """Return some of the ratings, with new numbers."""
        return triples(self.users[mask], self.items[mask], self.ratings[mask], self.rating_range)


def triples(users: object, items: object, ratings: object, rating_range: tuple[int, int]) -> RatingTriples:
    """Number users and items from zero."""
    return RatingTriples(
        np.unique(np.asarray(users), return_inverse=True)[1].astype(np.int64),
        np.unique(np.asarray(items), return_inverse=True)[1].astype(np.int64),
        np.asarray(ratings, dtype=np.float64),
        rating_range,
    )


def _separated(path: Path, separator: str) -> RatingTriples:
    """Read user, item, rating, time in each line; `::` of MovieLens 1M is two separators, so it is replaced."""
    with reading(path, "ratings"):
        text = path.read_text(encoding="latin-1").replace(separator, " ")
        numbers = np.array(text.split(), dtype=np.int64).reshape(-1, 4)
    return triples(numbers[:, 0], numbers[:, 1], numbers[:, 2], (1, 5))


def read_ml_1m(path: Path) -> RatingTriples:
    """Read ``ratings.dat``: UserID::MovieID::Rating::Timestamp."""
    return _separated(path, "::")


def read_ml_100k(path: Path) -> RatingTriples:
    """Read ``u.data``: user, item, rating and time, separated by tabs."""
    return _separated(path, "\t")


def _parquet(path: Path) -> RatingTriples:
    import polars as pl

    with reading(path, "ratings", pl.exceptions.PolarsError):
        frame = pl.read_parquet(path, columns=["user", "item", "rating"])
    return triples(frame["user"].to_numpy(), frame["item"].to_numpy(), frame["rating"].to_numpy(), (1, 5))


def _has(users: int, items: int, ratings: int) -> Callable[[RatingTriples], str]:
    def check(loaded: RatingTriples) -> str:
        got = (*loaded.shape, len(loaded.ratings))
        return "" if got == (users, items, ratings) else f"{got[0]} users, {got[1]} items and {got[2]} ratings"

    return check


data_set(
    PaperDataSet(
        "movielens-1m",
        "MovieLens 1M, 1,000,209 ratings of 3706 movies by 6040 users",
        f"{MOVIELENS}1m/",
        (FileLayout(("ml-1m/ratings.dat",), read_ml_1m), FileLayout(("movielens1m/ratings.parquet",), _parquet)),
        check=_has(6040, 3706, 1_000_209),
    )
)
data_set(
    PaperDataSet(
        "movielens-100k",
        "MovieLens 100K, 100,000 ratings of 1682 movies by 943 users",
        f"{MOVIELENS}100k/",
        (FileLayout(("u.data",), read_ml_100k), FileLayout(("movielens100k/ratings.parquet",), _parquet)),
        check=_has(943, 1682, 100_000),
    )
)


NETFLIX = (11345, 5466, 5_360_000)
"""Users, movies and ratings of the paper's slice: users with 200 to 2500 ratings, movies with more than 100."""


def _netflix_like(_folder: DataFolder) -> RatingTriples:
    """A fifth of the slice in each direction, with its density of 8.65%."""
    made = make_ratings(NETFLIX[0] // 5, NETFLIX[1] // 5, ratings_per_user=int(0.0865 * NETFLIX[1] / 5), random_state=1)
    return triples(made.users, made.items, made.ratings, (1, 5))


data_set(
    PaperDataSet(
        "netflix-slice",
        "the Netflix Prize data, users with 200 to 2500 ratings and movies with more than 100",
        "https://www.kaggle.com/netflix-inc/netflix-prize-data",
        (),
        stand_in=_netflix_like,
        stand_in_title="the Netflix Prize data are withdrawn; synthetic ratings (`make_ratings`) of a fifth of its users and "
        "movies and its density of 8.65% are used instead.",
    )
)


def slice_of(all_ratings: RatingTriples, *, user_range: tuple[int, int], item_least: int) -> RatingTriples:
    """Return the ratings of users and items with enough of them, as the paper conditions its slices."""
    by_item = np.bincount(all_ratings.items)
    all_ratings = all_ratings.those(by_item[all_ratings.items] > item_least)
    by_user = np.bincount(all_ratings.users)
    return all_ratings.those(
        (by_user[all_ratings.users] > user_range[0]) & (by_user[all_ratings.users] < user_range[1])
    )


def read_anime(path: Path) -> RatingTriples:
    """Read ``rating.csv`` of the Anime Recommendations Database; -1 is watched without a rating, and is left out."""
    import polars as pl

    with reading(path, "ratings", pl.exceptions.PolarsError):
        frame = pl.read_csv(path, columns=["user_id", "anime_id", "rating"]).filter(pl.col("rating") > 0)
    rated = triples(frame["user_id"].to_numpy(), frame["anime_id"].to_numpy(), frame["rating"].to_numpy(), (1, 10))
    return slice_of(rated, user_range=(200, 2500), item_least=100)


def _anime_part(path: Path) -> RatingTriples:
    import polars as pl

    with reading(path, "ratings", pl.exceptions.PolarsError):
        frame = pl.read_parquet(path, columns=["user", "item", "rating"]).filter(pl.col("rating") > 0)
    rated = triples(frame["user"].to_numpy(), frame["item"].to_numpy(), frame["rating"].to_numpy(), (1, 10))
    # three tenths of every user's ratings: the limits of the slice in the same proportion
    return slice_of(rated, user_range=(60, 750), item_least=30)


data_set(
    PaperDataSet(
        "anime-slice",
        "the Anime Recommendations Database, users with 200 to 2500 ratings and anime with more than 100",
        "https://www.kaggle.com/CooperUnion/anime-recommendations-database",
        (
            FileLayout(("rating.csv",), read_anime),
            FileLayout(
                ("interactions/anime_kaggle_30pct.parquet",),
                _anime_part,
                "for all ratings of AnimeReco, three tenths of them; the limits of the slice are in the same proportion.",
            ),
        ),
        check=lambda found: "" if len(found.ratings) else "no user and anime with enough ratings",
    )
)
