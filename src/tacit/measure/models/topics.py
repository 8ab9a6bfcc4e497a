"""Topics of a model: their words, their coherence, and the matching of the topics of two fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.errors import InvalidInputError, words
from tacit.measure.inputs import Matrix, as_dense, as_matrix
from tacit.validation import TableLike, check_choice, check_count, check_positive


@dataclass(frozen=True, eq=False)
class Match:
    """A matching of the topics of two dictionaries.

    Parameters
    ----------
    permutation : ndarray of int, shape (n_topics,)
        Topic i of the left dictionary is matched with topic ``permutation[i]`` of the right one, so that
        ``right[match.permutation]`` is in the order of ``left``.
    similarities : ndarray of shape (n_topics,)
        The cosine similarity of each pair, in the order of the left dictionary.
    """

    permutation: NDArray[np.intp]
    similarities: NDArray[np.float64]

    @property
    def mean_similarity(self) -> float:
        """The mean of the similarities; 1 if both dictionaries have the same topics in any order and scale."""
        return float(self.similarities.mean())


def match_topics(left: ArrayLike, right: ArrayLike) -> Match:
    """Pair the topics of two dictionaries so that the sum of their cosine similarities is as large as possible.

    The Hungarian method finds the best of all permutations. A topic that is zero everywhere has similarity 0 to
    every other.

    Parameters
    ----------
    left, right : array-like of shape (n_topics, n_terms)
        The dictionaries, with the same terms in the same order.

    Returns
    -------
    Match
        The permutation and the similarities.

    Examples
    --------
    >>> match = match_topics([[1.0, 0.0], [1.0, 1.0]], [[2.0, 2.0], [1.0, 0.0]])
    >>> match.permutation.tolist(), round(match.mean_similarity, 6)
    ([1, 0], 1.0)
    """
    from scipy.optimize import linear_sum_assignment

    first, second = as_dense(left, "left"), as_dense(right, "right")
    if first.shape != second.shape:
        raise InvalidInputError(
            f"right to have the shape of left, {first.shape}",
            words(f"shape {second.shape}"),
            "Give two dictionaries with equally many topics over the same terms.",
        )
    # Rounding can carry the cosine of parallel topics beyond one.
    cosines = np.clip(_unit_rows(first) @ _unit_rows(second).T, -1.0, 1.0)
    rows, columns = linear_sum_assignment(cosines, maximize=True)
    return Match(permutation=columns, similarities=cosines[rows, columns])


def top_words(components: ArrayLike, terms: Sequence[str], n: int = 10) -> list[list[str]]:
    """Return the heaviest terms of each topic, heaviest first.

    Terms of zero or negative weight do not belong to a topic, so a list may be shorter than `n`. Equal weights are ordered by
    their columns.

    Parameters
    ----------
    components : array-like of shape (n_topics, n_terms)
        The weight of each term in each topic.
    terms : sequence of str
        The terms, in the order of the columns.
    n : int
        Number of terms to list.

    Returns
    -------
    list of list of str
        One list for each topic.

    Examples
    --------
    >>> top_words([[0.1, 0.7, 0.2], [0.5, 0.0, 0.0]], ["ball", "star", "moon"], n=2)
    [['star', 'moon'], ['ball']]
    """
    weights = as_dense(components, "components")
    if isinstance(terms, str) or len(terms) != weights.shape[1]:
        raise InvalidInputError(
            f"terms to name the {weights.shape[1]} columns of components",
            words("one text" if isinstance(terms, str) else f"{len(terms)} terms"),
            "Give one term for each column, in the order of the columns.",
        )
    return [[str(terms[column]) for column in columns] for columns in _top_columns(weights, check_count(n, "n"))]


def topic_coherence(
    components: ArrayLike,
    counts: TableLike,
    *,
    measure: Literal["u_mass", "c_npmi", "c_v"] = "c_npmi",
    n_words: int = 10,
    smoothing: float = 1.0,
) -> NDArray[np.float64]:
    r"""Return the coherence of each topic: how often its heaviest words occur in the same documents.

    Let :math:`w_1, w_2, \dots` be the words of a topic, heaviest first, D(w) the number of documents that have w,
    D(v, w) the number of those that have both, and P = D / n the fraction of all n documents. The coherence of the
    topic is the mean over all pairs j < i of

    .. math::
        \text{u\_mass:} \quad \log \frac{D(w_i, w_j) + s}{D(w_j)}, \qquad
        \text{c\_npmi:} \quad
        \log \frac{P(w_i, w_j)}{P(w_i) P(w_j)} \Big/ \big(-\log P(w_i, w_j)\big).

    u_mass (Mimno et al. 2011, there as a sum) is at most :math:`\log(1 + s)`; values closer to zero are better, and
    it depends on the order of the words. c_npmi (Bouma 2009; Lau et al. 2014; the windows are whole documents) lies in
    [-1, 1]: 1 for words that always occur together, 0 for independent words, -1 for words that never do.

    c_v (Röder et al. 2015) gives each word the vector of its c_npmi with all words of the topic, itself included, and is the
    mean cosine between a word's vector and the sum of all. It lies in [-1, 1] and is usually positive. The windows are whole
    documents here; the authors use windows of 110 words, so cut long texts into such pieces to compare with other figures.

    Cases that the formulas do not cover: two words that are both in every document have c_npmi 1; a pair with a word that
    does not occur has c_npmi -1; a pair whose :math:`w_j` does not occur has u_mass :math:`\log(s/n)`, the least possible
    value. Terms of zero weight are not words of a topic, and a topic with fewer than two words gets the least value, so that
    empty topics lower a mean.

    Parameters
    ----------
    components : array-like of shape (n_topics, n_terms)
        The weight of each term in each topic.
    counts : array-like or sparse matrix of shape (n_documents, n_terms)
        The documents; a term is in a document if its entry is positive, so weighted counts can be used too. Only the
        columns of the topics' words are used.
    measure : {"c_npmi", "u_mass", "c_v"}
    n_words : int
        Number of words of each topic to use, at least 2.
    smoothing : float
        The s of u_mass; c_npmi does not use it.

    Returns
    -------
    ndarray of shape (n_topics,)
        The coherence of each topic.

    References
    ----------
    D. Mimno, H. Wallach, E. Talley, M. Leenders and A. McCallum (2011). Optimizing semantic coherence in topic
    models. EMNLP. |
    G. Bouma (2009). Normalized (pointwise) mutual information in collocation extraction. GSCL. |
    M. Röder, A. Both and A. Hinneburg (2015). Exploring the space of topic coherence measures. WSDM. |
    J. H. Lau, D. Newman and T. Baldwin (2014). Machine reading tea leaves: automatically evaluating topic
    coherence and topic model quality. EACL.

    Examples
    --------
    >>> counts = [[1, 1, 0], [2, 1, 0], [0, 0, 3]]
    >>> topic_coherence([[0.6, 0.4, 0.0], [0.5, 0.0, 0.5]], counts).tolist()
    [1.0, -1.0]
    """
    weights, documents = as_dense(components, "components"), as_matrix(counts, "counts")
    if documents.shape[1] != weights.shape[1]:
        raise InvalidInputError(
            f"counts to have {weights.shape[1]} columns, as components has",
            words(f"shape {documents.shape}"),
            "Give documents counted over the same terms in the same order.",
        )
    check_choice(measure, "measure", ("c_npmi", "u_mass", "c_v"))
    s = check_positive(smoothing, "smoothing")
    topics = _top_columns(weights, check_count(n_words, "n_words", least=2))

    used = np.unique(np.concatenate(topics))
    together = _documents_with_both(documents, used)
    n_documents = documents.shape[0]
    pairs = _u_mass(together, n_documents, s) if measure == "u_mass" else _npmi(together, n_documents)
    least = float(np.log(s / n_documents)) if measure == "u_mass" else -1.0
    coherence = np.full(len(topics), least)
    for topic, columns in enumerate(topics):
        places = np.searchsorted(used, columns)
        later, earlier = np.tril_indices(len(places), -1)
        if later.size and measure == "c_v":
            coherence[topic] = _mean_cosine(pairs[np.ix_(places, places)])
        elif later.size:
            coherence[topic] = pairs[places[later], places[earlier]].mean()
    return coherence


def _unit_rows(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    # Scaling by the largest entry first keeps the squares of very large and very small weights in range.
    largest = np.abs(matrix).max(axis=1, keepdims=True)
    scaled = matrix / np.where(largest > 0, largest, 1.0)
    norms = np.linalg.norm(scaled, axis=1, keepdims=True)
    return scaled / np.where(norms > 0, norms, 1.0)


def _top_columns(weights: NDArray[np.float64], n: int) -> list[NDArray[np.intp]]:
    """Return the columns of the n largest positive weights of each row, largest first, ties by column."""
    order = np.argsort(-weights, axis=1, kind="stable")[:, :n]
    return [columns[row[columns] > 0] for row, columns in zip(weights, order, strict=True)]


def _documents_with_both(documents: Matrix, columns: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return for every two of the columns the number of rows that are positive in both."""
    from scipy.sparse import csr_array

    chosen = csr_array(documents[:, columns])
    has = (chosen > 0).astype(np.int64)
    counts: NDArray[np.float64] = (has.T @ has).toarray().astype(np.float64)
    return counts


def _mean_cosine(vectors: NDArray[np.float64]) -> float:
    """Return the mean cosine between each row and the sum of all rows; a word always occurs with itself."""
    vectors = vectors.copy()
    np.fill_diagonal(vectors, 1.0)
    whole = _unit_rows(vectors.sum(axis=0, keepdims=True))[0]
    return float(np.clip(_unit_rows(vectors) @ whole, -1.0, 1.0).mean())


def _u_mass(together: NDArray[np.float64], n_documents: int, smoothing: float) -> NDArray[np.float64]:
    """Return the value of each pair; rows are the later word and columns the earlier one."""
    alone = together.diagonal()
    values: NDArray[np.float64] = np.log((together + smoothing) / np.where(alone > 0, alone, n_documents))
    return values


def _npmi(together: NDArray[np.float64], n_documents: int) -> NDArray[np.float64]:
    fraction = together / n_documents
    values = np.where(fraction == 1, 1.0, -1.0)
    between = (fraction > 0) & (fraction < 1)
    first, second = np.nonzero(between)
    alone = fraction.diagonal()
    # The formula with separate logarithms: exactly 1 if both words and the pair have the same fraction.
    pmi = (np.log(alone[first]) + np.log(alone[second])) / np.log(fraction[between]) - 1
    values[between] = np.clip(pmi, -1.0, 1.0)
    return values
