"""From what a user names on the command line to rows that may be factorised, and what that costs in privacy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.errors import InvalidInputError, Undisclosed, parameter, words
from tacit.validation import check_choice

if TYPE_CHECKING:
    from tacit.data.texts import TermCounts
    from tacit.privacy.vocabulary import PaidVocabulary

TEXT_ENDINGS = {".txt"}


@dataclass(frozen=True, repr=False)
class Prepared(Undisclosed):
    """Rows to factorise.

    Attributes
    ----------
    X : array or CSR matrix
    names : sequence of str or None
        Of the columns: words, or a table's column names.
    shape : tuple of int or None
        Of an image, if a row is one.
    counts : CSR matrix or None
        Term counts, for coherence.
    assumptions : tuple of str
        What must be public for the guarantee to hold.
    paid : PaidVocabulary or None
        The vocabulary, if it was paid for.
    """

    X: Any
    names: Any
    shape: tuple[int, int] | None
    counts: Any
    assumptions: tuple[str, ...]
    paid: PaidVocabulary | None = None


def prepare(
    path: Path,
    *,
    private: bool,
    unit_rows: bool,
    vocabulary: Path | None,
    idf: str,
    shape: tuple[int, int] | None,
    buy: Callable[[tuple[str, ...]], PaidVocabulary] | None = None,
) -> Prepared:
    """Read texts, images or a matrix, and bring the rows to unit length if asked (each by itself, so at no cost).

    With `buy` the vocabulary is what this function, which pays for it, finds in the texts.
    """
    from scipy.sparse import issparse

    from tacit.data import TermCounts, read_matrix, read_pictures, read_terms, read_texts, term_counts

    if not path.exists():
        raise InvalidInputError(
            "a file or a folder with data", words(f"{path}, which does not exist"), "Check the path."
        )
    if path.is_dir() and any(file.suffix.lower() in TEXT_ENDINGS for file in path.rglob("*")):
        if buy is not None:
            check_choice(idf, "idf", ("uniform", "learned"))  # before anything is charged
            texts = read_texts(path).texts
            return _from_paid(texts, buy(texts), idf)
        found = term_counts(read_texts(path).texts, vocabulary=vocabulary)
        return _from_counts(found, private, idf)
    if buy is not None:
        raise InvalidInputError(
            "a folder of texts for --vocabulary paid",
            parameter(str(path)),
            "A matrix comes with its columns; give a file of public terms or leave --vocabulary out.",
        )
    if path.is_dir():
        pictures = read_pictures(path)
        return Prepared(_rows(pictures.X, unit_rows), None, pictures.shape, None, ("the size of the images is public",))
    matrix = read_matrix(path)
    names = matrix.names if vocabulary is None else read_terms(vocabulary)
    if names is not None and issparse(matrix.X):
        # a matrix comes with its columns: whoever passes it on as private data has to vouch for them
        return _from_counts(TermCounts(matrix.X, tuple(names), vocabulary_is_public=True), private, idf)
    if shape is not None and shape[0] * shape[1] != matrix.X.shape[1]:
        raise InvalidInputError(
            f"an image shape of {matrix.X.shape[1]} pixels",
            words(f"{shape[0]}x{shape[1]}"),
            "Give --image-shape ROWSxCOLUMNS.",
        )
    return Prepared(_rows(matrix.X, unit_rows), names, shape, None, ("the columns of the table are public",))


def image_shape_of(text: str) -> tuple[int, int]:
    """Return the shape that --image-shape ROWSxCOLUMNS names."""
    try:
        height, width = (int(part) for part in text.lower().split("x"))
    except ValueError:
        raise InvalidInputError(
            "an image shape as in 19x19", parameter(text), "Give --image-shape ROWSxCOLUMNS."
        ) from None
    return height, width


def _from_counts(counts: TermCounts, private: bool, idf: str) -> Prepared:
    from tacit.data import tfidf

    if private and not counts.vocabulary_is_public:
        raise InvalidInputError(
            "a public vocabulary for a private fit",
            words("one learned from the private texts, which would be a release that nobody paid for"),
            "Give --vocabulary FILE with one public term per line, or --vocabulary paid.",
        )
    weighted = tfidf(counts, idf=idf)
    if private and not weighted.weights_are_public:
        raise InvalidInputError(
            "public term weights for a private fit",
            words("inverse document frequencies learned from the private texts"),
            "Use --idf uniform, which weights all terms alike and costs nothing.",
        )
    assumptions = ("the vocabulary is public", "all terms are weighted alike")
    return Prepared(weighted.X, weighted.terms, None, counts.counts, assumptions if private else ())


def _from_paid(texts: tuple[str, ...], paid: PaidVocabulary, idf: str) -> Prepared:
    """Weight the words that were paid for; "learned" frequencies are the noisy ones, which came with them."""
    from tacit.data import term_counts, tfidf

    counts = term_counts(texts, vocabulary=paid.terms)
    weighted = tfidf(counts, idf=paid.idf if idf == "learned" else "uniform")
    return Prepared(weighted.X, weighted.terms, None, counts.counts, (), paid)


def _rows(X: Any, unit_rows: bool) -> Any:
    if not unit_rows:
        return X
    from sklearn.preprocessing import normalize

    return normalize(X)


def range_of(text: str, option: str) -> tuple[float, float]:
    """Return a public range from text as in 0:100."""
    try:
        low, high = (float(side) for side in text.split(":"))
    except ValueError:
        raise InvalidInputError(f"{option} LOW:HIGH", parameter(text), "Give the public range, as in 0:100.") from None
    return low, high
