"""`tacit fit coupled`: matrices and tensors that share factors, described in one TOML file."""

from __future__ import annotations

from pathlib import Path

import typer

from tacit.cli import options
from tacit.cli.output import progress, show_fit

SPEC = typer.Argument(help="A TOML file: ranks, and a [[relation]] section for every data file.")


def coupled(
    spec: Path = SPEC,
    output: Path = typer.Option(Path("tacit-coupled"), help="Folder to write to."),  # noqa: B008
    overwrite: bool = options.OVERWRITE,
    as_json: bool = options.JSON,
) -> None:
    """Factorise coupled matrices and tensors, without privacy.

    Writes model/coupled.tacit, result.json and report.html. The scores come from a fit without the held-out cells, the model
    from all of them.
    """
    from tacit.cli.read_coupled import read_description
    from tacit.report import ResultFolder, compare_coupled

    with ResultFolder(output, overwrite=overwrite), progress(4, quiet=as_json) as advance:
        advance("reading the relations")
        read = read_description(spec)
        found = compare_coupled(
            read.relations,
            read.ranks,
            held_out=read.held_out,
            names=read.names,
            random_state=read.seed,
            source={"spec": str(spec.resolve())},
            progress=advance,
            **read.model,
        )
        advance("writing the report")
        found.write(output)
    show_fit(found, output, as_json=as_json)
