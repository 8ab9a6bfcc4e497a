"""Settings and feature names of a job, from the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tacit.errors import InvalidInputError, parameter


def settings_of(texts: list[str]) -> dict[str, Any]:
    """Read ``name=value`` settings; values are TOML, or text where they are not."""
    import tomllib

    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise InvalidInputError("a setting as name=value", parameter(text), "For instance --set n_components=14.")
        try:
            found[name] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            found[name] = value
    return found


def feature_names(path: Path) -> list[str]:
    """Return the names of the columns: of a table, or the lines of a text file."""
    from tacit.data import read_matrix

    if path.suffix in (".txt", ".terms"):
        return [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    matrix = read_matrix(path)
    return list(matrix.names or [f"column-{place}" for place in range(matrix.X.shape[1])])
