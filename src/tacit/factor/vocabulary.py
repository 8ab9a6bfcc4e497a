"""A vocabulary, with document frequencies, of private texts: paid for, alone or out of the budget of the fit that uses it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.texts import distinct_words
from tacit.errors import InvalidInputError, words
from tacit.factor.private import check_chargeable, opened
from tacit.privacy.accountant import Accountant
from tacit.privacy.calibration import gaussian_epsilon, gaussian_noise_multiplier, least_multiplier
from tacit.privacy.entropy import insecure_generator
from tacit.privacy.guarantee import Guarantee
from tacit.privacy.ledger import Ledger
from tacit.privacy.releases import GaussianRelease
from tacit.privacy.set_union import MOST_WORDS, STEPS, WordSelection
from tacit.privacy.spending import Spending
from tacit.validation import (
    check_count,
    check_epsilon,
    check_fit_delta,
    check_positive,
    check_rate,
    warn_about_delta,
)

THRESHOLD_SHARE = 0.2
"""Share of delta for words of single documents; the rest is for the noise. The threshold grows with its root-logarithm only."""
MOST_NAMED = 50


@dataclass(frozen=True)
class Rest:
    """What is left of a budget for full-batch Gaussian sums: give both to a private estimator."""

    epsilon: float
    delta: float


@dataclass(frozen=True, eq=False)
class PaidVocabulary:
    """Words that many documents have, and noisy numbers of these documents.

    Attributes
    ----------
    terms : tuple of str
    document_counts : ndarray of shape (n_terms,)
        Noisy numbers of documents that *named* each term: with more than `most_named` different words, a document
        names a part of them.
    n_documents : float
        Noisy.
    guarantee : Guarantee
        Of the vocabulary alone.
    rest : Rest or None
        What a fit may still spend so that both together keep to the budget.
    """

    terms: tuple[str, ...]
    document_counts: NDArray[np.float64]
    n_documents: float
    guarantee: Guarantee
    rest: Rest | None

    @property
    def idf(self) -> NDArray[np.float64]:
        """Inverse document frequencies, as `tacit.data.tfidf` has them, of the noisy numbers: free."""
        counted: NDArray[np.float64] = np.log((1 + max(self.n_documents, 1.0)) / (1 + self.document_counts))
        return 1 + np.maximum(counted, 0.0)

    def joined(self, fit: Guarantee) -> Guarantee:
        """Return the guarantee of the vocabulary and of a fit that used it, together."""
        if not self.guarantee.holds or not fit.holds:
            return fit if not fit.holds else self.guarantee
        return Guarantee.from_releases(
            (*self.guarantee.releases, *fit.releases),
            delta=self.guarantee.delta,
            unit=fit.unit,
            adjacency=fit.adjacency,
            trust=fit.trust,
            assumptions=fit.assumptions,
        )


def private_vocabulary(
    texts: Iterable[str],
    *,
    epsilon: float,
    delta: float,
    share: float = 1.0,
    most_named: int = MOST_NAMED,
    adjacency: str = "add-remove",
    ledger: Ledger | str | os.PathLike[str] | None = None,
    dataset: Any = None,
    purpose: str = "vocabulary",
    insecure_seed: int | None = None,
) -> PaidVocabulary:
    """Learn which words the texts have, under differential privacy.

    Parameters
    ----------
    texts : iterable of str
        The documents.
    epsilon, delta : float
        For the vocabulary and, if `share` is less than 1, for a fit that uses it.
    share : float, default=1.0
        The vocabulary's part of the noise budget (of the sum of the inverse squared noise multipliers).
    most_named : int, default=50
        A document names at most so many of its words, a fixed pseudo-random part if it has more.
    adjacency : {"add-remove", "replace-one"}
    ledger : Ledger or path, optional
        Charged with **both** parts, before anything is computed.
    dataset : optional
        The account to charge: a name, or data whose fingerprint names it; the texts' fingerprint if not given.
    purpose : str
        For the ledger.
    insecure_seed : int, optional
        For tests only; it voids the guarantee.

    Privacy
    -------
    Unit: one document (a row). What leaves: the words that enough documents named, noisy numbers of these documents, and
    the noisy number of all. Why the bound holds: see `tacit.privacy.set_union`. English stop words are left out by a public list.

    Examples
    --------
    >>> from tacit.factor.vocabulary import private_vocabulary
    >>> found = private_vocabulary(["the moon and a star"] * 500 + ["my secret"], epsilon=1.0, delta=1e-6)
    >>> found.terms
    ('moon', 'star')
    """
    check_chargeable(ledger, epsilon, insecure_seed)
    epsilon, delta = check_epsilon(epsilon), check_fit_delta(delta)
    share, most = check_rate(share, "share"), check_count(most_named, "most_named")
    texts, beta = tuple(texts), THRESHOLD_SHARE * delta
    warn_about_delta(delta, len(texts))
    total = least_multiplier(
        lambda z: Accountant(adjacency, WordSelection(check_positive(z, "z"), beta, most).releases).epsilon(delta),
        epsilon,
        start=gaussian_noise_multiplier(epsilon, delta - beta, adjacency=adjacency),
    )
    selection = WordSelection(total / share**0.5, beta, most)
    rest, planned = None, list(selection.releases)
    if share < 1:
        left = total / (1 - share) ** 0.5
        rest = Rest(gaussian_epsilon(left, delta, adjacency=adjacency), delta)
        planned.append(GaussianRelease("fit", noise_multiplier=left, lattice_sigma=float(STEPS), dimension=MOST_WORDS))
    if ledger is not None:
        account = dataset if dataset is not None else tuple(np.array(text) for text in texts)
        Spending.on(opened(ledger), account, purpose).charge(
            Guarantee.from_releases(planned, delta=delta, adjacency=adjacency)
        )
    generator = None if insecure_seed is None else insecure_generator(insecure_seed)
    chosen, documents = selection.select((named_words(text, most) for text in texts), generator=generator)
    guarantee = Guarantee.from_releases(selection.releases, delta=delta, adjacency=adjacency)
    if generator is not None:
        guarantee = guarantee.voided("the noise came from a fixed seed (insecure_seed), so anyone can subtract it")
    counts = np.array(list(chosen.values()), dtype=np.float64)
    return PaidVocabulary(tuple(chosen), counts, documents, guarantee, rest)


def named_words(text: str, most: int) -> frozenset[str]:
    """Return the different words of a text; of too many, those that a hash of the text and the word puts first.

    It depends on this text alone, and treats all words alike: no word of the language is preferred over texts.
    """
    found = distinct_words(text)
    if len(found) <= most:
        return found
    key = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=32).digest()

    def place(word: str) -> bytes:
        return hashlib.blake2b(word.encode("utf-8", "surrogatepass"), key=key, digest_size=8).digest()

    return frozenset(sorted(found, key=place)[:most])


def check_found(vocabulary: PaidVocabulary, least: int) -> PaidVocabulary:
    """Refuse a vocabulary of fewer than `least` words, with what to do."""
    if len(vocabulary.terms) < least:
        raise InvalidInputError(
            f"at least {least} words that enough documents have",
            words(f"{len(vocabulary.terms)}; the budget of the vocabulary is spent"),
            "Use a larger epsilon, more documents, or a public vocabulary, which costs nothing.",
        )
    return vocabulary
