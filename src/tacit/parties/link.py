"""Messages between the parties of a session: numbered, sealed with a key of the pair, and waited for with patience that ends."""

from __future__ import annotations

import hmac
import itertools
import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tacit.errors import PartyError, ProtocolError, words
from tacit.parties.job import Job
from tacit.parties.wire import Wire

STEP, FREE, STOP = b"s", b"f", b"x"
"""Kinds of frames: a message of a step; a chunk of the free stream that general computation uses; the reason of a stop."""
LABEL_BYTES = SEAL_BYTES = 16
NONCE_BYTES = 12
POLL_SECONDS = 0.05


@dataclass
class Traffic:
    """What this party sent and received, how long it took until all had come, and how long it waited after that."""

    sent: int = 0
    received: int = 0
    connecting: float = 0.0
    waiting: float = 0.0
    rounds: int = 0


class _Peer:
    """The state of one pair: frames that arrived, counters of both directions, and what went wrong."""

    def __init__(self) -> None:
        self.hellos: queue.Queue[bytes] = queue.Queue()
        self.steps: queue.Queue[bytes] = queue.Queue()
        self.chunks: list[bytes] = []
        self.deliver: Callable[[bytes], None] | None = None
        self.keys: tuple[AESGCM, AESGCM] | None = None
        self.greeted = False
        self.early: list[bytes] = []
        self.lock = threading.Lock()
        self.numbers = itertools.count()  # taken in one step, so that no two threads ever seal under one number
        self.received = 0


class Link:
    """The messages of this party to and from all others.

    The first frame each way is the greeting, in the clear within TLS; `seal` then gives the keys that every later frame is
    sealed with. A frame that was changed, repeated, left out or put in another order does not have the seal of its number,
    and stops the run.

    Parameters
    ----------
    job : Job
    index : int
    timeout : float, optional
        Seconds of silence after which a party counts as gone; the job's if not given.
    """

    def __init__(self, job: Job, index: int, *, timeout: float | None = None) -> None:
        self.index = index
        self.names = [party.name for party in job.parties]
        self.traffic = Traffic()
        self.timeout = job.timeout if timeout is None else timeout
        self._peers = {place: _Peer() for place in range(len(self.names)) if place != index}
        self._failures: list[tuple[int, str]] = []
        self._closing = False
        self.wire: Wire | None = None

    @property
    def parties(self) -> int:
        """How many parties there are, this one included."""
        return len(self.names)

    def arrived(self, peer: int, frame: bytes | None, how: str) -> None:
        """Take a frame from the network (this is the `deliver` of `Wire`)."""
        state = self._peers[peer]
        if frame is None:
            self._failures.append((peer, how))
            if state.deliver is not None:
                state.deliver(b"")
            return
        self.traffic.received += len(frame)
        with state.lock:
            if not state.greeted:
                state.greeted = True
                state.hellos.put(frame)
            elif state.keys is None:  # a faster peer has sealed its end already
                state.early.append(frame)
            else:
                self._opened(peer, state, state.keys[1], frame)

    def _opened(self, peer: int, state: _Peer, key: AESGCM, frame: bytes) -> None:
        kind, body, seal = frame[:1], frame[1:-SEAL_BYTES], frame[-SEAL_BYTES:]
        if not hmac.compare_digest(seal, _seal(key, state.received, memoryview(frame)[:-SEAL_BYTES])):
            self._failures.append((peer, "sent a message that was tampered with, repeated, or out of order"))
            return
        state.received += 1
        if kind == STEP:
            state.steps.put(body)
        elif kind == STOP:
            self._failures.append((peer, f"stopped: {body.decode(errors='replace')}"))
        elif state.deliver is not None:
            state.deliver(body)
        else:
            state.chunks.append(body)

    def greet(self, hello: bytes) -> dict[int, bytes]:
        """Send the greeting to all, and return theirs."""
        assert self.wire is not None
        self.traffic.sent += len(hello) * len(self._peers)
        self.wire.send(dict.fromkeys(self._peers, hello))
        return {peer: self._wait(peer, state.hellos) for peer, state in self._peers.items()}

    def seal(self, peer: int, sending: bytes, receiving: bytes) -> None:
        """Use these keys from now on."""
        state = self._peers[peer]
        with state.lock:
            state.keys = (AESGCM(sending), AESGCM(receiving))
            for frame in state.early:
                self._opened(peer, state, state.keys[1], frame)

    def swap(self, label: bytes, outgoing: Mapping[int, bytes]) -> dict[int, bytes]:
        """Send each peer its message, and return theirs; all must carry the same label."""
        assert self.wire is not None
        frames = {peer: self._framed(peer, STEP, label, message) for peer, message in outgoing.items()}
        self.wire.send(frames)
        arrived = {}
        for peer in outgoing:
            body = self._wait(peer, self._peers[peer].steps)
            if body[:LABEL_BYTES] != label:
                raise ProtocolError(
                    f"{self.names[peer]} to ask for the same as this party in round {self.traffic.rounds}",
                    words("something else, or another history of totals"),
                    "All parties must run the same version on the same kind of computer, with unchanged data.",
                )
            arrived[peer] = body[LABEL_BYTES:]
        return arrived

    def send(self, peer: int, data: bytes) -> None:
        """Send a chunk of the free stream."""
        self._sealed(peer, FREE, data)

    def subscribe(self, peer: int, deliver: Callable[[bytes], None] | None) -> None:
        """Have every chunk of the peer's free stream given to `deliver`, in the network's thread."""
        state = self._peers[peer]
        state.deliver = deliver
        while deliver is not None and state.chunks:
            deliver(state.chunks.pop(0))

    def failure(self) -> PartyError | None:
        """Return the first thing that went wrong with a peer, if any did."""
        if not self._failures or self._closing:
            return None
        peer, how = self._failures[0]
        return self._failed(peer, how)

    def stop(self, error: BaseException) -> None:
        """Tell the others why this party stops, without a word about its data."""
        reason = str(error) if isinstance(error, PartyError | ProtocolError) else type(error).__name__
        for peer, state in self._peers.items():
            if state.keys is not None:
                self._sealed(peer, STOP, reason.encode()[:2000])

    def blame(self, error: PartyError) -> PartyError:
        """Return what this link knows of a failure that general computation saw, with the parties' names."""
        return self.failure() or self._failed(error.parties[0] if error.parties else min(self._peers), str(error.got))

    def finish(self) -> None:
        """From now on streams may end."""
        self._closing = True

    def _sealed(self, peer: int, kind: bytes, body: bytes) -> None:
        assert self.wire is not None
        self.wire.send({peer: self._framed(peer, kind, body)})

    def _framed(self, peer: int, *parts: bytes) -> bytes:
        """Return a frame of these parts with its seal, and count it."""
        state, content = self._peers[peer], b"".join(parts)
        assert state.keys is not None
        frame = content + _seal(state.keys[0], next(state.numbers), content)
        self.traffic.sent += len(frame)
        return frame

    def _wait(self, peer: int, waiting: queue.Queue[bytes]) -> bytes:
        start = time.monotonic()
        try:
            while True:
                try:
                    return waiting.get(timeout=POLL_SECONDS)
                except queue.Empty:
                    pass
                failure = self.failure()
                if failure is not None:
                    raise failure
                if time.monotonic() - start > self.timeout:
                    raise self._failed(peer, f"did not answer within {self.timeout:g} s")
        finally:
            self.traffic.waiting += time.monotonic() - start

    def _failed(self, peer: int, how: str) -> PartyError:
        return PartyError(
            f"all parties to reach round {self.traffic.rounds}",
            words(f"{self.names[peer]} {how}"),
            "When all are back, each goes on from its checkpoint with `tacit parties join --resume`.",
            (peer,),
        )


def _seal(key: AESGCM, number: int, content: bytes | memoryview) -> bytes:
    """Return AES-GMAC of the content; the number is the nonce, which a key of one direction of one session meets once."""
    return key.encrypt(number.to_bytes(NONCE_BYTES, "big"), b"", content)
