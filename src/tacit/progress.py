"""Progress of long computations: told where they happen, shown where somebody asked for it.

A run tells each sum, and a program its stages. Whoever wants to see them listens: `verbose=True` of an estimator and
`show_progress` write lines to standard error. Without a listener nothing is written.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

SECONDS_BETWEEN_LINES = 1.0
"""Counts that follow sooner are left out of the lines. Set by hand: fast enough to see that it goes on."""


@dataclass(frozen=True)
class Told:
    """Where a computation is.

    Attributes
    ----------
    what : str
        A stage, or what is counted: "sum".
    done, of : int or None
        How many were counted, and how many there will be; None where that is not known.
    within : tuple of str
        The computations that it is a part of, the outermost first.
    """

    what: str
    done: int | None = None
    of: int | None = None
    within: tuple[str, ...] = ()

    def __str__(self) -> str:
        count = "" if self.done is None else f" {self.done}"
        return f"{self.what}{count}" if self.of is None else f"{self.what}{count} of {self.of}"


Listener = Callable[[Told], None]

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)
_within: ContextVar[tuple[str, ...]] = ContextVar("within", default=())


class Lines:
    """Write each message as a line to standard error, with the seconds since the beginning."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._counted = float("-inf")

    def __call__(self, told: Told) -> None:
        """Write a line, unless it is a count that follows the last one at once."""
        seconds = time.monotonic() - self._begun
        if told.done is not None:
            if seconds - self._counted < SECONDS_BETWEEN_LINES and told.done != told.of:
                return
            self._counted = seconds
        print(f"[{seconds:6.1f} s] {': '.join([*told.within, str(told)])}", file=sys.stderr, flush=True)


@contextmanager
def show_progress(to: Listener | None = None) -> Iterator[None]:
    """Within the block, fits tell what they are doing.

    Parameters
    ----------
    to : callable, optional
        Called with a `Told`. Without it, lines are written to standard error.

    Privacy
    -------
    A private fit tells the names of its stages and the number of its sums, none of which depends on private data. How many
    seconds pass between them does, so the lines are for the screen of the holder.

    Examples
    --------
    >>> import numpy as np
    >>> from tacit import PrivateMoments, show_progress
    >>> told = []
    >>> with show_progress(told.append):
    ...     model = PrivateMoments(epsilon=1.0).fit(np.eye(3))
    >>> [str(one) for one in told]
    ['sum 1 of 1', 'computing the result', 'done']
    """
    token = _listener.set(to or Lines())
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def part_named(name: str, *, verbose: bool = False) -> Iterator[None]:
    """Within the block, progress belongs to this part; with `verbose` it is shown unless someone listens already."""
    shown = _listener.set(Lines()) if verbose and _listener.get() is None else None
    token = _within.set((*_within.get(), name))
    try:
        yield
    finally:
        _within.reset(token)
        if shown is not None:
            _listener.reset(shown)


def tell(what: str, done: int | None = None, of: int | None = None) -> None:
    """Tell the listener, if there is one, where a computation is; public things only."""
    listener = _listener.get()
    if listener is not None:
        listener(Told(what, done, of, _within.get()))
