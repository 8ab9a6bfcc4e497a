"""Runs: a queue on disk, a process for each, and what their files say about them.

Everything about a run is in its folder, written by whoever knows it: the app writes what was asked for, the supervisor how
it went. The state of a run is read from these files each time, so that nothing is lost with the app.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from tacit.app.files import is_id, new_id, private_folder, read_json, write_json
from tacit.app.supervise import CANCEL, EXIT, OUTPUT, PROCESS, PROGRESS, RUN, now, started_at
from tacit.errors import InvalidInputError, words

QUEUED, RUNNING, CANCELLING, DONE, FAILED, CANCELLED, INTERRUPTED = (
    "queued",
    "running",
    "cancelling",
    "done",
    "failed",
    "cancelled",
    "interrupted",
)
ENDED = (DONE, FAILED, CANCELLED, INTERRUPTED)
POLL_SECONDS = 0.2
"""Time between two looks at the runs: short enough that a page seems to react at once."""
TICKETS = "tickets"
"""The folder with the forms that were sent."""
EPSILON = "--epsilon="
"""How a command's argument with its epsilon begins."""
LARGEST_OUTPUT = 1 << 20
"""Of what a command printed, this many bytes are read."""


@dataclass(frozen=True)
class Run:
    """What the folder of a run says now.

    Attributes
    ----------
    id, kind, title, account : str
        `account` is the ledger's; empty if nothing can be charged.
    state : str
        queued, running, cancelling, done, failed, cancelled or interrupted.
    created, started, ended : str
        ISO 8601, in UTC; empty if it has not happened.
    folder : Path
    spec : dict
        Everything that was written when the run was asked for.
    code : int or None
        The command's exit code, or minus the signal that ended it.
    stages : list of dict
        Name, place and number of the stages that began.
    """

    id: str
    kind: str
    title: str
    account: str
    state: str
    created: str
    started: str
    ended: str
    folder: Path
    spec: dict[str, Any]
    code: int | None
    stages: list[dict[str, Any]]

    @property
    def is_over(self) -> bool:
        """Whether nothing will happen any more."""
        return self.state in ENDED

    @property
    def epsilon(self) -> str:
        """The epsilon that was asked for; empty if the command has none."""
        asked = [part.removeprefix(EPSILON) for part in self.spec["command"] if part.startswith(EPSILON)]
        return f"{float(asked[-1]):g}" if asked and self.kind != "audit" else ""

    @property
    def output(self) -> Path:
        """The folder that the command writes to."""
        return self.folder / OUTPUT

    def printed(self) -> dict[str, Any]:
        """Return the JSON object that the command printed; empty if it printed none."""
        with contextlib.suppress(OSError, ValueError), (self.folder / "stdout").open("rb") as file:
            values = json.loads(file.read(LARGEST_OUTPUT))
            return values if isinstance(values, dict) else {}
        return {}

    def error(self) -> str:
        """Return why the run failed, in words without values of the data."""
        told = self.printed().get("error", {})
        if self.state == INTERRUPTED:
            return "The computer was switched off, or the run's processes were killed. What was charged stays charged."
        if self.state == CANCELLED:
            return (
                "It was cancelled. What had been released until then stays charged. Of full-batch sums the rest was given "
                "back; a run that is stopped in the moment of its charge stays charged in full."
            )
        if isinstance(told, dict) and "MemoryError" not in str(told.get("message", "MemoryError")):
            return str(told["message"])
        limit = (self.spec.get("memory") or 0) / 2**30
        if self.code in (-signal.SIGKILL, -signal.SIGABRT, -signal.SIGSEGV) or told:
            return (
                f"The run needed more memory than its limit of {limit:.1f} GB, or was killed. Start the app with more "
                "(--memory), or use a smaller model. What was charged stays charged."
            )
        return "The command ended without a message. What was charged stays charged."


class Runner:
    """Starts queued runs in their order, each in processes of its own.

    Parameters
    ----------
    folder : Path
        Where the runs are kept. One app uses it at a time.
    memory : int
        Bytes of memory that a run may use; 0 for no limit.
    slots : int
        Runs at the same time, in each lane.
    """

    def __init__(self, folder: Path, *, memory: int = 0, slots: int = 1) -> None:
        self.folder = private_folder(folder)
        self.memory, self.slots = memory, slots
        self._supervisors: dict[str, subprocess.Popen[bytes]] = {}
        self._over: set[str] = set()
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._held: TextIO | None = None

    def start(self) -> None:
        """Take the folder and begin to work; a second app on the same folder is refused."""
        self._held = (self.folder / "lock").open("w", encoding="utf-8")
        try:
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._held.close()
            raise InvalidInputError(
                "a folder that no other app uses",
                words("one that an app is running on"),
                "Open the page of that app, stop it, or give another folder (--state).",
            ) from None
        self._thread = threading.Thread(target=self._work, name="runner", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop starting runs. Those that run go on."""
        self._stop.set()
        if self._thread is not None and self._held is not None:
            self._thread.join()
            self._held.close()

    def submit(
        self,
        kind: str,
        title: str,
        command: Sequence[str],
        *,
        account: str = "",
        lane: str = "fit",
        ticket: str = "",
        **further: Any,
    ) -> str:
        """Put a command into the queue and return the run's id.

        Parameters
        ----------
        kind, title : str
        command : sequence of str
            ``{output}`` in it stands for the run's output folder.
        account : str
            The ledger's account that the command charges.
        lane : str
            Runs of different lanes do not wait for each other.
        ticket : str
            Of a form. One that is sent twice, as by a double click, with the same command is one run, and is charged once.
        **further
            Kept with the run.
        """
        created = now()
        name = new_id()
        if is_id(ticket):
            asked = hashlib.sha256(json.dumps([ticket, list(command)]).encode()).hexdigest()
            kept = private_folder(self.folder / TICKETS) / asked
            try:
                write_json(kept, name, new=True)
            except FileExistsError:
                first: str = read_json(kept)
                return first
        folder = private_folder(self.folder / name)
        spec = {
            "id": name,
            "kind": kind,
            "title": title,
            "account": account,
            "lane": lane,
            "created": created,
            "memory": self.memory,
            "command": [part.replace("{output}", str(folder / OUTPUT)) for part in command],
            **further,
        }
        write_json(folder / RUN, spec)
        self.tick()
        return name

    def cancel(self, name: str) -> None:
        """Cancel a run: a queued one never starts, a running one is interrupted and settles its charge."""
        run = self.get(name)
        if run is None or run.is_over:
            return
        write_json(run.folder / CANCEL, {"time": now()})
        process = read_json(run.folder / PROCESS)
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            if _is_alive(process["supervisor"]):
                os.kill(process["supervisor"][0], signal.SIGTERM)
            elif process["command"] is not None and _is_alive(process["command"]):
                os.kill(process["command"][0], signal.SIGINT)  # somebody killed the supervisor

    def get(self, name: str) -> Run | None:
        """Return a run, or None if there is none of this id."""
        if not is_id(name):
            return None
        folder = self.folder / name
        spec = read_json(folder / RUN)
        if spec is None:
            return None
        process, ended = read_json(folder / PROCESS), read_json(folder / EXIT)
        if ended is None and process is not None and not _any_alive(process):
            ended = read_json(folder / EXIT)  # it may have ended since
        cancelled = (folder / CANCEL).exists()
        return Run(
            id=name,
            kind=spec["kind"],
            title=spec["title"],
            account=spec["account"],
            state=_state(process, ended, cancelled),
            created=spec["created"],
            started=process["started"] if process else "",
            ended=ended["ended"] if ended else "",
            folder=folder,
            spec=spec,
            code=ended["code"] if ended else None,
            stages=list(_lines(folder / ("stderr" if spec["lane"] == "parties" else PROGRESS))),
        )

    def runs(self) -> list[Run]:
        """Return all runs, the newest first."""
        return [run for run in map(self.get, self._names()) if run is not None]

    def tick(self) -> None:
        """Start what may start."""
        with self._lock:
            for name, supervisor in list(self._supervisors.items()):
                if supervisor.poll() is not None:
                    del self._supervisors[name]
            busy: dict[str, int] = {}
            waiting = []
            for name in reversed(self._names()):
                run = None if name in self._over else self.get(name)
                if run is None:
                    continue
                lane = run.spec["lane"]
                if run.is_over:
                    self._over.add(name)
                elif run.id in self._supervisors or run.state in (RUNNING, CANCELLING):
                    busy[lane] = busy.get(lane, 0) + 1
                elif run.state == QUEUED:
                    waiting.append(run)
            for run in waiting:
                lane = run.spec["lane"]
                if busy.get(lane, 0) < self.slots:
                    busy[lane] = busy.get(lane, 0) + 1
                    self._supervisors[run.id] = subprocess.Popen(
                        [sys.executable, "-m", "tacit.app.supervise", str(run.folder)],
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL,
                        start_new_session=True,
                    )

    def _names(self) -> list[str]:
        return sorted((entry.name for entry in self.folder.iterdir() if is_id(entry.name)), reverse=True)

    def _work(self) -> None:
        while not self._stop.wait(POLL_SECONDS):
            with contextlib.suppress(OSError):  # a full disk, say: it is tried again
                self.tick()


def _state(process: Any, ended: Any, cancelled: bool) -> str:
    if ended is not None:
        return DONE if ended["code"] == 0 else CANCELLED if cancelled else FAILED
    if process is None:
        return CANCELLED if cancelled else QUEUED
    if not _any_alive(process):
        return INTERRUPTED
    return CANCELLING if cancelled else RUNNING


def _any_alive(process: dict[str, Any]) -> bool:
    return _is_alive(process["supervisor"]) or (process["command"] is not None and _is_alive(process["command"]))


def _is_alive(named: Sequence[Any]) -> bool:
    return bool(named[1]) and started_at(named[0]) == named[1]


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with contextlib.suppress(OSError), path.open(encoding="utf-8") as file:
        for line in file:
            with contextlib.suppress(ValueError):  # the last line may be a part of one
                values = json.loads(line)
                if isinstance(values, dict):
                    yield values
