"""One page per paper: an HTML file that needs no network, or Markdown with its figures beside it."""

from __future__ import annotations

import importlib
import inspect
import itertools
import os
import re
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from textwrap import fill
from types import ModuleType
from typing import TYPE_CHECKING, Any, get_args

from tacit.reproduce.catalogue import Item, Paper, catalogue
from tacit.reproduce.drawing import curves_svg, pictures_svg
from tacit.reproduce.outcome import ABOUT_CLAIM, Verdict
from tacit.reproduce.results import ItemResult

if TYPE_CHECKING:
    from markupsafe import Markup

QUICK = "A quick run: it shows that the code runs, and its numbers mean nothing."
VERDICTS = (*get_args(Verdict), *dict.fromkeys(word for word in ABOUT_CLAIM.values() if word != "-"))
"""All words of verdicts, about numbers and about claims."""


def write_html(paper: Paper, results: Sequence[ItemResult], folder: Path, absent: Sequence[str] = ()) -> Path:
    """Write the page of a paper as HTML, with figures inside; `absent` are items without a result."""
    from jinja2 import Environment

    template = files("tacit.reproduce").joinpath("paper.html").read_text(encoding="utf-8")
    environment = Environment(autoescape=True)
    environment.filters["with_code"] = _with_code
    page = environment.from_string(template)
    path = folder / f"{paper.package}.html"
    folder.mkdir(parents=True, exist_ok=True)
    sections = [_section(result, folder) for result in results]
    shown = [
        cell for section in sections for table in section["tables"] for row in table["rows"] for cell in row[-2:-1]
    ]
    done = [result for result in results if not result.missing]
    said = conditions(
        {word: shown.count(word) for word in VERDICTS},
        absent,
        quick=any(result.settings["quick"] for result in done),
        empty=not done,
    )
    path.write_text(page.render(paper=paper, sections=sections, conditions=said), encoding="utf-8")
    return path


def write_markdown(paper: Paper, results: Sequence[ItemResult], folder: Path, absent: Sequence[str] = ()) -> Path:
    """Write the page of a paper as Markdown, and its figures as SVG files in a folder beside it.

    Sections of an earlier page are kept for items that are absent now, and the page names them: a long run can be added to a
    page part by part.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{paper.name}.md"
    kept = {name: _with_links(text, paper, name, folder) for name, text in _sections_of(path).items() if name in absent}
    lines = [f"# {paper.name}", "", paper.citation, ""]
    order = {entry.name: place for place, entry in enumerate(catalogue()) if entry.paper == paper.name}
    sections = [(result.item.name, "\n".join(map(_wrapped, _markdown(paper, result, folder)))) for result in results]
    sections = sorted([*sections, *kept.items()], key=lambda one: order.get(one[0], len(order)))
    counts = {word: sum(text.count(f"| {word} |") for _, text in sections) for word in VERDICTS}
    quick = any(result.settings["quick"] for result in results)
    texts = conditions(counts, [name for name in absent if name not in kept], quick=quick, empty=not sections)
    if kept:
        names = [name for name, _ in sections if name in kept]
        texts.append(f"Kept from an earlier page, without the file of its result: {', '.join(names)}.")
    lines += [line for text in texts for line in (text, "")]
    written = "\n".join([*map(_wrapped, lines), *(f"{text.rstrip()}\n" for _, text in sections)])
    path.write_text(written.rstrip() + "\n", encoding="utf-8")
    return path


def _sections_of(path: Path) -> dict[str, str]:
    """Return the sections of a page by the names of their items."""
    if not path.exists():
        return {}
    parts = path.read_text(encoding="utf-8").split("\n## ")[1:]
    return {part.partition(":")[0]: f"## {part}" for part in parts}


def _markdown(paper: Paper, result: ItemResult, folder: Path) -> list[str]:
    """Return the lines of one section, and write its figures."""
    section, drawn = _section(result, folder), folder / paper.name
    lines = [f"## {section['heading']}", ""]
    lines += [line for text in section["notes"] for line in (text, "")]
    for earlier in drawn.glob(f"{result.item.name}-*.svg"):
        if earlier.stem.removeprefix(f"{result.item.name}-").isdigit():
            earlier.unlink()
    for table in section["tables"]:
        heads = table["headings"]
        lines += [f"*{table['caption']}*", "", "| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
        lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in table["rows"]] + [""]
    for place, drawing in enumerate(section["drawings"]):
        drawn.mkdir(exist_ok=True)
        name = f"{result.item.name}-{place + 1}.svg"
        (drawn / name).write_text(drawing["svg"], encoding="utf-8")
        lines += [f"![{drawing['caption']}]({paper.name}/{name})", "", f"*{drawing['caption']}*", ""]
    for shown in section["words"]:
        lines += [f"*{shown['caption']}*", ""]
        lines += [f"- {part['label']}: {', '.join(part['words'])}" for part in shown["lists"]] + [""]
    lines += [f"- {verdict}" for verdict in section["verdicts"]] + ([""] if section["verdicts"] else [])
    return [*lines, _code_line(result.item, folder), ""]


def _code_line(entry: Item, folder: Path) -> str:
    links = ", ".join(f"[`{name}`]({link})" for name, link in _code(entry, folder))
    return f"Code: {links}. Computed by `{_command(entry)}`."


def _with_links(text: str, paper: Paper, name: str, folder: Path) -> str:
    """Return a section of an earlier page with links to where the code is now."""
    for entry in catalogue():
        if (entry.paper, entry.name) == (paper.name, name):
            lines = [_code_line(entry, folder) if line.startswith("Code: ") else line for line in text.split("\n")]
            return "\n".join(lines)
    return text


def _wrapped(line: str) -> str:
    """Break a long line of prose; tables, links and headings stay on one line."""
    if line.startswith(("|", "#")) or "](" in line:
        return line
    indent = "  " if line.startswith("- ") else ""
    return fill(line, 100, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def conditions(counts: dict[str, int], absent: Sequence[str], *, quick: bool, empty: bool) -> list[str]:
    """Say how many numbers are better, worse and so on, what has no result, and whether the numbers mean anything."""
    if empty:
        return ["Nothing was computed."]
    verdicts = ", ".join(f"{word}: {count}" for word, count in counts.items() if count)
    said = [QUICK] if quick else []
    said += [f"Numbers beside the paper's, by verdict: {verdicts}."] if verdicts else []
    said += [f"Without a result: {', '.join(absent)}."] if absent else []
    return said


def _section(result: ItemResult, folder: Path) -> dict[str, Any]:
    entry, outcome = result.item, result.outcome
    notes = []
    if not result.missing:
        often = result.settings["repetitions"]
        notes.append(
            f"Page {entry.page} of the paper. Computed on {result.date} in {_time(result.seconds)} ({result.machine}), "
            + (f"at most {often} repetitions." if often > 1 else "1 repetition.")
        )
    notes += [f"Stand-in: {text}" for text in result.stand_ins]
    notes += [f"Not computed: {result.missing}"] if result.missing else []
    return {
        "heading": f"{entry.name}: {entry.title}",
        "anchor": entry.name,
        "notes": notes,
        "tables": [
            {
                "caption": table.caption,
                "headings": table.headings(),
                "rows": (cells := table.cells()),
                "spans": _spans([row[-1] for row in cells]),
                "labels": len(table.columns),
            }
            for table in outcome.tables
        ],
        "drawings": [{"caption": figure.caption, "svg": curves_svg(figure)} for figure in outcome.figures]
        + [{"caption": grid.caption, "svg": pictures_svg(grid)} for grid in outcome.pictures],
        "words": [
            {"caption": shown.caption, "lists": [{"label": part.label, "words": part.words} for part in shown.lists]}
            for shown in outcome.words
        ],
        "verdicts": outcome.verdicts,
        "code": _code(entry, folder),
        "command": _command(entry),
    }


def _code(entry: Item, folder: Path) -> list[tuple[str, str]]:
    """Return the names of an item's algorithms and of its function, with links."""
    found = [(name, source_link(resolve(name), folder)) for name in entry.code]
    return [*found, (f"{entry.run.__module__}.{entry.run.__name__}", source_link(entry.run, folder))]


def _command(entry: Item) -> str:
    return f"tacit reproduce {entry.paper} {entry.name}"


def _spans(remarks: Sequence[str]) -> list[int]:
    """Return, for each row, how many rows its remark stands for; 0 if it is that of the row before."""
    spans: list[int] = []
    for _, same in itertools.groupby(remarks):
        count = len(list(same))
        spans += [count, *[0] * (count - 1)]
    return spans


def _time(seconds: float) -> str:
    if seconds < 1.5:
        return "about a second"
    return f"{seconds:.0f} seconds" if seconds < 120 else f"{seconds / 60:.0f} minutes"


def _with_code(text: str) -> Markup:
    """Return a sentence as HTML; what stands between backticks is code."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def source_link(described: ModuleType | Callable[..., object], folder: Path) -> str:
    """Return a link, relative to `folder`, to the line of the source at which a class, function or module begins."""
    line = 1
    path = Path(inspect.getsourcefile(described) or "")
    if not inspect.ismodule(described):
        line = inspect.getsourcelines(described)[1]
    return f"{Path(os.path.relpath(path, folder)).as_posix()}#L{line}"


def resolve(name: str) -> Any:
    """Return the object of a dotted name."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            target: Any = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[length:]:
            target = getattr(target, attribute)
        return inspect.unwrap(target) if callable(target) else target
    raise ModuleNotFoundError(name)
