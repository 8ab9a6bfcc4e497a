"""The interface of a channel to the other holders' processes, and the implementation for one process alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.channel.fixedpoint import Elements, Ring
from tacit.privacy.guarantee import HOLDER_IS_TRUSTED
from tacit.privacy.noise.entropy import secure_generator

if TYPE_CHECKING:
    from tacit.channel.masked import Division

ONE_WORD = Ring(1)
"""Integers modulo 2**64."""


class Peers(Protocol):
    """The connection of this process to the others; all run the same program in lock-step."""

    @property
    def index(self) -> int:
        """The index of this process, from 0."""

    @property
    def parties(self) -> int:
        """Number of processes whose terms are added up."""

    @property
    def honest(self) -> int:
        """Number of processes that are assumed honest by a guarantee; the others may pool everything they know."""

    @property
    def trust(self) -> str:
        """Who must be trusted with what, in words."""

    @property
    def hides_norms(self) -> bool:
        """Whether `direction` is available."""

    @property
    def divides(self) -> bool:
        """Whether `add` takes a `division`."""

    def add(
        self, elements: Elements, ring: Ring, label: str, *, noised: bool = False, division: Division | None = None
    ) -> Elements:
        """Return the total over all parties; with a `division` what the parties made of it (`MaskedSum.add_and_work`).

        `label` names what is added, and must be the same for all parties. Numbers with noise (`noised`) are kept until the total
        is known: a resumed run sends the same numbers again, never the same statistic with other noise.
        """

    def direction(self, integers: NDArray[np.object_], label: str) -> NDArray[np.float64]:
        """Return the total of Python integers with each column divided by its norm, which nobody learns."""

    def sampler(self) -> np.random.Generator:
        """Return the generator of this process's next Poisson sample: unpredictable, and the same in a resumed run."""

    def agree(self, numbers: NDArray[np.float64]) -> None:
        """Raise `ProtocolError` unless all parties have these numbers, up to rounding."""

    @property
    def resumable(self) -> bool:
        """Whether an interrupted run can be resumed, so that its charge must not be reduced."""

    @property
    def charged(self) -> bool:
        """Whether this run was charged already, before it was interrupted."""

    def note_charge(self) -> None:
        """Record that the run was charged."""


class Alone:
    """One process: its own terms are the totals."""

    index = 0
    parties = 1
    honest = 1
    trust = HOLDER_IS_TRUSTED
    hides_norms = False
    divides = False
    resumable = False
    charged = False

    def add(
        self, elements: Elements, ring: Ring, label: str, *, noised: bool = False, division: Division | None = None
    ) -> Elements:
        """Return the elements; work is not divided."""
        return elements

    def direction(self, integers: NDArray[np.object_], label: str) -> NDArray[np.float64]:
        """Not available: a single process knows the norm."""
        raise NotImplementedError

    def sampler(self) -> np.random.Generator:
        """Return a new secure generator."""
        return secure_generator()

    def agree(self, numbers: NDArray[np.float64]) -> None:
        """Do nothing."""

    def note_charge(self) -> None:
        """Do nothing: a run of one process is not resumed."""
