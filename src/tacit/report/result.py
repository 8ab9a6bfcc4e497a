"""What the functions behind the commands return: values for machines, a page for people, and a folder of files."""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tacit.privacy.guarantee import Guarantee
from tacit.report.folder import MODEL, PAGE, VALUES, ResultFolder
from tacit.report.page import Report


def for_the_holder(released: str | None = None) -> str:
    """Return the notice of pages and values that were computed without protection; `released` may be passed on instead."""
    further = (
        f"Pass on {released} instead." if released else "Nothing of this result has a guarantee: do not pass it on."
    )
    return f"For the holder of the data only: what is shown here was computed from the data without noise. {further}"


class Shown:
    """Base of all results: a notebook shows them, and they can be written to a folder.

    Attributes
    ----------
    summary : dict
        Everything that was found, as plain values: what a command writes to result.json and prints with ``--json``.
    report : Report
        The page. It is for the holder of the data, unless it says otherwise.
    """

    summary: Any
    report: Any

    def write(self, folder: str | os.PathLike[str]) -> None:
        """Write report.html and result.json into a folder, which is made if it does not exist."""
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        _replace(target / VALUES, json.dumps(self.summary, indent=2))
        _replace(target / PAGE, self.report.html())

    def _repr_html_(self) -> str:
        shown: str = self.report._repr_html_()
        return shown


@dataclass(frozen=True, eq=False)
class Result(Shown):
    """A result whose values and page are there from the start; see `Shown` for the attributes."""

    summary: dict[str, Any]
    report: Report


class FitResult(Shown, ABC):
    """A fitted model and what was measured with it. A subclass says what the values are and how they are drawn.

    Values and page are made when they are first asked for, so that a model that was paid for can be saved before them.
    """

    title: str
    model_name: str
    model: Any

    @abstractmethod
    def values(self) -> dict[str, Any]:
        """Return what was found as plain values."""

    @abstractmethod
    def lines(self) -> list[str]:
        """Return the most important values as short lines of text."""

    @abstractmethod
    def draw(self, report: Report) -> None:
        """Add tables and figures to the page."""

    @property
    def guarantee(self) -> Guarantee:
        """What the model guarantees."""
        guarantee: Guarantee = self.model.guarantee_
        return guarantee

    @property
    def notice(self) -> str:
        """Who the values and the page are for."""
        return for_the_holder(f"the folder {MODEL}/" if self.guarantee.holds else None)

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The values, with the notice and the guarantee."""
        return {"notice": self.notice, "guarantee": self.guarantee.to_dict(), **self.values()}

    @cached_property
    def report(self) -> Report:
        """The page, with the notice and the guarantee."""
        report = Report(self.title, self.notice)
        report.guarantee(self.guarantee)
        self.draw(report)
        return report

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write model/, which may be passed on if the guarantee holds, and result.json and report.html, for the holder.

        Parameters
        ----------
        folder : path-like
        overwrite : bool, default=False
            Replace an earlier result in the folder; otherwise that is an error.
        """
        with ResultFolder(folder, overwrite=overwrite):
            self.write(folder)

    def write(self, folder: str | os.PathLike[str]) -> None:
        """Write all files into a folder; the model first, because it may have cost a budget."""
        (Path(folder) / MODEL).mkdir(parents=True, exist_ok=True)
        self.model.save(Path(folder) / MODEL / f"{self.model_name}.tacit")
        super().write(folder)


def _replace(path: Path, text: str) -> None:
    """Write a file; a crash leaves the old one or the new one, never a part of one."""
    partial = path.with_name(f"{path.name}.partial")
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, path)
