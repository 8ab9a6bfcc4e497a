r"""Exact samplers of integer noise; `tacit.privacy.noise` is their public face.

Both laws are :math:`P(v) \propto \exp(-V(|v| / w))` with a width :math:`w = m / 2^s`, a rational number. The half-line is
cut into slabs of width :math:`w / L`, and a draw is made of attempts, each a function of random 64-bit words:

1. a slab k, with weight :math:`\exp(-V(k / L))`: a uniform number against the binary expansions of the distribution
   function, which are known to 256 bits and do not depend on the width;
2. an integer v of that slab, uniformly;
3. it is kept with probability :math:`\exp(-t)`, :math:`t = V(v / w) - V(k / L) = x (q (2k + x) + r)`, where x in [0, 1) is
   the place of v in its slab: a second uniform number against :math:`\exp(-t)`;
4. a sign; zero has one sign only, or it would count twice.

Exactness. Compiled code computes :math:`\exp(-t)` in float64, with an error far below `UNSURE`, and decides where the
uniform number is farther than that from it; 64 bits decide the slab unless they tie with an expansion. The attempts that
are left, one in about :math:`2^{44}`, are decided anew in decimal arithmetic of 120 digits (`decide`), with as many more
random bits as it takes. Bits that tie to the 256th (probability below :math:`2^{-240}`) decide nothing and raise an error.
So no outcome depends on a rounding.

An attempt that the buffer of words cuts off is made anew from its first word on a longer buffer. Hence a draw depends on
the infinite stream alone and never on where a buffer happened to end; new words instead would favour short attempts.

References
----------
C. F. F. Karney, "Sampling exactly from the normal distribution", ACM TOMS 42(1), 2016: the slabs of one width.
C. L. Canonne, G. Kamath, T. Steinke, "The discrete Gaussian for differential privacy", 2020.
G. Marsaglia, W. W. Tsang, "The ziggurat method for generating random variables", J. Stat. Softw. 5(8), 2000: the quick yes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate

import numpy as np
from numba import njit
from numpy.typing import NDArray

from tacit.errors import TacitError, words

Words = NDArray[np.uint64]
Integers = NDArray[np.int64]
Source = Callable[[int], Words]
"""Returns a number of new random words, in memory that the next call may overwrite."""

UNSURE = 2.0**-45
"""x and t carry a few roundings each, of 2**-53 relative, and t <= 20; exp is good to a few units in the last place."""
FINE = 32.0
"""From this width on slabs are narrow, so that almost all attempts are kept, and most without computing exp."""
# Random words per attempt: for the slab, for the place within it, and for the comparison with exp.
_WORDS_OF_AN_ATTEMPT = 3
# Bits of the exact table of slabs, of a word, and of the index that finds a slab in the table.
_TABLE_BITS, _WORD_BITS, _GUIDE_BITS = 256, 64, 12
# Precision of decimal arithmetic, and an upper bound on its error.
_DIGITS = 120
_DECIMAL_ERROR = Decimal("1e-110")
# Most words drawn at a time (they fit the cache of a core, and threads seldom meet at Python's global lock), and most without
# a single draw, which happens with negligible probability. Set by hand.
_MOST_WORDS = 3 << 16
_MOST_WORDS_WITHOUT_A_DRAW = 1 << 20  # as above
# Constants for arithmetic on halves of words.
_ONE, _TWO, _THREE, _HALF_WORD = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(32)
_LOWER_HALF = np.uint64(2**32 - 1)
_GUIDE_SHIFT = np.uint64(_WORD_BITS - _GUIDE_BITS)


@dataclass(frozen=True, eq=False)
class Slabs:
    """A law cut into slabs, for all widths: V(y / L) = q y^2 + r y.

    Attributes
    ----------
    q, r : float
        Exact, both.
    log_fineness : int
        Logarithm of L to base 2.
    rows : tuple of int
        First 256 bits of the distribution function of the slabs; at most 1000 of them, so that rows times m < 2**63.
    cumulative : ndarray of uint64
        First 64 of them.
    guide : ndarray
        For every first 12 bits, the first row that is not below all numbers beginning with them.
    surely : ndarray of uint64
        Numbers of 63 bits below this are below exp(-t) everywhere in the slab.
    """

    q: float
    r: float
    log_fineness: int
    rows: tuple[int, ...]
    cumulative: Words
    guide: NDArray[np.uint16]
    surely: Words

    @classmethod
    def of(cls, q: float, r: float, log_fineness: int) -> Slabs:
        """Compute the tables."""
        masses, falls = [], []
        with localcontext(prec=_DIGITS):
            mass, fall, bend = Decimal(1), (-Decimal(q) - Decimal(r)).exp(), (-2 * Decimal(q)).exp()
            while mass > _DECIMAL_ERROR / 2**16:
                masses.append(mass)
                falls.append(fall)  # exp(-t) at the end of the slab, where it is least
                mass, fall = mass * fall, fall * bend
            total = sum(masses)
            rows = _expanded([sum_ / total for sum_ in accumulate(masses)])
            surely = [int((fall - _DECIMAL_ERROR) * 2**63) for fall in falls[: len(rows)]]
        cumulative = np.array([row >> (_TABLE_BITS - _WORD_BITS) for row in rows], dtype=np.uint64)
        starts = np.arange(2**_GUIDE_BITS, dtype=np.uint64) << _GUIDE_SHIFT
        guide = np.searchsorted(cumulative, starts, side="left").astype(np.uint16)
        return cls(q, r, log_fineness, rows, cumulative, guide, np.array(surely, dtype=np.uint64))


@lru_cache(maxsize=2)
def gaussian_slabs(log_fineness: int) -> Slabs:
    """Return the slabs of V(z) = z^2 / 2."""
    return Slabs.of(0.5 / 4.0**log_fineness, 0.0, log_fineness)


@lru_cache(maxsize=2)
def laplace_slabs(log_fineness: int) -> Slabs:
    """Return the slabs of V(z) = z."""
    return Slabs.of(0.0, 0.5**log_fineness, log_fineness)


@dataclass(frozen=True)
class Width:
    """A width as it meets the slabs: slab k has the integers v with 0 <= v 2^shift - k m < m."""

    m: int
    shift: int
    steps: int

    @classmethod
    def of(cls, width: float, log_fineness: int) -> Width:
        """Take the width as exactly the number that the float stands for."""
        m, denominator = width.as_integer_ratio()
        shift = denominator.bit_length() - 1 + log_fineness
        return cls(m, shift, -(-m >> shift))

    @property
    def left_over(self) -> int:
        """How many of 2**64 words go beyond a whole multiple of the steps."""
        return (1 << _WORD_BITS) % self.steps


def sample_gaussian(sigma: float, count: int, source: Source) -> Integers:
    """Return `count` draws with mass proportional to exp(-k**2 / (2 sigma**2)), 0.5 <= sigma <= 2**40."""
    draws = np.zeros(count, dtype=np.int64)
    add_gaussian(sigma, draws, source)
    return draws


def add_gaussian(sigma: float, totals: Integers, source: Source) -> None:
    """Add the draws of `sample_gaussian` to integers, in place."""
    _add_draws(gaussian_slabs(5 if sigma >= FINE else 0), sigma, totals, source)


def sample_laplace(scale: float, count: int, source: Source) -> Integers:
    """Return `count` draws with mass proportional to exp(-|k| / scale), 2**-8 <= scale <= 2**40."""
    draws = np.zeros(count, dtype=np.int64)
    _add_draws(laplace_slabs(2 if scale >= FINE else 0), scale, draws, source)
    return draws


def _add_draws(slabs: Slabs, width: float, totals: Integers, source: Source) -> None:
    at, count = Width.of(width, slabs.log_fineness), len(totals)
    buffer = np.empty(0, dtype=np.uint64)
    tables = slabs.q, slabs.r, slabs.cumulative, slabs.guide, slabs.surely
    steps = np.uint64(at.steps), np.uint64(at.left_over)
    done, place, barren = 0, 0, 0
    while done < count:
        before = done
        done, place, unsure = _fill(totals, done, buffer, place, at.m, at.shift, steps, tables, UNSURE)
        if unsure:
            stream = iter(int(word) for word in buffer[place:])
            try:
                value, used = decide(stream, slabs, at)
            except RuntimeError:  # the buffer ends within the attempt
                pass
            else:
                place += used
                if value is not None:
                    totals[done] += value
                    done += 1
                continue
        if done == count:
            break
        barren = 0 if done > before else barren + place
        if barren > _MOST_WORDS_WITHOUT_A_DRAW:
            raise TacitError(
                "a generator of random bits",
                words("a million words that did not make one draw"),
                "The bit generator is broken: leave it out.",
            )
        fresh = min(_MOST_WORDS, 8 + _WORDS_OF_AN_ATTEMPT * (count - done) * 9 // 8)
        left = buffer[place:].copy()  # the source may overwrite the buffer
        buffer, place = np.concatenate([left, source(fresh)]) if left.size else source(fresh), 0


@njit(cache=True, nogil=True)
def _fill(
    totals: Integers,
    done: int,
    buffer: Words,
    place: int,
    m: int,
    shift: int,
    steps: tuple[np.uint64, np.uint64],
    tables: tuple[float, float, Words, NDArray[np.uint16], Words],
    unsure: float,
) -> tuple[int, int, bool]:
    """Add draws until all have one, the buffer is used up, or an attempt is unsure; say where, and whether it is.

    Processors guess nearly all branches rightly. Places are unsigned, because compiled code tests signed ones for a minus.
    """
    q, r, cumulative, guide, surely = tables
    many, left_over = steps
    at, word, end, size = np.uint64(done), np.uint64(place), np.uint64(buffer.size), np.uint64(totals.size)
    while at < size and word + _THREE <= end:
        first, second, third = buffer[word], buffer[word + _ONE], buffer[word + _TWO]
        k = np.uint64(guide[first >> _GUIDE_SHIFT])
        k += np.uint64(cumulative[k] < first)
        while cumulative[k] <= first:
            if cumulative[k] == first:
                return int(at), int(word), True
            k += _ONE
        # the upper word of second * many is uniform, once the words are left out that do not divide evenly (Lemire 2019)
        middle = (second >> _HALF_WORD) * (many & _LOWER_HALF) + (
            ((second & _LOWER_HALF) * (many & _LOWER_HALF)) >> _HALF_WORD
        )
        lower = (second & _LOWER_HALF) * (many >> _HALF_WORD) + (middle & _LOWER_HALF)
        j = (second >> _HALF_WORD) * (many >> _HALF_WORD) + (middle >> _HALF_WORD) + (lower >> _HALF_WORD)
        start = np.int64(k) * m
        value = ((start + (1 << shift) - 1) >> shift) + np.int64(j)
        a = (value << shift) - start
        kept = (second * many >= left_over) & (a < m)
        number = third >> _ONE
        if number >= surely[k] and kept and a > 0:
            x = a / m
            gap = math.exp(-x * (q * (2 * np.int64(k) + x) + r)) - float(number) * 2.0**-63
            if abs(gap) <= unsure:
                return int(at), int(word), True
            kept = gap > 0
        bit = np.int64(third & _ONE)  # of the sign
        kept &= (value != 0) | (bit == 0)
        totals[at] += ((value ^ -bit) + bit) * np.int64(kept)
        at += np.uint64(kept)
        word += _THREE
    return int(at), int(word), False


def decide(stream: Iterator[int], slabs: Slabs, at: Width) -> tuple[int | None, int]:
    """Make one attempt in exact arithmetic; return the value, or None if it is not kept, and how many words it took.

    This is what `_fill` computes; RuntimeError says that the stream ended.
    """
    first, second, third = (_next(stream) for _ in range(_WORDS_OF_AN_ATTEMPT))
    used = _WORDS_OF_AN_ATTEMPT
    number, bits = first, _WORD_BITS
    while any(row >> (_TABLE_BITS - bits) == number for row in slabs.rows):
        number, bits, used = _longer(number, bits, stream), bits + _WORD_BITS, used + 1
    k = next(place for place, row in enumerate(slabs.rows) if row >> (_TABLE_BITS - bits) > number)
    j, rest = divmod(second * at.steps, 2**_WORD_BITS)
    value = -(-k * at.m >> at.shift) + j
    a = (value << at.shift) - k * at.m
    if rest < at.left_over or a >= at.m:
        return None, used
    x = Fraction(a, at.m)
    t = x * (Fraction(slabs.q) * (2 * k + x) + Fraction(slabs.r))
    with localcontext(prec=_DIGITS):
        limit = (-Decimal(t.numerator) / Decimal(t.denominator)).exp()
        number, bits = third >> 1, _WORD_BITS - 1
        while a > 0 and Decimal(number + 1) / 2**bits > limit - _DECIMAL_ERROR:
            if Decimal(number) / 2**bits > limit + _DECIMAL_ERROR:
                return None, used
            number, bits, used = _longer(number, bits, stream), bits + _WORD_BITS, used + 1
    negative = third & 1
    if negative and value == 0:
        return None, used
    return -value if negative else value, used


def _next(stream: Iterator[int]) -> int:
    for word in stream:
        return word
    raise RuntimeError("the stream of words ended")


def _longer(number: int, bits: int, stream: Iterator[int]) -> int:
    if bits + _WORD_BITS > _TABLE_BITS:
        raise ArithmeticError(f"random bits tie with a {_TABLE_BITS}-bit expansion; draw again")
    return number << _WORD_BITS | _next(stream)


def _expanded(distribution: list[Decimal]) -> tuple[int, ...]:
    """Return the first bits of each number, up to the first that no number of as many bits exceeds.

    `decimal` rounds each operation correctly, so 1e-110 covers the errors of all, and the masses left out; that both
    ends of the error have the same expansion proves it to be the true one.
    """
    rows: list[int] = []
    for value in distribution:
        row = int((value - _DECIMAL_ERROR) * 2**_TABLE_BITS)
        if row != int((value + _DECIMAL_ERROR) * 2**_TABLE_BITS):
            raise ArithmeticError("the working precision does not determine a table of the sampler")
        rows.append(row)
        if row == 2**_TABLE_BITS - 1:
            break
    return tuple(rows)
