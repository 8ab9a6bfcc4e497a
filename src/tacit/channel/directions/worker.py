"""The thread in which one party's part of a normalised sum runs, watched for peers that die, stall or send nonsense."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from tacit.channel.directions.link import ALIVE, PartyStreams, PeerMessages, name_parties
from tacit.errors import PartyError, ProtocolError, TacitError, words

_BEATS, _SILENT_BEATS = 8, 2.5
"""Signs of life in one timeout; a peer that missed more than two counts as silent."""

Result = TypeVar("Result")


class Worker:
    """A thread of its own with an event loop of its own, so that the caller may have a loop running or none.

    Between two calls the loop stands still, and what arrives waits.

    Parameters
    ----------
    wire : PartyStreams
        The streams to the peers.
    make : callable
        Makes the runtime, in the thread: `MpycRuntime` or `PairwiseRuntime`.
    size : int
        How many bits the numbers have that are opened under a mask.
    settings : str
        What all parties must agree on.
    timeout : float
        Seconds that the first exchange may take.
    """

    runtime: Any

    def __init__(
        self,
        wire: PartyStreams,
        make: Callable[[asyncio.AbstractEventLoop, PartyStreams, int], Any],
        *,
        size: int,
        settings: str,
        timeout: float,
    ) -> None:
        self._make = make
        self._wire = wire
        self._stopped: BaseException | None = None
        self._closed = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="normalised-sum")
        try:
            self._thread.submit(self._open, size, settings, timeout).result()
        except BaseException:
            self._thread.shutdown()
            raise

    def run(self, work: Callable[[], Coroutine[object, None, Result]], timeout: float) -> Result:
        """Run a step that all parties take part in, and return its result."""
        if self._closed or self._stopped is not None:
            raise ProtocolError(
                "a normalised sum that runs",
                words("one that was closed" if self._closed else f"one that stopped ({type(self._stopped).__name__})"),
                "Start the job again, or resume it.",
            )
        return self._thread.submit(self._run, work, timeout).result()

    def close(self) -> None:
        """Stop, also in the midst of a step; the wire is let go, and the runtime closed."""
        if self._closed:
            return
        self._closed = True
        error = ProtocolError("a normalised sum that runs", words("one that was closed"), "Start the job again.")
        self._loop.call_soon_threadsafe(self._fail, error)
        self._thread.submit(self._shut).result()
        self._thread.shutdown()

    # what follows runs in the thread

    def _open(self, size: int, settings: str, timeout: float) -> None:
        self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self._loop)
        try:
            self.runtime = self._make(self._loop, self._wire, size)
        except BaseException:
            self._loop.close()
            raise
        self._loop.set_exception_handler(self._caught)
        self._failure: asyncio.Future[None] = self._loop.create_future()
        try:
            for peer, link in self.runtime.links.items():
                link.failed, link.missed = self._fail, self._missed
                self._wire.subscribe(peer, self._deliverer(link))
            self._run(lambda: self.runtime.agree(settings), timeout)
        except BaseException:
            self._shut()
            raise

    def _deliverer(self, link: PeerMessages) -> Callable[[bytes], None]:
        def deliver(data: bytes) -> None:
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(link.feed, data)

        return deliver

    def _fail(self, error: BaseException) -> None:
        if not self._failure.done():
            self._failure.set_exception(error)

    def _missed(self) -> None:
        """A message is missing from a peer that has gone; the first to go is the reason, others may follow from it."""
        gone = {peer: link.ended for peer, link in self.runtime.links.items() if link.ended is not None}
        first = min(gone, key=lambda peer: gone[peer])
        self._fail(
            PartyError(
                f"party {first} to stay until the end",
                words("the end of its stream"),
                "See why the party stopped; then resume the job.",
                (first,),
            )
        )

    def _caught(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """MPyC's steps are tasks of their own; what one raises arrives here."""
        error = context.get("exception")
        if isinstance(error, Exception):
            self._fail(error)

    def _run(self, work: Callable[[], Coroutine[object, None, Result]], timeout: float) -> Result:
        watched = self._loop.create_task(self._watch(work, timeout))
        try:
            while not watched.done():
                try:
                    self._loop.run_until_complete(watched)
                except RuntimeError:  # MPyC stops the loop when one of its steps fails; the watch is told why
                    if watched.done():
                        raise
            return watched.result()
        except TacitError as error:
            self._stopped = error
            raise
        except Exception as error:
            self._stopped = error
            raise ProtocolError(
                "messages from all parties that fit together",
                words(f"others ({type(error).__name__})"),  # without its message: peers are sent this one
                "All parties must run the same job; start it again, or resume it.",
            ) from None

    async def _watch(self, work: Callable[[], Coroutine[object, None, Result]], timeout: float) -> Result:
        """Do the work, show the peers that this party lives, and give up after the timeout."""
        task = self._loop.create_task(work())
        end = time.monotonic() + timeout
        try:
            while True:
                wait = min(timeout / _BEATS, max(end - time.monotonic(), 0.0))
                ends: set[asyncio.Future[Any]] = {task, self._failure}
                await asyncio.wait(ends, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
                if task.done():
                    return task.result()
                if self._failure.done():
                    self._failure.result()
                if time.monotonic() >= end:
                    raise self._silence(timeout)
                if self._is_stranded(timeout):
                    self._missed()
                    continue
                for link in self.runtime.links.values():
                    link.send(0, b"", ALIVE)
        finally:
            task.cancel()

    def _is_stranded(self, timeout: float) -> bool:
        """Whether a peer has gone, and one that a message is missing from is silent: it may have stopped for that."""
        links, now = self.runtime.links.values(), time.monotonic()
        silent = any(link.pending and now - link.heard >= _SILENT_BEATS * timeout / _BEATS for link in links)
        return silent and any(link.ended is not None for link in links)

    def _silence(self, timeout: float) -> PartyError:
        """Name the peers that gave no sign of life, or else those that a message is missing from."""
        links = self.runtime.links
        now = time.monotonic()
        # on a busy machine living peers are late too, but not as long as those that are gone
        least = max(_SILENT_BEATS * timeout / _BEATS, 0.7 * max(now - link.heard for link in links.values()))
        silent = tuple(peer for peer, link in links.items() if now - link.heard >= least)
        parties = silent or tuple(peer for peer, link in links.items() if link.pending) or tuple(links)
        return PartyError(
            f"an answer from {name_parties(parties)} within {timeout:g} seconds",
            words("none" if silent else "signs of life only"),
            "See whether the party still runs; then resume the job.",
            parties,
        )

    def _shut(self) -> None:
        for peer in self.runtime.links:
            self._wire.subscribe(peer, None)
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._failure.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self.runtime.close()
        self._loop.close()
        asyncio.set_event_loop(None)
