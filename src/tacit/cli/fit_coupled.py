"""`tacit fit coupled`: matrices and tensors that share factors, described in one TOML file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tacit.cli import options
from tacit.cli.budget import account
from tacit.cli.output import progress, show_fit
from tacit.cli.read import range_of
from tacit.errors import InvalidInputError, words

if TYPE_CHECKING:
    from tacit.cli.read_coupled import Description
    from tacit.report.result import FitResult

SPEC = typer.Argument(help="A TOML file: ranks, and a [\\[relation]] section for every data file.")
FRONTIER = typer.Option(
    False,
    "--frontier",
    help="With --epsilon: also draw the error against epsilon, on synthetic cells made from what was released (at no cost).",
)


def coupled(
    spec: Path = SPEC,
    epsilon: float | None = options.EPSILON,
    delta: float = options.DELTA,
    private: str | None = typer.Option(
        None,
        help="With --epsilon: the factor whose entities are protected; user if neither this nor \\[private] names it.",
    ),
    unit: str | None = typer.Option(None, help="With --epsilon: user (an entity with all its cells) or cell."),
    protect: str | None = typer.Option(
        None, help="With --epsilon: site (the entities' own factors stay here) or user (they are released, with noise)."
    ),
    value_range: str | None = typer.Option(
        None, help="With --epsilon: public least and greatest value of the private relations, as in 1:5."
    ),
    frontier: bool = FRONTIER,
    output: Path = typer.Option(Path("tacit-coupled"), help="Folder to write to."),  # noqa: B008
    overwrite: bool = options.OVERWRITE,
    ledger: Path | None = options.LEDGER,
    dataset: str | None = options.DATASET,
    as_json: bool = options.JSON,
) -> None:
    r"""Factorise coupled matrices and tensors; with --epsilon the shared factors may be released.

    Writes model/coupled.tacit, result.json and report.html. Without --epsilon, the scores come from a fit without the
    held-out cells, the model from all of them. With it, all fits are without the held-out cells. The section \[private] of the
    description has further settings of the private fit; the lists of entities must be given (\[names] or \[sizes]).
    """
    from tacit.cli.read_coupled import read_description
    from tacit.report.coupled import compare_coupled
    from tacit.report.result import ResultFolder

    given = given_settings(private=private, unit=unit, protect=protect, value_range=value_range)
    is_private = epsilon is not None
    if not is_private and (given or frontier):
        raise InvalidInputError(
            "--epsilon with --private, --unit, --protect, --value-range or --frontier",
            words("none"),
            "Give --epsilon for a private fit, or leave these options out.",
        )
    if is_private and ledger is not None and dataset is None:
        raise InvalidInputError(
            "--dataset with --ledger", words("none"), "A description is not the data: name the account of the data."
        )
    stages = 5 + is_private
    with ResultFolder(output, overwrite=overwrite, data=spec), progress(stages, quiet=as_json) as advance:
        advance("reading the relations")
        spending = account(ledger, dataset, spec, private=is_private)
        read = read_description(spec)
        source = {"spec": str(spec.resolve())}
        result: FitResult
        if epsilon is None:
            result = compare_coupled(
                read.relations,
                read.ranks,
                held_out=read.held_out,
                names=read.names,
                random_state=read.seed,
                source=source,
                progress=advance,
                **read.model,
            )
        else:
            result = _private(spec, read, given, epsilon, delta, frontier, spending, source, advance)
        advance("writing the report")
        result.write(output)
    show_fit(result, output, as_json=as_json)


def given_settings(*, value_range: str | None, **options: str | None) -> dict[str, Any]:
    """Return the settings that the options of a private fit give."""
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    return given if value_range is None else given | {"value_range": range_of(value_range, "--value-range")}


def private_settings(spec: Path, read: Description, given: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a private fit: those of the section [private], and before them those of the options."""
    from tacit.cli.read_coupled import check_given
    from tacit.report.private_coupled import check_private_settings

    check_private_settings(read.private)
    settings = {"private": "user", **read.private, **given}
    stated = settings.get("value_range")
    if isinstance(stated, list):  # a TOML array
        settings["value_range"] = tuple(stated)
    elif isinstance(stated, dict):
        settings["value_range"] = {
            name: tuple(ends) if isinstance(ends, list) else ends for name, ends in stated.items()
        }
    check_given(read, str(settings["private"]), spec)
    if settings.get("value_range") is None:
        raise InvalidInputError(
            "--value-range, the public range of the private values, with --epsilon",
            words("none: a range computed from the private cells would be a release without a charge"),
            "Give --value-range LOW:HIGH, or value_range = [LOW, HIGH] in [private].",
        )
    return settings


def _private(
    spec: Path,
    read: Description,
    given: dict[str, Any],
    epsilon: float,
    delta: float,
    frontier: bool,
    spending: dict[str, Any],
    source: dict[str, str],
    advance: Callable[[str], None],
) -> FitResult:
    from tacit.report.private_coupled import compare_private_coupled

    settings = private_settings(spec, read, given)
    return compare_private_coupled(
        read.relations,
        read.ranks,
        epsilon=epsilon,
        delta=delta,
        held_out=read.held_out,
        names=read.names,
        plain=read.model,
        frontier=frontier,
        **spending,
        random_state=read.seed,
        source=source,
        progress=advance,
        **settings,
    )
