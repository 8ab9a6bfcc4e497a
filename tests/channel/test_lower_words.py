"""Sums of two words from the lowest bits alone: the check against exact integers, and totals that need more of them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from links import in_threads, pair_keys

from tacit.channel import Columnwise, Outcome, Sum, masked, run
from tacit.channel.fixedpoint import Grid, Ring
from tacit.channel.lower_words import CHECK_BYTES, PRIME, check_of, public_weights, with_both_words
from tacit.channel.masked import RESIDUE_BYTES, Masked, Masks

GRID, RING = Grid(-40), Ring(2)
WORD = 2**64


def elements_of(integers):
    return np.array([[value % WORD for value in integers], [value // WORD % WORD for value in integers]], np.uint64)


def integers_of(elements):
    elements = with_both_words(elements) if len(elements) == 1 else elements
    values = [int(lower) + WORD * int(upper) for lower, upper in elements.T]
    return [value - WORD**2 if value >= WORD**2 // 2 else value for value in values]


NUMBERS = st.integers(-(2**126), 2**126) | st.integers(-(2**63), 2**63 - 1) | st.sampled_from([0, -1, 2**63, -(2**64)])


@settings(deadline=None)  # the first call compiles
@given(values=st.lists(NUMBERS, min_size=1, max_size=40), seed=st.binary(min_size=32, max_size=32))
def test_the_check_is_the_weighted_sum_of_the_signed_integers(values, seed):
    weights = public_weights(seed, len(values))
    expected = sum(int(weight) * value for weight, value in zip(weights, values, strict=True)) % PRIME
    assert check_of(elements_of(values), weights, [slice(None)]) == expected
    cut = len(values) // 2
    assert check_of(elements_of(values), weights, [slice(0, cut), slice(cut, None)]) == expected


@settings(deadline=None)
@given(values=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=40))
def test_numbers_of_one_word_keep_their_value_with_two(values):
    lower = np.array([[value % WORD for value in values]], np.uint64)
    both = with_both_words(lower)
    assert integers_of(both) == values
    weights = public_weights(bytes(32), len(values))
    assert check_of(lower, weights, [slice(None)]) == check_of(both, weights, [slice(None)])


@settings(deadline=None)
@given(
    values=st.lists(st.integers(-(2**125), 2**125), min_size=1, max_size=20), seed=st.binary(min_size=32, max_size=32)
)
def test_the_check_of_the_lower_words_differs_unless_all_numbers_fit_them(values, seed):
    elements, weights = elements_of(values), public_weights(seed, len(values))
    fits = all(-(2**63) <= value < 2**63 for value in values)
    same = check_of(elements[:1], weights, [slice(None)]) == check_of(elements, weights, [slice(None)])
    assert same == fits


def test_wraps_that_cancel_in_a_plain_sum_are_seen():
    """One total is 2^64 too large for its word and another as much too small: only different weights tell them apart."""
    weights = public_weights(b"w" * 32, 2)
    elements = elements_of([2**64 + 5, -(2**64) - 7])
    assert integers_of(with_both_words(elements[:1])) == [5, -7]
    assert check_of(elements[:1], weights, [slice(None)]) != check_of(elements, weights, [slice(None)])


def test_masked_checks_are_uniform_and_add_up_modulo_the_prime():
    keys, parties, sums = pair_keys(3), range(3), 400
    masks = [Masks(party, keys[party]) for party in parties]
    sent = []
    for number in range(sums):
        checks = [{0: 7 * party, 1: PRIME - 1} for party in parties]
        for party in parties:
            masks[party].hide(np.zeros((1, 3), np.uint64), Ring(1), number, checks=checks[party])
        assert [sum(check[place] for check in checks) % PRIME for place in (0, 1)] == [21, (PRIME - 1) * 3 % PRIME]
        sent += [check[place] for check in checks for place in (0, 1)]
    assert len(set(sent)) == len(sent)
    # eight bins, chi-square with 7 degrees of freedom at level 1e-6: 41.9
    counts = np.bincount([value * 8 // PRIME for value in sent], minlength=8)
    assert float(((counts - len(sent) / 8) ** 2 / (len(sent) / 8)).sum()) < 41.9
    assert PRIME.bit_length() + 128 < RESIDUE_BYTES * 8


CASES = {
    "fit": [[1, -2, 3], [5, 2**60, -6], [7, 8, -(2**60)]],
    "terms do not fit and totals do": [[2**100, -(2**70), 3], [5, 2**70, -6], [3 - 2**100, 8, 9]],
    "a total does not fit": [[2**62, 1, 0], [2**62, 2, 0], [2**62, 3, 0]],
    "totals wrap in both directions": [[2**64, -(2**64), 0], [1, 2, 3], [4, 5, 6]],
    "a round number": [[2**122, 2**122, 0], [0, 0, 0], [0, 0, 0]],
    "the least number of a word": [[-(2**62), 1, 2], [-(2**62), 3, 4], [0, 5, 6]],
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("part_numbers", [1, 2**16])
def test_totals_are_exact_whether_they_fit_one_word_or_not(monkeypatch, case, part_numbers):
    monkeypatch.setattr(masked, "SHORT_FROM", 1)
    monkeypatch.setattr(masked, "PART_NUMBERS", part_numbers)
    terms = CASES[case]
    totals = [sum(column) for column in zip(*terms, strict=True)]
    fits = all(-(2**63) <= total < 2**63 for total in totals)

    def work(together):
        found = [integers_of(together.sums.add(elements_of(terms[together.index]), RING, "x")) for _ in range(3)]
        return found, together.sums._number

    for found, number in in_threads(3, work):
        assert found == [totals] * 3
        # after the first sum that needed both words, sums of the same label are made with both at once
        assert number == (3 if fits else 4)


@pytest.mark.parametrize("large", [1.0, 6e6, 2.0**60])
def test_work_on_totals_of_one_or_two_words_gives_the_same_bits(monkeypatch, large):
    """With large numbers one column of 200 needs both words: its owner says so, and the others' answers are not used.

    The numbers of 6e6 fit one word each, and their total does not.
    """
    monkeypatch.setattr(masked, "PART_NUMBERS", 1)
    generator = np.random.default_rng(1)
    terms = [generator.normal(size=(2, 200)) for _ in range(3)]
    for term in terms:
        term[1, 77] = large

    def worked(place, totals, rest):
        return np.stack([totals[0] * rest["scale"][0], totals[1]], axis=1)

    def program(index):
        for _ in range(2):
            found = (yield Sum(x=terms[index], scale=[index + 0.5], columnwise=Columnwise("x", 2, worked))).worked
        return Outcome({"worked": found})

    def party(together):
        return (
            run(program(together.index), Masked(together)).public["worked"],
            together.sums._number,
            together.link.sent,
        )

    results = {}
    for short_from in (1, 10**9):
        monkeypatch.setattr(masked, "SHORT_FROM", short_from)
        results[short_from] = in_threads(3, party)
    for (narrow, sums, sent), (wide, wide_sums, wide_sent) in zip(results[1], results[10**9], strict=True):
        np.testing.assert_array_equal(narrow, wide)
        assert wide_sums == 2
        assert sums == (2 if large == 1.0 else 3)
        if large == 1.0:
            assert sum(len(message) for _, message in sent) < 0.8 * sum(len(message) for _, message in wide_sent)


@pytest.mark.parametrize(("constant", "size"), [(0.25, 6), (200.0, 8)])
def test_long_sums_send_no_more_of_a_number_than_its_total_needs_and_one_check(monkeypatch, constant, size):
    """Of the first sum of a kind a word, of the later ones 48 bits if the first totals fitted them."""
    monkeypatch.setattr(masked, "PART_NUMBERS", 1500)
    parties, numbers, sums = 3, masked.SHORT_FROM, 3

    def work(together):
        channel = Masked(together)
        for _ in range(sums):
            total = channel.exchange([Sum(x=np.full(numbers, together.index + constant))]).x
            np.testing.assert_array_equal(total, np.full(numbers, 3 + 3 * constant))
        return together.link.sent

    sent = list(itertools.chain.from_iterable(in_threads(parties, work)))
    # two owners: each number once masked by each party but its owner with a check, and once in the total to each other party;
    # with the first total an owner says in one byte what is enough for the next
    owners = 2
    expected = sums * (8 * numbers + owners * CHECK_BYTES) + owners + (8 + (sums - 1) * size) * numbers
    assert sum(len(message) for _, message in sent) == (parties - 1) * expected


@settings(deadline=None)
@given(terms=st.lists(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=3, max_size=3), min_size=1, max_size=5))
def test_the_lowest_bits_of_terms_give_their_total_modulo_2_to_the_48(terms):
    total = np.zeros(3, np.uint64)
    for term in terms:
        pieces = masked.lowest_bits(np.array([value % WORD for value in term], np.uint64))
        message = memoryview(b"".join(masked.as_bytes(piece) for piece in pieces))
        assert len(message) == 3 * masked.NARROW_BYTES
        masked.add_lowest_bits(total, message)
    masked.extend_sign(total)
    expected = [(sum(column) + 2**47) % 2**48 - 2**47 for column in zip(*terms, strict=True)]
    assert total.view(np.int64).tolist() == expected


@pytest.mark.parametrize(
    ("total", "fits"), [(2**47 - 1, True), (2**47, False), (-(2**47), True), (-(2**47) - 1, False), (0, True)]
)
def test_totals_fit_48_bits_exactly_if_these_give_them_back(total, fits):
    word = np.array([total % WORD, 5], np.uint64)
    assert masked.fits_narrow(word) == fits
    kept = word.copy()
    masked.extend_sign(kept)
    assert np.array_equal(kept, word) == fits


def test_totals_stay_exact_when_they_outgrow_what_was_sent_of_them(monkeypatch):
    """Small totals, then some that need a word, then some that need two; -2^47 and 2^47 - 1 are the last that fit 48 bits."""
    monkeypatch.setattr(masked, "SHORT_FROM", 1)
    monkeypatch.setattr(masked, "PART_NUMBERS", 2)
    totals = [[1, -2, 3], [-(2**47), 2**47 - 1, 0], [1, 2, 2**47], [4, -5, 6], [7, 2**70, 8], [1, 1, 1]]
    sums_until = [1, 2, 4, 5, 7, 8]  # one more where the totals were larger than before

    def work(together):
        made = []
        for total in totals:
            # terms that do not fit a word by themselves
            terms = [[value - 2**80 + 1 for value in total], [2**80 + 5] * 3, [-6] * 3]
            found = integers_of(together.sums.add(elements_of(terms[together.index]), RING, "x"))
            made.append((found, together.sums._number))
        return made

    for made in in_threads(3, work):
        assert made == list(zip(totals, sums_until, strict=True))


def test_a_number_that_wraps_48_bits_is_seen_by_the_check():
    """The check is that of the whole number, so that a total of 2^48 does not pass for 0."""
    weights = public_weights(b"w" * 32, 1)
    lowest = np.array([2**48 + 3], np.uint64)
    masked.extend_sign(lowest)
    assert lowest[0] == 3
    assert check_of(lowest[None], weights, [slice(None)]) != check_of(elements_of([2**48 + 3]), weights, [slice(None)])


def test_parties_with_different_totals_of_a_sum_stop_at_the_next(monkeypatch):
    """A party that takes another total for true has other digests from then on."""
    monkeypatch.setattr(masked, "SHORT_FROM", 1)

    def work(together):
        together.sums.add(elements_of([1, 2]), RING, "x")
        if together.index == 1:
            together.sums.note(b"another total")
        together.sums.add(elements_of([1, 2]), RING, "x")

    with pytest.raises(masked.ProtocolError):
        in_threads(2, work)
