"""`tacit reproduce`: tables and figures of the five papers, ours beside the paper's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tacit.cli import options
from tacit.cli.output import print_json, print_table
from tacit.errors import InvalidInputError, words

if TYPE_CHECKING:
    from tacit.reproduce.catalogue import Item, ItemRun
    from tacit.reproduce.data import DataFolder
    from tacit.reproduce.results import ItemResult


def reproduce(
    paper: str = typer.Argument(
        None, help="saha-imtiaz, mugdho-imtiaz, tsikhanovich, ermis, thapa, or claims. Without it, all."
    ),
    names: list[str] = typer.Argument(None, help="Tables and figures, as in table-4 figure-5."),  # noqa: B008
    everything: bool = typer.Option(False, "--all", help="All tables and figures of the paper, or of all papers."),
    quick: bool = typer.Option(False, "--quick", help="Small sizes, one repetition: shows that all runs."),
    data: Path = typer.Option(None, envvar="TACIT_DATA", help="Folder with the data sets."),  # noqa: B008
    output: Path = typer.Option(Path("tacit-reproduce"), help="Folder for results and pages."),  # noqa: B008
    markdown: Path = typer.Option(None, help="Folder to write pages as Markdown to, too."),  # noqa: B008
    repetitions: int = typer.Option(3, help="Repetitions of random measurements."),
    seed: int = typer.Option(0, help="Seed of splits and starts."),
    pages_only: bool = typer.Option(
        False, "--pages", help="Compute nothing: write the pages of the results that are there."
    ),
    overwrite: bool = typer.Option(False, "--overwrite", help="Compute again what has a result."),
    as_json: bool = options.JSON,
) -> None:
    """Compute tables and figures of the papers on which tacit is based, and compare them with the printed numbers.

    Without names, lists them with the time and the data that they need. A result is kept as a JSON file and used again by a
    later run with the same settings, so an interrupted run goes on where it ended. One HTML page is written per paper. What
    fails is named at the end, after all others were computed.
    """
    from tacit.reproduce.catalogue import ItemRun, chosen, paper_of
    from tacit.reproduce.data import DataFolder
    from tacit.reproduce.pages import write_html, write_markdown
    from tacit.reproduce.results import obtain, read
    from tacit.validation import check_count, check_seed

    check_count(repetitions, "repetitions")
    check_seed(seed)
    folder = DataFolder(data)
    if not everything and not names and not pages_only:
        show_catalogue(chosen(paper, ()), folder, as_json=as_json)
        return
    if everything and names:
        raise InvalidInputError("--all or names of tables and figures", words("both"), "Leave one of them out.")
    items = chosen(paper, names or ())
    run = ItemRun(folder, quick, 1 if quick else repetitions, seed)
    results: list[ItemResult] = []
    if not pages_only:
        with progress(items, quiet=as_json) as begin:
            results = obtain(items, run, output, overwrite=overwrite, begin=lambda entry: begin(entry, run))
    failed = [result for result in results if result.error is not None]
    results = [result for result in results if result.error is None]
    if names and (missing := [result for result in results if result.missing]):
        folder[next(name for name in missing[0].item.needs if folder.state(name) == "missing")]  # raises MissingData
    pages = []
    for name in dict.fromkeys(entry.paper for entry in items):
        # the page shows all that there is for the paper, of this run and of earlier ones
        here = {result.item.name: result for result in results if result.item.paper == name}
        shown = [
            here.get(entry.name) or read(output / entry.paper / f"{entry.name}.json", entry)
            for entry in chosen(name, ())
        ]
        present = [result for result in shown if result is not None]
        absent = [entry.name for entry, result in zip(chosen(name, ()), shown, strict=True) if result is None]
        pages.append(write_html(paper_of(name), present, output, absent))
        if markdown is not None:
            pages.append(write_markdown(paper_of(name), present, markdown, absent))
    if not (as_json and failed):  # then the error is the only JSON
        show_results(results, pages, as_json=as_json)
    for result in failed:
        typer.echo(f"failed: {result.item.paper} {result.item.name} ({type(result.error).__name__})", err=True)
    for result in failed:
        if result.error is not None:
            raise result.error


def show_catalogue(items: Sequence[Item], folder: DataFolder, *, as_json: bool) -> None:
    """List the items, with the time and the data that they need."""
    listed = [
        {
            "paper": entry.paper,
            "item": entry.name,
            "title": entry.title,
            "page": entry.page,
            "minutes": entry.minutes,
            "data": {name: folder.state(name) for name in entry.needs},
        }
        for entry in items
    ]
    if as_json:
        print_json(listed)
        return
    rows = [
        [
            entry.paper,
            entry.name,
            entry.title,
            str(entry.page),
            f"{entry.minutes:g}",
            ", ".join(f"{name} ({folder.state(name)})" for name in entry.needs) or "-",
        ]
        for entry in items
    ]
    print_table("Tables and figures", ["paper", "name", "title", "page", "minutes", "data"], rows)
    missing = sorted({name for entry in items for name in entry.needs if folder.state(name) == "missing"})
    for name in missing:
        typer.echo(f"missing: {name}: {folder.missing(name)}")
    typer.echo("Run one as in: tacit reproduce saha-imtiaz table-4 --data FOLDER")


@contextmanager
def progress(items: Sequence[Item], *, quiet: bool) -> Iterator[Callable[[Item, ItemRun], ItemRun]]:
    """Yield a function that is called when an item begins, and returns the run with a bar for its parts."""
    if quiet:
        yield lambda entry, run: run
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    with Progress(
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f}"),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    ) as bar:
        whole = bar.add_task("all", total=len(items))
        inner = bar.add_task("", total=1)
        places = {(entry.paper, entry.name): place for place, entry in enumerate(items)}

        def begin(entry: Item, run: ItemRun) -> ItemRun:
            bar.update(whole, completed=places[entry.paper, entry.name])
            bar.reset(inner, description=f"{entry.paper} {entry.name}", total=1)
            return replace(run, progress=lambda done, total: bar.update(inner, completed=done, total=total))

        yield begin
        bar.update(whole, completed=len(items))


def show_results(results: Sequence[ItemResult], pages: Sequence[Path], *, as_json: bool) -> None:
    """Print the tables beside those of the papers, and where the pages are."""
    if as_json:
        print_json({"results": [result.to_json() for result in results], "pages": [str(page) for page in pages]})
        return
    for result in results:
        entry = result.item
        typer.secho(f"\n{entry.paper} {entry.name}: {entry.title} (page {entry.page})", bold=True)
        for note in result.stand_ins:
            typer.echo(f"stand-in: {note}")
        if result.missing:
            typer.echo(f"not computed: {result.missing}")
        for table in result.outcome.tables:
            print_table(table.caption, table.headings(), table.cells())
        for verdict in result.outcome.verdicts:
            typer.echo(f"- {verdict}")
        drawn = len(result.outcome.figures) + len(result.outcome.pictures) + len(result.outcome.words)
        if drawn:
            typer.echo(f"{drawn} figure{'s' if drawn > 1 else ''} on the page")
        typer.echo("used again from an earlier run" if result.reused else f"{result.seconds:.1f} seconds")
    typer.echo("")
    for page in pages:
        typer.echo(f"Page: {page}")
