"""Parties that die, stall or are disturbed: the others stop, name them, and all go on to the same result."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import threading
import time
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from light import Mixer, Scene

from tacit.errors import PartyError, ProtocolError
from tacit.parties.job import Job
from tacit.parties.local import free_ports

pytestmark = pytest.mark.slow


def undisturbed(tmp_path, parties=3, **changes):
    results = Scene(tmp_path / "undisturbed", parties).run(**changes)
    for result in results:
        np.testing.assert_array_equal(result[0], results[0][0])
    return results[0][0]


@pytest.mark.parametrize("seed", range(5))
def test_killed_parties_are_named_and_the_run_goes_on_to_the_same_result(tmp_path, seed):
    """Each of three parties is killed twice at random rounds, one kill a run; 30 kills over the five seeds."""
    expected = undisturbed(tmp_path)
    generator = np.random.default_rng(seed)
    scene = Scene(tmp_path)
    reached = 0
    for count, victim in enumerate(generator.permutation([0, 1, 2, 0, 1, 2])):
        reached = min(reached + int(generator.integers(1, 3)), Mixer.rounds - 1)
        killed, *others = scene.run(kill=(int(victim), reached), resume=count > 0)
        assert killed is None
        for error in others:
            assert isinstance(error, PartyError)
            assert f"party-{victim}" in str(error)
            assert "--resume" in str(error)
    for result, _, _ in scene.run(resume=True):
        np.testing.assert_array_equal(result, expected)


def test_no_statistic_is_released_twice_under_fresh_noise(tmp_path):
    """Over all attempts and parties, each round has one total; noise is secure here, so fresh noise would show."""
    scene = Scene(tmp_path)
    models = {place: Mixer(noise=True, log=str(tmp_path / f"log-{place}")) for place in range(3)}
    for count, (victim, reached) in enumerate([(0, 2), (2, 5), (1, 5), (0, 9)]):
        scene.run(kill=(victim, reached), resume=count > 0, model=models)
    results = scene.run(resume=True, model=models)
    totals = defaultdict(set)
    for place in range(3):
        for line in (tmp_path / f"log-{place}").read_text().splitlines():
            number, value = line.split()
            totals[int(number)].add(value)
    assert {number: len(values) for number, values in totals.items()} == dict.fromkeys(range(Mixer.rounds), 1)
    assert "differential privacy" in results[0][2]


def test_a_party_that_asks_for_something_else_is_refused(tmp_path):
    results = Scene(tmp_path).run(model={0: Mixer(), 1: Mixer(), 2: Mixer(extra_columns=1)})
    assert any(isinstance(error, ProtocolError) for error in results)
    assert not any(isinstance(result, tuple) for result in results)


class Proxy(threading.Thread):
    """Between the parties and party 0: passes bytes on, and does `harm(chunk, count)` to those it forwards."""

    def __init__(self, target, harm):
        super().__init__(daemon=True)
        self.target, self.harm, self.count = target, harm, 0
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        self.socket.listen()
        self.port = self.socket.getsockname()[1]

    def run(self):
        while True:
            try:
                one, _ = self.socket.accept()
            except OSError:
                return
            other = socket.socket()
            for _ in range(100):
                try:
                    other.connect(("127.0.0.1", self.target))
                    break
                except OSError:
                    other.close()
                    other = socket.socket()
                    time.sleep(0.1)
            threading.Thread(target=self.pump, args=(one, other, self.harm), daemon=True).start()
            threading.Thread(target=self.pump, args=(other, one, lambda chunk, count: chunk), daemon=True).start()

    def pump(self, source, sink, harm):
        try:
            while chunk := source.recv(65536):
                self.count += len(chunk)
                chunk = harm(chunk, self.count)
                if chunk is None:
                    break
                sink.sendall(chunk)
        except OSError:
            pass
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


LATE = 100_000
"""Bytes after which the harm begins: the handshakes take less than 20,000, a sum of this many columns more than that."""
WIDE = Mixer(extra_columns=2_000)


def unharmed(chunk, count):
    return chunk


def flip(chunk, count):
    return chunk if count < LATE else bytes([chunk[0] ^ 1]) + chunk[1:]


def flip_last(chunk, count):
    return chunk if count < LATE else chunk[:-1] + bytes([chunk[-1] ^ 128])


def drop(chunk, count):
    return chunk if count < LATE else None


def lose(chunk, count):
    return chunk if count < LATE else b""


def duplicate(chunk, count):
    return chunk if count < LATE else chunk + chunk


def delay(chunk, count):
    time.sleep(0.02)
    return chunk


def behind_a_proxy(tmp_path, harm):
    """Return a scene whose party 0 is reached through a proxy, what it listens at, and the proxy."""
    scene = Scene(tmp_path, settings={"timeout": 5.0})
    port = free_ports(1)[0]
    proxy = Proxy(port, harm)
    proxy.start()
    parties = [replace(scene.job.parties[0], address=f"127.0.0.1:{proxy.port}"), *scene.job.parties[1:]]
    scene.job = Job.parse(replace(scene.job, parties=parties).text())
    return scene, {0: f"127.0.0.1:{port}"}, proxy


@pytest.mark.parametrize("harm", [flip, flip_last, drop, lose, duplicate, delay], ids=lambda harm: harm.__name__)
def test_a_disturbed_network_stops_the_run_or_changes_nothing(tmp_path, harm):
    expected = undisturbed(tmp_path, model=WIDE)
    scene, listen, proxy = behind_a_proxy(tmp_path, harm)
    results = scene.run(listen=listen, wait=20.0, model=WIDE)
    if harm is not delay:
        assert all(isinstance(result, PartyError | ProtocolError) for result in results), results
        rounds = [int(found) for result in results for found in re.findall(r"reach round (\d+)", str(result))]
        assert max(rounds) > 0  # the sums had begun
        proxy.harm = unharmed
        results = scene.run(listen=listen, wait=20.0, model=WIDE, resume=True)
    proxy.socket.close()
    for result, _, _ in results:
        np.testing.assert_array_equal(result, expected)


def test_a_network_that_breaks_during_the_handshakes_stops_the_run_before_the_first_sum(tmp_path):
    scene, listen, proxy = behind_a_proxy(tmp_path, lambda chunk, count: chunk if count < 3_000 else None)
    results = scene.run(listen=listen, wait=2.0)
    proxy.socket.close()
    assert all(isinstance(result, PartyError) for result in results), results
    assert not any(re.search(r"reach round [1-9]", str(result)) for result in results)


def test_a_stopped_process_counts_as_stalled(tmp_path):
    """SIGSTOP keeps its sockets open, so only the timeout can tell."""
    scene = Scene(tmp_path, settings={"timeout": 3.0})
    results = scene.run(model={0: Mixer(), 1: StoppingMixer(), 2: Mixer()}, silent=1)
    for place in (0, 2):
        assert isinstance(results[place], PartyError)
        assert "party-1" in str(results[place])


class StoppingMixer(Mixer):
    def _program(self, X):
        program = super()._program(X)
        answer = None
        for place in range(self.rounds):
            if place == 3:
                os.kill(os.getpid(), signal.SIGSTOP)
            answer = yield program.send(answer)
        return (yield from program)
