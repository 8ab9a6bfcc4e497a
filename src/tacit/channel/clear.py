"""The channel without protection: terms are added as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tacit.channel.asks import Choose, NormedSum, Sample, Sum, Total, normalise_columns
from tacit.channel.run import Transcript
from tacit.privacy.guarantee import Guarantee
from tacit.privacy.noise.entropy import secure_generator


class Clear:
    """Hand the totals straight back.

    Privacy
    -------
    None. One holder alone reveals nothing to anyone, as long as the result stays there; several holders reveal their
    own terms to whoever runs the channel.
    """

    def __init__(self, *, keep_values: bool = False) -> None:
        self.transcript = Transcript(keep_values)

    def open(self) -> None:
        """There is nothing to begin."""

    def exchange(self, asks: Sequence[Sum]) -> Total:
        """Add the holders' terms in floating point, in the order of the holders."""
        totals = {name: sum((ask.arrays[name] for ask in asks[1:]), asks[0].arrays[name]) for name in asks[0].names}
        if isinstance(asks[0], NormedSum):
            totals = {name: normalise_columns(array) for name, array in totals.items()}
        terms = [ask.arrays for ask in asks] if len(asks) > 1 else None
        self.transcript.add(asks[0].kind, totals, terms=terms)
        return Total(totals)

    def sample(self, asks: Sequence[Sample]) -> list[NDArray[np.bool_]]:
        """Draw each holder's mask."""
        return [secure_generator().random(ask.units) < ask.rate for ask in asks]

    def choose(self, asks: Sequence[Choose]) -> int:
        """Add up the scores and return the index of the highest; the first one on a tie."""
        winner = int(np.argmax(sum((ask.scores for ask in asks[1:]), asks[0].scores)))
        self.transcript.add("choice", {"choice": np.array([float(winner)])})
        return winner

    def conclude(self, public: Mapping[str, object]) -> None:
        """There are no holders elsewhere."""

    def close(self) -> None:
        """Nothing is held open."""

    @property
    def guarantee(self) -> Guarantee:
        """There is none."""
        return Guarantee.none("the statistics were totalled in the clear")
