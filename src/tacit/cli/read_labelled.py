"""Rows with labels from what a user names on the command line: a table, an archive of arrays, a folder of images."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacit.errors import InvalidInputError, Undisclosed, words


@dataclass(frozen=True, eq=False, repr=False)
class Labelled(Undisclosed):
    """Rows, their labels, the names of the columns and the shape of an image, where there are such."""

    X: Any
    y: Any
    names: tuple[str, ...] | None = None
    shape: tuple[int, int] | None = None
    feature_range: tuple[float, float] | None = None


def read_labelled(path: Path, label: str | None) -> Labelled:
    """Read a csv or parquet table, an npz archive, or a folder of images in one folder a class."""
    if not path.exists():
        raise InvalidInputError(
            "a file or a folder with data", words(f"{path}, which does not exist"), "Check the path."
        )
    if path.is_dir():
        return _images(path)
    if label is None:
        raise InvalidInputError(
            "--label, the name of the column with the classes", words("none"), "Name it, as in --label y."
        )
    if path.suffix.lower() == ".npz":
        return _archive(path, label)
    return _table(path, label)


def read_classes(text: str) -> Any:
    """Return the classes that --classes lists, or that a file has one per line; as numbers if all are whole numbers."""
    import numpy as np

    from tacit.data import read_terms

    names = list(read_terms(Path(text))) if Path(text).is_file() else [name.strip() for name in text.split(",")]
    try:
        return np.unique(np.array([int(name) for name in names]))
    except ValueError:
        return np.unique(np.array(names))


def labels_among(y: Any, classes: Any) -> Any:
    """Return the labels as the classes are written, so that their type does not depend on the other labels of the file."""
    import numpy as np

    place = {str(name): index for index, name in enumerate(classes.tolist())}
    texts = [str(int(label) if isinstance(label, float) and label.is_integer() else label) for label in y.tolist()]
    codes = np.array([place.get(text, -1) for text in texts], dtype=np.int64)
    if (codes < 0).any():
        raise InvalidInputError("labels among --classes", words("others"), "Name every class that may occur.")
    return classes[codes]


def read_ranges(path: Path, names: tuple[str, ...] | None) -> tuple[Any, Any]:
    """Read a table with the columns name, low and high: the public range of every column of the data."""
    from tacit.data.frames import read_frame

    table = read_frame(path)
    missing = {"name", "low", "high"} - set(table.columns)
    ranges = {} if missing else {str(name): (low, high) for name, low, high in table["name", "low", "high"].iter_rows()}
    if missing or names is None or not set(names) <= set(ranges):
        raise InvalidInputError(
            f"{path} to have the columns name, low and high, and a line for each column of the data",
            words(
                "other columns" if missing else f"no line for {', '.join(sorted(set(names or ()) - set(ranges))[:5])}"
            ),
            "Write one line per column, with a range that is public.",
        )
    return [float(ranges[name][0]) for name in names], [float(ranges[name][1]) for name in names]


def _images(folder: Path) -> Labelled:
    import numpy as np

    from tacit.data import read_pictures

    pictures = read_pictures(folder)
    labels = [name.rpartition("/")[0] for name in pictures.names]
    if "" in labels:
        raise InvalidInputError(
            "images in one folder per class",
            words(f"images directly in {folder}"),
            "Put the images of each class in a folder named after it.",
        )
    return Labelled(pictures.X, np.array(labels), shape=pictures.shape, feature_range=(0.0, 1.0))


def _archive(path: Path, label: str) -> Labelled:
    import numpy as np

    from tacit.data import read_matrix

    with np.load(path, allow_pickle=False) as archive:
        names = list(archive.files)
        labels = archive[label] if label in names and archive[label].ndim == 1 else None
    if labels is None:
        raise InvalidInputError(
            f"a 1-d array {label!r} in {path}", words("none"), "Name the array of labels with --label."
        )
    return Labelled(read_matrix(path).X, labels)


def _table(path: Path, label: str) -> Labelled:
    import polars as pl

    from tacit.data.frames import read_frame

    table = read_frame(path)
    if label not in table.columns:
        raise InvalidInputError(
            f"a column {label!r} in {path}",
            words("none"),
            "Name the column of labels with --label.",
        )
    if table[label].null_count():
        raise InvalidInputError(f"a label in every row of {path}", words("missing labels"), "Drop these rows.")
    rows = table.drop(label)
    text = [name for name, kind in rows.schema.items() if not (kind.is_numeric() or kind == pl.Boolean)]
    if text or not rows.columns:
        raise InvalidInputError(
            f"all columns of {path} but {label!r} to be numbers",
            words(f"text or other kinds in {', '.join(text[:5])}" if text else "no other column"),
            "Drop the columns that are not numbers, or code them as numbers.",
        )
    return Labelled(rows.cast(pl.Float64).to_numpy(), table[label].to_numpy(), tuple(rows.columns))
