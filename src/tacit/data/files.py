"""What all readers share: finding files, and errors that name what could not be read."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from tacit.errors import InvalidInputError, TacitError, words


def existing_file(path: str | Path) -> Path:
    """Return `path` if it is a file."""
    found = Path(path)
    if not found.is_file():
        got = f"the folder {found}" if found.is_dir() else f"{found}, which does not exist"
        raise InvalidInputError("a file to read", words(got), "Check the path.")
    return found


def files_under(folder: str | Path, suffixes: Collection[str]) -> tuple[Path, list[Path]]:
    """Return the folder and all files with one of the suffixes in it and below, in the order of their names."""
    root = Path(folder)
    listed = ", ".join(sorted(suffixes))
    if not root.is_dir():
        got = f"the file {root}" if root.is_file() else f"{root}, which does not exist"
        raise InvalidInputError(f"a folder with {listed} files", words(got), "Check the path.")
    found = [path for path in root.rglob("*") if path.suffix.lower() in suffixes and path.is_file()]
    if not found:
        raise InvalidInputError(
            f"{root} to have files that end in {listed}", words("none, there or below"), "Check the folder."
        )
    # By parts and not by the platform's separator: the same folder gives the same order everywhere.
    return root, sorted(found, key=lambda path: path.relative_to(root).parts)


@contextmanager
def reading(what: Path | str, kind: str, *failures: type[BaseException], fix: str = "") -> Iterator[None]:
    """Turn any of `failures`, or the usual ones of a broken file, into an error that names the file.

    Where a file is a record of its own, `what` names the folder: the name of such a file may be the name of a person. The
    message of a parser may hold what it could not parse, so that only the type of its error is shown.
    """
    expected: tuple[type[BaseException], ...] = (OSError, ValueError, EOFError, *failures)
    try:
        yield
    except TacitError:
        raise
    except expected as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
        advice = fix or "Check that the file is complete and of the format that its name says."
        raise InvalidInputError(
            f"{what} to be {kind}", words(f"a file that cannot be read as such ({reason})"), advice
        ) from None
