"""The normalised sum: right directions, hidden norms, and parties that die, stall or differ."""

import math
import os
import subprocess
import sys
import threading
import time
from fractions import Fraction

import numpy as np
import pytest
from local_wires import run_parties
from scipy import stats

from tacit.channel import normalised
from tacit.channel.normalised import NormalisedSummer
from tacit.channel.normalised_link import FieldBytes, PartyError
from tacit.channel.normalised_runtime import SECURITY, MpycRuntime
from tacit.channel.normalised_shares import FRACTION, Shares
from tacit.errors import InvalidInputError, ProtocolError, RangeError
from tacit.privacy.entropy import insecure_generator

TIMEOUT = 60.0


def summed(wire, cases, settings):
    """One party: its term of every case in turn."""
    with NormalisedSummer(wire, timeout=TIMEOUT, **settings) as directions:
        return [directions(case[wire.index]) for case in cases]


def directions_of(cases, parties, **settings):
    """Return the results of party 0, after checking that all parties have the same, bit for bit."""
    results = run_parties(summed, parties, cases, settings)
    for result in results:
        if isinstance(result, Exception):
            raise result
        assert all(np.array_equal(mine, theirs) for mine, theirs in zip(result, results[0], strict=True))
    return results[0]


def expected(case):
    """Normalise the exact total, in Python's integers."""
    total = sum(np.asarray(term).astype(object) for term in case)
    squared = np.atleast_1d((total * total).sum(axis=0))
    norms = np.array([math.isqrt(int(value) << 200) for value in squared], dtype=object)
    exact = [
        [(int(v) << 100) / int(n) if n else 0.0 for v, n in zip(np.atleast_1d(row), norms, strict=True)]
        for row in total
    ]
    return np.array(exact).reshape(total.shape)


def terms(parties, shape, scale, seed):
    rng = np.random.default_rng(seed)
    return [rng.integers(-scale, scale, shape) for _ in range(parties)]


def many_cases(parties):
    one_huge = terms(parties, (40, 2), 2**20, 1)
    one_huge[1] = terms(1, (40, 2), 2**60, 2)[0]
    cancelling = terms(parties, (30, 2), 2**59, 3)
    cancelling[0] = -cancelling[1] + terms(1, (30, 2), 2**45, 12)[0]
    cancelling[2:] = [np.zeros((30, 2), np.int64)] * (parties - 2)
    return {
        "typical": terms(parties, (200, 1), 2**50, 4),
        "twenty columns": terms(parties, (50, 20), 2**52, 5),
        "a vector": terms(parties, (64,), 2**50, 6),
        "one row": [np.array([[-(2**50), 2**50]])] * parties,
        "as large as can be": [np.full((100, 1), 2**61 - 1)] * parties,
        "just long enough": [np.array([[2**38], [0], [0]]), *[np.zeros((3, 1), np.int64)] * (parties - 1)],
        "one huge party": one_huge,
        "terms that nearly cancel": cancelling,
    }


@pytest.mark.parametrize("parties", [3, 4, 5])
def test_directions_equal_those_of_the_exact_total(parties):
    cases = many_cases(parties)
    results = directions_of(list(cases.values()), parties)
    for name, result in zip(cases, results, strict=True):
        error = (result - expected(cases[name])) * 2.0**37
        assert np.abs(error).max() < 7.5, name  # standard deviations of the noise: exceeded once in 10^10 runs
        assert result.shape == np.shape(cases[name][0])


def test_the_noise_is_as_stated():
    case = terms(3, (3000, 1), 2**55, 7)
    error = (directions_of([case], 3)[0] - expected(case)) * 2.0**37
    assert 0.9 < error.std() < 1.1  # 3,000 draws: the estimate's own standard deviation is 0.013
    assert abs(error.mean()) < 0.15


def test_a_zero_column_stays_zero_and_tells_nothing_of_its_terms():
    case = terms(3, (20, 3), 2**50, 8)
    case[0][:, 1] = -case[1][:, 1] - case[2][:, 1]
    (result,) = directions_of([case], 3)
    assert np.array_equal(result[:, 1], np.zeros(20))
    assert np.allclose(np.linalg.norm(result[:, [0, 2]], axis=0), 1, atol=1e-9)


def test_short_totals_are_refused_or_zero():
    short = [np.array([[2**37, 2**50], [2**36, 0]]), *[np.zeros((2, 2), np.int64)] * 2]
    with pytest.raises(RangeError, match=r"shorter ones: 0\."):
        directions_of([short], 3)
    (result,) = directions_of([short], 3, short="zero")
    assert np.array_equal(result[:, 0], [0, 0])
    assert np.allclose(result[:, 1], [1, 0], atol=1e-9)


def refused_then_used(wire, short, good):
    with NormalisedSummer(wire, timeout=TIMEOUT) as directions:
        with pytest.raises(RangeError):
            directions(short)
        return directions(good)


def test_a_refusal_does_not_end_the_job():
    for result in run_parties(refused_then_used, 3, np.array([1, 2]), np.array([2**45, 0])):
        assert np.allclose(result, [1, 0], atol=1e-9)


def test_wide_integers_hide_shorter_totals():
    rng = np.random.default_rng(9)
    case = [np.array([[int(v * 2**80)] for v in rng.normal(size=30) * 1e-3], dtype=object) for _ in range(3)]
    (result,) = directions_of([case], 3, bits=100)
    assert np.abs(result - expected(case)).max() < 7.5 * 2.0**-37


# ---------------------------------------------------------------------------------- the arithmetic on shares


def arithmetic(wire, roots, numbers):
    import asyncio

    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    runtime = MpycRuntime(loop, wire, 200)
    shares = Shares(runtime)
    for peer, link in runtime.links.items():
        wire.subscribe(peer, lambda data, link=link: loop.call_soon_threadsafe(link.feed, data))

    async def shared(values):
        mine = values if wire.index == 0 else [0] * len(values)
        return await shares.input_sum(np.array(mine, dtype=object))

    async def work():
        await runtime.agree("arithmetic")
        inverse = await shares.open(await shares.inverse_root(await shared(roots), 140))
        squares = await shared(numbers)
        digits = await shares.bits(squares, 12, shares.random_bits(12 * len(numbers)))
        at_least = await shares.open(await shares.at_least(digits))
        (shifted,) = await shares.shift([squares * 1000], [5], 24)
        shifted = await shares.open(shifted + 100) - 100  # it may come out below zero
        return inverse, await shares.open(digits), at_least, shifted, runtime.terms

    try:
        return loop.run_until_complete(work())
    finally:
        runtime.close()


@pytest.mark.parametrize("parties", [3, 5])
def test_inverse_roots_digits_and_shifts(parties):
    rng = np.random.default_rng(10)
    low = 1 << 138
    roots = [low, low + 1, 4 * low - 1, 2 * low, *(low + int(u * 3 * low) for u in rng.random(60))]
    numbers = [0, 1, 3, 4, 15, 16, 4095, *rng.integers(0, 4096, 20).tolist()]
    inverse, digits, at_least, shifted, added = run_parties(arithmetic, parties, roots, numbers)[0]
    for value, x in zip(inverse, roots, strict=True):
        # (value / 2^100)^2 x = 1 to twice the relative error
        error = Fraction(int(value) ** 2 * x, 1 << (2 * FRACTION + 140)) - 1
        assert abs(error) < Fraction(1, 1 << 92)
    for row, above, value, number in zip(digits, at_least, shifted, numbers, strict=True):
        assert row.tolist() == [number >> i & 1 for i in range(12)]
        assert above.tolist() == [int(number >= 4**i) for i in range(6)]
        assert abs(value - number * 1000 / 32) <= added / 2 + 1


# ---------------------------------------------------------------------------------- what can be seen


def observed(wire, case, flaw):
    """Run one sum with noise from a fixed seed, and return all that was opened; `flaw` plants a leak."""
    normalised.secure_generator = lambda: insecure_generator(100 + wire.index)
    seen = {"masked": [], "result": []}
    with NormalisedSummer(wire, timeout=TIMEOUT) as directions:
        shares = directions._shares
        plain_open, plain_product = shares.open, shares.open_product

        async def recording_open(shared):
            opened = await plain_open(shared)
            seen["masked"].extend(int(value) for value in opened)
            return opened

        async def recording_product(left, right, noise):
            opened = await plain_product(left, right, noise)
            seen["result"] = [int(value) for value in opened.ravel()]
            return opened

        shares.open, shares.open_product = recording_open, recording_product
        if flaw == "no noise":
            directions._noise = lambda count, scale: np.zeros(count, dtype=object)
        if flaw == "no floor":
            directions.__class__.floor = property(lambda self: 20)
        if flaw == "no mask":
            shares.random = lambda bits, count: np.zeros(count, dtype=object)
        directions(case[wire.index])
        prime, rows = directions._worker.runtime.prime, len(case[0])
        scale = FRACTION + directions._magnitude + ((rows - 1).bit_length() + 1) // 2
    signed = [value - prime if value > prime // 2 else value for value in seen["result"]]
    return signed, seen["masked"], scale


def watch(case, flaw=None):
    return run_parties(observed, 3, case, flaw)[0]


def grid_visible(signed, scale, norm):
    """Return the p-value of Rayleigh's test that the numbers, in grid steps if the norm is this, miss whole ones."""
    phases = np.array([float(Fraction(value) * Fraction(norm) / (1 << scale) % 1) for value in signed])
    length = abs(np.exp(2j * np.pi * phases).mean())
    return float(np.exp(-len(phases) * length**2))


def norm_by_divisor(signed, scale):
    return (1 << scale) / math.gcd(*signed)


def grid_case(norm, rows=2000):
    """Totals near a given norm, in odd numbers of grid steps."""
    rng = np.random.default_rng(11)
    total = np.rint(rng.normal(size=rows) * norm / math.sqrt(rows)).astype(np.int64) | 1
    first = rng.integers(-(2**50), 2**50, rows)
    second = rng.integers(-(2**50), 2**50, rows)
    return [first, second, total - first - second], math.sqrt(sum(int(v) ** 2 for v in total.tolist()))


@pytest.mark.parametrize("factor", [1, 2])
def test_the_opened_numbers_do_not_tell_the_norm(factor):
    """Just above the floor, where the grid is coarsest; the same attacks succeed when there is no noise."""
    case, norm = grid_case(factor * 2.0**38.1)
    signed, _, scale = watch(case)
    assert math.gcd(*signed) < 100
    assert grid_visible(signed, scale, norm) > 1e-3
    signed, _, scale = watch(case, "no noise")
    assert norm_by_divisor(signed, scale) == pytest.approx(norm, rel=1e-9)
    assert grid_visible(signed, scale, norm) < 1e-12


def test_below_the_floor_the_grid_would_show():
    """So the floor is needed, and the test above has the power to see it."""
    case, norm = grid_case(2.0**35)
    signed, _, scale = watch(case, "no floor")
    assert grid_visible(signed, scale, norm) < 1e-12


@pytest.mark.parametrize("norm", [2.0**39, 2.0**55])
def test_all_that_is_opened_on_the_way_is_masked(norm):
    """A mask is 64 bits longer than what it hides, 110 bits at least; 40 bits less come up once in 10^10 runs."""
    case, _ = grid_case(norm, rows=50)
    _, masked, _ = watch(case)
    assert len(masked) == 11
    assert min(masked).bit_length() > 110 + SECURITY - 40
    _, unmasked, _ = watch(case, "no mask")
    assert min(unmasked).bit_length() < 110 + SECURITY - 40


def sent_words(wire, case):
    words = []
    plain = FieldBytes.dumps
    FieldBytes.dumps = lambda self, elements: (words.extend(elements.tolist()), plain(self, elements))[1]
    with NormalisedSummer(wire, timeout=TIMEOUT) as directions:
        directions(case[wire.index])
        return words, directions._worker.runtime.prime


def test_what_a_party_sends_does_not_repeat_what_it_holds():
    """No word sent is its term, the total, or the squared norm, and they fill the field evenly."""
    case, _ = grid_case(2.0**50, rows=400)
    total = sum(case)
    for index, (words, prime) in enumerate(run_parties(sent_words, 3, case)):
        secret = {int(v) % prime for v in (*case[index], *total)} | {sum(int(v) ** 2 for v in total)}
        assert not secret & set(words)
        sixteenths = np.bincount([word * 16 // prime for word in words], minlength=16)
        assert stats.chisquare(sixteenths).pvalue > 1e-9


# ---------------------------------------------------------------------------------- parties that fail


class Dying:
    """A wire whose party dies, or stops to send, after so many messages."""

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
        wire, timeout = Dying(wire, after, end), 5.0
    start = time.monotonic()
    try:
        with NormalisedSummer(wire, timeout=timeout) as directions:
            for _ in range(3):
                directions(np.arange(2**45, 2**45 + 20))
    except PartyError as error:
        return error.parties, str(error), time.monotonic() - start
    return None


@pytest.mark.slow
@pytest.mark.parametrize(("after", "end"), [(1, "die"), (9, "die"), (60, "die"), (33, "stall")])
def test_a_party_that_fails_is_named_within_the_timeout(after, end):
    results = run_parties(with_a_failing_party, 3, after, end, 5.0)
    for parties, message, seconds in results[:2]:
        assert parties == (2,)
        assert "party 2 within 5 seconds" in message
        assert seconds < 12  # two timeouts at most, the first exchange and one call, and some time to start


def test_nonsense_from_a_party_is_noticed_at_once():
    for parties, message, seconds in run_parties(with_a_failing_party, 3, 40, "garble", 50.0)[:2]:
        assert parties == (2,)
        assert "from party 2" in message
        assert seconds < 25


def with_other_settings(wire, settings, shapes):
    try:
        with NormalisedSummer(wire, timeout=5, **settings[wire.index]) as directions:
            directions(np.full(shapes[wire.index], 2**50))
    except PartyError as error:
        return error.parties
    return None


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


def test_closing_stops_a_call_that_waits():
    assert run_parties(closed_while_waiting, 3)[0] < 20


def one_after_the_other(wire):
    import mpyc.asyncoro

    from tacit.channel.normalised_runtime import import_mpyc

    module = import_mpyc()
    before = mpyc.asyncoro.runtime, module.pickle
    with NormalisedSummer(wire, timeout=TIMEOUT) as directions:
        assert module.pickle is not before[1]
        with pytest.raises(ProtocolError, match="one normalised sum a process"):
            NormalisedSummer(wire, timeout=TIMEOUT)
        directions(np.full(3, 2**50))
    assert (mpyc.asyncoro.runtime, module.pickle) == before
    return "done"


def test_one_a_process_and_globals_are_given_back():
    assert run_parties(one_after_the_other, 3) == ["done"] * 3


# ---------------------------------------------------------------------------------- bad input


class Nowhere:
    """A wire on which anything sent is a mistake."""

    def __init__(self, parties):
        self.index, self.parties = 0, parties


@pytest.mark.parametrize("parties", [1, 2, 12])
def test_too_few_or_too_many_parties(parties):
    with pytest.raises(InvalidInputError, match="3 to 11 parties"):
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


def test_importing_mpyc_leaves_the_host_alone():
    code = """
import logging, os, sys
sys.argv = ["host", "-M", "3", "-h", "-V", "--no-log", "file.csv"]
before = list(sys.argv), dict(os.environ)
from tacit.channel.normalised_runtime import import_mpyc
import_mpyc()
os.environ.pop("MPYC_MAXWORKERS")
assert (sys.argv, dict(os.environ)) == before, sys.argv
assert not logging.getLogger().handlers
import asyncio
assert type(asyncio.get_event_loop_policy()).__module__.startswith("asyncio")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
