"""One party's session: the sums over all parties, remembered in a journal so that a run can go on after a failure."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tacit.channel.directions.summer import withstands
from tacit.channel.fixedpoint import Elements, Ring
from tacit.channel.masked import DIRECTION_BITS, Division, MaskedSum, Masks, as_bytes, elements_of
from tacit.channel.surviving import SurvivableSum
from tacit.errors import PartyError, ProtocolError, words
from tacit.parties.handshake import Agreement
from tacit.parties.job import Job
from tacit.parties.journal import Begun, RoundJournal
from tacit.parties.link import LABEL_BYTES, Link

if TYPE_CHECKING:
    from tacit.channel.directions.summer import NormalisedSummer

SAME_RESULT = 1e-6
"""Relative difference of public results that parties' own arithmetic may leave; a larger one is an error."""
DIRECTION_SECONDS = 3600.0
"""Most that one normalised sum may take, whatever the parties' signs of life."""


class MissingRoundError(ProtocolError):
    """A party without a link to others needs a round that is not in its checkpoint."""


class Session:
    """The way of this party to the others (a `tacit.channel.peers.Peers`).

    Rounds whose total is in the journal are answered from it. A round that was broken off is made again with the very
    numbers that were sent before, noise included. Without a link, all rounds must be in the journal.
    """

    resumable = True

    def __init__(
        self,
        job: Job,
        index: int,
        journal: RoundJournal,
        link: Link | None = None,
        agreement: Agreement | None = None,
        *,
        on_begin: Callable[[], None] = lambda: None,
        on_round: Callable[[int], None] = lambda number: None,
    ) -> None:
        self.index, self._names = index, [party.name for party in job.parties]
        # the noise is sized for parties that collude and for parties that leave
        self.honest = len(self._names) - job.colluding - job.survive
        self._left, self._survive = journal.left, job.survive
        self.hides_norms = job.hide_norms
        self._colluding = job.colluding
        self._journal, self._on_begin, self._on_round = journal, on_begin, on_round
        self._maybe_link = link
        self._sums: MaskedSum | SurvivableSum | None = None
        if link is not None and agreement is not None:
            masks = Masks(index, agreement.mask_keys)
            self._sums = SurvivableSum(link, masks, journal) if job.survive else MaskedSum(link, masks)
            self._sums.note(agreement.run)
        self._all_concluded = agreement is None or agreement.all_concluded
        self._round = 0
        self._has_sent = False
        self._samples = 0
        self._directions = 0
        self._summer: NormalisedSummer | None = None
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="tacit-checkpoint")  # starts its thread when it is used

    @property
    def parties(self) -> int:
        """How many parties take part in the round under way, or did in the last one."""
        number = max(self._round - 1, 0)
        return len(self._names) - sum(number >= first for first in self._left.values())

    @property
    def divides(self) -> bool:
        """Whether parties divide work on totals; not where one of them may leave with its part."""
        return not self._survive

    @property
    def _link(self) -> Link:
        if self._maybe_link is None:
            raise MissingRoundError(
                f"round {self._round} in the checkpoint of a run that has come to its end",
                words("no such round"),
                "Resume with the same job, data and version.",
            )
        return self._maybe_link

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
        if self._survive:
            words_ += f"; up to {self._survive} may leave for good"
        for place, number in sorted(self._left.items()):
            words_ += f"; from round {number + 1} on the records of {self._names[place]}, which left, are missing"
        if self._directions:
            most = withstands(self.parties, self._colluding)
            words_ += f"; norms stay hidden while at most {most} parties pool what they know"
        return words_

    def add(
        self, elements: Elements, ring: Ring, label: str, *, noised: bool = False, division: Division | None = None
    ) -> Elements:
        """Return the total over all parties."""
        number, digest, begun = self._begin(label)
        kept: bytes | memoryview
        if begun is not None and begun.total is not None:
            kept = begun.total
            self._note(digest + begun.total)
        else:
            link = self._link
            assert self._sums is not None
            link.traffic.rounds = self._round
            if begun is not None and noised:
                assert begun.sent is not None
                elements = np.frombuffer(begun.sent, dtype="<u8").astype(np.uint64).reshape(-1, elements.shape[1])
            size = 8 * ring.words * elements.shape[1] if division is None else division.most_bytes
            sent = elements.tobytes() if begun is None and noised else None
            heard = partial(self._journal.hear, number)
            # masks are made while the disk is waited for
            with self._noting(number, digest, size, sent, is_new=begun is None) as noted:
                if division is None:
                    kept = as_bytes(self._sums.add(elements, ring, label, sending=noted, heard=heard))
                else:
                    assert isinstance(self._sums, MaskedSum)
                    kept = self._sums.add_and_work(elements, ring, label, division, sending=noted, heard=heard)
            self._journal.keep_total(number, kept)
        self._on_round(self._round)
        if division is not None:
            return division.read(kept, "the checkpoint")
        numbers = elements.shape[1]
        return elements_of(kept, (1 if len(kept) == 8 * numbers else ring.words, numbers), "the checkpoint")

    def direction(self, integers: NDArray[np.object_], label: str) -> NDArray[np.float64]:
        """Return the total with each column divided by its norm, by general secure computation."""
        number, digest, begun = self._begin(label)
        self._directions += 1
        if begun is not None and begun.total is not None:
            total = np.frombuffer(begun.total, dtype="<f8").reshape(integers.shape)
        else:
            link = self._link
            if begun is None:
                self._journal.begin(number, digest, 8 * integers.size, None)
            self._before_sending()
            link.traffic.rounds = self._round
            self._swap_with_all(b"ready for a normalised sum", digest)  # wait here for parties that still compute
            self._journal.hear(number)
            total = self._summed_directions(integers)
            self._journal.keep_total(number, total.astype("<f8").tobytes())
        self._note(digest + total.tobytes())
        self._on_round(self._round)
        return total

    def sampler(self) -> np.random.Generator:
        """Return a generator that is keyed by a secret of this run: unpredictable, and the same when the run is resumed."""
        from tacit.privacy.noise.entropy import keyed_generator

        self._samples += 1
        secret = self._journal.secret("samples")
        return keyed_generator(hashlib.sha256(secret + self._samples.to_bytes(8, "big")).digest()[:16])

    def agree(self, numbers: NDArray[np.float64]) -> None:
        """Compare what came out with all others: a start or a rule that looked at one party's data would show here."""
        if self._maybe_link is None or (self._journal.concluded and self._all_concluded):
            return
        for peer, theirs in self._swap_with_all(b"the same result", numbers.astype("<f8").tobytes()).items():
            others = np.frombuffer(theirs, dtype="<f8") if len(theirs) % 8 == 0 else np.empty(0)
            if others.shape != numbers.shape or not np.allclose(others, numbers, rtol=SAME_RESULT, equal_nan=True):
                raise ProtocolError(
                    f"{self._link.names[peer]} to end with the same result as this party",
                    words("another one"),
                    "What is shared may depend on totals only: give the model a start that does not look at a party's own data.",
                )
        self._journal.conclude()

    @property
    def charged(self) -> bool:
        """Whether this run was charged before it was interrupted."""
        return self._journal.charged

    def note_charge(self) -> None:
        """Remember that the run was charged."""
        self._journal.note_charge()

    def close(self) -> None:
        """Let go of the general secure computation, and of the thread that writes."""
        self._writer.shutdown()
        if self._summer is not None:
            self._summer.close()

    def _summed_directions(self, integers: NDArray[np.object_]) -> NDArray[np.float64]:
        from tacit.channel.directions.summer import NormalisedSummer

        start, processor = time.monotonic(), time.process_time()
        try:
            if self._summer is None:
                # the link ends the wait for a peer without a sign of life; computing may take its time
                self._summer = NormalisedSummer(
                    self._link,
                    bits=DIRECTION_BITS,
                    short="zero",
                    timeout=DIRECTION_SECONDS,
                    colluding=self._colluding,
                )
            summed = self._summer(integers)
        except PartyError as error:
            raise self._link.blame(error) from error
        # many small messages: whatever was not computing was waiting
        idle = time.monotonic() - start - (time.process_time() - processor)
        self._link.traffic.waiting += max(0.0, idle)
        return summed

    def _begin(self, label: str) -> tuple[int, bytes, Begun | None]:
        """Return the number of the next round, the digest of what is asked for, and what the journal has of it."""
        number, self._round = self._round, self._round + 1
        digest = hashlib.blake2b(label.encode(), digest_size=LABEL_BYTES).digest()
        begun = self._journal.round(number)
        if begun is not None and begun.label != digest:
            raise ProtocolError(
                f"round {number} to ask for what it asked before",
                words("something else"),
                "Resume with the same data and version.",
            )
        return number, digest, begun

    @contextlib.contextmanager
    def _noting(
        self, number: int, digest: bytes, size: int, sent: bytes | None, *, is_new: bool
    ) -> Iterator[Callable[[], None]]:
        """Note a round as begun while this thread goes on.

        The block is given a function that waits until the note is on the disk. It must be called before anything is sent.
        """
        if not is_new:
            yield self._before_sending
            return
        writing = self._writer.submit(self._journal.begin, number, digest, size, sent)

        def noted() -> None:
            writing.result()
            self._before_sending()

        try:
            yield noted
        finally:
            if not writing.done():
                wait([writing])

    def _before_sending(self) -> None:
        """Say once in a session that numbers are about to leave; the round is in the journal by then.

        Also in a resumed session: the process may have ended between the two.
        """
        if not self._has_sent:
            self._on_begin()
            self._has_sent = True

    def _note(self, seen: bytes) -> None:
        if self._sums is not None:
            self._sums.note(seen)

    def _swap_with_all(self, label: bytes, message: bytes) -> dict[int, memoryview]:
        return self._link.swap(label[:LABEL_BYTES].ljust(LABEL_BYTES), dict.fromkeys(self._link.peers, message))
