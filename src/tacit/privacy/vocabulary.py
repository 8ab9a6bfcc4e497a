r"""The words of private texts, with the number of documents that use each, under differential privacy.

The words of private documents cannot be listed in advance, so there is no vector of public length to add noise to. Each
document (the unit) names at most :math:`m` of its words. Every word that any document named gets discrete Gaussian noise on
the number of documents that named it. A word is released, with its noisy number, if that number reaches a threshold; words
that nobody named are not looked at. The noisy number of documents is released as well. The budget is that of the vocabulary
alone, or a part of the budget of the fit that uses it.

*Claim.* Let :math:`\sigma = z\sqrt{m+1}`, and let the threshold be such that the noise alone lifts a word that one document
named over it with probability at most :math:`\beta/m`. Then the release is as private as a Gaussian release with noise
multiplier :math:`z` composed with a step that is :math:`(-\log(1-\beta), \beta)`-differentially private.

*Proof.* Let D' be D with one document more, U the words named in D and N the at most :math:`m` words that only the new
document named. (i) On U and the number of documents, the counts of D and D' differ by at most 1 in at most :math:`m+1`
places, so by at most :math:`\sqrt{m+1}` in L2: their noisy values are a Gaussian release with multiplier z, and leaving
out those below the threshold is post-processing. (ii) On N, D releases nothing. D' releases nothing either, except with
probability at most :math:`m \cdot \beta/m = \beta`, independently of (i), as the noise is independent. So between D' and D
any outcome of (ii) is as likely except for an event of probability :math:`\beta`, and between D and D' the only outcome is
likelier by at most :math:`1/(1-\beta)`. (iii) The output is (i) and (ii) together, a composition. Under replace-one adjacency
the counts move by less than :math:`2\sqrt{m+1}`, which is what the accountant's doubling covers, and there are at most m
words on either side that only one of the two documents names: each side is bounded as in (ii). What a document names
depends on that document alone. :math:`\square`

The tail of the discrete Gaussian is at most that of the continuous one, moved by one step, :math:`P(Y \ge k) \le
P(N(0, \sigma^2) \ge k - 1)` (Canonne, Kamath & Steinke 2020, proposition 25).

References
----------
A. Korolova, K. Kenthapadi, N. Mishra, A. Ntoulas. Releasing search queries and clicks privately. WWW 2009.
S. Gopi, P. Gulhane, J. Kulkarni, J. Shen, M. Shokouhi, S. Yekhanin. Differentially private set union. ICML 2020.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtri_exp

from tacit.errors import InvalidInputError, kind_of, words
from tacit.privacy.accountant import Accountant
from tacit.privacy.calibration import gaussian_epsilon, gaussian_noise_multiplier, least_multiplier
from tacit.privacy.guarantee import Guarantee
from tacit.privacy.ledger import Ledger
from tacit.privacy.ledger.spending import Spending, check_chargeable, open_ledger
from tacit.privacy.noise import discrete_gaussian
from tacit.privacy.noise.entropy import insecure_generator
from tacit.privacy.releases import ApproximateRelease, GaussianRelease, Release
from tacit.validation import (
    check_count,
    check_delta,
    check_epsilon,
    check_fit_delta,
    check_positive,
    check_rate,
    warn_about_delta,
)

STEPS = 2**12
"""Grid steps per document: finer than whole documents, so that the cost of the grid is negligible (sigma is at least
thousands of steps)."""
MOST_WORDS = 2**40
"""More different words than there can be. It enters the (tiny) cost of the grid in place of the true number, which is
private."""
_WORD = re.compile(r"(?u)\b\w\w+\b")
"""A term, as in scikit-learn's CountVectorizer."""
THRESHOLD_SHARE = 0.2
"""Fraction of delta for words of single documents; the noise gets the rest. The threshold grows only with the square root
of the logarithm of its inverse, so that the exact value matters little."""
MOST_NAMED = 50
"""Default number of words that a document may name: a convention, no measurement of the best number is recorded. More
words find rarer ones in long documents, and raise the noise with their square root."""


@dataclass(frozen=True)
class WordSelection:
    """How words are selected. All parameters are public.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of the noise over the largest L2 norm of what a document contributes.
    threshold_delta : float
        Upper bound on the probability that any word of a single document, which no other document named, is released.
    most_words : int
        Largest number of words that a document may name.

    Examples
    --------
    >>> from tacit.privacy.vocabulary import WordSelection
    >>> selection = WordSelection(noise_multiplier=2.0, threshold_delta=1e-7, most_words=10)
    >>> round(selection.sigma, 2), round(selection.threshold, 1)
    (6.63, 38.2)
    """

    noise_multiplier: float
    threshold_delta: float
    most_words: int

    def __post_init__(self) -> None:
        check_positive(self.noise_multiplier, "noise_multiplier")
        check_delta(self.threshold_delta)
        check_count(self.most_words, "most_words")

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise, in documents."""
        return self.noise_multiplier * math.sqrt(self.most_words + 1)

    @property
    def threshold(self) -> float:
        """Smallest noisy number of documents with which a word is released."""
        tail = -float(ndtri_exp(math.log(self.threshold_delta / self.most_words)))  # P(N(0,1) >= tail) = beta/m
        # 1e-12 is for the rounding of this product; + 1 because of the bound on the discrete tail (see the module)
        steps = math.ceil(self.sigma * STEPS * tail * (1 + 1e-12)) + 1
        return 1.0 + steps / STEPS

    @property
    def releases(self) -> tuple[Release, ...]:
        """The releases for the accountant: the two parts of the claim."""
        noise = GaussianRelease(
            "words",
            noise_multiplier=self.noise_multiplier,
            lattice_sigma=self.sigma * STEPS,
            dimension=MOST_WORDS,
        )
        beta = self.threshold_delta
        return noise, ApproximateRelease("words of one document", epsilon=-math.log1p(-beta), delta=beta)

    def singleton_probability(self) -> float:
        """Return an upper bound on the probability that a word that only one document named is released."""
        steps = round((self.threshold - 1.0) * STEPS)
        return math.exp(float(log_ndtr(-(steps - 1) / (self.sigma * STEPS))))

    def select(
        self, named: Iterable[frozenset[str]], *, generator: Generator | None = None
    ) -> tuple[dict[str, float], float]:
        """Return the released words, sorted, with their noisy numbers of documents; and the noisy number of all documents.

        `named` holds the words that each document names. `generator` is for tests: predictable noise protects nothing.
        """
        counts, documents = self.counted(named)
        words = sorted(counts)
        noise = discrete_gaussian(self.sigma * STEPS, len(words) + 1, generator=generator)
        values = np.array([*(counts[word] for word in words), documents]) * STEPS + noise
        least = round(self.threshold * STEPS)
        chosen = {word: float(value) / STEPS for word, value in zip(words, values[:-1], strict=True) if value >= least}
        return chosen, float(values[-1]) / STEPS

    def counted(self, named: Iterable[frozenset[str]]) -> tuple[Mapping[str, int], int]:
        """Return the number of documents that named each word, and of all documents; refuse one that names too many."""
        counts: Counter[str] = Counter()
        documents = 0
        for chosen in named:
            if len(chosen) > self.most_words:
                raise InvalidInputError(
                    f"at most {self.most_words} words named by a document",
                    kind_of(words),
                    "Select fewer words of each document first.",
                )
            counts.update(chosen)
            documents += 1
        return counts, documents


def distinct_words(text: str) -> frozenset[str]:
    """Return the different terms of one text, in lower case, without English stop words (a public list)."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    distinct: frozenset[str] = frozenset(_WORD.findall(text.lower())) - ENGLISH_STOP_WORDS
    return distinct


@dataclass(frozen=True)
class Rest:
    """The budget that is left for full-batch Gaussian sums: pass both numbers to a private estimator."""

    epsilon: float
    delta: float


@dataclass(frozen=True, eq=False)
class PaidVocabulary:
    """Words that many documents use, with the noisy numbers of these documents.

    Attributes
    ----------
    terms : tuple of str
    document_counts : ndarray of shape (n_terms,)
        Noisy numbers of documents that *named* each term. A document with more than `max_words` different words names
        a part of them.
    n_documents : float
        Noisy number of documents.
    guarantee : Guarantee
        The guarantee of the vocabulary alone.
    rest : Rest or None
        What a fit may still spend so that both together stay within the budget.
    """

    terms: tuple[str, ...]
    document_counts: NDArray[np.float64]
    n_documents: float
    guarantee: Guarantee
    rest: Rest | None

    @property
    def idf(self) -> NDArray[np.float64]:
        """Inverse document frequencies of the noisy numbers, as in `tacit.data.tfidf`; computing them costs nothing."""
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
    fraction: float = 1.0,
    max_words: int = MOST_NAMED,
    adjacency: str = "add-remove",
    ledger: Ledger | str | os.PathLike[str] | None = None,
    dataset: object = None,
    purpose: str = "vocabulary",
    insecure_seed: int | None = None,
) -> PaidVocabulary:
    """Return words that enough texts use, with differential privacy.

    Parameters
    ----------
    texts : iterable of str
        The documents.
    epsilon, delta : float
        The budget of the vocabulary and, if `fraction` is less than 1, of a fit that uses it.
    fraction : float, default=1.0
        The vocabulary's part of the noise budget (of the sum of the inverse squared noise multipliers).
    max_words : int, default=50
        Largest number of words that a document names. A document with more names a fixed pseudo-random part of them.
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
    the noisy number of all. Why the bound holds: see `tacit.privacy.vocabulary`. English stop words are removed with a
    public list.

    Examples
    --------
    >>> from tacit.privacy.vocabulary import private_vocabulary
    >>> result = private_vocabulary(["the moon and a star"] * 500 + ["my secret"], epsilon=1.0, delta=1e-6)
    >>> result.terms
    ('moon', 'star')
    """
    check_chargeable(ledger, epsilon, insecure_seed)
    epsilon, delta = check_epsilon(epsilon), check_fit_delta(delta)
    fraction, most = check_rate(fraction, "fraction"), check_count(max_words, "max_words")
    texts, beta = tuple(texts), THRESHOLD_SHARE * delta
    warn_about_delta(delta, len(texts))
    total = least_multiplier(
        lambda z: Accountant(adjacency, WordSelection(check_positive(z, "z"), beta, most).releases).epsilon(delta),
        epsilon,
        start=gaussian_noise_multiplier(epsilon, delta - beta, adjacency=adjacency),
    )
    selection = WordSelection(total / fraction**0.5, beta, most)
    rest, planned = None, list(selection.releases)
    if fraction < 1:
        left = total / (1 - fraction) ** 0.5
        rest = Rest(gaussian_epsilon(left, delta, adjacency=adjacency), delta)
        planned.append(GaussianRelease("fit", noise_multiplier=left, lattice_sigma=float(STEPS), dimension=MOST_WORDS))
    if ledger is not None:
        account = dataset if dataset is not None else tuple(np.array(text) for text in texts)
        Spending.on(open_ledger(ledger), account, purpose).charge(
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
    """Return the different words of a text; if there are too many, those with the smallest hash of text and word.

    The choice depends on this text alone and prefers no word of the language.
    """
    distinct = distinct_words(text)
    if len(distinct) <= most:
        return distinct
    key = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=32).digest()

    def place(word: str) -> bytes:
        return hashlib.blake2b(word.encode("utf-8", "surrogatepass"), key=key, digest_size=8).digest()

    return frozenset(sorted(distinct, key=place)[:most])


def check_found(vocabulary: PaidVocabulary, least: int) -> PaidVocabulary:
    """Return the vocabulary, or raise an error if it has fewer than `least` words."""
    if len(vocabulary.terms) < least:
        raise InvalidInputError(
            f"at least {least} words that enough documents have",
            words(f"{len(vocabulary.terms)}; the budget of the vocabulary is spent"),
            "Use a larger epsilon, more documents, or a public vocabulary, which costs nothing.",
        )
    return vocabulary
