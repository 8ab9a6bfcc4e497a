"""`tacit parties`: several organisations fit one model; here the identity of each and the job they agree on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from tacit.cli.output import print_json
from tacit.cli.parties_join import join
from tacit.cli.parties_relations import outline
from tacit.cli.parties_settings import feature_names, settings_of
from tacit.cli.parties_simulate import simulate
from tacit.errors import InvalidInputError, parameter

app = typer.Typer(help="Fit one model among several organisations; nobody's records leave them.", no_args_is_help=True)


app.command()(join)


app.command()(simulate)


app.command()(outline)


IDENTITY = typer.Option(Path("tacit-identity"), help="Folder for key.pem (stays here) and certificate.pem (send it).")


PARTIES = typer.Option(..., "--party", help="NAME=certificate.pem@HOST:PORT, once a party.")


FEATURES = typer.Option(
    ...,
    help="File with one column name a line, or a table whose columns they are; for coupled models, all parties' outlines.",
)


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
    features: Path = FEATURES,
    settings: list[str] = SETTINGS,
    target: str = typer.Option("", help="Column to predict, for regression."),
    colluding: int = typer.Option(1, help="How many parties may pool what they know (private models)."),
    word_bits: int = typer.Option(64, help="64 or 128: the size of the numbers that are summed."),
    timeout: float = typer.Option(60.0, help="Seconds that a party may stay silent."),
    output: Path = OUTPUT,
) -> None:
    """Write the job that all parties will hold: who, what, and a digest of every character of it."""
    from tacit.parties import Job
    from tacit.parties.models import check_job

    made = Job(
        name,
        model,
        settings_of(settings),
        [column for column in feature_names(features) if column != target],
        [_party(text) for text in party],
        target=target,
        colluding=colluding,
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


def _party(text: str) -> Any:
    from tacit.parties import Party

    name, equals, rest = text.partition("=")
    certificate, at, address = rest.rpartition("@")
    if not equals or not at or not Path(certificate).is_file():
        raise InvalidInputError(
            "NAME=certificate.pem@HOST:PORT, the file being there", parameter(text), "Check the three parts."
        )
    return Party(name, address, Path(certificate).read_bytes())
