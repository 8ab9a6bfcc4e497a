"""Parties as threads of one process: the real masks and sums over queues in place of a network."""

from __future__ import annotations

import queue
import secrets
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from tacit.channel.masked import MaskedSum, Masks
from tacit.errors import ProtocolError
from tacit.privacy.noise.entropy import secure_generator


class QueueLink:
    """One party's end; `sent` keeps its messages for the tests to check."""

    def __init__(self, index: int, names: list[str], queues: dict[tuple[int, int], queue.Queue]) -> None:
        self.index, self.names, self._queues = index, names, queues
        self.sent: list[tuple[int, bytes]] = []

    def swap(
        self, label: bytes, outgoing: dict[int, Any], *, expected: Any = None, most: int | None = None
    ) -> dict[int, bytes]:
        for peer, given in outgoing.items():
            message = b"".join(given) if isinstance(given, list) else bytes(given)
            self.sent.append((peer, message))
            self._queues[self.index, peer].put((label, message))
        arrived = {}
        for peer in outgoing if expected is None else expected:
            theirs, message = self._queues[peer, self.index].get(timeout=20)
            if theirs != label:
                raise ProtocolError("the same label", self.names[peer], "")
            arrived[peer] = message
        return arrived


def pair_keys(parties: int) -> list[dict[int, bytes]]:
    keys: list[dict[int, bytes]] = [{} for _ in range(parties)]
    for left in range(parties):
        for right in range(left + 1, parties):
            keys[left][right] = keys[right][left] = secrets.token_bytes(32)
    return keys


class ThreadPeers:
    """The `Peers` of one thread."""

    hides_norms = False
    divides = True
    resumable = False
    charged = False
    trust = "nobody"

    def __init__(self, link: QueueLink, keys: dict[int, bytes], honest: int) -> None:
        self.index, self.parties, self.honest, self.link = link.index, len(link.names), honest, link
        self.keys = keys
        self.sums = MaskedSum(link, Masks(link.index, keys))

    def add(self, elements: Any, ring: Any, label: str, *, noised: bool = False, division: Any = None) -> Any:
        if division is not None:
            return division.read(self.sums.add_and_work(elements, ring, label, division), "all")
        return self.sums.add(elements, ring, label)

    def direction(self, integers: Any, label: str) -> Any:
        raise NotImplementedError

    def sampler(self) -> np.random.Generator:
        return secure_generator()

    def agree(self, numbers: Any) -> None:
        pass

    def note_charge(self) -> None:
        pass


def in_threads(parties: int, work: Callable[[ThreadPeers], Any], honest: int | None = None) -> list[Any]:
    """Run `work` once a party, at the same time; return what they returned, or raise the first error."""
    names = [f"party-{index}" for index in range(parties)]
    queues = {(a, b): queue.Queue() for a in range(parties) for b in range(parties) if a != b}
    keys = pair_keys(parties)
    results: list[Any] = [None] * parties
    errors: list[BaseException] = []

    def party(index: int) -> None:
        try:
            results[index] = work(ThreadPeers(QueueLink(index, names, queues), keys[index], honest or parties))
        except BaseException as error:
            errors.append(error)
            for peer in range(parties):  # so that nobody waits for this one until the timeout
                if peer != index:
                    queues[index, peer].put((b"gone", b""))

    threads = [threading.Thread(target=party, args=(index,)) for index in range(parties)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results
