"""The normalised sum: parties learn the direction of every column of a total, and not how long it is."""

from __future__ import annotations

import asyncio
import math
import secrets
import struct
import time
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.channel.normalised_link import ALIVE, START, PartyError, Wire, integers_from_bytes, name_parties
from tacit.channel.normalised_runtime import MpycRuntime
from tacit.channel.normalised_shares import FRACTION, INVERSE_ROOT_SIZE, Shared, Shares
from tacit.errors import InvalidInputError, ProtocolError, RangeError, words
from tacit.privacy.entropy import secure_generator
from tacit.validation import check_count, check_positive

MOST_PARTIES = 11
_ROWS = 24  # binary logarithm of the largest number of rows
_BEATS = 8  # signs of life in one timeout


class NormalisedSummer:
    """Directions of totals, among 3 to 11 parties: s / ||s|| for every column, and nothing else.

    docs
    """

    def __init__(
        self,
        wire: Wire,
        *,
        bits: int = 61,
        resolution: int = 37,
        short: Literal["refuse", "zero"] = "refuse",
        timeout: float = 60.0,
    ) -> None:
        if not 3 <= wire.parties <= MOST_PARTIES:
            raise InvalidInputError(
                f"3 to {MOST_PARTIES} parties for a normalised sum",
                wire.parties,
                "With two, or with more, use the masked sum: it reveals the norms, and its guarantee says so.",
            )
        self.bits = check_count(bits, "bits", least=8)
        self.resolution = check_count(resolution, "resolution", least=8)
        if self.bits > 256 or self.resolution > 48:
            raise InvalidInputError("at most 256 bits and a resolution of at most 48", (bits, resolution), "Use less.")
        if short not in ("refuse", "zero"):
            raise InvalidInputError('short to be "refuse" or "zero"', short, "Choose one of the two.")
        self.short = short
        self.timeout = check_positive(timeout, "timeout")
        self._wire = wire
        self._calls = 0
        self._trouble: BaseException | None = None
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="normalised-sum")
        try:
            self._worker.submit(self._open).result()
        except BaseException:
            self._worker.shutdown()
            raise

    @property
    def floor(self) -> int:
        """Binary logarithm of the shortest length, in grid steps, that a direction is told of."""
        return self.resolution + 1

    @property
    def bytes_sent(self) -> int:
        """How many bytes this party sent so far."""
        return sum(link.nbytes_sent for link in self._runtime.links.values())

    def __call__(self, integers: ArrayLike, *, timeout: float | None = None) -> NDArray[np.float64]:
        """Return the direction of every column of the parties' total.

        Parameters
        ----------
        integers : array_like of int, of shape (rows,) or (rows, columns)
            This party's term, in grid steps; every number below ``2**bits`` in magnitude. Python integers in an array
            of objects may be as large as that.
        timeout : float, optional
            Seconds after which a party that does not answer is given up.

        Returns
        -------
        ndarray of float64
            Of the shape of `integers`; the same at all parties, bit for bit.
        """
        values = self._checked(integers)
        limit = self.timeout if timeout is None else check_positive(timeout, "timeout")
        if self._trouble is not None:
            raise ProtocolError(
                "a normalised sum that works", words(f"one that stopped: {self._trouble}"), "Start the job again."
            )
        columns = values.reshape(len(values), -1)
        status, result = self._worker.submit(self._run, self._directions(columns), limit).result()
        if self.short == "refuse" and np.any(status == 1):
            raise RangeError(
                f"columns whose total is zero or at least 2^{self.floor} grid steps long",
                words(f"shorter ones: {', '.join(str(column) for column in np.flatnonzero(status == 1))}"),
                'Use a finer grid: the direction of so short a vector gives its length away. short="zero" makes it zero.',
            )
        result[:, status < (2 if self.short == "refuse" else 1)] = 0.0
        return result.reshape(values.shape)

    def close(self) -> None:
        """Stop; MPyC's global variables are given back, and the wire is let go."""
        if self._closed:
            return
        self._closed = True
        self._loop.call_soon_threadsafe(self._fail, ProtocolError("an open normalised sum", words("a closed one"), ""))
        self._worker.submit(self._shut).result()
        self._worker.shutdown()

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
        if not whole or array.ndim not in (1, 2) or array.size == 0 or len(array) > 1 << _ROWS:
            raise InvalidInputError(
                f"integers in one column or several, of at most 2^{_ROWS} rows",
                words(f"{array.dtype} of shape {array.shape}"),
                "Encode the numbers on a grid first.",
            )
        values = array.astype(object)
        if max(abs(values.min()), abs(values.max())) >= 1 << self.bits:
            raise RangeError(
                f"numbers below 2^{self.bits} grid steps in magnitude",
                words("a larger one"),
                "Use a coarser grid, or more `bits`. Nothing was sent.",
            )
        return values

    # ------------------------------------------------------------------ in the worker's thread

    def _open(self) -> None:
        self._closed = False
        self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self._loop)
        log_parties = (self._wire.parties - 1).bit_length()
        self._magnitude = self.bits + log_parties  # of an entry of the total
        size = max(2 * self._magnitude + _ROWS, INVERSE_ROOT_SIZE, self._magnitude + _ROWS // 2 + FRACTION + 2)
        try:
            self._runtime = MpycRuntime(self._loop, self._wire, size)
        except BaseException:
            self._loop.close()
            raise
        self._shares = Shares(self._runtime)
        self._loop.set_exception_handler(self._caught)
        self._failure = self._loop.create_future()
        for peer, link in self._runtime.links.items():
            link.failed = self._fail
            self._wire.subscribe(peer, self._deliver(link))
        settings = f"bits={self.bits} resolution={self.resolution} short={self.short}"
        try:
            self._run(self._runtime.agree(settings), self.timeout)
        except BaseException:
            self._shut()
            raise

    def _deliver(self, link: Any) -> Any:
        def deliver(data: bytes) -> None:
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(link.feed, data)

        return deliver

    def _fail(self, error: BaseException) -> None:
        if not self._failure.done():
            self._failure.set_exception(error)

    def _caught(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """MPyC's steps are tasks of their own; what is raised in one arrives here."""
        error = context.get("exception")
        if isinstance(error, Exception):
            self._fail(error)

    def _run(self, work: Coroutine[Any, Any, Any], timeout: float) -> Any:
        watched = self._loop.create_task(self._watch(work, timeout))
        try:
            while not watched.done():
                try:
                    self._loop.run_until_complete(watched)
                except RuntimeError:  # MPyC stops the loop when one of its steps fails
                    if watched.done():
                        raise
            return watched.result()
        except PartyError as error:
            self._trouble = error
            raise
        except Exception as error:
            self._trouble = error
            raise ProtocolError(
                "a normalised sum in which all parties' messages fit together",
                words(f"{type(error).__name__}: {error}"),
                "All parties must run the same job; start it again.",
            ) from error

    async def _watch(self, work: Coroutine[Any, Any, Any], timeout: float) -> Any:
        """Do the work, show the peers that this party lives, and give up after the timeout."""
        task = self._loop.create_task(work)
        end = time.monotonic() + timeout
        try:
            while True:
                wait = min(timeout / _BEATS, max(end - time.monotonic(), 0.0))
                await asyncio.wait({task, self._failure}, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
                if self._failure.done():
                    self._failure.result()
                if task.done():
                    return task.result()
                if time.monotonic() >= end:
                    raise self._silence(timeout)
                for link in self._runtime.links.values():
                    link.send(0, b"", ALIVE)
        finally:
            task.cancel()

    def _silence(self, timeout: float) -> PartyError:
        links = self._runtime.links
        now = time.monotonic()
        silent = tuple(peer for peer, link in links.items() if now - link.heard > 2.5 * timeout / _BEATS)
        parties = silent or tuple(peer for peer, link in links.items() if link.pending) or tuple(links)
        return PartyError(
            f"an answer from {name_parties(parties)} within {timeout:g} seconds",
            words("none" if silent else "signs of life only"),
            "See whether the party still runs; then resume the job.",
            parties,
        )

    def _shut(self) -> None:
        for peer in self._runtime.links:
            self._wire.subscribe(peer, None)
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._failure.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._runtime.close()
        self._loop.close()

    async def _same_shape(self, shape: tuple[int, int]) -> None:
        call, mine = self._calls, struct.pack("<QQ", *shape)
        self._calls += 1
        for link in self._runtime.links.values():
            link.send(call, mine, START)
        for peer, link in self._runtime.links.items():
            theirs = await link.wait_for(call, START)
            if theirs != mine:
                raise PartyError(
                    f"party {peer} to sum arrays of shape {shape} too",
                    words(f"another shape: {struct.unpack('<QQ', theirs)}" if len(theirs) == 16 else "nonsense"),
                    "All parties must have the same columns in the same order.",
                    (peer,),
                )

    async def _directions(self, values: Shared) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        rows, columns = values.shape
        await self._same_shape((rows, columns))
        shares, prime = self._shares, self._runtime.prime
        half = max(self._magnitude + math.ceil((rows - 1).bit_length() / 2), FRACTION // 2)
        width = 2 * half  # bits of a squared norm
        random_bits = shares.random_bits(columns * width)
        total = (await shares.input_sum(values.ravel())).reshape(rows, columns)
        squared = await shares.reshare(np.sum(total * total, axis=0))

        at_least = await shares.at_least(await shares.bits(squared, width, random_bits))
        long = at_least[:, self.floor]
        status = shares.opening(long + at_least[:, 0] if self.short == "refuse" else long)
        top = at_least.copy()  # one where 4^i <= squared norm < 4^(i+1), if not short
        top[:, :-1] -= at_least[:, 1:]
        top = top[:, self.floor :]
        powers = np.array([1 << half - 1 - i for i in range(self.floor, half)], dtype=object)
        scaled = await shares.multiply(squared, top @ powers**2 % prime)
        scaled = scaled + (1 - long) * (1 << width - 1)  # short columns get any number in range, and a factor of zero
        inverse = await shares.inverse_root(scaled % prime, width)
        inverse = await shares.multiply(inverse, top @ powers % prime)  # 2^scale / norm

        scale = FRACTION + half
        opened = await shares.open_product(total, inverse, self._blur(values.size, scale))
        opened = np.where(opened > prime >> 1, opened - prime, opened)
        result = np.ldexp((opened >> scale - 60).astype(np.int64).astype(np.float64), -60)
        return (await status).value.astype(np.int64), result

    def _blur(self, count: int, scale: int) -> Shared:
        """Draw this party's part of the noise that hides all finer than the resolution."""
        fine = scale - self.resolution - 40
        spread = 2.0**40 / math.sqrt(self._shares.openers)
        coarse = np.rint(secure_generator().standard_normal(count) * spread).astype(np.int64).astype(object)
        width = (fine + 7) // 8
        return (coarse << fine) + (integers_from_bytes(secrets.token_bytes(width * count), width) & (1 << fine) - 1)
