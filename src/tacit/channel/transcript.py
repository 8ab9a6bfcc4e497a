"""The transcript: everything that left the holders through a channel, in order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tacit.errors import Undisclosed
from tacit.privacy.releases import Release, merge


@dataclass(frozen=True, repr=False)
class TranscriptEntry(Undisclosed):
    """One exchange: its public description, the release it was, and (if kept) the very numbers.

    Attributes
    ----------
    round : int
        Counted from zero.
    kind : str
        "sum" or "normed-sum".
    shapes : mapping
        The shape of each array by name.
    release : Release or None
        What the accountant makes of it; None in channels without noise.
    totals : mapping or None
        What everyone received.
    terms : sequence or None
        What each holder revealed on its own, where the channel reveals that.
    """

    round: int
    kind: str
    shapes: Mapping[str, tuple[int, ...]]
    release: Release | None = None
    totals: Mapping[str, NDArray[np.float64]] | None = None
    terms: Sequence[Mapping[str, NDArray[np.float64]]] | None = None

    @property
    def numbers(self) -> int:
        """How many numbers were totalled."""
        return sum(int(np.prod(shape)) for shape in self.shapes.values())


@dataclass(repr=False)
class Transcript(Undisclosed):
    """All exchanges of one run; `keep_values` also keeps the numbers, for measuring what they leak."""

    keep_values: bool = False
    entries: list[TranscriptEntry] = field(default_factory=list)

    def add(
        self,
        kind: str,
        totals: Mapping[str, NDArray[np.float64]],
        *,
        release: Release | None = None,
        terms: Sequence[Mapping[str, NDArray[np.float64]]] | None = None,
    ) -> None:
        """Record one exchange."""
        kept = {name: array.copy() for name, array in totals.items()} if self.keep_values else None
        shown = None
        if self.keep_values and terms is not None:
            shown = [{name: array.copy() for name, array in term.items()} for term in terms]
        shapes = {name: array.shape for name, array in totals.items()}
        self.entries.append(TranscriptEntry(len(self.entries), kind, shapes, release, kept, shown))

    @property
    def releases(self) -> tuple[Release, ...]:
        """What the accountant composes."""
        return merge(entry.release for entry in self.entries if entry.release is not None)

    def __iter__(self) -> Iterator[TranscriptEntry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)
