"""`tacit app`: web pages for the person who holds the data, on this computer."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import typer

from tacit.errors import InvalidInputError, words

FOLDERS = typer.Argument(None, help="Folders in which files can be picked; the current one if none is named.")
STATE = typer.Option(Path("tacit-app"), help="Folder in which the app keeps uploads, runs and sessions.")
LEDGER = typer.Option(None, envvar="TACIT_LEDGER", help="Ledger to charge; ledger.db in the state folder if not given.")
MEMORY = typer.Option(
    None, help="Memory that a run may use, in GB; three quarters of this computer's if not given.", min=0.1
)
GIGABYTE = 2**30  # bytes


def app(
    folders: list[Path] | None = FOLDERS,
    state: Path = STATE,
    ledger: Path | None = LEDGER,
    port: int = typer.Option(8765, help="Port to listen at; 0 for any that is free.", min=0, max=65535),
    memory: float | None = MEMORY,
    max_upload: float = typer.Option(1.0, help="Largest file that can be uploaded, in GB.", min=0.001),
    open_browser: bool = typer.Option(False, "--open", help="Open the address in this computer's browser."),
) -> None:
    """Show the pages of tacit in a browser, for this computer only.

    Prints an address that works once. Runs go on if the app is stopped, and are found when it starts again.
    """
    try:
        from tacit.app.server import serve
    except ModuleNotFoundError as error:
        raise InvalidInputError(
            "the packages of tacit[app]", words(f"no {error.name}"), "Install them: pip install 'tacit[app]'."
        ) from None

    def ready(address: str) -> None:
        typer.echo(f"Open this address in your browser; it works once:\n{address}")
        typer.echo(f"Everything is kept in {state}. Stop with Ctrl+C.")
        if open_browser:
            import webbrowser

            webbrowser.open(address)
        sys.stdout.flush()

    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    serve(
        [Path(folder) for folder in folders or [Path()]],
        state=state.absolute(),
        ledger=(ledger or state / "ledger.db").absolute(),
        command=[sys.executable, "-c", "from tacit.cli.main import main; main()"],
        port=port,
        memory=int(0.75 * physical if memory is None else memory * GIGABYTE),
        most_uploaded=int(max_upload * GIGABYTE),
        ready=ready,
    )
