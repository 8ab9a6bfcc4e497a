"""The `tacit` command. Slow imports are done by the commands that need them."""

from __future__ import annotations

import json
import os
import sys
import traceback
import warnings
from pathlib import Path
from typing import NoReturn

import typer

from tacit.cli.app import app as pages
from tacit.cli.apply import predict, transform
from tacit.cli.audit import CONTEXT as AUDIT_CONTEXT
from tacit.cli.audit import audit
from tacit.cli.budget import app as budget
from tacit.cli.calibrate import calibrate
from tacit.cli.demo import demo
from tacit.cli.fit import app as fit
from tacit.cli.measure import app as measure
from tacit.cli.parties import app as parties
from tacit.cli.perturb import perturb
from tacit.cli.recommend import recommend
from tacit.cli.reproduce import reproduce
from tacit.cli.tables import app as tables
from tacit.cli.wording import OptionNames, in_options
from tacit.errors import TacitError

DEBUG = "TACIT_DEBUG"

app = typer.Typer(
    cls=OptionNames,
    name="tacit",
    help="Private matrix and tensor factorisation, with a guarantee that you can check.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command()(demo)
app.command()(recommend)
app.command()(transform)
app.command()(predict)
app.command()(perturb)
app.command()(calibrate)
app.command()(reproduce)
app.command(context_settings=AUDIT_CONTEXT)(audit)
app.command(name="app")(pages)
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
    debug: bool = typer.Option(
        False,
        "--debug",
        envvar=DEBUG,
        help="Print the traceback of an error with all its causes. It may hold values of the data: do not pass it on.",
    ),
) -> None:
    os.environ[DEBUG] = str(int(debug))  # for `main`, and for commands that this one starts


def main() -> None:
    """Run the command line; an error prints a message without values of the data, and sets the exit code.

    For unexpected errors, only the type and the place in the code are shown.
    """
    warnings.formatwarning = lambda message, *_: f"warning: {in_options(str(message))}\n"  # without the source's line
    try:
        app()
    except TacitError as error:
        _fail(error, str(error), error.fix, error.exit_code)
    except BrokenPipeError:
        sys.exit(141)  # the reader has ended, as after `| head`: the code that a shell reports for it
    except OSError as error:  # without the path, which may be that of a person's record
        fix = "Check that the paths of the command can be read and written, and that the disk is not full."
        _fail(error, f"{error.strerror or type(error).__name__}. {fix}", fix, 1)
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:  # also a panic of polars, which is not an Exception
        from tacit import __version__

        fix = (
            f"This is a bug of tacit {__version__}: please report this message and the command, without the data, to the issue "
            "tracker. TACIT_DEBUG=1, or --debug before the command, shows the whole error, which may hold values of the data."
        )
        _fail(error, f"unexpected {type(error).__name__} in {_place(error)}. {fix}", fix, 1)


def _fail(error: BaseException, message: str, fix: str, exit_code: int) -> NoReturn:
    if os.environ.get(DEBUG) == "1":
        cause: BaseException | None = error
        while cause is not None:
            cause.__suppress_context__ = False  # show causes that `from None` hides
            cause = cause.__cause__ or cause.__context__
        traceback.print_exception(error)
    if "--json" in sys.argv:
        typer.echo(json.dumps({"error": {"kind": type(error).__name__, "message": message, "fix": fix}}))
    else:
        typer.secho("error: ", fg="red", bold=True, err=True, nl=False)
        typer.echo(message, err=True)
    sys.exit(exit_code)


def _place(error: BaseException) -> str:
    """Return the innermost line of tacit that an error passed."""
    package = Path(__file__).parents[1]
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if package in Path(frame.filename).parents]
    return f"{Path(frames[-1].filename).relative_to(package.parent)}, line {frames[-1].lineno}"
