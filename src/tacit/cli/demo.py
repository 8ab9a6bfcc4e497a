"""`tacit demo`: a private fit of embedded data: plan, charge, release, guarantee, report."""

from __future__ import annotations

from pathlib import Path

import typer

from tacit.cli import options
from tacit.cli.output import print_json, progress

LEDGER_NAME = "demo-ledger.db"
"""A name that no real ledger has: the demonstration deletes the one of an earlier demonstration."""


def demo(
    output: Path = typer.Option(Path("tacit-demo"), help="Folder to write the model, result and report to."),  # noqa: B008
    overwrite: bool = options.OVERWRITE,
    epsilon: float = typer.Option(1.0, help="Total privacy loss of the fit."),
    delta: float = typer.Option(1e-6, help="Failure probability of the fit."),
    images: int = typer.Option(2000, help="Number of embedded images, one person each."),
    as_json: bool = options.JSON,
) -> None:
    """Find the parts of private images, and show what privacy costs.

    Each of the embedded images stands for one person. Their mean and covariance are released with noise; the parts are
    factorised from these.
    """
    from tacit.validation import check_count, check_epsilon, check_fit_delta

    check_epsilon(epsilon)
    check_fit_delta(delta)
    check_count(images, "images", least=10)
    from tacit.privacy import Ledger
    from tacit.report.demonstration import demonstrate
    from tacit.report.result import ResultFolder

    with ResultFolder(output, overwrite=overwrite), progress(6, quiet=as_json) as advance:
        for ending in ("", "-wal", "-shm"):
            (output / f"{LEDGER_NAME}{ending}").unlink(missing_ok=True)
        ledger = Ledger(output / LEDGER_NAME)
        result = demonstrate(ledger, epsilon=epsilon, delta=delta, n_images=images, progress=advance)
        advance("writing the report")
        result.write(output)
    if as_json:
        print_json(result.summary)
        return
    typer.echo("")
    typer.secho("Guarantee", bold=True)
    typer.echo(str(result.guarantee))
    typer.echo("")
    typer.secho("What privacy cost", bold=True)
    for line in result.lines():
        typer.echo(line)
    typer.echo(f"Report: {output / 'report.html'}")
    typer.echo("With your own data, in a browser: pip install 'tacit[app]', then tacit app FOLDER")
