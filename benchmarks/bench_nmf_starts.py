"""Starts of non-negative factorisation among holders: Table 1 of Tsikhanovich et al. 2019 beside ours.

Every holder gets a random share f of the corpus (holders may share documents, as in the paper), weighted by TF-IDF of
the whole corpus. Every start is followed by the same number of sweeps over all holders' rows ("random 2x" by twice as
many; "best of M" is the best of the holders' own dictionaries, with no joint sweep). The paper's numbers are sums
over other corpora and more settings: compare the order and the distances, not the values. Held-out error stands in
place of perplexity.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from harness import Part, Quoted, main
from real_data import data_folder
from scipy import sparse
from sklearn.feature_extraction.text import TfidfTransformer

from tacit import NMF
from tacit.channel import Clear, run_together
from tacit.factor.nmf.nnls import solve_rows
from tacit.factor.nmf.pd_nmf import weighted_topics
from tacit.factor.nmf.program import NMFSettings
from tacit.measure import reconstruction_error, topic_coherence

CORPORA = {"20newsgroups": "20newsgroups_bydate_vocab10000.npz", "reuters": "reuters21578_8293x18933.npz"}
RANK, SWEEPS, TRIALS = 20, 10, 1
HOLDERS, SHARES = (3, 5), (0.03, 0.1)
PAPER = Quoted(
    "error, coherence and perplexity of Table 1 of Tsikhanovich et al. (2019), sums over other corpora and settings",
    {
        "best of M": (8110.7, 16.9, 44.8),
        "nndsvd": (7903.5, 16.9, 43.8),
        "random": (8216.1, 16.5, 43.9),
        "random 2x": (7919.8, 16.9, 43.8),
        "merge-local": (7907.9, 17.0, 43.8),
    },
)


def joint(parts: list[Any], init: str, sweeps: int, seed: int) -> np.ndarray:
    models = [NMF(RANK, init=init, max_iter=sweeps, tol=0, random_state=seed) for _ in parts]
    programs = [model._program(part) for model, part in zip(models, parts, strict=True)]
    return run_together(programs, Clear())[0].public["T"]


def distance(rows: Any, T: np.ndarray) -> float:
    """Return the Frobenius error with the best weights for the dictionary, over the square root of the number of rows."""
    return float(np.sqrt(2 * reconstruction_error(rows, solve_rows(rows, T), T)))


def best_of(parts: list[Any], rows: Any, seed: int, sweeps: int) -> np.ndarray:
    settings = NMFSettings(max_iter=sweeps, tol=0)
    own = [weighted_topics(part, RANK, random_state=seed, settings=settings) for part in parts]
    own = [T / np.maximum(np.linalg.norm(T, axis=1), 1e-300)[:, None] for T in own]
    return min(own, key=lambda T: distance(rows, T))


def starts(
    corpora: Sequence[str] = tuple(CORPORA),
    holders: Sequence[int] = HOLDERS,
    fractions: Sequence[float] = SHARES,
    sweeps: int = SWEEPS,
) -> None:
    found: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
    for corpus, file in ((name, CORPORA[name]) for name in corpora):
        counts = sparse.load_npz(data_folder() / "text" / file).astype(np.float64)
        X = TfidfTransformer().fit_transform(counts).tocsr()
        for trial, count, share in itertools.product(range(TRIALS), holders, fractions):
            generator = np.random.default_rng([trial, count, int(100 * share)])
            order = generator.permutation(X.shape[0])
            test, rest = X[order[: len(order) // 10]], order[len(order) // 10 :]
            size = int(share * X.shape[0])
            parts = [X[generator.choice(rest, size=size, replace=False)] for _ in range(count)]
            rows = sparse.vstack(parts, format="csr")
            fits = {
                "best of M": lambda parts=parts, rows=rows, trial=trial: best_of(parts, rows, trial, sweeps),
                "nndsvd": lambda parts=parts, trial=trial: joint(parts, "nndsvd", sweeps, trial),
                "random": lambda parts=parts, trial=trial: joint(parts, "random", sweeps, trial),
                "random 2x": lambda parts=parts, trial=trial: joint(parts, "random", 2 * sweeps, trial),
                "merge-local": lambda parts=parts, trial=trial: joint(parts, "merge-local", sweeps, trial),
            }
            for name, fit in fits.items():
                T = fit()
                coherence = float(topic_coherence(T, counts, measure="c_npmi").mean())
                numbers = (distance(rows, T), coherence, distance(test, T))
                found.setdefault((corpus, name), []).append(numbers)
            print(f"{corpus}, trial {trial}, {count} holders of {share:.0%}: done", flush=True)
    settings = TRIALS * len(holders) * len(fractions)
    print(
        f"\nk = {RANK}, {sweeps} sweeps, means over {settings} settings; errors over those of nndsvd, ours and the paper's"
    )
    print(
        f"{'corpus':<13} {'start':<12} {'error':>8} {'c_npmi':>8} {'held out':>9} | "
        f"{'paper*':>8} {'':>7} {'coh.*':>6} {'perp.*':>6}"
    )
    for (corpus, name), rows in found.items():
        reference, numbers = np.array(found[corpus, "nndsvd"]), np.array(rows)
        ratios = (numbers / reference).mean(axis=0)
        error, coherence, perplexity = PAPER[name]
        print(
            f"{corpus:<13} {name:<12} {ratios[0]:>8.4f} {numbers[:, 1].mean():>8.3f} {ratios[2]:>9.4f} | "
            f"{error:>8.1f} {error / PAPER['nndsvd'][0]:>7.4f} {coherence:>6.1f} {perplexity:>6.1f}"
        )


QUICK = {"corpora": ("reuters",), "holders": (3,), "fractions": (0.03,), "sweeps": 2}
PARTS = {"starts": Part(starts, quick=QUICK, quoted=(PAPER,))}

if __name__ == "__main__":
    main(__doc__, PARTS)
