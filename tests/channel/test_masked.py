"""The masked channel: exact totals, uniform words, masks never used twice, noise added in parts by the parties."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from links import in_threads, pair_keys
from scipy.stats import chi2, kstest

from tacit import NMF, PrivateMoments, PrivateNMF
from tacit.channel import Choose, Columnwise, Grid, Noisy, NormedSum, Outcome, Plan, Sum, masked
from tacit.channel.fixedpoint import MANY, Ring
from tacit.channel.lower_words import with_both_words
from tacit.channel.masked import Masked, Masks, among, put_with_zeros, without_zeros
from tacit.channel.run import interpose, run
from tacit.errors import ProtocolError, RangeError
from tacit.privacy.noise import discrete_gaussian_pmf

GRID = Grid(-40)
NUMBERS = st.floats(-1e5, 1e5, allow_nan=False)


def summed(terms, *, words=1, kind=Sum, **settings):
    def program(term):
        total = yield kind(x=term)
        return Outcome({"x": total.x})

    def work(together):
        return run(program(terms[together.index]), Masked(together, words=words, **settings)).public["x"]

    return in_threads(len(terms), work)


@pytest.mark.parametrize("words", [1, 2])
@pytest.mark.parametrize("parties", [2, 3, 5])
def test_the_total_is_the_exact_sum_on_the_grid_bit_for_bit(parties, words):
    generator = np.random.default_rng(parties)
    terms = [generator.normal(scale=10.0 ** generator.integers(-12, 5), size=(7, 3)) for _ in range(parties)]
    exact = np.vectorize(lambda n: math.ldexp(float(n), -40))(sum(GRID.encode(term).astype(object) for term in terms))
    for total in summed(terms, words=words):
        np.testing.assert_array_equal(total, exact)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(NUMBERS, min_size=3, max_size=3), min_size=2, max_size=6), st.sampled_from([1, 2]))
def test_elements_add_as_integers_do(rows, words):
    ring = Ring(words)
    total = np.zeros((words, 3), dtype=np.uint64)
    for row in rows:
        total = ring.plus(total, ring.encode(row, GRID, parties=len(rows)))
    exact = [sum(round(value * 2**40) for value in column) for column in zip(*rows, strict=True)]
    np.testing.assert_array_equal(ring.decode(total, GRID), [math.ldexp(float(number), -40) for number in exact])
    back = total
    for row in rows:
        back = ring.minus(back, ring.encode(row, GRID, parties=len(rows)))
    assert not back.any()


def test_two_words_hold_what_one_cannot():
    terms = [np.array([3e15, -1e12]), np.array([-3e15, 2.0**-40]), np.array([1.0, 0.0])]
    np.testing.assert_array_equal(summed(terms, words=2)[0], [1.0, -1e12])
    with pytest.raises(RangeError, match="128 bits"):
        summed(terms, words=1)


@pytest.mark.parametrize("bad", [2**60, -(2**60), np.iinfo(np.int64).min, np.iinfo(np.int64).max])
def test_integers_that_could_wrap_are_refused(bad):
    ring = Ring(1)
    assert ring.of_integers(np.array([2**60 - 1, 1 - 2**60]), parties=4).shape == (1, 2)
    with pytest.raises(RangeError):
        ring.of_integers(np.array([0, bad]), parties=4)


@pytest.mark.parametrize(("bad", "words"), [(np.nan, 2), (np.inf, 1), (2.0**22, 1), (2.0**86, 2)])
def test_what_does_not_fit_is_refused_before_anything_is_sent(bad, words):
    def work(together):
        with pytest.raises(RangeError):
            Masked(together, words=words).exchange([Sum(x=[1.0, bad])])
        return together.link.sent

    assert in_threads(3, work) == [[], [], []]


@pytest.mark.parametrize("words", [1, 2])
@pytest.mark.parametrize("largest", [1.0, 2.0**19, 2.0**23, 2.0**70])
def test_long_vectors_are_encoded_as_short_ones_are(words, largest):
    """A compiled loop puts long vectors on the grid, if each number fits one word; the elements then have one."""
    ring, generator = Ring(words), np.random.default_rng(1)
    vectors = [
        generator.normal(size=7),
        generator.uniform(-largest, largest, size=MANY + 3),
        np.array([-0.0, 2.0**-41]),
    ]
    if largest > 2.0 ** (64 * words - 42) / 3:
        with pytest.raises(RangeError):
            ring.encode_all(vectors, GRID, parties=3)
        return
    whole = ring.encode_all(vectors, GRID, parties=3)
    assert len(whole) == (2 if largest == 2.0**70 else 1)
    np.testing.assert_array_equal(ring.decode(whole, GRID), np.rint(np.concatenate(vectors) * 2.0**40) * 2.0**-40)
    cuts = np.array_split(np.concatenate(vectors), 3)
    np.testing.assert_array_equal(
        whole if len(whole) == words else with_both_words(whole),
        np.concatenate([ring.encode(short, GRID, parties=3) for short in cuts], axis=1),
    )
    for bad in (np.nan, np.inf, -np.inf):
        vectors[1][11] = bad
        with pytest.raises(RangeError):
            ring.encode_all(vectors, GRID, parties=3)


@pytest.mark.parametrize("words", [1, 2])
def test_masks_in_place_are_those_of_a_copy(words):
    keys, ring = pair_keys(4)[2], Ring(words)
    elements = ring.encode(np.linspace(-5, 5, 2 * masked.CHUNK + 9), GRID, parties=4)
    given = elements.copy()
    hidden = Masks(2, keys).hide(elements, ring, 3)
    assert (hidden != elements).any(axis=1).all()
    shorter = Masks(2, keys)
    shorter.hide(elements[:, :100], ring, 2)  # the buffers grow
    assert shorter.hide(elements, ring, 3, in_place=True) is elements
    np.testing.assert_array_equal(elements, hidden)
    shorter.show(elements, ring, 3)
    np.testing.assert_array_equal(elements, given)


def outgoing(value, masks, number=0):
    return masks.hide(Ring(1).encode(np.full(20_000, value), GRID, parties=3), Ring(1), number)[0]


@pytest.mark.parametrize("value", [0.0, 1.0, -12345.678])
def test_outgoing_words_are_uniform(value):
    """Chi-square over all bytes at level 1e-6, and Kolmogorov-Smirnov over the words."""
    sent = outgoing(value, Masks(1, pair_keys(3)[1]))
    counts = np.bincount(np.frombuffer(sent.tobytes(), np.uint8), minlength=256)
    expected = counts.sum() / 256
    assert chi2.sf(((counts - expected) ** 2 / expected).sum(), 255) > 1e-6
    assert kstest(sent / 2.0**64, "uniform").pvalue > 1e-6


def test_words_of_two_inputs_are_the_same_once_the_masks_compensate():
    """For every other input there are masks that send the very same words: so they say nothing about the input."""
    keys = pair_keys(3)[1]
    sent = outgoing(1.0, Masks(1, keys))
    mask = outgoing(0.0, Masks(1, keys))
    other = Ring(1).encode(np.full(20_000, -7.5), GRID, parties=3)[0]
    compensating = mask + (Ring(1).encode(np.full(20_000, 1.0), GRID, parties=3)[0] - other)
    np.testing.assert_array_equal(other + compensating, sent)
    counts = np.bincount(np.frombuffer(compensating.tobytes(), np.uint8), minlength=256)
    expected = counts.sum() / 256
    assert chi2.sf(((counts - expected) ** 2 / expected).sum(), 255) > 1e-6


def test_a_mask_is_never_used_twice():
    masks = Masks(0, pair_keys(2)[0])
    sent = [outgoing(1.0, masks, number) for number in range(4)]
    for left, right in itertools.combinations(sent, 2):
        assert not (left == right).any()
    with pytest.raises(ProtocolError, match="twice"):
        outgoing(1.0, masks, 3)


def test_parties_that_ask_for_different_things_stop():
    def work(together):
        Masked(together).exchange([Sum(x=np.zeros(3 + (together.index == 2)))])

    with pytest.raises(ProtocolError):
        in_threads(3, work)


def test_normed_sum_without_hiding_says_so():
    terms = [np.array([[3.0, 0.0], [4.0, 0.0]]), np.zeros((2, 2))]

    def work(together):
        channel = Masked(together)
        return channel.exchange([NormedSum(x=terms[together.index])]).x, str(channel.guarantee)

    (direction, words), _ = in_threads(2, work)
    np.testing.assert_allclose(direction, [[0.6, 0.0], [0.8, 0.0]])
    assert "singular values" in words
    assert "no privacy guarantee" in words


def fitted_among(make, parts, honest=None):
    def work(together):
        with interpose(lambda channel: among(channel, together)):
            return make().fit(parts[together.index])

    return in_threads(len(parts), work, honest)


@pytest.mark.parametrize("parties", [2, 3, 5])
def test_nmf_among_parties_is_the_centralised_fit(parties):
    generator = np.random.default_rng(parties)
    X = generator.gamma(1.0, size=(40 * parties, 12))
    cuts = np.sort(generator.choice(np.arange(2, len(X)), parties - 2, replace=False)) if parties > 2 else []
    parts = np.split(X, [1, *cuts])  # the first party has one row
    start = generator.random((4, 12))

    def make():
        return NMF(4, init=start, max_iter=30, tol=0)

    alone = make().fit(X)
    for model in fitted_among(make, parts):
        distance = np.linalg.norm(model.components_ - alone.components_)
        assert distance <= 1e-8 * np.linalg.norm(alone.components_)


@pytest.mark.parametrize(
    ("parties", "columns", "words", "cuts"),
    [(2, 150, 1, [0, 64, 150]), (3, 200, 2, [0, 64, 128, 200]), (5, 3, 2, [0, 3]), (5, 130, 1, [0, 64, 130])],
)
def test_work_that_parties_divide_is_that_of_one_of_them_bit_for_bit(monkeypatch, parties, columns, words, cuts):
    """Fewer columns than parties too; each party is told the owners' results and not the total of their columns."""
    monkeypatch.setattr(masked, "PART_NUMBERS", 1)
    generator = np.random.default_rng(columns)
    terms = [generator.normal(size=(2, columns)) for _ in range(parties)]
    seen = []

    def work(place, totals, rest):
        seen.append((place.start, place.stop))
        return np.stack([totals[0] * rest["scale"][0], np.sin(totals[1]), np.arange(columns)[place]], axis=1)

    def program(index):
        asked = Sum(x=terms[index], scale=[index + 0.5], columnwise=Columnwise("x", 3, work))
        return Outcome({"worked": (yield asked).worked})

    def party(together):
        channel = Masked(together, words=words)
        found = run(program(together.index), channel).public["worked"]
        return found, together.link.sent, channel.transcript

    results = in_threads(parties, party)
    total = GRID.decode(sum(GRID.encode(term) for term in terms))
    alone = work(slice(0, columns), total, {"scale": [parties**2 / 2]})
    assert sorted(seen[:-1]) == sorted(itertools.pairwise(cuts))
    for found, sent, transcript in results:
        np.testing.assert_array_equal(found, alone)
        assert not any(GRID.encode(total[:, :1]).tobytes() in message for _, message in sent)
        assert list(transcript.entries[0].shapes) == ["scale", "worked"]


@pytest.mark.parametrize(("part_numbers", "owners"), [(2**16, 1), (32, 2), (1, 4)])
def test_owners_of_sums_take_turns_and_each_number_is_sent_once(monkeypatch, part_numbers, owners):
    """Few owners make few messages; in as many sums as there are parties, all parties send the same."""
    monkeypatch.setattr(masked, "PART_NUMBERS", part_numbers)
    parties, numbers = 4, 64

    def program(index):
        for _ in range(parties):
            total = yield Sum(x=np.full(numbers, index + 1.0))
            np.testing.assert_array_equal(total.x, np.full(numbers, 10.0))
        return Outcome({})

    def work(together):
        run(program(together.index), Masked(together, words=1))
        return together.link.sent

    sent = in_threads(parties, work)
    assert [len(messages) for messages in sent] == [2 * owners * (parties - 1)] * parties
    # each number once masked by each party but its owner, and once to each other party as a part of the total
    assert {sum(len(message) for _, message in messages) for messages in sent} == {2 * (parties - 1) * numbers * 8}


@pytest.mark.parametrize("many", [masked.MANY, 1])  # the loops for short and for long sums
@settings(deadline=None)  # the first call compiles
@given(numbers=st.lists(st.sampled_from([0.0, -0.0, 1.5, math.nan, -2.0]), max_size=140), rest=st.binary(max_size=9))
def test_a_message_without_zeros_keeps_every_bit(many, numbers, rest):
    sent = np.array(numbers, dtype=np.float64).view(np.uint64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(masked, "MANY", many)
        message, received = without_zeros(sent, rest[: len(rest) // 8 * 8]), np.ones(len(sent), dtype=np.uint64)
        end = 8 * -(-len(sent) // 64) + 8 * np.count_nonzero(sent)
        assert message[end:] == rest[: len(rest) // 8 * 8]
        put_with_zeros(message, end, received, "party-1")
    np.testing.assert_array_equal(received, sent)


@pytest.mark.parametrize(
    "message",
    [
        *(b"", b"\xff", b"\x80" + bytes(14), b"\x80" + bytes(23), bytes(16)),
        b"\x00\x01" + bytes(14),  # the bit of a number beyond the tenth
    ],
)
def test_a_message_without_zeros_that_is_none_is_refused_by_name(message):
    with pytest.raises(ProtocolError, match="the numbers of a sum from party-1"):
        put_with_zeros(message, len(message), np.zeros(10, dtype=np.uint64), "party-1")


def test_a_dictionary_step_that_parties_divide_gives_the_same_bits(monkeypatch):
    generator = np.random.default_rng(3)
    X, start = generator.gamma(1.0, size=(60, 17)), generator.random((3, 17))

    def fitted():
        models = fitted_among(lambda: NMF(3, init=start, max_iter=12, tol=0), [X[:1], X[1:20], X[20:41], X[41:]])
        for model in models[1:]:
            np.testing.assert_array_equal(model.components_, models[0].components_)
        return models[0]

    divided = fitted()
    monkeypatch.setattr(Sum, "divisible", None)
    whole = fitted()
    np.testing.assert_array_equal(divided.components_, whole.components_)
    np.testing.assert_array_equal(divided.loss_curve_, whole.loss_curve_)
    np.testing.assert_array_equal(divided.sum_WX_, whole.sum_WX_)


def test_noise_in_the_sum_is_that_of_one_trusted_curator():
    """The noise of the total: the honest parties' parts alone have the planned width, whatever other parties add."""
    plan = Plan.for_budget(1.0, 1e-6)
    parties, colluding = 4, 1
    zeros = np.zeros(40_000)

    def work(together):
        channel = Noisy(plan, insecure_seed=5).joined(together)
        return channel.exchange([Sum(x=zeros, bound=1.0, units=1)]).x

    totals = in_threads(parties, work, honest=parties - colluding)
    for total in totals[1:]:
        np.testing.assert_array_equal(total, totals[0])
    # the bound enters with the slack for rounding, hence the tolerance of 3% around the sampling error of 0.35%
    expected = plan.noise_multiplier * math.sqrt(parties / (parties - colluding))
    assert np.std(totals[0]) == pytest.approx(expected, rel=0.03)
    assert kstest(totals[0] / np.std(totals[0]), "norm").pvalue > 1e-4


class Bill:
    """Replaces a line of the ledger."""

    def __init__(self):
        self.charges = []

    def charge(self, guarantee):
        self.charges.append(guarantee)
        return self

    def settle(self, guarantee):
        self.charges.append(guarantee)


def test_a_choice_among_parties_is_refused_before_it_is_charged():
    plan, bills = Plan.for_budget(1.0, 1e-6, choices=[0.5]), [Bill(), Bill()]

    def work(together):
        channel = Noisy(plan, spending=bills[together.index]).joined(together)
        with pytest.raises(ProtocolError, match="sums only"):
            channel.choose([Choose([1.0, 2.0], bound=1.0, units=1)])
        return together.link.sent

    assert in_threads(2, work) == [[], []]
    assert [bill.charges for bill in bills] == [[], []]


@pytest.mark.parametrize(
    ("honest", "words"), [(3, "holds against outsiders"), (2, "as if 1 of the 3 parties"), (1, "as if 2 of the 3")]
)
def test_the_guarantee_says_whose_noise_it_counts_on(honest, words):
    def work(together):
        channel = Noisy(Plan.for_budget(1.0, 1e-6)).joined(together)
        channel.exchange([Sum(x=[1.0], bound=1.0, units=1)])
        return channel.guarantee.trust

    assert all(words in trust for trust in in_threads(3, work, honest))


def test_shares_of_discrete_gaussians_add_up_to_one_within_the_stated_factor():
    """Kairouz, Liu, Steinke 2021: the bound at widths so small that it can be seen."""
    for share, parties in [(0.6, 2), (0.7, 3), (0.8, 5)]:
        support = np.arange(-60, 61)
        law = total = discrete_gaussian_pmf(support, share)
        for _ in range(parties - 1):
            total = np.convolve(total, law)
        wide = np.arange(-(len(total) // 2), len(total) // 2 + 1)
        one = discrete_gaussian_pmf(wide, share * math.sqrt(parties))
        seen = one > 1e-9
        bound = 10 * sum(math.exp(-2 * math.pi**2 * share**2 * k / (k + 1)) for k in range(1, parties))
        assert np.abs(np.log(total[seen] / one[seen])).max() <= bound


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        lambda: PrivateMoments(epsilon=5.0, delta=1e-6, insecure_seed=1),
        lambda: PrivateNMF(2, epsilon=50.0, delta=1e-6, insecure_seed=1),
        lambda: PrivateNMF(2, epsilon=2.0, delta=1e-6, method="rounds", rounds=2, sampling_rate=0.5, insecure_seed=1),
    ],
    ids=["moments", "nmf", "rounds with samples"],
)
def test_private_estimators_run_unchanged_and_agree(make):
    X = np.random.default_rng(0).dirichlet(np.ones(5), size=600)
    models = fitted_among(make, [X[:100], X[100:101], X[101:]])
    learned = "mean_" if hasattr(models[0], "mean_") else "components_"
    for model in models:
        np.testing.assert_array_equal(getattr(model, learned), getattr(models[0], learned))
    assert models[0].guarantee_.releases
