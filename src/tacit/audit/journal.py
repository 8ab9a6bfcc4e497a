"""The journal of an audit: what every run showed, one line each, so that an interrupted audit continues where it was."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


class AuditJournal:
    """A file of JSON lines, each with a key. It holds scores of private data: it stays with the holder, who alone may read it.

    Parameters
    ----------
    path : path-like
        Made if it does not exist. A last line that was cut off by a crash is ignored.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._lines: dict[str, list[Any]] = {}
        if self.path.exists():
            for line in self.path.read_text(encoding="utf-8").splitlines():
                try:
                    key, values = json.loads(line)
                except ValueError:
                    continue
                self._lines.setdefault(key, []).append(values)

    def read(self, key: str) -> list[Any]:
        """Return all values under a key, in their order."""
        return list(self._lines.get(key, ()))

    def add(self, key: str, values: object) -> None:
        """Append one value."""
        self._lines.setdefault(key, []).append(values)
        with open(self.path, "a", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(json.dumps([key, values]) + "\n")
