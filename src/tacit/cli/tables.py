"""`tacit tables`: the public description of a table, and synthetic rows from a saved private table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tacit.cli import options
from tacit.cli.output import check_output_file, print_json
from tacit.errors import InvalidInputError, parameter

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from narwhals.typing import IntoDataFrame
    from numpy.typing import NDArray

app = typer.Typer(help="Draft the schema that a private table needs; draw rows from a saved one.", no_args_is_help=True)

TABLE = typer.Argument(help="The table: csv, csv.gz, tsv or parquet, with names of columns.")
MODEL = typer.Argument(help="A saved private table, or the folder that a fit wrote.")
ROWS = typer.Option(Path("synthetic.csv"), "--output", "-o", help="File to write: csv or parquet.")
GIVEN = typer.Option([], "--given", help="column=value that all rows shall have; repeat it.")
OUTPUT = typer.Option(Path("columns.toml"), "--output", "-o", help="File to write the draft to: toml or json.")


@app.command()
def schema(
    table: Path = TABLE,
    output: Path = OUTPUT,
    overwrite: bool = typer.Option(False, "--overwrite", help="Replace the output if it exists."),
    as_json: bool = options.JSON,
) -> None:
    """Draft the schema of a table: kinds, bounds and categories of its columns.

    The draft is made from the rows, without protection, and says so. Check every line, replace what comes from the rows by what
    is known without them, and set public = true: this is your statement that it is public. Until then, private tables refuse
    it.
    """
    check_output_file(output, overwrite=overwrite)
    from tacit.data.files import read_frame
    from tacit.data.schema import draft_schema

    draft = draft_schema(read_frame(table, as_text=True))
    draft.save(output)
    if as_json:
        print_json({"output": str(output), **draft.to_dict()})
        return
    typer.echo(f"Draft: {output}. It was made from the rows and is not public yet.")
    typer.echo(
        "Check every line, replace what comes from the rows by what is known without them, and set public = true. This is your "
        "statement that the schema is public."
    )
    if draft.left_out:
        typer.echo(
            f"Left out, because they look like identifiers or free text, or have one value only: {', '.join(draft.left_out)}"
        )


@app.command()
def sample(
    model: Path = MODEL,
    output: Path = ROWS,
    rows: int | None = typer.Option(None, help="How many rows; the noisy number of rows of the fit if not given."),
    given: list[str] = GIVEN,
    seed: int | None = typer.Option(None, help="Makes the draw repeatable; it takes nothing from the guarantee."),
    overwrite: bool = typer.Option(False, "--overwrite", help="Replace the output if it exists."),
    as_json: bool = options.JSON,
) -> None:
    """Draw synthetic rows from a saved private table. This costs no budget, however many rows are drawn."""
    from tacit.cli.apply import WRITERS, check_written, loaded

    check_written(output, overwrite=overwrite)
    fitted = loaded(model, "sample", "tacit perturb --method private-table makes a model that has it")
    held = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise InvalidInputError("--given as column=value", parameter(text), "For instance --given sex=f.")
        held[name] = value
    drawn = _polars(
        fitted.sample(rows, given=held or None, random_state=seed), [one["name"] for one in fitted.columns_]
    )
    getattr(drawn, WRITERS[output.suffix.lower()])(output)
    if as_json:
        print_json({"output": str(output), "rows": len(drawn), "guarantee": fitted.guarantee_.to_dict()})
        return
    what = "may be passed on" if fitted.guarantee_.holds else "stay with the holder"
    typer.echo(f"{len(drawn)} synthetic rows: {output}. They {what}:")
    typer.echo(str(fitted.guarantee_))


def _polars(drawn: NDArray[np.float64] | IntoDataFrame, names: list[str]) -> pl.DataFrame:
    """Return synthetic rows, an array or a data frame of any kind, as a polars data frame."""
    import narwhals as nw
    import numpy as np
    import polars as pl

    return pl.DataFrame(drawn, schema=names) if isinstance(drawn, np.ndarray) else nw.from_native(drawn).to_polars()
