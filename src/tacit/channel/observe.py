"""Observing a program: run it as often as asked, each time on other rows, and hand over all that others could have seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tacit.channel.asks import Sum, Total
from tacit.channel.clear import Clear
from tacit.channel.program import Program
from tacit.channel.run import Channel, run_together
from tacit.privacy.ksdp_observation import Observation


class TotalsOnly(Clear):
    """Show what a secure sum shows: totals, and no holder's terms. For measuring in one process; it protects nothing."""

    def __init__(self) -> None:
        super().__init__(keep_values=True)

    def exchange(self, asks: Sequence[Sum]) -> Total:
        """Add the terms; keep the totals only."""
        quiet = Clear()
        total = quiet.exchange(asks)
        self.transcript.add(asks[0].kind, total)
        return total


def observing(
    program: Callable[[Any], Program], channel: Callable[[], Channel] = TotalsOnly
) -> Callable[[Any, Sequence[Any]], Observation]:
    """Make of a program a mechanism that `tacit.privacy.ksdp` can measure.

    Parameters
    ----------
    program : callable
        From a holder's rows to its program.
    channel : callable, default=TotalsOnly
        Makes a fresh channel, whose transcript keeps values, for every run. What the transcript holds is what is seen:
        ``lambda: Clear(keep_values=True)`` shows every holder's own terms too.

    Returns
    -------
    callable
        From a holder's rows and a list of the other holders' to an `Observation`.

    Examples
    --------
    >>> import numpy as np
    >>> from tacit.channel import Outcome, Sum, observing
    >>> def mean(X):
    ...     total = yield Sum(rows=X.sum(axis=0), count=[len(X)])
    ...     return Outcome(public={"mean": total.rows / total.count})
    >>> seen = observing(mean)(np.ones((3, 2)), [np.zeros((1, 2))])
    >>> seen.public["mean"]
    array([0.75, 0.75])
    """

    def observed(rows: Any, others: Sequence[Any] = ()) -> Observation:
        used = channel()
        outcomes = run_together([program(part) for part in (rows, *others)], used)
        return Observation(tuple(used.transcript), outcomes[0].public)

    return observed
