"""The network: one gRPC stream to every peer over mutual TLS, each end pinned to the other's certificate.

gRPC runs in a thread of its own; the run itself stays plain, blocking code. Frames arrive whole and in order, or the
stream breaks. Until a session has begun, a stream that breaks is opened again, so that a party that was started again
is taken back. After that a broken stream ends the session.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncIterator, Coroutine, Mapping
from typing import Protocol

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # refused handshakes are errors of ours, and not lines in the terminal

import grpc
import grpc.aio

from tacit.errors import InvalidInputError, PartyError, words
from tacit.parties.identity import HOST, Identity, fingerprint_of
from tacit.parties.job import Job

SERVICE = "tacit.Parties"
FRAME_BYTES = 2**22
"""Longest frame; a longer message is sent in several. Longer frames are refused by gRPC before they are in memory."""
HELLO_BYTES = 2**16
"""Longest greeting. No further frame is read before the greeting was accepted."""
OPTIONS = (
    ("grpc.max_send_message_length", FRAME_BYTES + 1024),  # with label, length and seal
    ("grpc.max_receive_message_length", FRAME_BYTES + 1024),
    ("grpc.so_reuseport", 0),  # a port in use is an error, not a second listener
    ("grpc.ssl_target_name_override", HOST),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
)
DIGEST_BYTES = 32
"""Length of the digest of a job (SHA-256)."""
LEFT_OUT = "the run goes on without this party"
RETRY_SECONDS = 0.2
"""Time between two attempts to reach a peer. Set by hand."""
FLUSH_SECONDS = 2.0
"""Most time in which the last messages may leave before the connection is closed. Set by hand."""


class Receiver(Protocol):
    """What takes the frames; all its methods are called in the network's thread."""

    def opened(self, peer: int, hello: bytes) -> str:
        """Take the greeting of a stream that a peer opened; return a reason to refuse the stream, or nothing."""

    def is_left_out(self, peer: int) -> bool:
        """Whether the run goes on without a peer."""

    def gathered(self, peer: int, digest: bytes) -> None:
        """Take the digest of the greetings that a peer has."""

    def may_read(self, peer: int) -> bool:
        """Whether there is room for a further frame of a peer."""

    def arrived(self, peer: int, frame: bytes) -> None:
        """Take a frame."""

    def ended(self, peer: int, how: str) -> None:
        """Note that a stream from or to a peer ended."""

    def beat(self) -> None:
        """Send a sign of life to the peers."""


class Wire:
    """Streams of frames to and from all peers.

    Parameters
    ----------
    job : Job
    identity : Identity
    index : int
        Which of the job's parties this is.
    receiver : Receiver
    listen : str, optional
        ``host:port`` to listen at, if not the job's address.
    beat_seconds : float, default=1
        Seconds between two signs of life.
    proxy : bool, default=False
        Reach peers through the proxy that the environment names (``https_proxy``, ``grpc_proxy``).
    """

    def __init__(
        self,
        job: Job,
        identity: Identity,
        index: int,
        receiver: Receiver,
        *,
        listen: str = "",
        beat_seconds: float = 1.0,
        proxy: bool = False,
    ) -> None:
        self._job, self._identity, self._receiver = job, identity, receiver
        self._options = (*OPTIONS, ("grpc.enable_http_proxy", int(proxy)))
        self.peers = [place for place in range(len(job.parties)) if place != index]
        self._by_fingerprint = {party.fingerprint: place for place, party in enumerate(job.parties)}
        self._newest = dict.fromkeys(self.peers, 0)  # number of the newest stream from each peer
        self._outgoing: dict[int, asyncio.Queue[bytes | None]] = {}
        self._calls: dict[int, grpc.aio.StreamUnaryCall] = {}
        self._channels: dict[int, grpc.aio.Channel] = {}
        self._digest = b""  # of the greetings that this party has
        self._telling: set[tuple[int, bytes]] = set()
        self._told: set[tuple[int, bytes]] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._open_to: set[int] = set()  # peers that this party has a stream to
        self._hello = b""
        self._gathering, self._closing = True, False
        self._refusals: list[PartyError] = []
        self._loop = asyncio.new_event_loop()
        self._room = {peer: asyncio.Event() for peer in self.peers}
        self._waiting: set[int] = set()  # peers that are not read because there is no room
        self._thread = threading.Thread(target=self._loop.run_forever, name="tacit-network", daemon=True)
        self._thread.start()
        self._listening = listen or job.parties[index].address
        try:
            self._in_network(self._serve(beat_seconds))
        except BaseException:
            self._stop_thread()
            raise

    def connect(self, hello: bytes) -> None:
        """Open a stream to every peer, with this greeting, and again whenever one breaks, until `begin` is called."""
        self._hello = hello
        self.peers = [peer for peer in self.peers if not self._receiver.is_left_out(peer)]
        self._in_network(self._start())

    def refusal(self) -> PartyError | None:
        """Return why a peer cannot be reached, if trying again will not help: it has another certificate."""
        return self._refusals[0] if self._refusals else None

    def is_open_to(self, peer: int) -> bool:
        """Whether this party has a stream to a peer."""
        return peer in self._open_to

    def announce(self, digest: bytes) -> None:
        """Tell all peers the digest of the greetings that this party has; to be called until `has_told` all of them."""
        self._digest = digest
        self._loop.call_soon_threadsafe(self._announce)

    def has_told(self, peer: int) -> bool:
        """Whether a peer has taken the newest digest."""
        return (peer, self._digest) in self._told

    def begin(self) -> None:
        """From now on a stream that ends is a failure; the streams to all peers must be open."""
        self._gathering = False

    def send(self, frames: Mapping[int, bytes]) -> None:
        """Queue a frame for each of some peers; the network's thread is woken once."""
        self._loop.call_soon_threadsafe(self._queue, frames)

    def has_room(self, peer: int) -> None:
        """Say that a further frame of a peer may be read; the network's thread is woken if it waits for that."""
        if peer in self._waiting:
            self._loop.call_soon_threadsafe(self._room[peer].set)

    def is_idle(self, peer: int) -> bool:
        """Whether everything that was queued for a peer was handed to gRPC; to be called in the network's thread."""
        return peer in self._outgoing and self._outgoing[peer].empty()

    def _queue(self, frames: Mapping[int, bytes]) -> None:
        for peer, frame in frames.items():
            if peer in self._outgoing:
                self._outgoing[peer].put_nowait(frame)

    def _announce(self) -> None:
        for told in [(peer, self._digest) for peer in self.peers if peer in self._channels]:
            if told not in self._telling and told not in self._told and not self._closing:
                self._telling.add(told)
                self._tasks.append(self._loop.create_task(self._tell(*told)))

    async def _tell(self, peer: int, digest: bytes) -> None:
        try:
            await self._channels[peer].unary_unary(f"/{SERVICE}/Gathered")(digest, timeout=10)
            self._told.add((peer, digest))
        except grpc.aio.AioRpcError:
            await asyncio.sleep(RETRY_SECONDS)
        finally:
            self._telling.discard((peer, digest))

    def close(self) -> None:
        """Send what is queued, end the streams, stop listening."""
        if self._thread.is_alive():
            with contextlib.suppress(Exception):
                self._in_network(self._shut())
            self._stop_thread()

    def _in_network(self, work: Coroutine[object, None, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _stop_thread(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)

    async def _serve(self, beat_seconds: float) -> None:
        mine = self._identity
        trusted = b"".join(self._job.parties[peer].certificate for peer in self.peers)
        credentials = grpc.ssl_server_credentials([(mine.key, mine.certificate)], trusted, require_client_auth=True)
        self._server = grpc.aio.server(options=self._options)
        handlers = {
            "Frames": grpc.stream_unary_rpc_method_handler(self._receive),
            "Ready": grpc.unary_unary_rpc_method_handler(self._ready),
            "Gathered": grpc.unary_unary_rpc_method_handler(self._gathered),
        }
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        address = self._listening
        try:
            port = self._server.add_secure_port(address, credentials)
        except RuntimeError:
            port = 0
        if port == 0:
            raise InvalidInputError(
                f"{address}, the address of {mine.name}, to be free here",
                words("a port in use, or an address of another computer"),
                "Stop what uses it, or give `--listen` where this computer is reached under another address.",
            )
        await self._server.start()
        self._tasks.append(self._loop.create_task(self._beats(beat_seconds)))

    async def _beats(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            self._receiver.beat()

    def _caller(self, context: grpc.aio.ServicerContext) -> int | None:
        """Who calls: by the certificate that TLS has verified, not by what the caller says."""
        pem = context.auth_context().get("x509_pem_cert", [b""])[0]
        return self._by_fingerprint.get(fingerprint_of(pem)) if pem else None

    async def _ready(self, request: bytes, context: grpc.aio.ServicerContext) -> bytes:
        peer = self._caller(context)
        if peer is None:
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "not a party of this job")
        elif self._receiver.is_left_out(peer):
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, LEFT_OUT)
        return b"ready"

    async def _gathered(self, request: bytes, context: grpc.aio.ServicerContext) -> bytes:
        peer = self._caller(context)
        if peer is None or len(request) > DIGEST_BYTES:
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "not a party of this job, or no digest")
        else:
            self._receiver.gathered(peer, request)
        return b"taken"

    async def _receive(self, frames: AsyncIterator[bytes], context: grpc.aio.ServicerContext) -> bytes:
        peer = self._caller(context)
        if peer is None or peer not in self._newest:
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "not a party of this job")
        assert peer is not None
        self._newest[peer] += 1
        number, how = self._newest[peer], "ended its stream"
        try:
            stream = aiter(frames)
            hello = await anext(stream, b"")
            if not 0 < len(hello) <= HELLO_BYTES:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"a greeting has 1 to {HELLO_BYTES} bytes")
            if number != self._newest[peer]:
                return b""
            refusal = self._receiver.opened(peer, hello)
            if refusal:
                await context.abort(grpc.StatusCode.UNAVAILABLE, refusal)
            while True:
                while not self._receiver.may_read(peer):
                    await self._wait_for_room(peer)
                    if number != self._newest[peer]:
                        return b""
                frame = await anext(stream, None)
                if number != self._newest[peer]:  # the peer was started again, and speaks on another stream
                    return b""
                if frame is None:
                    break
                self._receiver.arrived(peer, frame)
        except grpc.aio.AbortError:
            raise
        except BaseException as error:
            how = f"broke off ({type(error).__name__})"
        if number == self._newest[peer]:
            self._receiver.ended(peer, how)
        return b""

    async def _wait_for_room(self, peer: int) -> None:
        self._room[peer].clear()
        self._waiting.add(peer)
        if not self._receiver.may_read(peer):  # there was none before it was said that this thread waits
            await self._room[peer].wait()
        self._waiting.discard(peer)

    async def _start(self) -> None:
        for peer in self.peers:
            self._tasks.append(self._loop.create_task(self._speak(peer)))

    async def _speak(self, peer: int) -> None:
        """Keep a stream to a peer open until the session begins; then see to it that its end is noted."""
        party, mine = self._job.parties[peer], self._identity
        credentials = grpc.ssl_channel_credentials(party.certificate, mine.key, mine.certificate)
        channel = self._channels[peer] = grpc.aio.secure_channel(party.address, credentials, options=self._options)
        try:
            while True:
                try:
                    await channel.unary_unary(f"/{SERVICE}/Ready")(b"", timeout=10)
                    # a queue for each stream: what reads for a broken one must not take frames of the next
                    self._outgoing[peer] = asyncio.Queue()
                    self._calls[peer] = channel.stream_unary(f"/{SERVICE}/Frames")(self._frames(self._outgoing[peer]))
                    self._open_to.add(peer)
                    await self._calls[peer]
                    how = "ended its stream"
                except asyncio.CancelledError:
                    if not self._calls[peer].cancelled() or self._closing:
                        raise
                    how = "was started again"
                except grpc.aio.AioRpcError as error:
                    why = " ".join((error.details() or "").split())
                    if "CERTIFICATE_VERIFY_FAILED" in why or error.code() is grpc.StatusCode.PERMISSION_DENIED:
                        reason = "one that has expired" if "expired" in why else "another certificate there"
                        reason = f"that {LEFT_OUT}" if LEFT_OUT in why else reason
                        self._refusals.append(_unreachable(party.name, party.address, reason))
                    how = f"broke off ({error.code().name})"
                except Exception as error:  # of gRPC, about a call that ended in the same moment
                    how = f"broke off ({type(error).__name__})"
                self._open_to.discard(peer)
                if peer in self._outgoing:
                    self._outgoing[peer].put_nowait(None)  # ends what reads for this stream
                if not self._gathering:
                    self._receiver.ended(peer, how)
                    return
                await asyncio.sleep(RETRY_SECONDS)
        finally:
            await channel.close()

    async def _frames(self, queue: asyncio.Queue[bytes | None]) -> AsyncIterator[bytes]:
        yield self._hello
        while (frame := await queue.get()) is not None:
            yield frame

    def speak_again(self, peer: int) -> None:
        """Open the stream to a peer again, which was started again; to be called in the network's thread."""
        if self._gathering and peer in self._calls:
            self._calls[peer].cancel()

    async def _shut(self) -> None:
        has_begun = not self._gathering
        self._gathering, self._closing = False, True
        for queue in self._outgoing.values():
            queue.put_nowait(None)
        if has_begun and self._calls:  # what is queued is sent, if the peers still read
            waiting = [self._loop.create_task(_done(call)) for call in self._calls.values()]
            await asyncio.wait(waiting, timeout=FLUSH_SECONDS)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.stop(0.5)


async def _done(call: grpc.aio.StreamUnaryCall) -> None:
    with contextlib.suppress(BaseException):
        await asyncio.shield(call)


def _unreachable(name: str, address: str, reason: str) -> PartyError:
    return PartyError(
        f"{name} at {address}, with its certificate of this job",
        words(reason),
        f"Ask {name} to join the same job, and check its address. Nothing was sent.",
    )
