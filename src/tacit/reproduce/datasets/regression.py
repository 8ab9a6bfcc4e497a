"""Tables for regression: Online News Popularity and the Million Songs (year prediction)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tacit.data.files import reading
from tacit.errors import Undisclosed
from tacit.reproduce.data import DataFolder, FileLayout, PaperDataSet, data_set


@dataclass(frozen=True, eq=False, repr=False)
class Regression(Undisclosed):
    """Features, target and the names of the features."""

    X: NDArray[np.float64]
    y: NDArray[np.float64]
    names: tuple[str, ...]


def read_news(path: Path) -> Regression:
    """Read ``OnlineNewsPopularity.csv``: names with spaces before them; url and timedelta are not predictive."""
    import polars as pl

    with reading(path, "table", pl.exceptions.PolarsError):
        frame = pl.read_csv(path)
        frame = frame.rename({name: name.strip() for name in frame.columns}).drop("url", "timedelta")
    return _regression(frame)


def _news_part(path: Path) -> Regression:
    import polars as pl

    with reading(path, "table", pl.exceptions.PolarsError):
        return _regression(pl.read_parquet(path))


def _regression(frame: object) -> Regression:
    import polars as pl

    assert isinstance(frame, pl.DataFrame)
    names = tuple(name for name in frame.columns if name != "shares")
    return Regression(
        frame.select(names).to_numpy().astype(np.float64), frame["shares"].to_numpy().astype(np.float64), names
    )


def read_songs(path: Path) -> Regression:
    """Read ``YearPredictionMSD.txt``: the year, then 90 features, separated by commas."""
    import polars as pl

    with reading(path, "table", pl.exceptions.PolarsError):
        table = pl.read_csv(path, has_header=False).to_numpy().astype(np.float64)
    return Regression(table[:, 1:], table[:, 0], tuple(f"timbre {place}" for place in range(table.shape[1] - 1)))


def _songs_like(_folder: DataFolder) -> Regression:
    """Ninety correlated features and a year that depends on a few of them and, mostly, on chance."""
    draw = np.random.default_rng(0)
    scales = 1.0 / np.arange(1, 91) ** 0.5
    turned = np.linalg.qr(draw.normal(size=(90, 90)))[0]
    hidden = draw.normal(size=(10_000, 90)) * scales
    years = 1998 + 11 * (0.5 * hidden[:, :12] @ draw.normal(size=12) / np.sqrt(12) + draw.normal(size=10_000) * 0.9)
    return Regression(hidden @ turned, np.round(years), tuple(f"timbre {place}" for place in range(90)))


def _size(rows: tuple[int, ...], columns: int) -> Callable[[Regression], str]:
    def check(loaded: Regression) -> str:
        got = loaded.X.shape
        return "" if got[0] in rows and got[1] == columns else f"{got[0]} rows of {got[1]} features"

    return check


data_set(
    PaperDataSet(
        "online-news",
        "Online News Popularity, 39,644 articles with 58 predictive features",
        "https://archive.ics.uci.edu/dataset/332/online+news+popularity",
        (
            FileLayout(("OnlineNewsPopularity.csv",), read_news),
            FileLayout(
                ("regression/online_news_popularity_7928x58.parquet",),
                _news_part,
                "for all 39,644 articles of Online News Popularity, 7928 of them.",
            ),
        ),
        check=_size((39_644, 7928), 58),
    )
)
data_set(
    PaperDataSet(
        "million-songs",
        "YearPredictionMSD, 515,345 songs with 90 features of timbre",
        "https://archive.ics.uci.edu/dataset/203/yearpredictionmsd",
        (FileLayout(("YearPredictionMSD.txt",), read_songs),),
        check=_size((515_345,), 90),
        stand_in=_songs_like,
        stand_in_title="for the Million Songs, 10,000 synthetic songs with 90 correlated features and a year that is mostly "
        "noise.",
    )
)
