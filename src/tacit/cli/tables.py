"""`tacit tables`: what is public about a table, before anything is released from it."""

from __future__ import annotations

from pathlib import Path

import typer

from tacit.cli import options
from tacit.cli.output import check_output_file, print_json

app = typer.Typer(help="Describe a table: draft the schema that a private table needs.", no_args_is_help=True)

TABLE = typer.Argument(help="The table: csv, csv.gz, tsv or parquet, with names of columns.")
OUTPUT = typer.Option(Path("columns.toml"), "--output", "-o", help="File to write the draft to: toml or json.")


@app.callback()
def _tables() -> None:
    pass


@app.command()
def schema(
    table: Path = TABLE,
    output: Path = OUTPUT,
    overwrite: bool = typer.Option(False, "--overwrite", help="Replace the output if it exists."),
    as_json: bool = options.JSON,
) -> None:
    """Draft the schema of a table: kinds, bounds and categories of its columns.

    The draft is made from the rows, without protection, and says so. Check it line by line, replace what the rows showed by what
    is known without them, and set public = true: that is your statement that it is public. A private table refuses it before.
    """
    check_output_file(output, overwrite=overwrite)
    from tacit.data.frames import read_frame
    from tacit.data.schema_draft import draft_schema

    draft = draft_schema(read_frame(table, as_text=True))
    draft.save(output)
    if as_json:
        print_json({"output": str(output), **draft.to_dict()})
        return
    typer.echo(f"Draft: {output}. It was made from the rows and is not public yet.")
    typer.echo(
        "Check every line, replace what only the rows show by what is known without them, and set public = true. That is your "
        "statement that the schema is public."
    )
    if draft.left_out:
        typer.echo(f"Left out, because they look like identifiers or free text: {', '.join(draft.left_out)}")
