"""The bytes between two parties of a normalised sum: frames, who was heard when, and field elements without pickle."""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.errors import PartyError, words

HEADER = struct.Struct("<BqI")  # kind, label, bytes that follow
SHARES, HELLO, START, ALIVE = range(4)
"""Kinds of messages: shares of a computation; greeting with keys; start of a computation; sign of life."""


class PartyStreams(Protocol):
    """Ordered, reliable, private and authenticated streams of bytes between the parties of one job.

    A wire serves one `NormalisedSummer` and nothing else. What arrives before `subscribe` is kept for it.
    """

    @property
    def index(self) -> int:
        """Which party this is, from 0."""

    @property
    def parties(self) -> int:
        """How many parties there are."""

    def send(self, peer: int, data: bytes) -> None:
        """Queue bytes for a peer; may be called from any thread and does not wait."""

    def subscribe(self, peer: int, deliver: Callable[[bytes], None] | None) -> None:
        """Have a peer's bytes handed to `deliver`, in order, from any thread; None ends that.

        Empty bytes say that the peer's stream has ended, where the wire can know. Without them a peer that is gone is
        noticed by its silence, after the timeout.
        """


def name_parties(parties: tuple[int, ...]) -> str:
    """Return "party 2" or "parties 1 and 2"."""
    if len(parties) == 1:
        return f"party {parties[0]}"
    return "parties " + ", ".join(str(party) for party in parties[:-1]) + f" and {parties[-1]}"


class PeerMessages:
    """One peer as the runtime of MPyC sees it: messages by label, each sent and awaited once.

    It stands where MPyC has its own TCP protocol, and is used from the thread of the event loop alone.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, wire: PartyStreams, peer: int, width: int) -> None:
        self.peer = peer
        self.nbytes_sent = 0
        self.heard = time.monotonic()
        self.ended: float | None = None
        self.failed: Callable[[PartyError], None] = lambda error: None
        self.missed: Callable[[], None] = lambda: None
        self._loop = loop
        self._wire = wire
        self._width = width  # bytes a field element
        self._unread = bytearray()
        self._waiting: dict[tuple[int, int], asyncio.Future[bytes]] = {}
        self._arrived: dict[tuple[int, int], bytes] = {}

    def send(self, label: int, payload: bytes, kind: int = SHARES) -> None:
        """Send one message; MPyC calls it with its program counter as the label."""
        frame = HEADER.pack(kind, label, len(payload)) + payload
        self.nbytes_sent += len(frame)
        self._wire.send(self.peer, frame)

    def receive(self, label: int, kind: int = SHARES) -> bytes | asyncio.Future[bytes]:
        """Return the message of that label, or a future of it."""
        payload = self._arrived.pop((kind, label), None)
        if payload is None:
            if self.ended is not None:
                self.missed()
            return self._waiting.setdefault((kind, label), self._loop.create_future())
        return payload

    async def wait_for(self, label: int, kind: int) -> bytes:
        """Wait for the message of that label."""
        payload = self.receive(label, kind)
        return payload if isinstance(payload, bytes) else await payload

    @property
    def pending(self) -> bool:
        """Whether a message of this peer is being waited for."""
        return any(not future.done() for future in self._waiting.values())

    def feed(self, data: bytes) -> None:
        """Take bytes that came from the peer; none if its stream has ended, which is well if nothing is missing."""
        self.heard = time.monotonic()
        if not data:
            self.ended = self.heard
            if self.pending:
                self.missed()
        self._unread += data
        start = 0
        while len(self._unread) - start >= HEADER.size:
            kind, label, size = HEADER.unpack_from(self._unread, start)
            if kind > ALIVE or (kind == SHARES and size % self._width):
                self._fail(f"a frame of kind {kind} and {size} bytes")
                return
            end = start + HEADER.size + size
            if len(self._unread) < end:
                break
            if kind != ALIVE:
                self._take((kind, label), bytes(self._unread[start + HEADER.size : end]))
            start = end
        del self._unread[:start]

    def _take(self, key: tuple[int, int], payload: bytes) -> None:
        future = self._waiting.pop(key, None)
        if future is None:
            if key in self._arrived:
                self._fail("the same message twice")
            self._arrived[key] = payload
        elif not future.done():
            future.set_result(payload)

    def _fail(self, what: str) -> None:
        self.failed(
            PartyError(
                f"messages of a normalised sum from party {self.peer}",
                words(what),
                "All parties must run the same version of tacit and of MPyC; start the job again.",
                (self.peer,),
            )
        )


class FieldBytes:
    """Stands where MPyC has `pickle`: arrays of field elements as words of fixed width.

    Unpickling runs whatever code the sender likes; a party trusted to follow the protocol is not trusted with that.
    """

    def __init__(self, width: int) -> None:
        self.width = width

    def dumps(self, elements: NDArray[np.object_]) -> bytes:
        """Return the elements, each in `width` bytes."""
        width = self.width
        return b"".join([element.to_bytes(width, "little") for element in elements.tolist()])

    def loads(self, data: bytes) -> NDArray[np.object_]:
        """Return the elements again."""
        return integers_from_bytes(data, self.width)


def integers_from_bytes(data: bytes, width: int) -> NDArray[np.object_]:
    """Split bytes into unsigned integers of `width` bytes each."""
    convert = int.from_bytes
    count = len(data) // width
    parts = (convert(data[i : i + width], "little") for i in range(0, count * width, width))
    return np.fromiter(parts, dtype=object, count=count)
