"""The normalised sum: right directions, and the arithmetic on shares behind them."""

import math
from fractions import Fraction

import numpy as np
import pytest
from local_wires import run_parties

from tacit.channel.directions.runtime import MpycRuntime
from tacit.channel.directions.shares import FRACTION, Shares
from tacit.channel.directions.summer import NormalisedSummer
from tacit.errors import RangeError

TIMEOUT = 120.0


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


@pytest.mark.slow
@pytest.mark.parametrize("parties", [3, 4, 5])
def test_directions_equal_those_of_the_exact_total(parties):
    cases = many_cases(parties)
    results = directions_of(list(cases.values()), parties)
    for name, result in zip(cases, results, strict=True):
        error = (result - expected(cases[name])) * 2.0**37
        assert np.abs(error).max() < 7.5, name  # standard deviations of the noise: exceeded once in 10^10 runs
        assert result.shape == np.shape(cases[name][0])


@pytest.mark.slow
def test_the_noise_is_as_stated():
    case = terms(3, (3000, 1), 2**55, 7)
    error = (directions_of([case], 3)[0] - expected(case)) * 2.0**37
    assert 0.9 < error.std() < 1.1  # 3,000 draws: the estimate's own standard deviation is 0.013
    assert abs(error.mean()) < 0.15


@pytest.mark.slow
def test_a_zero_column_stays_zero_and_tells_nothing_of_its_terms():
    case = terms(3, (20, 3), 2**50, 8)
    case[0][:, 1] = -case[1][:, 1] - case[2][:, 1]
    (result,) = directions_of([case], 3)
    assert np.array_equal(result[:, 1], np.zeros(20))
    assert np.allclose(np.linalg.norm(result[:, [0, 2]], axis=0), 1, atol=1e-9)


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_refusal_does_not_end_the_job():
    for result in run_parties(refused_then_used, 3, np.array([1, 2]), np.array([2**45, 0])):
        assert np.allclose(result, [1, 0], atol=1e-9)


def test_wide_integers_hide_shorter_totals():
    rng = np.random.default_rng(9)
    case = [np.array([[int(v * 2**80)] for v in rng.normal(size=30) * 1e-3], dtype=object) for _ in range(3)]
    (result,) = directions_of([case], 3, bits=100)
    assert np.abs(result - expected(case)).max() < 7.5 * 2.0**-37


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
        digits = await shares.bits(squares, 12, shares.mpc.np_random_bits(runtime.field, 12 * len(numbers)))
        at_least = await shares.open(await shares.at_least(digits))
        (shifted,) = await shares.shift([squares * 1000], [5], 24)
        shifted = await shares.open(shifted + 100) - 100  # it may come out below zero
        return inverse, await shares.open(digits), at_least, shifted, runtime.terms

    try:
        return loop.run_until_complete(work())
    finally:
        runtime.close()


@pytest.mark.slow
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
