"""The network: one gRPC stream to every peer over mutual TLS, each end pinned to the other's certificate.

gRPC runs in a thread of its own; the run itself stays plain, blocking code. Frames arrive whole and in order, or the
stream breaks: a broken stream is never mended, the run stops and is resumed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import Future
from typing import Any

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # refused handshakes are errors of ours, and not lines in the terminal

import grpc
import grpc.aio

from tacit.errors import InvalidInputError, PartyError, words
from tacit.parties.identity import HOST, Identity, fingerprint_of
from tacit.parties.job import Job

SERVICE = "tacit.Parties"
OPTIONS = (
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.so_reuseport", 0),  # a port in use is an error, not a second listener
    ("grpc.ssl_target_name_override", HOST),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
)
RETRY_SECONDS = 0.2

Deliver = Callable[[int, bytes | None, str], None]
"""Called in the network's thread with the peer, a frame (None when the stream ended), and how it ended."""


class Wire:
    """Streams of frames to and from all peers.

    Parameters
    ----------
    job : Job
    identity : Identity
    index : int
        Which of the job's parties this is.
    deliver : callable
    """

    def __init__(self, job: Job, identity: Identity, index: int, deliver: Deliver, *, listen: str = "") -> None:
        self._job, self._identity, self._index, self._deliver = job, identity, index, deliver
        self._peers = [place for place in range(len(job.parties)) if place != index]
        self._by_fingerprint = {party.fingerprint: place for place, party in enumerate(job.parties)}
        self._connected: set[int] = set()
        self._outgoing: dict[int, asyncio.Queue[bytes | None]] = {}
        self._calls: dict[int, Any] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tacit-network", daemon=True)
        self._thread.start()
        self._listening = listen or job.parties[index].address
        try:
            self._in_network(self._serve())
        except BaseException:
            self._stop_thread()
            raise

    def connect(self, seconds: float) -> None:
        """Open a stream to every peer; raises `PartyError` naming one that cannot be reached within so many seconds."""
        self._in_network(self._connect(time.monotonic() + seconds))

    def send(self, frames: Mapping[int, bytes]) -> None:
        """Queue a frame for each of some peers; the network's thread is woken once."""
        self._loop.call_soon_threadsafe(self._queue, frames)

    def _queue(self, frames: Mapping[int, bytes]) -> None:
        for peer, frame in frames.items():
            self._outgoing[peer].put_nowait(frame)

    def close(self) -> None:
        """Send what is queued, end the streams, stop listening."""
        if self._thread.is_alive():
            with contextlib.suppress(Exception):
                self._in_network(self._shut())
            self._stop_thread()

    def _in_network(self, work: Any) -> Any:
        waiting: Future[Any] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return waiting.result()

    def _stop_thread(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)

    async def _serve(self) -> None:
        mine = self._identity
        trusted = b"".join(self._job.parties[peer].certificate for peer in self._peers)
        credentials = grpc.ssl_server_credentials([(mine.key, mine.certificate)], trusted, require_client_auth=True)
        self._server = grpc.aio.server(options=OPTIONS)
        handlers = {
            "Frames": grpc.stream_unary_rpc_method_handler(self._receive),
            "Ready": grpc.unary_unary_rpc_method_handler(self._ready),
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

    def _caller(self, context: Any) -> int | None:
        """Who calls: by the certificate that TLS has verified, not by what the caller says."""
        pem = context.auth_context().get("x509_pem_cert", [b""])[0]
        return self._by_fingerprint.get(fingerprint_of(pem)) if pem else None

    async def _ready(self, request: bytes, context: Any) -> bytes:
        if self._caller(context) is None:
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "not a party of this job")
        return b"ready"

    async def _receive(self, frames: AsyncIterator[bytes], context: Any) -> bytes:
        peer = self._caller(context)
        if peer is None or peer in self._connected:
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "not a party of this job, or a second stream of one")
        assert peer is not None
        self._connected.add(peer)
        how = "ended its stream"
        try:
            async for frame in frames:
                self._deliver(peer, frame, "")
        except BaseException as error:
            how = f"broke off ({type(error).__name__})"
        self._deliver(peer, None, how)
        return b""

    async def _connect(self, deadline: float) -> None:
        await asyncio.gather(*(self._reach(peer, deadline) for peer in self._peers))

    async def _reach(self, peer: int, deadline: float) -> None:
        party, mine = self._job.parties[peer], self._identity
        credentials = grpc.ssl_channel_credentials(party.certificate, mine.key, mine.certificate)
        channel = grpc.aio.secure_channel(party.address, credentials, options=OPTIONS)
        ready = channel.unary_unary(f"/{SERVICE}/Ready")
        while True:
            try:
                await ready(b"", timeout=max(deadline - time.monotonic(), RETRY_SECONDS))
                break
            except grpc.aio.AioRpcError as error:
                why = " ".join((error.details() or "").split())
                stranger = "CERTIFICATE_VERIFY_FAILED" in why or error.code() is grpc.StatusCode.PERMISSION_DENIED
                found = "one that has expired" if "expired" in why else "another certificate there"
                if stranger or time.monotonic() > deadline:
                    raise PartyError(
                        f"{party.name} at {party.address}, with its certificate of this job",
                        words(found if stranger else f"no answer: {why[-160:]}"),
                        f"Ask {party.name} to join the same job, and check its address. Nothing was sent.",
                    ) from error
                await asyncio.sleep(RETRY_SECONDS)
        self._outgoing[peer] = asyncio.Queue()
        self._calls[peer] = (channel, channel.stream_unary(f"/{SERVICE}/Frames")(self._frames(peer)))

    async def _frames(self, peer: int) -> AsyncIterator[bytes]:
        while (frame := await self._outgoing[peer].get()) is not None:
            yield frame

    async def _shut(self) -> None:
        for queue in self._outgoing.values():
            queue.put_nowait(None)
        for channel, call in self._calls.values():
            with contextlib.suppress(Exception):
                await asyncio.wait_for(call, 2)
            await channel.close()
        await self._server.stop(0.5)
