"""The list of papers, and of their tables and figures; each paper's package registers its own."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tacit.errors import InvalidInputError, parameter

if TYPE_CHECKING:
    from tacit.reproduce.data import DataFolder
    from tacit.reproduce.outcome import ItemOutcome

Chosen = TypeVar("Chosen")


@dataclass(frozen=True)
class Paper:
    """A paper: its name in commands, its package, and how it is cited."""

    name: str
    package: str
    citation: str


PAPERS = (
    Paper(
        "saha-imtiaz",
        "saha_imtiaz",
        "S. Saha, H. Imtiaz. Privacy-preserving Non-negative Matrix Factorization with Outliers. 2022.",
    ),
    Paper(
        "mugdho-imtiaz",
        "mugdho_imtiaz",
        "S. S. Mugdho, H. Imtiaz. Privacy-Preserving Matrix Factorization for Recommendation Systems using Gaussian "
        "Mechanism. 2022.",
    ),
    Paper(
        "tsikhanovich",
        "tsikhanovich",
        "M. Tsikhanovich, M. Magdon-Ismail, M. Ishaq, V. Zikas. PD-ML-Lite: Private Distributed Machine Learning from "
        "Lightweight Cryptography. 2019.",
    ),
    Paper(
        "ermis",
        "ermis",
        "B. Ermis. Bayesian Approaches for Privacy Preserving Data Sharing. PhD thesis, Boğaziçi University, 2020.",
    ),
    Paper(
        "thapa",
        "thapa",
        "N. Thapa. Context Aware Privacy Preserving Clustering and Classification. PhD thesis, University of Kentucky, "
        "2013.",
    ),
    Paper(
        "claims",
        "claims",
        "The privacy claims of the five papers, tested.",
    ),
)


@dataclass(frozen=True)
class ItemRun:
    """The settings of one run, which a table or figure gets.

    Parameters
    ----------
    data : DataFolder
    quick : bool
        Small sizes and one repetition: all code runs, and the numbers mean nothing.
    repetitions : int
        How often a random measurement is repeated.
    seed : int
        Seed of splits, starts and samples. The noise of private methods has its own source.
    progress : callable
        To be called with the number of finished and of all parts.
    unfinished : Path, optional
        A folder for the parts of an item that is interrupted.
    """

    data: DataFolder
    quick: bool = False
    repetitions: int = 3
    seed: int = 0
    progress: Callable[[int, int], None] = field(default=lambda done, total: None)
    unfinished: Path | None = None

    @property
    def seeds(self) -> range:
        """One seed for each repetition."""
        return range(self.seed, self.seed + self.repetitions)

    def pick(self, full: Chosen, quick: Chosen) -> Chosen:
        """Return the value of a full or of a quick run."""
        return quick if self.quick else full

    def each(self, parts: Sequence[Chosen]) -> Iterable[Chosen]:
        """Yield the parts of the work, and report the progress."""
        for done, part in enumerate(parts):
            self.progress(done, len(parts))
            yield part
        self.progress(len(parts), len(parts))

    def part(self, name: str, compute: Callable[[], Any]) -> Any:
        """Return what `compute` returns, plain values for JSON, or read it if an interrupted run had computed it.

        For items of which a part takes minutes. `name` is that of a file.
        """
        path = None if self.unfinished is None else self.unfinished / f"{name}.json"
        if path is not None and path.exists():
            return json.loads(path.read_text(encoding="utf-8"))
        value = compute()
        if path is not None:
            write_whole(path, json.dumps(value))
        return value


@dataclass(frozen=True)
class Item:
    """One table or figure of a paper, or several figures that show the same for several data sets.

    Parameters
    ----------
    paper : str
        Name of the paper in commands.
    name : str
        "table-4", "figure-5", or "figures-1-3" for several.
    title : str
    page : int
        Page of the paper.
    needs : tuple of str
        Names of data sets, see `tacit.reproduce.data`.
    minutes : float
        About how long a full run takes on one core, with the default number of repetitions.
    run : callable
    code : tuple of str
        Dotted names of the classes, functions or modules that implement the algorithm.
    stand_in : str
        What stands in for data that cannot be had; empty if the data are those of the paper.
    covers : tuple of str
        The tables and figures that it covers; its own name if there is only one.
    """

    paper: str
    name: str
    title: str
    page: int
    needs: tuple[str, ...]
    minutes: float
    run: Callable[[ItemRun], ItemOutcome]
    code: tuple[str, ...]
    stand_in: str = ""
    covers: tuple[str, ...] = ()


def write_whole(path: Path, text: str) -> None:
    """Write a file in one step, so that an interruption leaves none or a whole one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    begun = path.with_suffix(".part")
    begun.write_text(text, encoding="utf-8")
    begun.replace(path)


_ITEMS: dict[tuple[str, str], Item] = {}


def item(
    *,
    paper: str,
    name: str,
    title: str,
    page: int,
    needs: tuple[str, ...] = (),
    minutes: float,
    code: tuple[str, ...],
    stand_in: str = "",
    covers: tuple[str, ...] = (),
) -> Callable[[Callable[[ItemRun], ItemOutcome]], Callable[[ItemRun], ItemOutcome]]:
    """Register a function as a table or figure; the parameters are those of `Item`."""

    def register(run: Callable[[ItemRun], ItemOutcome]) -> Callable[[ItemRun], ItemOutcome]:
        _ITEMS[paper, name] = Item(paper, name, title, page, needs, minutes, run, code, stand_in, covers or (name,))
        return run

    return register


def catalogue() -> list[Item]:
    """Return all tables and figures, paper by paper, in the order of their pages."""
    for paper in PAPERS:
        importlib.import_module(f"tacit.reproduce.{paper.package}")
    order = [paper.name for paper in PAPERS]
    return sorted(_ITEMS.values(), key=lambda entry: (order.index(entry.paper), entry.page, entry.name))


def paper_of(name: str) -> Paper:
    """Return the paper of this name."""
    for paper in PAPERS:
        if paper.name == name:
            return paper
    names = ", ".join(paper.name for paper in PAPERS)
    raise InvalidInputError(f"a paper among {names}", parameter(name), "`tacit reproduce` lists them.")


def chosen(paper: str | None, names: Sequence[str]) -> list[Item]:
    """Return the items of one paper, or of all, that have one of these names, or all if no names are given.

    A figure that is covered together with others is found by its own name too.
    """
    items = catalogue()
    if paper is not None:
        paper_of(paper)
        items = [entry for entry in items if entry.paper == paper]
    if not names:
        return items
    selected: list[Item] = []
    for name in names:
        matching = [entry for entry in items if name == entry.name or name in entry.covers]
        if not matching:
            known = ", ".join(entry.name for entry in items)
            raise InvalidInputError(
                f"a table or figure among {known}", parameter(name), "`tacit reproduce` lists them."
            )
        selected += [entry for entry in matching if entry not in selected]
    return selected
