"""A short command in a process of its own, with a limit on its memory and its time, for what a page waits for."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from subprocess import TimeoutExpired

__all__ = ["TimeoutExpired", "run_limited"]

_LIMIT = """
import os, resource, sys
memory = int(sys.argv[1])
if memory:
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
os.umask(0o077)
os.execv(sys.argv[2], sys.argv[2:])
"""
"""Sets the limits and becomes the command: a function between fork and exec is not safe in a process with threads."""


def run_limited(command: Sequence[str], *, memory: int, seconds: float) -> subprocess.CompletedProcess[bytes]:
    """Run a command and return what it printed.

    Parameters
    ----------
    command : sequence of str
        The first is the path of a program.
    memory : int
        Bytes that it may use; 0 for no limit.
    seconds : float
        After this long it is killed, and TimeoutExpired is raised.
    """
    return subprocess.run(
        [sys.executable, "-I", "-c", _LIMIT, str(memory), *command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=seconds,
        check=False,
    )
