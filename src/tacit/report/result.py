"""What a command found: plain values for machines, and a page for people, which a notebook shows."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacit.report.page import Report

PAGE, VALUES = "report.html", "result.json"


@dataclass(frozen=True, eq=False)
class Result:
    """Base of what the functions behind the commands return.

    Attributes
    ----------
    summary : dict
        Everything that was found, as plain values: what a command writes to result.json and prints with ``--json``.
    report : Report
        The page. It is for the holder of the data, unless it says otherwise.
    """

    summary: dict[str, Any]
    report: Report

    def write(self, folder: str | os.PathLike[str]) -> None:
        """Write report.html and result.json into a folder, which is made if it does not exist."""
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        self.report.write(target / PAGE)
        (target / VALUES).write_text(json.dumps(self.summary, indent=2), encoding="utf-8")

    def _repr_html_(self) -> str:
        return self.report._repr_html_()
