"""`tacit parties outline`: what the others need to know of a party's relations; and reading relations for a job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tacit.errors import InvalidInputError, parameter

if TYPE_CHECKING:
    from tacit.parties.job import Job
    from tacit.parties.models import PartyData

SPEC = typer.Argument(help="The TOML file that describes this organisation's relations, as for `tacit fit coupled`.")
SHARED = typer.Option([], "--shared", help="A factor that other parties have too; repeat it.")


def outline(
    spec: Path = SPEC,
    party: str = typer.Option(..., "--as", help="Name of this organisation."),
    shared: list[str] = SHARED,
    private: str = typer.Option("", help="For a private model: the factor of the protected entities."),
) -> None:
    r"""Print what the others need to know of this organisation's relations: einsums, factors, sizes, and no data.

    Whoever writes the job puts the lines of all parties into one file, in the order of the parties, and gives it as --features.
    Of shared factors a digest of the entities' names goes along; with --private also one of the public relations' data.

    With --private nothing in the outline is read from private data: the entities of all factors of the private relations must
    be given, as lists in \[names] or, for data listed by place, as numbers in \[sizes].
    """
    from tacit.cli.read_coupled import check_given, read_description
    from tacit.parties.relations import outlines_of

    description = read_description(spec)
    if private:
        check_given(description, private, spec)
    for factor in shared:
        if not any(factor in relation.factors for relation in description.relations):
            raise InvalidInputError(
                "--shared to name a factor of these relations", parameter(factor), "Check the spelling."
            )
    names = {factor: description.names[factor] for factor in shared if factor in description.names}
    for line in outlines_of(description.relations, party, names=names, private=private or None):
        typer.echo(line)


def outlines_of_files(
    files: list[Path], parties: list[str], private: str | None, shared: Sequence[str] | None = None
) -> list[str]:
    """Return the outlines of all parties' relations, from one file per party.

    `shared` is that setting of a private model: the factors whose lists of entities must be the same.
    """
    from tacit.cli.read_coupled import check_given, read_description
    from tacit.parties.relations import outlines_of

    descriptions = [read_description(file) for file in files]
    if private is not None:
        for one, file in zip(descriptions, files, strict=True):
            check_given(one, private, file)
    uses = [{name for relation in one.relations for name in relation.factors} for one in descriptions]
    lines = []
    for one, party in zip(descriptions, parties, strict=True):
        names = {
            factor: listed
            for factor, listed in one.names.items()
            if (factor != private if shared is None else factor in shared) and sum(factor in used for used in uses) > 1
        }
        lines += outlines_of(one.relations, party, names=names, private=private)
    return lines


def read_site(path: Path, job: Job, party: str) -> PartyData:
    """Read a party's relations as the data of a job; refuse relations that do not match the job."""
    from tacit.cli.read_coupled import check_given, read_description
    from tacit.parties.models import PartyData
    from tacit.parties.relations import protected_by, site_of

    description = read_description(path)
    private = protected_by(job.features)
    if private is not None:
        check_given(description, private, path)
    for name, value in {"ranks": description.ranks, **description.model}.items():
        if not _agrees(job.settings.get(name), value):
            raise InvalidInputError(
                f"{name} = {job.settings.get(name)!r} from {party}, as the job says",
                parameter(value),
                f"The job's settings count: change or drop {name} in {path.name}.",
            )
    return PartyData(site_of(job.features, party, description.relations, description.names))


def _agrees(stated: object, given: object) -> bool:
    """Whether a party's setting is that of the job; it may leave out ranks of letters that only others use."""
    if isinstance(stated, Mapping) and isinstance(given, Mapping):
        return all(stated.get(letter) == rank for letter, rank in given.items())
    return bool(stated == given)


def read_records(data: Path, job: Job, party: str) -> PartyData:
    """Return a party's records, or relations, as the data of a job."""
    from tacit.estimators.registry import JOBS, RELATIONS
    from tacit.parties.models import read_party_data

    if job.model in JOBS and JOBS[job.model].data == RELATIONS:
        return read_site(data, job, party)
    return read_party_data(data, job, party)
