"""The data sets of the papers: official files in their official formats, found by name in one folder.

A data set has one or more `FileLayout`s: the names of its files, and a function that reads them. The names are looked for in the
folder and its subfolders, so an archive that was unpacked anywhere below it is found. After reading, the shape is compared with
the published one. Data sets that cannot be had have a stand-in, which is stated with every result that uses it.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tacit.errors import InvalidInputError, Words, words

MODULES = ("ratings", "texts", "faces", "tables", "digits", "tensors", "regression")
"""The modules of `tacit.reproduce.datasets`, which register the data sets."""


class MissingData(InvalidInputError):  # noqa: N818
    """A data set that is not in the folder."""


@dataclass(frozen=True)
class FileLayout:
    """Files of a data set: `files` are their names, with folders if a name alone would be ambiguous; `read` gets their paths.

    A name that ends in "/" is a folder. `part` says, for files with a part of the data set, which one.
    """

    files: tuple[str, ...]
    read: Callable[..., Any]
    part: str = ""


@dataclass(frozen=True)
class PaperDataSet:
    """A data set of a paper.

    Parameters
    ----------
    name : str
    title : str
    published : str
        Where it is published.
    layouts : tuple of Layout
        In the order of preference.
    check : callable
        Gets what was read, and returns what is wrong with its size, or an empty text.
    stand_in : callable, optional
        Makes what is used if there are no files.
    stand_in_title : str
        What the stand-in is, in one sentence.
    """

    name: str
    title: str
    published: str
    layouts: tuple[FileLayout, ...]
    check: Callable[[Any], str] = field(default=lambda read: "")
    stand_in: Callable[[DataFolder], Any] | None = None
    stand_in_title: str = ""
    stand_in_needs: tuple[str, ...] = ()


_SETS: dict[str, PaperDataSet] = {}


def data_set(described: PaperDataSet) -> PaperDataSet:
    """Register a data set."""
    _SETS[described.name] = described
    return described


def data_sets() -> dict[str, PaperDataSet]:
    """Return all data sets by name."""
    from importlib.util import find_spec

    for module in MODULES:
        if find_spec(f"tacit.reproduce.datasets.{module}"):
            importlib.import_module(f"tacit.reproduce.datasets.{module}")
    return dict(_SETS)


class DataFolder:
    """The folder in which data sets are looked for.

    Parameters
    ----------
    path : str or Path, optional
        By default the environment variable TACIT_DATA; without it no data set is found, and only stand-ins are used.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        given = path if path is not None else os.environ.get("TACIT_DATA")
        if given is not None and not Path(given).is_dir():
            raise InvalidInputError("a folder with data sets", words("a path that is no folder"), "Check --data.")
        self.path = None if given is None else Path(given)
        self._read: dict[str, Any] = {}
        self._listed: dict[str, list[Path]] | None = None

    def state(self, name: str) -> str:
        """Return "here", "stand-in" or "missing", without reading."""
        described = self._described(name)
        if self._found(described):
            return "here"
        possible = described.stand_in is not None and all(
            self.state(other) != "missing" for other in described.stand_in_needs
        )
        return "stand-in" if possible else "missing"

    def note(self, name: str) -> str:
        """Return what stands in for a data set that is not there as a whole; empty if it is there."""
        described = self._described(name)
        if found := self._found(described):
            return found[0].part
        return described.stand_in_title if self.state(name) == "stand-in" else ""

    def __getitem__(self, name: str) -> Any:
        """Read a data set, or make its stand-in; each once."""
        if name not in self._read:
            self._read[name] = self._load(self._described(name))
        return self._read[name]

    def missing(self, name: str) -> Words:
        """Return the files of a data set, and where it is published, for a message."""
        described = self._described(name)
        wanted = " or ".join(" and ".join(layout.files) for layout in described.layouts)
        return words(f"{described.title} ({wanted}), published at {described.published}")

    def _load(self, described: PaperDataSet) -> Any:
        located = self._found(described)
        if located:
            layout, paths = located
            read = layout.read(*paths)
            if wrong := described.check(read):
                raise InvalidInputError(
                    f"{described.title} to be complete",
                    words(wrong),
                    f"Get the official files again: {described.published}.",
                )
            return read
        if described.stand_in is not None and self.state(described.name) == "stand-in":
            return described.stand_in(self)
        where = "in the folder of --data or TACIT_DATA" if self.path else "; give its folder by --data or TACIT_DATA"
        raise MissingData(
            f"the data set {described.name} {where}",
            words("a folder without it" if self.path else "no folder"),
            f"It is {self.missing(described.name)}.",
        )

    def _found(self, described: PaperDataSet) -> tuple[FileLayout, list[Path]] | None:
        for layout in described.layouts:
            paths = [self._find(name) for name in layout.files]
            if paths and all(paths):
                return layout, [path for path in paths if path is not None]
        return None

    def _find(self, name: str) -> Path | None:
        parts = tuple(part.lower() for part in Path(name).parts)
        for path in self._names().get(parts[-1], []):
            if tuple(part.lower() for part in path.parts[-len(parts) :]) == parts and path.is_dir() == name.endswith(
                "/"
            ):
                return path
        return None

    def _names(self) -> dict[str, list[Path]]:
        """Return all paths below the folder by their last part in lower case, the shallowest first."""
        if self._listed is None:
            self._listed = {}
            below = sorted(self.path.rglob("*"), key=lambda path: (len(path.parts), path)) if self.path else []
            for path in below:
                self._listed.setdefault(path.name.lower(), []).append(path)
        return self._listed

    @staticmethod
    def _described(name: str) -> PaperDataSet:
        return data_sets()[name]
