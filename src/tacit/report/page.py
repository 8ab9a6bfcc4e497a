"""A report: one self-contained HTML file with text, tables and figures, which needs no network."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import escape
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.estimators.verdict import Concern
from tacit.privacy.guarantee import Guarantee

if TYPE_CHECKING:
    from matplotlib.figure import Figure


IN_WORDS = {
    "count": "number of units",
    "total": "sum of the rows",
    "spread": "spread of the rows",
    "shift": "shift of the mean",
    "weight": "sum of the weights",
    "second": "second moments",
    "cells": "frequencies of all values of single columns",
    "pairs": "frequencies of pairs of values",
    "words": "words with their numbers of texts",
    "items": "sums per item",
    "gradient": "gradient of the loss",
    "triples": "frequencies of triples of values",
    "targets": "sums of what is predicted",
    "gains": "what the network gains over its baseline",
    "entities": "number and mean of the units",
    "rows": "sums per entity of the other factors",
    "counts": "number of cells per entity",
    "sums": "sums of the cells per entity",
    "own": "factors of the units themselves",
    "moments": "sums of products with the factors",
    "moment": "sums of products with what is predicted",
    "gram": "second moments of the factors",
    "activity": "number of units with data, and their errors",
    "scores": "sums of the scores",
    "A": "sums of products with the weights",
    "B": "second moments of the weights",
    "WX": "sums of products with the weights",
    "WW": "second moments of the weights",
}
"""Statistics by names for readers who do not know the program."""
FACTOR = "factor:"
"""What the name of a factor's gradient begins with."""
OF_UNITS = {
    "user": {"count": "number of users", "users": "number of users", "pairs": "sums for all pairs of items"},
    "cell": {"cells": "number and sum of the cells"},
}
"""The same where the unit is a user or a cell."""
HOLDER_ONLY, PASSED_ON = "for the holder only", "may be passed on"
"""Who a section is for; in parentheses at the end of a heading they become a coloured mark."""


@dataclass
class Occasion:
    """The run that a page is written in: the name of the data, warnings that were given, and how a release is kept."""

    data: str = ""
    warnings: list[str] = field(default_factory=list)
    keep: Callable[..., None] | None = None


occasion: ContextVar[Occasion] = ContextVar("occasion", default=Occasion())  # noqa: B039  # the default is not changed


class Report:
    """Collect sections, then write them.

    Parameters
    ----------
    title : str
    summary : str
        One or two sentences under the title.

    Examples
    --------
    >>> from tacit.report import Report
    >>> report = Report("Ratings", "What was fitted, and what it cost.")
    >>> report.table("Result", ["measure", "value"], [["RMSE", "0.93"]])
    >>> "RMSE" in report.html()
    True
    """

    def __init__(self, title: str, summary: str = "") -> None:
        self.title = title
        self.summary = summary
        self.facts: dict[str, str] = {}
        """What the header says beside the name of the data, the date and the version: sizes and settings."""
        self._sections: list[dict[str, Any]] = []

    def text(self, heading: str, *paragraphs: str) -> None:
        """Add a section of plain text."""
        self._sections.append({"heading": heading, "kind": "text", "paragraphs": paragraphs})

    def concerns(self, concerns: Iterable[Concern]) -> None:
        """Add the concerns, if there are any."""
        listed = list(concerns)
        if listed:
            self._sections.append({"heading": "Before you use this", "kind": "concerns", "concerns": listed})

    def table(self, heading: str, columns: Sequence[str], rows: Iterable[Sequence[str]], note: str = "") -> None:
        """Add a table; cells are text, and are escaped."""
        content = [list(row) for row in rows]
        self._sections.append({"heading": heading, "kind": "table", "columns": columns, "rows": content, "note": note})

    def figure(self, heading: str, figure: Figure, caption: str) -> None:
        """Add a matplotlib figure as inline SVG, with a caption."""
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None, "Creator": "tacit"})
        svg = buffer.getvalue()
        self._sections.append(
            {"heading": heading, "kind": "figure", "svg": svg[svg.index("<svg") :], "caption": caption}
        )

    def guarantee(self, guarantee: Guarantee) -> None:
        """Add the guarantee: its sentence, and the releases from which it was computed."""
        rows = [
            [_in_words(release.name, guarantee.unit), str(release.count), release.describe()]
            for release in guarantee.releases
        ]
        self.text(f"Guarantee ({PASSED_ON})" if guarantee.holds else "No guarantee", str(guarantee))
        if rows:
            self.table(f"What was released ({PASSED_ON})", ["statistic", "times", "how"], rows)

    def html(self) -> str:
        """Return the whole page."""
        from jinja2 import Environment

        template = files("tacit.report").joinpath("page.html").read_text(encoding="utf-8")
        page = Environment(autoescape=True).from_string(template)
        run = occasion.get()
        facts = {"data": run.data} if run.data else {}
        facts |= {"written": f"{datetime.now(UTC):%Y-%m-%d}", **self.facts, "tacit": version("tacit")}
        notice, separator, further = self.summary.partition(". ")
        for_the_holder = "the holder" in self.summary
        return page.render(
            title=self.title,
            notice=notice + separator.rstrip() if for_the_holder else "",
            summary=further if for_the_holder else self.summary,
            facts=facts,
            warnings=run.warnings,
            sections=[_marked(section, for_the_holder) for section in self._sections],
        )

    def _repr_html_(self) -> str:
        """Return the page in a frame for a notebook, so that its style does not affect the notebook."""
        page = escape(self.html(), quote=True)
        return f'<iframe srcdoc="{page}" width="100%" height="700" style="border: 0"></iframe>'

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the page to `path`."""
        Path(path).write_text(self.html(), encoding="utf-8")


def _in_words(statistic: str, unit: str) -> str:
    """Return what a released statistic is: programs name the arrays of a sum, as in count+total."""
    names = IN_WORDS | OF_UNITS.get(unit, {})
    parts = statistic.split("+")
    of_factors = {part: f"gradient of {part.removeprefix(FACTOR)}" for part in parts if part.startswith(FACTOR)}
    return ", ".join((names | of_factors).get(part, part.replace("_", " ")) for part in parts) if statistic else "-"


def _marked(section: dict[str, Any], for_the_holder: bool) -> dict[str, Any]:
    """Return a section with who it is for: as its heading says, or else, in a page for the holder, for the holder only."""
    heading = section["heading"]
    for mark, style in ((HOLDER_ONLY, "holder"), (PASSED_ON, "passed")):
        if heading.endswith(f" ({mark})"):
            return {**section, "heading": heading.removesuffix(f" ({mark})"), "mark": mark, "style": style}
    if for_the_holder and section["kind"] in ("table", "figure"):
        return {**section, "mark": HOLDER_ONLY, "style": "holder"}
    return section
