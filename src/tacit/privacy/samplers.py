"""Exact samplers in integer arithmetic, compiled; `tacit.privacy.noise` is their public face.

Every draw is a function of a stream of fair bits, and no floating-point number takes part in it.

The stream. Bits come from a buffer of 64-bit words through a reservoir. When the buffer runs out in the
middle of a draw, that draw is *replayed* from its first bit on a longer buffer that begins with the very
same bits. Hence a draw depends on the infinite stream alone and never on where a buffer happened to end;
drawing new bits instead would favour the values that need few of them.

Exactness. Both laws follow their papers to the letter, apart from one table each: the number of whole
steps, which has a fixed law, is read off by comparing random bits with the binary expansions of its
distribution function, known to 256 bits. Bits that differ from an expansion decide as all later bits
would; bits that agree to the end (probability below 2**-248) decide nothing and raise an error.

References
----------
C. F. F. Karney, "Sampling exactly from the normal distribution", ACM TOMS 42(1), 2016, algorithm D.
C. L. Canonne, G. Kamath, T. Steinke, "The discrete Gaussian for differential privacy", 2020, algorithm 2.
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from functools import lru_cache

import numpy as np
from numba import njit
from numpy.random import Generator
from numpy.typing import NDArray

from tacit.errors import TacitError, words

# Sums of the numbers below stay under 2**63 for a ratio m / 2**s with m < 2**53 and s <= 61:
# m * 2**_CHUNK for a Bernoulli, and m times the number of rows of a table (19 and 178).
_CHUNK = 8
_TABLE_BITS = 256
_DECIMAL_DIGITS = 120
_UNDECIDED = -1
_MOST_WORDS = 1 << 16
_MOST_WORDS_OF_ONE_DRAW = 1 << 20

# Places in the state of the stream: next word, bits in the reservoir, how many of them are left.
_NEXT, _RESERVOIR, _LEFT = 0, 1, 2

Words = NDArray[np.uint64]
Integers = NDArray[np.int64]
Table = tuple[Integers, Integers, Integers]  # digits of each row; rows [first, end) tie with each digit
Law = tuple[int, int, int, int]  # m and s of m / 2**s; bound of the uniform draw, and its width in bits


@njit(cache=True, nogil=True)
def _ran_out(buffer: Words, stream: Words) -> bool:
    return bool(stream[_NEXT] > np.uint64(buffer.size))


@njit(cache=True, nogil=True)
def _take_bits(count: int, buffer: Words, stream: Words) -> int:
    """Return `count` <= 62 fair bits as int64; all ones, with `_ran_out` true, when there are none left."""
    wanted = np.uint64(count)
    mask = (np.uint64(1) << wanted) - np.uint64(1)
    left, bits = stream[_LEFT], stream[_RESERVOIR]
    if left >= wanted:
        stream[_RESERVOIR] = bits >> wanted
        stream[_LEFT] = left - wanted
        return int(np.int64(bits & mask))
    if stream[_NEXT] >= np.uint64(buffer.size):
        stream[_NEXT] = np.uint64(buffer.size + 1)
        return int(np.int64(mask))
    word = buffer[stream[_NEXT]]
    stream[_NEXT] += np.uint64(1)
    used = wanted - left
    stream[_RESERVOIR] = word >> used
    stream[_LEFT] = np.uint64(64) - used
    return int(np.int64((bits | (word << left)) & mask))


@njit(cache=True, nogil=True)
def _uniform_below(bound: int, width: int, buffer: Words, stream: Words) -> int:
    """Return an integer uniform in [0, bound), where bound <= 2**width; anything when the stream ran out."""
    value = _take_bits(width, buffer, stream)
    while value >= bound and not _ran_out(buffer, stream):
        value = _take_bits(width, buffer, stream)
    return value


@njit(cache=True, nogil=True)
def _bernoulli(a: int, m: int, buffer: Words, stream: Words) -> bool:
    """Return True with probability a / m, for 0 <= a < m < 2**54.

    A uniform number is compared with a / m a few binary digits at a time. The digits r put it in
    [r, r + 1) / 2**_CHUNK; if a / m is inside, the rest of the number is compared with the rest of a / m.
    An exhausted stream (all ones) soon gives False, so that no loop outlives it.
    """
    while True:
        a <<= _CHUNK
        low = _take_bits(_CHUNK, buffer, stream) * m
        if low >= a:
            return False
        if low + m <= a:
            return True
        a -= low


@njit(cache=True, nogil=True)
def _from_table(table: Table, buffer: Words, stream: Words) -> int:
    """Return the first row whose expansion exceeds a uniform number, or `_UNDECIDED` on a tie."""
    digits, first, end = table
    digit = _take_bits(_CHUNK, buffer, stream)
    low, high = int(first[digit]), int(end[digit])
    place = 1
    # Rows before `low` are below the uniform number, rows from `high` above it, those between tie so far.
    while low < high:
        if place == digits.shape[1]:
            return _UNDECIDED
        digit = _take_bits(_CHUNK, buffer, stream)
        while low < high and digits[low, place] < digit:
            low += 1
        while low < high and digits[high - 1, place] > digit:
            high -= 1
        place += 1
    return low


@njit(cache=True, nogil=True)
def _bernoulli_exp_of_step(k: int, a: int, m: int, buffer: Words, stream: Words) -> bool:
    """Return True with probability exp(-g), g = x (2k + x) / (2k + 2), x = a / m.

    Von Neumann: the first n at which a Bernoulli(g / n) fails is odd with probability exp(-g). A
    Bernoulli(g / n) is three independent ones, of 1 / n, of x, and of (2k + x) / (2k + 2); the last is a
    die of 2k + 2 faces, of which 2k win, one loses, and one wins with probability x.
    """
    width = 1
    while (1 << width) < 2 * k + 2:
        width += 1
    n = 1
    while True:
        face = _uniform_below(2 * k + 2, width, buffer, stream)
        if face == 2 * k + 1:
            break
        if face == 2 * k and not _bernoulli(a, m, buffer, stream):
            break
        if not _bernoulli(a, m, buffer, stream):
            break
        if n > 1 and not _bernoulli(1, n, buffer, stream):
            break
        n += 1
    return n & 1 == 1


@njit(cache=True, nogil=True)
def _bernoulli_exp(a: int, m: int, buffer: Words, stream: Words) -> bool:
    """Return True with probability exp(-a / m), for 0 <= a < m, by the same rule."""
    n = 1
    while _bernoulli(a, m, buffer, stream) and (n == 1 or _bernoulli(1, n, buffer, stream)):
        n += 1
    return n & 1 == 1


@njit(cache=True, nogil=True)
def _gaussian_draw(law: Law, table: Table, buffer: Words, stream: Words) -> int:
    """Return one draw with sigma = m / 2**s, or 0 when the stream ran out (the caller looks)."""
    m, s, steps, width = law
    while not _ran_out(buffer, stream):
        # Weight exp(-k^2 / 2) for the whole sigmas; x = a / m in [0, 1) is the rest, in sigmas.
        k = _from_table(table, buffer, stream)
        if _ran_out(buffer, stream):
            break
        if k == _UNDECIDED:
            raise ArithmeticError("random bits tie with a 256-bit expansion; draw again")
        ceiling = (k * m + (1 << s) - 1) >> s
        j = _uniform_below(steps, width, buffer, stream)
        a = ((ceiling << s) - k * m) + (j << s)
        if a >= m:
            continue
        # exp(-x (2k + x) / 2) makes the whole weight exp(-(k + x)^2 / 2).
        wins = 0
        while wins <= k and _bernoulli_exp_of_step(k, a, m, buffer, stream):
            wins += 1
        if wins <= k:
            continue
        value = ceiling + j
        negative = _take_bits(1, buffer, stream) == 1
        if value == 0 and negative:
            continue  # zero has one sign only, or it would count twice
        return -value if negative else value
    return 0


@njit(cache=True, nogil=True)
def _laplace_draw(law: Law, table: Table, buffer: Words, stream: Words) -> int:
    """Return one draw with scale = m / 2**s, or 0 when the stream ran out (the caller looks)."""
    m, s, _, width = law
    while not _ran_out(buffer, stream):
        rest = _uniform_below(m, width, buffer, stream)
        if not _bernoulli_exp(rest, m, buffer, stream):
            continue
        whole = _from_table(table, buffer, stream)
        if _ran_out(buffer, stream):
            break
        if whole == _UNDECIDED:
            raise ArithmeticError("random bits tie with a 256-bit expansion; draw again")
        value = (rest + m * whole) >> s
        negative = _take_bits(1, buffer, stream) == 1
        if value == 0 and negative:
            continue
        return -value if negative else value
    return 0


@njit(cache=True, nogil=True)
def _fill_from_buffer(
    gaussian: bool, out: Integers, done: int, law: Law, table: Table, buffer: Words, stream: Words
) -> int:
    """Draw into `out` from place `done` on; return how many places are filled when the buffer is used up."""
    while done < out.size:
        next_word, reservoir, left = stream[_NEXT], stream[_RESERVOIR], stream[_LEFT]
        value = _gaussian_draw(law, table, buffer, stream) if gaussian else _laplace_draw(law, table, buffer, stream)
        if _ran_out(buffer, stream):
            # The replay begins at the first bit of the draw that was cut off.
            stream[_NEXT], stream[_RESERVOIR], stream[_LEFT] = next_word, reservoir, left
            break
        out[done] = value
        done += 1
    return done


def sample_gaussian(sigma: float, count: int, generator: Generator) -> Integers:
    """Return `count` draws with mass proportional to exp(-k**2 / (2 sigma**2)), 0.5 <= sigma <= 2**40."""
    m, denominator = sigma.as_integer_ratio()
    steps = -(-m // denominator)
    law = (m, denominator.bit_length() - 1, steps, (steps - 1).bit_length())
    return _draw(True, law, _gaussian_table(), count, generator)


def sample_laplace(scale: float, count: int, generator: Generator) -> Integers:
    """Return `count` draws with mass proportional to exp(-|k| / scale), 2**-8 <= scale <= 2**40."""
    m, denominator = scale.as_integer_ratio()
    law = (m, denominator.bit_length() - 1, m, (m - 1).bit_length())
    return _draw(False, law, _geometric_table(), count, generator)


def _draw(gaussian: bool, law: Law, table: Table, count: int, generator: Generator) -> Integers:
    out = np.empty(count, dtype=np.int64)
    stream = np.zeros(3, dtype=np.uint64)
    unread: Words = np.empty(0, dtype=np.uint64)
    done = 0
    while done < count:
        # At least as many words as were left, so that replays of one long draw take linear time in all.
        size = max(unread.size, min(_MOST_WORDS, 16 + count - done))
        # Unlike `random_raw`, `integers` gives 64 fair bits also over bit generators of 32-bit words.
        fresh = generator.integers(0, 2**64 - 1, size=size, dtype=np.uint64, endpoint=True)
        buffer = np.concatenate([unread, fresh])
        done = _fill_from_buffer(gaussian, out, done, law, table, buffer, stream)
        unread = buffer[int(stream[_NEXT]) :]
        stream[_NEXT] = 0
        if done < count and unread.size > _MOST_WORDS_OF_ONE_DRAW:
            raise TacitError(
                "a generator of random bits",
                words("a million words that did not make one draw"),
                "The bit generator is broken: use tacit.privacy.entropy.secure_generator().",
            )
    return out


@lru_cache(maxsize=1)
def _gaussian_table() -> Table:
    """Expand the distribution function of k >= 0 with mass proportional to exp(-k**2 / 2)."""
    with localcontext(prec=_DECIMAL_DIGITS):
        # exp(-40**2 / 2) is below 1e-347: the terms left out are far below the error allowed for.
        masses = [(-Decimal(k * k) / 2).exp() for k in range(40)]
        total = sum(masses, Decimal(0))
        return _expand([sum(masses[: k + 1], Decimal(0)) / total for k in range(40)])


@lru_cache(maxsize=1)
def _geometric_table() -> Table:
    """Expand the distribution function of v >= 0 with mass proportional to exp(-v)."""
    with localcontext(prec=_DECIMAL_DIGITS):
        return _expand([1 - Decimal(-v - 1).exp() for v in range(200)])


def _expand(distribution: list[Decimal]) -> Table:
    """Return one row of digits, _CHUNK bits each, per value, and the rows that each first digit ties with.

    `decimal` rounds each operation correctly, so 1e-110 covers the errors of all; that both ends of the
    error have the same expansion proves it to be the true one.
    """
    error = Decimal("1e-110")
    rows: list[bytes] = []
    for value in distribution:
        expansion = int((value - error) * 2**_TABLE_BITS)
        if expansion != int((value + error) * 2**_TABLE_BITS):
            raise ArithmeticError("the working precision does not determine a table of the sampler")
        rows.append(expansion.to_bytes(_TABLE_BITS // 8, "big"))
        if expansion == 2**_TABLE_BITS - 1:
            break  # no uniform number of as many bits lies above this row
    digits = np.array([list(row) for row in rows], dtype=np.int64)
    first = np.searchsorted(digits[:, 0], np.arange(2**_CHUNK), side="left")
    end = np.searchsorted(digits[:, 0], np.arange(2**_CHUNK), side="right")
    return digits, first.astype(np.int64), end.astype(np.int64)
