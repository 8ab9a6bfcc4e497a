"""The normalised sum: parties learn the direction of every column of a total, and not how long it is."""

from __future__ import annotations

import math
import secrets
import struct
from types import TracebackType
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.channel.directions.link import START, PartyStreams, integers_from_bytes
from tacit.channel.directions.shares import FRACTION, INVERSE_ROOT_SIZE, Shared, Shares
from tacit.channel.directions.worker import Worker
from tacit.errors import InvalidInputError, PartyError, RangeError, kind_of, parameter, words
from tacit.privacy.noise.entropy import secure_generator
from tacit.validation import check_count, check_positive

MOST_PARTIES = 11
"""The pseudo-random masks cost one term for every half of the parties, which grows too fast beyond this."""
_LOG_ROWS = 24


class NormalisedSummer:
    r"""Directions of totals among 3 to 11 parties: s / ||s|| for every column of the sum s, and nothing else.

    Every party makes one over its wire, all with the same settings, and calls it with its own term as often as the
    job needs; `close` it in the end, or use it in a ``with`` block. There can be one a process, because MPyC keeps
    its runtime in global variables.

    Parameters
    ----------
    wire : PartyStreams
        Private, authenticated, ordered streams to the other parties, for this object alone.
    bits : int, default=61
        Every number of every party is below ``2**bits`` grid steps in magnitude. More than 63 take Python integers, in
        an array of objects: the finer the grid, the shorter the totals whose norm can be hidden.
    resolution : int, default=37
        The direction is told with Gaussian noise of standard deviation ``2**-resolution`` on every number.
    short : {"refuse", "zero"}, default="refuse"
        What becomes of a column whose total is not zero but shorter than ``2**(resolution + 1)`` grid steps: a
        `RangeError` at all parties, or a column of zeros.
    timeout : float, default=60
        Seconds that a call may take, or the first exchange of keys, before the parties that do not answer are named in
        a `PartyError`.

    Notes
    -----
    *Protocol* (Tsikhanovich et al. 2019, App. E, Alg. 7; but with the costly part for one number a column only).
    Shamir shares in a prime field, by MPyC, with threshold t = (M - 1) // 2. (1) Share the terms and add them. (2) One
    inner product a column gives ||s||^2. (3) Its binary digits give i with 4^i <= ||s||^2 < 4^(i+1), and so
    x = ||s||^2 4^-(i+1) in [1/4, 1). (4) A polynomial and two steps of third order give 1 / sqrt(x) and
    r = 2^e (1 + delta) / ||s||, with \|delta\| < 2^-90. (5) Open s r + noise. About 40 rounds; no number of s is
    truncated, compared or reshared.

    *Error.* Every number of the result is that of s / ||s|| plus noise of standard deviation ``2**-resolution``
    (7.3e-12): a column of 10,000 rows is off by about 7e-10 in length. A zero column is zero exactly.

    **Privacy**

    *Against whom.* Up to t of the M parties, who follow the protocol, pool all they see and compute for as long as
    they like but cannot break SHAKE128, with whose keys the masks are drawn. Half of the parties or more could together
    undo the sharing: this is weaker than the masked sum, which stands against M - 1.

    *What they learn.* For every column: whether the total is zero (with ``short="refuse"``: or short), and the
    direction with its noise. The rest of what they see is simulated from that:

    - Shares of inputs and products are uniform for any t parties.
    - What is opened on the way is under a mask that holds a term unknown to them, uniform over 2^64 times the range
      of what it hides: 11 openings a column, each within 2^-64 of the same in total variation.
    - The product s r must not be opened as it is: its numbers are multiples of r, and their greatest common divisor
      gives the norm away. It is opened as a masked sum of 2t + 1 terms, to each of which its party has added Gaussian
      noise with 1 / (2t + 1) of the variance. At least t + 1 of these are unknown to the coalition: noise g of
      standard deviation at least 0.7 * 2^(e - resolution), a density below 0.6 * 2^(resolution - e). The numbers
      seen are 2^e s / ||s|| + delta 2^e s / ||s|| + g. The first term is the direction itself, and leaving out the
      second changes their law by at most 0.6 \|delta\| 2^resolution sum \|s_i\| / ||s|| <= sqrt(d) 2^(resolution - 90)
      in total variation: 2^-46 for d = 10,000. So a simulator that knows the direction alone makes the same picture.

    *What the direction itself says.* Totals lie on a grid, so that an exact direction would give the norm away as the
    common divisor of its numbers. The noise blurs the grid: from ``2**(resolution + 1)`` steps on, its standard
    deviation is at least 1.4 steps, and the grid leaves a ripple below 2 exp(-4 pi^2) = 1.4e-17 in the density of a
    number (Poisson summation). Shorter totals are refused for that reason. Two things remain, for s / ||s|| as such
    tells them: totals that lie on a much coarser grid than the one they were encoded on (whole numbers, say) show
    it; and where the same direction is asked for again and again, the rounding of the terms to the grid, about
    sqrt(M / 12) steps, adds to the noise. It is far below the noise for totals of ``2**(resolution + 8)`` steps.

    Examples
    --------
    In the process of each party, over its own end of the wire:

    >>> grid = Grid(-45)  # doctest: +SKIP
    >>> with NormalisedSummer(wire) as directions:  # doctest: +SKIP
    ...     V = directions(grid.encode(X.T @ (X @ V)))
    """

    def __init__(
        self,
        wire: PartyStreams,
        *,
        bits: int = 61,
        resolution: int = 37,
        short: Literal["refuse", "zero"] = "refuse",
        timeout: float = 60.0,
    ) -> None:
        if not 3 <= wire.parties <= MOST_PARTIES:
            raise InvalidInputError(
                f"3 to {MOST_PARTIES} parties for a normalised sum",
                parameter(wire.parties),
                "Use the masked sum with fewer or more: it reveals the norms, and its guarantee says so.",
            )
        self.bits = check_count(bits, "bits", least=8)
        self.resolution = check_count(resolution, "resolution", least=8)
        if self.bits > 256 or self.resolution > 48:
            raise InvalidInputError(
                "at most 256 bits, and a resolution of at most 48", parameter((bits, resolution)), "Use fewer bits."
            )
        if short not in ("refuse", "zero"):
            raise InvalidInputError('short to be "refuse" or "zero"', parameter(short), "Choose one of the two.")
        self.short = short
        self.timeout = check_positive(timeout, "timeout")
        self._magnitude = self.bits + (wire.parties - 1).bit_length()  # bits of a number of the total
        settings = f"bits={self.bits} resolution={self.resolution} short={short}"
        product = self._magnitude + _LOG_ROWS // 2 + FRACTION + 2
        size = max(2 * self._magnitude + _LOG_ROWS, INVERSE_ROOT_SIZE, product)
        self._worker = Worker(wire, size=size, settings=settings, timeout=self.timeout)
        self._shares = Shares(self._worker.runtime)
        self._calls = 0

    @property
    def floor(self) -> int:
        """Binary logarithm of the length, in grid steps, from which on a total's direction is told."""
        return self.resolution + 1

    @property
    def bytes_sent(self) -> int:
        """How many bytes this party has sent so far."""
        return sum(link.nbytes_sent for link in self._worker.runtime.links.values())

    def __call__(self, integers: ArrayLike, *, timeout: float | None = None) -> NDArray[np.float64]:
        """Return the direction of every column of the parties' total.

        Parameters
        ----------
        integers : array_like of int, of shape (rows,) or (rows, columns)
            This party's term, in grid steps. All parties give the same shape, which is public.
        timeout : float, optional
            Seconds, in place of those given to the constructor.

        Returns
        -------
        ndarray of float64
            Of the shape of `integers`; the same at all parties, bit for bit.
        """
        values = self._checked(integers)
        limit = self.timeout if timeout is None else check_positive(timeout, "timeout")
        columns = values.reshape(len(values), -1)
        status, result = self._worker.run(lambda: self._directions(columns), limit)
        told = 2 if self.short == "refuse" else 1
        if np.any((status > 0) & (status < told)):
            raise RangeError(
                f"columns whose total is zero or at least 2^{self.floor} grid steps long",
                words(f"shorter ones: {', '.join(str(j) for j in np.flatnonzero((status > 0) & (status < told)))}"),
                'Use a finer grid, or short="zero" to make them zero: the direction of so short a total tells its length.',
            )
        result[:, status < told] = 0.0
        return np.reshape(result, values.shape)

    def close(self) -> None:
        """Let the wire go; a call that is under way in another thread is stopped."""
        self._worker.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _checked(self, integers: ArrayLike) -> Shared:
        array = np.asarray(integers)
        whole = array.dtype.kind in "iu" or (
            array.dtype == object and all(type(value) is int for value in array.ravel().tolist())
        )
        if not whole or array.ndim not in (1, 2) or array.size == 0 or len(array) > 1 << _LOG_ROWS:
            raise InvalidInputError(
                f"integers in one column or several, with 1 to 2^{_LOG_ROWS} rows",
                kind_of(array),
                "Encode the numbers on a grid first.",
            )
        values = array.astype(object)
        if max(-values.min(), values.max()) >= 1 << self.bits:
            raise RangeError(
                f"numbers below 2^{self.bits} grid steps in magnitude",
                words("a larger one"),
                "Use a coarser grid, or more `bits`. Nothing was sent.",
            )
        return values

    async def _directions(self, values: Shared) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return, for every column, 0 (zero), 1 (short) or 2 (told), and its direction; without `short` 0 or 1."""
        rows, columns = values.shape
        await self._same_shape(rows, columns)
        shares, prime = self._shares, self._worker.runtime.prime
        half = max(self._magnitude + ((rows - 1).bit_length() + 1) // 2, FRACTION // 2)
        width = 2 * half  # bits of a squared norm
        random_bits = shares.random_bits(columns * width)
        total = (await shares.input_sum(values.ravel())).reshape(rows, columns)
        squared = await shares.reshare(np.sum(total * total, axis=0))

        at_least = await shares.at_least(await shares.bits(squared, width, random_bits))
        told = at_least[:, self.floor]
        status = shares.opening(told + at_least[:, 0] if self.short == "refuse" else told)
        top = at_least.copy()  # one where 4^i <= ||s||^2 < 4^(i+1), and only from the floor on
        top[:, :-1] -= at_least[:, 1:]
        top = top[:, self.floor :]
        powers = np.array([1 << half - 1 - i for i in range(self.floor, half)], dtype=object)
        scaled = await shares.multiply(squared, top @ powers**2 % prime)
        scaled += (1 - told) * (
            1 << width - 1
        )  # what is not told gets some number in range, and a factor of zero below
        root = await shares.inverse_root(scaled % prime, width)
        inverse = await shares.multiply(root, top @ powers % prime)  # 2^scale / ||s||

        scale = FRACTION + half
        opened = await shares.open_product(total, inverse, self._noise(values.size, scale))
        opened = np.where(opened > prime >> 1, opened - prime, opened)
        result = np.ldexp((opened >> scale - 60).astype(np.int64).astype(np.float64), -60)
        return (await status).value.astype(np.int64), result

    def _noise(self, count: int, scale: int) -> Shared:
        """Draw this party's part of the noise, to ``scale`` fractional bits: a Gaussian, its last bits uniform."""
        fine = scale - self.resolution - 40
        spread = 2.0**40 / math.sqrt(self._shares.openers)
        coarse = np.rint(secure_generator().standard_normal(count) * spread).astype(np.int64).astype(object)
        width = (fine + 7) // 8
        last = integers_from_bytes(secrets.token_bytes(width * count), width) & (1 << fine) - 1
        return np.asarray((coarse << fine) + last)

    async def _same_shape(self, rows: int, columns: int) -> None:
        """Before anything that depends on data is sent: check that all parties sum the same kind of thing."""
        links, call, mine = self._worker.runtime.links, self._calls, struct.pack("<QQ", rows, columns)
        self._calls += 1
        for link in links.values():
            link.send(call, mine, START)
        for peer, link in links.items():
            theirs = await link.wait_for(call, START)
            if theirs != mine:
                raise PartyError(
                    f"party {peer} to sum an array of shape {(rows, columns)} too",
                    words("another shape"),
                    "All parties must have the same features in the same order.",
                    (peer,),
                )
