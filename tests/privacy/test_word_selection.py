"""Words of private documents: what one document can do to the release, and how rarely it shows."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import InvalidInputError
from tacit.privacy import Accountant, insecure_generator
from tacit.privacy.noise import discrete_gaussian_pmf
from tacit.privacy.vocabulary import STEPS, WordSelection

documents = st.lists(st.frozensets(st.sampled_from("abcdefghij"), max_size=4), max_size=12)


@settings(max_examples=100, deadline=None)
@given(documents=documents, more=st.frozensets(st.sampled_from("abcdefghijxyz"), max_size=4))
def test_a_document_more_moves_the_counts_by_the_bound_and_adds_few_words(documents, more):
    selection = WordSelection(1.0, 1e-3, 4)
    before, number = selection.counted(documents)
    after, number_after = selection.counted([*documents, more])
    known = [after[word] - before[word] for word in before]
    moved = math.sqrt(sum(step**2 for step in known) + (number_after - number) ** 2)
    assert moved * selection.noise_multiplier <= selection.sigma * (1 + 1e-12)
    new = set(after) - set(before)
    assert len(new) <= 4
    assert all(after[word] == 1 for word in new)


def test_a_document_that_names_too_many_is_refused():
    with pytest.raises(InvalidInputError, match="at most 2"):
        WordSelection(1.0, 1e-3, 2).counted([frozenset("abc")])


@pytest.mark.parametrize("multiplier", [0.5, 3.0])
@pytest.mark.parametrize(("beta", "most"), [(1e-3, 3), (0.3, 1), (1e-2, 50)])
def test_the_threshold_keeps_its_promise_and_no_more(multiplier, beta, most):
    """The exact tail of the discrete Gaussian is below beta / m, and the next lower thresholds are not far."""
    selection = WordSelection(multiplier, beta, most)
    sigma = selection.sigma * STEPS
    first = round((selection.threshold - 1) * STEPS)
    exact = math.fsum(discrete_gaussian_pmf(np.arange(first, first + math.ceil(12 * sigma)), sigma))
    assert 0.98 * beta / most < exact <= beta / most
    assert exact <= selection.singleton_probability() * (1 + 1e-9)


def test_words_of_one_document_appear_as_rarely_as_promised():
    """At a level of 1e-6: in 2,000 runs with beta 0.2, some word of the single document shows in at most a fifth or so."""
    from scipy.stats import binom

    selection, generator = WordSelection(1.0, 0.2, 3), insecure_generator(4)
    shown = sum(bool(selection.select([frozenset("xyz")], generator=generator)[0]) for _ in range(2000))
    assert shown <= binom.ppf(1 - 1e-6, 2000, 0.2)
    assert shown >= binom.ppf(1e-6, 2000, 1 - (1 - 0.2 / 3) ** 3 - 0.02), "the threshold is not needlessly high"


def test_frequent_words_are_found_with_their_counts():
    selection = WordSelection(2.0, 1e-7, 5)
    named = [frozenset({"moon", "star"})] * 900 + [frozenset({"star", "sun"})] * 300 + [frozenset({"secret"})]
    chosen, documents = selection.select(named, generator=insecure_generator(0))
    assert list(chosen) == ["moon", "star", "sun"]
    assert np.abs(np.array(list(chosen.values())) - [900, 1200, 300]).max() < 6 * selection.sigma
    assert abs(documents - 1201) < 6 * selection.sigma


def test_the_accountant_composes_both_parts():
    selection = WordSelection(4.0, 1e-6, 10)
    noise, rare = selection.releases
    alone = Accountant(releases=(noise,)).epsilon(4e-6)
    both = Accountant(releases=(noise, rare)).epsilon(5e-6)
    assert both == pytest.approx(alone, rel=2e-3)
    assert Accountant(releases=(noise, rare)).epsilon(1.001e-6) > Accountant(releases=(noise,)).epsilon(1.001e-6)
