import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from tacit.data import (
    TermCounts,
    light_stem,
    make_documents,
    read_terms,
    read_texts,
    read_vocabulary,
    stemmed,
    term_counts,
    tfidf,
)
from tacit.errors import InvalidInputError


def test_texts_are_read_in_order_with_their_names(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "one.txt").write_text("größer", encoding="utf-8")
    (tmp_path / "a.TXT").write_text("\ufefffirst", encoding="utf-8")
    (tmp_path / "notes.md").write_text("not a text")
    found = read_texts(tmp_path)
    assert found.names == ("a.TXT", "b/one.txt")
    assert found.texts == ("first", "größer")


def test_texts_in_other_encodings_and_empty_folders_are_refused(tmp_path):
    with pytest.raises(InvalidInputError, match=r"files that end in \.txt"):
        read_texts(tmp_path)
    (tmp_path / "good.txt").write_text("good")
    (tmp_path / "latin.txt").write_bytes("größer".encode("latin-1"))
    with pytest.raises(InvalidInputError, match=r"every \.txt file in .* to be text in UTF-8"):
        read_texts(tmp_path)
    with pytest.raises(InvalidInputError, match="does not exist"):
        read_texts(tmp_path / "nowhere")
    with pytest.raises(InvalidInputError, match="the file"):
        read_texts(tmp_path / "good.txt")


def test_counts_over_a_public_vocabulary_depend_on_their_own_document_only(tmp_path):
    (tmp_path / "terms").write_text("Moon\n\n  star \ncomet\n")
    texts = ["Moon, moon and STAR", "secret name", ""]
    for vocabulary in (["moon", "star", "comet"], read_terms(tmp_path / "terms"), tmp_path / "terms"):
        result = term_counts(texts, vocabulary=vocabulary)
        assert result.terms == ("moon", "star", "comet")
        assert result.counts.toarray().tolist() == [[2, 1, 0], [0, 0, 0], [0, 0, 0]]
        assert result.vocabulary_is_public
        alone = term_counts(texts[:1], vocabulary=vocabulary)
        assert alone.counts.toarray().tolist() == [[2, 1, 0]]


def test_learned_vocabulary_is_marked_and_counts_are_right():
    data = make_documents(100)
    result = term_counts(data.texts(), min_documents=1, max_fraction=1.0)
    assert not result.vocabulary_is_public
    kept = [data.terms.index(term) for term in result.terms]
    np.testing.assert_array_equal(result.counts.toarray(), data.counts.toarray()[:, kept])
    # scikit-learn's stop words remove a few of the common words, and nothing else is missing.
    assert len(data.terms) - 5 < len(kept) <= len(data.terms)


def test_limits_on_a_learned_vocabulary():
    texts = ["moon star", "moon comet", "moon star", "the and planet"]
    assert term_counts(texts, min_documents=2, max_fraction=0.5).terms == ("star",)
    assert term_counts(texts, min_documents=1, max_fraction=1.0, max_terms=2).terms == ("moon", "star")


@pytest.mark.parametrize("vocabulary", [["moon", "MOON"], ["new moon"], ["a"], [], ["moon", ""]])
def test_vocabulary_that_cannot_be_counted_is_refused(vocabulary):
    with pytest.raises(InvalidInputError, match="vocabulary"):
        term_counts(["moon"], vocabulary=vocabulary)


def test_stems_join_singular_and_plural_and_leave_the_rest():
    words = ["ponies", "caresses", "ties", "houses", "shoes", "goes", "news", "bus", "boss", "ideas", "has", "analysis"]
    cut = ["pony", "caresse", "ty", "house", "shoes", "goes", "new", "bus", "boss", "idea", "has", "analysis"]
    assert [light_stem(word) for word in words] == cut
    assert stemmed("This Dog chases THESE dogs' tails.") == "this dog chase these dog' tail."
    counts = term_counts([stemmed("star stars"), stemmed("Stars!")], vocabulary=["star"])
    assert counts.counts.toarray().tolist() == [[2], [1]]


def test_texts_without_terms_are_refused():
    for texts in ("one text and no list", [], ["", "the"], ["moon"]):
        with pytest.raises(InvalidInputError, match="texts"):
            term_counts(texts)


@pytest.fixture
def counted():
    return term_counts(["moon moon star", "star comet", "the"], vocabulary=["comet", "moon", "star"])


def test_learned_weights_are_those_of_scikit_learn_and_marked(counted):
    texts = ["moon moon star", "star comet", "the"]
    reference = TfidfVectorizer(vocabulary=["comet", "moon", "star"]).fit_transform(texts)
    result = tfidf(counted, idf="learned")
    np.testing.assert_allclose(result.X.toarray(), reference.toarray())
    assert not result.weights_are_public
    assert result.vocabulary_is_public


def test_uniform_and_given_weights_are_public_and_rows_have_unit_length(counted):
    for idf, expected in (("uniform", np.ones(3)), ([1.0, 0.5, 2.0], np.array([1.0, 0.5, 2.0]))):
        result = tfidf(counted, idf=idf)
        assert result.weights_are_public
        np.testing.assert_array_equal(result.idf, expected)
        first = np.array([0, 2, 1]) * expected
        np.testing.assert_allclose(result.X.toarray()[0], first / np.linalg.norm(first))
        np.testing.assert_allclose(np.linalg.norm(result.X.toarray(), axis=1), [1, 1, 0])
    np.testing.assert_array_equal(tfidf(counted).X.toarray(), tfidf(counted, idf="uniform").X.toarray())
    assert counted.counts.toarray().tolist() == [[0, 2, 1], [1, 0, 1], [0, 0, 0]]


def test_public_weights_make_rows_independent_of_other_documents(counted):
    fewer = TermCounts(counted.counts[:1], counted.terms, vocabulary_is_public=False)
    np.testing.assert_array_equal(tfidf(fewer).X.toarray(), tfidf(counted).X.toarray()[:1])
    assert not np.allclose(tfidf(fewer, idf="learned").X.toarray(), tfidf(counted, idf="learned").X.toarray()[:1])
    assert not tfidf(fewer).vocabulary_is_public


@pytest.mark.parametrize("idf", ["smooth", [1.0], [1.0, -1.0, 1.0], [1.0, np.nan, 1.0]])
def test_unusable_weights_are_refused(counted, idf):
    with pytest.raises(InvalidInputError, match="idf"):
        tfidf(counted, idf=idf)


def test_a_dictionary_becomes_a_vocabulary_of_words_that_texts_can_have(tmp_path):
    file = tmp_path / "words"
    file.write_text("Ångström\nAachen's\nthe\nGarden\ngarden\nx\nzebra\n", encoding="utf-8")
    assert read_vocabulary(file) == ("ångström", "garden", "zebra")
    assert read_vocabulary(file, stop_words=True) == ("ångström", "the", "garden", "zebra")
    counts = term_counts(["The garden of a zebra's garden"], vocabulary=read_vocabulary(file))
    assert counts.counts.toarray().tolist() == [[0, 2, 1]]
    file.write_text("It was the best of times,\nit was the worst of times,\nword\n")
    with pytest.raises(InvalidInputError, match="one word per line"):
        read_vocabulary(file)
