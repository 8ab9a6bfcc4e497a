"""Results on disk: one JSON file per table or figure, which a later run with the same settings uses again."""

from __future__ import annotations

import json
import os
import platform
import shutil
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tacit.reproduce.catalogue import Item, ItemRun, write_whole
from tacit.reproduce.data import MissingData
from tacit.reproduce.outcome import ItemOutcome


@dataclass(frozen=True)
class ItemResult:
    """An outcome with its settings.

    There is none if a data set was not there, which `missing` says, or if the item failed with `error`.
    """

    item: Item
    settings: dict[str, Any]
    outcome: ItemOutcome
    seconds: float
    date: str
    machine: str
    stand_ins: tuple[str, ...] = ()
    missing: str = ""
    reused: bool = False
    error: Exception | None = None

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
    """Describe what times depend on: cores, memory and versions."""
    from tacit import __version__

    versions = f"Python {platform.python_version()}, tacit {__version__}"
    try:
        memory = f", {os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GB of memory"
    except (AttributeError, ValueError, OSError):  # not a POSIX system, or one that does not say
        memory = ""
    return f"{os.cpu_count()} cores{memory}; {versions}"


def obtain(
    items: Sequence[Item],
    run: ItemRun,
    folder: Path,
    *,
    overwrite: bool = False,
    begin: Callable[[Item], ItemRun] | None = None,
) -> list[ItemResult]:
    """Run the items, or read their results if these have the same settings and `overwrite` is false.

    An item whose data are missing is not run, and its result says what is missing. An item that fails does not keep the others
    from running; its result has the error. Every result is written as soon as it is there, and so are the parts of long items,
    so that an interrupted run can be continued.
    """
    results = []
    for entry in items:
        path = folder / entry.paper / f"{entry.name}.json"
        earlier = None if overwrite else read(path, entry)
        if earlier is not None and earlier.settings == settings_of(run) and not earlier.missing:
            results.append(earlier)
            continue
        used = begin(entry) if begin else run
        unfinished = path.with_suffix(".unfinished") / fingerprint(settings_of(run))
        if overwrite:
            shutil.rmtree(unfinished.parent, ignore_errors=True)
        result = obtain_one(entry, replace(used, unfinished=unfinished))
        if not result.missing and result.error is None:
            write_whole(path, json.dumps(result.to_json(), indent=1))
            shutil.rmtree(unfinished.parent, ignore_errors=True)
        results.append(result)
    return results


def obtain_one(entry: Item, run: ItemRun) -> ItemResult:
    """Run one item."""
    began, outcome, missing, failure = time.perf_counter(), ItemOutcome(), "", None
    try:
        for name in entry.needs:
            if run.data.state(name) == "missing":
                run.data[name]
        with _each_warning_once():
            outcome = entry.run(run)
        if outcome == ItemOutcome(verdicts=outcome.verdicts):
            raise ValueError(f"{entry.paper} {entry.name} returned no table, figure, picture or words")
    except MissingData as error:
        missing = str(error)
    except Exception as error:  # the others are run, and the command fails at its end
        failure = error
    notes = tuple(note for name in entry.needs if not missing and (note := run.data.note(name)))
    return ItemResult(
        entry,
        settings_of(run),
        outcome,
        time.perf_counter() - began,
        datetime.now(UTC).date().isoformat(),
        machine(),
        (*((entry.stand_in,) if entry.stand_in else ()), *notes),
        missing,
        error=failure,
    )


@contextmanager
def _each_warning_once() -> Iterator[None]:
    """Show a warning once; repetitions give the same one again and again.

    The filter "once" forgets what it has shown whenever the filters change, as they do in many items.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for one in {str(warning.message): warning for warning in caught}.values():
        warnings.warn_explicit(one.message, one.category, one.filename, one.lineno, source=one.source)


def settings_of(run: ItemRun) -> dict[str, Any]:
    """Return the settings on which a result depends."""
    from tacit import __version__

    return {"quick": run.quick, "repetitions": run.repetitions, "seed": run.seed, "tacit": __version__}


def fingerprint(settings: dict[str, Any]) -> str:
    """Return a name of a folder for parts that were computed with these settings."""
    return "-".join(f"{name}={value}" for name, value in sorted(settings.items()))


def read(path: Path, entry: Item) -> ItemResult | None:
    """Read a result; None if there is none, or if the file is not one."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        return ItemResult(
            entry,
            values["settings"],
            ItemOutcome.from_json(values["outcome"]),
            values["seconds"],
            values["date"],
            values["machine"],
            tuple(values["stand_ins"]),
            values["missing"],
            reused=True,
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
