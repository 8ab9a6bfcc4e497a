"""The other holders: what a channel needs to add up over processes, and the case of one process alone."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.channel.fixedpoint import Elements, Ring
from tacit.privacy.guarantee import HOLDER_IS_TRUSTED
from tacit.privacy.noise.entropy import secure_generator

ONE_WORD = Ring(1)


class Together(Protocol):
    """The way of this process to the others; all run the same program in lock-step."""

    @property
    def index(self) -> int:
        """The place of this process, from 0."""

    @property
    def parties(self) -> int:
        """How many processes are added up."""

    @property
    def honest(self) -> int:
        """How many of them a guarantee counts on; the others may pool all they know."""

    @property
    def trust(self) -> str:
        """Who must be trusted with what, in words."""

    @property
    def hides_norms(self) -> bool:
        """Whether `direction` can be asked for."""

    def add(self, elements: Elements, ring: Ring, label: str, *, noised: bool = False) -> Elements:
        """Return the total over all parties.

        `label` says what is added, and all must say the same. What is `noised` is kept until the total is known: a run that
        is resumed sends the same numbers again, never the same statistic under other noise.
        """

    def direction(self, integers: NDArray[np.object_], label: str) -> NDArray[np.float64]:
        """Return the total of Python integers with each column divided by its norm, which nobody learns."""

    def sampler(self) -> np.random.Generator:
        """Return the generator of this process's next Poisson sample: unpredictable, and the same when resumed."""

    def agree(self, numbers: NDArray[np.float64]) -> None:
        """Raise `ProtocolError` unless all parties have these numbers, but for rounding."""

    @property
    def resumable(self) -> bool:
        """Whether an interrupted run can go on, so that its charge must stay as it is."""

    @property
    def charged(self) -> bool:
        """Whether this run was charged already, before it was interrupted."""

    def note_charge(self) -> None:
        """Remember that the run was charged."""


class Alone:
    """One process: what it adds is the total."""

    index = 0
    parties = 1
    honest = 1
    trust = HOLDER_IS_TRUSTED
    hides_norms = False
    resumable = False
    charged = False

    def add(self, elements: Elements, ring: Ring, label: str, *, noised: bool = False) -> Elements:
        """Return what came."""
        return elements

    def direction(self, integers: NDArray[np.object_], label: str) -> NDArray[np.float64]:
        """Not asked for: who is alone knows the norm."""
        raise NotImplementedError

    def sampler(self) -> np.random.Generator:
        """Return a new secure generator."""
        return secure_generator()

    def agree(self, numbers: NDArray[np.float64]) -> None:
        """Who is alone agrees."""

    def note_charge(self) -> None:
        """Nothing to remember: a run alone is not resumed."""
