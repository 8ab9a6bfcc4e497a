"""`tacit parties join`: this organisation's part in a job."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tacit.cli import options
from tacit.cli.output import show_fit
from tacit.cli.parties_consent import RunsOfIdentity, confirm, ended_by_sigterm, private_files, seconds_of
from tacit.cli.parties_relations import read_records

if TYPE_CHECKING:
    from tacit.estimators.base import Estimator
    from tacit.parties.job import Job
    from tacit.parties.join import Part
    from tacit.parties.link import Traffic
    from tacit.parties.models import PartyData
    from tacit.report.party import PartyResult

JOB = typer.Argument(help="The job file that all parties hold.")
DATA = typer.Option(
    ...,
    help="This organisation's records: csv, parquet, npz, mtx; for coupled models the TOML file that describes them.",
)
IDENTITY = typer.Option(Path("tacit-identity"), help="Folder made by `tacit parties init`.")
OUTPUT = typer.Option(Path("tacit-parties"), "--output", "-o", help="Folder for model, result, report and checkpoint.")
YES = typer.Option(False, "--yes", help="Do not ask: this organisation has read what the job releases, and agrees.")
ACCEPT = typer.Option(
    False, "--accept-no-guarantee", help="Take part although the job's settings void the guarantee of its model."
)
TIMEOUT = typer.Option(
    None, help="Seconds without a sign of life after which a party counts as gone; the job's if not given."
)
HELD_OUT = typer.Option(
    None,
    help="Fraction of the records that are held out to see whether joining pays off: 0.1 if not given (coupled models: 0).",
)
CHECKPOINT = "checkpoint.db"
RESULTS = ("model", "rows.npy", "result.json", "report.html")


def join(
    job: Path = JOB,
    party: str = typer.Option(..., "--as", help="Which of the job's parties this is."),
    data: Path = DATA,
    identity: Path = IDENTITY,
    output: Path = OUTPUT,
    yes: bool = YES,
    accept_no_guarantee: bool = ACCEPT,
    resume: bool = typer.Option(False, "--resume", help="Go on from the checkpoint of an interrupted run."),
    new_run: bool = typer.Option(False, "--new-run", help="Start a second run of a job that was begun before."),
    retry: str = typer.Option("0", help="How long to wait for a lost party and go on by itself, as in 90s, 30m, 1h."),
    held_out: float | None = HELD_OUT,
    dry: bool = typer.Option(False, "--dry", help="Show what this organisation's own model gives, and do not join."),
    listen: str = typer.Option("", help="HOST:PORT to listen at, if not the job's address."),
    wait: float = typer.Option(300.0, help="Seconds to wait for the others to come."),
    timeout: float | None = TIMEOUT,
    use_proxy: bool = typer.Option(False, "--use-proxy", help="Use the proxy that the environment names."),
    overwrite: bool = options.OVERWRITE,
    ledger: Path | None = options.LEDGER,
    dataset: str | None = options.DATASET,
    progress: str = typer.Option("bar", help="bar, lines (JSON on standard error), or none."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Take part in a job: fit the model with the other parties, keeping this organisation's records here.

    Before the first connection it shows what the job will release, and asks (a script passes --yes).

    Writes model/ (the same for all), rows.npy (factors of its own records; they stay here), result.json, report.html. The
    model of coupled relations without privacy has this party's own factors in it, and stays here too.
    """
    import numpy as np

    from tacit.cli.budget import account
    from tacit.errors import InvalidInputError, parameter
    from tacit.parties import Identity, Job
    from tacit.parties import join as take_part
    from tacit.parties.consent import review
    from tacit.parties.journal import begun_in
    from tacit.parties.memory import keep_freed_memory
    from tacit.parties.models import check_job, estimator_of
    from tacit.report.result import ResultFolder

    agreed = Job.read(job)
    agreed.place(party)
    mine = Identity.read(identity)
    if mine.name != party:
        raise InvalidInputError(f"the identity of {party}", parameter(mine.name), "Give the folder of that identity.")
    check_job(agreed, accept_no_guarantee=accept_no_guarantee)
    records = read_records(data, agreed, party)
    estimator = estimator_of(agreed, accept_no_guarantee=accept_no_guarantee)
    fraction = _fraction(held_out, agreed, estimator)
    if dry:
        _show_own(agreed, estimator, records, fraction, as_json=as_json)
        return
    spending = account(ledger, dataset, data, private="ledger" in estimator.get_params())
    if spending:
        estimator.set_params(**spending)
        estimator.check_chargeable()
    retry_seconds = seconds_of(retry)
    resume = resume or (retry_seconds > 0 and (output / CHECKPOINT).exists())
    charged = (spending["ledger"], spending["dataset"]) if spending else None
    runs = RunsOfIdentity(identity, agreed.identity)
    # a checkpoint of which nothing was sent does not prove consent, and may be of another job
    if not begun_in(output / CHECKPOINT):
        runs.check_first(allowed=new_run)
        confirm(lambda: review(agreed, estimator, party=party, data=records, account=charged), yes=yes, quiet=as_json)
    keep_freed_memory()
    shown = _shown("none" if as_json and progress == "bar" else progress, party)
    earlier = [output / name for name in RESULTS] + list((output / "model").glob("*"))
    with (
        private_files(*earlier),
        ended_by_sigterm(),
        ResultFolder(output, overwrite=overwrite or resume, data=data),
        shown as tell,
    ):
        part = take_part(
            agreed,
            mine,
            records,
            output,
            estimator=estimator,
            resume=resume,
            retry=retry_seconds,
            held_out=fraction,
            listen=listen,
            connect_seconds=wait,
            timeout=timeout,
            proxy=use_proxy,
            on_begin=runs.note,
            on_round=tell.round,
            on_wait=tell.wait,
        )
        result = _result(part, agreed, records, party)
        result.write(output)
        if hasattr(part.estimator, "transform"):
            np.save(output / "rows.npy", part.estimator.transform(records.X))
    show_fit(result, output, as_json=as_json)


@dataclass(frozen=True)
class _Progress:
    """The functions that are called during a run."""

    round: Callable[[int, Traffic], None]
    wait: Callable[[str], None]


@contextmanager
def _shown(kind: str, party: str) -> Iterator[_Progress]:
    """Show rounds as they pass, and whom this party waits for."""
    import time

    start = time.monotonic()
    if kind == "lines":

        def line(number: int, traffic: Traffic) -> None:
            computing = time.monotonic() - start - traffic.connecting - traffic.waiting
            values = {"party": party, "round": number, "sent": traffic.sent}
            values |= {"computing": round(computing, 3), "waiting": round(traffic.waiting, 3)}
            print(json.dumps(values), file=sys.stderr, flush=True)

        yield _Progress(
            line, lambda text: print(json.dumps({"party": party, "state": text}), file=sys.stderr, flush=True)
        )
    elif kind == "bar":
        from rich.live import Live

        with Live(f"{party}: connecting", refresh_per_second=4, transient=True) as live:

            def update(number: int, traffic: Traffic) -> None:
                computing = time.monotonic() - start - traffic.connecting - traffic.waiting
                live.update(
                    f"{party}: round {number}, {traffic.sent:,} bytes sent, "
                    f"{computing:.1f} s computing, {traffic.waiting:.1f} s waiting"
                )

            yield _Progress(update, lambda text: live.update(f"{party}: {text}"))
    else:
        yield _Progress(lambda number, traffic: None, lambda text: None)


def _result(part: Part, job: Job, records: PartyData, party: str) -> PartyResult:
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
        payoff=None if part.payoff is None else asdict(part.payoff),
        payoff_text=part.payoff_text,
        left=part.left,
    )


def _fraction(given: float | None, job: Job, estimator: Estimator) -> float:
    """Return the fraction to hold out: what was given, or a tenth where the model's units can be held out."""
    from tacit.data.split import check_fraction
    from tacit.estimators.registry import JOBS, RECORDS, RELATIONS

    if given is not None:
        return check_fraction(given) if given else 0.0
    return 0.0 if JOBS[job.model].data in (RELATIONS, RECORDS) or getattr(estimator, "unit", "row") == "cell" else 0.1


def _show_own(job: Job, estimator: Estimator, records: PartyData, fraction: float, *, as_json: bool) -> None:
    """Fit this party's records alone, and print the error on held-out ones: what joining would have to beat."""
    from tacit.cli.output import print_json
    from tacit.data.split import new_key
    from tacit.parties.payoff import hold_out, mean_error, own_models

    adjacency, unit = getattr(estimator, "adjacency", "add-remove"), getattr(estimator, "unit", "row")
    kept, held = hold_out(records, job, fraction or 0.1, new_key(), adjacency=adjacency, unit=unit)
    own = own_models(estimator, kept)
    error, (low, high), units = mean_error(own, held)
    if as_json:
        values = {"own_error": error, "interval": [low, high], "held_out_units": units, "own_fits": len(own)}
        print_json({**values, "joined": False})
        return
    fits = f"; the mean of {len(own)} fits, each with noise of its own" if len(own) > 1 else ""
    typer.echo(
        f"This organisation's own model has a mean squared error of {error:.4g} on {units} held-out units (95% interval "
        f"{low:.4g} to {high:.4g}{fits}). Nothing was sent. The figure is for this organisation only."
    )
