"""The report of `tacit perturb`: what was done, and the table before and after."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

    from tacit.report import Report

COLUMNS_DRAWN = 12
ROWS_SHOWN, MEANS_SHOWN = 200, 8
FOR_THE_HOLDER = (
    "Figures here were computed from the original table without protection. They are for its holder: pass on the release, not "
    "this page."
)


def write_report(frame: pl.DataFrame, released: pl.DataFrame, result: dict[str, Any], folder: Path) -> None:
    """Write report.html and result.json."""
    import polars as pl

    from tacit.privacy.guarantee import Guarantee
    from tacit.report import Report
    from tacit.report.figures import distributions

    folder.mkdir(parents=True, exist_ok=True)
    report = Report(f"A table released by {result['method']}", FOR_THE_HOLDER)
    report.guarantee(Guarantee.from_dict(result["guarantee"]))
    measures = [[name, f"{value:.4g}"] for name, value in result["measures"].items()]
    report.table("What was done", ["", "value"], measures)
    if "clusters" in result:
        _memberships(report, result)
    numeric = [name for name, kind in frame.schema.items() if kind.is_numeric() and name in released.columns]
    drawn = [name for name in numeric if frame[name].null_count() < frame.height][:COLUMNS_DRAWN]
    if drawn:
        before, after = (part.select(pl.col(drawn).cast(pl.Float64)).to_numpy() for part in (frame, released))
        caption = "Columns before and after" + (
            f"; the first {len(drawn)} of {len(numeric)}." if len(numeric) > len(drawn) else "."
        )
        report.figure("Distributions", distributions(drawn, before, after), caption)
    report.text(
        "Before it leaves",
        f"Measure the release: tacit measure {result['table']} {result['output']}{_options(result)} shows what it kept and what "
        "attackers recover."
        if result["guarantee"]["epsilon"] is None
        else "The guarantee bounds every attack. Synthetic rows belong to no original ones.",
    )
    report.write(folder / "report.html")
    (folder / "result.json").write_text(json.dumps(result, indent=2), encoding="utf-8")


def _options(result: dict[str, Any]) -> str:
    """Return what `tacit measure` has to be told about these tables."""
    label = f" --label {result['label']}" if result["label"] is not None else ""
    return label + (" --missing mean" if "missing values filled" in result["measures"] else "")


def _memberships(report: Report, result: dict[str, Any]) -> None:
    rows = [[str(row["row"]), str(row["before"]), str(row["after"]), row["what"]] for row in result["rows"]]
    shown = rows[:ROWS_SHOWN]
    note = f"The first {len(shown)} of {len(rows)}; all are in result.json." if len(rows) > len(shown) else ""
    report.table("Rows that moved, or were to", ["row", "cluster before", "after", ""], shown, note=note)
    names = list(result["clusters"][0]["means before"])[:MEANS_SHOWN]
    table = [
        [
            str(one["cluster"]),
            str(one["rows before"]),
            str(one["rows after"]),
            *("-" if one["means before"][name] is None else f"{one['means before'][name]:.4g}" for name in names),
        ]
        for one in result["clusters"]
    ]
    note = "Means of the original's columns" + (" (the first ones)" if len(names) == MEANS_SHOWN else "")
    note += ". --hide names clusters by these numbers, with the same --clusters and --seed."
    report.table("Clusters", ["cluster", "rows before", "after", *names], table, note=note)
