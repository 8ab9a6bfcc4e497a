"""What others could have seen of a run: everything that left the holders, and what all of them learned.

`observing` makes of a program a mechanism that can be measured: it runs the program as often as asked, each time on other rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from tacit.channel.asks import Sum, Total
from tacit.channel.clear import Clear
from tacit.channel.run import Channel, Program, run_together
from tacit.errors import Undisclosed

Arrays = Mapping[str, NDArray[np.float64]]
Data = TypeVar("Data")


class Seen(Protocol):
    """One exchange, as a channel's transcript keeps it."""

    @property
    def round(self) -> int:
        """The number of the round, from zero."""

    @property
    def totals(self) -> Arrays | None:
        """The totals that all holders received."""

    @property
    def terms(self) -> Sequence[Arrays] | None:
        """The terms of each holder, if the channel reveals them."""


@dataclass(frozen=True, repr=False)
class Observation(Undisclosed):
    """One run of a mechanism, seen from outside.

    Parameters
    ----------
    entries : sequence
        The entries of a transcript that kept its values; see `tacit.channel.Transcript`.
    public : mapping
        The public part of the outcome.
    """

    entries: Sequence[Seen]
    public: Mapping[str, Any] = field(default_factory=dict)

    def arrays(self) -> Iterator[tuple[str, NDArray[np.float64]]]:
        """Yield, with names, the first and last total of each kind, the first and last revealed terms, and the results.

        The exchanges in between are similar to the last one, and each further test makes the correction stronger.
        """
        yield from self._first_and_last("total", [entry.totals or {} for entry in self.entries])
        holders = max((len(entry.terms or ()) for entry in self.entries), default=0)
        for holder in range(holders):
            shown = [entry.terms[holder] if entry.terms else {} for entry in self.entries]
            yield from self._first_and_last(f"holder {holder}'s own", shown)
        for name, value in self.public.items():
            if isinstance(value, np.ndarray) and value.dtype.kind == "f":
                yield f"result {name}", value

    @staticmethod
    def _first_and_last(whose: str, exchanges: Sequence[Arrays]) -> Iterator[tuple[str, NDArray[np.float64]]]:
        for name in dict.fromkeys(name for arrays in exchanges for name in arrays):
            seen = [arrays[name] for arrays in exchanges if name in arrays]
            yield f"first {whose} {name}", seen[0]
            if len(seen) > 1:
                yield f"last {whose} {name}", seen[-1]


class TotalsOnly(Clear):
    """Reveals what a secure sum reveals: totals, and no holder's terms. For measurements in one process; it protects nothing."""

    def __init__(self) -> None:
        super().__init__(keep_values=True)

    def exchange(self, asks: Sequence[Sum]) -> Total:
        """Add up the terms; keep only the totals."""
        quiet = Clear()
        total = quiet.exchange(asks)
        self.transcript.add(asks[0].kind, total)
        return total


def observing(
    program: Callable[[Data], Program], channel: Callable[[], Channel] = TotalsOnly
) -> Callable[[Data, Sequence[Data]], Observation]:
    """Make a mechanism that `tacit.measure.ksdp` can measure from a program.

    Parameters
    ----------
    program : callable
        Takes a holder's rows, and returns its program.
    channel : callable, default=TotalsOnly
        Returns a new channel, whose transcript keeps values, for every run. The transcript is what is observed:
        ``lambda: Clear(keep_values=True)`` also shows the terms of every holder.

    Returns
    -------
    callable
        Takes a holder's rows and a list of the other holders' rows, and returns an `Observation`.

    Examples
    --------
    >>> import numpy as np
    >>> from tacit.channel import Outcome, Sum
    >>> from tacit.measure.ksdp import observing
    >>> def mean(X):
    ...     total = yield Sum(rows=X.sum(axis=0), count=[len(X)])
    ...     return Outcome(public={"mean": total.rows / total.count})
    >>> seen = observing(mean)(np.ones((3, 2)), [np.zeros((1, 2))])
    >>> seen.public["mean"]
    array([0.75, 0.75])
    """

    def observed(rows: Data, others: Sequence[Data] = ()) -> Observation:
        used = channel()
        outcomes = run_together([program(part) for part in (rows, *others)], used)
        return Observation(tuple(used.transcript), outcomes[0].public)

    return observed
