"""Texts from a folder, counted and weighted, with a record of which parts of the result were learned from the texts.

The terms of a corpus, and the number of documents with a term, depend on the documents. A vocabulary or inverse document
frequencies that are *learned* from private texts are a release of private data, also if the counts are protected afterwards:
a name that only one document mentions becomes a column. They are public only if they come from elsewhere. `TermCounts` and
`TermWeights` record this, so that a private fit can refuse, warn, or pay for it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.data.files import existing_file, files_under, reading
from tacit.data.tables import read_terms
from tacit.errors import InvalidInputError, Undisclosed, words
from tacit.validation import check_choice, check_count, check_rate

if TYPE_CHECKING:
    from scipy.sparse import csr_array


WORD = re.compile(r"\w\w+")
"""What counts as a word, as for `term_counts`."""
LONGEST_UNSTEMMED = 3
"""Words of up to this many letters keep their endings."""


@dataclass(frozen=True, eq=False, repr=False)
class Texts(Undisclosed):
    """Texts read from a folder.

    Parameters
    ----------
    names : tuple of str
        The path of each file below the folder, with forward slashes, in order.
    texts : tuple of str
        The contents of the files.
    """

    names: tuple[str, ...]
    texts: tuple[str, ...]


@dataclass(frozen=True, eq=False, repr=False)
class TermCounts(Undisclosed):
    """The count of each term in each document.

    Parameters
    ----------
    counts : csr_array of shape (n_documents, n_terms)
        The counts; a document without any of the terms has an empty row.
    terms : tuple of str
        The terms, in the order of the columns.
    vocabulary_is_public : bool
        True if the terms were given; False if they were learned from the documents, so that their use releases something
        about the documents.
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
        The factor of the counts of each term.
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
    """Read every ``.txt`` file in a folder and its subfolders, in UTF-8.

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


def read_text_lines(path: str | Path) -> tuple[str, ...]:
    """Read texts as line-delimited JSON: each line is a text, or an object whose "text" is one; empty lines are left out.

    Parameters
    ----------
    path : str or Path
        A file in UTF-8.

    Returns
    -------
    tuple of str
        The texts, one per document.
    """
    file = existing_file(path)
    texts, wrong = list[str](), 0
    with reading(file, "JSON in UTF-8, one document per line"), file.open(encoding="utf-8-sig") as lines:
        for line in lines:
            if line.strip():
                parsed = json.loads(line)
                text = parsed.get("text") if isinstance(parsed, dict) else parsed
                if isinstance(text, str):
                    texts.append(text)
                else:
                    wrong += 1
    if wrong:
        raise InvalidInputError(
            f'a text, or an object with a "text", on every line of {file.name}',
            words("other lines"),
            "Write one JSON text or object per line.",
        )
    return tuple(texts)


def term_counts(
    texts: Iterable[str],
    *,
    vocabulary: Sequence[str] | Path | None = None,
    max_terms: int = 10_000,
    min_documents: int = 2,
    max_fraction: float = 0.5,
) -> TermCounts:
    """Count terms: words of at least two letters or digits, in lower case.

    With a `vocabulary`, the columns are its terms in its order, and only the counts depend on the documents. Without one, the
    vocabulary is learned: all terms, except English stop words, that are in at least `min_documents` documents and at most a
    fraction `max_fraction` of them; of these the `max_terms` most frequent, in alphabetical order. This is a release of private
    data if the texts are private; a larger `min_documents` reveals less, but does not make it private.

    Parameters
    ----------
    texts : iterable of str
        The documents.
    vocabulary : sequence of str, Path or None
        Public terms, or a file with one term per line; None to learn them.
    max_terms, min_documents : int
        For learning: the largest number of terms, and the smallest number of documents with a term.
    max_fraction : float
        For learning: the largest fraction of documents with a term, in (0, 1].

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
            max_df=check_rate(max_fraction, "max_fraction"),
        )
    else:
        vectorizer = CountVectorizer(vocabulary=_public_terms(vocabulary))
    try:
        counts = vectorizer.fit_transform(texts)
    except ValueError:
        fix = "Give more or longer texts, a lower min_documents, a higher max_fraction, or a vocabulary."
        raise InvalidInputError("texts that have terms to count", words("none"), fix) from None
    return TermCounts(
        counts=csr_array(counts),
        terms=tuple(map(str, vectorizer.get_feature_names_out())),
        vocabulary_is_public=vocabulary is not None,
    )


def light_stem(word: str) -> str:
    """Return a word without the ending of an English plural; nothing else is cut off.

    The rules of Harman (1991), the first that fits: -ies becomes -y (not after a or e), -es becomes -e (not after a, e or o),
    -s is dropped (not after u or s). Words in -is, and words of up to three letters, stay.

    Examples
    --------
    >>> [light_stem(word) for word in ("queries", "horses", "cats", "glass", "virus", "gas")]
    ['query', 'horse', 'cat', 'glass', 'virus', 'gas']
    """
    if len(word) <= LONGEST_UNSTEMMED or not word.endswith("s"):
        return word
    if word.endswith("ies"):
        return word if word[-4] in "ae" else word[:-3] + "y"
    if word.endswith("es"):
        return word if word[-3] in "aeo" else word[:-1]
    return word if word[-2] in "uis" else word[:-1]


def stemmed(text: str) -> str:
    """Return a text in lower case with the stems of its words; stop words stay, so that they are still known as such.

    Each text is changed by itself, so that this costs no privacy.

    Examples
    --------
    >>> stemmed("Cats chase birds; dogs don't.")
    "cat chase bird; dog don't."
    """
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    def cut(word: re.Match[str]) -> str:
        return word[0] if word[0] in ENGLISH_STOP_WORDS else light_stem(word[0])

    return WORD.sub(cut, text.lower())


def tfidf(counts: TermCounts, *, idf: Literal["uniform", "learned"] | ArrayLike = "uniform") -> TermWeights:
    r"""Weight counts by inverse document frequency and scale each document to unit length.

    .. math::
        x_i = \frac{c_i \circ w}{\lVert c_i \circ w \rVert_2}, \qquad
        \text{learned:} \quad w_t = 1 + \log \frac{1 + n}{1 + D(t)},

    with D(t) the number of the n documents that have the term t, as in scikit-learn.

    Parameters
    ----------
    counts : TermCounts
        The documents. For other counts, make a `TermCounts` and state whether their terms are public.
    idf : {"uniform", "learned"} or array-like of shape (n_terms,)
        "uniform" gives all terms the weight 1 and is public. An array, for example of frequencies in a public corpus, is
        public too. "learned" computes the weights from these documents, which is a release if they are private.

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


def read_vocabulary(path: str | Path, *, stop_words: bool = False) -> tuple[str, ...]:
    r"""Read a public list of words, such as the dictionary of a spell checker, as a vocabulary for `term_counts`.

    Terms are in lower case, each once. Entries that cannot occur as one word of a text (``don't``, ``New York``) are left out,
    and so are English stop words unless `stop_words`, as `term_counts` leaves them out of a vocabulary that it learns.

    Parameters
    ----------
    path : str or Path
        A file with one term per line.
    stop_words : bool
        Whether to keep English stop words.

    Returns
    -------
    tuple of str
        The terms, in the order of the file.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "words")
    ...     _ = file.write_text("Polish\npolish\nthe\nteacher's\nteacher\n")
    ...     read_vocabulary(file)
    ('polish', 'teacher')
    """
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, CountVectorizer

    split = CountVectorizer().build_tokenizer()
    given = [term.lower() for term in read_terms(path)]
    usable = [term for term in given if split(term) == [term]]
    if 2 * len(usable) < len(given):
        raise InvalidInputError(
            "a file with one word per line",
            words("lines of other things, for the most part"),
            "Check that the file is a list of terms and not a text.",
        )
    kept = [term for term in usable if stop_words or term not in ENGLISH_STOP_WORDS]
    return tuple(dict.fromkeys(kept))


def _public_terms(vocabulary: Sequence[str] | Path) -> list[str]:
    """Return the terms in lower case; raise if a term occurs twice, or cannot occur in a text."""
    from sklearn.feature_extraction.text import CountVectorizer

    given = read_terms(vocabulary) if isinstance(vocabulary, str | Path) else vocabulary
    terms = [term.strip().lower() for term in given]
    split = CountVectorizer().build_tokenizer()
    for place, term in enumerate(terms, start=1):
        # Such a column would be zero for all texts.
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
