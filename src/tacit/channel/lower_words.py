r"""Totals of 128 bits for the price of 64 or 48: parties add up the lowest bits alone, with a check that these say everything.

Nearly all totals fit into 64 bits, but no party may say whether its own numbers do: that would reveal something about
them. So each party m sends the lowest b bits of its numbers :math:`x_{mi}`, and with them one number

.. math:: c_m = \sum_i r_i x_{mi} \bmod p, \qquad p = 2^{89} - 1,

where the :math:`r_i` are public random numbers of 64 bits, drawn for the session. Nothing but the check depends on
them, so that they are independent of all totals. Let :math:`T_i` be a total, of at most 126 bits, and :math:`L_i` what the
lowest bits add up to, as a signed number of b bits: :math:`T_i = L_i + 2^b w_i` with :math:`|w_i| \le 2^{126 - b}`. Whoever
knows the :math:`L_i` and :math:`\sum_m c_m \bmod p` compares the latter with :math:`\sum_i r_i L_i \bmod p`. The two differ
by :math:`2^b \sum_i r_i w_i \bmod p`.

If all totals fit, all :math:`w_i` are 0 and the two are equal. For b of 48 and 64, :math:`|w_i| \le 2^{78} < p`: if
:math:`w_i \ne 0` for some i, it is not a multiple of the prime p, so that at most one of the :math:`2^{64}` values of
:math:`r_i` makes them equal, whatever the other numbers are. So a total that does not fit is missed with a probability of at
most :math:`2^{-64}`. Where the two differ, the sum is made again with more bits: 64 after 48, and then all.

The first sum of a kind is made with 64. Its owners say whether their totals would have fitted 48, and if all did, later sums of
that kind are made with those. What is sent is masked modulo :math:`2^{64}` and then cut: the lowest bits of uniform words are
uniform, and masks that cancel modulo :math:`2^{64}` cancel modulo :math:`2^{48}`.

The :math:`L_i`, :math:`\sum_m c_m \bmod p` and what owners say are functions of the totals and of public numbers: nobody learns
more than the totals. The :math:`c_m` are masked modulo p, so that not even the number of multiples of p in their sum is seen.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tacit.channel.fixedpoint import Elements
from tacit.privacy.noise.entropy import counter_stream

PRIME = 2**89 - 1
"""p, a Mersenne prime."""
CHECK_BYTES = 16
"""Length of a check in a message."""


def public_weights(seed: bytes, count: int) -> NDArray[np.uint64]:
    """Return the first r_i, which all parties draw from the same seed of 32 bytes."""
    return np.frombuffer(counter_stream(seed, 0).update(bytes(8 * count)), "<u8").astype(np.uint64, copy=False)


def check_of(elements: Elements, weights: NDArray[np.uint64], parts: Sequence[slice]) -> int:
    """Return the sum of r_i x_i over some parts of a vector, modulo p; `elements` are of one or two words, signed."""
    from tacit.channel.word_loops import weighted_sums

    total = 0
    for part in parts:
        lower, upper, given = elements[0, part], elements[-1, part], weights[part]
        sums = weighted_sums(lower, upper, given)
        if len(elements) == 1 or not sums[-1]:
            total += _integer(sums, signed=True)
        else:
            total += _integer(sums, signed=False) + (_integer(weighted_sums(upper, upper, given), signed=True) << 64)
    return total % PRIME


def with_both_words(lower: Elements) -> Elements:
    """Return signed numbers of one word as numbers of two."""
    both = np.empty((2, lower.shape[1]), dtype=np.uint64)
    both[0] = lower[0]
    np.right_shift(lower[0].view(np.int64), 63, out=both[1].view(np.int64))
    return both


def _integer(sums: NDArray[np.uint64], *, signed: bool) -> int:
    """Return the sum of which `weighted_sums` gives the digits."""
    digits = [int(digit) for digit in sums]
    total = sum(digit << 32 * place for place, digit in enumerate(digits[:4]))
    return total - ((digits[4] + (digits[5] << 32)) << 64) if signed else total
