"""Parties in real processes, joined by sockets, for the normalised sum's tests and benchmark."""

import contextlib
import multiprocessing
import queue
import socket
import threading


class SocketWire:
    """A wire over one connected socket a peer, with a thread to read each and a thread to write each."""

    def __init__(self, index, sockets):
        self.index, self.parties = index, len(sockets)
        self._lock = threading.Lock()
        self._deliver = {}
        self._early = {}
        self._outgoing = {}
        for peer, connection in enumerate(sockets):
            if connection is not None:
                self._early[peer], self._outgoing[peer] = [], queue.SimpleQueue()
                for loop in (self._read, self._write):
                    threading.Thread(target=loop, args=(peer, connection), daemon=True).start()

    def _read(self, peer, connection):
        data = b"some"
        while data:
            try:
                data = connection.recv(1 << 20)
            except OSError:
                data = b""
            with self._lock:
                self._deliver.get(peer, self._early[peer].append)(data)

    def _write(self, peer, connection):
        with contextlib.suppress(OSError):
            while True:
                connection.sendall(self._outgoing[peer].get())

    def send(self, peer, data):
        self._outgoing[peer].put(data)

    def subscribe(self, peer, deliver):
        with self._lock:
            if deliver is None:
                self._deliver.pop(peer, None)
                return
            self._deliver[peer] = deliver
            for data in self._early[peer]:
                deliver(data)
            self._early[peer].clear()


def run_parties(work, parties, *arguments):
    """Run ``work(wire, *arguments)`` in one process a party.

    Returns what each returned or raised; None for one that died.
    """
    context = multiprocessing.get_context("fork")
    ends = _mesh(parties)
    pipes, processes = [], []
    for index in range(parties):
        mine, theirs = context.Pipe()
        process = context.Process(target=_party, args=(work, index, ends, arguments, theirs), daemon=True)
        process.start()
        theirs.close()
        pipes.append(mine)
        processes.append(process)
    _close(connection for sockets in ends for connection in sockets)
    results = [_received(pipe) for pipe in pipes]
    for pipe, process in zip(pipes, processes, strict=True):
        with contextlib.suppress(OSError):
            pipe.send(None)
        process.join()
    return results


def _mesh(parties):
    ends = [[None] * parties for _ in range(parties)]
    for i in range(parties):
        for j in range(i + 1, parties):
            ends[i][j], ends[j][i] = socket.socketpair()
    return ends


def _close(connections):
    for connection in connections:
        if connection is not None:
            connection.close()


def _received(pipe):
    try:
        return pipe.recv()
    except EOFError:
        return None


def _party(work, index, ends, arguments, pipe):
    _close(connection for other, sockets in enumerate(ends) if other != index for connection in sockets)
    try:
        pipe.send(work(SocketWire(index, ends[index]), *arguments))
    except Exception as error:
        pipe.send(error)
    pipe.recv()  # the others may still be reading what this one has sent
