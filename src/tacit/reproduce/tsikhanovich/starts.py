"""Table 1: starts of the factorisation among parties."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tacit.channel import Clear, run_together
from tacit.factor.nmf.estimator import NMF
from tacit.factor.nmf.nnls import solve_rows
from tacit.factor.nmf.pd_nmf import weighted_topics
from tacit.factor.nmf.program import NMFSettings
from tacit.measure import reconstruction_error, topic_coherence
from tacit.reproduce.catalogue import ItemRun, item
from tacit.reproduce.outcome import ItemOutcome, Row, SideBySide
from tacit.reproduce.tsikhanovich.corpora import CORPORA, weighted

PAPER = {
    "best of M": (8110.7, 16.9, 44.8),
    "nnsvd": (7903.5, 16.9, 43.8),
    "random": (8216.1, 16.5, 43.9),
    "random 2x": (7919.8, 16.9, 43.8),
    "PD-NMF-Init": (7907.9, 17.0, 43.8),
}
"""Table 1, page 14: Frobenius error, coherence and perplexity, averages over corpora, M, f, k and 5 trials."""
PARTIES, FRACTIONS, RANK, SWEEPS = (3, 5, 30), (0.03,), 20, 10
"""The paper's M, the least of its three f (3, 10 and 30%; for time), and k and sweeps that were set by hand."""
AS_GOOD = 1.001
"""An error up to a thousandth above that of nnsvd counts as the same; the paper's is 0.0006 above."""
MEASURES = ("error / nnsvd", "coherence (c_npmi)", "perplexity / nnsvd")


def joint(parts: list[sparse.csr_array], init: str, rank: int, sweeps: int, seed: int) -> NDArray[np.float64]:
    """Return the dictionary of a joint fit of all parties."""
    models = [NMF(rank, init=init, max_iter=sweeps, tol=0, random_state=seed) for _ in parts]
    outcomes = run_together([model._program(part) for model, part in zip(models, parts, strict=True)], Clear())
    return np.asarray(outcomes[0].public["T"])


def best_of(
    parts: list[sparse.csr_array], rows: sparse.csr_array, rank: int, sweeps: int, seed: int
) -> NDArray[np.float64]:
    """Return the best of the parties' own dictionaries, by the error on all rows."""
    settings = NMFSettings(max_iter=sweeps, tol=0)
    # with 30 parties, the first ten stand for all: the best of ten differs little from the best of thirty
    own = [weighted_topics(part, rank, random_state=seed, settings=settings) for part in parts[:10]]
    own = [T / np.maximum(np.linalg.norm(T, axis=1), 1e-300)[:, None] for T in own]
    return min(own, key=lambda T: error(rows, T))


def error(rows: sparse.csr_array, T: NDArray[np.float64]) -> float:
    """Return the Frobenius error at the best weights."""
    return float(np.sqrt(2 * rows.shape[0] * reconstruction_error(rows, solve_rows(rows, T), T)))


def perplexity(counts: sparse.csr_array, rows: sparse.csr_array, T: NDArray[np.float64]) -> float:
    """Return the exponential of the mean negative log-likelihood of held-out words, under WT scaled to sum to 1 per row."""
    W, words, logs = solve_rows(rows, T), 0.0, 0.0
    floor = 1e-2 / T.shape[1]  # a hundredth of the mass is uniform, so that unseen words have a probability
    for start in range(0, counts.shape[0], 500):
        model = W[start : start + 500] @ T
        model = 0.99 * model / np.maximum(model.sum(axis=1, keepdims=True), 1e-300) + floor
        part = counts[start : start + 500].tocoo()
        logs += float((part.data * np.log(model[part.row, part.col])).sum())
        words += float(part.data.sum())
    return float(np.exp(-logs / words))


@item(
    paper="tsikhanovich",
    name="table-1",
    title="starts of the factorisation",
    page=14,
    needs=tuple(CORPORA),
    minutes=12,
    code=("tacit.factor.nmf.pd_nmf.merge_program", "tacit.factor.nmf.start.nndsvd_program", "tacit.NMF"),
)
def table_1(run: ItemRun) -> ItemOutcome:
    """Every start is followed by the same number of sweeps over all parties' documents; random 2x by twice as many."""
    rank, sweeps = run.pick(RANK, 3), run.pick(SWEEPS, 2)
    errors: dict[str, list[tuple[float, ...]]] = {name: [] for name in PAPER}
    cases = list(
        itertools.product(
            run.pick(list(CORPORA), ["reuters"]), run.pick(PARTIES, (3,)), run.pick(FRACTIONS, (0.1,)), run.seeds
        )
    )
    tables = {name: weighted(run, name) for name in {case[0] for case in cases}}
    for corpus, count, fraction, seed in run.each(cases):
        X, counts = tables[corpus]
        draw = np.random.default_rng([seed, count, int(100 * fraction)])
        order = draw.permutation(X.shape[0])
        test, rest = order[: len(order) // 10], order[len(order) // 10 :]
        parts = [X[draw.choice(rest, size=int(fraction * X.shape[0]), replace=False)] for _ in range(count)]
        rows = sparse.vstack(parts, format="csr")
        fits = {
            "best of M": best_of(parts, rows, rank, sweeps, seed),
            "nnsvd": joint(parts, "nndsvd", rank, sweeps, seed),
            "random": joint(parts, "random", rank, sweeps, seed),
            "random 2x": joint(parts, "random", rank, 2 * sweeps, seed),
            "PD-NMF-Init": joint(parts, "merge-local", rank, sweeps, seed),
        }
        numbers = {}
        for name, T in fits.items():
            coherence = float(topic_coherence(T, counts).mean())
            numbers[name] = np.array([error(rows, T), coherence, perplexity(counts[test], X[test], T)])
        scale = np.array([numbers["nnsvd"][0], 1.0, numbers["nnsvd"][2]])
        for name, measured in numbers.items():
            errors[name].append(tuple(measured / scale))
    lines = []
    base = PAPER["nnsvd"]
    for name, values in errors.items():
        for place, measure in enumerate(MEASURES):
            ratio = PAPER[name][place] / (base[place] if place != 1 else 1)
            ours = tuple(value[place] for value in values)
            if place == 1:
                remark = "Another measure of coherence: compare the order of the starts."
                lines.append(Row((name, measure), ratio, ours, remark=remark))
            else:
                remark = "Mean over corpora, parties and sizes; the ratio to nnsvd removes the scale of the corpora."
                lines.append(Row((name, measure), ratio, ours, None if name == "nnsvd" else "lower", remark))
    caption = f"k = {rank}, {sweeps} sweeps, M = 3, 5 and 30 parties with 3% of the documents each, three corpora"
    means = {name: float(np.mean([value[0] for value in values])) for name, values in errors.items()}
    holds = means["PD-NMF-Init"] < min(means["random"], means["best of M"], AS_GOOD)
    return ItemOutcome(
        (SideBySide(caption, ("start", "measure"), tuple(lines)),),
        verdicts=(
            "The paper's conclusion holds: PD-NMF-Init is as good as nnsvd, and better than random and best of M."
            if holds
            else "The paper's conclusion, that PD-NMF-Init is as good as nnsvd and better than random and best of M, does not "
            "hold here.",
        ),
    )
