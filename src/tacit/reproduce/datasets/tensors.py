"""Tensors with side tables: UCLAF, and the tags of MovieLens 10M, which stand in for Digg and Flickr."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.data.files import reading
from tacit.errors import Undisclosed
from tacit.reproduce.data import DataFolder, FileLayout, PaperDataSet, data_set


@dataclass(frozen=True, eq=False, repr=False)
class Uclaf(Undisclosed):
    """Counts of users doing activities at places (164 x 168 x 5), visits (164 x 168) and features of places (168 x 14)."""

    links: NDArray[np.float64]
    visits: NDArray[np.float64]
    features: NDArray[np.float64]
    activities: NDArray[np.float64]
    users: NDArray[np.float64]


def _uclaf_of(arrays: Mapping[str, ArrayLike]) -> Uclaf:
    names = ("UserLocAct", "UserLoc", "LocFea", "ActAct", "UserUser")
    return Uclaf(*(np.asarray(arrays[name], dtype=np.float64) for name in names))


def _uclaf_mat(path: Path) -> Uclaf:
    from scipy.io import loadmat

    with reading(path, "UCLAF", KeyError):
        return _uclaf_of(loadmat(path))


def _uclaf_npz(path: Path) -> Uclaf:
    with reading(path, "UCLAF", KeyError), np.load(path) as arrays:
        return _uclaf_of(arrays)


data_set(
    PaperDataSet(
        "uclaf",
        "UCLAF, a tensor of 164 users, 168 locations and 5 activities with two side matrices",
        "https://github.com/vwz/UCLAF",
        (FileLayout(("aaai10.uclaf.data.mat",), _uclaf_mat), FileLayout(("tensors/uclaf.npz",), _uclaf_npz)),
        check=lambda loaded: "" if loaded.links.shape == (164, 168, 5) else f"a tensor of shape {loaded.links.shape}",
    )
)


@dataclass(frozen=True, eq=False, repr=False)
class Tags(Undisclosed):
    """Who put which tag on which movie, and the movies' title words and genres, all as positions.

    Attributes
    ----------
    tags : ndarray of shape (n, 3)
        User, movie, tag; each triple once.
    topics : ndarray of shape (m, 3)
        Movie, word of its title, genre; each triple once.
    sizes : dict of str to int
        Numbers of users, movies, tags, words and genres.
    """

    tags: NDArray[np.int64]
    topics: NDArray[np.int64]
    sizes: dict[str, int]

    @property
    def votes(self) -> NDArray[np.int64]:
        """User and movie, each pair once."""
        return np.unique(self.tags[:, :2], axis=0)


def _tags_of(
    users: ArrayLike,
    movies: ArrayLike,
    tags: Iterable[str],
    listed: Iterable[int | str],
    titles: Iterable[str],
    genres: Iterable[str],
) -> Tags:
    """Number everything from zero; movies are those that have a tag."""
    user_names, user_places = np.unique(np.asarray(users), return_inverse=True)
    movie_names, movie_places = np.unique(np.asarray(movies), return_inverse=True)
    tag_names, tag_places = np.unique(np.array([tag.lower() for tag in tags]), return_inverse=True)
    place_of = {int(movie): place for place, movie in enumerate(movie_names.tolist())}
    described = []
    for movie, title, kinds in zip(listed, titles, genres, strict=True):
        if int(movie) in place_of:
            words = set(re.findall(r"[a-z]{3,}", title.lower())) or {"untitled"}
            described += [(place_of[int(movie)], word, kind) for word in words for kind in kinds.split("|")]
    word_names, word_places = np.unique([word for _, word, _ in described], return_inverse=True)
    genre_names, genre_places = np.unique([kind for _, _, kind in described], return_inverse=True)
    topics = np.stack([np.array([movie for movie, _, _ in described]), word_places, genre_places], axis=1)
    sizes = {
        "user": len(user_names),
        "movie": len(movie_names),
        "tag": len(tag_names),
        "word": len(word_names),
        "genre": len(genre_names),
    }
    stacked = np.unique(np.stack([user_places, movie_places, tag_places], axis=1), axis=0)
    return Tags(stacked.astype(np.int64), np.unique(topics, axis=0).astype(np.int64), sizes)


def _tags_dat(tags: Path, movies: Path) -> Tags:
    with reading(tags, "tags of MovieLens 10M"):
        lines = [line.split("::") for line in tags.read_text(encoding="utf-8").splitlines()]
        films = [line.split("::") for line in movies.read_text(encoding="utf-8").splitlines()]
        users, items, words = zip(*((int(user), int(movie), tag) for user, movie, tag, _ in lines), strict=True)
        return _tags_of(users, items, words, *zip(*((film, title, kinds) for film, title, kinds in films), strict=True))


def _tags_parquet(tags: Path, movies: Path) -> Tags:
    import polars as pl

    with reading(tags, "tags of MovieLens 10M", pl.exceptions.PolarsError):
        given, films = pl.read_parquet(tags), pl.read_parquet(movies)
    return _tags_of(
        given["user"],
        given["item"],
        given["tag"].to_list(),
        films["item"],
        films["title"].to_list(),
        films["genres"].to_list(),
    )


data_set(
    PaperDataSet(
        "movielens-10m-tags",
        "MovieLens 10M, 95,580 tags of 7601 movies by 4009 users",
        "https://grouplens.org/datasets/movielens/10m/",
        (
            FileLayout(("ml-10M100K/tags.dat", "ml-10M100K/movies.dat"), _tags_dat),
            FileLayout(("tensors/ml10m_tags.parquet", "tensors/ml10m_movies.parquet"), _tags_parquet),
        ),
        check=lambda loaded: (
            ""
            if (loaded.sizes["user"], loaded.sizes["movie"]) == (4009, 7601)
            else f"{loaded.sizes['user']} users and {loaded.sizes['movie']} movies"
        ),
    )
)


def _same_tags(folder: DataFolder) -> Tags:
    tags: Tags = folder["movielens-10m-tags"]
    return tags


for _name, _title, _roles in (
    ("digg", "Digg, January 2009", "user x story x comment, with story x keyword x topic"),
    ("flickr", "the author's crawl of Flickr", "user x image x tag, with features of the images"),
):
    data_set(
        PaperDataSet(
            _name,
            _title,
            "nowhere: the authors did not publish it",
            (),
            stand_in=_same_tags,
            stand_in_title=f"{_title} cannot be had; the tags of MovieLens 10M stand in: user x movie x tag, with movie x title "
            f"word x genre, for {_roles}.",
            stand_in_needs=("movielens-10m-tags",),
        )
    )
