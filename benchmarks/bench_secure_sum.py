"""Sums among many clients of whom some leave: seconds of each step, beside the primitives of Flower in the same run.

All clients and the server run in one process, one after the other, on one core; every message is made and read. Flower needs
an environment of its own: name its interpreter in TACIT_FLOWER_PYTHON, or by ``--set interpreter=path``. Without it, the peer is
skipped.

Flower's masks come from NumPy's Mersenne Twister with a seed of 32 bits, of numbers below 2^32; ours from AES-256 in counter
mode, of numbers below 2^64. Flower's part does here what its client and server do with its functions, without its messages.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from typing import Any

import numpy as np
from harness import Part, main

FLOWER = os.environ.get("TACIT_FLOWER_PYTHON", sys.executable)


class Clock:
    """Seconds by the name of a step."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def note(self, step: str) -> None:
        """Count the time since the last note to `step`."""
        now = time.perf_counter()
        self.seconds[step] = self.seconds.get(step, 0.0) + now - self._last
        self._last = now


def ours(settings: Any, gone: set[int]) -> dict[str, float]:
    """Run one sum, check its total, and return the seconds of each step."""
    from tacit.channel.secure_sum import SumClient, SumServer

    rng = np.random.default_rng(0)
    vectors = [rng.integers(0, 2**64, (1, settings.length), dtype=np.uint64) for _ in range(settings.clients)]
    clock = Clock()
    clients = {number: SumClient(settings, number) for number in range(settings.clients)}
    server = SumServer(settings)
    roster = server.roster({number: client.keys() for number, client in clients.items()})
    clock.note("keys")
    inboxes = server.inboxes({number: client.shares(roster) for number, client in clients.items()})
    clock.note("shares")
    masked = {n: client.masked(inboxes[n], vectors[n]) for n, client in clients.items() if n not in gone}
    clock.note("masks")
    requests = server.requests(masked)
    answers = {n: clients[n].unmask(request) for n, request in requests.items()}
    clock.note("answers")
    total = server.total(answers)
    clock.note("unmasking")
    if not np.array_equal(total, sum(vectors[n] for n in server.survivors)):
        raise RuntimeError("the total is wrong")
    return clock.seconds


def flower(clients: str, length: str, neighbours: str, threshold: str, gone: str) -> None:
    """Do with Flower's functions what its clients and its server do; print the seconds as JSON."""
    from flwr.common.secure_aggregation.crypto.shamir import combine_shares, create_shares
    from flwr.common.secure_aggregation.crypto.symmetric_encryption import decrypt, encrypt, generate_shared_key
    from flwr.common.secure_aggregation.secaggplus_utils import pseudo_rand_gen
    from flwr.supercore.primitives.asymmetric import bytes_to_private_key, generate_key_pairs, private_key_to_bytes

    count, size, degree, least = int(clients), int(length), int(neighbours), int(threshold)
    left, modulus, side = set(json.loads(gone)), 2**32, int(neighbours) // 2
    around = {one: [(one + step) % count for step in range(-side, side + 1) if step] for one in range(count)}
    vectors = np.random.default_rng(0).integers(0, 2**20, (count, size))
    clock = Clock()
    mask_keys = [generate_key_pairs() for _ in range(count)]
    seal_keys = [generate_key_pairs() for _ in range(count)]
    clock.note("keys")
    seeds = [os.urandom(32) for _ in range(count)]
    held: dict[tuple[int, int], tuple[bytes, bytes]] = {}
    for one in range(count):
        parts = create_shares(seeds[one], least, degree + 1)
        private = create_shares(private_key_to_bytes(mask_keys[one][0]), least, degree + 1)
        held[one, one] = parts[-1], private[-1]
        for peer, part, key_part in zip(around[one], parts[:-1], private[:-1], strict=True):
            key = generate_shared_key(seal_keys[one][0], seal_keys[peer][1])
            sealed = encrypt(key, len(part).to_bytes(4, "little") + part + key_part)
            opened = decrypt(key, sealed)
            cut = 4 + int.from_bytes(opened[:4], "little")
            held[one, peer] = opened[4:cut], opened[cut:]
    clock.note("shares")
    total = np.zeros(size, dtype=np.int64)
    for one in range(count):
        if one in left:
            continue
        vector = vectors[one] + pseudo_rand_gen(seeds[one], modulus, [(size,)])[0]
        for peer in around[one]:
            key = generate_shared_key(mask_keys[one][0], mask_keys[peer][1])
            mask = pseudo_rand_gen(key, modulus, [(size,)])[0]
            vector = vector + mask if one > peer else vector - mask
        total += vector % modulus
    clock.note("masks")
    for one in range(count):
        there = [peer for peer in [*around[one], one] if peer not in left]
        kind = 1 if one in left else 0
        secret = combine_shares([held[one, peer][kind] for peer in there])
        if one not in left:
            total = total - pseudo_rand_gen(secret, modulus, [(size,)])[0]
            continue
        key_of = bytes_to_private_key(secret)
        for peer in around[one]:
            mask = pseudo_rand_gen(generate_shared_key(key_of, mask_keys[peer][1]), modulus, [(size,)])[0]
            total = total + mask if one > peer else total - mask
    clock.note("unmasking")
    right = vectors[[one for one in range(count) if one not in left]].sum(axis=0)
    if not np.array_equal(total % modulus, right):
        raise RuntimeError("the total is wrong")
    print(json.dumps(clock.seconds))


def shown(name: str, seconds: dict[str, float]) -> str:
    steps = ", ".join(f"{step} {value:.2f}" for step, value in seconds.items())
    return f"  {name}: {sum(seconds.values()):.2f} s in all ({steps})"


def dropouts(
    clients: int = 100,
    length: int = 100_000,
    gone: int = 30,
    colluding: int = 10,
    neighbours: int = 20,
    interpreter: str = FLOWER,
    repeats: int = 3,
) -> None:
    from tacit.channel import secure_sum
    from tacit.channel.secure_sum import SumSettings

    left = set(random.Random(0).sample(range(clients), gone))
    load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
    print(f"{clients} clients, {length} numbers, {gone} of them gone before their numbers; load {load} at the start")

    def best(run: Any) -> dict[str, float]:
        return min((run() for _ in range(repeats)), key=lambda seconds: float(sum(seconds.values())))

    def fresh() -> SumSettings:
        return SumSettings.choose(clients, length, dropouts=gone, colluding=colluding)

    chosen = fresh()
    mine = best(lambda: ours(fresh(), left))
    print(shown(f"tacit, {chosen.neighbours} neighbours, threshold {chosen.threshold}, {colluding} may collude", mine))
    # the settings of the comparison are refused by tacit: the dropouts would stop such a sum too often
    bounds = secure_sum.FAILURE, secure_sum.EXPOSURE
    secure_sum.FAILURE = secure_sum.EXPOSURE = float("inf")
    try:
        least = neighbours // 4
        like = best(lambda: ours(SumSettings(clients, length, gone, 0, neighbours, least), left))
    finally:
        secure_sum.FAILURE, secure_sum.EXPOSURE = bounds
    print(shown(f"tacit, {neighbours} neighbours, threshold {least}, which its settings refuse", like))
    arguments = [str(value) for value in (clients, length, neighbours, least, json.dumps(sorted(left)))]
    command = [interpreter, __file__, "flower", *arguments]
    asking = "import importlib.metadata as m; print(m.version('flwr'))"
    version = subprocess.run([interpreter, "-c", asking], check=False, capture_output=True, text=True)
    if version.returncode:
        print(f"  Flower skipped: {interpreter} does not have it (pip install flwr, then TACIT_FLOWER_PYTHON)")
        return
    theirs = best(lambda: json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    print(shown(f"Flower {version.stdout.strip()}, the same neighbours and threshold", theirs))
    print(
        f"  Flower / tacit at {neighbours} neighbours: unmasking {theirs['unmasking'] / like['unmasking']:.1f}, "
        f"in all {sum(theirs.values()) / sum(like.values()):.1f}; Flower's unmasking at {neighbours} / tacit's at "
        f"{chosen.neighbours} neighbours: {theirs['unmasking'] / mine['unmasking']:.1f}"
    )


PARTS = {
    "dropouts": Part(
        dropouts, quick={"clients": 25, "length": 2000, "gone": 5, "colluding": 2, "neighbours": 8, "repeats": 1}
    )
}

if __name__ == "__main__":
    main(__doc__, PARTS, children={"flower": flower})
