"""The report of `tacit perturb`: what was done, and the table before and after."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

COLUMNS_DRAWN = 12
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
    numeric = [name for name, kind in frame.schema.items() if kind.is_numeric() and name in released.columns]
    drawn = [name for name in numeric if not frame[name].null_count()][:COLUMNS_DRAWN]
    if drawn:
        before, after = (part.select(pl.col(drawn).cast(pl.Float64)).to_numpy() for part in (frame, released))
        report.figure("Distributions", distributions(drawn, before, after), "Columns before and after.")
    report.text(
        "Before it leaves",
        "Measure the release: tacit measure ORIGINAL RELEASE --label CLASS shows what it kept and what attackers recover."
        if result["guarantee"]["epsilon"] is None
        else "The guarantee bounds every attack. Synthetic rows belong to no original ones.",
    )
    report.write(folder / "report.html")
    (folder / "result.json").write_text(json.dumps(result, indent=2), encoding="utf-8")
