"""Messages between the parties of a session: numbered, sealed with a key of the pair, waited for while peers are alive."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import itertools
import math
import queue
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tacit.channel.masked import Message
from tacit.errors import PartyError, ProtocolError, words
from tacit.parties.job import Job
from tacit.parties.wire import FRAME_BYTES, LEFT_OUT, Wire

KIND_BYTES = 8
"""The kind of a frame fills a word, so that the numbers of a step lie at multiples of their length."""
STEP, FREE, STOP, ALIVE, DONE, WAITS = (kind.ljust(KIND_BYTES) for kind in (b"s", b"f", b"x", b"a", b"d", b"w"))
"""Kinds of frames: part of a message of a step; chunk of the free stream that general computation uses; reason of a stop;
sign of life; end of the party's work; places of those that the party waits for."""
LABEL_BYTES = SEAL_BYTES = 16
"""Both are 128 bits: a prefix of SHA-256 that names a step, and the tag of AES-GCM."""
LENGTH_BYTES = 8
"""Of the field with the length of a message."""
NONCE_BYTES = 12
"""The nonce of AES-GCM, 96 bits (NIST SP 800-38D)."""
POLL_SECONDS = 0.05
"""Time between two looks at what has arrived and at deadlines. Set by hand."""
MOST_FRAMES = 4
"""Frames of steps that are read from a peer before they are asked for."""
MOST_CHUNK_BYTES = 2**24
"""Bytes of a free stream that are kept before somebody reads it."""
BEATS = 6
"""Signs of life in one timeout."""
GRACE_SECONDS = 5.0
"""A party that was here this short a time ago is about to come again, and is waited for after the deadline."""
SHOWN_AFTER = 1.0
"""Seconds of waiting after which it is said for whom."""


@dataclass
class Traffic:
    """What this party sent and received, and what took how long, in seconds.

    Attributes
    ----------
    sent, received : int
        Bytes.
    connecting, fitting : float
        Until all had come, and the rounds after that. Opening and closing the port and the checkpoint are in neither.
    waiting : float
        For others, once all had come.
    rounds : int
    """

    sent: int = 0
    received: int = 0
    connecting: float = 0.0
    fitting: float = 0.0
    waiting: float = 0.0
    rounds: int = 0


class AbsentError(PartyError):
    """Parties that have not come; `parties` are their places."""


class _Peer:
    """The state of one pair: frames that arrived, counters of both directions, and what went wrong."""

    def __init__(self) -> None:
        self.hello: bytes | None = None
        self.gathered = b""  # digest of the greetings that it has
        self.was_here = -math.inf  # when it broke off before the session began
        self.steps: queue.SimpleQueue[memoryview] = queue.SimpleQueue()
        self.chunks: list[bytes] = []
        self.chunk_bytes = 0
        self.deliver: Callable[[bytes], None] | None = None
        self.keys: tuple[algorithms.AES, AESGCM] | None = None
        self.numbers = itertools.count()
        self.received = 0
        self.heard = 0.0  # when the last frame under seal arrived
        self.done = False
        self.waits_for: list[int] = []  # since its last message of a step


class Link:
    """The messages of this party to and from all others.

    The first frame each way is the greeting, in the clear within TLS; `seal` then gives the keys that every later frame is
    sealed with. A frame that was changed, repeated, left out or put in another order does not have the seal of its number,
    and stops the run.

    A peer counts as gone if its stream breaks, or if it gives no sign of life for `timeout` seconds. A peer that computes
    gives signs of life, from its network's thread. A peer that has said that it is done may leave.

    Parameters
    ----------
    job : Job
    index : int
    timeout : float, optional
        Seconds; the job's if not given.
    on_wait : callable, optional
        Called with the names of the parties that this one waits for, if it takes longer than a second.
    """

    def __init__(
        self,
        job: Job,
        index: int,
        *,
        timeout: float | None = None,
        on_wait: Callable[[list[str]], None] = lambda names: None,
    ) -> None:
        self.index = index
        self.names = [party.name for party in job.parties]
        self.traffic = Traffic()
        self.timeout = job.timeout if timeout is None else timeout
        self._on_wait = on_wait
        self._peers = {place: _Peer() for place in range(len(self.names)) if place != index}
        self._failures: list[tuple[int, str]] = []
        self._step: tuple[bytes, dict[int, memoryview]] = (b"", {})  # label of the last step, and what arrived in it
        self._greeted = self._closing = False
        self._lock = threading.Lock()
        self.wire: Wire | None = None

    @property
    def parties(self) -> int:
        """How many parties there are, this one included."""
        return len(self.names)

    @property
    def beat_seconds(self) -> float:
        """Seconds between two signs of life."""
        return self.timeout / BEATS

    # called by the wire, in the network's thread

    def is_left_out(self, peer: int) -> bool:
        """Whether the run goes on without a peer."""
        return peer not in self._peers

    def leave_out(self, parties: Iterable[int]) -> None:
        """Go on without some parties; to be called before `greet`."""
        with self._lock:
            self._peers = {peer: state for peer, state in self._peers.items() if peer not in set(parties)}

    def has_greeted(self, peer: int) -> bool:
        """Whether a peer's greeting is here."""
        return peer in self._peers and self._peers[peer].hello is not None

    @property
    def peers(self) -> list[int]:
        """The other parties of this session."""
        return list(self._peers)

    def opened(self, peer: int, hello: bytes) -> str:
        """Take a peer's greeting; in the midst of a session it says that the peer was started again."""
        assert self.wire is not None
        if self.is_left_out(peer):
            return LEFT_OUT
        state = self._peers[peer]
        with self._lock:
            if self._greeted:
                self._failures.append((peer, "was started again"))
                return "in a session that has not ended yet"
            again = state.hello is not None and state.hello != hello
            state.hello = hello
        if again:
            self.wire.speak_again(peer)
        return ""

    def gathered(self, peer: int, digest: bytes) -> None:
        """Take the digest of the greetings that a peer has."""
        if not self.is_left_out(peer):
            self._peers[peer].gathered = digest

    def may_read(self, peer: int) -> bool:
        """Whether there is room for a further frame of a peer; before the greeting is accepted there is none."""
        state = self._peers.get(peer)
        return state is not None and state.keys is not None and state.steps.qsize() < MOST_FRAMES

    def arrived(self, peer: int, frame: bytes) -> None:
        """Take a frame under seal."""
        state = self._peers[peer]
        assert state.keys is not None
        self.traffic.received += len(frame)
        body = memoryview(frame)[KIND_BYTES:-SEAL_BYTES]  # it can be long: no copy
        kind, seal = frame[:KIND_BYTES], frame[-SEAL_BYTES:]
        expected = state.keys[1].encrypt(_nonce(state.received), b"", memoryview(frame)[:-SEAL_BYTES])
        if not hmac.compare_digest(seal, expected):
            self._failures.append((peer, "sent a message that was tampered with, repeated, or out of order"))
            return
        state.received += 1
        state.heard = time.monotonic()
        if kind == STEP:
            state.waits_for = []
            state.steps.put(body)
        elif kind == WAITS:
            state.waits_for = [place for place in bytes(body[: self.parties]) if place < self.parties]
        elif kind == STOP:
            self._failures.append((peer, f"stopped: {bytes(body).decode(errors='replace')}"))
        elif kind == DONE:
            state.done = True
        elif kind == FREE:
            self._free(peer, state, bytes(body))

    def _free(self, peer: int, state: _Peer, body: bytes) -> None:
        if state.deliver is not None:
            state.deliver(body)
            return
        state.chunk_bytes += len(body)
        if state.chunk_bytes > MOST_CHUNK_BYTES:
            self._failures.append((peer, f"sent more than {MOST_CHUNK_BYTES} bytes that nobody had asked for"))
        else:
            state.chunks.append(body)

    def ended(self, peer: int, how: str) -> None:
        """Note the end of a stream from or to a peer."""
        if self.is_left_out(peer):
            return
        state = self._peers[peer]
        with self._lock:
            if not self._greeted:
                if state.hello is not None:
                    state.was_here = time.monotonic()
                state.hello = None  # it greets again when it is back
                return
        if not state.done:
            self._failures.append((peer, how))
        if state.deliver is not None:
            state.deliver(b"")

    def beat(self) -> None:
        """Send a sign of life to every peer that was sent everything else."""
        assert self.wire is not None
        ready = [peer for peer, state in self._peers.items() if state.keys is not None and self.wire.is_idle(peer)]
        self._sealed(dict.fromkeys(ready, (ALIVE,)))
        if self._greeted and self.failure() is not None:  # general computation waits elsewhere, and is woken
            for state in self._peers.values():
                if state.deliver is not None:
                    state.deliver(b"")

    # called by the session

    def greet(
        self, hello: bytes, deadline: float, look: Callable[[int, bytes], bool] = lambda peer, hello: True
    ) -> dict[int, bytes]:
        """Send the greeting to all, and return theirs, when all have the same greetings; raises `PartyError` after the deadline.

        A party that has all greetings tells the others their digest, and begins the session when all have told it the same
        one. Until then a party that is started again only changes its greeting. If a session began before that, the others
        could meet in it a party that is about to leave it, and leave it in turn, without end.

        `look` is called with each greeting; those for which it returns False do not count yet, because their party is
        about to send another one.
        """
        assert self.wire is not None
        start, shown = time.monotonic(), None
        self.traffic.sent += len(hello) * len(self._peers)
        self.wire.connect(hello)
        while True:
            with self._lock:
                late = missing = [
                    peer
                    for peer, state in self._peers.items()
                    if state.hello is None or not self.wire.is_open_to(peer) or not look(peer, state.hello)
                ]
                if not missing:
                    digest = self._digest(hello)
                    self.wire.announce(digest)
                    late = [
                        peer
                        for peer, state in self._peers.items()
                        if state.gathered != digest or not self.wire.has_told(peer)
                    ]
                if not late:
                    self._greeted = True
                    self.wire.begin()
                    now = time.monotonic()
                    for state in self._peers.values():
                        # a peer seals its end when all have come to it, too
                        state.heard = max(now, deadline)
                    return {peer: state.hello or b"" for peer, state in self._peers.items()}
            refusal = self.wire.refusal()
            if refusal is not None:
                raise refusal
            was_here = max((self._peers[peer].was_here for peer in missing), default=-math.inf)
            if time.monotonic() > max(deadline, was_here + GRACE_SECONDS):
                raise self._not_gathered(missing, late, time.monotonic() - start)
            if time.monotonic() - start > SHOWN_AFTER and late != shown:
                shown = late
                self._on_wait([self.names[peer] for peer in late])
            time.sleep(POLL_SECONDS)

    def _digest(self, hello: bytes) -> bytes:
        """Return the digest of all greetings, this party's included."""
        hellos = {self.index: hello, **{peer: state.hello or b"" for peer, state in self._peers.items()}}
        return hashlib.sha256(b"".join(hashlib.sha256(hellos[place]).digest() for place in sorted(hellos))).digest()

    def _not_gathered(self, missing: list[int], late: list[int], seconds: float) -> PartyError:
        names = ", ".join(self.names[peer] for peer in missing or late)
        if missing:
            return AbsentError(
                f"{names} to come to this job",
                words(f"no greeting within {seconds:.0f} s"),
                f"Ask {names} to join the same job, and check the address in it. Nothing was sent in this attempt.",
                tuple(missing),
            )
        return PartyError(
            f"{names} to have the greetings of all parties",
            words(f"nothing of it within {seconds:.0f} s"),
            f"Ask {names} whom it waits for, and check the network between the parties. Nothing was sent in this attempt.",
            tuple(late),
        )

    def seal(self, peer: int, sending: bytes, receiving: bytes) -> None:
        """Use these keys from now on."""
        assert self.wire is not None
        self._peers[peer].keys = (algorithms.AES(sending), AESGCM(receiving))
        self.wire.has_room(peer)

    def swap(
        self,
        label: bytes,
        outgoing: Mapping[int, Message],
        *,
        expected: Collection[int] | None = None,
        most: int | None = None,
    ) -> dict[int, memoryview]:
        """Send peers their messages, and return those of the expected peers: by default of those that are sent one.

        A message may be given in pieces. All messages must carry the same label. `most` is the greatest length of an incoming
        message; by default a little more than that of an outgoing one.
        """
        assert self.wire is not None
        messages = {peer: _pieces(message) for peer, message in outgoing.items()}
        sizes = {peer: sum(map(len, pieces)) for peer, pieces in messages.items()}
        if most is None:
            most = max(sizes.values(), default=0) + 64  # parts of a vector differ by one number of 128 bits
        for peer, size in sizes.items():
            if size > FRAME_BYTES:  # one piece, so that it can be cut
                messages[peer] = [memoryview(b"".join(messages[peer]))]
        frames = {
            peer: (STEP, label, sizes[peer].to_bytes(LENGTH_BYTES, "big"), *(piece[:FRAME_BYTES] for piece in pieces))
            for peer, pieces in messages.items()
        }
        arrived: dict[int, memoryview] = {}
        missing = list(outgoing if expected is None else expected)
        self._step = label, arrived
        self._sealed(frames)
        for peer, pieces in messages.items():
            for start in range(FRAME_BYTES, sizes[peer], FRAME_BYTES):
                self._sealed({peer: (STEP, pieces[0][start : start + FRAME_BYTES])})
        while missing:
            peer = missing[0]
            received, arrived[peer] = self._message(peer, most, missing)
            missing.remove(peer)
            if received != label:
                raise ProtocolError(
                    f"{self.names[peer]} to ask for the same as this party in round {self.traffic.rounds}",
                    words("something else, or another history of totals"),
                    "All parties must run the same version on the same kind of computer, with unchanged data.",
                )
        return arrived

    def arrived_in(self, label: bytes, seconds: float) -> dict[int, bytes]:
        """Return the messages of a step, of one frame each, that arrived although it or the step before was broken off.

        Also those that nobody had waited for yet, and those that arrive within some `seconds` more.
        """
        begun, arrived = self._step
        messages = {peer: bytes(message) for peer, message in arrived.items()} if begun == label else {}
        until = time.monotonic() + seconds
        for peer in set(self._peers) - set(messages):
            for body in self._queued(peer, until):
                size = int.from_bytes(body[LABEL_BYTES : LABEL_BYTES + LENGTH_BYTES], "big")
                if body[:LABEL_BYTES] == label and len(body) == LABEL_BYTES + LENGTH_BYTES + size:
                    messages[peer] = bytes(body[LABEL_BYTES + LENGTH_BYTES :])
                    break
        return messages

    def _queued(self, peer: int, until: float) -> Iterator[memoryview]:
        """Iterate over the frames of steps that have arrived from a peer, or do so in time."""
        assert self.wire is not None
        with contextlib.suppress(queue.Empty):
            while True:
                yield self._peers[peer].steps.get(timeout=max(0.0, until - time.monotonic()))
                self.wire.has_room(peer)

    def _message(self, peer: int, most: int, missing: Sequence[int] = ()) -> tuple[bytes, memoryview]:
        """Return label and content of a peer's next message; those of other peers are missing, too."""
        body = self._wait(peer, missing)
        head = LABEL_BYTES + LENGTH_BYTES
        label, size = body[:LABEL_BYTES], int.from_bytes(body[LABEL_BYTES:head], "big")
        if size > most:
            raise ProtocolError(
                f"at most {most} bytes from {self.names[peer]} in round {self.traffic.rounds}",
                words(f"a message of {size}"),
                "All parties must run the same version of tacit, with the same job.",
            )
        parts, received = [body[head:]], len(body) - head
        while received < size:
            parts.append(self._wait(peer))
            received += len(parts[-1])
        if received != size:
            raise ProtocolError(
                f"{size} bytes from {self.names[peer]}", words(f"{received}"), "Install the same version everywhere."
            )
        return bytes(label), parts[0] if len(parts) == 1 else memoryview(b"".join(parts))

    def send(self, peer: int, data: bytes) -> None:
        """Send a chunk of the free stream."""
        for start in range(0, max(len(data), 1), FRAME_BYTES):
            self._sealed({peer: (FREE, data[start : start + FRAME_BYTES])})

    def subscribe(self, peer: int, deliver: Callable[[bytes], None] | None) -> None:
        """Have every chunk of the peer's free stream given to `deliver`, in the network's thread."""
        state = self._peers[peer]
        state.deliver = deliver
        while deliver is not None and state.chunks:
            deliver(state.chunks.pop(0))
        state.chunk_bytes = 0

    def failure(self) -> PartyError | None:
        """Return the first thing that went wrong with a peer, if any did."""
        if self._closing:
            return None
        if self._failures:
            return self._failed(*self._failures[0])
        silent = [peer for peer in self._peers if self._is_silent(peer)]
        return self._failed(silent[0], f"gave no sign of life for {self.timeout:g} s") if silent else None

    def _is_silent(self, peer: int) -> bool:
        # frames that wait here to be read hold up the signs of life behind them
        state = self._peers[peer]
        return not state.done and state.steps.empty() and time.monotonic() - state.heard > self.timeout

    def stop(self, error: BaseException) -> None:
        """Tell the others why this party stops; the reason says nothing about its data."""
        reason = str(error) if isinstance(error, PartyError | ProtocolError) else type(error).__name__
        sealed = [peer for peer, state in self._peers.items() if state.keys is not None]
        self._sealed(dict.fromkeys(sealed, (STOP, reason.encode()[:2000])))

    def blame(self, error: PartyError) -> PartyError:
        """Return what this link knows of a failure that general computation saw, with the parties' names."""
        return self.failure() or self._failed(error.parties[0] if error.parties else min(self._peers), str(error.got))

    def finish(self) -> list[str]:
        """Say that this party is done, and wait until all peers are; return those that left before they were.

        This party has all that it needs: a peer that is lost now is no failure of this one.
        """
        self._sealed(dict.fromkeys(self._peers, (DONE,)))
        start, shown = time.monotonic(), False
        while True:
            missing = [peer for peer, state in self._peers.items() if not state.done]
            lost = [peer for peer in missing if self._is_silent(peer)] + [peer for peer, _ in self._failures]
            if set(missing) <= set(lost):
                self._closing = True
                return [self.names[peer] for peer in missing]
            if time.monotonic() - start > SHOWN_AFTER and not shown:
                shown = True
                self._on_wait([self.names[peer] for peer in missing])
            time.sleep(POLL_SECONDS / 10)

    def _sealed(self, parts: Mapping[int, tuple[bytes | memoryview, ...]]) -> None:
        """Send peers a frame each, of these parts and its seal, and count it."""
        assert self.wire is not None
        frames = {}
        with self._lock:  # numbers are taken in the order in which the frames are queued, whatever the thread
            for peer, content in parts.items():
                state = self._peers[peer]
                assert state.keys is not None
                frames[peer] = b"".join((*content, _seal(state.keys[0], next(state.numbers), *content)))
                self.traffic.sent += len(frames[peer])
            self.wire.send(frames)

    def _wait(self, peer: int, missing: Sequence[int] = ()) -> memoryview:
        assert self.wire is not None
        start, waiting = time.monotonic(), self._peers[peer].steps
        told: list[int] = []
        shown: list[str] = []
        try:
            while True:
                try:
                    body = waiting.get(timeout=POLL_SECONDS)
                except queue.Empty:
                    pass
                else:
                    self.wire.has_room(peer)
                    return body
                failure = self.failure()
                if failure is not None:
                    raise failure
                if time.monotonic() - start <= SHOWN_AFTER:
                    continue
                late = [place for place in (missing or [peer]) if self._peers[place].steps.empty()]
                if late != told:
                    told = late
                    self._sealed(dict.fromkeys(self._peers, (WAITS, bytes(late))))
                names = [self.names[place] for place in self._waited_for(late)]
                if names != shown:
                    shown = names
                    self._on_wait(names)
        finally:
            self.traffic.waiting += time.monotonic() - start

    def _waited_for(self, late: Sequence[int]) -> list[int]:
        """Return those that others are waiting for who are waited for here: of a sum, one party may know who is late."""
        last, looked = set(), {self.index}
        left = list(late)
        while left:
            place = left.pop()
            looked.add(place)
            further = [other for other in self._peers[place].waits_for if other not in looked and other in self._peers]
            left += further
            if not further:
                last.add(place)
        return sorted(last)

    def _failed(self, peer: int, how: str) -> PartyError:
        return PartyError(
            f"all parties to reach round {self.traffic.rounds}",
            words(f"{self.names[peer]} {how}"),
            "When all are back, each goes on from its checkpoint with `tacit parties join --resume`.",
            (peer,),
        )


def _pieces(message: Message) -> Sequence[bytes | memoryview]:
    """Return the pieces of a message, which may be whole."""
    return [message] if isinstance(message, bytes | memoryview) else message


def _seal(key: algorithms.AES, number: int, *parts: bytes | memoryview) -> bytes:
    """Return AES-GMAC of the parts, which need not lie one after the other."""
    sealing = Cipher(key, modes.GCM(_nonce(number))).encryptor()
    for part in parts:
        sealing.authenticate_additional_data(part)
    sealing.finalize()
    return sealing.tag


def _nonce(number: int) -> bytes:
    """Return the nonce of a frame: its number, which a key of one direction of one session meets once."""
    return number.to_bytes(NONCE_BYTES, "big")
