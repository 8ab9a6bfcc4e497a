"""One page per paper: an HTML file that needs no network, or Markdown with its figures beside it."""

from __future__ import annotations

import importlib
import inspect
import os
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from textwrap import fill
from typing import Any

from tacit.reproduce.catalogue import Paper
from tacit.reproduce.drawing import curves_svg, pictures_svg
from tacit.reproduce.results import Result

QUICK = "A quick run: it shows that the code runs, and its numbers mean nothing."


def write_html(paper: Paper, results: Sequence[Result], folder: Path, absent: Sequence[str] = ()) -> Path:
    """Write the page of a paper as HTML, with figures inside; `absent` are items without a result."""
    from jinja2 import Environment

    template = files("tacit.reproduce").joinpath("paper.html").read_text(encoding="utf-8")
    page = Environment(autoescape=True).from_string(template)
    path = folder / f"{paper.package}.html"
    folder.mkdir(parents=True, exist_ok=True)
    sections = [_section(result, folder) for result in results]
    path.write_text(
        page.render(paper=paper, sections=sections, conditions=conditions(results, absent)), encoding="utf-8"
    )
    return path


def write_markdown(paper: Paper, results: Sequence[Result], folder: Path, absent: Sequence[str] = ()) -> Path:
    """Write the page of a paper as Markdown, and its figures as SVG files in a folder beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = folder / paper.name
    lines = [f"# {paper.name}", "", paper.citation, ""]
    lines += [line for text in conditions(results, absent) for line in (text, "")]
    for result in results:
        section = _section(result, folder)
        lines += [f"## {section['heading']}", ""]
        lines += [line for text in section["notes"] for line in (text, "")]
        for table in section["tables"]:
            heads = table["headings"]
            lines += [f"*{table['caption']}*", "", "| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
            lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in table["rows"]] + [
                ""
            ]
        for place, drawing in enumerate(section["drawings"]):
            drawn.mkdir(exist_ok=True)
            name = f"{result.item.name}-{place + 1}.svg"
            (drawn / name).write_text(drawing["svg"], encoding="utf-8")
            lines += [f"![{drawing['caption']}]({paper.name}/{name})", "", f"*{drawing['caption']}*", ""]
        for shown in section["words"]:
            lines += [f"*{shown['caption']}*", ""]
            lines += [f"- {part['label']}: {', '.join(part['words'])}" for part in shown["lists"]] + [""]
        lines += [f"- {verdict}" for verdict in section["verdicts"]] + ([""] if section["verdicts"] else [])
        links = ", ".join(f"[`{name}`]({link})" for name, link in section["code"])
        lines += [f"Code: {links}. Computed by `{section['command']}`.", ""]
    path = folder / f"{paper.name}.md"
    path.write_text("\n".join(map(_wrapped, lines)).rstrip() + "\n", encoding="utf-8")
    return path


def _wrapped(line: str) -> str:
    """Break a long line of prose; tables, links and headings stay on one line."""
    if line.startswith(("|", "#")) or "](" in line:
        return line
    return fill(line, 100, subsequent_indent="  " if line.startswith("- ") else "", break_long_words=False)


def conditions(results: Sequence[Result], absent: Sequence[str] = ()) -> list[str]:
    """Say when, where and how often was measured, and what was not."""
    done = [result for result in results if not result.missing]
    if not done:
        return ["Nothing was computed."]
    dates, machines = sorted({result.date for result in done}), sorted({result.machine for result in done})
    counts = sorted({result.settings["repetitions"] for result in done})
    often = " or ".join(map(str, counts))
    said = [f"Computed on {' and '.join(dates)} ({'; '.join(machines)}); repetitions: {often}."]
    said += [f"Without a result: {', '.join(absent)}."] if absent else []
    return [QUICK, *said] if any(result.settings["quick"] for result in done) else said


def _section(result: Result, folder: Path) -> dict[str, Any]:
    entry, outcome = result.item, result.outcome
    notes = [f"Page {entry.page} of the paper; {_time(result.seconds)}."] if not result.missing else []
    notes += [f"Stand-in: {text}" for text in result.stand_ins]
    notes += [f"Not computed: {result.missing}"] if result.missing else []
    return {
        "heading": f"{entry.name}: {entry.title}",
        "anchor": entry.name,
        "notes": notes,
        "tables": [
            {"caption": table.caption, "headings": table.headings(), "rows": [row.cells() for row in table.rows]}
            for table in outcome.tables
        ],
        "drawings": [{"caption": figure.caption, "svg": curves_svg(figure)} for figure in outcome.figures]
        + [{"caption": grid.caption, "svg": pictures_svg(grid)} for grid in outcome.pictures],
        "words": [
            {"caption": shown.caption, "lists": [{"label": part.label, "words": part.words} for part in shown.lists]}
            for shown in outcome.words
        ],
        "verdicts": outcome.verdicts,
        "code": [
            *((name, source_link(resolve(name), folder)) for name in entry.code),
            (f"{entry.run.__module__}.{entry.run.__name__}", source_link(entry.run, folder)),
        ],
        "command": f"tacit reproduce {entry.paper} {entry.name}",
    }


def _time(seconds: float) -> str:
    return f"{seconds:.0f} seconds" if seconds < 120 else f"{seconds / 60:.0f} minutes"


def source_link(found: Any, folder: Path) -> str:
    """Return a link, relative to `folder`, to the line of the source at which a class, function or module begins."""
    line = 1
    path = Path(inspect.getsourcefile(found) or "")
    if not inspect.ismodule(found):
        line = inspect.getsourcelines(found)[1]
    return f"{Path(os.path.relpath(path, folder)).as_posix()}#L{line}"


def resolve(name: str) -> Any:
    """Return the object of a dotted name."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[length:]:
            found = getattr(found, attribute)
        return inspect.unwrap(found) if callable(found) else found
    raise ModuleNotFoundError(name)
