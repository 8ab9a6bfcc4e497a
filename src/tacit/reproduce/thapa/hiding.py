"""Chapter 3: rows that are moved to other clusters."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from tacit.perturb import HideMembership
from tacit.reproduce.catalogue import ItemRun, item
from tacit.reproduce.outcome import Curve, Figure, ItemOutcome, Row, SideBySide
from tacit.reproduce.thapa import multiplicative
from tacit.reproduce.thapa.data import TITLES, Matrix, numbers

CLUSTERS = {"iris": 3, "yeast": 10}
"""The number of classes of each data set."""
TABLE_3_2 = {60: 10, 90: 14, 120: 20, 150: 24}  # page 48, as Table 3.3
TABLE_3_3 = {150: 50, 180: 70, 240: 90, 300: 110, 360: 140, 420: 140, 450: 150, 480: 150}
"""Rows of the data, and rows that were moved, page 48."""
YEAST_ROWS = 300
"""Rows of Yeast in the figures; the thesis does not state theirs."""
CLASSES = tuple(round(0.1 * number, 1) for number in range(1, 10))
"""Values of alpha of Table 3.1, page 46; beta is 1 - alpha."""
CHECK_EVERY = 5
"""Iterations between two comparisons of clusters."""


def _rows(run: ItemRun, name: str, count: int, seed: int = 0) -> Matrix:
    A = numbers(run, name)
    chosen = A[np.random.default_rng(seed).permutation(len(A))[:count]]
    return chosen[:, np.ptp(chosen, axis=0) > 0]


class _Task:
    """Rows to move: half of a kind, or all; a row goes to a named cluster, or to any except its own (C is random there).

    Columns have unit length, (2.2) on page 20: otherwise alpha |A - HW|^2 outweighs beta |H - C|^2, and no row of Iris moves.
    """

    def __init__(self, A: Matrix, n_clusters: int, named: int, anywhere: int, seed: int) -> None:
        draw = np.random.default_rng(seed)
        A = A / np.linalg.norm(A, axis=0)
        self.A = A
        self.means = KMeans(n_clusters, n_init=10, random_state=seed).fit(A)
        self.before: NDArray[np.int64] = self.means.labels_.astype(np.int64)
        chosen = draw.permutation(len(A))[: named + anywhere]
        self.named, self.anywhere = chosen[:named], chosen[named:]
        self.targets = (self.before[self.named] + draw.integers(1, n_clusters, named)) % n_clusters
        self.C = np.eye(n_clusters)[self.before]
        self.C[self.named] = np.eye(n_clusters)[self.targets]
        for row in self.anywhere:
            weights = draw.random(n_clusters)
            weights[self.before[row]] = 0
            self.C[row] = weights / weights.sum()

    def is_done(self, released: Matrix) -> bool:
        """Return whether k-means, from the original centroids, finds every row where it should be."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            after = KMeans(len(self.means.cluster_centers_), init=self.means.cluster_centers_, n_init=1).fit(released)
        labels = after.labels_
        others = np.ones(len(self.A), dtype=bool)
        others[self.named] = others[self.anywhere] = False
        return bool(
            (labels[self.named] == self.targets).all()
            and (labels[self.anywhere] != self.before[self.anywhere]).all()
            and (labels[others] == self.before[others]).all()
        )

    def iterations(self, alpha: float, most: int, seed: int) -> float:
        """Return the iterations of Algorithm 2 that hide all rows without a side effect; infinite if none do."""
        for step in multiplicative.steps(self.A, self.C, alpha, 1 - alpha, most, seed):
            if step.number % CHECK_EVERY == 0 and self.is_done(step.product):
                return float(step.number)
        return np.inf


@item(
    paper="thapa",
    name="figures-3.1-3.4",
    title="Iterations to move rows to a named cluster, or to any other",
    page=45,
    needs=("iris", "yeast"),
    minutes=3,
    code=("tacit.perturb.HideMembership",),
    covers=("figure-3.1", "figure-3.2", "figure-3.3", "figure-3.4"),
)
def figures_3_1_to_3_4(run: ItemRun) -> ItemOutcome:
    """Figures 3.1 to 3.4, pages 45 and 46: alpha = beta = 0.5; as printed, from random starts."""
    counts, most = run.pick((1, 2, 5, 10, 15, 20, 25), (1, 5)), run.pick(300, 20)
    figures, rows = [], []
    for name in run.each(tuple(CLUSTERS)):
        A = _rows(run, name, 150 if name == "iris" else YEAST_ROWS)
        curves = []
        for kind in ("not in a cluster", "in a cluster"):
            distortions = np.array(
                [
                    [
                        _Task(
                            A, CLUSTERS[name], *((count, 0) if kind == "in a cluster" else (0, count)), seed
                        ).iterations(0.5, most, seed)
                        for count in counts
                    ]
                    for seed in run.seeds
                ]
            )
            done = np.isfinite(distortions)
            means = [
                float(column[kept].mean()) if kept.any() else float(most)
                for column, kept in zip(distortions.T, done.T, strict=True)
            ]
            curves.append(Curve(kind, tuple(map(float, counts)), tuple(means)))
            reached = max([count for count, kept in zip(counts, done.T, strict=True) if kept.any()], default=0)
            rows.append(
                Row(
                    (TITLES[name], kind),
                    None if name == "yeast" else 15 if kind == "not in a cluster" else 25,
                    (float(reached),),
                    "higher",
                    f"Largest number of rows among {counts} that all move without a side effect within {most} iterations.",
                    decimals=0,
                )
            )
        figures.append(Figure(f"Figures 3.1 to 3.4, {TITLES[name]}", "rows to move", "iterations", tuple(curves)))
    table = SideBySide(
        "Rows that can be moved (section 3.8.1: about 15 and beyond 25 on Iris)", ("data", "change"), tuple(rows)
    )
    return ItemOutcome(
        (table,),
        tuple(figures),
        verdicts=(
            "To a named cluster, all rows of Iris move at once, as in the thesis. A row that is to go anywhere else gets random "
            "weights on all other clusters. If its own cluster lies between two others, as one of Iris does, a mixture of these "
            "is near its own cluster again, so only few such rows move together. How the thesis moved 15 is open.",
        ),
    )


@item(
    paper="thapa",
    name="figures-3.5-3.8",
    title="Weights alpha and beta at which all rows are moved",
    page=47,
    needs=("iris", "yeast"),
    minutes=8,
    code=("tacit.perturb.HideMembership",),
    covers=("figure-3.5", "figure-3.6", "figure-3.7", "figure-3.8"),
)
def figures_3_5_to_3_8(run: ItemRun) -> ItemOutcome:
    """Figures 3.5 to 3.8, page 47: how often each class of Table 3.1 is the first that works, from alpha 0.9 and from 0.1."""
    runs, most = run.pick(20, 1), run.pick(100, 10)
    figures = []
    for name, moved in run.each((("iris", 10), ("iris", 26), ("yeast", 10), ("yeast", 38))):
        A = _rows(run, name, run.pick(150 if name == "iris" else YEAST_ROWS, 60))
        curves = []
        for label, order in (("from alpha 0.9", CLASSES[::-1]), ("from alpha 0.1", CLASSES)):
            counts = dict.fromkeys(CLASSES, 0)
            for seed in range(run.seed, run.seed + runs):
                task = _Task(A, CLUSTERS[name], moved // 2, moved // 2, seed)
                first = next(
                    (alpha for alpha in order[:: run.pick(1, 4)] if np.isfinite(task.iterations(alpha, most, seed))),
                    None,
                )
                if first is not None:
                    counts[first] += 1
            curves.append(Curve(label, tuple(range(9)), tuple(map(float, counts.values()))))
        figures.append(
            Figure(
                f"{TITLES[name]} data with p = {moved}, {runs} runs",
                "class of Table 3.1 (alpha = 0.1 to 0.9)",
                "runs that converge there",
                tuple(curves),
                ticks=tuple(map(str, range(1, 10))),
                bars=True,
            )
        )
    return ItemOutcome(
        figures=tuple(figures),
        verdicts=(
            "In the thesis, runs with few rows to move converge near the weights at which they begin, and it does not say how "
            "many of its 100 runs converge.",
            *(
                f"{figure.caption}: {sum(figure.curves[0].y):.0f} converge from alpha 0.9, and {sum(figure.curves[1].y):.0f} "
                "from alpha 0.1; in the others, some row goes nowhere at any weights."
                for figure in figures
            ),
        ),
    )


def _wishes(rows: Matrix, n_clusters: int, count: int, seed: int) -> dict[int, int | str]:
    """Return `count` rows to move, half to a named cluster and half anywhere else."""
    draw = np.random.default_rng(seed)
    labels = HideMembership(n_clusters=n_clusters, scale="none").clusters(rows)
    chosen = draw.permutation(len(rows))[:count]
    named = {int(row): int((labels[row] + draw.integers(1, n_clusters)) % n_clusters) for row in chosen[::2]}
    return named | {int(row): "anywhere else" for row in chosen[1::2]}


def _changes(run: ItemRun, name: str, figures: dict[int, int], caption: str) -> ItemOutcome:
    rows = []
    for size in run.each(run.pick(tuple(figures), tuple(figures)[:1])):
        part = _rows(run, name, size)
        for asked, label in ((figures[size], "as many as the thesis"), (size // 2, "half of all rows")):
            moved, sides = [], []
            for seed in run.seeds:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    model = HideMembership(
                        _wishes(part, CLUSTERS[name], asked, seed), n_clusters=CLUSTERS[name], scale="none"
                    ).fit(part)
                moved.append(float(len(model.changes_)))
                sides.append(len(model.side_effects_))
            rows.append(
                Row(
                    (str(size), label, str(asked)),
                    float(figures[size]),
                    tuple(moved),
                    "higher",
                    f"To convergence, at most {max(sides)} side effects; half to a named cluster, half anywhere else.",
                    decimals=0,
                )
            )
    return ItemOutcome((SideBySide(caption, ("rows", "asked", "number"), tuple(rows)),))


@item(
    paper="thapa",
    name="table-3.2",
    title="Iris: rows that were moved, by the size of the data",
    page=48,
    needs=("iris",),
    minutes=1,
    code=("tacit.perturb.HideMembership",),
)
def table_3_2(run: ItemRun) -> ItemOutcome:
    """Table 3.2, page 48."""
    return _changes(run, "iris", TABLE_3_2, "Table 3.2: rows of Iris that change their cluster as wanted")


@item(
    paper="thapa",
    name="table-3.3",
    title="Yeast: rows that were moved, by the size of the data",
    page=48,
    needs=("yeast",),
    minutes=6,
    code=("tacit.perturb.HideMembership",),
)
def table_3_3(run: ItemRun) -> ItemOutcome:
    """Table 3.3, page 48."""
    return _changes(run, "yeast", TABLE_3_3, "Table 3.3: rows of Yeast that change their cluster as wanted")
