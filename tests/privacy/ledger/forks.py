"""Actions in forks of the test's process."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable


def forked(action: Callable[[], None]) -> int:
    """Run `action` in a fork of this process, which ends with it; return its process id."""
    child = os.fork()
    if child == 0:
        status = 1
        with contextlib.suppress(BaseException):
            action()
            status = 0
        os._exit(status)
    return child


def outcome(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
