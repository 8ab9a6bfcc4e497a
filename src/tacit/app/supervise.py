"""The process that one run has to itself: it starts the command, limits its memory, passes on a cancel, notes how it ended.

If the app stops or is killed, the run goes on, and the next start of the app finds it. A run is started at most once, because it
may be charged.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from tacit.app.files import leads_outside, read_json, write_json, write_private

RUN, PROCESS, EXIT, CANCEL, PROGRESS, OUTPUT = (
    "run.json",
    "process.json",
    "exit.json",
    "cancel.json",
    "progress.jsonl",
    "output",
)
GRACE_SECONDS = 20
"""A cancelled command has this long to settle its charge and leave; then it is killed, and its charge counts in full."""
NICENESS = 5
"""Pages come first: a fit takes what processor time they leave."""
REFUSED = 2
"""The exit code of a command whose input was refused."""
UNSET = ("TACIT_LEDGER", "TACIT_DEBUG")
"""Variables that a run must not inherit: the ledger is in its command, and a traceback may hold values of the data."""


def now() -> str:
    """Return the time in UTC, as ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def started_at(pid: int) -> str:
    """Return the kernel's time at which a process started; empty if there is none, or if it has ended.

    With the number, it names one process for good: numbers are used again.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]


def main(folder: Path) -> None:
    """Run the command of a run's folder, once."""
    os.umask(0o077)
    spec = read_json(folder / RUN)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell's background job ignores it, and would pass that on
    wanted = {"cancel": False}
    child: list[subprocess.Popen[bytes]] = []

    def cancel(*_: object) -> None:
        wanted["cancel"] = True
        if child:
            child[0].send_signal(signal.SIGINT)
            signal.alarm(GRACE_SECONDS)

    def kill(*_: object) -> None:
        if child:
            child[0].kill()

    signal.signal(signal.SIGTERM, cancel)
    signal.signal(signal.SIGALRM, kill)
    mine = os.getpid()
    process = {"supervisor": [mine, started_at(mine)], "command": None, "started": now()}
    try:
        write_json(folder / PROCESS, process, new=True)
    except FileExistsError:
        return  # another process has this run
    if wanted["cancel"] or (folder / CANCEL).exists():
        write_json(folder / EXIT, {"code": None, "ended": now()})
        return
    if any(leads_outside(Path(path), map(Path, spec.get("folders", ()))) for path in spec.get("reads", ())):
        # a run may have waited for hours since its files were checked
        message = "The data is not in the folders that the app was started with any more. Nothing was read or charged."
        write_private(folder / "stdout", json.dumps({"error": {"message": message}}))
        write_json(folder / EXIT, {"code": REFUSED, "ended": now()})
        return
    if spec["memory"]:
        resource.setrlimit(resource.RLIMIT_DATA, (spec["memory"], spec["memory"]))
    os.nice(NICENESS)
    environment = {name: value for name, value in os.environ.items() if name not in UNSET}
    environment["TACIT_PROGRESS"] = str(folder / PROGRESS)
    with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as errors:
        child.append(
            subprocess.Popen(
                spec["command"], stdin=subprocess.DEVNULL, stdout=out, stderr=errors, env=environment, cwd=folder
            )
        )
        pid = child[0].pid
        write_json(folder / PROCESS, {**process, "command": [pid, started_at(pid)]})
        if wanted["cancel"]:
            cancel()
        code = child[0].wait()
    signal.alarm(0)
    write_json(folder / EXIT, {"code": code, "ended": now()})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
