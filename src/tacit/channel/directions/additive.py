r"""Arithmetic on numbers that are shared additively: against all parties but one, and so among two as well.

A number is the sum of the parties' shares modulo 2^l; a bit is their exclusive or. What one party knows times what another
knows becomes shared by oblivious transfer, bit by bit (Gilboa 1999): for bit t of its number the chooser gets
:math:`u_t + x_t a`, the offerer keeps :math:`-u_t`, and both add up with the weights 2^t. From that come multiplication
triples (Beaver 1991), and for bits those of Goldreich, Micali and Wigderson (1987).
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from tacit.channel.directions.link import HELLO, SHARES, PartyStreams, PeerMessages, integers_from_bytes
from tacit.channel.directions.runtime import SECURITY
from tacit.channel.directions.shares import Shared, SharedArithmetic, halves
from tacit.channel.directions.transfers import (
    GROUP_BYTES,
    SEEDS,
    Bits,
    Chosen,
    FewChosen,
    FewOffered,
    Offered,
    Transfers,
    Words,
)
from tacit.errors import PartyError, words
from tacit.privacy.noise.entropy import STREAM_KEY_BYTES, counter_stream

VERSION = "additive shares 1"
PRODUCTS = 17
"""Products of shared numbers that one column takes (`SharedArithmetic.inverse_root` and two to scale)."""
AT_ONCE = 1 << 18
"""Transfers that are made at a time, so that memory does not grow with the vectors."""


class PairwiseRuntime:
    """The parties' keys and transfers, and messages from all to all.

    Attributes
    ----------
    links : dict
        The `PeerMessages` of each peer.
    limbs : int
        Words of 64 bits of a share.
    terms : int
        Number of terms of a mask: one of each party.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, wire: PartyStreams, size: int) -> None:
        self.index, self.parties = wire.index, wire.parties
        self.terms = wire.parties
        # as for a prime field: what is hidden, the mask that hides it, the sum of the masks, the sign
        self.limbs = -(-(size + SECURITY + self.terms.bit_length() + 2) // 64)
        self.links = {peer: PeerMessages(loop, wire, peer, 1) for peer in range(self.parties) if peer != self.index}
        self.pair_keys = {peer: secrets.token_bytes(STREAM_KEY_BYTES) for peer in self.links if peer > self.index}
        self.transfers: dict[int, Transfers] = {}
        self._label = 0

    async def agree(self, settings: str) -> None:
        """Exchange keys with all peers, check that they have the same settings, and make the first transfers."""
        mine = hashlib.sha256(f"{settings} {VERSION} {self.limbs} {self.parties}".encode()).digest()
        for peer, link in self.links.items():
            link.send(0, mine + self.pair_keys.get(peer, b""), HELLO)
        for peer, link in self.links.items():
            hello = await link.wait_for(0, HELLO)
            key = hello[len(mine) :]
            if hello[: len(mine)] != mine or len(key) != (STREAM_KEY_BYTES if peer < self.index else 0):
                raise PartyError(
                    f"party {peer} to have the same settings: {settings}, {self.parties} parties, {VERSION}",
                    words("others"),
                    "Give all parties the same job and the same versions.",
                    (peer,),
                )
            if peer < self.index:
                self.pair_keys[peer] = key
        offered = {peer: FewOffered() for peer in self.links}
        offers = await self.swap({peer: few.message for peer, few in offered.items()})
        bits = {peer: [secrets.randbits(1) for _ in range(SEEDS)] for peer in self.links}
        chosen = {}
        for peer in self.links:
            self._check(len(offers[peer]) == GROUP_BYTES, peer)
            chosen[peer] = FewChosen(offers[peer], bits[peer])
            await asyncio.sleep(0)  # exponentiations take a while: the peers are shown that this party lives
        answers = await self.swap({peer: few.message for peer, few in chosen.items()})
        for peer in self.links:
            self._check(len(answers[peer]) == GROUP_BYTES * SEEDS, peer)
            self.transfers[peer] = Transfers(offered[peer].pairs(answers[peer]), bits[peer], chosen[peer].seeds)
            await asyncio.sleep(0)

    @staticmethod
    def _check(right: bool, peer: int) -> None:
        if not right:
            raise PartyError(f"{SEEDS} transfers with party {peer}", words("others"), "Start again.", (peer,))

    async def swap(self, outgoing: Mapping[int, bytes], expected: Collection[int] | None = None) -> dict[int, bytes]:
        """Send each of some peers a message, and return those of the expected ones (of all, if not given)."""
        label, self._label = self._label, self._label + 1
        for peer, message in outgoing.items():
            self.links[peer].send(label, message)
        coming = self.links if expected is None else expected
        return {peer: await self.links[peer].wait_for(label, SHARES) for peer in coming}

    def close(self) -> None:
        """Nothing is shared with other sums."""


class AdditiveShares(SharedArithmetic):
    """What the parties can do together with numbers of which each has a term.

    Whatever is opened leaves under masks that each pair of parties has in common and that cancel in the total, so that a
    coalition learns the sum of the others' shares and nothing else about them.
    """

    noise_share = 0.5**0.5
    """Each party's noise, in parts of the standard deviation that is asked for: one party's alone must hide."""

    def __init__(self, runtime: PairwiseRuntime, own_bits: int) -> None:
        self.runtime: PairwiseRuntime = runtime
        self.own_bits = own_bits
        self.modulus = 1 << 64 * runtime.limbs
        self.terms = runtime.terms
        self._first = runtime.index == 0
        self._width = 8 * runtime.limbs
        self._opened = 0
        self._triples: Shared = np.empty((3, 0), dtype=object)
        self._bit_triples: Bits = np.empty((3, 0), dtype=np.uint8)
        self._double: tuple[Bits, Shared] = (np.empty(0, dtype=np.uint8), np.empty(0, dtype=object))

    def constant(self, value: Any) -> Any:
        """Return this party's share of a public number."""
        return value if self._first else value * 0

    def random(self, bits: int, count: int) -> Shared:
        """Return shared numbers: each party's share has `bits` uniform bits."""
        width = (bits + 7) // 8
        drawn: Shared = integers_from_bytes(secrets.token_bytes(width * count), width) & ((1 << bits) - 1)
        return drawn

    async def input_sum(self, values: Shared) -> Shared:
        """Each party's own numbers are its share of the total."""
        return values

    async def prepare(self, columns: int, width: int) -> None:
        """Make the triples and the random bits for the inverse norms of a number of columns."""
        ands = sum(2 * upper.size for upper, _ in halves(width)) + width // 2
        ands += sum(upper.size for upper, _ in halves(width // 2))
        self._triples = await self._make_triples(PRODUCTS * columns)
        self._bit_triples = await self._make_bit_triples(ands * columns)
        self._double = await self._make_double_bits(columns * (width + width // 2))

    async def multiply(self, left: Shared, right: Shared) -> Shared:
        """Return the products: open both factors under the masks of a triple."""
        count = left.size
        (a, b, c), self._triples = self._triples[:, :count], self._triples[:, count:]
        factors = np.concatenate([left.ravel() - a, right.ravel() - b])
        d, e = np.split(await self.open(factors), 2)
        return np.reshape((c + d * b + e * a + self.constant(d * e)) % self.modulus, left.shape)

    async def open(self, shared: Shared) -> Shared:
        """Tell all parties the numbers, taken from 0 to the modulus."""
        run, width = self.runtime, self._width
        total = shared.ravel() % self.modulus
        for peer, stream in self._streams().items():
            mask = integers_from_bytes(stream.update(bytes(width * total.size)), width)
            total = total + mask if run.index < peer else total - mask
        message = b"".join([value.to_bytes(width, "little") for value in (total % self.modulus).tolist()])
        for data in (await run.swap(dict.fromkeys(run.links, message))).values():
            total = total + integers_from_bytes(data, width)
        return np.reshape(total % self.modulus, shared.shape)

    async def squared_norms(self, total: Shared) -> Shared:
        """Return the squared norm of every column of the sum of the parties' numbers.

        Of the products of two parties each is needed once, and counts twice; the upper party chooses.
        """
        rows, columns = total.shape
        lower = {peer for peer in self.runtime.links if peer < self.runtime.index}
        upper = set(self.runtime.links) - lower
        crossed = await self._crossed(total.ravel(), total.ravel(), choosing=lower, offering=upper)
        own: Shared = np.sum(total * total, axis=0)
        return np.asarray((own + 2 * np.sum(crossed.reshape(rows, columns), axis=0)) % self.modulus)

    async def open_product(self, left: Shared, right: Shared, noise: Shared) -> Shared:
        """Tell all parties left * right plus the sum of the parties' noise; `left` is the parties' own numbers."""
        everyone = set(self.runtime.links)
        factors = np.broadcast_to(right % self.modulus, left.shape).ravel()
        crossed = await self._crossed(left.ravel(), factors, choosing=everyone, offering=everyone)
        return np.reshape(await self.open((left.ravel() * factors + crossed + noise) % self.modulus), left.shape)

    async def magnitudes(self, shared: Shared, width: int) -> Shared:
        """Return, for i = 0, 1, ... whether the number, below ``2**width``, is at least ``4**i``; in bits, as GMW."""
        count = shared.size
        (own, numbers), rest = self._take_double(count * width), count * (width // 2)
        digits, drawn = own.reshape(count, width), numbers.reshape(count, width)
        low = np.sum(drawn << np.arange(width), axis=-1)
        high = self.random(SECURITY, count)
        opened = await self.open(shared - low + self.constant(1 << width) + (high << width))
        public = (np.right_shift.outer(opened, np.arange(width)) & 1).astype(np.uint8)
        carry = digits & public
        passes = digits ^ public if self._first else digits.copy()
        bits = passes.copy()
        for upper, below in halves(width):
            both = await self._and(
                np.concatenate([carry[:, below], passes[:, below]], axis=1),
                np.concatenate([passes[:, upper]] * 2, axis=1),
            )
            carry[:, upper] ^= both[:, : upper.size]
            passes[:, upper] = both[:, upper.size :]
        bits[:, 1:] ^= carry[:, :-1]
        even, odd = bits[:, 0::2], bits[:, 1::2]
        reached = (even ^ odd ^ await self._and(even, odd))[:, ::-1]
        for upper, below in halves(width // 2):
            either = await self._and(reached[:, upper], reached[:, below])
            reached[:, upper] ^= reached[:, below] ^ either
        own, numbers = self._take_double(rest)
        told = (await self._open_bits(reached[:, ::-1].ravel() ^ own)).astype(object)
        return np.reshape((self.constant(told) + numbers - 2 * told * numbers) % self.modulus, (count, -1))

    # ------------------------------------------------------------------------------------------ products of two parties

    async def _choose(self, bits: Bits, choosing: Collection[int], offering: Collection[int]) -> Any:
        """Choose by these bits with some peers, and offer the same number of transfers to others."""
        transfers, chosen, messages = self.runtime.transfers, {}, {}
        for peer in choosing:
            messages[peer], chosen[peer] = transfers[peer].choose(bits)
        arrived = await self.runtime.swap(messages, offering)
        return chosen, {peer: transfers[peer].offer(arrived[peer], bits.size) for peer in offering}

    async def _crossed(
        self, own: Shared, given: Shared, *, choosing: Collection[int], offering: Collection[int], signed: bool = True
    ) -> Shared:
        """Return shares of own * the peers' given, over those chosen with, plus the peers' own * given, over those offered to.

        Signed numbers are below the `bits` of the sum in magnitude, others have all bits of a share.
        """
        width = self.own_bits + 1 if signed else 8 * self._width
        step = max(1, AT_ONCE // width)
        parts = [
            await self._crossed_part(own[at : at + step], given[at : at + step], width, signed, choosing, offering)
            for at in range(0, own.size, step)
        ]
        return np.concatenate(parts)

    async def _crossed_part(
        self, own: Shared, given: Shared, width: int, signed: bool, choosing: Collection[int], offering: Collection[int]
    ) -> Shared:
        count, limbs = own.size, self.runtime.limbs
        digits = np.unpackbits(_limbs(own % self.modulus, limbs).view(np.uint8), axis=1, bitorder="little")[:, :width]
        bits = np.ascontiguousarray(digits.T).ravel()  # the lowest bits of all numbers first
        chosen, offered = await self._choose(bits, choosing, offering)
        terms = _limbs(given % self.modulus, limbs)
        total = np.zeros((limbs, count), dtype=np.uint64)
        messages = {}
        for peer, end in offered.items():
            zero, one = (_by_limb(part, width) for part in end.expand(limbs))
            messages[peer] = _plus(_minus(zero, one), terms.T[:, None]).tobytes()
            total = _minus(total, _weighted(zero, signed))
        for peer, message in (await self.runtime.swap(messages, choosing)).items():
            got = _by_limb(chosen[peer].expand(limbs), width)
            sent = np.frombuffer(message, np.uint64).reshape(limbs, width, count)
            got = _plus(got, sent * bits.reshape(width, count).astype(np.uint64))
            total = _plus(total, _weighted(got, signed))
        return integers_from_bytes(np.ascontiguousarray(total.T).tobytes(), self._width)

    # ---------------------------------------------------------------------------------------------------- preparation

    async def _make_triples(self, count: int) -> Shared:
        a, b = self.random(8 * self._width, count), self.random(8 * self._width, count)
        everyone = set(self.runtime.links)
        crossed = await self._crossed(a, b, choosing=everyone, offering=everyone, signed=False)
        return np.stack([a, b, (a * b + crossed) % self.modulus])

    async def _make_bit_triples(self, count: int) -> Bits:
        a, b = (np.unpackbits(np.frombuffer(secrets.token_bytes(-(-count // 8)), np.uint8))[:count] for _ in range(2))
        chosen, offered = await self._choose(a, self.runtime.links, self.runtime.links)
        c, messages = a & b, {}
        for peer, end in offered.items():
            zero, one = (_last_bits(part) for part in end.expand(1))
            messages[peer] = np.packbits(zero ^ one ^ b).tobytes()
            c = c ^ zero
        for peer, message in (await self.runtime.swap(messages)).items():
            sent = np.unpackbits(np.frombuffer(message, np.uint8))[:count]
            c = c ^ _last_bits(chosen[peer].expand(1)) ^ (a & sent)
        return np.stack([a, b, c])

    async def _make_double_bits(self, count: int) -> tuple[Bits, Shared]:
        """Return random bits, shared both as bits and as numbers: x + b - 2 x b, for the bit b of one party after the other."""
        run, limbs = self.runtime, self.runtime.limbs
        bits = np.unpackbits(np.frombuffer(secrets.token_bytes(-(-count // 8)), np.uint8))[:count]
        lower, upper = ({peer for peer in run.links if (peer < run.index) == below} for below in (True, False))
        ends: tuple[dict[int, Chosen], dict[int, Offered]] = await self._choose(bits, lower, upper)
        number = _limbs(bits.astype(object) * 0, limbs).T
        if run.index == 0:
            number = _limbs(bits.astype(object), limbs).T
        for chooser in range(1, run.parties):
            if chooser == run.index:
                both = np.zeros_like(number)
                for peer, message in (await run.swap({}, lower)).items():
                    sent = np.frombuffer(message, np.uint64).reshape(limbs, count)
                    both = _plus(
                        both, _plus(_by_limb(ends[0][peer].expand(limbs), 1)[:, 0], sent * bits.astype(np.uint64))
                    )
                number = _minus(_limbs(bits.astype(object), limbs).T, _plus(both, both))
            elif run.index < chooser:
                zero, one = (_by_limb(part, 1)[:, 0] for part in ends[1][chooser].expand(limbs))
                await run.swap({chooser: _plus(_minus(zero, one), number).tobytes()}, ())
                number = _plus(number, _plus(zero, zero))
            else:
                await run.swap({}, ())
        return bits, integers_from_bytes(np.ascontiguousarray(number.T).tobytes(), self._width)

    def _take_double(self, count: int) -> tuple[Bits, Shared]:
        bits, numbers = self._double
        self._double = bits[count:], numbers[count:]
        return bits[:count], numbers[:count]

    # ----------------------------------------------------------------------------------------------------------- bits

    async def _and(self, left: Bits, right: Bits) -> Bits:
        count = left.size
        (a, b, c), self._bit_triples = self._bit_triples[:, :count], self._bit_triples[:, count:]
        d, e = np.split(await self._open_bits(np.concatenate([left.ravel() ^ a, right.ravel() ^ b])), 2)
        product = c ^ (d & b) ^ (e & a)
        return np.reshape(product ^ (d & e) if self._first else product, left.shape)

    async def _open_bits(self, shared: Bits) -> Bits:
        packed = np.packbits(shared)
        for stream in self._streams().values():
            packed = packed ^ np.frombuffer(stream.update(bytes(packed.size)), np.uint8)
        total = packed
        for data in (await self.runtime.swap(dict.fromkeys(self.runtime.links, packed.tobytes()))).values():
            total = total ^ np.frombuffer(data, np.uint8)
        return np.unpackbits(total)[: shared.size]

    def _streams(self) -> dict[int, Any]:
        """Return the masks that this party has in common with each peer, for the next opening."""
        number, self._opened = self._opened, self._opened + 1
        return {peer: counter_stream(key, number) for peer, key in self.runtime.pair_keys.items()}


# ------------------------------------------------------------------------------- numbers of several words, lowest first


def _limbs(values: Shared, limbs: int) -> Words:
    """Return numbers below ``2**(64 limbs)`` as rows of words."""
    content = b"".join([int(value).to_bytes(8 * limbs, "little") for value in values.tolist()])
    return np.frombuffer(content, np.uint64).reshape(-1, limbs)


def _by_limb(expanded: Words, width: int) -> Words:
    """Bring strings of the transfers for `width` bits of some numbers into the shape (limbs, width, numbers)."""
    return np.ascontiguousarray(expanded.T).reshape(expanded.shape[1], width, -1)


def _plus(left: Words, right: Words) -> Words:
    total = left + right
    carry = total[0] < right[0]
    for place in range(1, len(total)):
        over = total[place] < right[place]
        total[place] += carry
        carry = over | (carry & (total[place] == 0))
    return total


def _minus(left: Words, right: Words) -> Words:
    return ~_plus(~left, np.broadcast_to(right, left.shape))  # a - b = not (not a + b)


def _weighted(parts: Words, signed: bool) -> Words:
    """Return the sum over bits t of 2^t times the part of that bit; of a signed number the top bit counts negatively."""
    limbs, width, count = parts.shape
    total = np.zeros((limbs, count), dtype=np.uint64)
    for place in reversed(range(width)):
        doubled = total << np.uint64(1)
        doubled[1:] |= total[:-1] >> np.uint64(63)
        total = _minus(doubled, parts[:, place]) if signed and place == width - 1 else _plus(doubled, parts[:, place])
    return total


def _last_bits(expanded: Words) -> Bits:
    return (expanded[:, 0] & np.uint64(1)).astype(np.uint8)
