"""Results on disk: one JSON file per table or figure, which a later run with the same settings uses again."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tacit.reproduce.catalogue import Item, Run
from tacit.reproduce.data import MissingData
from tacit.reproduce.outcome import Outcome


@dataclass(frozen=True)
class Result:
    """An outcome with its settings; `missing` says which data set was not there, and then there is no outcome."""

    item: Item
    settings: dict[str, Any]
    outcome: Outcome
    seconds: float
    date: str
    machine: str
    stand_ins: tuple[str, ...] = ()
    missing: str = ""
    reused: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "paper": self.item.paper,
            "item": self.item.name,
            "title": self.item.title,
            "page": self.item.page,
            "settings": self.settings,
            "date": self.date,
            "machine": self.machine,
            "seconds": round(self.seconds, 2),
            "stand_ins": list(self.stand_ins),
            "missing": self.missing,
            "outcome": self.outcome.to_json(),
        }


def machine() -> str:
    """Describe the processor and the versions, for results that depend on time."""
    from tacit import __version__

    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = [line for line in info.read_text(encoding="utf-8").splitlines() if line.startswith("model name")]
        name = lines[0].partition(":")[2].strip() if lines else name
    return f"{name}, {os.cpu_count()} cores; Python {platform.python_version()}, tacit {__version__}"


def obtain(
    items: Sequence[Item],
    run: Run,
    folder: Path,
    *,
    overwrite: bool = False,
    begin: Callable[[Item], Run] | None = None,
) -> list[Result]:
    """Run the items, or read their results if these have the same settings and `overwrite` is false.

    An item whose data are missing is not run, and its result says what is missing. Every result is written as soon as it is
    there, so that an interrupted run can be continued.
    """
    results = []
    for entry in items:
        path = folder / entry.paper / f"{entry.name}.json"
        earlier = None if overwrite else read(path, entry)
        if earlier is not None and earlier.settings == settings_of(run) and not earlier.missing:
            results.append(earlier)
            continue
        result = obtain_one(entry, begin(entry) if begin else run)
        if not result.missing:
            path.parent.mkdir(parents=True, exist_ok=True)
            unfinished = path.with_suffix(".part")
            unfinished.write_text(json.dumps(result.to_json(), indent=1), encoding="utf-8")
            unfinished.replace(path)
        results.append(result)
    return results


def obtain_one(entry: Item, run: Run) -> Result:
    """Run one item."""
    began, outcome, missing = time.perf_counter(), Outcome(), ""
    try:
        for name in entry.needs:
            if run.data.state(name) == "missing":
                run.data[name]
        outcome = entry.run(run)
        if outcome == Outcome(verdicts=outcome.verdicts):
            raise ValueError(f"{entry.paper} {entry.name} returned no table, figure, picture or words")
    except MissingData as error:
        missing = str(error)
    notes = tuple(note for name in entry.needs if not missing and (note := run.data.note(name)))
    return Result(
        entry,
        settings_of(run),
        outcome,
        time.perf_counter() - began,
        datetime.now(UTC).date().isoformat(),
        machine(),
        (*((entry.stand_in,) if entry.stand_in else ()), *notes),
        missing,
    )


def settings_of(run: Run) -> dict[str, Any]:
    """Return the settings on which a result depends."""
    from tacit import __version__

    return {"quick": run.quick, "repetitions": run.repetitions, "seed": run.seed, "tacit": __version__}


def read(path: Path, entry: Item) -> Result | None:
    """Read a result; None if there is none, or if the file is not one."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        return Result(
            entry,
            values["settings"],
            Outcome.from_json(values["outcome"]),
            values["seconds"],
            values["date"],
            values["machine"],
            tuple(values["stand_ins"]),
            values["missing"],
            reused=True,
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
