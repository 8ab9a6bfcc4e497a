"""`tacit perturb --compare`: all methods over a range of distortions, and the frontier of use against leak."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.cli.output import progress
from tacit.cli.perturb_tables import parsed_bounds, without_label
from tacit.errors import InvalidInputError, words

if TYPE_CHECKING:
    import polars as pl

    from tacit.perturb.compare import Compared

MOST_ROWS = 6000
SUMMARY = (
    "Every method at several settings: what an analyst keeps, against the most that an attacker gains from the release over one "
    "who has not seen it. Top left is best. Only the private table has a guarantee; the others may fall to an "
    "attack that is not among these. For the holder: everything was computed without protection."
)


def compare_methods(
    frame: pl.DataFrame,
    *,
    label: str | None,
    columns: str | None,
    distortions: list[float],
    epsilons: list[float],
    delta: float,
    bounds: str | None,
    clusters: int,
    missing: str,
    seed: int,
    folder: Path,
    quiet: bool,
) -> dict[str, Any]:
    """Compare, write report.html and result.json, and return what is in the latter."""
    import numpy as np

    from tacit.perturb.compare import COMPARED, compare_releases
    from tacit.perturb.frontier import choice_in_words
    from tacit.perturb.table import fill_missing, read_chosen

    table, classes = without_label(frame, label)
    chosen = read_chosen(table, None if columns is None else [name.strip() for name in columns.split(",")], "pass")
    values, _, n_filled = fill_missing(chosen.values, missing, chosen.names)
    of_all = f" of {len(values)}" if len(values) > MOST_ROWS else ""
    if len(values) > MOST_ROWS:
        some = np.sort(np.random.default_rng(seed).permutation(len(values))[:MOST_ROWS])
        values, classes = values[some], None if classes is None else classes[some]
    with progress(len(COMPARED), quiet=quiet) as advance:
        points = compare_releases(
            values,
            classes,
            distortions=distortions,
            epsilons=epsilons,
            delta=delta,
            bounds=_pairs(bounds, chosen.names),
            n_clusters=clusters,
            names=chosen.names,
            random_state=seed,
            advance=advance,
        )
    utility = "clustering accuracy" if classes is None else "AUC"
    reference = _reference(values, classes, seed)
    result = {
        "verdict": choice_in_words(points, reference, utility),
        "title": f"{len(values)}{of_all} rows, {values.shape[1]} columns",
        "utility": utility,
        "leak": f"largest gain of {_number_of_attacks(points)} attacks",
        "original": reference,
        "columns_left_out": [name for name in table.columns if name not in chosen.names],
        "missing_filled": n_filled,
        "releases": [point.to_dict() for point in points],
    }
    folder.mkdir(parents=True, exist_ok=True)
    _report(result, points, reference).write(folder / "report.html")
    (folder / "result.json").write_text(json.dumps(result, indent=2), encoding="utf-8")
    return result


def _number_of_attacks(points: list[Compared]) -> int:
    return max((len(point.attacks) for point in points), default=0)


def _pairs(bounds: str | None, names: tuple[str, ...]) -> list[tuple[float, float]] | None:
    if bounds is None:
        return None
    known = parsed_bounds(bounds)
    missing = [name for name in names if name not in known]
    if missing:
        raise InvalidInputError(
            "bounds of all columns", words(f"none of {', '.join(missing[:5])}"), "Give all, or none."
        )
    return [known[name] for name in names]


def _reference(values: Any, classes: Any, seed: int) -> float:
    """Return the utility of the original table: that of a release that changes nothing."""
    if classes is None:
        return 1.0
    from tacit.measure import classifier_scores
    from tacit.perturb.compare import rows_kept_out

    test = rows_kept_out(classes, len(values), seed)
    return float(classifier_scores(values[~test], classes[~test], values[test], classes[test], "logistic-l1")[1])


def _report(result: dict[str, Any], points: list[Compared], reference: float) -> Any:
    from tacit.perturb.compare import PRIVATE
    from tacit.perturb.frontier import frontier
    from tacit.report import Report
    from tacit.report.frontiers import release_frontier

    measured = [point for point in points if point.utility is not None and point.leak is not None]
    lines: dict[str, list[tuple[float, float, str]]] = {}
    for point in measured:
        lines.setdefault(point.method, []).append((point.leak or 0, point.utility or 0, point.setting.split()[-1]))
    report = Report("Ways to release a table", SUMMARY)
    report.text("In words", result["verdict"], _about(result))
    figure = release_frontier(
        lines,
        best=[(point.leak or 0, point.utility or 0) for point in frontier(points)],
        utility_name=result["utility"],
        leak_name=result["leak"],
        reference=reference,
        highlight=PRIVATE,
    )
    caption = (
        "Along a line markers grow with the setting: distortion, or epsilon for the private table. The grey line joins the "
        "releases that no other one beats in both; settings are written beside some of them."
    )
    report.figure("Use against leak", figure, caption)
    attacks = list(dict.fromkeys(name for point in measured for name in point.attacks))
    rows = [
        [
            point.method,
            point.setting,
            f"{point.utility:.3f}",
            *(f"{point.attacks[name]:.3f}" if name in point.attacks else "-" for name in attacks),
        ]
        for point in measured
    ]
    note = "Gain of each attack over the same attacker without the release, as a share of what there is to gain."
    report.table("All releases", ["method", "setting", result["utility"], *attacks], rows, note=note)
    notes: dict[tuple[str, str], list[str]] = {}
    for point in points:
        if point.note:
            notes.setdefault((point.method, point.note), []).append(point.setting)
    if notes:
        texts = [[method, ", ".join(filter(None, settings)), note] for (method, note), settings in notes.items()]
        report.table("Notes", ["method", "settings", ""], texts)
    return report


def _about(result: dict[str, Any]) -> str:
    """Return what was compared, and what was left out of it."""
    said = [f"Compared on {result['title']}."]
    if result["missing_filled"]:
        said.append(f"{result['missing_filled']} missing values were filled.")
    if result["columns_left_out"]:
        said.append(f"Left out: {', '.join(result['columns_left_out'])}.")
    return " ".join(said)
