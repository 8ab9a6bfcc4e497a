"""A normalised sum whose parties die, stall, differ or send nonsense, and bad input."""

import math
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from local_wires import run_parties

from tacit.channel.directions.summer import NormalisedSummer
from tacit.errors import InvalidInputError, PartyError, ProtocolError

TIMEOUT = 120.0


class Dying:
    """A wire whose party stops, or stops sending, after a given number of messages."""

    def __init__(self, wire, after, end):
        self.wire, self.left, self.end = wire, after, end
        self.index, self.parties, self.subscribe = wire.index, wire.parties, wire.subscribe

    def send(self, peer, data):
        self.left -= 1
        if self.left >= 0:
            self.wire.send(peer, data)
        elif self.end == "die":
            os._exit(1)
        elif self.end == "garble":
            self.wire.send(peer, b"\xff" * 40)


def with_a_failing_party(wire, after, end, timeout):
    if wire.index == 2:
        wire, timeout = Dying(wire, after, end), 6.0
    start = time.monotonic()
    try:
        with NormalisedSummer(wire, timeout=timeout) as directions:
            for _ in range(3):
                directions(np.arange(2**45, 2**45 + 20))
    except PartyError as error:
        return error.parties, str(error), time.monotonic() - start
    return None


@pytest.mark.slow
@pytest.mark.parametrize("after", [1, 9, 60])
def test_a_party_that_stalls_is_named_within_the_timeout(after):
    results = run_parties(with_a_failing_party, 3, after, "stall", 6.0)
    for parties, message, seconds in results[:2]:
        assert parties == (2,)
        assert "party 2 within 6 seconds" in message
        assert seconds < 60  # a timeout or two, and the time to start on a busy machine


@pytest.mark.slow
@pytest.mark.parametrize("after", [1, 3, 9, 33, 60, 100])
def test_a_party_that_dies_is_named_at_once(after):
    for parties, message, seconds in run_parties(with_a_failing_party, 3, after, "die", 120.0)[:2]:
        assert parties == (2,)
        assert "party 2 to stay" in message
        assert seconds < 100


def one_dies_and_one_stops_for_it(wire):
    """Party 2 dies, party 1 has seen it and stopped, and party 0 waits for party 1."""
    start = time.monotonic()
    directions = NormalisedSummer(wire, timeout=24.0)
    if wire.index == 2:
        time.sleep(2)  # what it has sent is on its way
        os._exit(1)
    if wire.index == 0:
        with pytest.raises(PartyError) as caught:
            directions(np.arange(2**45, 2**45 + 20))
        return caught.value.parties, time.monotonic() - start
    directions.close()
    return None


@pytest.mark.slow
def test_the_first_to_go_is_named_also_where_another_stopped_for_it():
    parties, seconds = run_parties(one_dies_and_one_stops_for_it, 3)[0]
    assert parties == (2,)
    assert seconds < 20  # before the timeout


@pytest.mark.slow
def test_nonsense_from_a_party_is_noticed_at_once():
    for parties, message, seconds in run_parties(with_a_failing_party, 3, 40, "garble", 300.0)[:2]:
        assert parties == (2,)
        assert "from party 2" in message
        assert seconds < 100


def with_other_settings(wire, settings, shapes):
    try:
        with NormalisedSummer(wire, timeout=TIMEOUT, **settings[wire.index]) as directions:
            directions(np.full(shapes[wire.index], 2**50))
    except PartyError as error:
        return error.parties
    return None


@pytest.mark.slow
def test_parties_must_agree_on_settings_and_shape():
    same = [{"resolution": 37}] * 2
    results = run_parties(with_other_settings, 3, [*same, {"resolution": 36}], [(4, 2)] * 3)
    assert results[:2] == [(2,), (2,)]
    results = run_parties(with_other_settings, 3, [*same, *same[:1]], [(4, 2), (4, 2), (5, 2)])
    assert results[:2] == [(2,), (2,)]


def closed_while_waiting(wire):
    directions = NormalisedSummer(wire, timeout=TIMEOUT)
    if wire.index:
        time.sleep(3)
        directions.close()
        return None
    threading.Timer(0.5, directions.close).start()
    start = time.monotonic()
    with pytest.raises(ProtocolError, match="closed"):
        directions(np.full(3, 2**50))
    with pytest.raises(ProtocolError, match="closed"):
        directions(np.full(3, 2**50))
    return time.monotonic() - start


@pytest.mark.slow
def test_closing_stops_a_call_that_waits():
    assert run_parties(closed_while_waiting, 3)[0] < TIMEOUT / 2


def one_after_the_other(wire):
    import mpyc.asyncoro

    from tacit.channel.directions.runtime import import_mpyc

    module = import_mpyc()
    before = mpyc.asyncoro.runtime, module.pickle
    with NormalisedSummer(wire, timeout=TIMEOUT) as directions:
        assert module.pickle is not before[1]
        with pytest.raises(ProtocolError, match="one normalised sum per process"):
            NormalisedSummer(wire, timeout=TIMEOUT)
        directions(np.full(3, 2**50))
    assert (mpyc.asyncoro.runtime, module.pickle) == before
    return "done"


@pytest.mark.slow
def test_one_a_process_and_globals_are_given_back():
    assert run_parties(one_after_the_other, 3) == ["done"] * 3


class Nowhere:
    """A wire on which anything sent is a mistake."""

    def __init__(self, parties):
        self.index, self.parties = 0, parties


@pytest.mark.parametrize("parties", [1, 12])
def test_too_few_or_too_many_parties(parties):
    with pytest.raises(InvalidInputError, match="2 to 11 parties"):
        NormalisedSummer(Nowhere(parties))


@pytest.mark.parametrize(
    "settings",
    [{"bits": 7}, {"bits": 300}, {"resolution": 60}, {"short": "tell"}, {"timeout": 0}, {"timeout": math.nan}],
)
def test_settings_that_cannot_be(settings):
    with pytest.raises(InvalidInputError):
        NormalisedSummer(Nowhere(3), **settings)


@pytest.mark.parametrize(
    "values",
    [
        np.ones((2, 2)),
        [[1.5, math.nan]],
        np.zeros((0, 2), np.int64),
        np.zeros((2, 2, 2), np.int64),
        7,
        np.array([1, "2"], dtype=object),
        np.array([2**61]),
        np.array([-(2**61)]),
        np.array([-(2**63)]),
    ],
    ids=str,
)
def test_terms_that_cannot_be_summed(values):
    directions = NormalisedSummer.__new__(NormalisedSummer)  # nothing is sent before the check
    directions.bits = 61
    with pytest.raises(InvalidInputError):
        directions(values)


@pytest.mark.slow
def test_importing_mpyc_leaves_the_host_alone():
    code = """
import logging, os, sys
sys.argv = ["host", "-M", "3", "-h", "-V", "--no-log", "file.csv"]
before = list(sys.argv), dict(os.environ)
from tacit.channel.directions.runtime import import_mpyc
import_mpyc()
os.environ.pop("MPYC_MAXWORKERS")
assert (sys.argv, dict(os.environ)) == before, sys.argv
assert not logging.getLogger().handlers
import asyncio
assert type(asyncio.get_event_loop_policy()).__module__.startswith("asyncio")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
