"""The folder that one result is written to, claimed before anything is charged."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from tacit.errors import InvalidInputError, parameter, words

MODEL, VALUES, PAGE = "model", "result.json", "report.html"


class ResultFolder:
    """A folder for ``model/``, ``result.json`` and ``report.html``; use it as a context manager around the whole fit.

    Entering the context checks that the folder can be written to and holds no earlier result, so that a fit whose
    result could not be kept is refused before it costs anything. The folder ``model/`` is made then and is the claim: of
    two fits that are started for the same folder, the second is refused. If the fit fails, what was made is removed again.

    Parameters
    ----------
    path : path-like
    overwrite : bool, default=False
        Replace an earlier result. A private model that was paid for is lost.
    model : bool, default=True
        Whether there will be a model.

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

    def __init__(self, path: str | os.PathLike[str], *, overwrite: bool = False, model: bool = True) -> None:
        self.path = Path(path)
        self.overwrite = overwrite
        self.model = model
        self._made: list[Path] = []

    def __enter__(self) -> Self:
        try:
            self._claim()
        except BaseException:
            self._undo()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._undo()

    def _claim(self) -> None:
        earlier = [name for name in (MODEL, VALUES, PAGE) if (self.path / name).exists()]
        if earlier and not self.overwrite:
            raise _refusal(", ".join(earlier))
        try:
            for folder in (*reversed(self.path.parents), self.path):
                self._make(folder)
            if self.model and not self._make(self.path / MODEL) and not self.overwrite:
                raise _refusal(MODEL)
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
        """Make a folder and remember it; return whether it is new."""
        try:
            folder.mkdir()
        except FileExistsError:
            if not folder.is_dir():
                raise
            return False
        self._made.append(folder)
        return True

    def _undo(self) -> None:
        """Remove the folders that were made, as far as they are empty."""
        with suppress(OSError):
            while self._made:
                self._made[-1].rmdir()
                self._made.pop()


def _refusal(earlier: str) -> InvalidInputError:
    return InvalidInputError(
        "a folder without an earlier result",
        words(f"one that holds {earlier}"),
        "Nothing was computed or charged. Give another folder, or overwrite it (--overwrite, or overwrite=True).",
    )
