"""Parties in real processes, joined by sockets: for the normalised sum's tests and benchmark."""

import contextlib
import multiprocessing
import socket
import threading


class SocketWire:
    """A wire over one connected socket a peer; a thread a peer reads, and one writes."""

    def __init__(self, index, sockets):
        self.index, self.parties = index, len(sockets)
        self.sockets = sockets
        self.sent = {peer: bytearray() for peer in range(self.parties)}
        self._deliver = {}
        self._early = {peer: [] for peer in range(self.parties)}
        self._lock = threading.Lock()
        self._queues = {}
        for peer, connection in enumerate(sockets):
            if connection is not None:
                threading.Thread(target=self._read, args=(peer, connection), daemon=True).start()
                import queue

                self._queues[peer] = queue.SimpleQueue()
                threading.Thread(target=self._write, args=(peer, connection), daemon=True).start()

    def _read(self, peer, connection):
        with contextlib.suppress(OSError):
            while data := connection.recv(1 << 20):
                with self._lock:
                    deliver = self._deliver.get(peer)
                    if deliver is None:
                        self._early[peer].append(data)
                    else:
                        deliver(data)

    def _write(self, peer, connection):
        with contextlib.suppress(OSError):
            while True:
                connection.sendall(self._queues[peer].get())

    def send(self, peer, data):
        self._queues[peer].put(data)

    def subscribe(self, peer, deliver):
        with self._lock:
            self._deliver[peer] = deliver
            if deliver is not None:
                for data in self._early[peer]:
                    deliver(data)
                self._early[peer].clear()


def _mesh(parties):
    ends = [[None] * parties for _ in range(parties)]
    for i in range(parties):
        for j in range(i + 1, parties):
            ends[i][j], ends[j][i] = socket.socketpair()
    return ends


def _party(work, index, ends, arguments, pipe):
    for other, sockets in enumerate(ends):
        if other != index:
            for connection in sockets:
                if connection is not None:
                    connection.close()
    try:
        pipe.send((True, work(SocketWire(index, ends[index]), *arguments)))
    except Exception as error:
        pipe.send((False, error))
    pipe.recv()  # others may still be reading what this party has sent


def run_parties(work, parties, arguments=()):
    """Run ``work(wire, *arguments)`` in one process a party; return what each returned, or raised."""
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
    for sockets in ends:
        for connection in sockets:
            if connection is not None:
                connection.close()
    results = []
    for pipe in pipes:
        try:
            results.append(pipe.recv()[1])
        except EOFError:
            results.append(None)  # it died
    for pipe, process in zip(pipes, processes, strict=True):
        with contextlib.suppress(OSError):
            pipe.send(None)
        process.join()
    return results
