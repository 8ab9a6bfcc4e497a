"""Compiled loops over the numbers of long sums, for `tacit.channel.fixedpoint` and `tacit.channel.masked`.

They take a while to load: short sums do without.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Words = NDArray[np.uint64]


@njit(cache=True, nogil=True)
def put_on_grid(values: NDArray[np.float64], factor: float, limit: float, integers: NDArray[np.int64]) -> bool:
    """Round the products with `factor` to integers, halves to even; return whether all are below `limit` in magnitude."""
    fits = True
    for place in range(values.size):
        scaled = np.rint(values[place] * factor)
        inside = abs(scaled) < limit  # false for NaN
        fits &= inside
        integers[place] = np.int64(scaled if inside else 0.0)
    return fits


@njit(cache=True, nogil=True)
def take_off_grid(integers: NDArray[np.int64], step: float, values: NDArray[np.float64]) -> None:
    """Multiply integers by a step, in float64."""
    for place in range(integers.size):
        values[place] = np.float64(integers[place]) * step


@njit(cache=True, nogil=True)
def add_two_words(lower: Words, upper: Words, term_lower: Words, term_upper: Words) -> None:
    """Add integers of 128 bits in place, wrapping."""
    for place in range(lower.size):
        total = lower[place] + term_lower[place]
        upper[place] += term_upper[place] + np.uint64(total < term_lower[place])
        lower[place] = total


@njit(cache=True, nogil=True)
def take_two_words(lower: Words, upper: Words, term_lower: Words, term_upper: Words) -> None:
    """Subtract integers of 128 bits in place, wrapping."""
    for place in range(lower.size):
        upper[place] -= term_upper[place] + np.uint64(lower[place] < term_lower[place])
        lower[place] -= term_lower[place]


@njit(cache=True, nogil=True)
def take_lowest_bits(words: Words, lower: NDArray[np.uint32], upper: NDArray[np.uint16]) -> None:
    """Set `lower` to the lower halves of words, and `upper` to the 16 bits above them."""
    for place in range(words.size):
        lower[place] = np.uint32(words[place] & np.uint64(0xFFFFFFFF))
        upper[place] = np.uint16(words[place] >> np.uint64(32) & np.uint64(0xFFFF))


@njit(cache=True, nogil=True)
def add_lowest_bits(words: Words, lower: NDArray[np.uint32], upper: NDArray[np.uint16]) -> None:
    """Add numbers of 48 bits to words in place, wrapping."""
    for place in range(words.size):
        words[place] += np.uint64(lower[place]) | np.uint64(upper[place]) << np.uint64(32)


@njit(cache=True, nogil=True)
def leave_out_zeros(numbers: Words, bits: NDArray[np.uint8], kept: Words) -> int:
    """Put the numbers that are not zero into `kept`, and set the bit of each in `bits`, which are zero; return how many."""
    count = 0
    for place in range(numbers.size):
        number = numbers[place]
        kept[count] = number
        is_kept = np.uint8(number != 0)
        count += int(is_kept)
        bits[place >> 3] |= is_kept << np.uint8(7 - (place & 7))
    return count


@njit(cache=True, nogil=True)
def put_zeros_back(bits: NDArray[np.uint8], kept: Words, numbers: Words) -> None:
    """Set all numbers: where the bit is set to the next one that was kept, elsewhere to zero.

    There is one number for each bit, and `kept` has at least one more. No step depends on a comparison, which processors
    would guess wrongly.
    """
    count = 0
    for place in range(numbers.size):
        is_kept = bits[place >> 3] >> np.uint8(7 - (place & 7)) & np.uint8(1)
        numbers[place] = kept[count] * np.uint64(is_kept)
        count += int(is_kept)


@njit(cache=True, nogil=True)
def weighted_sums(lower: Words, upper: Words, weights: Words) -> Words:
    """Return the sum of the products of words and weights, in digits to the base 2^32 that may be larger than that.

    Digits 0 to 3 are those of the words as unsigned numbers. Digits 4 and 5 are those of the sum of the weights of negative
    words: as an unsigned number each of these is 2^64 too large. The last entry is 0 if every upper word is nothing but the sign
    of its lower one.
    """
    half, low, sign = np.uint64(32), np.uint64(0xFFFFFFFF), np.uint64(63)
    first = second = third = fourth = weight_low = weight_high = differing = np.uint64(0)
    for place in range(lower.size):
        number, weight = lower[place], weights[place]
        number_low, number_high, low_weight, high_weight = number & low, number >> half, weight & low, weight >> half
        product = number_low * low_weight
        first += product & low
        second += product >> half
        product = number_low * high_weight
        second += product & low
        third += product >> half
        product = number_high * low_weight
        second += product & low
        third += product >> half
        product = number_high * high_weight
        third += product & low
        fourth += product >> half
        negative = np.uint64(0) - (number >> sign)
        weight_low += low_weight & negative
        weight_high += high_weight & negative
        differing |= upper[place] ^ negative
    return np.array([first, second, third, fourth, weight_low, weight_high, differing])
