"""The normalised sum: parties learn the direction of every column of a total, and not how long it is.

It is NormedSecSum of Tsikhanovich et al. (2019), Algorithm 7 in appendix E: lines 1 to 3 are one shared sum, lines 4
and 5 the squared norm (line 5 is printed without adding up), line 6 an inverse root of that one number, lines 7 and 8
one scaling by it. The direction is released with a little noise (`resolution`).
"""

from __future__ import annotations

import secrets
import struct
from types import TracebackType
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.channel.directions.additive import AdditiveShares, PairwiseRuntime
from tacit.channel.directions.link import START, PartyStreams, integers_from_bytes
from tacit.channel.directions.runtime import MpycRuntime
from tacit.channel.directions.shares import FRACTION, INVERSE_ROOT_SIZE, Shared, Shares
from tacit.channel.directions.worker import Worker
from tacit.errors import InvalidInputError, PartyError, RangeError, kind_of, parameter, words
from tacit.privacy.noise.entropy import secure_generator
from tacit.validation import check_count, check_positive

MOST_PARTIES = 11
"""MPyC's pseudo-random masks cost one term for every half of the parties, which grows too fast beyond this."""
_LOG_ROWS = 24
"""Logarithm of the largest number of rows of a term; it bounds the size of squared norms."""


def withstands(parties: int, colluding: int) -> int:
    """Return how many parties may pool what they know in the protocol that is chosen if `colluding` of them may."""
    minority = (parties - 1) // 2
    return minority if minority and colluding <= minority else parties - 1


class NormalisedSummer:
    r"""Directions of totals among 2 to 11 parties: s / ||s|| for every column of the sum s, and nothing else.

    Every party makes one over its wire, all with the same settings, and calls it with its own term as often as the
    job needs; `close` it in the end, or use it in a ``with`` block. With an honest majority there can be one per process,
    because MPyC keeps its runtime in global variables.

    Parameters
    ----------
    wire : PartyStreams
        Private, authenticated, ordered streams to the other parties, for this object alone.
    bits : int, default=61
        Every number of every party is below ``2**bits`` grid steps in magnitude. More than 63 take Python integers, in
        an array of objects: the finer the grid, the shorter the totals whose norm can be hidden.
    resolution : int, default=37
        The direction is released with Gaussian noise of standard deviation ``2**-resolution`` on every number.
    short : {"refuse", "zero"}, default="refuse"
        What becomes of a column whose total is not zero but shorter than ``2**(resolution + 1)`` grid steps: a
        `RangeError` at all parties, or a column of zeros.
    timeout : float, default=60
        Seconds that a call may take, or the first exchange of keys, before the parties that do not answer are named in
        a `PartyError`.
    colluding : int, optional
        How many parties may pool what they know; the same at all. Below half of the parties it is MPyC's protocol with an
        honest majority, which is faster; from there on, and always for two parties, additive shares. By default the most
        that is below half.

    Notes
    -----
    *Protocol* (Tsikhanovich et al. 2019, App. E, Alg. 7; but with the costly part for one number per column only).
    (1) Share the terms and add them. (2) One inner product a column gives ||s||^2. (3) Its binary digits give i with
    4^i <= ||s||^2 < 4^(i+1), and so x = ||s||^2 4^-(i+1) in [1/4, 1). (4) A polynomial and two steps of third order
    give 1 / sqrt(x) and r = 2^e (1 + delta) / ||s||, with \|delta\| < 2^-90. (5) Open s r + noise. About 40 rounds; no
    number of s is truncated, compared or reshared.

    *Shares.* With an honest majority: Shamir's, in a prime field, by MPyC, with threshold t = (M - 1) // 2. Against all
    but one: additive ones modulo 2^l (`tacit.channel.directions.additive`), products by oblivious transfer
    (`tacit.channel.directions.transfers`). There a party's term is its share of the total; steps (2) and (5) take one
    transfer for every bit of every number and every other party.

    *Error.* Every number of the result is that of s / ||s|| plus noise of standard deviation ``2**-resolution``
    (7.3e-12), with additive shares sqrt(M / 2) times that: a column of 10,000 rows is off by about 7e-10 in length. A
    zero column is zero exactly.

    **Privacy**

    *Against whom.* Up to t (additive shares: all but one) of the M parties, who follow the protocol and pool all they see. They
    cannot break SHAKE128, with whose keys the masks of the Shamir shares are drawn; for additive shares, AES and SHA-256,
    taken as a random permutation and a random function, and the computational Diffie-Hellman problem in a group of 3072 bits
    with exponents of 256.

    *What they learn.* For every column: whether the total is zero (with ``short="refuse"``: or short), and the
    direction with its noise. The rest of what they see is simulated from that. With an honest majority:

    - Shares of inputs and products are uniform for any t parties.
    - What is opened on the way is under a mask that holds a term unknown to them, uniform over 2^64 times the range
      of what it hides: 11 openings per column, each within 2^-64 of the same in total variation.
    - The product s r must not be opened as it is: its numbers are multiples of r, and their greatest common divisor
      gives the norm away. It is opened as a masked sum of 2t + 1 terms, to each of which its party has added Gaussian
      noise with 1 / (2t + 1) of the variance. At least t + 1 of these are unknown to the coalition: noise g of
      standard deviation at least 0.7 * 2^(e - resolution), a density below 0.6 * 2^(resolution - e). The numbers
      seen are 2^e s / ||s|| + delta 2^e s / ||s|| + g. The first term is the direction itself, and leaving out the
      second changes their law by at most 0.6 \|delta\| 2^resolution sum \|s_i\| / ||s|| <= sqrt(d) 2^(resolution - 90)
      in total variation: 2^-46 for d = 10,000. So a simulator that knows the direction alone makes the same picture.

    With additive shares, for a coalition that one honest party is not in:

    - *Products.* Whoever offers a transfer sees the chooser's bits under a pseudo-random column that it does not have.
      Whoever chooses sees u + x a (x its own bit) with a fresh pseudo-random u, or u itself: uniform either way. So the
      parties' shares of a product are uniform except for their sum, and the triples' factors that the honest party drew
      are unknown.
    - *Openings.* A share leaves under masks that its party has with each other party and that cancel. With two honest parties
      or more, their shares are uniform except for the sum; with one, its share is what is opened less those of the
      coalition. So an opening tells the opened number and nothing else.
    - *What is opened*: the factors of a product, and bits, under a uniform term of the honest party; shifted numbers and
      ||s||^2 under its mask of 64 bits more, 11 a column, as above; whether a column is released; and s r + noise. The
      honest party's part of the noise alone has standard deviation 0.7 * 2^(e - resolution), as above.

    *What the direction itself says.* Totals lie on a grid, so that an exact direction would reveal the norm as the
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
        colluding: int | None = None,
    ) -> None:
        asked = (wire.parties - 1) // 2 if colluding is None else check_count(colluding, "colluding", least=0)
        if not 2 <= wire.parties <= MOST_PARTIES or asked >= wire.parties:
            raise InvalidInputError(
                f"2 to {MOST_PARTIES} parties for a normalised sum, of whom at least one does not collude",
                parameter((wire.parties, asked)),
                "Use the masked sum with more: it reveals the norms, and its guarantee says so.",
            )
        self.withstands = withstands(wire.parties, asked)
        self.additive = self.withstands > (wire.parties - 1) // 2
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
        settings = f"bits={self.bits} resolution={self.resolution} short={short} withstands={self.withstands}"
        product = self._magnitude + _LOG_ROWS // 2 + FRACTION + 2
        size = max(2 * self._magnitude + _LOG_ROWS, INVERSE_ROOT_SIZE, product)
        make = PairwiseRuntime if self.additive else MpycRuntime
        self._worker = Worker(wire, make, size=size, settings=settings, timeout=self.timeout)
        runtime = self._worker.runtime
        self._shares = AdditiveShares(runtime, self.bits) if self.additive else Shares(runtime)
        self._calls = 0

    @property
    def floor(self) -> int:
        """Binary logarithm of the length, in grid steps, from which on a total's direction is released."""
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
        shares, modulus = self._shares, self._shares.modulus
        half = max(self._magnitude + ((rows - 1).bit_length() + 1) // 2, FRACTION // 2)
        width = 2 * half  # bits of a squared norm
        await shares.prepare(columns, width)
        total = (await shares.input_sum(values.ravel())).reshape(rows, columns)
        squared = await shares.squared_norms(total)

        at_least = await shares.magnitudes(squared, width)
        told = at_least[:, self.floor]
        status = await shares.tell(told + at_least[:, 0] if self.short == "refuse" else told)
        top = at_least.copy()  # one where 4^i <= ||s||^2 < 4^(i+1), and only from the floor on
        top[:, :-1] -= at_least[:, 1:]
        top = top[:, self.floor :]
        powers = np.array([1 << half - 1 - i for i in range(self.floor, half)], dtype=object)
        scaled = await shares.multiply(squared, top @ powers**2 % modulus)
        scaled += (shares.constant(1) - told) * (
            1 << width - 1
        )  # what is not told gets some number in range, and a factor of zero below
        # line 6 of Algorithm 7
        root = await shares.inverse_root(scaled % modulus, width)
        inverse = await shares.multiply(root, top @ powers % modulus)  # 2^scale / ||s||

        scale = FRACTION + half
        opened = await shares.open_product(total, inverse, self._noise(values.size, scale))
        opened = np.where(opened > modulus >> 1, opened - modulus, opened)
        result = np.ldexp((opened >> scale - 60).astype(np.int64).astype(np.float64), -60)
        return status.astype(np.int64), result

    def _noise(self, count: int, scale: int) -> Shared:
        """Draw this party's part of the noise, to ``scale`` fractional bits: a Gaussian, its last bits uniform."""
        fine = scale - self.resolution - 40
        spread = 2.0**40 * self._shares.noise_share
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
