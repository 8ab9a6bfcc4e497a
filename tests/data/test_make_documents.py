import re

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.stats import chi2
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, CountVectorizer

from tacit.data import Documents, make_documents
from tacit.data.documents import COMMON, THEMES
from tacit.errors import InvalidInputError


@pytest.fixture(scope="module")
def default() -> Documents:
    return make_documents()


def test_same_seed_same_data_other_seed_other_data(default):
    again, other = make_documents(), make_documents(random_state=1)
    assert (default.counts != again.counts).nnz == 0
    np.testing.assert_array_equal(default.proportions, again.proportions)
    assert (default.counts != other.counts).nnz > 0
    assert not np.array_equal(default.proportions, other.proportions)
    # The topics are fixed; they do not depend on the seed.
    np.testing.assert_array_equal(default.topics, other.topics)


def test_shapes_types_and_distributions(default):
    n_terms = 6 * 25 + len(COMMON.split())
    assert isinstance(default.counts, csr_array)
    assert default.counts.shape == (500, n_terms)
    assert default.counts.dtype == np.int64
    assert default.counts.data.min() >= 1
    assert len(default.terms) == n_terms
    assert default.topics.shape == (6, n_terms)
    assert default.proportions.shape == (500, 6)
    for distributions in (default.topics, default.proportions):
        assert distributions.min() >= 0
        np.testing.assert_allclose(distributions.sum(axis=1), 1)


def test_words_are_distinct_and_survive_a_text_pipeline():
    words = [word for theme in THEMES.values() for word in theme.split()] + COMMON.split()
    assert len(THEMES) == 10
    assert all(len(theme.split()) == 25 for theme in THEMES.values())
    assert len(set(words)) == len(words)
    assert all(re.fullmatch("[a-z]{3,}", word) for word in words)
    assert ENGLISH_STOP_WORDS.isdisjoint(words)


def test_topics_rank_their_own_words_by_zipf(default):
    common = np.isin(default.terms, COMMON.split())
    for name, topic in zip(default.topic_names, default.topics, strict=True):
        own = THEMES[name].split()
        order = [default.terms[place] for place in np.argsort(-np.where(common, 0, topic), kind="stable")]
        assert order[:25] == own
        assert topic[common].sum() == pytest.approx(0.3)
        weights = np.array([topic[default.terms.index(word)] for word in own])
        np.testing.assert_allclose(weights[0] / weights, (np.arange(1, 26) + 2) / 3)


def test_terms_are_as_frequent_as_the_topics_say(default):
    """Chi-square over the terms, among the documents led by each topic, at a level of 0.001 in all."""
    counts, lengths = default.counts.toarray(), default.counts.sum(axis=1)
    mixture = default.proportions @ default.topics
    leader = default.proportions.argmax(axis=1)
    for topic in range(6):
        led = leader == topic
        p, n = mixture[led], lengths[led]
        deviation = (counts[led] - n[:, None] * p).sum(axis=0)
        covariance = np.diag(n @ p) - (p * n[:, None]).T @ p
        # The last term follows from the others.
        statistic = deviation[:-1] @ np.linalg.solve(covariance[:-1, :-1], deviation[:-1])
        tail = chi2.sf(statistic, len(deviation) - 1)
        assert 0.001 / 6 / 2 < tail < 1 - 0.001 / 6 / 2


def test_each_document_follows_its_own_proportions():
    data = make_documents(300, words_per_document=400, random_state=2)
    own = np.array([np.isin(data.terms, THEMES[name].split()) for name in data.topic_names])
    shares = data.counts @ own.T / data.counts.sum(axis=1)[:, None]
    error = shares - 0.7 * data.proportions
    # A fraction of 400 words has a standard deviation of at most 0.5 / 20.
    assert np.abs(error).max() < 5 * 0.025
    assert np.corrcoef(shares.ravel(), data.proportions.ravel())[0, 1] > 0.99


def test_lengths_are_poisson_and_never_zero():
    lengths = make_documents(4000, words_per_document=3).counts.sum(axis=1)
    assert lengths.min() == 1
    # Mean and variance of 4000 Poisson(2) draws, four standard errors.
    assert abs((lengths - 1).mean() - 2) < 4 * np.sqrt(2 / 4000)
    assert abs((lengths - 1).var() - 2) < 4 * np.sqrt((2 + 2 * 4) / 4000)


def test_concentration_sets_how_mixed_a_document_is():
    for concentration in (0.05, 1.0, 20.0):
        shares = make_documents(3000, n_topics=4, concentration=concentration).proportions
        # The variance of an entry of Dirichlet(a, a, a, a) is (1/4)(3/4) / (4a + 1).
        assert shares.var(axis=0).mean() == pytest.approx(3 / 16 / (4 * concentration + 1), rel=0.1)


def test_texts_have_the_counted_words_in_shuffled_order(default):
    texts = list(default.texts())
    vectorizer = CountVectorizer()
    assert (vectorizer.fit_transform(texts) != default.counts).nnz == 0
    assert tuple(vectorizer.get_feature_names_out()) == default.terms
    assert texts == list(default.texts(random_state=0))
    other = list(default.texts(random_state=1))
    assert other != texts
    assert sorted(other[0].split()) == sorted(texts[0].split())
    assert texts[0].split() != sorted(texts[0].split())


def test_blocks_join_without_a_seam():
    data = make_documents(5000, n_topics=2, words_per_document=20)
    assert data.counts.shape[0] == 5000
    assert data.counts.sum(axis=1).min() >= 1
    late = slice(4096, None)
    own = np.isin(data.terms, THEMES["health"].split())
    shares = data.counts[late][:, np.flatnonzero(own)].sum(axis=1) / data.counts[late].sum(axis=1)
    assert np.corrcoef(shares, data.proportions[late, 0])[0, 1] > 0.9


@pytest.mark.parametrize(
    "settings",
    [
        {"n_documents": 0},
        {"n_topics": 0},
        {"n_topics": 11},
        {"words_per_document": 0},
        {"words_per_document": 10.5},
        {"concentration": 0},
        {"concentration": float("nan")},
        {"random_state": "seed"},
    ],
)
def test_impossible_settings_are_refused(settings):
    with pytest.raises(InvalidInputError, match=next(iter(settings))):
        make_documents(**settings)


def test_texts_refuse_an_impossible_seed(default):
    with pytest.raises(InvalidInputError, match="random_state"):
        next(default.texts(random_state=-1))
