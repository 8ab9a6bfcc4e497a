"""What networks and people do to honest parties: slow paths, long computations, restarts, lost peers, too much data."""

from __future__ import annotations

import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import tracemalloc
from dataclasses import replace

import grpc
import numpy as np
import pytest
from light import Scene
from threads import Mixer, Threads, expected

from tacit.channel import run
from tacit.errors import PartyError, ProtocolError
from tacit.parties import Job
from tacit.parties.identity import HOST
from tacit.parties.journal import RoundJournal
from tacit.parties.link import STEP, Link
from tacit.parties.local import free_ports
from tacit.parties.wire import FRAME_BYTES, SERVICE, Wire


class SlowMixer(Mixer):
    """Computes for some seconds in one round."""

    def __init__(self, seconds, at=4, **settings):
        super().__init__(**settings)
        self.seconds, self.at = seconds, at

    def _program(self, X):
        program, answer = super()._program(X), None
        for place in range(self.rounds):
            if place == self.at:
                time.sleep(self.seconds)
            answer = yield program.send(answer)
        return (yield from finished(program, answer))


def finished(program, answer):
    try:
        program.send(answer)
    except StopIteration as stop:
        return stop.value
    yield
    raise AssertionError("the program goes on")


class DelayedPath(threading.Thread):
    """A path to a port on which bytes take `delay` seconds one way, for connections made after `slow` was set."""

    def __init__(self, target, delay):
        super().__init__(daemon=True)
        self.target, self.delay, self.slow = target, delay, False
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]

    def run(self):
        while True:
            try:
                one, _ = self.socket.accept()
            except OSError:
                return
            other = socket.socket()
            try:
                other.connect(("127.0.0.1", self.target))
            except OSError:
                one.close()
                continue
            for source, sink, delay in ((one, other, self.delay if self.slow else 0.0), (other, one, 0.0)):
                waiting = queue.Queue()
                threading.Thread(target=self.read, args=(source, waiting), daemon=True).start()
                threading.Thread(target=self.write, args=(sink, waiting, delay), daemon=True).start()

    def read(self, source, waiting):
        try:
            while chunk := source.recv(65536):
                waiting.put((time.monotonic(), chunk))
        except OSError:
            pass
        waiting.put((time.monotonic(), b""))

    def write(self, sink, waiting, delay):
        try:
            while True:
                when, chunk = waiting.get()
                time.sleep(max(0.0, when + delay - time.monotonic()))
                if not chunk:
                    sink.shutdown(socket.SHUT_WR)
                    return
                sink.sendall(chunk)
        except OSError:
            pass


@pytest.mark.slow
def test_one_slow_path_leaves_nobody_without_a_model(tmp_path):
    """The other two are done, and leave, before the slow path has delivered the last messages."""
    scene, port = Threads(tmp_path), free_ports(1)[0]
    path = DelayedPath(port, 0.3)
    path.start()
    parties = [*scene.job.parties]
    parties[1] = replace(parties[1], address=f"127.0.0.1:{path.port}")
    scene.job = Job.parse(replace(scene.job, parties=parties).text())
    boxes = [scene.start(0), scene.start(1, listen=f"127.0.0.1:{port}")]
    time.sleep(1.0)
    path.slow = True
    boxes.append(scene.start(2))
    for box in boxes:
        np.testing.assert_array_equal(box.wait().result, expected())
    path.socket.close()


@pytest.mark.slow
def test_computing_is_not_silence(tmp_path):
    scene = Threads(tmp_path, settings={"timeout": 1.0})
    for box in scene.all({2: SlowMixer(2.5)}):
        np.testing.assert_array_equal(box.result, expected())


@pytest.mark.slow
def test_a_peer_that_left_after_the_last_total_takes_no_model_from_the_others(tmp_path):
    scene, finish = Threads(tmp_path), Link.finish

    def leave(self):
        if self.index == 0:
            raise KeyboardInterrupt
        return finish(self)

    Link.finish = leave
    try:
        with pytest.warns(UserWarning, match="party-0 left before the end"):
            boxes = scene.all()
    finally:
        Link.finish = finish
    assert isinstance(boxes[0].error, KeyboardInterrupt)
    for box in boxes[1:]:
        np.testing.assert_array_equal(box.result, expected())
    alone = scene.start(1, resume=True, connect_seconds=0.3).wait()  # nobody else is there, and nobody is needed
    np.testing.assert_array_equal(alone.result, expected())
    for box in scene.all(resume=True):
        np.testing.assert_array_equal(box.result, expected())


@pytest.mark.slow
def test_the_timeout_may_be_changed_without_a_new_run(tmp_path):
    """In the job file, or by one party for itself; the noise of the interrupted run is kept, and nothing is charged again."""
    scene = Threads(tmp_path, settings={"timeout": 5.0})
    models = {place: Mixer(noise=True) for place in range(3)}
    broken = scene.all({**models, 2: BreakingMixer(7, noise=True)})
    assert isinstance(broken[2].error, BreakingMixer.BreakError)
    later = Job.parse(replace(scene.job, timeout=77.0).text())
    assert later.digest != scene.job.digest
    assert later.identity == scene.job.identity
    boxes = scene.all(models, job={0: scene.job, 1: later, 2: later}, timeout={0: 99.0}, resume=True)
    for box in boxes:
        np.testing.assert_array_equal(box.result, boxes[0].result)


class BreakingMixer(Mixer):
    """Fails in one round, as often as it is asked to."""

    class BreakError(Exception):
        """Ends the party."""

    def __init__(self, at, **settings):
        super().__init__(**settings)
        self.at = at

    def _program(self, X):
        program, answer = super()._program(X), None
        for place in range(self.rounds):
            if place == self.at:
                raise self.BreakError
            answer = yield program.send(answer)
        return (yield from finished(program, answer))


@pytest.mark.slow
def test_parties_that_lost_one_wait_for_it_and_go_on_by_themselves(tmp_path):
    scene, told = Threads(tmp_path), []
    waiting = [scene.start(place, retry=30.0, on_wait=told.append) for place in (0, 1)]
    for at in (3, 7):
        lost = scene.start(2, BreakingMixer(at), retry=1.0).wait()  # it resumes its own checkpoint the second time
        assert isinstance(lost.error, BreakingMixer.BreakError)
        time.sleep(0.5)
        assert all(box.running for box in waiting)
    last = scene.start(2, retry=1.0)
    for box in (*waiting, last):
        np.testing.assert_array_equal(box.wait().result, expected())
    assert any("party-2" in text and "trying again" in text for text in told)


@pytest.mark.slow
def test_the_wait_for_a_lost_party_ends(tmp_path):
    scene = Threads(tmp_path)
    boxes = [scene.start(place, retry=1.0) for place in (0, 1)]
    assert isinstance(scene.start(2, BreakingMixer(3)).wait().error, BreakingMixer.BreakError)
    start = time.monotonic()
    for box in boxes:
        assert isinstance(box.wait().error, PartyError)
    assert time.monotonic() - start < 60


@pytest.mark.slow
def test_a_party_that_was_killed_while_the_others_wait_is_taken_back(tmp_path):
    scene, told = Threads(tmp_path), []
    first = scene.start(0, on_wait=told.append, connect_seconds=30.0)
    child = subprocess.Popen([sys.executable, "-c", CHILD, *pickled(scene, 1)])
    wait_until(lambda: any(text == "waiting for party-2" for text in told))  # it has come
    child.kill()
    child.wait()
    wait_until(lambda: "party-1" in told[-1])
    others = [scene.start(1), scene.start(2)]
    for box in (first, *others):
        np.testing.assert_array_equal(box.wait().result, expected())


CHILD = """
import pickle, sys
sys.path.insert(0, sys.argv[2])
job, identity, data, folder = pickle.load(open(sys.argv[1], "rb"))
from light import Mixer
from tacit.parties import Job, join
from tacit.parties.models import PartyData
join(Job.parse(job), identity, PartyData(data), folder, estimator=Mixer(), connect_seconds=30.0)
"""


def pickled(scene, place):
    import pickle
    from pathlib import Path

    from light import parts

    path = scene.folder / "given"
    content = (scene.job.text(), scene.identities[place], parts(3)[place], scene.folder / f"party-{place}")
    path.write_bytes(pickle.dumps(content))
    return str(path), str(Path(__file__).parent)


def wait_until(condition, seconds=120.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.slow
def test_waiting_names_whom(tmp_path):
    told = []
    box = Threads(tmp_path).start(0, on_wait=told.append, connect_seconds=1.5).wait()
    assert told == ["waiting for party-1, party-2"]
    assert "party-1, party-2 to come" in str(box.error)
    told.clear()
    scene = Threads(tmp_path / "computing")
    boxes = [scene.start(0, on_wait=told.append), scene.start(1), scene.start(2, SlowMixer(1.8))]
    for one in boxes:
        np.testing.assert_array_equal(one.wait().result, expected())
    assert told[-1] == "waiting for party-2"


@pytest.mark.slow
def test_proxies_of_the_environment_are_for_others(tmp_path, monkeypatch):
    taken = socket.create_server(("127.0.0.1", 0))
    for name in ("http_proxy", "https_proxy", "grpc_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{taken.getsockname()[1]}")
    for name in ("no_proxy", "no_grpc_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    for box in Threads(tmp_path).all():
        np.testing.assert_array_equal(box.result, expected())
    assert isinstance(Threads(tmp_path / "asked for").all(proxy=True, connect_seconds=1.0)[0].error, PartyError)
    taken.close()


def test_large_numbers_fit_by_default():
    """The squares of 15,000 vital signs are beyond 64 bits."""
    from links import in_threads

    from tacit.channel import Outcome, Sum
    from tacit.channel.masked import Masked

    X = np.random.default_rng(0).normal(120.0, 15.0, size=(15_000, 3))
    terms = np.array_split(X, 3)

    def program(rows):
        total = yield Sum(squares=rows.T @ rows)
        return Outcome({"squares": total.squares})

    found = in_threads(3, lambda together: run(program(terms[together.index]), Masked(together)).public["squares"])
    np.testing.assert_allclose(found[0], X.T @ X, rtol=1e-12)
    assert Job.__dataclass_fields__["word_bits"].default == 128


@pytest.mark.slow
def test_what_is_sent_before_the_greeting_is_not_kept(tmp_path):
    """A party of the job sends a great deal before it is greeted: it is not read."""
    scene = Scene(tmp_path, 2)
    link = Link(scene.job, 0)
    wire = link.wire = Wire(scene.job, scene.identities[0], 0, link)
    party, mine = scene.job.parties[0], scene.identities[1]
    credentials = grpc.ssl_channel_credentials(party.certificate, mine.key, mine.certificate)
    options = (("grpc.ssl_target_name_override", HOST), ("grpc.max_send_message_length", -1))
    sent = []

    def frames(size):
        yield b"{}"
        for _ in range(16):
            sent.append(size)
            yield bytes(size)

    tracemalloc.start()
    try:
        with grpc.secure_channel(party.address, credentials, options=options) as channel:
            call = channel.stream_unary(f"/{SERVICE}/Frames")
            with pytest.raises(grpc.RpcError):  # the frames are held back at the sender
                call(frames(FRAME_BYTES), timeout=2.0)
            assert sum(sent) < 16 * FRAME_BYTES
            for hello, code in ((bytes(2**20), "INVALID_ARGUMENT"), (bytes(25 * 10**6), "RESOURCE_EXHAUSTED")):
                with pytest.raises(grpc.RpcError) as refused:
                    call(iter([hello]), timeout=5.0)
                assert refused.value.code().name == code
        state = link._peers[1]
        assert state.steps.empty()
        assert not state.chunks
        assert tracemalloc.get_traced_memory()[1] < 2**26
    finally:
        tracemalloc.stop()
        wire.close()


def sealed_pair(tmp_path):
    """Party 0 in a session with party 1, whose frames are made by hand."""
    scene = Scene(tmp_path, 2)
    links = [Link(scene.job, place, timeout=2.0) for place in (0, 1)]
    for place, link in enumerate(links):
        link.wire = Wire(scene.job, scene.identities[place], place, link, beat_seconds=60.0)
    found = {}

    def greet(place):
        found[place] = links[place].greet(f"hello {place}".encode(), time.monotonic() + 10.0)

    threads = [threading.Thread(target=greet, args=(place,)) for place in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {0: {1: b"hello 1"}, 1: {0: b"hello 0"}}
    for place, link in enumerate(links):
        keys = (b"k" * 32, b"l" * 32)
        link.seal(1 - place, *(keys if place == 0 else keys[::-1]))
    return links


@pytest.mark.slow
def test_frames_that_nobody_asked_for_are_held_back(tmp_path):
    links = sealed_pair(tmp_path)
    try:
        label = b"l" * 16
        for _ in range(30):
            links[1]._sealed({0: (STEP, label, (FRAME_BYTES).to_bytes(8, "big"), bytes(FRAME_BYTES))})
        time.sleep(1.0)
        assert links[0]._peers[1].steps.qsize() <= 5
        for _ in range(30):  # and arrive when they are
            assert len(links[0]._message(1, FRAME_BYTES)[1]) == FRAME_BYTES
        for _ in range(10):
            links[1].send(0, bytes(FRAME_BYTES))
        wait_until(lambda: links[0].failure() is not None)
        assert "that nobody had asked for" in str(links[0].failure())
    finally:
        for link in links:
            link.wire.close()


@pytest.mark.slow
def test_a_message_longer_than_a_frame_arrives_whole_and_one_that_is_too_long_is_refused(tmp_path):
    links = sealed_pair(tmp_path)
    content = np.random.default_rng(0).bytes(3 * FRAME_BYTES + 17)
    label = b"l" * 16
    try:
        box = []
        thread = threading.Thread(target=lambda: box.append(links[1].swap(label, {0: content})))
        thread.start()
        pieces = [
            memoryview(content)[:100],
            memoryview(content)[100 : FRAME_BYTES + 7],
            memoryview(content)[FRAME_BYTES + 7 :],
        ]
        assert links[0].swap(label, {1: pieces})[1] == content
        thread.join()
        assert box == [{0: content}]
        thread = threading.Thread(target=lambda: box.append(links[1].swap(label, {0: b"answer"}, most=200)))
        thread.start()
        links[0].swap(label, {1: [*pieces[:1], memoryview(b"second piece")]})
        thread.join()
        assert box[1] == {0: content[:100] + b"second piece"}
        links[1]._sealed({0: (STEP, label, (10**12).to_bytes(8, "big"), b"x")})
        with pytest.raises(ProtocolError, match=r"at most 67 bytes from party-1 .*; got a message of 1000000000000"):
            links[0].swap(label, {1: b"one"})
    finally:
        for link in links:
            link.wire.close()


@pytest.mark.slow
@pytest.mark.parametrize("step", ["keep_total", "conclude"])
def test_the_last_total_is_served_to_a_party_that_lost_it(tmp_path, step):
    """It is lost at the end; those who are done stay for it while their --retry lasts."""
    scene, do = Threads(tmp_path), getattr(RoundJournal, step)

    def leave(self, number=Mixer.rounds - 1, *given):
        if number == Mixer.rounds - 1 and self._value("party") == b"party-2":
            raise BreakingMixer.BreakError
        do(self, *((number, *given) if given else ()))

    setattr(RoundJournal, step, leave)
    try:
        boxes = [scene.start(place, retry=0.0 if place == 2 else 20.0) for place in range(3)]
        assert isinstance(boxes[2].wait().error, BreakingMixer.BreakError)
    finally:
        setattr(RoundJournal, step, do)
    time.sleep(1.0)
    boxes[2] = scene.start(2, resume=True)
    for box in boxes:
        np.testing.assert_array_equal(box.wait().result, expected())


@pytest.mark.slow
def test_a_party_with_all_totals_finishes_alone(tmp_path):
    """It is lost before it has compared its result; the others are done, and do not come back."""
    scene, conclude = Threads(tmp_path), RoundJournal.conclude

    def leave(self):
        if self._value("party") == b"party-2":
            raise BreakingMixer.BreakError
        conclude(self)

    RoundJournal.conclude = leave
    try:
        with pytest.warns(UserWarning, match="party-2 left before the end"):
            boxes = scene.all()
    finally:
        RoundJournal.conclude = conclude
    assert isinstance(boxes[2].error, BreakingMixer.BreakError)
    with pytest.warns(UserWarning, match="has all totals"):
        alone = scene.start(2, resume=True, connect_seconds=0.3).wait()
    np.testing.assert_array_equal(alone.result, expected())


@pytest.mark.slow
def test_a_party_without_all_totals_does_not_finish_alone(tmp_path):
    """Even if it has the total of every round that was begun."""
    scene = Threads(tmp_path)
    models = {place: BreakingMixer(6) for place in range(3)}
    scene.all(models)
    alone = scene.start(2, resume=True, connect_seconds=0.3).wait()
    assert isinstance(alone.error, PartyError)
    assert "party-0, party-1 to come" in str(alone.error)
    for box in scene.all(resume=True):
        np.testing.assert_array_equal(box.result, expected())


@pytest.mark.slow
def test_a_party_that_is_done_stays_for_one_that_is_lost_twice(tmp_path):
    """The second time in the midst of the greeting."""
    scene, conclude, seal = Threads(tmp_path), RoundJournal.conclude, Link.seal
    told = []

    def leave(self):
        if self._value("party") == b"party-2":
            raise BreakingMixer.BreakError
        conclude(self)

    def leave_in_greeting(self, *given):
        if self.index == 2:
            wait_until(lambda: all(self.wire.is_open_to(peer) for peer in self.peers))
            time.sleep(0.3)  # the others have greeted it
            raise BreakingMixer.BreakError
        seal(self, *given)

    try:
        RoundJournal.conclude = leave
        boxes = [scene.start(place, retry=0.0 if place == 2 else 60.0, on_wait=told.append) for place in range(3)]
        assert isinstance(boxes[2].wait().error, BreakingMixer.BreakError)
        RoundJournal.conclude = conclude
        wait_until(lambda: sum("may lack the last total" in text for text in told) == 2)
        Link.seal = leave_in_greeting
        assert isinstance(scene.start(2, resume=True).wait().error, BreakingMixer.BreakError)
    finally:
        RoundJournal.conclude, Link.seal = conclude, seal
    wait_until(lambda: sum("trying again" in text for text in told) == 2)
    boxes[2] = scene.start(2, resume=True)
    for box in boxes:
        np.testing.assert_array_equal(box.wait().result, expected())


@pytest.mark.slow
def test_a_restart_while_all_gather_makes_nobody_else_start_again(tmp_path):
    """Party 0 has the greetings of all and party 1 has not, when party 2 is started again."""
    scene, greet, told = Threads(tmp_path), Link.greet, []
    restarted, complete = threading.Event(), threading.Event()

    def watched(self, hello, deadline, look):
        seen = set()

        def watching(peer, theirs):
            seen.add(peer)
            if self.index == 0 and len(seen) == 2:
                complete.set()
            if self.index == 2 and complete.wait(0.0) and not restarted.is_set():
                time.sleep(0.3)  # party 0 could begin a session now
                raise BreakingMixer.BreakError
            return (self.index != 1 or restarted.is_set()) and look(peer, theirs)

        return greet(self, hello, deadline, watching)

    Link.greet = watched
    try:
        boxes = [scene.start(place, retry=0.0 if place == 2 else 60.0, on_wait=told.append) for place in range(3)]
        assert isinstance(boxes[2].wait().error, BreakingMixer.BreakError)
        restarted.set()
        boxes[2] = scene.start(2, retry=60.0, on_wait=told.append)
        for box in boxes:
            np.testing.assert_array_equal(box.wait().result, expected())
    finally:
        Link.greet = greet
    assert not any("trying again" in text for text in told), told


@pytest.mark.slow
def test_a_party_that_may_try_again_waits_for_its_port(tmp_path):
    """A supervisor starts it again while the port is still taken, and there is no checkpoint yet."""
    scene = Threads(tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", int(scene.job.parties[1].address.rpartition(":")[2])))
        taken.listen()
        boxes = [scene.start(place, retry=60.0) for place in range(3)]
        time.sleep(1.0)
        assert boxes[1].running, boxes[1].error
    for box in boxes:
        np.testing.assert_array_equal(box.wait().result, expected())


@pytest.mark.slow
def test_sigterm_ends_a_party_with_a_checkpoint_and_the_others_know(tmp_path):
    from light import parts

    scene = Threads(tmp_path)
    data = scene.folder / "data.csv"
    names = "abcd"
    lines = [",".join(names), *(",".join(map(str, row)) for row in parts(3)[1])]
    data.write_text("\n".join(lines))
    job = replace(scene.job, model="nmf", settings={"n_components": 2, "init": "random", "max_iter": 5000, "tol": 0.0})
    scene.job = Job.parse(job.text())
    path = scene.job.write(scene.folder / "job.toml")
    scene.identities[1].write(scene.folder / "identity")
    command = [
        *(sys.executable, "-c", "from tacit.cli.main import main; main()", "parties", "join", path, "--as", "party-1"),
        *("--data", data, "--identity", scene.folder / "identity", "--output", scene.folder / "out", "--yes"),
        *("--progress", "lines", "--wait", "60"),
    ]
    child = subprocess.Popen([str(word) for word in command], stderr=subprocess.PIPE, text=True)
    from tacit import NMF

    models = {place: NMF(2, init="random", max_iter=5000, tol=0.0) for place in (0, 2)}
    boxes = [scene.start(place, models[place], connect_seconds=60.0) for place in (0, 2)]
    for line in child.stderr:
        if '"round": 20' in line:
            break
    os.kill(child.pid, signal.SIGTERM)
    child.communicate(timeout=30.0)
    assert child.returncode == 128 + signal.SIGTERM
    for box in boxes:
        assert re.search(r"party-1 stopped: SystemExit", str(box.wait().error))
    import sqlite3

    file = sqlite3.connect(scene.folder / "out" / "checkpoint.db")
    assert file.execute("SELECT COUNT(*) FROM rounds WHERE total IS NOT NULL").fetchone()[0] >= 20
    assert file.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    file.close()
    assert not list((scene.folder / "out").glob("*-wal")), "the checkpoint was closed"
