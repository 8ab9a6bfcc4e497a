"""`tacit measure`: what a release kept and what it gives away; a first word that names no command is a table."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from tacit.cli.measure_ksdp import ksdp
from tacit.cli.measure_tables import table

DEFAULT = "table"


class TableUnlessNamed(TyperGroup):
    """A group whose commands may be left out: ``measure a.csv b.csv`` is ``measure table a.csv b.csv``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the default command before arguments that do not begin with a command."""
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = [DEFAULT, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=TableUnlessNamed,
    help="Measure a release: `tacit measure original.csv release.csv` for tables, or a command below.",
    no_args_is_help=True,
)
app.command(DEFAULT)(table)
app.command()(ksdp)
