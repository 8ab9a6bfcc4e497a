"""`tacit parties join`: this organisation's part in a job."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tacit.cli import options
from tacit.cli.output import show_fit

if TYPE_CHECKING:
    from tacit.parties.join import Part
    from tacit.parties.link import Traffic
    from tacit.report.party import PartyResult

JOB = typer.Argument(help="The job file that all parties hold.")
DATA = typer.Option(
    ...,
    help="This organisation's records: csv, parquet, npz, mtx; for coupled models the TOML file that describes them.",
)
IDENTITY = typer.Option(Path("tacit-identity"), help="Folder made by `tacit parties init`.")
OUTPUT = typer.Option(Path("tacit-parties"), "--output", "-o", help="Folder for model, result, report and checkpoint.")


def join(
    job: Path = JOB,
    party: str = typer.Option(..., "--as", help="Which of the job's parties this is."),
    data: Path = DATA,
    identity: Path = IDENTITY,
    output: Path = OUTPUT,
    resume: bool = typer.Option(False, "--resume", help="Go on from the checkpoint of an interrupted run."),
    listen: str = typer.Option("", help="HOST:PORT to listen at, if not the job's address."),
    wait: float = typer.Option(300.0, help="Seconds to wait for the others to come."),
    overwrite: bool = options.OVERWRITE,
    ledger: Path | None = options.LEDGER,
    dataset: str | None = options.DATASET,
    progress: str = typer.Option("bar", help="bar, lines (JSON on standard error), or none."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Take part in a job: fit the model with the other parties, keeping this organisation's records here.

    Writes model/ (the same for all), rows.npy (factors of its own records; they stay here), result.json, report.html. The
    model of coupled relations without privacy has this party's own factors in it, and stays here too.
    """
    import numpy as np

    from tacit.cli.budget import account
    from tacit.errors import InvalidInputError, parameter
    from tacit.parties import Identity, Job
    from tacit.parties import join as take_part
    from tacit.parties.models import estimator_of
    from tacit.report import ResultFolder

    agreed = Job.read(job)
    agreed.place(party)
    mine = Identity.read(identity)
    if mine.name != party:
        raise InvalidInputError(f"the identity of {party}", parameter(mine.name), "Give the folder of that identity.")
    records = _records(data, agreed, party)
    estimator = estimator_of(agreed)
    spending = account(ledger, dataset, data, private="ledger" in estimator.get_params())
    if spending:
        estimator.set_params(**spending)
    shown = _shown("none" if as_json and progress == "bar" else progress, party)
    with ResultFolder(output, overwrite=overwrite or resume), shown as on_round:
        part = take_part(
            agreed,
            mine,
            records,
            output,
            estimator=estimator,
            resume=resume,
            listen=listen,
            connect_seconds=wait,
            on_round=on_round,
        )
        result = _result(part, agreed, records, party)
        result.write(output)
        if hasattr(part.estimator, "transform"):
            np.save(output / "rows.npy", part.estimator.transform(records.X))
    show_fit(result, output, as_json=as_json)


def _records(data: Path, job: Any, party: str) -> Any:
    from tacit.cli.parties_relations import read_site
    from tacit.estimators.registry import JOBS, RELATIONS
    from tacit.parties.models import read_party_data

    if job.model in JOBS and JOBS[job.model].data == RELATIONS:
        return read_site(data, job, party)
    return read_party_data(data, job, party)


@contextmanager
def _shown(kind: str, party: str) -> Iterator[Callable[[int, Traffic], None]]:
    """Show rounds as they pass."""
    import time

    start = time.monotonic()
    if kind == "lines":

        def line(number: int, traffic: Traffic) -> None:
            computing = time.monotonic() - start - traffic.connecting - traffic.waiting
            values = {"party": party, "round": number, "sent": traffic.sent}
            values |= {"computing": round(computing, 3), "waiting": round(traffic.waiting, 3)}
            print(json.dumps(values), file=sys.stderr, flush=True)

        yield line
    elif kind == "bar":
        from rich.live import Live

        with Live(f"{party}: waiting for the others", refresh_per_second=4, transient=True) as live:

            def update(number: int, traffic: Traffic) -> None:
                computing = time.monotonic() - start - traffic.connecting - traffic.waiting
                live.update(
                    f"{party}: round {number}, {traffic.sent:,} bytes sent, "
                    f"{computing:.1f} s computing, {traffic.waiting:.1f} s waiting"
                )

            yield update
    else:
        yield lambda number, traffic: None


def _result(part: Part, job: Any, records: Any, party: str) -> PartyResult:
    from tacit.report.party import PartyResult

    return PartyResult(
        part.estimator,
        party,
        [other.name for other in job.parties],
        {"name": job.name, "digest": job.digest, "model": job.model, "settings": dict(job.settings)},
        records.records,
        part.summary(),
        title=f"{job.name}: the part of {party}",
        model_name=job.model,
    )
