"""Arithmetic on numbers that are shared among the parties: products, shifts, magnitudes, inverse roots.

`SharedArithmetic` has what does not depend on how numbers are shared, `Shares` the rest by MPyC (Shamir's shares, an honest
majority). `tacit.channel.directions.additive` has the rest for additive shares, against all parties but one.
"""

from __future__ import annotations

import asyncio
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.channel.directions.runtime import SECURITY, MpycRuntime

Shared = NDArray[np.object_]
"""This party's shares of an array of integers mod the prime."""

FRACTION = 100
"""Fractional bits of an inverse root."""
_START, _MIDDLE = 24, 40
"""Fractional bits of the first approximation of an inverse root (2**-12.3 relative), and after one Newton step, which squares
the error; the second step reaches FRACTION."""
# 1/sqrt(x) on [1/4, 1] to a relative 2**-12.3 by a polynomial (Remez), its coefficients times 2**24; literal, because
# all parties must have the same to the last bit
_POLYNOMIAL = (69853597, -272841404, 766805937, -1315002474, 1330690819, -729850836, 167124914)
INVERSE_ROOT_SIZE = 178
"""No number opened under a mask in `inverse_root` has more bits."""


class SharedArithmetic(ABC):
    """What the parties can do together with numbers that none of them knows, whatever the shares are.

    Attributes
    ----------
    modulus : int
        Shares are integers modulo this.
    terms : int
        Number of terms of a random number; a mask holds at least one that a coalition does not know.
    """

    modulus: int
    terms: int
    noise_share: float

    @abstractmethod
    def constant(self, value: Any) -> Any:
        """Return this party's share of a public number."""

    @abstractmethod
    def random(self, bits: int, count: int) -> Shared:
        """Return shared numbers: sums of `terms` numbers of `bits` uniform bits, without a message."""

    @abstractmethod
    async def multiply(self, left: Shared, right: Shared) -> Shared:
        """Return the products."""

    @abstractmethod
    async def open(self, shared: Shared) -> Shared:
        """Tell all parties the numbers, taken from 0 to the modulus."""

    async def tell(self, shared: Shared) -> Shared:
        """Tell all parties numbers that they may know; all others are opened under a mask."""
        return await type(self).open(self, shared)

    @abstractmethod
    async def input_sum(self, values: Shared) -> Shared:
        """Share every party's own numbers, and return the shares of their sum."""

    @abstractmethod
    async def prepare(self, columns: int, width: int) -> None:
        """Begin what does not depend on the data, for one call."""

    @abstractmethod
    async def squared_norms(self, total: Shared) -> Shared:
        """Return the squared norm of every column of what `input_sum` gave."""

    @abstractmethod
    async def magnitudes(self, shared: Shared, width: int) -> Shared:
        """Return, for i = 0, 1, ... whether the number, below ``2**width``, is at least ``4**i``."""

    @abstractmethod
    async def open_product(self, left: Shared, right: Shared, noise: Shared) -> Shared:
        """Tell all parties left * right plus the parties' noise, for what `input_sum` gave and one number per column."""

    async def shift(self, shared: Sequence[Shared], drop: Sequence[int], size: int) -> list[Shared]:
        """Divide vectors of numbers below ``2**size`` in magnitude by ``2**drop``, in one round.

        With a mask r = sum of (h * 2**drop + l) over its terms, the parties open c = a + r and take
        floor(c / 2**drop) - sum of h = floor((a + sum of l) / 2**drop); half of what the l add is taken off again.
        The result is within ``terms / 2 + 1`` of a / 2**drop.
        """
        count = shared[0].size
        high = [self.random(size + SECURITY - bits, count) for bits in drop]
        low = [self.random(bits, count) for bits in drop]
        offset = 1 << size  # what is opened must not be negative
        masked = [a + self.constant(offset) + (h << b) + m for a, b, h, m in zip(shared, drop, high, low, strict=True)]
        opened = np.split(await self.open(np.concatenate(masked)), len(shared))
        half = (self.terms - 1) // 2
        parts = zip(opened, drop, high, strict=True)
        return [(self.constant((c >> b) - (offset >> b) - half) - h) % self.modulus for c, b, h in parts]

    async def inverse_root(self, scaled: Shared, width: int) -> Shared:
        """Return ``2**FRACTION / sqrt(x)`` for numbers ``x * 2**width`` with x in [1/4, 1).

        A polynomial of degree 6 to start from, then two steps of third order.
        """
        keep = (_START, _MIDDLE, FRACTION)
        coarse, middle, fine = await self.shift([scaled] * 3, [width - bits for bits in keep], width)
        root = await self._first_guess(coarse)
        root = await self._refine(root, middle, (_MIDDLE, _MIDDLE, _MIDDLE), _MIDDLE, largest_error=-10)
        return await self._refine(root, fine, (FRACTION, FRACTION + 4, 66), FRACTION, largest_error=-28)

    async def _first_guess(self, x: Shared) -> Shared:
        x2 = await self.multiply(x, x)
        x3, x4 = np.split(await self.multiply(np.concatenate([x, x2]), np.concatenate([x2, x2])), 2)
        x5, x6 = np.split(await self.multiply(np.concatenate([x, x2]), np.concatenate([x4, x4])), 2)
        degree = len(_POLYNOMIAL) - 1
        total = self.constant(np.full(x.size, _POLYNOMIAL[0] << _START * degree, dtype=object))
        for power, (monomial, factor) in enumerate(zip((x, x2, x3, x4, x5, x6), _POLYNOMIAL[1:], strict=True), start=1):
            total = total + monomial * (factor << _START * (degree - power))
        scale = _START * degree + 24
        return (await self.shift([total], [scale - _MIDDLE], scale + 2))[0]

    async def _refine(
        self, root: Shared, x: Shared, fractions: tuple[int, int, int], result: int, *, largest_error: int
    ) -> Shared:
        """Return y (1 + e/2 + 3/8 e^2) with e = 1 - x y^2: an error of e in x y^2 becomes one of about e^3.

        `fractions` are the fractional bits of x, of e in the linear term, and of e in the square.
        """
        x_bits, e_bits, c_bits = fractions
        product = x_bits + 2 * _MIDDLE
        error = self.constant(1 << product) - await self.multiply(x, await self.multiply(root, root))
        e, c = await self.shift([error, error], [product - e_bits, product - c_bits], product + largest_error)
        linear, square = np.split(await self.multiply(np.concatenate([root, c]), np.concatenate([e, c])), 2)
        square = await self.multiply(root, square)
        scale = _MIDDLE + 2 * c_bits
        total = 8 * (root << 2 * c_bits) + 4 * (linear << 2 * c_bits - e_bits) + 3 * square
        return (await self.shift([total], [scale + 3 - result], scale + 5))[0]


class Shares(SharedArithmetic):
    """Shamir's shares, by MPyC.

    Every method that opens something opens it under a mask. The mask is the sum of one pseudo-random term for every
    group of ``parties - threshold`` parties, known to that group alone. At least one group is disjoint from a coalition
    of up to `threshold` parties, and its term, uniform over 2**64 times the range of what is hidden, is all that is
    needed.
    """

    def __init__(self, runtime: MpycRuntime) -> None:
        self.runtime = runtime
        self.mpc = runtime.mpc
        self.modulus = runtime.prime
        self.terms = runtime.terms
        self.noise_share = 1 / math.sqrt(self.openers)

    def _field_array(self, values: Shared) -> Any:
        return self.runtime.field.array(values % self.modulus, check=False)

    def random(self, bits: int, count: int) -> Shared:
        """Return shared numbers: sums of `terms` numbers of `bits` uniform bits, without a message."""
        from mpyc import thresha

        run = self.runtime
        prfs, unique = self.mpc.prfs(1 << bits), self.mpc._prss_uci()
        drawn = thresha.np_pseudorandom_share(run.field, run.parties, run.index, prfs, unique, count)
        return drawn.value  # type: ignore[no-any-return]

    async def multiply(self, left: Shared, right: Shared) -> Shared:
        """Return the products, in one round."""
        return await self.reshare(left * right)

    async def reshare(self, products: Shared) -> Shared:
        """Bring shares of twice the degree (products, or sums of products, made at each party) back to the degree."""
        return (await self.mpc._reshare(self._field_array(products))).value  # type: ignore[no-any-return]

    async def open(self, shared: Shared) -> Shared:
        """Tell all parties the numbers, taken from 0 to the prime."""
        return (await self.mpc.output(self._field_array(shared))).value  # type: ignore[no-any-return]

    async def input_sum(self, values: Shared) -> Shared:
        """Share every party's own vector, and return the shares of their sum."""
        given = await self.mpc.input(self._field_array(values))
        total = given[0][0].value
        for (array,) in given[1:]:
            total = total + array.value
        return total % self.modulus  # type: ignore[no-any-return]

    def constant(self, value: Any) -> Any:
        """Return the number: a polynomial that is constant."""
        return value

    async def prepare(self, columns: int, width: int) -> None:
        """Begin to make shared random binary digits."""
        self._random_bits: asyncio.Future[Any] = self.mpc.np_random_bits(self.runtime.field, columns * width)

    async def squared_norms(self, total: Shared) -> Shared:
        """Return the squared norm of every column: one inner product at each party, and one message."""
        return await self.reshare(np.sum(total * total, axis=0))

    async def magnitudes(self, shared: Shared, width: int) -> Shared:
        """Return, for i = 0, 1, ... whether the number, below ``2**width``, is at least ``4**i``."""
        return await self.at_least(await self.bits(shared, width, self._random_bits))

    @property
    def openers(self) -> int:
        """How many parties, the first ones, it takes to open a product."""
        return 2 * self.runtime.threshold + 1

    async def open_product(self, left: Shared, right: Shared, noise: Shared) -> Shared:
        """Tell all parties left * right plus the sum of the openers' noise, without resharing: a masked sum.

        The product of the shares, times Lagrange's factor, is this party's term of a sum. It leaves with the party's
        own noise, and under masks that each pair of openers draws from its common key and that cancel in the total. So
        a coalition learns the sum of the others' terms alone, and with it the noisy product.
        """
        from mpyc import thresha

        run, count = self.runtime, left.size
        unique = self.mpc._prss_uci()
        label = self.mpc._program_counter[0]  # made new by the line before
        total: Shared = np.zeros(count, dtype=object)
        if run.index < self.openers:
            points = tuple(range(1, self.openers + 1))
            factor = thresha._recombination_vector(run.field, points, 0)[run.index]
            total = (left * (right * factor % self.modulus)).ravel() + noise
            for peer in range(self.openers):
                if peer != run.index:
                    mask = thresha.PRF(run.pair_keys[peer], self.modulus)(unique, (count,))
                    total = total + mask if run.index < peer else total - mask
            total %= self.modulus
            message = run.codec.dumps(total)
            for link in run.links.values():
                link.send(label, message)
        coming = [link.receive(label) for peer, link in run.links.items() if peer < self.openers]
        for data in await self.mpc.gather(coming):
            total = total + run.codec.loads(data)
        return np.reshape(total % self.modulus, left.shape)

    async def bits(self, shared: Shared, width: int, random_bits: asyncio.Future[Any]) -> Shared:
        """Return the binary digits of numbers below ``2**width``, the lowest first: one row per number.

        As in Schoenmakers and Tuyls (2006): open the number less a random one whose digits are shared, and add that
        one again, digit by digit, with all carries at once in a logarithmic number of rounds.
        """
        digits: Shared = (await random_bits).value.reshape(shared.size, width)
        drawn = np.sum(digits << np.arange(width), axis=-1)
        high = self.random(SECURITY, shared.size)
        opened = await self.open(shared - drawn + (1 << width) + (high << width))
        public = np.right_shift.outer(opened, np.arange(width)) & 1
        carry = digits * public
        passes = digits + public - 2 * carry
        for upper, below in halves(width):
            count = upper.size
            both = np.concatenate([carry[:, below], passes[:, below]], axis=1)
            both = await self.multiply(both, np.concatenate([passes[:, upper]] * 2, axis=1))
            carry[:, upper] += both[:, :count]
            passes[:, upper] = both[:, count:]
        result = digits + public - 2 * carry
        result[:, 1:] += carry[:, :-1]
        return np.asarray(result % self.modulus)

    async def at_least(self, digits: Shared) -> Shared:
        """Return, for i = 0, 1, ... whether the number with these binary digits is at least ``4**i``."""
        even, odd = digits[:, 0::2], digits[:, 1::2]
        prefix_or = even + odd - await self.multiply(even, odd)
        prefix_or = prefix_or[:, ::-1]  # from the top down
        for upper, below in halves(prefix_or.shape[1]):
            prefix_or[:, upper] += prefix_or[:, below] - await self.multiply(prefix_or[:, upper], prefix_or[:, below])
        return np.asarray(prefix_or[:, ::-1] % self.modulus)


def halves(width: int) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Yield the steps of a parallel prefix: the places to update, and the place below that each one takes in."""
    places = np.arange(width)
    block = 1
    while block < width:
        upper = places[places // block % 2 == 1]
        yield upper, upper // block * block - 1
        block *= 2
