"""What others could have seen of a run: everything that left the holders, and what all of them learned.

`observing` makes of a program a mechanism that can be measured: it runs the program as often as asked, each time on other rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.channel.asks import Sum, Total
from tacit.channel.clear import Clear
from tacit.channel.run import Channel, Program, run_together
from tacit.errors import Undisclosed

Arrays = Mapping[str, NDArray[np.float64]]


class Seen(Protocol):
    """One exchange, as a channel's transcript keeps it."""

    @property
    def round(self) -> int:
        """Counted from zero."""

    @property
    def totals(self) -> Arrays | None:
        """What everyone received."""

    @property
    def terms(self) -> Sequence[Arrays] | None:
        """What each holder revealed on its own, where the channel reveals that."""


@dataclass(frozen=True, repr=False)
class Observation(Undisclosed):
    """One run of a mechanism, seen from outside.

    Parameters
    ----------
    entries : sequence
        The entries of a transcript that kept its values; see `tacit.channel.Transcript`.
    public : mapping
        What all holders learned.
    """

    entries: Sequence[Seen]
    public: Mapping[str, Any] = field(default_factory=dict)

    def arrays(self) -> Iterator[tuple[str, NDArray[np.float64]]]:
        """Yield, by name, the first and the last total of each kind, each holder's first and last term where shown, and results.

        The exchanges between are much like the last, and a test more is a test to correct for.
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
            found = [arrays[name] for arrays in exchanges if name in arrays]
            yield f"first {whose} {name}", found[0]
            if len(found) > 1:
                yield f"last {whose} {name}", found[-1]


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
    """Make of a program a mechanism that `tacit.measure.ksdp` can measure.

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
    >>> from tacit.channel import Outcome, Sum
    >>> from tacit.measure.ksdp import observing
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
