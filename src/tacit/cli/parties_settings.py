"""Settings and feature names of a job, from the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tacit.errors import InvalidInputError, parameter, words


def settings_of(texts: list[str]) -> dict[str, Any]:
    """Read ``name=value`` settings; values are TOML, or text where they are not."""
    import tomllib

    settings: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise InvalidInputError("a setting as name=value", parameter(text), "For instance --set n_components=14.")
        try:
            settings[name] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            settings[name] = value
    return settings


def feature_names(path: Path, model: str) -> list[str]:
    """Return the names of the columns: those of a table, or the lines of any other file.

    Of a table only the names are looked at, so that the job is the same bytes whatever the records are. For coupled models
    the file holds the outlines of all parties, and for models of ratings it lists the items.
    """
    from tacit.data.files import read_frame
    from tacit.data.tables import READERS, read_matrix
    from tacit.estimators.registry import JOBS, RATINGS, TABLE

    kind, name = JOBS[model].data if model in JOBS else TABLE, path.name.lower()
    if kind == TABLE and name.endswith((".csv", ".csv.gz", ".parquet")):
        return list(read_frame(path, as_text=True).columns)
    if kind == TABLE and name.endswith(tuple(READERS)):
        matrix = read_matrix(path)
        return list(matrix.names or [f"column-{place}" for place in range(matrix.X.shape[1])])
    try:
        text = path.read_bytes().decode("utf-8-sig")  # editors may put a mark of the encoding before the first name
    except (UnicodeDecodeError, OSError):
        raise InvalidInputError(
            "a text file in UTF-8 with one name per line", parameter(str(path)), "Write one name per line."
        ) from None
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if kind == RATINGS and lines and {"user", "item", "rating"} <= set(lines[0].split(",")):
        raise InvalidInputError(
            "a file with one item per line",
            words("a table of ratings"),
            "List the items that the parties agreed on: items taken from the ratings would reveal ratings.",
        )
    return lines


def schema_columns(schema: Path | None, model: str, settings: dict[str, Any]) -> list[str]:
    """Put the schema of a synthetic table into the job's settings, and return the columns that every party's file must have."""
    from tacit.data.schema import TableSchema
    from tacit.estimators.registry import JOBS, RECORDS
    from tacit.parties.models import record_columns

    if model not in JOBS or JOBS[model].data != RECORDS or schema is None:
        raise InvalidInputError(
            "--features with the job's columns (private-table: --schema with their public description)",
            words("none"),
            "Give the file.",
        )
    stated = TableSchema.load(schema)
    stated.check_public()
    settings["schema"] = stated.to_dict()
    return record_columns(stated, settings.get("unit_column"))
