"""What surrounds `tacit parties join`: consent, runs that were begun before, files for the owner only, and a clean end."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

import typer

from tacit.cli.output import print_json
from tacit.errors import InvalidInputError, parameter, words

if TYPE_CHECKING:
    from tacit.parties.consent import Review

JOB = typer.Argument(help="The job file.")
DATA = typer.Option(
    None, help="This organisation's records, as for `join`: the review is then the one that `join` shows."
)
SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
"""In the units that an interval may have."""
RUNS_FILE = "runs.txt"


def review(
    job: Path = JOB,
    party: str | None = typer.Option(None, "--as", help="Which of the job's parties reads this."),
    data: Path | None = DATA,
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Show what a job will release, what it guarantees and who could collude, without joining it.

    The sums of coupled models depend on the relations: give --as and --data to see them. Nothing is sent.
    """
    from tacit.cli.parties_relations import read_records
    from tacit.parties import Job
    from tacit.parties.consent import review as review_of

    agreed = Job.read(job)
    if party is not None:
        agreed.place(party)
    elif data is not None:
        raise InvalidInputError(
            "--as with --data", words("--data alone"), "Say which of the job's parties has this data."
        )
    records = None if data is None or party is None else read_records(data, agreed, party)
    reviewed = review_of(agreed, party=party, data=records)
    if as_json:
        print_json(reviewed.values)
    else:
        typer.echo(str(reviewed))


def confirm(review: Callable[[], Review], *, yes: bool, quiet: bool) -> None:
    """Show what the job will release, and go on only if a person, or the script's --yes, agrees."""
    if not quiet:
        typer.echo(str(review()), err=True)
    if yes:
        return
    if quiet or not sys.stdin.isatty():
        raise InvalidInputError(
            "a person who confirms what the job releases, or --yes",
            words("neither: this is not a terminal"),
            "Read `tacit parties review job.toml`, then pass --yes. Nothing was sent.",
        )
    if not typer.confirm("Take part?", err=True):
        raise InvalidInputError("consent", words("no"), "Nothing was sent.")


def seconds_of(text: str) -> float:
    """Read a time such as 90, 90s, 30m, 1h or 2d."""
    number, unit = (text[:-1], text[-1]) if text[-1:] in SECONDS else (text, "s")
    try:
        seconds = float(number) * SECONDS[unit]
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise InvalidInputError("a time as in 90s, 30m or 1h", parameter(text), "Give a number and s, m, h or d.")
    return seconds


class RunsOfIdentity:
    """The jobs of which an identity has begun a run, in a file beside its key.

    A second run of a job in another output folder sums the same records again. On changed data, the difference of the two
    totals gives single records away; so a second run must be asked for.
    """

    def __init__(self, folder: Path, job: str) -> None:
        self._path, self._job = folder / RUNS_FILE, job

    def check_first(self, *, allowed: bool) -> None:
        """Raise if a run of the job was begun before, or if it could not be noted that one is."""
        try:
            os.close(self._opened())
        except OSError as error:
            raise InvalidInputError(
                f"a folder of the identity where {RUNS_FILE} can be written",
                words(type(error).__name__),
                "Let this user write to it: it notes there that a run has begun. Nothing was sent.",
            ) from None
        if self._is_noted and not allowed:
            raise InvalidInputError(
                "the first run of this job by this identity",
                words("a second one"),
                "Go on with the first: --resume, with its output folder. Or start a second one with --new-run: the other "
                "parties keep what they learned from the first, and on changed data the difference gives records away.",
            )

    def _opened(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    @property
    def _is_noted(self) -> bool:
        return self._path.is_file() and self._job in self._path.read_text(encoding="utf-8").split()

    def note(self) -> None:
        """Write down, once, that a run of the job is about to send its first number."""
        if self._is_noted:
            return
        with os.fdopen(self._opened(), "w") as file:
            file.write(f"{self._job}\n")
            file.flush()
            os.fsync(file.fileno())


@contextmanager
def private_files(*existing: Path) -> Iterator[None]:
    """Within the block, new files and folders are readable by their owner only, and so are these existing ones."""
    for place in existing:
        if place.exists():
            place.chmod(0o700 if place.is_dir() else 0o600)
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Within the block, SIGTERM ends the command as an interrupt does: the others are told, and the checkpoint is closed."""

    def end(number: int, frame: FrameType | None) -> NoReturn:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
