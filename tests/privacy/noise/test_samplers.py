"""The compiled sampler decides as exact arithmetic does, and asks it where it cannot be sure."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tacit.errors import TacitError
from tacit.privacy.noise import samplers
from tacit.privacy.noise.entropy import insecure_generator
from tacit.privacy.noise.samplers import Width, decide, gaussian_slabs, laplace_slabs, sample_gaussian, sample_laplace

SLABS = [gaussian_slabs(0), gaussian_slabs(5), laplace_slabs(0), laplace_slabs(2)]
BOTH = [
    (sample_gaussian, gaussian_slabs, 5, [0.5, 0.7, 31.9, 32.0, 1000.1, 2.0**30 + 1 / 3, 2.0**40]),
    (sample_laplace, laplace_slabs, 2, [2.0**-8, 0.3, 31.9, 32.0, 1000.1, 2.0**30 + 1 / 3, 2.0**40]),
]
CASES = [(sample, slabs, fine, width) for sample, slabs, fine, widths in BOTH for width in widths]


def source_of(given):
    """Return a source that gives these words, and then fails."""
    left = list(given)

    def give(count):
        taken, left[:] = left[:count], left[count:]
        assert taken, "more words than given were asked for"
        return np.array(taken, dtype=np.uint64)

    return give


def random_words(seed, count):
    return insecure_generator(seed).integers(0, 2**64 - 1, size=count, dtype=np.uint64, endpoint=True)


def exactly(slabs, width, given, count):
    """Draw by `decide` alone."""
    at = Width.of(width, slabs.log_fineness)
    stream, drawn = iter(given.tolist()), []
    while len(drawn) < count:
        value, used = decide(stream, slabs, at)
        assert used >= 3
        if value is not None:
            drawn.append(value)
    return drawn


@pytest.mark.parametrize(("sample", "slabs", "fine", "width"), CASES)
@pytest.mark.parametrize("unsure", [samplers.UNSURE, 0.2])
def test_compiled_and_exact_decisions_agree(sample, slabs, fine, width, unsure, monkeypatch):
    monkeypatch.setattr(samplers, "UNSURE", unsure)  # 0.2 sends many attempts to `decide`
    given = random_words(1, 60_000)
    drawn = sample(width, 300, lambda _: given)
    assert drawn.tolist() == exactly(slabs(fine if width >= 32 else 0), width, given, 300)


def exponential(x: Fraction, bits: int) -> int:
    """Return exp(-x) in units of 2**-bits, by the series of exp(x), whose terms all have one sign."""
    one = 1 << (bits + 600)
    total, term, n = one, one, 0
    while term:
        n += 1
        term = term * x.numerator // (x.denominator * n)
        total += term
    return (one << bits) // total


@pytest.mark.slow
@pytest.mark.parametrize("slabs", SLABS, ids=["gaussian", "gaussian, fine", "laplace", "laplace, fine"])
def test_the_tables_are_the_true_expansions(slabs):
    q, r = Fraction(slabs.q), Fraction(slabs.r)
    count = len(slabs.rows) + 60 * 2**slabs.log_fineness
    masses = [exponential(q * k * k + r * k, 420) for k in range(count)]
    total, sums = sum(masses), np.cumsum(np.array(masses, dtype=object))
    for row, part in zip(slabs.rows, sums, strict=False):
        assert row == (int(part) << 256) // total
    assert slabs.rows[-1] == 2**256 - 1
    assert len(slabs.rows) * 2**53 < 2**63
    for k, sure in enumerate(slabs.surely.tolist()):
        least = exponential(q * (2 * k + 1) + r, 200)
        assert sure <= (least >> 137) <= sure + 1


@pytest.mark.parametrize("slabs", SLABS)
def test_the_guide_leads_to_the_first_row_that_is_not_below(slabs):
    first = random_words(2, 2000)
    for word in first.tolist():
        row = int(slabs.guide[word >> 52])
        assert row == 0 or slabs.cumulative[row - 1] < (word >> 52) << 52
        assert slabs.cumulative[-1] >= word


def test_a_tie_with_an_expansion_is_broken_by_further_words():
    slabs, width = gaussian_slabs(5), 1000.0
    at = Width.of(width, 5)
    k = 7
    row = slabs.rows[k]
    tie, after = row >> 192, (row >> 128) % 2**64
    for follows, expected in ((after - 1, k), (after + 1, k + 1)):
        # the least integer of the slab, surely kept, positive; four words in all
        value, used = decide(iter([tie, 0, 0, follows]), slabs, at)
        assert used == 4
        assert value == -(-expected * at.m >> at.shift)
        drawn = sample_gaussian(width, 1, source_of([tie, 0, 0, follows]))
        assert drawn.tolist() == [value]


def test_a_tie_with_the_probability_is_broken_by_further_words():
    slabs, width = gaussian_slabs(5), 1000.0
    at = Width.of(width, 5)
    first, second = slabs.rows[40] >> 192, 2**63  # slab 41, an integer from its middle
    k = 41
    j = second * at.steps >> 64
    value = -(-k * at.m >> at.shift) + j
    limit = exponential(Fraction(value**2, 2 * 1000**2) - Fraction(k * k, 2 * 32**2), 256)
    number, after = limit >> 193, (limit >> 129) % 2**64
    words = [first + 1, second, number << 1]
    assert sample_gaussian(width, 1, source_of([*words, after - 1])).tolist() == [value]
    assert decide(iter([*words, after + 1]), slabs, at) == (None, 4)
    assert decide(iter([first + 1, second, (number - 1) << 1]), slabs, at) == (value, 3)
    assert decide(iter([first + 1, second, (number + 1) << 1]), slabs, at) == (None, 3)


@pytest.mark.slow
@pytest.mark.parametrize("sample", [sample_gaussian, sample_laplace])
def test_bits_that_decide_nothing_raise(sample):
    with pytest.raises(ArithmeticError, match="tie"):
        sample(1.0, 1000, lambda count: np.full(count, 2**64 - 1, dtype=np.uint64))
    with pytest.raises(TacitError, match="broken"):
        sample(1e6, 1, lambda count: np.zeros(count, dtype=np.uint64))
