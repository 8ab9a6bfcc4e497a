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

MOST_ROWS = 6000
SUMMARY = (
    "Every method at several settings: what an analyst keeps, against the most that an attacker gains from the release over one "
    "who has not seen it (of six attacks). Top left is best. Only the private table has a guarantee; the others may fall to an "
    "attack that is not among these six. For the holder: everything was computed without protection."
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
    seed: int,
    folder: Path,
    quiet: bool,
) -> dict[str, Any]:
    """Compare, write report.html and result.json, and return what is in the latter."""
    import numpy as np

    from tacit.perturb.compare import COMPARED, compare_releases
    from tacit.perturb.table import fill_missing, read_chosen

    table, classes = without_label(frame, label)
    chosen = read_chosen(table, None if columns is None else [name.strip() for name in columns.split(",")], "pass")
    values, _, _ = fill_missing(chosen.values, "refuse", chosen.names)
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
            random_state=seed,
            advance=advance,
        )
    utility = "clustering accuracy" if classes is None else "AUC"
    result = {
        "title": f"{len(values)} rows, {values.shape[1]} columns",
        "utility": utility,
        "leak": "largest gain of six attacks",
        "releases": [point.to_dict() for point in points],
    }
    folder.mkdir(parents=True, exist_ok=True)
    _report(result, _reference(values, classes, seed)).write(folder / "report.html")
    (folder / "result.json").write_text(json.dumps(result, indent=2), encoding="utf-8")
    return result


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
    import numpy as np

    from tacit.measure import classifier_scores
    from tacit.perturb.compare import TEST_SHARE

    kept_out = np.random.default_rng(seed).random(len(values)) < TEST_SHARE
    train, test = ~kept_out, kept_out
    return float(classifier_scores(values[train], classes[train], values[test], classes[test], "logistic-l1")[1])


def _report(result: dict[str, Any], reference: float) -> Any:
    from tacit.perturb.compare import PRIVATE
    from tacit.report import Report
    from tacit.report.frontiers import release_frontier

    measured = [point for point in result["releases"] if point["utility"] is not None]
    lines: dict[str, list[tuple[float, float, str]]] = {}
    for point in measured:
        short = point["setting"].split()[-1]
        lines.setdefault(point["method"], []).append((point["leak"], point["utility"], short))
    report = Report("Ways to release a table", SUMMARY)
    figure = release_frontier(
        lines, utility_name=result["utility"], leak_name=result["leak"], reference=reference, highlight=PRIVATE
    )
    report.figure("Use against leak", figure, "Numbers at points: distortion, or epsilon for the private table.")
    attacks = list(dict.fromkeys(name for point in measured for name in point["attacks"]))
    rows = [
        [
            point["method"],
            point["setting"],
            f"{point['utility']:.3f}",
            *(f"{point['attacks'][name]:.3f}" for name in attacks),
        ]
        for point in measured
    ]
    note = "Gain of each attack over the same attacker without the release, as a share of what there is to gain."
    report.table("All releases", ["method", "setting", result["utility"], *attacks], rows, note=note)
    notes = [[point["method"], point["setting"], point["note"]] for point in result["releases"] if point["note"]]
    if notes:
        report.table("Notes", ["method", "setting", ""], notes)
    return report
