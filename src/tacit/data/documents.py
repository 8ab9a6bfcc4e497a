"""Synthetic documents: counts of English words, drawn from a topic model with readable topics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tacit.errors import InvalidInputError, parameter
from tacit.validation import check_count, check_positive, check_seed

if TYPE_CHECKING:
    from scipy.sparse import csr_array


THEMES = MappingProxyType(
    {
        "health": """
            patient doctor hospital disease treatment nurse symptom medicine clinic vaccine surgery
            diagnosis infection therapy blood virus fever pain dose heart lung injury wellness
            physician immunity
        """,
        "sport": """
            team player season coach goal match league score championship stadium tournament
            defender striker referee athlete training victory defeat football tennis medal sprint
            rival captain fans
        """,
        "space": """
            orbit satellite rocket planet telescope astronaut moon launch galaxy mission comet
            asteroid gravity lunar star spacecraft shuttle solar eclipse universe cosmic probe
            nebula crater meteor
        """,
        "cooking": """
            recipe oven butter flour sauce garlic onion sugar bake salt dough pepper simmer tomato
            cheese soup spice skillet kitchen vinegar roast lemon pastry whisk cinnamon
        """,
        "finance": """
            market stock investor bank profit bond inflation loan dividend fund price currency
            portfolio mortgage debt broker equity earnings asset revenue yield merger audit deposit
            budget
        """,
        "music": """
            song guitar album concert melody singer drummer piano rhythm orchestra lyrics chorus
            violin jazz opera tempo harmony composer vinyl tune chord symphony ballad microphone
            encore
        """,
        "travel": """
            hotel flight passport airport tourist luggage beach journey train itinerary museum visa
            cruise island hostel airline suitcase guidebook border harbour sightseeing souvenir
            reservation ferry map
        """,
        "law": """
            court judge lawyer trial verdict jury statute appeal plaintiff defendant evidence
            witness contract attorney sentence crime testimony lawsuit prosecutor liability legal
            ruling tribunal clause felony
        """,
        "gardening": """
            garden soil seed plant flower compost pruning lawn rose shrub harvest mulch weed
            fertiliser greenhouse tulip hedge bulb orchard root blossom sapling trowel leaf watering
        """,
        "computing": """
            software code server database algorithm network compiler keyboard programmer processor
            debug browser password encryption laptop memory kernel internet hardware syntax router
            pixel variable download file
        """,
    }
)
"""Theme to its words, separated by white space; no word belongs to two themes."""

COMMON = """
    people time year day week work world life group place number case point question problem reason
    result way fact idea story area change report member level country city family friend morning
    moment month plan news view term form start
"""
"""Words that every theme uses, separated by white space, most frequent first."""


# The weight of the common words in every topic. Set by hand.
_COMMON_WEIGHT = 0.3
# Shifts the ranks of Zipf's law, so that the first word of a topic does not outweigh all the others. Set by hand.
_ZIPF_SHIFT = 2
# Documents that are dense at the same time; it bounds the memory.
_ROWS_AT_ONCE = 4096


@dataclass(frozen=True, eq=False)
class Documents:
    """Word counts of documents, with the topic model from which they were drawn.

    Parameters
    ----------
    counts : csr_array of int64, shape (n_documents, n_terms)
        The count of each term in each document.
    terms : tuple of str
        The terms in alphabetical order, which is the order of the columns.
    topics : ndarray of shape (n_topics, n_terms)
        The probability of each term in each topic; rows sum to one.
    proportions : ndarray of shape (n_documents, n_topics)
        The weight of each topic in each document; rows sum to one.
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
    proportion to :math:`1 / (rank + 2)`. T does not depend on the seed, so the topics are always the same.

    Parameters
    ----------
    n_documents : int
        Number of documents.
    n_topics : int
        Number of topics, at most 10.
    words_per_document : int
        Average length of a document; no document is empty.
    concentration : float
        :math:`\alpha`; the smaller, the more a document concentrates on a single topic.
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
            f"n_topics to be at most {len(THEMES)}", parameter(n_topics), "Give a smaller n_topics."
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
        for weight, words in ((1 - _COMMON_WEIGHT, own[name]), (_COMMON_WEIGHT, common)):
            weights = 1 / (np.arange(1, len(words) + 1) + _ZIPF_SHIFT)
            row[[column[word] for word in words]] = weight * weights / weights.sum()
    return tuple(terms), topics


def _counts(
    rng: np.random.Generator,
    lengths: NDArray[np.int64],
    proportions: NDArray[np.float64],
    topics: NDArray[np.float64],
) -> csr_array[np.int64, tuple[int, int]]:
    """Draw the counts of one block of documents at a time, so that only one block is dense."""
    from scipy.sparse import csr_array, vstack

    blocks = []
    for start in range(0, len(lengths), _ROWS_AT_ONCE):
        block = slice(start, start + _ROWS_AT_ONCE)
        mixture = proportions[block] @ topics
        # The multinomial refuses a sum above one, which rounding can cause.
        dense = rng.multinomial(lengths[block], mixture / mixture.sum(axis=1, keepdims=True))
        blocks.append(csr_array(dense))
    return vstack(blocks, format="csr")
