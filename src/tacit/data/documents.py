"""Bags of English words, drawn from a topic model with readable topics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tacit.data.words import COMMON, THEMES
from tacit.errors import InvalidInputError, parameter
from tacit.validation import check_count, check_positive, check_seed

if TYPE_CHECKING:
    from scipy.sparse import csr_array

# A topic spends this share of its words on those that all topics have in common.
_COMMON_SHARE = 0.3
# Shifts the ranks of Zipf's law, so that the first word of a topic does not outweigh all the others.
_ZIPF_SHIFT = 2
_ROWS_AT_ONCE = 4096


@dataclass(frozen=True, eq=False)
class Documents:
    """Word counts of documents, with the topic model they were drawn from.

    Parameters
    ----------
    counts : csr_array of int64, shape (n_documents, n_terms)
        How often each document has each term.
    terms : tuple of str
        The terms in alphabetical order, which is the order of the columns.
    topics : ndarray of shape (n_topics, n_terms)
        The probability of each term in each topic; rows sum to one.
    proportions : ndarray of shape (n_documents, n_topics)
        The share of each topic in each document; rows sum to one.
    topic_names : tuple of str
        The theme of each topic.
    """

    counts: csr_array[np.int64, tuple[int, int]]
    terms: tuple[str, ...]
    topics: NDArray[np.float64]
    proportions: NDArray[np.float64]
    topic_names: tuple[str, ...]

    def texts(self, random_state: int = 0) -> Iterator[str]:
        """Yield each document as its words, separated by spaces, in an order drawn with `random_state`."""
        rng = np.random.default_rng(check_seed(random_state))
        terms = np.array(self.terms)
        for start, end in pairwise(self.counts.indptr):
            words = np.repeat(self.counts.indices[start:end], self.counts.data[start:end])
            yield " ".join(terms[rng.permutation(words)])


def make_documents(
    n_documents: int = 500,
    *,
    n_topics: int = 6,
    words_per_document: int = 60,
    concentration: float = 0.2,
    random_state: int = 0,
) -> Documents:
    r"""Draw documents from latent Dirichlet allocation with themes such as health, sport and space.

    Document i has topic proportions, a length and counts

    .. math::
        \theta_i \sim \mathrm{Dirichlet}(\alpha, \dots, \alpha), \qquad
        N_i \sim 1 + \mathrm{Poisson}(\bar N - 1), \qquad
        x_i \sim \mathrm{Multinomial}(N_i, \theta_i T).

    Row k of T gives 0.7 of its weight to the theme's own 25 words and 0.3 to the common words, each in
    proportion to :math:`1 / (rank + 2)`. T does not depend on the seed: a topic always reads the same.

    Parameters
    ----------
    n_documents : int
        Number of documents.
    n_topics : int
        Number of topics, at most 10.
    words_per_document : int
        Average length of a document; no document is empty.
    concentration : float
        :math:`\alpha`; the smaller, the more a document keeps to a single topic.
    random_state : int
        Seed; the same seed gives the same data.

    Returns
    -------
    Documents
        The counts and their truth.

    Examples
    --------
    >>> data = make_documents(20, n_topics=2)
    >>> data.topic_names
    ('health', 'sport')
    >>> data.terms[data.topics[0].argmax()]
    'patient'
    """
    n_documents = check_count(n_documents, "n_documents")
    n_topics = check_count(n_topics, "n_topics")
    if n_topics > len(THEMES):
        raise InvalidInputError(
            f"n_topics to be at most {len(THEMES)}", parameter(n_topics), "There are no more themes."
        )
    words_per_document = check_count(words_per_document, "words_per_document")
    concentration = check_positive(concentration, "concentration")
    rng = np.random.default_rng(check_seed(random_state))

    names = tuple(THEMES)[:n_topics]
    terms, topics = _topics(names)
    proportions = rng.dirichlet(np.full(n_topics, concentration), size=n_documents)
    lengths = 1 + rng.poisson(words_per_document - 1, size=n_documents)
    return Documents(
        counts=_counts(rng, lengths, proportions, topics),
        terms=terms,
        topics=topics,
        proportions=proportions,
        topic_names=names,
    )


def _topics(names: tuple[str, ...]) -> tuple[tuple[str, ...], NDArray[np.float64]]:
    """Return the terms of the named themes in alphabetical order, and the distribution of each theme."""
    common = COMMON.split()
    own = {name: THEMES[name].split() for name in names}
    terms = sorted(set(common).union(*own.values()))
    column = {term: place for place, term in enumerate(terms)}
    topics = np.zeros((len(names), len(terms)))
    for row, name in zip(topics, names, strict=True):
        for share, words in ((1 - _COMMON_SHARE, own[name]), (_COMMON_SHARE, common)):
            weights = 1 / (np.arange(1, len(words) + 1) + _ZIPF_SHIFT)
            row[[column[word] for word in words]] = share * weights / weights.sum()
    return tuple(terms), topics


def _counts(
    rng: np.random.Generator,
    lengths: NDArray[np.int64],
    proportions: NDArray[np.float64],
    topics: NDArray[np.float64],
) -> csr_array[np.int64, tuple[int, int]]:
    """Draw the counts a block of documents at a time, so that only one block is ever dense."""
    from scipy.sparse import csr_array, vstack

    blocks = []
    for start in range(0, len(lengths), _ROWS_AT_ONCE):
        block = slice(start, start + _ROWS_AT_ONCE)
        mixture = proportions[block] @ topics
        # The multinomial refuses a sum above one, which rounding can cause.
        dense = rng.multinomial(lengths[block], mixture / mixture.sum(axis=1, keepdims=True))
        blocks.append(csr_array(dense))
    return vstack(blocks, format="csr")
