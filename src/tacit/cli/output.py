"""Output of commands: tables for people, one JSON object for programs."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tacit.errors import InvalidInputError, parameter
from tacit.json_text import as_json
from tacit.progress import Told, show_progress

if TYPE_CHECKING:
    from tacit.privacy.ledger import Ledger
    from tacit.report.result import FitResult


charged: ContextVar[tuple[Ledger, str] | None] = ContextVar("charged", default=None)
"""The ledger and the account that the running command charges."""


def show_what_is_left() -> None:
    """Print what the account that was charged has left, if there is one."""
    account = charged.get()
    if account is None:
        return
    from tacit.privacy.rounding import exact, rounded_down

    book, name = account
    shown = "the account of these data" if name.startswith("sha256:") else name  # the content's fingerprint
    typer.echo(
        f"Charged to {shown} in {book.path}. The largest epsilon that still fits is "
        f"{rounded_down(book.affordable(name))}, at delta {exact(book.account(name).delta)}."
    )


def print_json(values: object) -> None:
    """Print one JSON object on standard output."""
    print(as_json(values))


def show_concern(what: str, advice: str, basis: str) -> None:
    """Print what a reader should know before using a result."""
    typer.secho("note: ", fg="yellow", bold=True, nl=False)
    typer.echo(f"{what} {advice} ({basis})")


def show_fit(result: FitResult, output: Path, *, as_json: bool) -> None:
    """Print the result of a fit, for the holder."""
    if as_json:
        print_json(result.summary)
        return
    for concern in result.concerns:
        show_concern(**concern.to_dict())
    typer.echo(str(result.guarantee))
    for line in result.lines():
        typer.echo(line)
    show_what_is_left()
    typer.echo(f"Report: {output / 'report.html'}")


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table that fits the terminal; in a file or a pipe it has its full width."""
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
        # as Text, not markup: names and purposes come from the user
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)


def check_output_file(path: Path, *, overwrite: bool) -> None:
    """Raise if there is a file that the user did not ask to replace, or if the path cannot be written to.

    Call it before any work, so that a result that has cost a budget is not lost because it cannot be written.
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
    """Yield a function to call with the name of each stage; it shows a progress bar, unless `quiet`.

    If the environment variable TACIT_PROGRESS names a file, each stage is appended to it as a JSON object: the app reads it.
    """
    noted = os.environ.get("TACIT_PROGRESS")
    if noted:
        begun_before = itertools.count()

        def note(stage: str) -> None:
            with Path(noted).open("a", encoding="utf-8") as file:
                file.write(json.dumps({"stage": stage, "done": next(begun_before), "of": stages}) + "\n")

        yield note
        return
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
        task, begun, current = bar.add_task("starting", total=stages, done=0), itertools.count(), ["starting"]

        def advance(stage: str) -> None:
            done, current[0] = next(begun), stage  # the first stage begins, and none is done
            bar.update(task, completed=done, done=done, description=stage)

        def detail(told: Told) -> None:
            bar.update(task, description=f"{current[0]}: {told}")

        with show_progress(detail):
            yield advance
        bar.update(task, completed=stages, done=stages, description="done")
