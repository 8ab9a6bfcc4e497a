"""What can be seen of a normalised sum: no norm, no unmasked number, and the tests that would see one."""

import math
from fractions import Fraction

import numpy as np
import pytest
from local_wires import run_parties
from scipy import stats

from tacit.channel.directions.link import FieldBytes
from tacit.channel.directions.runtime import SECURITY
from tacit.channel.directions.shares import FRACTION
from tacit.channel.directions.summer import NormalisedSummer
from tacit.privacy.noise import entropy
from tacit.privacy.noise.entropy import insecure_generator

TIMEOUT = 120.0


def observed(wire, case, flaw):
    """Run one sum with noise from a fixed seed, and return all that was opened; `flaw` plants a leak."""
    entropy.secure_generator = lambda: insecure_generator(100 + wire.index)
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_below_the_floor_the_grid_would_show():
    """So the floor is needed, and the test above has the power to see it."""
    case, norm = grid_case(2.0**35)
    signed, _, scale = watch(case, "no floor")
    assert grid_visible(signed, scale, norm) < 1e-12


@pytest.mark.slow
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


@pytest.mark.slow
def test_what_a_party_sends_does_not_repeat_what_it_holds():
    """No word sent is its term, the total, or the squared norm, and they fill the field evenly."""
    case, _ = grid_case(2.0**50, rows=400)
    total = sum(case)
    for index, (words, prime) in enumerate(run_parties(sent_words, 3, case)):
        secret = {int(v) % prime for v in (*case[index], *total)} | {sum(int(v) ** 2 for v in total)}
        assert not secret & set(words)
        sixteenths = np.bincount([word * 16 // prime for word in words], minlength=16)
        assert stats.chisquare(sixteenths).pvalue > 1e-9
