"""What all readers share: finding files, and errors that name the file that could not be read."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from tacit.errors import InvalidInputError, TacitError, parameter, words


def existing_file(path: str | Path) -> Path:
    """Return `path` if it is a file."""
    found = Path(path)
    if not found.is_file():
        got = words(f"the folder {found}" if found.is_dir() else f"{found}, which does not exist")
        raise InvalidInputError("a file to read", parameter(got), "Check the path.")
    return found


def files_under(folder: str | Path, suffixes: Collection[str]) -> tuple[Path, list[Path]]:
    """Return the folder and all files with one of the suffixes in it and below, in the order of their names."""
    root = Path(folder)
    listed = ", ".join(sorted(suffixes))
    if not root.is_dir():
        got = words(f"the file {root}" if root.is_file() else f"{root}, which does not exist")
        raise InvalidInputError(f"a folder with {listed} files", parameter(got), "Check the path.")
    found = [path for path in root.rglob("*") if path.suffix.lower() in suffixes and path.is_file()]
    if not found:
        raise InvalidInputError(
            f"{root} to have files that end in {listed}", words("none, there or below"), "Check the folder."
        )
    # By parts and not by the platform's separator: the same folder gives the same order everywhere.
    return root, sorted(found, key=lambda path: path.relative_to(root).parts)


@contextmanager
def reading(path: Path, kind: str, *failures: type[BaseException], fix: str = "") -> Iterator[None]:
    """Turn any of `failures`, or the usual ones of a broken file, into an error that names the file."""
    expected: tuple[type[BaseException], ...] = (OSError, ValueError, EOFError, *failures)
    try:
        yield
    except TacitError:
        raise
    except expected as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        advice = fix or "Check that the file is whole and of the kind that its name says."
        raise InvalidInputError(f"{path} to be {kind}", words(reason), advice) from error
