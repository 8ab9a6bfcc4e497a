"""`tacit measure`: what a model or a release kept, and what it gives away."""

from __future__ import annotations

import typer

from tacit.cli.measure_ksdp import ksdp

app = typer.Typer(help="Measure what was kept and what leaks.", no_args_is_help=True)
app.command()(ksdp)


@app.callback()
def _group() -> None:
    pass
