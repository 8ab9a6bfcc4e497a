"""What others could have seen of a run: everything that left the holders, and what all of them learned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

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
