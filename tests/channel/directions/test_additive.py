"""The normalised sum against all parties but one: oblivious transfers, products of two parties, and what is seen of them."""

import asyncio
import math

import gmpy2
import numpy as np
import pytest
from local_wires import run_parties
from scipy import stats
from test_normalised import directions_of, expected, many_cases, terms
from test_normalised_privacy import grid_case, grid_visible, norm_by_divisor

from tacit.channel.directions import additive, transfers
from tacit.channel.directions.additive import AdditiveShares, PairwiseRuntime
from tacit.channel.directions.runtime import SECURITY
from tacit.channel.directions.shares import FRACTION
from tacit.channel.directions.summer import NormalisedSummer
from tacit.errors import InvalidInputError, PartyError, RangeError
from tacit.privacy.noise import entropy
from tacit.privacy.noise.entropy import insecure_generator

TIMEOUT = 120.0


# ------------------------------------------------------------------------------------------------------------ transfers


def test_the_group_is_that_of_the_standard():
    """RFC 3526 prints the prime; its first and last digits, that it is a safe prime, and that 2 generates the squares."""
    modulus = transfers.group_modulus()
    text = f"{modulus:X}"
    assert text.startswith("FFFFFFFFFFFFFFFFC90FDAA22168C234C4C6628B80DC1CD1")
    assert text.endswith("4B82D120A93AD2CAFFFFFFFFFFFFFFFF")
    assert len(text) == 768
    assert gmpy2.is_prime(modulus, 5)
    assert gmpy2.is_prime((modulus - 1) // 2, 5)
    assert pow(2, (modulus - 1) // 2, modulus) == 1


@pytest.fixture(scope="module")
def few():
    """Two parties' ends of the transfers by public keys in one direction: the pairs, the bits, and what was chosen."""
    bits = np.random.default_rng(0).integers(0, 2, transfers.SEEDS).tolist()
    offered = transfers.FewOffered()
    chosen = transfers.FewChosen(offered.message, bits)
    return offered.pairs(chosen.message), bits, chosen.seeds


@pytest.mark.slow
def test_the_chooser_gets_one_of_two_seeds_by_public_keys(few):
    pairs, bits, seeds = few
    for pair, bit, seed in zip(pairs, bits, seeds, strict=True):
        assert seed == pair[bit]
        assert seed != pair[1 - bit]
    assert len({seed for pair in pairs for seed in pair}) == 2 * transfers.SEEDS


def ends(few):
    pairs, bits, seeds = few
    return transfers.Transfers(pairs, bits, seeds), transfers.Transfers(pairs, bits, seeds)


@pytest.mark.parametrize("count", [1, 7, 8, 1000])
def test_the_chooser_gets_the_string_of_its_bit_and_the_other_differs(few, count):
    chooser, offerer = ends(few)
    for _ in range(2):  # the second time from the streams as they stand
        bits = np.random.default_rng(count).integers(0, 2, count).astype(np.uint8)
        message, chosen = chooser.choose(bits)
        offered = offerer.offer(message, count)
        for words in (1, 4, 5):
            got, both = chosen.expand(words), offered.expand(words)
            assert got.shape == (count, words)
            np.testing.assert_array_equal(got, np.where(bits[:, None] == 1, both[1], both[0]))
            assert not (both[0] == both[1]).any()
        assert not (chosen.expand(2, domain=1) == chosen.expand(2)).any()


def test_the_message_that_chooses_is_uniform_whatever_the_bits(few):
    for value in (0, 1):
        chooser, _ = ends(few)
        message, _ = chooser.choose(np.full(8000, value, dtype=np.uint8))
        counts = np.bincount(np.frombuffer(message, np.uint8), minlength=256)
        assert stats.chisquare(counts).pvalue > 1e-6


def test_rows_are_the_transposed_columns():
    columns = np.random.default_rng(1).integers(0, 256, (128, 9)).astype(np.uint8)
    rows = transfers._rows(columns)
    bits = np.unpackbits(columns, axis=1, bitorder="little")
    np.testing.assert_array_equal(np.unpackbits(rows.view(np.uint8), axis=1, bitorder="little"), bits.T)


# ------------------------------------------------------------------------------------------------- numbers of many words


@pytest.mark.parametrize("limbs", [1, 4, 5])
def test_words_add_subtract_and_weigh_as_integers_do(limbs):
    rng, whole = np.random.default_rng(limbs), 1 << 64 * limbs
    some = [0, 1, whole - 1, whole >> 1, *(int.from_bytes(rng.bytes(8 * limbs), "little") for _ in range(40))]
    left = np.array(some, dtype=object)
    right = np.array(some[::-1], dtype=object)

    def back(words):
        return additive.integers_from_bytes(np.ascontiguousarray(words.T).tobytes(), 8 * limbs).tolist()

    a, b = additive._limbs(left, limbs).T, additive._limbs(right, limbs).T
    assert back(additive._plus(a, b)) == [(x + y) % whole for x, y in zip(left, right, strict=True)]
    assert back(additive._minus(a, b)) == [(x - y) % whole for x, y in zip(left, right, strict=True)]
    parts = np.stack([a, b, a], axis=1)
    for signed, top in ((False, 4), (True, -4)):
        assert back(additive._weighted(parts, signed)) == [
            (x + 2 * y + top * x) % whole for x, y in zip(left, right, strict=True)
        ]


# ----------------------------------------------------------------------------------------------------------- arithmetic


def arithmetic(wire, numbers, roots):
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    runtime = PairwiseRuntime(loop, wire, 200)
    shares = AdditiveShares(runtime, 61)
    for peer, link in runtime.links.items():
        wire.subscribe(peer, lambda data, link=link: loop.call_soon_threadsafe(link.feed, data))
    mine = numbers[wire.index]

    async def work():
        await runtime.agree("arithmetic")
        found = {}
        shares._triples = await shares._make_triples(200)
        products = await shares.multiply(mine, mine[::-1].copy())
        found["products"] = (await shares.open(products)).tolist()
        found["norm"] = (await shares.open(await shares.squared_norms(mine.reshape(-1, 2)))).tolist()
        bits, as_numbers = await shares._make_double_bits(300)
        found["bits"] = (await shares._open_bits(bits)).tolist()
        found["numbers"] = (await shares.open(as_numbers)).tolist()
        shares._bit_triples = await shares._make_bit_triples(300)
        product = await shares._and(bits[:150], bits[150:])
        found["and"] = (await shares._open_bits(product)).tolist()
        await shares.prepare(4, 14)
        squares = np.array([0, 1, 4**5, 4**7 - 1], dtype=object)
        told = await shares.magnitudes(shares.constant(squares), 14)
        found["magnitudes"] = (await shares.open(told)).tolist()
        shares._triples = await shares._make_triples(17 * len(roots))
        inverse = await shares.inverse_root(shares.constant(np.array(roots, dtype=object)), 140)
        found["roots"] = (await shares.open(inverse)).tolist()
        sent, plain = [], runtime.swap

        async def recording(outgoing, expected=None):
            sent.extend(outgoing.values())
            return await plain(outgoing, expected)

        runtime.swap = recording
        found["zeros"] = (await shares.open(np.zeros(500, dtype=object))).tolist()
        return found, shares.modulus, sent[0]

    return loop.run_until_complete(work())


@pytest.mark.slow
@pytest.mark.parametrize("parties", [2, 3])
def test_products_bits_magnitudes_and_roots(parties):
    rng = np.random.default_rng(parties)
    numbers = [np.array([int(v) for v in rng.integers(-(2**61) + 1, 2**61, 40)], dtype=object) for _ in range(parties)]
    low = 1 << 138
    roots = [low, 2 * low, 4 * low - 1, *(low + int(u * 3 * low) for u in rng.random(5))]
    results = run_parties(arithmetic, parties, numbers, roots)
    for result in results:
        if isinstance(result, Exception):
            raise result
        assert result[:2] == results[0][:2]
        # a share is sent under masks: even a share of zero is uniform
        counts = np.bincount(np.frombuffer(result[2], np.uint8), minlength=256)
        assert stats.chisquare(counts).pvalue > 1e-6
    found, modulus, _ = results[0]
    assert found["zeros"] == [0] * 500
    total = sum(numbers)
    assert found["products"] == [int(x * y) % modulus for x, y in zip(total, total[::-1], strict=True)]
    squares = (total.reshape(-1, 2) ** 2).sum(axis=0)
    assert found["norm"] == squares.tolist()
    assert found["bits"] == found["numbers"]
    assert 100 < sum(found["bits"]) < 200
    assert found["and"] == [x & y for x, y in zip(found["bits"][:150], found["bits"][150:], strict=True)]
    assert found["magnitudes"] == [[int(n >= 4**i) for i in range(7)] for n in (0, 1, 4**5, 4**7 - 1)]
    for root, x in zip(found["roots"], roots, strict=True):
        exact = math.isqrt((1 << 2 * FRACTION + 140 + 20) // x)
        assert abs(root * 2**10 - exact) < 2**10 * 2**10  # within 2^-90 of the inverse root


# ------------------------------------------------------------------------------------------------------- normalised sums


@pytest.mark.slow
@pytest.mark.parametrize("parties", [2, 3])
def test_directions_equal_those_of_the_exact_total(parties):
    cases = many_cases(parties)
    results = directions_of(list(cases.values()), parties, colluding=parties - 1)
    for name, result in zip(cases, results, strict=True):
        error = (result - expected(cases[name])) * 2.0**37 / math.sqrt(parties / 2)
        assert np.abs(error).max() < 7.5, name  # standard deviations of the noise: exceeded once in 10^10 runs
        assert result.shape == np.shape(cases[name][0])


@pytest.mark.slow
def test_two_parties_hide_norms_with_noise_as_stated():
    case = terms(2, (3000, 1), 2**55, 7)
    error = (directions_of([case], 2)[0] - expected(case)) * 2.0**37
    assert 0.9 < error.std() < 1.1
    assert abs(error.mean()) < 0.15


@pytest.mark.slow
def test_zero_columns_stay_zero_and_short_ones_are_refused():
    case = terms(2, (20, 3), 2**50, 8)
    case[0][:, 1] = -case[1][:, 1]
    (result,) = directions_of([case], 2)
    assert np.array_equal(result[:, 1], np.zeros(20))
    assert np.allclose(np.linalg.norm(result[:, [0, 2]], axis=0), 1, atol=1e-9)
    short = [np.array([[2**37, 2**50], [2**36, 0]]), np.zeros((2, 2), np.int64)]
    with pytest.raises(RangeError, match=r"shorter ones: 0\."):
        directions_of([short], 2)


@pytest.mark.slow
def test_long_vectors_are_cut(monkeypatch):
    monkeypatch.setattr(additive, "AT_ONCE", 1000)
    case = terms(2, (101, 2), 2**50, 9)
    error = (directions_of([case], 2)[0] - expected(case)) * 2.0**37
    assert np.abs(error).max() < 7.5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("parties", "colluding", "additive_", "withstands"),
    [(2, None, True, 1), (3, None, False, 1), (3, 2, True, 2), (4, None, False, 1), (4, 2, True, 3)],
)
def test_the_number_of_colluders_chooses_the_protocol(parties, colluding, additive_, withstands):
    for result in run_parties(chosen_protocol, parties, colluding):
        assert result == (additive_, withstands)


def chosen_protocol(wire, colluding):
    with NormalisedSummer(wire, timeout=TIMEOUT, colluding=colluding) as directions:
        return directions.additive, directions.withstands


def differing(wire):
    with NormalisedSummer(wire, timeout=TIMEOUT, bits=61 + wire.index):
        pass


def test_parties_with_other_settings_are_named():
    for result in run_parties(differing, 2):
        assert isinstance(result, PartyError)
        assert "same settings" in str(result)


class Nowhere:
    index, parties = 0, 3


@pytest.mark.parametrize("colluding", [3, -1])
def test_at_least_one_party_is_honest(colluding):
    with pytest.raises(InvalidInputError):
        NormalisedSummer(Nowhere(), colluding=colluding)


# ------------------------------------------------------------------------------------------------------- what can be seen


def observed(wire, case, flaw):
    """Run one sum with noise from a fixed seed; return everything that was opened, and every share sent to the first peer."""
    entropy.secure_generator = lambda: insecure_generator(100 + wire.index)
    seen = {"masked": [], "result": [], "sent": b""}
    with NormalisedSummer(wire, timeout=TIMEOUT) as directions:
        shares = directions._shares
        plain_open, plain_swap = shares.open, shares.runtime.swap

        async def recording_open(shared):
            opened = await plain_open(shared)
            seen["masked"].append([int(value) for value in opened.ravel()])
            return opened

        async def recording_swap(outgoing, expected=None):
            seen["sent"] += b"".join(outgoing.values())
            return await plain_swap(outgoing, expected)

        plain_noise = directions._noise

        def recording_noise(count, scale):
            silent = flaw == "no noise" or (flaw == "noise of one" and wire.index == 1)
            seen["noise"] = np.zeros(count, dtype=object) if silent else plain_noise(count, scale)
            return seen["noise"]

        directions._noise = recording_noise
        if flaw == "no mask":
            shares.random = lambda bits, count: np.zeros(count, dtype=object)
        shares.open, shares.runtime.swap = recording_open, recording_swap
        directions(case[wire.index])
        rows = len(case[0])
        scale = FRACTION + directions._magnitude + ((rows - 1).bit_length() + 1) // 2
        modulus = shares.modulus
    known = [(value - int(own)) % modulus for value, own in zip(seen["masked"].pop(), seen["noise"], strict=True)]
    signed = [value - modulus if value > modulus // 2 else value for value in known]  # less this party's own noise
    return signed, seen["masked"], scale, seen["sent"], modulus


def two_party_case(norm, rows):
    (first, second, third), exact = grid_case(norm, rows)
    return [first, second + third], exact


@pytest.mark.slow
def test_the_opened_numbers_do_not_tell_the_norm():
    """Just above the floor, where the grid is coarsest, and after this party took its own noise off."""
    case, norm = two_party_case(2.0**38.1, 2000)
    signed, _, scale, _, _ = run_parties(observed, 2, case, None)[0]
    assert math.gcd(*signed) < 100
    assert grid_visible(signed, scale, norm) > 1e-3
    for flaw in ("no noise", "noise of one"):  # the same attacks succeed where the other party adds none
        signed, _, scale, _, _ = run_parties(observed, 2, case, flaw)[0]
        assert norm_by_divisor(signed, scale) == pytest.approx(norm, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("norm", [2.0**39, 2.0**55])
def test_all_that_is_opened_on_the_way_is_masked(norm):
    """Openings of one number per column hide it under 64 bits more; those of factors fill the ring."""
    case, _ = two_party_case(norm, 50)
    _, opened, _, _, modulus = run_parties(observed, 2, case, None)[0]
    single = [value for values in opened if len(values) in (1, 2, 3) for value in values]
    assert min(value.bit_length() for value in single) > 110 + SECURITY - 40
    factors = [value for values in opened for value in values if value >> 150]
    assert len(factors) > 20
    assert max(factors) > modulus >> 8
    _, bare, _, _, _ = run_parties(observed, 2, case, "no mask")[0]
    assert min(value.bit_length() for values in bare for value in values) < 110 + SECURITY - 40


@pytest.mark.slow
def test_what_a_party_sends_is_uniform_and_holds_none_of_its_numbers():
    case, _ = two_party_case(2.0**50, 400)
    total = sum(case)
    for index, (_, _, _, sent, modulus) in enumerate(run_parties(observed, 2, case, None)):
        counts = np.bincount(np.frombuffer(sent, np.uint8), minlength=256)
        assert stats.chisquare(counts).pvalue > 1e-9
        width = modulus.bit_length() // 8
        for value in (*case[index][:50], *total[:50], sum(int(v) ** 2 for v in total)):
            assert (int(value) % modulus).to_bytes(width, "little") not in sent
