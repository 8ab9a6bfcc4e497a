"""The results of the functions behind the commands: values for programs, a page for people, and a folder of files."""

from __future__ import annotations

import os
import tempfile
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, wraps
from pathlib import Path
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

from tacit.errors import ConcernWarning, InvalidInputError, PrivacyWarning, parameter, words
from tacit.estimators.saved import SavedModel
from tacit.estimators.verdict import Concern, about_guarantee
from tacit.factor.coupled.local.noise import NoisyCounts
from tacit.json_text import as_json
from tacit.privacy.guarantee import Guarantee
from tacit.privacy.rounding import rounded_up
from tacit.report.page import Occasion, Report, occasion

Parameters = ParamSpec("Parameters")
Made = TypeVar("Made")


def concerns_in_the_result(function: Callable[Parameters, Made]) -> Callable[Parameters, Made]:
    """Make a function that returns a result give no warnings of concerns: the result has them, and shows them."""

    @wraps(function)
    def without_warnings(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Made:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConcernWarning)
            return function(*args, **kwargs)

    return without_warnings


def keep_release(release: object, *named: object) -> None:
    """Write what a private fit has released as soon as it is there, if a command runs.

    What was paid for is then not lost if measuring takes long and is interrupted, or fails.
    """
    keep = occasion.get().keep
    if keep is not None:
        keep(release, *named)


def write_terms(folder: str | os.PathLike[str], terms: Sequence[str] | None) -> None:
    """Write the terms of a model of texts beside it, which are public or paid for: without them the model cannot be applied."""
    path = Path(folder) / MODEL / TERMS
    path.unlink(missing_ok=True)  # those of an earlier fit
    if terms is not None:
        path.write_text("".join(f"{term}\n" for term in terms), encoding="utf-8")


def for_the_holder(released: str | None = None) -> str:
    """Return the notice of pages and values that were computed without noise; `released` may be passed on instead."""
    further = (
        f"Pass on {released} instead." if released else "Nothing of this result has a guarantee: do not pass it on."
    )
    return f"For the holder of the data only: what is shown here was computed from the data without noise. {further}"


class Shown:
    """Base of all results: a notebook shows them, and they can be written to a folder.

    `repr` holds no values, so that it can be pasted into a message or a log. The page, which a notebook shows, does.

    Attributes
    ----------
    summary : dict
        All values, as plain Python objects: the contents of result.json, and the output of a command with ``--json``.
    report : Report
        The page. It is for the holder of the data, unless it says otherwise.
    """

    summary: Any
    report: Any

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        cls.__repr__ = Shown.__repr__  # type: ignore[method-assign]  # a dataclass keeps a repr that is already there

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: the values are in .summary, the page in .report; both are for the holder of the data>"

    def write(self, folder: str | os.PathLike[str]) -> None:
        """Write report.html and result.json into a folder, which is made if it does not exist."""
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        warned = {"warnings": occasion.get().warnings} if occasion.get().warnings else {}
        _replace(target / VALUES, as_json({**self.summary, **warned}))
        _replace(target / PAGE, self.report.html())

    def _repr_html_(self) -> str:
        shown: str = self.report._repr_html_()
        return shown


@dataclass(frozen=True, eq=False)
class Result(Shown):
    """A result whose values and page are given; see `Shown` for the attributes."""

    summary: dict[str, Any]
    report: Report


class FitResult(Shown, ABC):
    """A fitted model and measurements of it. A subclass defines the values and the figures.

    Values and page are made when they are first used, so that a model that has cost a budget can be saved before them.
    """

    title: str
    model_name: str
    model: SavedModel

    @abstractmethod
    def values(self) -> dict[str, object]:
        """Return the measurements as plain values."""

    @abstractmethod
    def lines(self) -> list[str]:
        """Return the most important values as short lines of text."""

    @abstractmethod
    def draw(self, report: Report) -> None:
        """Add tables and figures to the page."""

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of the model."""
        return self.model.guarantee_

    @property
    def n_units(self) -> int | None:
        """The number of fitted units, which the holder knows; None if it is not known."""
        return None

    @property
    def concerns(self) -> list[Concern]:
        """Concerns about the model; a subclass adds its own."""
        return about_guarantee(self.guarantee, self.n_units)

    @property
    def notice(self) -> str:
        """Who the values and the page are for."""
        return for_the_holder(f"the folder {MODEL}/" if self.guarantee.holds else None)

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The values, with the notice, the concerns and the guarantee."""
        return {
            "notice": self.notice,
            "concerns": [concern.to_dict() for concern in self.concerns],
            "guarantee": self.guarantee.to_dict(),
            **self.values(),
        }

    @cached_property
    def report(self) -> Report:
        """The page, with the notice, the concerns and the guarantee."""
        report = Report(self.title, self.notice)
        settings = self.summary.get("settings") or _plain_settings(self.model)
        report.facts = facts_of(settings, self.n_units, self.guarantee)
        report.concerns(self.concerns)
        report.guarantee(self.guarantee)
        self.draw(report)
        return report

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write model/, which may be passed on if the guarantee holds, and result.json and report.html for the holder.

        Parameters
        ----------
        folder : path-like
        overwrite : bool, default=False
            Whether to replace an earlier result in the folder; if not, such a folder raises an error.
        """
        with ResultFolder(folder, overwrite=overwrite):
            self.write(folder)

    def write(self, folder: str | os.PathLike[str]) -> None:
        """Write all files into a folder, the model first, because it may have cost a budget."""
        (Path(folder) / MODEL).mkdir(parents=True, exist_ok=True)
        self.model.save(Path(folder) / MODEL / f"{self.model_name}.tacit")
        super().write(folder)


def _replace(path: Path, text: str) -> None:
    """Write a file; after a crash, there is the old file or the new one, never a part of one."""
    partial = path.with_name(f"{path.name}.partial")
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, path)


def _plain_settings(model: object) -> dict[str, bool | int | float | str]:
    """Return the parameters of a model that are numbers or words, other than those that only say how it was run."""
    given = model.get_params(deep=False) if hasattr(model, "get_params") else {}
    return {
        name: value
        for name, value in given.items()
        if isinstance(value, (bool, int, float, str))
        and not name.startswith("max_")
        and name not in ("adjacency", "dataset", "ledger", "n_jobs", "verbose")
    }


def facts_of(
    settings: Mapping[str, object], n_units: int | None = None, guarantee: Guarantee | None = None
) -> dict[str, str]:
    """Return what was fitted and how, for the header of a page."""
    unit = "row" if guarantee is None else guarantee.unit
    facts = {} if n_units is None else {f"{unit}s fitted": f"{n_units:,}"}
    given = {name: value for name, value in settings.items() if value is not None}
    shown = [
        f"{name.removeprefix('n_').replace('_', ' ')} {f'{value:.4g}' if isinstance(value, float) else value}"
        for name, value in given.items()
    ]
    epsilon = given.get("epsilon")
    total = guarantee.epsilon if guarantee is not None and guarantee.holds else 0.0
    if isinstance(epsilon, float) and total > 1.001 * epsilon:
        shown.append(f"epsilon in all {rounded_up(total)}")  # a part was spent before, as on a vocabulary
    return facts | ({"settings": ", ".join(shown)} if shown else {})


MODEL, VALUES, PAGE = "model", "result.json", "report.html"
TERMS = "terms.txt"
"""In the folder of a model of texts: its terms, in the order of its columns."""


class ResultFolder:
    """A folder for ``model/``, ``result.json`` and ``report.html``; use it as a context manager around the whole fit.

    Entering the context checks that the folder can be written to and holds no earlier result, so that a fit whose result
    could not be saved is refused before it is charged. The folder ``model/`` is created then: of two fits that are started for
    the same folder, the second is refused. If the fit fails, the created folders are removed again.

    Parameters
    ----------
    path : path-like
    overwrite : bool, default=False
        Replace an earlier result. A private model that has cost a budget is lost: once the fit has succeeded, ``model/`` holds
        nothing that was in it before, because all of it may be passed on under the guarantee of this fit.
    model : bool, default=True
        Whether there will be a model.
    data : path-like, optional
        The file or folder of the data; pages that are written within the context show its name, and the warnings that were
        given.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from tacit.report import ResultFolder
    >>> path = Path(tempfile.mkdtemp()) / "out"
    >>> with ResultFolder(path):
    ...     file = (path / "model" / "nmf.tacit").write_text("a model that was paid for")
    >>> with ResultFolder(path):  # doctest: +ELLIPSIS
    ...     pass
    Traceback (most recent call last):
    ...
    tacit.errors.InvalidInputError: expected a folder without an earlier result; got one that holds model. Nothing was...
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        overwrite: bool = False,
        model: bool = True,
        data: str | os.PathLike[str] | None = None,
    ) -> None:
        self.path = Path(path)
        self.occasion = Occasion("" if data is None else Path(data).name)
        self.overwrite = overwrite
        self.model = model
        self._kept: Path | None = None
        self._made: list[Path] = []
        self._before: dict[Path, tuple[int, int]] = {}

    def __enter__(self) -> Self:
        try:
            self._claim()
        except BaseException:
            self._undo()
            raise
        if self.model:
            self.occasion.keep = self._keep
        self._earlier = occasion.set(self.occasion)
        self._show = warnings.showwarning
        warnings.showwarning = self._note_warning
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        warnings.showwarning = self._show
        occasion.reset(self._earlier)
        if kind is not None:
            self._undo()
            if self._kept:
                warnings.warn(
                    f"What was released and paid for before this is kept, without a report: {self._kept}.",
                    PrivacyWarning,
                    stacklevel=2,
                )
            return
        for path, state in self._before.items():
            if path.exists() and _state_of(path) == state:
                path.unlink()

    def _keep(self, model: SavedModel | NoisyCounts, name: str, terms: Sequence[str] | None = None) -> None:
        """Write a model that has cost a budget; values and page of an earlier one go, since they are not about it."""
        self._kept = self.path / MODEL / (name if Path(name).suffix else f"{name}.tacit")
        model.save(self._kept)
        write_terms(self.path, terms)
        for earlier in (VALUES, PAGE):
            (self.path / earlier).unlink(missing_ok=True)

    def _note_warning(self, message: Warning | str, *where: Any, **more: Any) -> None:
        """Keep a warning for the page, and show it as usual."""
        if self.model and isinstance(message, ConcernWarning):
            return  # the concerns of the result say it
        text = str(message)
        if text not in self.occasion.warnings:
            self.occasion.warnings.append(text)
        self._show(message, *where, **more)

    def _claim(self) -> None:
        earlier = [name for name in (MODEL, VALUES, PAGE) if (self.path / name).exists()]
        if earlier and not self.overwrite:
            raise _refusal(", ".join(earlier))
        try:
            for folder in (*reversed(self.path.parents), self.path):
                self._make(folder)
            if self.model and not self._make(self.path / MODEL) and not self.overwrite:
                raise _refusal(MODEL)
            if self.model:
                files = [path for path in (self.path / MODEL).rglob("*") if path.is_file()]
                self._before = {path: _state_of(path) for path in files}
            for folder in (self.path, self.path / MODEL) if self.model else (self.path,):
                with tempfile.TemporaryFile(dir=folder):
                    pass
        except OSError as error:
            raise InvalidInputError(
                "a folder that can be written to",
                words(f"{parameter(str(self.path))} ({type(error).__name__})"),
                "Nothing was computed or charged. Give another folder.",
            ) from error

    def _make(self, folder: Path) -> bool:
        """Create a folder and keep its name; return whether it is new."""
        try:
            folder.mkdir()
        except FileExistsError:
            if not folder.is_dir():
                raise
            return False
        self._made.append(folder)
        return True

    def _undo(self) -> None:
        """Remove the created folders that are empty."""
        with suppress(OSError):
            while self._made:
                self._made[-1].rmdir()
                self._made.pop()


def _state_of(path: Path) -> tuple[int, int]:
    """Return what changes when a file is written again, in place or by another one under its name."""
    status = path.stat()
    return status.st_ino, status.st_mtime_ns


def _refusal(earlier: str) -> InvalidInputError:
    return InvalidInputError(
        "a folder without an earlier result",
        words(f"one that holds {earlier}"),
        "Nothing was computed or charged. Give another folder, or overwrite it with `overwrite=True` (--overwrite).",
    )
