r"""Masked sums that can be made again without a party that left, and reveal nothing about it.

In a plain masked sum (`tacit.channel.masked`) a party may know the total T1 of some numbers before another one leaves. If the
others then add up again without it, T1 - T2 is what the one that left had sent. Here nobody learns anything of a round before
every party has confirmed that it has the masked numbers of all:

1. Party i draws a seed :math:`b_i` and sends all others :math:`y_i = x_i + \sum_j \pm s_{ij} + G(b_i)`: its numbers, the masks of
   the pairs, which cancel in the sum, and a mask of its own. All add up :math:`Y = \sum_i x_i + \sum_i G(b_i)`.
2. All confirm that they have Y.
3. All send their seeds, and compute :math:`\sum_i x_i = Y - \sum_i G(b_i)`.

When parties meet again after a round was broken off, those who are there first say whose seeds of it they have received. If it
is everybody's (their own count), they open the round: it is then complete, with the numbers of all. Otherwise they discard it
and make it again, with the same numbers (noise included), among those who are there, under new keys and new seeds.

A party whose process was killed while seeds arrived does not know which it had. It wrote down, before the first could arrive,
that this was so. If the seed of a party that is missing was not received by anybody else, the round is then neither opened nor
made again without that party: the run stops until it comes back. There is one exception: if one of those who are there had not
confirmed, nobody has sent a seed, and the round is discarded.

**Why what is left of a discarded round cannot be combined with the round that is made again.** Let d have left, S be the
others, C the parties that pool what they know, and H those of S that do not. The round was discarded, so nobody in S has
received :math:`b_d`: either d cannot have sent it, because a confirmation was missing; or each has said so, from what it had
when its session ended, and none was killed while it might have come.

- *d is not in C.* C has received :math:`y_i` for i in H and for d, and possibly seeds of H. The sum over H alone contains the
  masks of the pairs (i, d), which are known to i and d only: it is uniform. The sum over H and d contains :math:`G(b_d)`,
  which d alone can compute: it is uniform too. All other combinations lack a pair as well. So what C has of the round is
  distributed the same whatever :math:`x` is, and independent of the round made again, whose keys and seeds are new.
- *d is in C.* C knows :math:`x_d`, and at most learns :math:`\sum_{i \in H} x_i` from the discarded round. From the round
  made again it learns the same sum of the same numbers. Nothing is added, and noise is not drawn twice.

Uniform and independent are meant as for AES as a pseudo-random function. The parties follow the protocol: one that had received
a seed and did not say so could make the others sum again. A message counts as received if it reaches the party before its session
ends, which it keeps open for a moment after a failure; what arrives at a closed connection is not read.

References
----------
K. Bonawitz et al., "Practical Secure Aggregation for Privacy-Preserving Machine Learning", CCS 2017 (section 4.0.2, on
double masking).
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np

from tacit.channel.fixedpoint import Elements, Ring
from tacit.channel.lower_words import with_both_words
from tacit.channel.masked import DIGEST_BYTES, Masks, PartyLink, as_bytes, elements_of
from tacit.privacy.noise.entropy import STREAM_KEY_BYTES

MASKED_TOTAL, MAY_ARRIVE = -1, -2
"""Beside the parties' seeds are kept: the masked total, whose first byte is the number of words, and whether seeds may have
arrived that are not kept (`UNKNOWN`, or `KNOWN` once those that arrived are kept)."""
UNKNOWN, KNOWN, UNCONFIRMED = b"?", b"!", b"-"
LATE_SECONDS = 1.0
"""How long seeds that are under way are waited for after a failure."""


class OpeningMemory(Protocol):
    """What a party keeps of a round until its total is known."""

    def keep_opening(self, contents: Mapping[int, bytes]) -> None:
        """Keep seeds by party, the masked total as `MASKED_TOTAL`, and whether all seeds are kept as `MAY_ARRIVE`.

        It must be on the disk when this returns.
        """


class PeerLink(PartyLink, Protocol):
    """A link that says who is there, and what arrived of a step that was broken off."""

    @property
    def peers(self) -> list[int]:
        """The other parties that are there."""

    def arrived_in(self, label: bytes, seconds: float) -> dict[int, bytes]:
        """Return the messages of a step that was broken off; those under way may take some `seconds` more."""


class SurvivableSum:
    """Add up vectors over the parties that are there; a broken round reveals nothing; see the module.

    A party sends each number to every other, and a seed. That is (M - 1) / 2 times the numbers of a plain masked sum, and one
    more exchange.
    """

    def __init__(self, link: PeerLink, masks: Masks, memory: OpeningMemory) -> None:
        self.link, self.masks, self._memory = link, masks, memory
        self._number = 0
        self._seen = hashlib.sha256()

    def add(
        self,
        elements: Elements,
        ring: Ring,
        label: str,
        *,
        sending: Callable[[], None] = lambda: None,
        heard: Callable[[], None] = lambda: None,
    ) -> Elements:
        """Return the total; `label` says what is added.

        `sending` is called before anything is sent, when the masks are made, and `heard` when the numbers of all parties are
        here.
        """
        peers, own = self.link.peers, self.link.index
        seed = secrets.token_bytes(STREAM_KEY_BYTES)
        if len(elements) < ring.words:
            elements = with_both_words(elements)
        masked = hidden(self.masks.hide(elements, ring, self._number), ring, seed)
        self._number += 1
        self.note(hashlib.sha256(label.encode()).digest())
        sending()
        arrived = self.link.swap(self._label(1), dict.fromkeys(peers, as_bytes(masked)))
        total = masked
        for peer in peers:
            total = ring.plus(total, elements_of(arrived[peer], total.shape, self.link.names[peer]))
        heard()
        # a peer sends its seed when it has the confirmations of all: not before this party has sent its own, which comes next
        masked_total = bytes([ring.words]) + total.tobytes()
        self._memory.keep_opening({MASKED_TOTAL: masked_total, own: seed, MAY_ARRIVE: UNKNOWN})
        try:
            self.link.swap(self._label(2), dict.fromkeys(peers, b""))
            seeds = {
                peer: bytes(told) for peer, told in self.link.swap(self._label(3), dict.fromkeys(peers, seed)).items()
            }
        except BaseException:
            self._memory.keep_opening({**self.link.arrived_in(self._label(3), LATE_SECONDS), MAY_ARRIVE: KNOWN})
            raise
        whole = opened(total, ring, {**seeds, own: seed})
        self.note(np.ascontiguousarray(whole).data)
        return whole

    def note(self, seen: bytes | memoryview) -> None:
        """Make `seen` a part of what all parties must have in common from now on."""
        self._seen.update(seen)

    def _label(self, step: int) -> bytes:
        return hashlib.sha256(self._seen.digest() + bytes([step])).digest()[:DIGEST_BYTES]


def hidden(elements: Elements, ring: Ring, seed: bytes) -> Elements:
    """Add the mask that a seed gives."""
    return Masks(0, {1: seed}).hide(elements, ring, 0)


def opened(masked: Elements, ring: Ring, seeds: Mapping[int, bytes]) -> Elements:
    """Subtract the masks that seeds give."""
    for seed in seeds.values():
        masked = Masks(1, {0: seed}).hide(masked, ring, 0)
    return masked
