"""Table 4: RMSE on MovieLens 1M.

What the numbers of the paper are: ratings divided by the length of the user's vector of ratings (the sensitivity needs rows of
length 1), and the error of the observed ratings, which are also those that were fitted, over their number. On this scale the
answer 0 for every rating has the RMSE sqrt(6040 / 1,000,209) = 0.0777. The column DPNMF of the same table is on the scale of
stars, so the two columns cannot be compared.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.sparse import csr_array

from tacit.factor.arrays import SomeFloats
from tacit.factor.nmf.estimator import NMF
from tacit.factor.nmf.nnls import solve_rows
from tacit.factor.ratings.non_negative import RatingNMF
from tacit.reproduce.catalogue import ItemRun, item
from tacit.reproduce.datasets.ratings import RatingTriples
from tacit.reproduce.outcome import ItemOutcome, Row, SideBySide
from tacit.reproduce.saha_imtiaz.curves import repaired_dictionary, tight
from tacit.reproduce.saha_imtiaz.setting import ALGORITHM, Case, published, unit_rows

PAPER = {math.inf: 0.0624, 0.3: 0.0675, 0.5: 0.0648, 0.7: 0.0640}
"""Table 4, page 9, "Ours": RMSE by epsilon of one iteration; inf is without privacy."""
PAPER_DPNMF = {math.inf: 0.8568, 0.3: 1.1953, 0.5: 1.0785, 0.7: 1.0155}
"""Table 4, page 9, "DPNMF", in stars."""
RANK = 6
"""The paper does not state K; the converged fit without privacy passes its number between 5 and 8."""


def rmse(X: csr_array, H: SomeFloats, T: SomeFloats) -> float:
    r"""Return the paper's :math:`\frac{1}{\sqrt N}\|V - \hat V \odot X\|_F` with N observed ratings."""
    triples, total = X.tocoo(), 0.0
    for part in np.array_split(np.arange(X.nnz), max(1, X.nnz // 200_000)):
        rows, columns = triples.row[part], triples.col[part]
        total += float(((np.einsum("ij,ij->i", H[rows], T[:, columns].T) - triples.data[part]) ** 2).sum())
    return float(np.sqrt(total / X.nnz))


@item(
    paper="saha-imtiaz",
    name="table-4",
    title="RMSE comparison on MovieLens 1M",
    page=9,
    needs=("movielens-1m",),
    minutes=6,
    code=(*ALGORITHM, "tacit.NMF", "tacit.RatingNMF"),
)
def table_4(run: ItemRun) -> ItemOutcome:
    """Fit users x movies, with zeros for missing ratings, and measure the error of the same ratings."""
    rated: RatingTriples = run.data["movielens-1m"]
    stars = csr_array((rated.ratings, (rated.users, rated.items)), shape=rated.shape)
    if run.quick:
        stars = stars[:300, :200].tocsr()
        stars = stars[np.flatnonzero(np.diff(stars.indptr) > 0)]
    X = unit_rows(stars)
    rank, rounds = run.pick(RANK, 3), run.pick(30, 3)
    case = Case("MovieLens 1M", X, rank)
    rows = []
    for budget, paper in run.each(list(PAPER.items())):
        seeds = run.seeds if math.isfinite(budget) else run.seeds[:1]
        fits = [published(case, budget, rounds, seed).components_ for seed in seeds]
        label = "without privacy" if math.isinf(budget) else f"epsilon_i = {budget:g}"
        values = tuple(rmse(X, solve_rows(X, T), T) for T in fits)
        rows.append(
            Row(
                (label, "Algorithm 2 as printed"), paper, values, "lower", REMARK if math.isinf(budget) else UNPROTECTED
            )
        )
        if math.isfinite(budget):
            total = tight(budget, rounds)
            own = [repaired_dictionary(case, total, seed) for seed in run.seeds]
            values = tuple(rmse(X, solve_rows(X, T), T) for T in own)
            remark = f"With a guarantee: ({total:.1f}, 1e-5)-DP for a user, which the paper's algorithm does not have."
            rows.append(Row((label, "PrivateNMF"), paper, values, "lower", remark))
    for k in run.pick((4, 6, 8, 10, 20), (2,)):
        T = NMF(k, max_iter=run.pick(60, 3), random_state=run.seed).fit(X).components_
        remark = "The paper does not state K."
        rows.append(
            Row(
                ("without privacy", f"tacit.NMF, K = {k}"),
                PAPER[math.inf],
                (rmse(X, solve_rows(X, T), T),),
                "lower",
                remark,
            )
        )
    zero = float(np.sqrt(X.shape[0] / X.nnz))
    rows.append(Row(("-", "0 for every rating"), None, (zero,), remark="What no model at all reaches on this scale."))
    scale = SideBySide("RMSE of ratings over the length of the user's ratings", ("budget", "method"), tuple(rows))
    return ItemOutcome((scale, on_scale_of_stars(stars, run)))


UNPROTECTED = (
    "As printed: the start is the NNDSVD of the ratings without noise, so epsilon_i does not cover all that leaves."
)
REMARK = "The paper states neither K nor the number of iterations; converged fits of several K are below."


def on_scale_of_stars(stars: csr_array, run: ItemRun) -> SideBySide:
    """The column DPNMF, in stars: a factorisation of the known ratings only, on held-out ratings too."""
    triples = stars.tocoo()
    held = np.random.default_rng(run.seed).random(stars.nnz) < 0.1
    # only users and movies that the model knows
    held &= np.isin(triples.row, triples.row[~held]) & np.isin(triples.col, triples.col[~held])
    parts = {"fitted": ~held, "held out": held}
    known = [part[~held] for part in (triples.row, triples.col, triples.data)]
    model = RatingNMF(run.pick(10, 2), sweeps=run.pick(20, 2), rating_range=(1, 5)).fit(*known)
    rows = []
    for name, mask in parts.items():
        predicted = model.predict(triples.row[mask], triples.col[mask])
        error = float(np.sqrt(np.mean((predicted - triples.data[mask]) ** 2)))
        remark = "DPNMF is quoted by the paper from another method; whether on held-out ratings is not stated."
        rows.append(
            Row(
                ("without privacy", name),
                PAPER_DPNMF[math.inf],
                (error,),
                None if name == "fitted" else "lower",
                remark,
            )
        )
    return SideBySide("RMSE in stars, beside the column DPNMF", ("budget", "ratings"), tuple(rows))
