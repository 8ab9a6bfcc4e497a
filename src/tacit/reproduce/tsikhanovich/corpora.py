"""The paper's data as matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array

from tacit.reproduce.catalogue import ItemRun
from tacit.reproduce.datasets.texts import Corpus

if TYPE_CHECKING:
    from scipy import sparse

CORPORA = {"20newsgroups": "20NG", "enron": "Enron", "reuters": "Reuters"}


def weighted(run: ItemRun, name: str, terms: int | None = None) -> tuple[sparse.csr_array, sparse.csr_array]:
    """Return the TF-IDF of a corpus over its most frequent terms, and the counts; without empty documents and stemming."""
    from sklearn.feature_extraction.text import TfidfTransformer

    corpus: Corpus = run.data[name]
    counts = corpus.counts
    size = run.pick(terms, 150)
    if size is not None and size < counts.shape[1]:
        counts = counts[:, np.sort(np.argsort(-np.asarray(counts.sum(axis=0)).ravel())[:size])]
    if run.quick:
        counts = counts[np.random.default_rng(0).permutation(counts.shape[0])[:400]]
    counts = counts[np.flatnonzero(np.diff(counts.indptr) > 0)]
    return TfidfTransformer().fit_transform(counts).tocsr(), counts


def rating_matrix(run: ItemRun) -> sparse.csr_array:
    """Return users x movies of MovieLens 1M."""
    rated = run.data["movielens-1m"]
    X = csr_array((rated.ratings, (rated.users, rated.items)), shape=rated.shape)
    return X[:300, :200].tocsr() if run.quick else X
