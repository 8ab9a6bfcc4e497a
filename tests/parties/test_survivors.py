"""Jobs that survive a party that leaves for good: the others go on without it, and learn nothing about what it had sent."""

from __future__ import annotations

import time
from contextlib import contextmanager

import numpy as np
import pytest
from links import in_threads
from scipy.stats import chi2
from test_endurance import BreakingMixer
from threads import DATA, Mixer, Threads

from tacit.channel import surviving
from tacit.channel.fixedpoint import Grid, Ring
from tacit.channel.surviving import KNOWN, MASKED_TOTAL, MAY_ARRIVE, UNCONFIRMED, UNKNOWN, hidden, opened
from tacit.errors import InvalidInputError, PartyError, ProtocolError, words
from tacit.parties.handshake import _may_have_forgotten
from tacit.parties.journal import RoundJournal
from tacit.parties.models import check_job

PARTS = np.array_split(DATA, 4)


def integers(present, rounds, v=None):
    """The exact run, with integers: `present(number)` are the parties of a round."""
    v = np.ones(DATA.shape[1]) if v is None else v
    for number in range(rounds):
        total = np.zeros(DATA.shape[1], dtype=np.int64)
        for place in present(number):
            term = np.tanh(PARTS[place] @ v) @ PARTS[place]
            total += np.rint(np.ldexp(term / max(np.linalg.norm(term), 1.0), 40)).astype(np.int64)
        v = np.ldexp(total.astype(float), -40)
    return v


def scene_of(tmp_path, **settings):
    return Threads(tmp_path, 4, settings={"survive": 1, "timeout": 5.0, **settings})


@contextmanager
def leaving(party, number, step):
    """A party leaves in a round before it has sent its message of a step to anybody (step 4: after all of them)."""
    add = surviving.SurvivableSum.add

    def watched(self, *args, **settings):
        link, steps = self.link, [0]
        swap = link.swap

        def counted(*given, **more):
            steps[0] += 1
            if link.index == party and link.traffic.rounds == number + 1 and steps[0] == step:
                time.sleep(0.1)
                raise BreakingMixer.BreakError
            return swap(*given, **more)

        link.swap = counted
        try:
            result = add(self, *args, **settings)
        finally:
            del link.swap
        if link.index == party and link.traffic.rounds == number + 1 and step == 4:
            raise BreakingMixer.BreakError
        return result

    surviving.SurvivableSum.add = watched
    try:
        yield
    finally:
        surviving.SurvivableSum.add = add


def survivors(scene, party, models=None, **given):
    """Run a job that one party leaves; the others wait two seconds for it. Return their boxes."""
    boxes = [
        scene.start(
            place, (models or {}).get(place), retry=0.0 if place == party else 2.5, connect_seconds=5.0, **given
        )
        for place in range(4)
    ]
    return [box.wait() for place, box in enumerate(boxes) if place != party]


@pytest.mark.slow
def test_without_dropouts_the_sums_are_those_of_all(tmp_path):
    for box in scene_of(tmp_path).all():
        np.testing.assert_array_equal(box.result, integers(lambda number: range(4), Mixer.rounds))
        assert box.part.left == {}


@pytest.mark.slow
@pytest.mark.parametrize(("step", "complete"), [(1, False), (2, False), (3, False), (4, True)])
def test_the_others_go_on_without_a_party_that_leaves(tmp_path, step, complete):
    """Before its seed is out the round is made again without it; afterwards it is complete with its numbers."""
    scene = scene_of(tmp_path)
    with leaving(2, 6, step):
        boxes = survivors(scene, 2)
    first = 7 if complete else 6
    expected = integers(lambda number: range(4) if number < first else (0, 1, 3), Mixer.rounds)
    for box in boxes:
        np.testing.assert_array_equal(box.result, expected)
        assert box.part.left == {"party-2": first + 1}
        assert f"from round {first + 1} on the records of party-2, which left, are missing" in str(
            box.part.estimator.guarantee_
        )


@pytest.mark.slow
def test_a_job_that_survives_needs_no_retry_for_it(tmp_path):
    scene = scene_of(tmp_path)
    with leaving(2, 6, 2):
        boxes = [scene.start(place, connect_seconds=4.0) for place in range(4)]
        for place in (0, 1, 3):
            assert boxes[place].wait().error is None, boxes[place].error
            assert boxes[place].part.left == {"party-2": 7}


@contextmanager
def sending_its_seed(party, number, lost):
    """A party sends its seed of a round and leaves; the party `lost` loses its connections before it sends its own."""
    add = surviving.SurvivableSum.add

    def watched(self, *args, **settings):
        link, steps = self.link, [0]
        swap, wait = link.swap, link._wait

        def leave(*given):
            time.sleep(0.4)
            raise BreakingMixer.BreakError

        def counted(*given, **more):
            steps[0] += 1
            if link.traffic.rounds == number + 1 and steps[0] == 3:
                if link.index == lost:
                    time.sleep(0.2)
                    raise PartyError("a connection", words("none"), "Try again.", (0,))
                link._wait = leave if link.index == party else wait
            return swap(*given, **more)

        link.swap = counted
        try:
            return add(self, *args, **settings)
        finally:
            link.swap, link._wait = swap, wait

    surviving.SurvivableSum.add = watched
    try:
        yield
    finally:
        surviving.SurvivableSum.add = add


@pytest.mark.slow
def test_a_seed_that_has_arrived_opens_the_round_although_another_is_waited_for(tmp_path):
    """Party 0 waits for the seed of party 1 when party 2 leaves, whose seed it has: without it, two sums would be known."""
    scene = scene_of(tmp_path)
    with sending_its_seed(2, 6, lost=1):
        boxes = survivors(scene, 2)
    expected = integers(lambda number: range(4) if number < 7 else (0, 1, 3), Mixer.rounds)
    for box in boxes:
        np.testing.assert_array_equal(box.result, expected)
        assert box.part.left == {"party-2": 8}


@pytest.mark.slow
def test_a_party_killed_while_seeds_arrived_keeps_the_round_until_all_are_back(tmp_path, monkeypatch):
    """It may have had the seed of the one that left: the round is not made again without that one."""
    scene, keep = scene_of(tmp_path), RoundJournal.keep_opening

    def killed(self, contents):
        if contents.get(MAY_ARRIVE) != KNOWN or self._value("party") != b"party-0":  # the rest is lost with the process
            keep(self, contents)

    monkeypatch.setattr(RoundJournal, "keep_opening", killed)
    with leaving(2, 6, 2):
        boxes = survivors(scene, 2)
    for box in boxes:
        assert isinstance(box.error, ProtocolError)
        assert "party-0 was killed while the sum was opened" in str(box.error)
        assert "Ask party-2 to come back" in str(box.error)
    for box in scene.all(resume=True):
        np.testing.assert_array_equal(box.result, integers(lambda number: range(4), Mixer.rounds))
        assert box.part.left == {}


def test_a_seed_may_be_forgotten_only_where_all_had_confirmed():
    assert _may_have_forgotten({0: UNKNOWN + b"\0", 1: KNOWN, 3: KNOWN}) == [0]
    assert _may_have_forgotten({0: UNKNOWN + b"\0", 1: UNCONFIRMED, 3: KNOWN}) == []
    assert _may_have_forgotten({0: KNOWN + b"\0\1", 1: KNOWN, 3: KNOWN}) == []


@pytest.mark.slow
def test_a_party_that_was_left_out_is_told_so_and_cannot_come_back(tmp_path):
    scene = scene_of(tmp_path)
    with leaving(2, 3, 2):
        waiting = [
            scene.start(place, SlowEnd(), retry=0.0 if place == 2 else 2.5, connect_seconds=5.0) for place in range(4)
        ]
        assert isinstance(waiting[2].wait().error, BreakingMixer.BreakError)
    time.sleep(5.5)  # the others have gone on, and are in the slow round
    late = scene.start(2, resume=True, connect_seconds=5.0).wait()
    assert isinstance(late.error, PartyError | ProtocolError)
    assert "goes on without this party" in str(late.error)
    for place in (0, 1, 3):
        assert waiting[place].wait().part.left == {"party-2": 4}


class SlowEnd(Mixer):
    """Takes its time in the last round but one."""

    def _program(self, X):
        program, answer = super()._program(X), None
        for place in range(self.rounds):
            if place == self.rounds - 2:
                time.sleep(5.0)
            answer = yield program.send(answer)
        try:
            program.send(answer)
        except StopIteration as stop:
            return stop.value


@pytest.mark.slow
def test_two_that_leave_are_one_too_many(tmp_path):
    scene = scene_of(tmp_path)
    boxes = [
        scene.start(
            place, BreakingMixer(5) if place > 1 else None, retry=0.0 if place > 1 else 1.0, connect_seconds=3.0
        )
        for place in range(4)
    ]
    for place in (0, 1):
        assert isinstance(boxes[place].wait().error, PartyError)


@pytest.mark.slow
def test_the_guarantee_counts_the_noise_that_is_there(tmp_path):
    """Noise is sized for one colluder and one that leaves; without the latter, two of three may pool and it still holds."""
    scene = scene_of(tmp_path)
    models = {place: Mixer(noise=True) for place in range(4)}
    with leaving(1, 4, 2):
        boxes = survivors(scene, 1, models)
    for box in boxes:
        np.testing.assert_array_equal(box.result, boxes[0].result)
        guarantee = box.part.estimator.guarantee_
        assert guarantee.holds
        assert guarantee.epsilon <= 5.0
        assert "noise is counted as if 1 of the 3 parties pooled" in guarantee.trust
    whole = scene_of(tmp_path / "whole").all(models)[0].part.estimator.guarantee_
    assert "noise is counted as if 2 of the 4 parties pooled" in whole.trust
    assert whole.epsilon == pytest.approx(guarantee.epsilon)


@pytest.mark.slow
def test_the_numbers_that_a_survivor_sends_again_are_the_same(tmp_path):
    """Fresh noise on the same statistic would be a second release."""
    sent, hide = {}, surviving.Masks.hide

    def look(self, elements, ring, number):
        if len(self._streams) > 1:
            sent.setdefault(self.index, []).append(elements.copy())
        return hide(self, elements, ring, number)

    surviving.Masks.hide = look
    try:
        with leaving(1, 4, 3):
            survivors(scene_of(tmp_path), 1, {place: Mixer(noise=True) for place in range(4)})
    finally:
        surviving.Masks.hide = hide
    for place in (0, 2, 3):
        assert len(sent[place]) == Mixer.rounds + 1
        np.testing.assert_array_equal(sent[place][4], sent[place][5])


def test_what_is_left_of_a_discarded_round_is_uniform():
    """All that three colluding survivors of four hold, with their own numbers and masks taken off: chi-square at level 1e-6.

    Party 2 left before it sent its seed. Combined with the round made again, the masked total must not give its numbers.
    """
    ring, grid = Ring(1), Grid(-40)
    numbers = [ring.encode(np.full(40_000, float(place + 1)), grid, parties=4) for place in range(4)]

    def work(together):
        from tacit.channel.masked import Masks

        kept = {}

        class Memory:
            def keep_opening(self, contents):
                kept.update(contents)

        link = together.link
        link.peers = [place for place in range(4) if place != link.index]
        masks = Masks(link.index, together.keys)
        sums = surviving.SurvivableSum(link, masks, Memory())
        sums.add(numbers[link.index][:, :5], ring, "an earlier round")
        earlier = kept[link.index]
        total = sums.add(numbers[link.index], ring, "x")
        return total, kept, earlier

    results = in_threads(4, work)
    for total, _, _ in results:
        np.testing.assert_array_equal(ring.decode(total, grid), np.full(40_000, 10.0))
    drawn = {seed for place in range(4) for seed in (results[place][1][place], results[place][2])}
    assert len(drawn) == 8, "each party draws a seed for each round"
    content = results[0][1][MASKED_TOTAL]
    assert content[0] == 1
    masked = np.frombuffer(content[1:], "<u8").reshape(1, -1).astype(np.uint64)
    seeds = {place: results[place][1][place] for place in range(4)}
    np.testing.assert_array_equal(opened(masked, ring, seeds), results[0][0])
    del seeds[2]
    again = ring.plus(ring.plus(numbers[0], numbers[1]), numbers[3])  # what the round made again tells
    rest = ring.minus(opened(masked, ring, seeds), again)
    counts = np.bincount(np.frombuffer(rest.tobytes(), np.uint8), minlength=256)
    mean = counts.sum() / 256
    assert chi2.sf(((counts - mean) ** 2 / mean).sum(), 255) > 1e-6
    np.testing.assert_array_equal(opened(hidden(numbers[0], ring, b"s" * 32), ring, {0: b"s" * 32}), numbers[0])


@pytest.mark.parametrize(("survive", "colluding"), [(2, 0), (1, 3), (-1, 0)])
def test_jobs_that_could_fall_apart_are_refused(tmp_path, survive, colluding):
    with pytest.raises(InvalidInputError, match="survive"):
        scene_of(tmp_path, survive=survive, colluding=colluding)


def test_normalised_sums_do_not_survive(tmp_path):
    from dataclasses import replace

    job = replace(scene_of(tmp_path).job, model="svd", settings={"n_components": 2})
    with pytest.raises(InvalidInputError, match="survive = 0"):
        check_job(job)
    check_job(replace(job, settings={"n_components": 2, "hide_singular_values": False}))
