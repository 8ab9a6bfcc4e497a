"""Parties that are killed at any moment and started again with the same command: the others wait and go on by themselves."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections import defaultdict

import numpy as np
import pytest
from light import Mixer, Scene, _party, parts
from threads import expected

from tacit.channel import masked

pytestmark = pytest.mark.slow
KILLS = Mixer.rounds - 1
"""For each of four seeds: 44 in all."""
HANGS = 300.0
"""Seconds after which a test counts as hanging. Nothing is expected to take a part of them, on any machine."""


class GatedMixer(Mixer):
    """Begins a round when the test has opened it: the file `gate` has a byte for every open round.

    So the run cannot end before all kills are done, however slow or fast the machine is.
    """

    def __init__(self, gate, **settings):
        super().__init__(**settings)
        self.gate = gate

    def _program(self, X):
        program, answer = super()._program(X), None
        for place in range(self.rounds):
            while os.path.getsize(self.gate) <= place:
                time.sleep(0.005)
            answer = yield program.send(answer)
        try:
            program.send(answer)
        except StopIteration as stop:
            return stop.value


class Supervised:
    """One party as a process that is started again when it was killed."""

    def __init__(self, scene, place, model):
        self.scene, self.place, self.model = scene, place, model
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload(["light"])
        self.start()

    def start(self):
        self.pipe, theirs = self.context.Pipe()
        scene, place = self.scene, self.place
        folder = scene.folder / f"party-{place}"
        given = (theirs, scene.job, scene.identities[place], parts(3)[place], folder, self.model, 5.0, {"retry": HANGS})
        self.process = self.context.Process(target=_party, args=given, daemon=True)
        self.process.start()
        theirs.close()

    def kill(self):
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.join()

    def reach(self, rounds):
        """Wait until this many rounds are complete here."""
        while True:
            kind, content = self._message()
            assert kind == "round", content
            if content >= rounds:
                return

    def result(self):
        while True:
            kind, content = self._message()
            if kind == "end":
                self.process.join()
                if isinstance(content, Exception):
                    raise content
                return content[0]

    def _message(self):
        assert self.pipe.poll(HANGS), "the party hangs"
        return self.pipe.recv()


LONG = {"extra_columns": masked.SHORT_FROM, "filler": 1e8}
"""Sums that are first made with the lower words; they are not enough for the filler, and every session finds that out."""


@pytest.mark.parametrize(
    ("seed", "settings", "survive"), [(0, {}, 0), (1, LONG, 0), (2, {"noise": True}, 0), (3, {"noise": True}, 1)]
)
def test_kills_at_any_moment_change_no_bit_and_release_nothing_twice(tmp_path, seed, settings, survive):
    """One kill for every round: every other time in the midst of it, else at any time, also while the parties connect."""
    about_job = {"timeout": HANGS, "survive": survive}
    generator, scene, gate = np.random.default_rng(seed), Scene(tmp_path, settings=about_job), tmp_path / "gate"
    gate.touch()
    models = [GatedMixer(str(gate), **settings, log=str(tmp_path / f"log-{place}")) for place in range(3)]
    running = [Supervised(scene, place, model) for place, model in enumerate(models)]
    victim = running[0]
    try:
        for count in range(KILLS):
            gate.write_bytes(bytes(count + 1))
            if count % 2 == 1:
                victim.reach(count)  # the one that was killed last; now all are in the round that was opened
                time.sleep(generator.uniform(0.0, 0.05))
            else:
                time.sleep(generator.uniform(0.0, 1.2))
            victim = running[generator.integers(3)]
            victim.kill()
            time.sleep(generator.uniform(0.0, 0.3))
            victim.start()
        gate.write_bytes(bytes(Mixer.rounds))
        results = [one.result() for one in running]
    finally:
        for one in running:
            if one.process.is_alive():
                one.kill()
    for result in results:
        np.testing.assert_array_equal(result, results[0])
    if "noise" not in settings:
        np.testing.assert_array_equal(results[0][: len(expected())], expected())
        np.testing.assert_array_equal(results[0][len(expected()) :], 3 * LONG["filler"])
    totals = defaultdict(set)
    for place in range(3):
        for line in (tmp_path / f"log-{place}").read_text().splitlines():
            number, value = line.split()
            totals[int(number)].add(value)
    assert {number: len(values) for number, values in totals.items()} == dict.fromkeys(range(Mixer.rounds), 1)
