"""Poisson samples of a holder's own units: drawn by the channel, so that the rate it accounts is the rate that was used."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tacit.channel.asks import Sample
from tacit.errors import ProtocolError, words


class PoissonSampling:
    """The sample that the next sum is taken over.

    Privacy
    -------
    Every unit is drawn on its own with the stated rate; the mask never leaves its holder. A unit that was not drawn must
    not change the next sum at all, not even by rounding: amplification is accounted for units that contribute nothing
    unless drawn. Compute the sum from the drawn units alone; `check_neighbours` verifies that.
    """

    def __init__(self) -> None:
        self.rate = 1.0

    def draw(self, asks: Sequence[Sample], generator: np.random.Generator) -> list[NDArray[np.bool_]]:
        """Draw each holder's mask; a second draw before the sum is refused."""
        if self.rate != 1:
            raise ProtocolError(
                "a Sum after every Sample",
                words("a second Sample"),
                "Yield a Sum after every Sample; otherwise the first sample is not accounted for.",
            )
        self.rate = asks[0].rate
        return [generator.random(ask.units) < ask.rate for ask in asks]

    def spend(self) -> None:
        """Use the sample up: the next sum is over all units, unless another sample is drawn."""
        self.rate = 1.0
