"""Figure 5: what parties of several sizes gain by joint components, without and with differential privacy."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from tacit.factor.arrays import Floats, SomeFloats
from tacit.factor.svd.estimator import SVD
from tacit.factor.svd.private import PrivatePCA, PrivatePCR, PrivateSVD
from tacit.factor.svd.regression import PrincipalComponentRegression
from tacit.reproduce.catalogue import ItemRun, item
from tacit.reproduce.datasets.regression import Regression
from tacit.reproduce.outcome import Curve, Figure, ItemOutcome
from tacit.reproduce.tsikhanovich.corpora import weighted

if TYPE_CHECKING:
    from scipy.sparse import csr_array

SIZES = (0.005, 0.01, 0.03, 0.1, 0.333)
"""Size of a party as a fraction of all rows. Set by hand over the axis of Figure 5."""
RANK, DELTA, EPSILONS = 20, 1e-5, (0.1, 1.0)
"""The paper's differential privacy has epsilon = 0.1 and delta = 1e-5 (page 17); 1 is added."""


@item(
    paper="tsikhanovich",
    name="figure-5",
    title="gain of joint components: regression and low-rank approximation, without and with noise",
    page=18,
    needs=("20newsgroups", "enron", "online-news", "million-songs"),
    minutes=8,
    code=("tacit.SVD", "tacit.PrincipalComponentRegression", "tacit.PrivateSVD", "tacit.PrivatePCR"),
)
def figure_5(run: ItemRun) -> ItemOutcome:
    """Percent by which components of all rows lower a held-out error, against those of a party's own rows."""
    figures, said = [], []
    panels: Mapping[str, Callable[[int], dict[str, list[float]]]] = {
        "PCR, Million Songs": lambda seed: regression(run, run.data["million-songs"], seed, log_target=False),
        "PCR, Online News": lambda seed: regression(run, run.data["online-news"], seed, log_target=True),
        "LRA, 20NG": lambda seed: approximation(run, weighted(run, "20newsgroups", 4000)[0], seed),
        "LRA, Enron": lambda seed: approximation(run, weighted(run, "enron", 4000)[0], seed),
    }
    sizes = run.pick(SIZES, (0.1, 0.333))
    for title, measure in run.each(list(panels.items())):
        gains = [measure(seed) for seed in run.seeds]
        figures.append(
            Figure(
                f"Figure 5, {title}",
                "party size (fraction of the rows)",
                "error lower than alone (%)",
                tuple(Curve.of(name, sizes, [values[name] for values in gains]) for name in gains[0]),
                log_x=True,
            )
        )
        noisy = float(np.mean([values[f"private, epsilon = {EPSILONS[0]:g}"] for values in gains], axis=0)[0])
        plain = float(np.mean([values["PD-SVD"] for values in gains], axis=0)[0])
        said.append(
            f"{title}: the smallest party gains {plain:+.1f}% by joining and {noisy:+.1f}% with epsilon = {EPSILONS[0]:g} for "
            "each row of all parties together."
        )
    return ItemOutcome(figures=tuple(figures), verdicts=tuple(said))


def approximation(run: ItemRun, X: csr_array, seed: int) -> dict[str, list[float]]:
    """Return the gains of low-rank approximation |X - X V V'|."""
    order = np.random.default_rng(seed).permutation(X.shape[0])
    test, train = X[order[: len(order) // 5]], X[order[len(order) // 5 :]]
    rank = run.pick(RANK, 3)
    joint = {"PD-SVD": lost(test, SVD(rank, tol=1e-4).fit(train).components_)}
    for epsilon in EPSILONS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = PrivateSVD(rank, epsilon=epsilon, delta=DELTA, non_negative=True).fit(train)
        joint[f"private, epsilon = {epsilon:g}"] = lost(test, model.components_)
    own = []
    for size in run.pick(SIZES, (0.1, 0.333)):
        count = max(int(size * X.shape[0]), rank + 1)
        starts = (0, count) if 2 * count <= train.shape[0] else (0,)
        own.append(np.mean([lost(test, SVD(rank, tol=1e-4).fit(train[at : at + count]).components_) for at in starts]))
    return {name: [100 * (1 - error / float(alone)) for alone in own] for name, error in joint.items()}


def lost(rows: csr_array, components: SomeFloats) -> float:
    """Return |X - X V V'|_F."""
    squares = float(rows.multiply(rows).sum())
    return float(np.sqrt(max(squares - float(np.sum((rows @ components.T) ** 2)), 0.0)))


def regression(run: ItemRun, data: Regression, seed: int, *, log_target: bool) -> dict[str, list[float]]:
    """Return the gains of principal component regression; the columns are brought to [0, 1] by public ranges."""
    rows = np.random.default_rng(seed).permutation(len(data.y))[: run.pick(len(data.y), 400)]
    X, y = data.X[rows], (np.log(data.y[rows]) if log_target else data.y[rows])
    # round numbers that hold 99% of each column, in place of the ranges that a person who knows the columns would name
    low, high = np.floor(np.quantile(X, 0.005, axis=0)), np.ceil(np.quantile(X, 0.995, axis=0)) + 1e-9
    high = np.maximum(high, low + 1.0)
    target = (0.0, float(np.log(1e6))) if log_target else (1922.0, 2011.0)
    y = np.clip(y, *target)
    test, train = slice(0, len(y) // 5), slice(len(y) // 5, None)
    limits = (low.tolist(), high.tolist())
    Z, rank = PrivatePCA(feature_range=limits).scaled(X), run.pick(RANK, 3)

    def rmse(model: PrincipalComponentRegression | PrivatePCR, table: Floats) -> float:
        return float(np.sqrt(np.mean((model.predict(table[test]) - y[test]) ** 2)))

    joint = {"PD-SVD": rmse(PrincipalComponentRegression(rank).fit(Z[train], y[train]), Z)}
    for epsilon in EPSILONS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = PrivatePCR(rank, epsilon=epsilon, delta=DELTA, feature_range=limits, target_range=target)
            joint[f"private, epsilon = {epsilon:g}"] = rmse(model.fit(X[train], y[train]), X)
    own = []
    for size in run.pick(SIZES, (0.1, 0.333)):
        count = max(int(size * len(y)), rank + 5)
        first = len(y) // 5
        starts = range(first, min(first + 3 * count, len(y) - count + 1), count)
        errors = [
            rmse(PrincipalComponentRegression(rank).fit(Z[at : at + count], y[at : at + count]), Z) for at in starts
        ]
        own.append(np.mean(errors))
    return {name: [100 * (1 - error / float(alone)) for alone in own] for name, error in joint.items()}
