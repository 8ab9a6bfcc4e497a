"""`tacit parties`: several organisations fit one model; here the identity of each and the job they agree on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tacit.cli.output import print_json
from tacit.cli.parties_consent import review
from tacit.cli.parties_join import join
from tacit.cli.parties_relations import outline
from tacit.cli.parties_settings import feature_names, schema_columns, settings_of
from tacit.cli.parties_simulate import simulate
from tacit.errors import InvalidInputError, parameter

if TYPE_CHECKING:
    from tacit.parties import Party

app = typer.Typer(help="Fit one model among several organisations; nobody's records leave them.", no_args_is_help=True)


app.command()(join)


app.command()(review)


app.command()(simulate)


app.command()(outline)


IDENTITY = typer.Option(Path("tacit-identity"), help="Folder for key.pem (stays here) and certificate.pem (send it).")


PARTIES = typer.Option(..., "--party", help="NAME=certificate.pem@HOST:PORT; repeat it for every party.")


FEATURES = typer.Option(
    None,
    help="File with one column name per line, or a table with these columns; for coupled models, all parties' outlines.",
)


SCHEMA = typer.Option(None, help="For private-table: the public schema of the columns, which all parties use.")


SETTINGS = typer.Option([], "--set", help="A setting of the model, as n_components=14; repeat it.")


OUTPUT = typer.Option(Path("job.toml"), "--output", "-o", help="File to write.")


JOB = typer.Argument(help="The job file.")


@app.command()
def init(
    name: str = typer.Argument(help="Name of this organisation, as in hospital-a."),
    folder: Path = IDENTITY,
    days: int = typer.Option(825, help="How long the certificate is valid."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Make this organisation's identity: a private key, and the certificate that the others pin."""
    from tacit.parties import Identity

    identity = Identity.create(name, days=days)
    certificate = identity.write(folder)
    if as_json:
        print_json({"name": name, "certificate": str(certificate), "fingerprint": identity.fingerprint})
        return
    typer.echo(f"Send {certificate} to the other parties, and compare the fingerprint with them by telephone:")
    typer.echo(identity.fingerprint)


@app.command("job")
def make_job(
    name: str = typer.Argument(help="Name of the job."),
    model: str = typer.Option(..., help="nmf, private-nmf, svd, pca, ..."),
    party: list[str] = PARTIES,
    features: Path | None = FEATURES,
    schema: Path | None = SCHEMA,
    settings: list[str] = SETTINGS,
    target: str = typer.Option("", help="Column to predict, for regression."),
    colluding: int = typer.Option(1, help="How many parties may pool what they know (private models)."),
    survive: int = typer.Option(0, help="How many parties may leave for good without ending the run."),
    word_bits: int = typer.Option(128, help="64 or 128: the size of the numbers that are summed."),
    timeout: float = typer.Option(60.0, help="Seconds without a sign of life after which a party counts as gone."),
    output: Path = OUTPUT,
) -> None:
    """Write the job that all parties will hold: who, what, and a digest of every character of it."""
    from tacit.parties import Job
    from tacit.parties.models import check_job

    given = settings_of(settings)
    columns = schema_columns(schema, model, given) if features is None else feature_names(features, model)
    made = Job(
        name,
        model,
        given,
        [column for column in columns if column != target],
        [_party(text) for text in party],
        target=target,
        colluding=colluding,
        survive=survive,
        word_bits=word_bits,
        timeout=timeout,
    )
    check_job(made)  # a wrong setting is found now, not when all have come together
    typer.echo(f"Give {made.write(output)} to every party, as it is: {Job.read(output).digest}")


@app.command()
def seal(job: Path = JOB) -> None:
    """Put the right digest into a job file that was changed on purpose; then give it to all parties again."""
    from tacit.parties.job import reseal

    typer.echo(reseal(job).digest)


def _party(text: str) -> Party:
    from tacit.parties import Party

    name, equals, rest = text.partition("=")
    certificate, at, address = rest.rpartition("@")
    if not equals or not at or not Path(certificate).is_file():
        raise InvalidInputError(
            "NAME=certificate.pem@HOST:PORT, the file being there", parameter(text), "Check the three parts."
        )
    return Party(name, address, Path(certificate).read_bytes())
