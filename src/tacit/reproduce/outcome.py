"""What a table or a figure of a paper becomes here: numbers beside the paper's, curves, pictures and lists of words.

All of it can be written as JSON and read back.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.errors import Undisclosed

Better = Literal["lower", "higher"]
NO_NUMBER = "The paper prints no number here."
Verdict = Literal["better", "worse", "equal", "not comparable"]
ABOUT_CLAIM: dict[Verdict, str] = {
    "better": "holds",
    "equal": "holds",
    "worse": "does not hold",
    "not comparable": "-",
}


@dataclass(frozen=True)
class Row:
    """One number of the paper beside ours.

    Parameters
    ----------
    label : tuple of str
        The cells that say which number it is, one for each column of the table.
    paper : float or None
        What the paper prints; None if it prints no number here.
    ours : tuple of float
        One value for each repetition; NaN is left out.
    better : {"lower", "higher"} or None
        Which direction is better; None if the two cannot be compared.
    remark : str
        One sentence: why ours is better, worse, equal or not comparable. It may only be empty if the paper has no number.
    decimals : int
        Digits after the point, of both numbers. A difference below half of the last digit is none.
    """

    label: tuple[str, ...]
    paper: float | None
    ours: tuple[float, ...]
    better: Better | None = None
    remark: str = ""
    decimals: int = 4

    def __post_init__(self) -> None:
        if isinstance(self.label, str):
            object.__setattr__(self, "label", (self.label,))
        object.__setattr__(self, "ours", tuple(float(value) for value in self.ours if not math.isnan(value)))
        if self.paper is None and not self.remark:
            object.__setattr__(self, "remark", NO_NUMBER)
        if not self.remark:
            raise ValueError(f"row {self.label}: needs a sentence that explains the comparison")

    @property
    def mean(self) -> float:
        """The mean of the repetitions."""
        return float(np.mean(self.ours)) if self.ours else math.nan

    @property
    def spread(self) -> float:
        """The standard deviation of the repetitions; NaN for fewer than two."""
        return float(np.std(self.ours, ddof=1)) if len(self.ours) > 1 else math.nan

    @property
    def verdict(self) -> Verdict:
        """Whether ours is better. It is equal within two standard errors, or within the paper's rounding."""
        if self.paper is None or self.better is None or not self.ours:
            return "not comparable"
        difference = self.mean - self.paper
        error = 0.0 if math.isnan(self.spread) else 2 * self.spread / math.sqrt(len(self.ours))
        if abs(difference) <= max(error, 0.5 * 10.0**-self.decimals):
            return "equal"
        return "better" if (difference < 0) == (self.better == "lower") else "worse"

    def numbers(self) -> list[str]:
        """Return the paper's number, ours with its spread, and how often ours was measured, as text."""
        paper = "-" if self.paper is None else f"{self.paper:.{self.decimals}f}"
        ours = "-" if not self.ours else f"{self.mean:.{self.decimals}f}"
        if len(self.ours) > 1:
            ours += f" ± {self.spread:.{self.decimals}f}"
        return [paper, ours, str(len(self.ours))]


@dataclass(frozen=True)
class SideBySide:
    """A table of the paper, or the evidence about a claim.

    Parameters
    ----------
    caption : str
    columns : tuple of str
        Headings of the label cells of the rows.
    rows : tuple of Row
    heads : tuple of str
        Headings of the paper's number and of ours.
    of_claim : bool
        Say whether the claim holds, instead of whether ours is better: it does not hold where ours is worse than claimed.
    """

    caption: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    heads: tuple[str, str] = ("paper", "ours")
    of_claim: bool = False

    def __post_init__(self) -> None:
        if not all(len(row.label) == len(self.columns) for row in self.rows):
            raise ValueError(f"table {self.caption!r}: every row needs one label per column")
        if not any(row.ours for row in self.rows):
            raise ValueError(f"table {self.caption!r}: no row has a number of ours")

    def headings(self) -> list[str]:
        """Return the headings of `cells`."""
        return [*self.columns, *self.heads, "n", "the claim" if self.of_claim else f"{self.heads[1]} is", "remark"]

    def cells(self) -> list[list[str]]:
        """Return the rows as text: label, numbers, verdict and remark."""
        return [
            [*row.label, *row.numbers(), ABOUT_CLAIM[row.verdict] if self.of_claim else row.verdict, row.remark]
            for row in self.rows
        ]


def same_order(rows: Sequence[Row]) -> tuple[str, ...]:
    """Say how far ours has the order of the paper's numbers, for tables of which only the order can be compared.

    Returns nothing for fewer than four numbers, or if all numbers of one side are the same.
    """
    from scipy.stats import spearmanr

    compared = [row for row in rows if row.paper is not None and row.ours]
    paper, ours = np.array([row.paper for row in compared]), np.array([row.mean for row in compared])
    if len(compared) < 4 or np.ptp(paper) == 0 or np.ptp(ours) == 0:
        return ()
    value = float(spearmanr(paper, ours).statistic)
    return (
        f"Rank correlation of ours with the paper's, over {len(compared)} numbers: {value:.2f}; 1 is the same order.",
    )


@dataclass(frozen=True)
class Curve:
    """One curve: `spread` is the standard deviation of each point, or empty; `right` puts it on the axis on the right."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    spread: tuple[float, ...] = ()
    right: bool = False
    dashed: bool = False

    def __post_init__(self) -> None:
        if not len(self.x) == len(self.y) > 0:
            raise ValueError(f"curve {self.label!r}: needs points, and as many x as y")
        if not all(map(math.isfinite, self.y)):
            raise ValueError(f"curve {self.label!r}: not all values are finite")

    @classmethod
    def of(
        cls, label: str, x: Sequence[float], repetitions: ArrayLike, *, right: bool = False, dashed: bool = False
    ) -> Curve:
        """Return the curve of the means of an array of shape (repetitions, points)."""
        values = np.atleast_2d(np.asarray(repetitions, dtype=np.float64))
        spread = tuple(values.std(axis=0, ddof=1).tolist()) if len(values) > 1 else ()
        return cls(label, tuple(map(float, x)), tuple(values.mean(axis=0).tolist()), spread, right, dashed)


@dataclass(frozen=True)
class Figure:
    """A figure of the paper.

    `ticks` are names of the places on the x axis; `bars` draws bars, and `points` single points, instead of lines.
    """

    caption: str
    x_label: str
    y_label: str
    curves: tuple[Curve, ...]
    log_x: bool = False
    log_y: bool = False
    right_label: str = ""
    ticks: tuple[str, ...] = ()
    bars: bool = False
    points: bool = False

    def __post_init__(self) -> None:
        if not self.curves:
            raise ValueError(f"figure {self.caption!r}: no curves")
        places = set(range(len(self.ticks)))
        if self.ticks and not all(set(curve.x) <= places for curve in self.curves):
            raise ValueError(f"figure {self.caption!r}: with names on the x axis, x is a place among them, from 0")


@dataclass(frozen=True, eq=False, repr=False)
class PictureRow(Undisclosed):
    """Pictures in one row, as an array of shape (pictures, height, width); only their shades are kept, 256 of them."""

    label: str
    images: NDArray[np.uint8]

    @classmethod
    def of(cls, label: str, rows: ArrayLike, shape: tuple[int, int]) -> PictureRow:
        """Return the rows of a matrix as pictures, each scaled from its least to its largest value."""
        pixels = np.asarray(rows, dtype=np.float64).reshape(-1, *shape)
        low, high = pixels.min(axis=(1, 2), keepdims=True), pixels.max(axis=(1, 2), keepdims=True)
        scaled = (pixels - low) / np.maximum(high - low, 1e-300)
        return cls(label, np.round(255 * scaled).astype(np.uint8))


@dataclass(frozen=True)
class PictureGrid:
    """A figure of pictures, row by row."""

    caption: str
    rows: tuple[PictureRow, ...]


@dataclass(frozen=True)
class WordList:
    """The most important words of one topic, or any other named list."""

    label: str
    words: tuple[str, ...]


@dataclass(frozen=True)
class WordLists:
    """A figure of lists of words."""

    caption: str
    lists: tuple[WordList, ...]


@dataclass(frozen=True)
class ItemOutcome:
    """All that a table or a figure became; `verdicts` are sentences about the whole."""

    tables: tuple[SideBySide, ...] = ()
    figures: tuple[Figure, ...] = ()
    pictures: tuple[PictureGrid, ...] = ()
    words: tuple[WordLists, ...] = ()
    verdicts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        captions = [figure.caption for figure in self.figures]
        if len(set(captions)) < len(captions):
            raise ValueError("two figures have the same caption")

    def counts(self) -> dict[str, int]:
        """Return how many rows have which verdict."""
        counts: dict[str, int] = {}
        for table in self.tables:
            for row in table.rows:
                counts[row.verdict] = counts.get(row.verdict, 0) + 1
        return counts

    def to_json(self) -> dict[str, Any]:
        """Return plain values that `from_json` reads."""
        values = {name.name: [_plain(part) for part in getattr(self, name.name)] for name in fields(self)}
        for written, table in zip(values["tables"], self.tables, strict=True):
            for line, row in zip(written["rows"], table.rows, strict=True):
                line.update(mean=_finite(row.mean), spread=_finite(row.spread), n=len(row.ours), verdict=row.verdict)
        return values

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> ItemOutcome:
        """Read what `to_json` returned."""
        return cls(
            tuple(
                SideBySide(**{**_tuples(table), "rows": tuple(map(_row, table["rows"]))}) for table in values["tables"]
            ),
            tuple(
                Figure(**{**_tuples(figure), "curves": tuple(Curve(**_tuples(curve)) for curve in figure["curves"])})
                for figure in values["figures"]
            ),
            tuple(
                PictureGrid(grid["caption"], tuple(_picture_row(row) for row in grid["rows"]))
                for grid in values["pictures"]
            ),
            tuple(
                WordLists(shown["caption"], tuple(WordList(**_tuples(part)) for part in shown["lists"]))
                for shown in values["words"]
            ),
            tuple(values["verdicts"]),
        )


def _plain(part: Any) -> Any:
    if isinstance(part, PictureGrid):
        return {"caption": part.caption, "rows": [_plain(row) for row in part.rows]}
    if isinstance(part, PictureRow):
        pixels = base64.b64encode(np.ascontiguousarray(part.images).tobytes()).decode("ascii")
        return {"label": part.label, "shape": list(part.images.shape), "pixels": pixels}
    return part if isinstance(part, str) else asdict(part)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _tuples(values: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


def _row(values: dict[str, Any]) -> Row:
    known = {field.name for field in fields(Row)}
    return Row(**_tuples({name: value for name, value in values.items() if name in known}))


def _picture_row(values: dict[str, Any]) -> PictureRow:
    pixels = np.frombuffer(base64.b64decode(values["pixels"]), dtype=np.uint8)
    return PictureRow(values["label"], pixels.reshape(values["shape"]))
