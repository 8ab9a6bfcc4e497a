"""Figure 4: what parties of several sizes gain by joining, for topics and ratings, and what noise takes away."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from tacit.factor.arrays import SomeFloats
from tacit.factor.nmf.estimator import NMF
from tacit.factor.nmf.private import PrivateNMF
from tacit.factor.ratings.non_negative import RatingNMF
from tacit.measure import held_out_error
from tacit.privacy.calibration import gaussian_epsilon
from tacit.privacy.published import dwork_roth_noise_multiplier
from tacit.reproduce.catalogue import ItemRun, item
from tacit.reproduce.outcome import Curve, Figure, ItemOutcome
from tacit.reproduce.tsikhanovich.corpora import rating_matrix, weighted

SIZES = (0.005, 0.01, 0.03, 0.1, 0.3)
"""Party sizes, as fractions of all rows."""
EPSILON, STEP_DELTA, NOISY_RANK = 0.25, 0.01, 7
"""Figure 4c: noise of one iteration, and k."""
ROUNDS = 10
"""Rounds of the private fit. The paper does not state them; the total epsilon follows from them."""


def topics(X: csr_array, rank: int, sweeps: int, seed: int) -> SomeFloats:
    """Return a dictionary."""
    return NMF(min(rank, X.shape[0]), init="random", max_iter=sweeps, random_state=seed).fit(X).components_


def improvement(own: float, joint: float) -> float:
    """Return by how many percent the joint error is lower; errors are squared."""
    return 100 * (1 - float(np.sqrt(joint / own)))


@item(
    paper="tsikhanovich",
    name="figure-4",
    title="gain of the joint model: topics, ratings, topics with noise",
    page=15,
    needs=("enron", "movielens-1m"),
    minutes=10,
    code=("tacit.NMF", "tacit.RatingNMF", "tacit.factor.nmf.saha_imtiaz.rounds_program", "tacit.PrivateNMF"),
    covers=("figure-4a", "figure-4b", "figure-4c"),
)
def figure_4(run: ItemRun) -> ItemOutcome:
    """Joint fits give the same result as parties (tests/parties), so one fit of all rows stands for them."""
    X = weighted(run, "enron", 3000)[0]
    a, c, said = topic_gains(run, X)
    return ItemOutcome(figures=(a, rating_gains(run), c), verdicts=(said,))


def topic_gains(run: ItemRun, X: csr_array) -> tuple[Figure, Figure, str]:
    """Return 4a and 4c: error on held-out documents with the joint topics, against a party's own."""
    sizes, sweeps = run.pick(SIZES, (0.1, 0.3)), run.pick(30, 3)
    ranks = run.pick((7, 14, 28), (2,))
    gains = {rank: np.empty((run.repetitions, len(sizes))) for rank in ranks}
    total = gaussian_epsilon(dwork_roth_noise_multiplier(EPSILON, STEP_DELTA), 1e-5, steps=ROUNDS)
    noisy: dict[str, list[list[float]]] = {"noise in each of 10 iterations": [], "moments, same total": []}
    for place, seed in enumerate(run.seeds):
        order = np.random.default_rng(seed).permutation(X.shape[0])
        test, train = X[order[: len(order) // 5]], X[order[len(order) // 5 :]]
        own_errors: dict[int, list[float]] = {}
        for rank in run.each(ranks):
            joint = held_out_error(test, topics(train, rank, sweeps, seed))
            own_errors[rank] = []
            for size in sizes:
                part = train[: max(int(size * X.shape[0]), rank + 1)]
                own_errors[rank].append(held_out_error(test, topics(part, rank, sweeps, seed)))
            gains[rank][place] = [improvement(own, joint) for own in own_errors[rank]]
        rank = run.pick(NOISY_RANK, 2)
        for name, method in (("noise in each of 10 iterations", "rounds"), ("moments, same total", "moments")):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = PrivateNMF(rank, epsilon=total, delta=1e-5, method=method, rounds=ROUNDS, random_state=seed)
                model.fit(train)
            error = held_out_error(test, model.components_)
            noisy[name].append([improvement(own, error) for own in own_errors[rank]])
    lines = tuple(Curve.of(f"k = {rank}", sizes, values) for rank, values in gains.items())
    a = Figure("Figure 4a: topics, Enron", "party size (fraction)", "error lower than alone (%)", lines, log_x=True)
    rank = run.pick(NOISY_RANK, 2)
    c = Figure(
        f"Figure 4c: topics with noise of epsilon = {EPSILON} and delta = {STEP_DELTA} in each iteration, k = {rank}",
        "party size (fraction)",
        "error lower than alone (%)",
        (
            Curve.of("joint, no noise", sizes, gains[rank], dashed=True),
            *(Curve.of(f"joint, {name}", sizes, values) for name, values in noisy.items()),
        ),
        log_x=True,
    )
    worst = float(np.mean(noisy["noise in each of 10 iterations"], axis=0)[0])
    better = float(np.mean(noisy["moments, same total"], axis=0)[0])
    said = (
        f"With noise in each iteration the smallest party gains {worst:+.1f}% (the paper: worse than alone); one noisy release "
        f"of moments at the same total epsilon of {total:.2f} gains {better:+.1f}%."
    )
    if better > worst:
        said += " So a part of what the paper blames on differential privacy is the cost of ten iterations."
    return a, c, said


def rating_gains(run: ItemRun) -> Figure:
    """Return 4b: RMSE of a party's held-out ratings with the joint items, against its own model."""
    X = rating_matrix(run)
    sizes = run.pick((0.01, 0.03, 0.1, 0.3), (0.3,))
    ranks, sweeps = run.pick((5, 10, 20), (2,)), run.pick(12, 2)
    triples = X.tocoo()
    draw = np.random.default_rng(run.seed)
    users = draw.permutation(X.shape[0])
    held = draw.random(X.nnz) < 0.2
    place = np.empty(X.shape[0], dtype=np.int64)
    place[users] = np.arange(X.shape[0])
    position = place[triples.row]
    lines = []
    for rank in ranks:
        model = _ratings(run, rank, sweeps, triples, ~held)
        gained = []
        for size in sizes:
            inside = position < int(size * X.shape[0])
            own = _ratings(run, rank, sweeps, triples, ~held & inside)
            test = (
                held
                & inside
                & np.isin(triples.col, triples.col[~held & inside])
                & np.isin(triples.row, triples.row[~held])
            )
            errors = [_rmse(fitted, triples, test) for fitted in (own, model)]
            gained.append(100 * (1 - errors[1] / errors[0]))
        lines.append(Curve(f"k = {rank}", sizes, tuple(gained)))
    caption = "Figure 4b: ratings, MovieLens 1M; held-out ratings of movies that the party knows"
    return Figure(caption, "party size (fraction)", "RMSE lower than alone (%)", tuple(lines), log_x=True)


def _ratings(run: ItemRun, rank: int, sweeps: int, triples: coo_array, mask: NDArray[np.bool_]) -> RatingNMF:
    model = RatingNMF(rank, sweeps=sweeps, rating_range=(1, 5), random_state=run.seed)
    return model.fit(triples.row[mask], triples.col[mask], triples.data[mask])


def _rmse(model: RatingNMF, triples: coo_array, mask: NDArray[np.bool_]) -> float:
    predicted = np.clip(model.predict(triples.row[mask], triples.col[mask]), 1, 5)
    return float(np.sqrt(np.mean((predicted - triples.data[mask]) ** 2)))
