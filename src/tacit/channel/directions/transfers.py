r"""Oblivious transfer between two parties: many at a time, from a few by public keys.

One party chooses by a bit, the other offers two random strings: the chooser gets the one of its bit, and the offerer does
not learn which.

*A few*, 128 per pair and direction, by Chou and Orlandi (2015) in the group of squares modulo a 3072-bit safe prime (RFC
3526, group 15). The offerer of these sends :math:`A = g^a`, the chooser :math:`B = g^b A^{c}` for its bit c. The strings
are hashes of :math:`B^a` and :math:`(B/A)^a`, and the chooser knows :math:`A^b`.

*Many*, by Ishai, Kilian, Nissim and Petrank (2003). The chooser has 128 pairs of seeds, of which the offerer got one each by
its secret bits :math:`\Delta`. Both make columns of as many bits as there are transfers. The chooser sends the difference
of the columns of each pair, plus its choices. Then, row by row, :math:`q_j = t_j \oplus c_j \Delta`: the chooser hashes
:math:`t_j`, the offerer :math:`q_j` and :math:`q_j \oplus \Delta`. The hash is
:math:`\pi(\pi(x) \oplus i) \oplus \pi(x)` with AES under a fixed key for :math:`\pi` and a number i that is used once (Guo,
Katz, Wang and Yu 2020). Both protocols are for parties who follow them.
"""

from __future__ import annotations

import functools
import hashlib
import secrets
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import gmpy2
import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from tacit.privacy.noise.entropy import counter_stream

SEEDS = 128
"""Transfers by public keys for each direction of a pair: the computational security of the many."""
GROUP_BYTES = 384
"""Length of a group element, of 3072 bits: security of 128 bits (NIST SP 800-57, table 2)."""
EXPONENT_BITS = 256
"""Length of secret exponents: twice the security level of 128 bits."""
Bits = NDArray[np.uint8]
Words = NDArray[np.uint64]


@functools.cache
def group_modulus() -> int:
    """Return the 3072-bit prime of RFC 3526, by its formula: 2^3072 - 2^3008 - 1 + 2^64 (floor(2^2942 pi) + 1690314)."""
    with gmpy2.context(precision=3072):
        digits = int(gmpy2.floor(gmpy2.mul_2exp(gmpy2.const_pi(), 2942)))
    return (1 << 3072) - (1 << 3008) - 1 + (1 << 64) * (digits + 1690314)


def _powers(bases: Iterable[int], exponents: Iterable[int]) -> list[int]:
    modulus = group_modulus()
    return [int(gmpy2.powmod(base, exponent, modulus)) for base, exponent in zip(bases, exponents, strict=True)]


def _seed(place: int, first: bytes, second: bytes, element: int) -> bytes:
    content = place.to_bytes(4, "big") + first + second + element.to_bytes(GROUP_BYTES, "big")
    return hashlib.sha256(content).digest()


class FewOffered:
    """The end of 128 transfers by public keys that has both strings of each."""

    def __init__(self) -> None:
        self._secret = secrets.randbits(EXPONENT_BITS)
        (self._public,) = _powers([2], [self._secret])
        self.message = self._public.to_bytes(GROUP_BYTES, "big")

    def pairs(self, answer: bytes) -> list[tuple[bytes, bytes]]:
        """Return both seeds of each transfer."""
        modulus = group_modulus()
        parts = [answer[at : at + GROUP_BYTES] for at in range(0, len(answer), GROUP_BYTES)]
        (shift,) = _powers([int(gmpy2.invert(self._public, modulus))], [self._secret])
        pairs = []
        for place, (part, first) in enumerate(
            zip(
                parts,
                _powers([int.from_bytes(part, "big") for part in parts], [self._secret] * len(parts)),
                strict=True,
            )
        ):
            second = first * shift % modulus
            pairs.append((_seed(place, self.message, part, first), _seed(place, self.message, part, second)))
        return pairs


class FewChosen:
    """The end of 128 transfers by public keys that chooses."""

    def __init__(self, offer: bytes, bits: Sequence[int]) -> None:
        modulus, public = group_modulus(), int.from_bytes(offer, "big")
        exponents = [secrets.randbits(EXPONENT_BITS) for _ in bits]
        own = _powers([2] * len(exponents), exponents)
        parts = [
            (value * public % modulus if bit else value).to_bytes(GROUP_BYTES, "big")
            for value, bit in zip(own, bits, strict=True)
        ]
        keys = _powers([public] * len(exponents), exponents)
        self.message = b"".join(parts)
        self.seeds = [_seed(place, offer, part, key) for place, (part, key) in enumerate(zip(parts, keys, strict=True))]


class Chosen(NamedTuple):
    """The chooser's end of some transfers: its bits, and what it can expand."""

    bits: Bits
    root: Words
    start: int

    def expand(self, words: int, domain: int = 0) -> Words:
        """Return for each transfer the string of its bit, of `words` 64-bit words; a domain is used once."""
        return _expand(self.root, self.start, words, domain)


class Offered(NamedTuple):
    """The offerer's end: what the chooser gets for a 0 and for a 1."""

    root: tuple[Words, Words]
    start: int

    def expand(self, words: int, domain: int = 0) -> tuple[Words, Words]:
        """Return both strings of each transfer."""
        zero, one = (_expand(root, self.start, words, domain) for root in self.root)
        return zero, one


class Transfers:
    """All further transfers between this party and one peer, in both directions.

    Parameters
    ----------
    pairs : list of pairs of bytes
        Both seeds of each of the 128 transfers by public keys in which this party offered: for those that it chooses.
    bits : sequence of int
        This party's choices in the others: for those that it offers.
    seeds : list of bytes
        What it got.
    """

    def __init__(self, pairs: list[tuple[bytes, bytes]], bits: Sequence[int], seeds: list[bytes]) -> None:
        self._pairs = [(counter_stream(zero, 0), counter_stream(one, 0)) for zero, one in pairs]
        self._singles = [counter_stream(seed, 0) for seed in seeds]
        self._bits = np.array(bits, dtype=bool)
        self._delta = np.packbits(self._bits, bitorder="little").view(np.uint64)
        self._numbers = [0, 0]

    def choose(self, bits: Bits) -> tuple[bytes, Chosen]:
        """Return the message that chooses, and this party's end."""
        packed = np.packbits(bits, bitorder="little")
        zeros = bytes(packed.size)
        columns = np.empty((SEEDS, packed.size), dtype=np.uint8)
        message = np.empty_like(columns)
        for place, (zero, one) in enumerate(self._pairs):
            columns[place] = np.frombuffer(zero.update(zeros), np.uint8)
            message[place] = columns[place] ^ np.frombuffer(one.update(zeros), np.uint8) ^ packed
        start, self._numbers[0] = self._numbers[0], self._numbers[0] + bits.size
        return message.tobytes(), Chosen(bits, _permuted(_rows(columns)[: bits.size]), start)

    def offer(self, message: bytes, count: int) -> Offered:
        """Take the peer's message for `count` transfers, and return this party's end."""
        theirs = np.frombuffer(message, np.uint8).reshape(SEEDS, -1)
        zeros = bytes(theirs.shape[1])
        columns = np.empty_like(theirs)
        for place, stream in enumerate(self._singles):
            columns[place] = np.frombuffer(stream.update(zeros), np.uint8)
        columns[self._bits] ^= theirs[self._bits]
        rows = _rows(columns)[:count]
        start, self._numbers[1] = self._numbers[1], self._numbers[1] + count
        return Offered((_permuted(rows), _permuted(rows ^ self._delta)), start)


def _rows(columns: NDArray[np.uint8]) -> Words:
    """Turn 128 columns of packed bits into rows of 128 bits each, 8 by 8 bits at a time (Warren 2012, section 7-3)."""
    blocks = columns.reshape(SEEDS // 8, 8, -1).transpose(2, 0, 1)
    x = np.ascontiguousarray(blocks).view(np.uint64)[..., 0]
    for shift, mask in ((7, 0x00AA00AA00AA00AA), (14, 0x0000CCCC0000CCCC), (28, 0x00000000F0F0F0F0)):
        moved = (x ^ (x >> np.uint64(shift))) & np.uint64(mask)
        x = x ^ moved ^ (moved << np.uint64(shift))
    turned = np.ascontiguousarray(x).view(np.uint8).reshape(len(x), SEEDS // 8, 8).transpose(0, 2, 1)
    return np.ascontiguousarray(turned).reshape(-1, SEEDS // 8).view(np.uint64)


def _permuted(blocks: Words) -> Words:
    """Return AES of each block of two words, under a fixed key."""
    fixed = Cipher(algorithms.AES(hashlib.sha256(b"tacit transfers").digest()[:16]), modes.ECB()).encryptor()
    return np.frombuffer(fixed.update(blocks.tobytes()), np.uint64).reshape(blocks.shape)


def _expand(root: Words, start: int, words: int, domain: int) -> Words:
    expanded = np.empty((len(root), words + words % 2), dtype=np.uint64)
    numbered = root.copy()
    numbered[:, 0] ^= np.arange(start, start + len(root), dtype=np.uint64)
    for block in range(expanded.shape[1] // 2):
        tweaked = numbered.copy()
        tweaked[:, 1] ^= np.uint64(domain << 32 | block)
        expanded[:, 2 * block : 2 * block + 2] = _permuted(tweaked) ^ root
    return expanded[:, :words]
