"""KSDP of factorisation among holders: Table 2 and Figure 6 of Tsikhanovich et al. 2019 beside ours.

As in the paper, all other holders collude, so that the adversary sees the sums of one holder's rows alone. A holder
has a share of the rows of the data; p-values are the smallest over the paper's statistics for each document, not
corrected, mean over the documents with its standard error; "shows" counts documents at level 0.05 after Holm's
correction. Fewer documents and runs than in the paper (50 and 200 for factorisation, 200 and 50 for singular
vectors); more runs make p-values smaller where there is a difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import polars
from harness import Part, Quoted, main
from real_data import data_folder
from scipy import sparse
from sklearn.feature_extraction.text import TfidfTransformer

from tacit import NMF, SVD
from tacit.measure.ksdp import ksdp
from tacit.measure.ksdp.statistics import nmf_statistics, svd_statistics

SHARES = (0.005, 0.03, 0.1)
RANK, DOCUMENTS, SAMPLES = 7, 12, 40
TABLE_2 = Quoted(
    "Table 2 of Tsikhanovich et al. (2019)",
    {
        "ratings": ("0.45 +- 0.16", "0.52 +- 0.20", "0.48 +- 0.18"),
        "topics": ("0.029 +- 0.02", "0.044 +- 0.02", "0.113 +- 0.07"),
    },
)


def enron(terms: int | None = None) -> Any:
    counts = sparse.load_npz(data_folder() / "text" / "enron_6mailboxes_vocab8000.npz").astype(np.float64)
    if terms is not None:
        counts = counts[:, np.sort(np.argsort(-np.asarray(counts.sum(axis=0)).ravel())[:terms])]
    X = TfidfTransformer().fit_transform(counts).tocsr()
    return X[np.diff(X.indptr) > 0]


def ratings() -> Any:
    """Rows of MovieLens 1M as they are, what was not rated being zero: the paper weights the rated entries instead."""
    frame = polars.read_parquet(data_folder() / "movielens1m" / "ratings.parquet")
    users, items = (np.unique(frame[name].to_numpy(), return_inverse=True)[1] for name in ("user", "item"))
    return sparse.csr_array((frame["rating"].to_numpy().astype(np.float64), (users, items)))


def shown(found: Any) -> str:
    error = found.pi.std(ddof=1) / np.sqrt(len(found.pi))
    return f"{found.pi.mean():.3f} +- {error:.3f} {len(found.flagged):>3}/{len(found.documents)}"


def factorisation(documents: int = DOCUMENTS, samples: int = SAMPLES, fractions: Sequence[float] = SHARES) -> None:
    print(f"NMF, k = {RANK}, sigma = a.w^2, {documents} documents, {samples} runs each way")
    print(f"{'data':<9} {'share':>6} {'rows':>6}  {'p, shows':<24} {'paper*, p':<14}")
    for name, X in (("ratings", ratings()), ("topics", enron())):
        chosen = np.random.default_rng(0).choice(X.shape[0], documents, replace=False).tolist()
        for place, share in enumerate(fractions):
            model, size = NMF(RANK, init="random", max_iter=10), int(share * X.shape[0])
            found = ksdp(model, X, chosen, statistics=[nmf_statistics], samples=samples, size=size)
            print(f"{name:<9} {share:>6} {size:>6}  {shown(found):<24} {TABLE_2[name][place]:<14}", flush=True)


def singular_vectors(
    documents: int = DOCUMENTS, samples: int = SAMPLES, fractions: Sequence[float] = (*SHARES, 0.333)
) -> None:
    X = enron(terms=500)
    chosen = np.random.default_rng(0).choice(X.shape[0], documents, replace=False).tolist()
    print(f"SVD, k = {RANK}, the paper's six statistics, e-mail over its 500 most frequent terms (Figure 6)")
    heads = ("hidden, own estimate", "hidden, ratios used", "singular values revealed")
    print(f"{'share':>6} {'rows':>6}  " + " ".join(f"{head:<24}" for head in heads))
    for share in fractions:
        size = int(share * X.shape[0])
        # the adversary scales the singular values of rows of its own
        own = SVD(RANK, hide_singular_values=False, tol=1e-6).fit(X[:size]).singular_values_
        cells = []
        for hide, statistic in (
            (True, partial(svd_statistics, values=own)),
            (True, svd_statistics),
            (False, svd_statistics),
        ):
            model = SVD(RANK, hide_singular_values=hide, tol=1e-6)
            cells.append(shown(ksdp(model, X, chosen, statistics=[statistic], samples=samples, size=size)))
        print(f"{share:>6} {size:>6}  " + " ".join(f"{cell:<24}" for cell in cells), flush=True)


QUICK = {"documents": 2, "samples": 8, "fractions": (0.005,)}
PARTS = {
    "factorisation": Part(factorisation, quick=QUICK, quoted=(TABLE_2,)),
    "singular-vectors": Part(singular_vectors, quick=QUICK),
}

if __name__ == "__main__":
    main(__doc__, PARTS)
