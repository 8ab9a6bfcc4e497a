"""One party's session: the sums over all parties, remembered in a journal so that a run can go on after a failure."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.channel.fixedpoint import Elements, Ring
from tacit.channel.masked import DIRECTION_BITS, MaskedSum, Masks
from tacit.errors import PartyError, ProtocolError, words
from tacit.parties.handshake import Agreement
from tacit.parties.job import Job
from tacit.parties.journal import Journal
from tacit.parties.link import LABEL_BYTES, Link

LEAST_TO_HIDE = 3
SAME_RESULT = 1e-6


class Session:
    """The way of this party to the others (a `tacit.channel.peers.Together`).

    Rounds whose total is in the journal are answered from it. A round that was broken off is made again with the very
    numbers that were sent before, noise included.
    """

    resumable = True

    def __init__(
        self,
        job: Job,
        link: Link,
        agreement: Agreement,
        journal: Journal,
        *,
        on_round: Callable[[int], None] = lambda number: None,
    ) -> None:
        self.index, self.parties = link.index, link.parties
        self.honest = link.parties - job.colluding
        self.hides_norms = job.hide_norms and link.parties >= LEAST_TO_HIDE
        self._link, self._journal, self._on_round = link, journal, on_round
        self._sums = MaskedSum(link, Masks(link.index, agreement.mask_keys))
        self._round = 0
        self._samples = 0
        self._summer: Any = None
        self._catch_up(agreement.rounds)

    @property
    def trust(self) -> str:
        """Who must be trusted with what."""
        others = "the other learns" if self.parties == 2 else f"the {self.parties - 1} others learn"
        words_ = (
            f"Nobody is trusted with another party's data: what leaves a party is masked, and {others} the totals and no more, "
            "if they follow the protocol"
        )
        if self.parties == 2:
            words_ += (
                "; but of two parties each can subtract its own term from a total: only noise in the sum helps there"
            )
        if self._summer is not None:
            words_ += f"; norms stay hidden while at most {(self.parties - 1) // 2} parties pool what they know"
        return words_

    def add(self, elements: Elements, ring: Ring, label: str, *, noised: bool = False) -> Elements:
        """Return the total over all parties."""
        number, digest = self._begin(label)
        known = self._known(number, digest)
        if known is not None:
            total = np.frombuffer(known, dtype="<u8").astype(np.uint64).reshape(elements.shape)
            self._sums.note(digest + known)
        else:
            if noised:
                kept = self._same(number, digest, self._journal.sent(number))
                if kept is None:
                    self._journal.keep_sent(number, digest, elements.tobytes())
                else:
                    elements = np.frombuffer(kept, dtype="<u8").astype(np.uint64).reshape(elements.shape)
            total = self._sums.add(elements, ring, label)
            self._journal.keep_total(number, digest, np.ascontiguousarray(total).data)
        self._on_round(self._round)
        return total

    def direction(self, integers: NDArray[np.object_], label: str) -> NDArray[np.float64]:
        """Return the total with each column divided by its norm, by general secure computation."""
        number, digest = self._begin(label)
        known = self._known(number, digest)
        if known is not None:
            found = np.frombuffer(known, dtype="<f8").reshape(integers.shape)
        else:
            found = self._summed_directions(integers)
            self._journal.keep_total(number, digest, found.astype("<f8").tobytes())
        self._sums.note(digest + found.tobytes())
        self._on_round(self._round)
        return found

    def sampler(self) -> np.random.Generator:
        """Return a generator keyed by this run's secret: nobody can predict it, and resuming repeats it."""
        from tacit.privacy.noise.entropy import keyed_generator

        self._samples += 1
        secret = self._journal.secret("samples")
        return keyed_generator(hashlib.sha256(secret + self._samples.to_bytes(8, "big")).digest()[:16])

    def agree(self, numbers: NDArray[np.float64]) -> None:
        """Compare what came out with all others: a start or a rule that looked at one party's data would show here."""
        peers = [peer for peer in range(self.parties) if peer != self.index]
        label = b"the same result".ljust(LABEL_BYTES)
        for peer, theirs in self._link.swap(label, dict.fromkeys(peers, numbers.astype("<f8").tobytes())).items():
            found = np.frombuffer(theirs, dtype="<f8")
            if found.shape != numbers.shape or not np.allclose(found, numbers, rtol=SAME_RESULT, equal_nan=True):
                raise ProtocolError(
                    f"{self._link.names[peer]} to end with the same result as this party",
                    words("another one"),
                    "What is shared may depend on totals only: give the model a start that does not look at a party's own data.",
                )

    @property
    def charged(self) -> bool:
        """Whether this run was charged before it was interrupted."""
        return self._journal.charged

    def note_charge(self) -> None:
        """Remember that the run was charged."""
        self._journal.note_charge()

    def finish(self) -> None:
        """Wait until all are done; after that, a party that leaves is no failure."""
        peers = [peer for peer in range(self.parties) if peer != self.index]
        self._link.swap(b"done".ljust(LABEL_BYTES), dict.fromkeys(peers, b""))
        self._link.finish()

    def close(self) -> None:
        """Let go of the general secure computation."""
        if self._summer is not None:
            self._summer.close()

    def _summed_directions(self, integers: NDArray[np.object_]) -> NDArray[np.float64]:
        from tacit.channel.directions.summer import NormalisedSummer

        start, processor = time.monotonic(), time.process_time()
        try:
            if self._summer is None:
                self._summer = NormalisedSummer(
                    self._link, bits=DIRECTION_BITS, short="zero", timeout=self._link.timeout
                )
            found: NDArray[np.float64] = self._summer(integers)
        except PartyError as error:
            raise self._link.blame(error) from error
        # many small messages: whatever was not computing was waiting
        idle = time.monotonic() - start - (time.process_time() - processor)
        self._link.traffic.waiting += max(0.0, idle)
        return found

    def _begin(self, label: str) -> tuple[int, bytes]:
        number, self._round = self._round, self._round + 1
        self._link.traffic.rounds = self._round
        return number, hashlib.blake2b(label.encode(), digest_size=16).digest()

    def _known(self, number: int, digest: bytes) -> bytes | None:
        return self._same(number, digest, self._journal.total(number))

    @staticmethod
    def _same(number: int, digest: bytes, kept: tuple[bytes, bytes] | None) -> bytes | None:
        """Return what the journal has of a round, if the round was asked for the same then."""
        if kept is None:
            return None
        if kept[0] != digest:
            raise ProtocolError(
                f"round {number} to ask for what it asked before",
                words("something else"),
                "Resume with the same data and version.",
            )
        return kept[1]

    def _catch_up(self, rounds: dict[int, int]) -> None:
        """Have whoever is a round behind get the totals it lacks from one who has them: a total is common knowledge."""
        mine = self._journal.complete
        most = max(mine, *rounds.values())
        giver = min([peer for peer, count in rounds.items() if count == most] + ([self.index] if mine == most else []))
        outgoing = dict.fromkeys(rounds, b"")
        if giver == self.index:
            for peer, count in rounds.items():
                outgoing[peer] = b"".join(self._packed(number) for number in range(count, most))
        arrived = self._link.swap(b"catch up".ljust(LABEL_BYTES), outgoing)
        rest = arrived.get(giver, b"")
        for number in range(mine, most):
            size = int.from_bytes(rest[16:24], "big")
            self._journal.keep_total(number, rest[:16], rest[24 : 24 + size])
            rest = rest[24 + size :]

    def _packed(self, number: int) -> bytes:
        known = self._journal.total(number)
        assert known is not None
        return known[0] + len(known[1]).to_bytes(8, "big") + known[1]
