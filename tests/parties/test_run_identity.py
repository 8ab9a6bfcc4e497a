"""A run remembers what it sent: changed data, older checkpoints, other runs and made-up totals are refused by name."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import stat
import time
from contextlib import contextmanager

import numpy as np
import pytest
from threads import Mixer, Threads, expected

from tacit import NMF
from tacit.channel import masked
from tacit.errors import InvalidInputError, PartyError, ProtocolError
from tacit.parties import handshake
from tacit.parties.join import CHECKPOINT
from tacit.parties.journal import RoundJournal
from tacit.parties.link import Link


class CutError(Exception):
    """Ends one party."""


@contextmanager
def cut(party, number, *, seen=None):
    """One party leaves between the two steps of a round, when the others may know their part of the total.

    `seen` gets what party 0 sends in that round.
    """
    before = {name: getattr(masked.MaskedSum, name) for name in ("add", "add_and_work")}

    def watching(add):
        def watched(self, *given, **settings):
            swap, steps, link = self.link.swap, [0], self.link

            def counted(*args, **more):
                steps[0] += 1
                if link.traffic.rounds == number + 1:
                    if steps[0] == 1 and seen is not None and link.index == 0:
                        seen.append(args[1])
                    if steps[0] == 2 and link.index == party:
                        time.sleep(0.2)
                        raise CutError
                return swap(*args, **more)

            link.swap = counted
            try:
                return add(self, *given, **settings)
            finally:
                link.swap = swap

        return watched

    try:
        for name, add in before.items():
            setattr(masked.MaskedSum, name, watching(add))
        yield
    finally:
        for name, add in before.items():
            setattr(masked.MaskedSum, name, add)


def errors(boxes):
    return [box.error for box in boxes]


@pytest.fixture(params=[1, masked.PART_NUMBERS], ids=["all own a part", "one owner"])
def owners(request, monkeypatch):
    """Sums that all parties total parts of, and sums that one of them totals."""
    monkeypatch.setattr(masked, "PART_NUMBERS", request.param)


@pytest.mark.slow
@pytest.mark.usefixtures("owners")
@pytest.mark.parametrize("resume", [False, True])
def test_a_run_broken_in_its_first_round_cannot_be_restarted_on_changed_data(tmp_path, resume):
    """The difference of two first rounds would be the patient that was removed."""
    scene, seen = Threads(tmp_path), []
    with cut(2, 0, seen=seen):
        assert isinstance(scene.all()[2].error, CutError)
    assert len(seen) == 1
    data = {0: np.delete(scene_part(0), 4, axis=0), 1: scene_part(1), 2: scene_part(2)}
    with cut(None, 0, seen=seen):
        again = scene.all(data=data, resume=resume, connect_seconds=1.0)
    wanted = "another data" if resume else "one of an earlier run"
    assert isinstance(again[0].error, InvalidInputError)
    assert wanted in str(again[0].error)
    assert len(seen) == 1, "no second first round was seen"
    for box in scene.all(resume=True):
        np.testing.assert_array_equal(box.result, expected())


def scene_part(place):
    from light import parts

    return parts(3)[place]


@pytest.mark.slow
def test_a_run_that_sent_nothing_may_start_again_on_other_data(tmp_path):
    scene = Threads(tmp_path)
    assert isinstance(scene.start(0, connect_seconds=0.3).wait().error, PartyError)
    for box in scene.all(data={0: scene_part(0)[:5], 1: scene_part(1), 2: scene_part(2)}):
        assert box.result.shape == (4,)


@pytest.mark.slow
@pytest.mark.usefixtures("owners")
@pytest.mark.parametrize("rounds_back", [1, 2])
def test_a_checkpoint_restored_from_a_backup_is_refused_by_all(tmp_path, rounds_back):
    """Even one round back: the noise of the round that was sent would be drawn again."""
    scene, seen = Threads(tmp_path), []
    path, backup = tmp_path / "party-0" / CHECKPOINT, tmp_path / "backup.db"

    def save(number, traffic):
        if number == 6 - rounds_back:
            source, target = sqlite3.connect(path), sqlite3.connect(backup)
            source.backup(target)
            source.close()
            target.close()

    models = {place: Mixer(noise=True) for place in range(3)}
    on_round = {0: save, 1: lambda *_: None, 2: lambda *_: None}
    with cut(2, 5, seen=seen):
        scene.all(models, on_round=on_round)
    newest = path.with_name("newest")
    shutil.move(path.parent, newest.parent.with_name("newest"))
    path.parent.mkdir()
    shutil.copy(backup, path)
    with cut(None, 5, seen=seen):
        found = errors(scene.all(models, resume=True))
    assert all(isinstance(error, ProtocolError | PartyError) for error in found), found
    told = " | ".join(map(str, found))
    assert "older copy" in told
    assert "party-0" in told
    assert len(seen) == 1, "the round was not sent again under other noise"
    shutil.rmtree(path.parent)
    shutil.move(newest.parent.with_name("newest"), path.parent)
    results = [box.result for box in scene.all(models, resume=True)]
    for result in results:
        np.testing.assert_array_equal(result, results[0])


@pytest.mark.slow
@pytest.mark.parametrize("party", [0, 1])
def test_a_round_whose_work_was_divided_is_resumed_with_the_same_bits(tmp_path, party):
    """Party 0 totals round 3 and leaves before it tells the result; or party 1 leaves, and is given the result later."""

    def models():
        start = np.linspace(0.1, 1.0, 8).reshape(2, 4)
        return {place: NMF(2, init=start, max_iter=8, tol=0) for place in range(3)}

    def components(boxes):
        assert errors(boxes) == [None] * 3
        return [box.part.estimator.components_ for box in boxes]

    undisturbed = components(Threads(tmp_path / "undisturbed").all(models()))[0]
    scene = Threads(tmp_path / "broken off")
    with cut(party, 3):
        boxes = scene.all(models())
    assert isinstance(boxes[party].error, CutError)
    for found in components(scene.all(models(), resume=True)):
        np.testing.assert_array_equal(found, undisturbed)


@pytest.mark.slow
def test_the_folder_of_another_run_is_refused_and_changes_nothing(tmp_path):
    scene = Threads(tmp_path)
    for name, number in (("one", 8), ("two", 3)):
        with cut(0, number):
            scene.all(folder={place: tmp_path / name / str(place) for place in range(3)})
    folders = {place: tmp_path / ("one" if place == 0 else "two") / str(place) for place in range(3)}
    before = {place: rows_of(folders[place]) for place in range(3)}
    found = errors(scene.all(folder=folders, resume=True, connect_seconds=3.0))
    assert any(isinstance(error, ProtocolError) and "a checkpoint of the run" in str(error) for error in found), found
    assert {place: rows_of(folders[place]) for place in range(3)} == before
    folders[0] = tmp_path / "two" / "0"
    for box in scene.all(folder=folders, resume=True):
        np.testing.assert_array_equal(box.result, expected())


def rows_of(folder):
    file = sqlite3.connect(folder / CHECKPOINT)
    try:
        return file.execute("SELECT * FROM rounds ORDER BY number").fetchall()
    finally:
        file.close()


@pytest.mark.slow
def test_a_checkpoint_whose_totals_were_changed_is_found_by_its_history(tmp_path):
    scene = Threads(tmp_path)
    with cut(0, 8):
        scene.all()
    file = sqlite3.connect(tmp_path / "party-1" / CHECKPOINT)
    (total,) = file.execute("SELECT total FROM rounds WHERE number = 2").fetchone()
    file.execute("UPDATE rounds SET total = ? WHERE number = 2", (bytes([total[0] ^ 1]) + total[1:],))
    file.commit()
    file.close()
    found = errors(scene.all(resume=True, connect_seconds=3.0))
    assert any(isinstance(error, ProtocolError) and "the same totals" in str(error) for error in found), found


@contextmanager
def claims(place, **changes):
    """One party says in its greeting what is not true."""
    greet = handshake.Link.greet

    def lie(self, hello, *more):
        if self.index == place:
            hello = json.dumps({**json.loads(hello), **changes}).encode()
        return greet(self, hello, *more)

    handshake.Link.greet = lie
    try:
        yield
    finally:
        handshake.Link.greet = greet


@pytest.mark.slow
@pytest.mark.parametrize("count", [11, 10**12])
def test_in_a_fresh_run_nobody_may_claim_totals(tmp_path, count):
    scene = Threads(tmp_path)
    start = time.monotonic()
    with claims(2, begun=count, heard=count, complete=count, run="00" * 32):
        boxes = scene.all(connect_seconds=3.0)
    assert time.monotonic() - start < 120  # and not 10^12 rounds
    for box in boxes[:2]:
        assert isinstance(box.error, ProtocolError | PartyError)
        assert "party-2" in str(box.error)
    for place in (0, 1):
        assert rows_of(tmp_path / f"party-{place}") == []


@pytest.mark.slow
def test_a_resumed_run_has_no_totals_of_rounds_that_were_not_begun(tmp_path):
    scene = Threads(tmp_path)
    with cut(0, 4):
        scene.all()
    with claims(2, begun=10**12, complete=10**12, heard=5):
        found = errors(scene.all(resume=True, connect_seconds=3.0))
    assert any("a greeting from party-2" in str(error) for error in found), "complete exceeds heard"
    with claims(2, begun=10**12, complete=10**12, heard=10**12):
        found = errors(scene.all(resume=True, connect_seconds=3.0))
    assert any("party-2 has heard of it" in str(error) for error in found[:2]), found
    for box in scene.all(resume=True):
        np.testing.assert_array_equal(box.result, expected())


@pytest.mark.parametrize(
    "changes",
    [
        *({"begun": -1}, {"begun": True}, {"nonce": "xy"}, {"history": 3}, {"run": None}, {"key": "00"}),
        *({"without": ["x"]}, {"without": 3}, {"concluded": 1}),
    ],
)
def test_greetings_that_are_none_are_refused(changes):
    good = {"key": "00" * 32, "nonce": "00" * 16, "run": "", "history": "", "begun": 2, "heard": 1, "complete": 1}
    good |= {"without": [], "concluded": False}
    handshake._parsed(json.dumps(good).encode(), "b")
    with pytest.raises(ProtocolError, match="a greeting from b"):
        handshake._parsed(json.dumps({**good, **changes}).encode(), "b")


@pytest.mark.slow
@pytest.mark.parametrize("survive", [0, 1])
def test_begun_is_written_before_the_first_byte_is_sent(tmp_path, monkeypatch, survive):
    """For exact sums too, and for every round, however long the disk takes: masks are made meanwhile, and no more."""
    scene, found, swap, begin = Threads(tmp_path, settings={"survive": survive}), {}, Link.swap, RoundJournal.begin

    def look(self, *args, **settings):
        if self.traffic.rounds:
            found[self.index, self.traffic.rounds] = len(rows_of(tmp_path / f"party-{self.index}"))
        return swap(self, *args, **settings)

    def late(self, *args):
        time.sleep(0.02)
        begin(self, *args)

    monkeypatch.setattr(Link, "swap", look)
    monkeypatch.setattr(RoundJournal, "begin", late)
    for box in scene.all():
        np.testing.assert_array_equal(box.result, expected())
    assert len(found) == 3 * Mixer.rounds
    assert all(rows == number for (_, number), rows in found.items())


@pytest.mark.slow
def test_nothing_is_sent_of_a_round_that_the_disk_did_not_take(tmp_path, monkeypatch):
    scene, sent, swap = Threads(tmp_path), [], Link.swap

    def look(self, *args, **settings):
        sent.append(self.traffic.rounds)
        return swap(self, *args, **settings)

    def full(*args):
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(Link, "swap", look)
    monkeypatch.setattr(RoundJournal, "begin", full)
    assert all(isinstance(box.error, sqlite3.OperationalError | PartyError) for box in scene.all())
    assert not any(sent)


def test_a_run_that_ended_before_it_was_noted_is_noted_when_it_is_resumed(tmp_path):
    """The note beside the identity comes after the journal's, and before the first byte; the process may end between them."""
    scene, noted = Threads(tmp_path), []

    def ends():
        raise KeyboardInterrupt

    boxes = scene.all(on_begin={0: ends, 1: lambda: None, 2: lambda: None})
    assert isinstance(boxes[0].error, KeyboardInterrupt)
    boxes = scene.all(resume=True, on_begin={0: lambda: noted.append(0), 1: lambda: None, 2: lambda: None})
    assert noted == [0]
    for box in boxes:
        np.testing.assert_array_equal(box.result, expected())


def test_a_checkpoint_is_for_its_owner_only(tmp_path):
    journal = RoundJournal(tmp_path / CHECKPOINT, {"job": "x"}, resume=False)
    journal.begin(0, b"l" * 16, 8, b"12345678")
    for file in tmp_path.iterdir():
        assert stat.S_IMODE(os.stat(file).st_mode) & 0o077 == 0, file.name
    journal.close()
    (tmp_path / CHECKPOINT).chmod(0o644)  # copied back from somewhere else
    journal = RoundJournal(tmp_path / CHECKPOINT, {"job": "x"}, resume=True)
    journal.hear(0)
    for file in tmp_path.iterdir():
        assert stat.S_IMODE(os.stat(file).st_mode) & 0o077 == 0, file.name
    journal.close()


def test_what_opens_a_round_does_not_outlive_it(tmp_path):
    """A process that ends between the two finds both or neither."""
    journal = RoundJournal(tmp_path / CHECKPOINT, {"job": "x"}, resume=False)
    journal.begin(0, b"l" * 16, 8, None)
    journal.keep_opening({0: b"seed"})
    ended = sqlite3.connect(tmp_path / CHECKPOINT)
    ended.execute("CREATE TRIGGER ends BEFORE DELETE ON opening BEGIN SELECT RAISE(ABORT, 'ended here'); END")
    ended.close()
    with pytest.raises(sqlite3.IntegrityError):
        journal.keep_total(0, b"12345678")
    assert (journal.complete, journal.opening()) == (0, {0: b"seed"})
    journal.close()


def test_the_charge_of_a_run_that_sent_nothing_does_not_pay_for_another(tmp_path):
    journal = RoundJournal(tmp_path / CHECKPOINT, {"data": "one"}, resume=False)
    journal.note_charge()
    journal.close()
    journal = RoundJournal(tmp_path / CHECKPOINT, {"data": "one"}, resume=False)
    assert journal.charged
    journal.close()
    journal = RoundJournal(tmp_path / CHECKPOINT, {"data": "two"}, resume=False)
    assert not journal.charged
    journal.close()


@pytest.mark.slow
def test_an_interrupted_private_run_is_charged_once(tmp_path):
    """The ledger is charged before the first number is sent, and a resumed run sends the same numbers for the same charge."""
    from tacit import PrivateMoments
    from tacit.privacy import Ledger

    scene, models, ledgers = Threads(tmp_path), {}, []
    for place in range(3):
        ledgers.append(Ledger(tmp_path / f"ledger-{place}.db"))
        ledgers[-1].open_account("mine", 1.0, 1e-6)
        settings = {"ledger": ledgers[-1], "dataset": "mine"}
        models[place] = PrivateMoments(epsilon=1.0, delta=1e-6, row_norm=3.0, **settings)
    with cut(2, 0):
        broken = scene.all(models)
    assert isinstance(broken[2].error, CutError)
    spent = [ledger.remaining("mine").spent for ledger in ledgers]
    assert all(0.99 < one <= 1.0 for one in spent)  # nothing more could be charged
    boxes = scene.all(models, resume=True)
    for box in boxes:
        np.testing.assert_array_equal(box.part.estimator.mean_, boxes[0].part.estimator.mean_)
        assert box.part.estimator.guarantee_.holds
    assert [ledger.remaining("mine").spent for ledger in ledgers] == spent
    assert [len(ledger.history("mine")) for ledger in ledgers] == [1, 1, 1]


@pytest.mark.parametrize(
    ("mine", "theirs", "whose"),
    [
        ({"begun": 6, "heard": 6}, {"begun": 5, "heard": 5}, "checkpoint of b was replaced"),
        ({"begun": 5, "heard": 5}, {"begun": 6, "heard": 6}, "checkpoint here was replaced"),
    ],
)
def test_both_ends_find_an_older_checkpoint_by_themselves(tmp_path, mine, theirs, whose):
    """One end is enough: the other may be gone, or not say so."""
    journal = RoundJournal(tmp_path / CHECKPOINT, {"job": "x"}, resume=False)
    both = {"run": "00" * 32, "complete": 5, "history": handshake._history(journal, 0).hex()}
    same = {**both, "begun": 6, "heard": 5}
    handshake._compare_runs(same, {**same, "complete": 0}, "b", journal, fresh=False)
    with pytest.raises(ProtocolError, match=whose):
        handshake._compare_runs({**both, **mine}, {**both, **theirs}, "b", journal, fresh=False)
    journal.close()


@pytest.mark.slow
def test_the_folder_of_another_party_is_refused(tmp_path):
    scene = Threads(tmp_path)
    with cut(0, 4):
        scene.all()
    before = rows_of(tmp_path / "party-2")
    swapped = scene.start(1, folder=tmp_path / "party-2", resume=True, connect_seconds=1.0).wait()
    assert isinstance(swapped.error, InvalidInputError)
    assert "the party of the run that is resumed" in str(swapped.error)
    assert rows_of(tmp_path / "party-2") == before
