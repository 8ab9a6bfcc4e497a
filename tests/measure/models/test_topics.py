import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csc_array, csr_array, csr_matrix

from tacit.data import make_documents
from tacit.errors import InvalidInputError
from tacit.measure import match_topics, top_words, topic_coherence

MEASURES = ("c_npmi", "u_mass")


def by_loops(components, counts, measure, n_words, smoothing=1.0):
    """The definition, one pair at a time, on sets of documents."""
    n = len(counts)
    least = -1.0 if measure == "c_npmi" else math.log(smoothing / n)
    result = []
    for weights in components:
        ranked = sorted(
            (column for column in range(len(weights)) if weights[column] > 0), key=lambda c: (-weights[c], c)
        )
        has = [{row for row in range(n) if counts[row][column] > 0} for column in ranked[:n_words]]
        values = []
        for earlier, later in combinations(has, 2):
            both = len(earlier & later)
            if measure == "u_mass":
                values.append(math.log((both + smoothing) / len(earlier)) if earlier else least)
            elif both in (0, n):
                values.append(1.0 if both else -1.0)
            else:
                pmi = math.log(both * n / (len(earlier) * len(later)))
                values.append(pmi / -math.log(both / n))
        result.append(sum(values) / len(values) if values else least)
    return np.array(result)


@pytest.fixture
def small():
    rng = np.random.default_rng(0)
    counts = rng.poisson(0.4, size=(40, 12))
    counts[:, 3] = 0  # occurs nowhere
    counts[:, 4] = 1  # occurs everywhere
    counts[:, 5] = 2  # likewise
    components = rng.random((6, 12)) * (rng.random((6, 12)) < 0.7)
    components[4] = 0
    components[5] = 0
    components[5, 2] = 1
    return components, counts


@pytest.mark.parametrize("n_words", [2, 5, 10, 50])
@pytest.mark.parametrize("measure", MEASURES)
def test_agrees_with_the_definition_pair_by_pair(small, measure, n_words):
    components, counts = small
    found = topic_coherence(components, counts, measure=measure, n_words=n_words)
    np.testing.assert_allclose(found, by_loops(components, counts, measure, n_words), atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 8), st.integers(2, 7), st.sampled_from(MEASURES))
def test_agrees_with_the_definition_on_tiny_corpora(seed, n_documents, n_terms, measure):
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 3, size=(n_documents, n_terms))
    components = rng.integers(0, 4, size=(3, n_terms))  # many ties, many zeros
    found = topic_coherence(components, counts, measure=measure, n_words=4, smoothing=0.5)
    np.testing.assert_allclose(found, by_loops(components, counts, measure, 4, smoothing=0.5), atol=1e-12)


def test_values_computed_by_hand():
    # Documents: {a}, {a, b}, {a, b, c}, {c}. Words in the order a, b, c.
    counts = [[1, 0, 0], [1, 1, 0], [1, 1, 1], [0, 0, 1]]
    topic = [[3.0, 2.0, 1.0]]
    # D(a)=3, D(b)=2, D(c)=2, D(a,b)=2, D(a,c)=1, D(b,c)=1.
    u_mass = (math.log(3 / 3) + math.log(2 / 3) + math.log(2 / 2)) / 3
    assert topic_coherence(topic, counts, measure="u_mass")[0] == pytest.approx(u_mass)
    # log(P(a,b) / P(a)P(b)) = log(0.5 / 0.375); log(0.25 / 0.375); log(0.25 / 0.25) = 0.
    c_npmi = (math.log(4 / 3) / math.log(2) + math.log(2 / 3) / math.log(4) + 0) / 3
    assert topic_coherence(topic, counts, measure="c_npmi")[0] == pytest.approx(c_npmi)


def test_order_of_words_counts_for_u_mass_only():
    counts = [[1, 0], [1, 1], [1, 0], [0, 1]]
    rare_first, common_first = [[1.0, 2.0]], [[2.0, 1.0]]
    assert topic_coherence(common_first, counts, measure="u_mass")[0] == pytest.approx(math.log(2 / 3))
    assert topic_coherence(rare_first, counts, measure="u_mass")[0] == pytest.approx(math.log(2 / 2))
    assert topic_coherence(rare_first, counts) == topic_coherence(common_first, counts)


@pytest.mark.parametrize("measure", MEASURES)
def test_invariant_to_order_of_documents_and_terms_and_to_scale(small, measure):
    components, counts = small
    components, counts = components[:4], counts[:, np.arange(12) != 4]
    components = np.random.default_rng(1).permuted(np.arange(44.0)).reshape(4, 11)  # no ties to break by column
    rng = np.random.default_rng(2)
    rows, columns, topics = rng.permutation(40), rng.permutation(11), rng.permutation(4)
    found = topic_coherence(components, counts, measure=measure, n_words=6)
    moved = topic_coherence(components[topics][:, columns], counts[rows][:, columns], measure=measure, n_words=6)
    np.testing.assert_allclose(moved, found[topics], atol=1e-12)
    scaled = topic_coherence(7 * components, 3 * counts, measure=measure, n_words=6)
    np.testing.assert_array_equal(scaled, found)


def test_npmi_has_its_bounds_and_reaches_them(small):
    components, counts = small
    found = topic_coherence(components, counts, n_words=6)
    assert ((found >= -1) & (found <= 1)).all()
    always, never = np.repeat(np.eye(2, dtype=int), [2, 2], axis=1), np.eye(4, dtype=int)
    assert topic_coherence([[1.0, 1.0, 0.0, 0.0]], always)[0] == 1
    assert topic_coherence(np.ones((1, 4)), never)[0] == -1
    assert topic_coherence(np.ones((1, 4)), np.ones((3, 4)))[0] == 1


def test_npmi_of_independent_words_is_zero():
    counts = [[i, j] for i in (0, 1) for j in (0, 1)]
    assert topic_coherence([[1.0, 0.5]], counts)[0] == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(("measure", "least"), [("c_npmi", -1), ("u_mass", math.log(1 / 40))])
def test_dead_topics_and_absent_words_get_the_least_value(small, measure, least):
    components, counts = small
    found = topic_coherence(components, counts, measure=measure)
    assert found[4] == pytest.approx(least)
    assert found[5] == pytest.approx(least)
    absent_first = np.zeros((1, 12))
    absent_first[0, [3, 4]] = 2, 1
    assert topic_coherence(absent_first, counts, measure=measure)[0] == pytest.approx(least)


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("form", [csr_array, csr_matrix, csc_array])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_sparse_equals_dense(small, measure, form, dtype):
    components, counts = small
    # More documents than a byte can count.
    counts = np.vstack([counts] * 10)
    dense = topic_coherence(components, counts, measure=measure)
    np.testing.assert_allclose(dense, by_loops(components, counts, measure, 10), atol=1e-12)
    np.testing.assert_array_equal(topic_coherence(components, form(counts.astype(dtype)), measure=measure), dense)


def test_only_positive_entries_are_occurrences_and_repeated_ones_count_once():
    expected = pytest.approx(math.log(2 / 3))
    counts = csr_array(np.array([[1.0, 1.0], [1.0, 2.0], [1.0, 0.0]]))
    for absent in (0.0, -1.0):
        counts.data[1] = absent
        assert topic_coherence([[2.0, 1.0]], counts, measure="u_mass")[0] == expected
    # Column 0 is stored twice in the first row, which a CSR matrix allows.
    repeated = csr_array((np.ones(5), [0, 0, 0, 1, 0], [0, 2, 4, 5]), shape=(3, 2))
    assert topic_coherence([[2.0, 1.0]], repeated, measure="u_mass")[0] == expected


def test_true_topics_are_more_coherent_than_shuffled_ones():
    data = make_documents(400, n_topics=6)
    shuffled = np.random.default_rng(0).permuted(data.topics, axis=1)
    for measure in MEASURES:
        true, noise = (
            topic_coherence(topics, data.counts, measure=measure).mean() for topics in (data.topics, shuffled)
        )
        assert true > noise + 0.1


def test_top_words_by_weight_then_column():
    terms = ["ant", "bee", "cat", "dog"]
    assert top_words([[1, 3, 2, 3], [0, 0, 1, 0], [0, 0, 0, 0]], terms, n=3) == [["bee", "dog", "cat"], ["cat"], []]
    assert top_words([[-1.0, 0.5, 0.0, 0.1]], np.array(terms)) == [["bee", "dog"]]


def test_match_recovers_a_planted_permutation_at_any_scale():
    rng = np.random.default_rng(3)
    left = rng.gamma(0.3, size=(15, 40))
    order = rng.permutation(15)
    right = np.empty_like(left)
    right[order] = left * np.geomspace(1e-200, 1e200, 15)[:, None]
    match = match_topics(left, right)
    np.testing.assert_array_equal(match.permutation, order)
    np.testing.assert_allclose(match.similarities, 1)
    assert match.similarities.max() <= 1
    noisy = match_topics(left, right / right.max(axis=1, keepdims=True) + 0.05 * rng.random(right.shape))
    np.testing.assert_array_equal(noisy.permutation, order)
    assert 0.5 < noisy.mean_similarity < 1


def test_match_is_the_best_of_all_and_not_the_greedy_one():
    # A greedy matching would take the pair (0, 0) at 0.99 and leave (1, 1), which is near zero.
    left = np.array([[1.0, 0.0, 0.0], [0.9, 0.436, 0.0]])
    right = np.array([[0.99, 0.141, 0.0], [0.8, 0.0, 0.6]])
    match = match_topics(left, right)
    cosine = left @ right.T / np.outer(np.linalg.norm(left, axis=1), np.linalg.norm(right, axis=1))
    assert cosine.argmax() == 0
    assert match.permutation.tolist() == [1, 0]
    np.testing.assert_allclose(match.similarities, [cosine[0, 1], cosine[1, 0]])
    assert match.mean_similarity == pytest.approx(match.similarities.mean())


def test_zero_topics_match_nothing():
    match = match_topics([[0.0, 0.0], [1.0, 0.0]], [[2.0, 0.0], [0.0, 1.0]])
    assert match.permutation.tolist() == [1, 0]
    assert match.similarities.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: topic_coherence(np.ones((2, 3)), np.ones((4, 5))), "3 columns"),
        (lambda: topic_coherence(np.ones((2, 3)), np.ones((4, 3)), measure="c_uci"), "measure"),
        (lambda: topic_coherence(np.ones((2, 3)), np.ones((4, 3)), n_words=1), "n_words"),
        (lambda: topic_coherence(np.ones((2, 3)), np.ones((4, 3)), smoothing=0), "smoothing"),
        (lambda: topic_coherence(np.ones(3), np.ones((4, 3))), "components"),
        (lambda: topic_coherence([[1.0, math.nan]], np.ones((4, 2))), "components"),
        (lambda: topic_coherence(csr_array(np.ones((2, 3))), np.ones((4, 3))), "toarray"),
        (lambda: top_words(np.ones((2, 3)), ["one", "two"]), "3 columns"),
        (lambda: top_words(np.ones((2, 3)), "one"), "3 columns"),
        (lambda: match_topics(np.ones((2, 3)), np.ones((3, 3))), "shape of left"),
    ],
)
def test_unusable_input_is_named(call, said):
    with pytest.raises(InvalidInputError, match=said):
        call()


def test_c_v_is_the_mean_cosine_with_the_whole_topic():
    """By hand from the values of c_npmi; words that always occur together have 1, words that never do less."""
    counts = np.array([[1, 1, 0, 1], [1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 1, 0], [0, 0, 0, 1]])
    topic = [[0.5, 0.3, 0.2, 0.0]]
    vectors = np.eye(3)
    for first, second in combinations(range(3), 2):
        pair = np.zeros((1, 4))
        pair[0, [first, second]] = 1
        vectors[first, second] = vectors[second, first] = topic_coherence(pair, counts)[0]
    whole = vectors.sum(axis=0)
    cosines = [row @ whole / np.linalg.norm(row) / np.linalg.norm(whole) for row in vectors]
    assert topic_coherence(topic, counts, measure="c_v") == pytest.approx(np.mean(cosines))
    together = topic_coherence([[1, 1, 0, 0]], [[1, 1, 0, 0], [0, 0, 1, 0]], measure="c_v")
    apart = topic_coherence([[1, 0, 1, 0]], [[1, 1, 0, 0], [0, 0, 1, 0]], measure="c_v")
    assert together[0] == pytest.approx(1.0)
    assert apart[0] == pytest.approx(0.0)
    assert topic_coherence([[1, 0, 0, 0]], counts, measure="c_v")[0] == -1.0
