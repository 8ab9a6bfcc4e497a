"""The `tacit` command: one command a file; nothing heavy is imported before it is needed."""

from __future__ import annotations

import json
import sys

import typer

from tacit.cli.budget import app as budget
from tacit.cli.calibrate import calibrate
from tacit.cli.demo import demo
from tacit.cli.fit import app as fit
from tacit.cli.measure import app as measure
from tacit.cli.parties import app as parties
from tacit.cli.perturb import perturb
from tacit.cli.recommend import recommend
from tacit.cli.tables import app as tables
from tacit.errors import TacitError

app = typer.Typer(
    name="tacit",
    help="Factorise data that nobody may look at, with a guarantee you can check.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command()(demo)
app.command()(recommend)
app.command()(perturb)
app.command()(calibrate)
app.add_typer(fit, name="fit")
app.add_typer(parties, name="parties")
app.add_typer(tables, name="tables")
app.add_typer(measure, name="measure")
app.add_typer(budget, name="budget")


def _show_version(wanted: bool) -> None:
    if wanted:
        from tacit import __version__

        typer.echo(f"tacit {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    _version: bool = typer.Option(False, "--version", callback=_show_version, is_eager=True, help="Show the version."),
) -> None:
    pass


def main() -> None:
    """Run the command line; an expected error is a message and an exit code, not a traceback."""
    try:
        app()
    except TacitError as error:
        if "--json" in sys.argv:
            description = {"kind": type(error).__name__, "message": str(error), "fix": error.fix}
            typer.echo(json.dumps({"error": description}))
        else:
            typer.secho("error: ", fg="red", bold=True, err=True, nl=False)
            typer.echo(str(error), err=True)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.exit(141)  # the reader went away, as after `| head`: what a shell reports for it
