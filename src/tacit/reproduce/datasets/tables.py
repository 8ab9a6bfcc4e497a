"""Tables of the UCI repository, in their official files: attributes and a class, as data frames with the class in column y."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl

from tacit.data.files import reading
from tacit.reproduce.data import FileLayout, PaperDataSet, data_set

UCI = "https://archive.ics.uci.edu/dataset/"


def _official(path: Path, separator: str, columns: int) -> pl.DataFrame:
    """Read a file without a header, in which the class is last; runs of spaces count as one separator."""
    with reading(path, "the table", pl.exceptions.PolarsError):
        lines = [
            line.split(None if separator == " " else separator)
            for line in path.read_text(encoding="utf-8").splitlines()
        ]
        cells = [line for line in lines if len(line) >= columns]
        names = [f"x{place}" for place in range(columns - 1)]
        values = {name: [float(line[place - columns]) for line in cells] for place, name in enumerate(names)}
    return pl.DataFrame({**values, "y": [line[-1].strip() for line in cells]})


def _with_header(path: Path) -> pl.DataFrame:
    with reading(path, "the table", pl.exceptions.PolarsError):
        return pl.read_csv(path)


def _wines(red: Path, white: Path) -> pl.DataFrame:
    with reading(red, "the table", pl.exceptions.PolarsError):
        both = [pl.read_csv(path, separator=";", infer_schema_length=None) for path in (red, white)]
    reds = [frame.with_columns(pl.lit(place).alias("is_red")) for frame, place in zip(both, (1, 0), strict=True)]
    return pl.concat(reds, how="vertical_relaxed")


def _has(rows: int, columns: int) -> Callable[[pl.DataFrame], str]:
    def check(frame: pl.DataFrame) -> str:
        return "" if frame.shape == (rows, columns) else f"{frame.height} rows and {frame.width} columns"

    return check


def _register(name: str, title: str, number: int, official: str, separator: str, rows: int, columns: int) -> None:
    """Register a table with `columns` attributes and a class; Yeast's first column, a name, is left out."""
    data_set(
        PaperDataSet(
            name,
            f"{title}, {rows} rows of {columns} attributes",
            f"{UCI}{number}",
            (
                FileLayout((official,), lambda path: _official(path, separator, columns + 1)),
                FileLayout((f"uci/{name}.csv.gz",), _with_header),
            ),
            check=_has(rows, columns + 1),
        )
    )


_register("iris", "Iris", 53, "iris.data", ",", 150, 4)
_register("yeast", "Yeast", 110, "yeast.data", " ", 1484, 8)
_register("sonar", "Connectionist Bench (Sonar)", 151, "sonar.all-data", ",", 208, 60)
_register("spambase", "Spambase", 94, "spambase.data", ",", 4601, 57)
_register("magic04", "MAGIC Gamma Telescope", 159, "magic04.data", ",", 19020, 10)
data_set(
    PaperDataSet(
        "winequality",
        "Wine Quality, 1599 red and 4898 white wines of 11 attributes, with quality and is_red",
        f"{UCI}186",
        (
            FileLayout(("winequality-red.csv", "winequality-white.csv"), _wines),
            FileLayout(("uci/winequality.csv.gz",), _with_header),
        ),
        check=_has(6497, 13),
    )
)
