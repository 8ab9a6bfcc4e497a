"""Texts from a folder, counted and weighted, with a record of what in the result came from the texts themselves.

Which terms a corpus has is a fact about its documents, and so is how many documents have a term. A vocabulary or
inverse document frequencies that are *learned* from private texts are a release of private data, whatever is done
with the counts afterwards: a name that one document alone mentions becomes a column. They are public only if they
were given from outside. `TermCounts` and `TermWeights` say which was the case, so that a private fit can refuse,
warn, or pay for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.data.files import files_under, reading
from tacit.data.tables import read_terms
from tacit.errors import InvalidInputError, Undisclosed, words
from tacit.validation import check_choice, check_count, check_rate

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass(frozen=True, eq=False, repr=False)
class Texts(Undisclosed):
    """Texts read from a folder.

    Parameters
    ----------
    names : tuple of str
        The path of each file below the folder, with forward slashes, in order.
    texts : tuple of str
        What the files say.
    """

    names: tuple[str, ...]
    texts: tuple[str, ...]


@dataclass(frozen=True, eq=False, repr=False)
class TermCounts(Undisclosed):
    """How often each document has each term.

    Parameters
    ----------
    counts : csr_array of shape (n_documents, n_terms)
        The counts; a document without any of the terms keeps its row, empty.
    terms : tuple of str
        The terms, in the order of the columns.
    vocabulary_is_public : bool
        True if the terms were given; False if they were learned from the documents, so that showing or using them
        releases something about the documents.
    """

    counts: csr_array[Any, tuple[int, int]]
    terms: tuple[str, ...]
    vocabulary_is_public: bool


@dataclass(frozen=True, eq=False, repr=False)
class TermWeights(Undisclosed):
    """Documents as rows of unit length.

    Parameters
    ----------
    X : csr_array of float64, shape (n_documents, n_terms)
        The weights; each row has L2 norm 1, or 0 if the document is empty.
    terms : tuple of str
        The terms, in the order of the columns.
    idf : ndarray of shape (n_terms,)
        What the counts of each term were multiplied by.
    vocabulary_is_public : bool
        As for the counts.
    weights_are_public : bool
        True if `idf` was given or is 1 everywhere, so that each row depends on its own document alone; False if it
        was learned, so that each row depends on all documents.
    """

    X: csr_array[np.float64, tuple[int, int]]
    terms: tuple[str, ...]
    idf: NDArray[np.float64]
    vocabulary_is_public: bool
    weights_are_public: bool


def read_texts(folder: str | Path) -> Texts:
    """Read every ``.txt`` file in a folder and below, in UTF-8.

    Parameters
    ----------
    folder : str or Path
        The folder; each file is one document.

    Returns
    -------
    Texts
        The texts in the order of their paths.
    """
    root, files = files_under(folder, {".txt"})
    texts = []
    for file in files:
        with reading(
            f"every .txt file in {root}", "text in UTF-8", fix="Convert the files to UTF-8; `file` lists encodings."
        ):
            texts.append(file.read_text(encoding="utf-8-sig"))
    return Texts(names=tuple(file.relative_to(root).as_posix() for file in files), texts=tuple(texts))


def term_counts(
    texts: Iterable[str],
    *,
    vocabulary: Sequence[str] | Path | None = None,
    max_terms: int = 10_000,
    min_documents: int = 2,
    max_share: float = 0.5,
) -> TermCounts:
    """Count terms, which are words of at least two letters or digits in lower case.

    With a `vocabulary`, the columns are its terms in its order, and the result says nothing about the documents
    except their counts. Without one, the vocabulary is learned: all terms but English stop words that are in at
    least `min_documents` and at most a share `max_share` of the documents, of these the `max_terms` most frequent,
    in alphabetical order. That is a release of private data if the texts are private; a lower limit on documents
    makes it less revealing but does not make it private.

    Parameters
    ----------
    texts : iterable of str
        The documents.
    vocabulary : sequence of str, Path or None
        Public terms, or a file with one on each line; None learns them.
    max_terms, min_documents : int
        For learning: the most terms, and the fewest documents with a term.
    max_share : float
        For learning: the greatest share of documents with a term, in (0, 1].

    Returns
    -------
    TermCounts
        The counts, the terms, and whether the terms are public.

    Examples
    --------
    >>> result = term_counts(["A star and a moon.", "Moon, moon!"], vocabulary=["moon", "comet"])
    >>> result.counts.toarray().tolist(), result.vocabulary_is_public
    ([[1, 0], [2, 0]], True)
    """
    from scipy.sparse import csr_array
    from sklearn.feature_extraction.text import CountVectorizer

    if isinstance(texts, str):
        raise InvalidInputError("texts to be several documents", words("one text"), "Give a list of texts.")
    if vocabulary is None:
        vectorizer = CountVectorizer(
            stop_words="english",
            max_features=check_count(max_terms, "max_terms"),
            min_df=check_count(min_documents, "min_documents"),
            max_df=check_rate(max_share, "max_share"),
        )
    else:
        vectorizer = CountVectorizer(vocabulary=_public_terms(vocabulary))
    try:
        counts = vectorizer.fit_transform(texts)
    except ValueError:
        fix = "Give more or longer texts, a lower min_documents, a higher max_share, or a vocabulary."
        raise InvalidInputError("texts that have terms to count", words("none"), fix) from None
    return TermCounts(
        counts=csr_array(counts),
        terms=tuple(map(str, vectorizer.get_feature_names_out())),
        vocabulary_is_public=vocabulary is not None,
    )


def tfidf(counts: TermCounts, *, idf: Literal["uniform", "learned"] | ArrayLike = "uniform") -> TermWeights:
    r"""Weight counts by inverse document frequency and scale each document to unit length.

    .. math::
        x_i = \frac{c_i \circ w}{\lVert c_i \circ w \rVert_2}, \qquad
        \text{learned:} \quad w_t = 1 + \log \frac{1 + n}{1 + D(t)},

    with D(t) the number of the n documents that have the term t, as scikit-learn has it.

    Parameters
    ----------
    counts : TermCounts
        The documents. Counts from elsewhere become one by stating whether their terms are public.
    idf : {"uniform", "learned"} or array-like of shape (n_terms,)
        "uniform" gives all terms the weight 1 and is public. An array, say of frequencies in a public corpus, is
        public too. "learned" computes the weights from these documents: a release, if they are private.

    Returns
    -------
    TermWeights
        The rows, and whether terms and weights are public.
    """
    from scipy.sparse import csr_array, diags_array
    from sklearn.feature_extraction.text import TfidfTransformer
    from sklearn.preprocessing import normalize

    n_terms = counts.counts.shape[1]
    if isinstance(idf, str):
        check_choice(idf, "idf", ("uniform", "learned"))
        weights = TfidfTransformer().fit(counts.counts).idf_ if idf == "learned" else np.ones(n_terms)
    else:
        weights = np.asarray(idf, dtype=np.float64)
        if weights.shape != (n_terms,) or not np.isfinite(weights).all() or (weights < 0).any():
            raise InvalidInputError(
                f"idf to have {n_terms} non-negative numbers",
                words(f"shape {weights.shape}" if weights.shape != (n_terms,) else "negative numbers, NaN or infinity"),
                "Give one weight for each term, in the order of the terms.",
            )
    weighted = csr_array(counts.counts.astype(np.float64) @ diags_array(weights))
    return TermWeights(
        X=csr_array(normalize(weighted, norm="l2", copy=False)),
        terms=counts.terms,
        idf=weights,
        vocabulary_is_public=counts.vocabulary_is_public,
        weights_are_public=not (isinstance(idf, str) and idf == "learned"),
    )


def _public_terms(vocabulary: Sequence[str] | Path) -> list[str]:
    """Return the terms in lower case, all different and such that a text can have them."""
    from sklearn.feature_extraction.text import CountVectorizer

    given = read_terms(vocabulary) if isinstance(vocabulary, str | Path) else vocabulary
    terms = [term.strip().lower() for term in given]
    split = CountVectorizer().build_tokenizer()
    for place, term in enumerate(terms, start=1):
        # Such a column would be zero whatever the texts say, and nobody would notice.
        if split(term) != [term]:
            raise InvalidInputError(
                "each term of the vocabulary to be one word of at least two letters or digits",
                words(f"another one as number {place}"),
                "Leave it out, and check that the file is a list of terms and not a text.",
            )
    if len(set(terms)) < len(terms) or not terms:
        got = words("duplicate terms" if terms else "no term")
        raise InvalidInputError("a vocabulary of different terms", got, "Give each term once.")
    return terms
