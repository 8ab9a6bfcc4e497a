"""Files that only their owner may read, and the files that a person may pick as data."""

from __future__ import annotations

import gzip
import json
import os
import re
import secrets
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tacit.errors import InvalidInputError, parameter, words

PRIVATE_FOLDER, PRIVATE_FILE = 0o700, 0o600
"""Modes of what the app writes: only its own user may read it."""
TABLES = (".csv", ".csv.gz", ".tsv", ".parquet")
MATRICES = (".npz", ".npy", ".mtx")
TEXT_LINES = (".jsonl",)
DESCRIPTIONS = (".toml",)
DATA_ENDINGS = (*TABLES, *MATRICES, *TEXT_LINES, *DESCRIPTIONS)
"""Of files that can be picked or uploaded as data."""
MOST_HEADER_BYTES = 1 << 20
"""Of the first line of a table, with the names of its columns: it is read by the app itself, not by a process with a limit."""
MOST_LISTED = 500
"""Entries of one folder that a page lists."""
UPLOADED = "uploads"
_ID = re.compile("[0-9]{8}-[0-9]{12}-[0-9a-f]{8}")


def private_folder(path: Path) -> Path:
    """Make a folder that only its owner may enter, or take that right from others if the folder is there."""
    path.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
    path.chmod(PRIVATE_FOLDER)
    return path


def write_private(path: Path, content: str | bytes, *, new: bool = False) -> None:
    """Write a file that only its owner may read; a crash leaves the old file or the new one, never a part of one.

    With `new`, the file must not exist: of two processes that try, one gets a FileExistsError.
    """
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE), "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        if new:
            os.link(partial, path)
        else:
            os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def write_json(path: Path, values: object, *, new: bool = False) -> None:
    """Write plain values as `write_private` does."""
    write_private(path, json.dumps(values, indent=1), new=new)


def read_json(path: Path) -> Any:
    """Return what `write_json` wrote; None if there is no such file."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None


def new_id() -> str:
    """Return an id that sorts by time, to the microsecond: runs start in the order of their ids."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S%f}-{secrets.token_hex(4)}"


def is_id(text: str) -> bool:
    """Return whether a text is an id of `new_id`, and so the name of a file in no other folder."""
    return _ID.fullmatch(text) is not None


@dataclass(frozen=True)
class Listed:
    """One entry of a folder: its name, its path below the root, and whether it is a folder."""

    name: str
    path: str
    folder: bool


@dataclass(frozen=True)
class Roots:
    """The folders that the app was started with. Nothing outside them can be picked, also not by a symbolic link.

    `own` is the folder in which the app keeps its files; if it lies in one of the others, nothing in it can be picked.
    """

    folders: tuple[Path, ...]
    own: Path

    @classmethod
    def of(cls, folders: Sequence[Path], own: Path) -> Roots:
        """Return the roots; each must be a folder."""
        for folder in folders:
            if not folder.is_dir():
                raise InvalidInputError("folders with data", parameter(str(folder)), "Name folders that exist.")
        return cls(tuple(folder.resolve() for folder in folders), own.resolve())

    def find(self, root: str, path: str) -> Path:
        """Return what a page named by the number of a root and a path below it."""
        refusal = InvalidInputError(
            "a file or folder within the folders that the app was started with",
            words("another path"),
            "Pick it from the list, upload it, or start `tacit app` with its folder.",
        )
        if not root.isdigit() or int(root) >= len(self.folders) or "\0" in path:
            raise refusal
        top = self.folders[int(root)]
        target = (top / path).resolve()
        if not target.is_relative_to(top) or target.is_relative_to(self.own) or not target.exists():
            raise refusal
        return target

    @property
    def readable(self) -> tuple[Path, ...]:
        """Folders whose files a run may read: those of the command line, and the uploads."""
        return (*self.folders, self.own / UPLOADED)

    def listing(self, root: str, path: str) -> list[Listed]:
        """Return the folders and data files of a folder, by name; hidden ones and links that lead outside are left out."""
        folder = self.find(root, path)
        top, entries = self.folders[int(root)], []
        for entry in sorted(folder.iterdir(), key=lambda entry: (not entry.is_dir(), entry.name.lower())):
            known = entry.is_dir() or entry.name.lower().endswith(DATA_ENDINGS)
            real = entry.resolve()
            if not known or entry.name.startswith(".") or not real.is_relative_to(top) or real == self.own:
                continue
            entries.append(Listed(entry.name, str(entry.relative_to(top)), entry.is_dir()))
            if len(entries) == MOST_LISTED:
                break
        return entries


def leads_outside(path: Path, folders: Iterable[Path]) -> bool:
    """Return whether a file or folder, or a link within the folder, is not in these folders now.

    A path that was checked when it was picked may have become a link since.
    """
    tops = [folder.resolve() for folder in folders]

    def outside(one: Path) -> bool:
        real = one.resolve()
        return not any(real.is_relative_to(top) for top in tops)

    if outside(path):
        return True
    entries = ((Path(at) / name) for at, inner, files in os.walk(path) for name in (*inner, *files))
    return any(outside(entry) for entry in entries if entry.is_symlink())


def check_first_line(path: Path) -> None:
    """Refuse a table in text whose first line is too long for names of columns; no more of the file is read."""
    name = path.name.lower()
    if not name.endswith((".csv", ".csv.gz", ".tsv")):
        return
    try:
        with gzip.open(path) if name.endswith(".gz") else path.open("rb") as file:
            begun = file.read(MOST_HEADER_BYTES)
    except (OSError, EOFError, zlib.error):
        return  # the reader says what is wrong
    if len(begun) == MOST_HEADER_BYTES and b"\n" not in begun and b"\r" not in begun:
        raise InvalidInputError(
            f"a first line with the names of the columns, of at most {MOST_HEADER_BYTES >> 20} MB",
            words("a longer one"),
            "Check that the file is a table with one line per row.",
        )


def safe_name(name: str, endings: tuple[str, ...] = DATA_ENDINGS) -> str:
    """Return the last part of the name of an uploaded file, with harmless characters only."""
    last = re.split(r"[/\\]", name)[-1]
    kept = re.sub(r"[^\w.\- ]", "_", last, flags=re.ASCII).strip(" .")[-100:]
    if not kept.lower().endswith(endings):
        raise InvalidInputError(
            f"a file that ends in {', '.join(endings)}",
            words("a file with another ending"),
            "Convert it, as to CSV with the names of the columns in its first line.",
        )
    return kept
