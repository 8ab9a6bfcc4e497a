"""What `tacit perturb` does with a table: read it, release it by a method, or privately."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tacit.errors import InvalidInputError, parameter, words

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl


def read_table(path: Path) -> pl.DataFrame:
    """Read a table, and refuse one without rows: its columns would pass for text."""
    from tacit.data.frames import read_frame

    frame = read_frame(path)
    if not frame.height:
        raise InvalidInputError(f"{path} to have rows", words("names of columns only"), "Give the table with its rows.")
    return frame


def without_label(frame: pl.DataFrame, label: str | None) -> tuple[pl.DataFrame, Any]:
    """Return the table without its label, and the label's values, or None."""
    if label is None:
        return frame, None
    if label not in frame.columns:
        raise InvalidInputError(
            "--label to be a column of the table", parameter(label), "Check the name in the first line of the file."
        )
    if frame[label].null_count():
        raise InvalidInputError(f"a label in every row (column {label})", words("missing labels"), "Drop these rows.")
    return frame.drop(label), frame[label].to_numpy()


def release_changed(
    frame: pl.DataFrame, method: str, settings: dict[str, Any], *, label: str | None, hide: str | None, clusters: int
) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Return the release of a table by a named method, its label as it was, and what there is to say about it."""
    from tacit.perturb import named_release
    from tacit.perturb.named import RELEASES

    table, classes = without_label(frame, label)
    if method in RELEASES and "n_clusters" in RELEASES[method][0]().get_params():
        settings = {"n_clusters": clusters, **settings}
    if hide is not None:
        settings = {**settings, "hide": _wishes(hide)}
    if method == "hide-membership" and settings.get("random_state") is None:
        settings = {**settings, "random_state": 0}  # clusters must have the numbers that --hide uses
    release = named_release(method, **settings)
    released = release.fit_transform(table, classes)
    if label is not None:
        released = released.with_columns(frame[label]).select(frame.columns)
    measures: dict[str, Any] = {"distortion": release.distortion_, release._level_name: release.level_}
    if release.n_imputed_:
        measures["missing values filled"] = release.n_imputed_
    for name, words_ in (("changes_", "rows moved"), ("missed_", "rows not moved"), ("side_effects_", "side effects")):
        if hasattr(release, name):
            measures[words_] = len(getattr(release, name))
    if hasattr(release, "n_unchanged_"):
        measures["rows released as they were"] = release.n_unchanged_
    found = {"guarantee": release.guarantee_.to_dict(), "measures": measures}
    if method == "hide-membership":
        found |= _memberships(release, table)
    return released, found


def _memberships(release: Any, table: pl.DataFrame) -> dict[str, Any]:
    """Return what became of rows that moved or were to move, and the clusters by the numbers that `--hide` uses."""
    import polars as pl

    before, after = release.labels_, release.new_labels_
    said = {"changes_": "moved as asked", "missed_": "not where asked", "side_effects_": "side effect"}
    rows = [
        {"row": int(row), "before": int(before[row]), "after": int(after[row]), "what": what}
        for name, what in said.items()
        for row in getattr(release, name)
    ]
    numeric = table.select(pl.col(name) for name, kind in table.schema.items() if kind.is_numeric())
    clusters = [
        {
            "cluster": number,
            "rows before": int((before == number).sum()),
            "rows after": int((after == number).sum()),
            "means before": numeric.filter(pl.Series(before == number)).mean().row(0, named=True),
        }
        for number in range(release.n_clusters)
    ]
    return {"rows": rows, "clusters": clusters}


def release_privately(
    frame: pl.DataFrame,
    *,
    epsilon: float,
    delta: float,
    bounds: str | None,
    categories: str | None,
    label: str | None,
    seed: int | None,
) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Return synthetic rows of a private table; `seed` is that of the rows drawn, the noise has none."""
    from tacit.perturb import PrivateTable

    known = parsed_bounds(bounds)
    values = parsed_categories(categories, frame)
    model = PrivateTable(epsilon=epsilon, delta=delta, bounds=known, categories=values, label=label).fit(frame)
    released = model.sample(random_state=seed)
    measures = {"rows (noisy)": model.count_, "rows drawn": released.height}
    return released, {"guarantee": model.guarantee_.to_dict(), "measures": measures}


def parsed_bounds(text: str | None) -> dict[str, tuple[float, float]]:
    """Return bounds by column from text as in ``age=0:120,income=0:1e6``."""
    found = {}
    for part in (text or "").split(","):
        if not part.strip():
            continue
        name, _, pair = part.partition("=")
        low, _, high = pair.partition(":")
        try:
            found[name.strip()] = float(low), float(high)
        except ValueError:
            raise InvalidInputError(
                "bounds as in age=0:120,income=0:1e6", parameter(part), "Give NAME=LOW:HIGH."
            ) from None
    return found


def parsed_categories(text: str | None, frame: pl.DataFrame) -> dict[str, list[Any]]:
    """Return values by column from text as in ``sex=f|m``; numbers where the column has numbers."""
    found: dict[str, list[Any]] = {}
    for part in (text or "").split(","):
        if not part.strip():
            continue
        name, sign, values = part.partition("=")
        name = name.strip()
        if not sign or name not in frame.columns:
            raise InvalidInputError("categories as in sex=f|m,state=a|b", parameter(part), "Give NAME=VALUE|VALUE.")
        kind = frame.schema[name]
        try:
            found[name] = [
                int(value) if kind.is_integer() else float(value) if kind.is_numeric() else value
                for value in values.split("|")
            ]
        except ValueError:
            raise InvalidInputError(
                f"numbers as values of {name}", parameter(values), "The column has numbers."
            ) from None
    return found


def _wishes(text: str) -> dict[int, Any]:
    found: dict[int, Any] = {}
    for part in text.split(","):
        row, _, target = (piece.strip() for piece in part.partition("="))
        if not row.isdigit() or not target:
            raise InvalidInputError("--hide as in '3=anywhere else,7=2'", parameter(part), "Give ROW=CLUSTER.")
        found[int(row)] = int(target) if target.isdigit() else target
    return found
