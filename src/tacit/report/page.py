"""A report: one self-contained HTML file of text, tables and figures, readable anywhere and offline."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.privacy.guarantee import Guarantee

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
        self._sections: list[dict[str, Any]] = []

    def text(self, heading: str, *paragraphs: str) -> None:
        """Add a section of plain text."""
        self._sections.append({"heading": heading, "kind": "text", "paragraphs": paragraphs})

    def table(self, heading: str, columns: Sequence[str], rows: Iterable[Sequence[str]], note: str = "") -> None:
        """Add a table; cells are text, escaped."""
        content = [list(row) for row in rows]
        self._sections.append({"heading": heading, "kind": "table", "columns": columns, "rows": content, "note": note})

    def figure(self, heading: str, figure: Figure, caption: str) -> None:
        """Add a matplotlib figure as inline SVG; `caption` says what to see in it."""
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None, "Creator": "tacit"})
        svg = buffer.getvalue()
        self._sections.append(
            {"heading": heading, "kind": "figure", "svg": svg[svg.index("<svg") :], "caption": caption}
        )

    def guarantee(self, guarantee: Guarantee) -> None:
        """Add the guarantee: its sentence, and the releases it was computed from."""
        rows = [[release.name or "-", str(release.count), release.describe()] for release in guarantee.releases]
        self._sections.append({"heading": "Guarantee", "kind": "text", "paragraphs": [str(guarantee)]})
        if rows:
            self.table("What was released", ["statistic", "times", "how"], rows)

    def html(self) -> str:
        """Return the whole page."""
        from jinja2 import Environment

        template = files("tacit.report").joinpath("page.html").read_text(encoding="utf-8")
        page = Environment(autoescape=True).from_string(template)
        return page.render(title=self.title, summary=self.summary, sections=self._sections)

    def _repr_html_(self) -> str:
        """Show the page in a notebook, in a frame of its own, so that its style does not reach the notebook."""
        page = escape(self.html(), quote=True)
        return f'<iframe srcdoc="{page}" width="100%" height="700" style="border: 0"></iframe>'

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the page to `path`."""
        Path(path).write_text(self.html(), encoding="utf-8")
