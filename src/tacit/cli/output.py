"""How commands print: tables for people, one JSON object for machines."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tacit.errors import InvalidInputError, parameter

if TYPE_CHECKING:
    from tacit.report.result import FitResult


def print_json(values: Any) -> None:
    """Print one JSON object on standard output."""
    print(json.dumps(values, indent=2))


def show_fit(result: FitResult, output: Path, *, as_json: bool) -> None:
    """Print what a fit found, for the holder."""
    if as_json:
        print_json(result.summary)
        return
    typer.echo(str(result.guarantee))
    for line in result.lines():
        typer.echo(line)
    typer.echo(f"Report: {output / 'report.html'}")


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table that fits the terminal; written to a file or a pipe it keeps its full width."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    if not console.is_terminal:
        console = Console(width=160)
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column)
    for row in rows:
        # as Text, not markup: names and purposes are the user's own words
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)


def check_output_file(path: Path, *, overwrite: bool) -> None:
    """Raise if there is a file that the user did not ask to replace, or if the path cannot be written to.

    Call it before any work: what was paid for must not be lost because its place is taken.
    """
    if path.exists() and not overwrite:
        raise InvalidInputError(
            "an output file that does not exist yet",
            parameter(str(path)),
            "Nothing was computed or charged. Give another output, or --overwrite.",
        )
    above = next(parent for parent in path.absolute().parents if parent.exists())
    if path.is_dir() or not above.is_dir() or not os.access(above, os.W_OK):
        raise InvalidInputError(
            "an output file that can be written",
            parameter(str(path)),
            "Nothing was computed or charged. Give another output.",
        )


@contextmanager
def progress(stages: int, *, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Yield a function that names the next stage; a bar for people, nothing when `quiet`."""
    if quiet:
        yield lambda stage: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        BarColumn(),
        TextColumn("{task.fields[done]}/{task.total}"),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns) as bar:
        task, begun = bar.add_task("starting", total=stages, done=0), itertools.count()

        def advance(stage: str) -> None:
            done = next(begun)  # the first stage begins, and none is done
            bar.update(task, completed=done, done=done, description=stage)

        yield advance
        bar.update(task, completed=stages, done=stages, description="done")
