"""A vocabulary that is paid for: it stays within the budget, alone and with the fit that uses it."""

import numpy as np
import pytest

from tacit import Ledger, PrivateNMF
from tacit.data import make_documents, term_counts, tfidf
from tacit.errors import BudgetError, InvalidInputError
from tacit.privacy.fingerprint import fingerprint
from tacit.privacy.vocabulary import check_found, distinct_words, named_words, private_vocabulary

TEXTS = tuple(make_documents(1500, n_topics=3, words_per_document=50, random_state=1).texts())
TERMS = term_counts(TEXTS).terms


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_the_vocabulary_alone_costs_its_budget(adjacency):
    found = private_vocabulary(TEXTS, epsilon=2.0, delta=1e-6, adjacency=adjacency)
    assert 1.99 < found.guarantee.epsilon <= 2.0
    assert found.guarantee.delta == 1e-6
    assert found.rest is None
    assert len(found.terms) > 20
    assert set(found.terms) <= {word for text in TEXTS for word in distinct_words(text)}


@pytest.mark.parametrize("method", ["moments", "rounds"])
def test_vocabulary_and_fit_together_cost_the_budget(method):
    found = private_vocabulary(TEXTS, epsilon=3.0, delta=1e-6, fraction=0.2)
    rows = tfidf(term_counts(TEXTS, vocabulary=found.terms), idf=found.idf)
    assert rows.weights_are_public
    model = PrivateNMF(3, epsilon=found.rest.epsilon, delta=found.rest.delta, method=method, rounds=3).fit(rows.X)
    both = found.joined(model.guarantee_)
    assert both.delta == 1e-6
    assert 2.98 < both.epsilon <= 3.0
    assert both.epsilon > max(found.guarantee.epsilon, model.guarantee_.epsilon)
    assert len(both.releases) == len(found.guarantee.releases) + len(model.guarantee_.releases)


@pytest.mark.slow
def test_frequencies_are_those_of_the_documents():
    found = private_vocabulary(TEXTS, epsilon=20.0, delta=1e-6, max_words=200, insecure_seed=2)
    counts = term_counts(TEXTS, vocabulary=found.terms)
    true = np.asarray((counts.counts > 0).sum(axis=0)).ravel()
    assert np.abs(found.document_counts - true).max() < 0.2 * true.max()
    assert np.corrcoef(found.idf, tfidf(counts, idf="learned").idf)[0, 1] > 0.9
    assert abs(found.n_documents - len(TEXTS)) < 100


def test_a_fixed_seed_voids_the_guarantee():
    found = private_vocabulary(TEXTS, epsilon=1.0, delta=1e-6, insecure_seed=0)
    assert not found.guarantee.holds
    assert "insecure_seed" in str(found.guarantee)


def test_a_text_names_a_part_of_its_words_that_depends_on_itself_alone():
    text = " ".join(f"word{i}" for i in range(300))
    named = named_words(text, 40)
    assert len(named) == 40
    assert named == named_words(text, 40)
    assert named <= distinct_words(text)
    assert named != named_words(text + " more", 40), "texts alike do not all name the same words"
    assert named_words("The moon, the MOON and a star", 40) == {"moon", "star"}


@pytest.mark.slow
def test_without_a_name_the_account_is_that_of_the_texts_content(tmp_path):
    ledger = Ledger(tmp_path / "ledger.db")
    account = fingerprint(tuple(np.array(text) for text in TEXTS))
    ledger.open_account(account, 3.1, 1e-6)
    private_vocabulary(TEXTS, epsilon=3.0, delta=1e-6, ledger=ledger)
    assert len(ledger.history(account)) == 1


@pytest.mark.slow
def test_a_ledger_is_charged_once_for_both_and_refuses_before_looking(tmp_path):
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.open_account("texts", 3.1, 1e-6)
    private_vocabulary(TEXTS, epsilon=3.0, delta=1e-6, fraction=0.2, ledger=ledger, dataset="texts")
    assert len(ledger.history("texts")) == 1
    assert ledger.remaining("texts").spent == pytest.approx(3.0, rel=1e-2)

    def poisoned():
        yield from TEXTS[:1]

    with pytest.raises(BudgetError):
        private_vocabulary(poisoned(), epsilon=3.0, delta=1e-6, ledger=ledger, dataset="texts")
    assert len(ledger.history("texts")) == 1


@pytest.mark.parametrize("bad", [{"epsilon": 0}, {"delta": 2}, {"fraction": 0}, {"max_words": 0}])
def test_bad_parameters(bad):
    with pytest.raises(InvalidInputError):
        private_vocabulary(TEXTS, **{"epsilon": 1.0, "delta": 1e-6, **bad})


def test_too_small_a_vocabulary_is_refused_with_what_to_do():
    found = private_vocabulary(["a lonely text"], epsilon=1.0, delta=1e-6)
    assert found.terms == ()
    with pytest.raises(InvalidInputError, match="more documents"):
        check_found(found, 3)
