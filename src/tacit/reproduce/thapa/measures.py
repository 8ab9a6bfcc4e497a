"""Chapter 7: measures of distortion, and what leaves them unchanged."""

from __future__ import annotations

import numpy as np
from scipy.stats import ortho_group

from tacit.measure import canonical_correlation, correlation_measure, neighbour_overlap, value_difference
from tacit.perturb import AdditiveNoise
from tacit.reproduce.catalogue import ItemRun, item
from tacit.reproduce.outcome import Curve, Figure, ItemOutcome, Row, SideBySide
from tacit.reproduce.thapa.data import TITLES, Matrix, numbers

FIGURE_7_6 = ("iris", "magic04", "spambase", "winequality")
TABLE_7_5 = {
    "iris": (4.833333, 9.36000, 13.72340),
    "winequality": (4.994767, 9.982300, 14.960135),
    "spambase": (4.996522, 9.980656, 14.953054),
    "breast cancer": (4.952548, 9.813708, 14.597540),
}
"""KnnM(5), KnnM(10) and KnnM(15) after a rotation, page 117."""
SIZES = (5, 10, 15)
"""k of the three columns of Table 7.5."""


def _rows(run: ItemRun, name: str) -> Matrix:
    if name == "breast cancer":
        from sklearn.datasets import load_breast_cancer

        table: Matrix = load_breast_cancer().data
        return table
    table = numbers(run, name)
    most = run.pick(5000, 150)
    chosen = table[np.random.default_rng(run.seed).permutation(len(table))[:most]]
    return chosen[:, np.ptp(chosen, axis=0) > 0]


@item(
    paper="thapa",
    name="figure-7.6",
    title="CM, CCA, KnnM and VD as the distortion grows",
    page=116,
    needs=FIGURE_7_6,
    minutes=1,
    code=(
        "tacit.measure.correlation_measure",
        "tacit.measure.canonical_correlation",
        "tacit.measure.neighbour_overlap",
    ),
    covers=("figure-7.2", "figure-7.3", "figure-7.4", "figure-7.5", "figure-7.6"),
)
def figure_7_6(run: ItemRun) -> ItemOutcome:
    """Figures 7.2 to 7.6, page 116: uniform noise; KnnM as a fraction of its neighbourhood."""
    levels = run.pick((0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0), (0.1, 0.5))
    figures = []
    for name in run.each(FIGURE_7_6):
        A = _rows(run, name)
        curves: dict[str, list[float]] = {"VD": [], "CM": [], "CCA": [], **{f"KnnM({k})": [] for k in SIZES}}
        for level in levels:
            released = AdditiveNoise(level, random_state=run.seed).fit_transform(A) if level else A
            curves["VD"].append(value_difference(A, released))
            curves["CM"].append(correlation_measure(A, released))
            curves["CCA"].append(canonical_correlation(A, released))
            for k in SIZES:
                curves[f"KnnM({k})"].append(neighbour_overlap(A, released, k) / k)
        percent = tuple(100 * level for level in levels)
        drawn = tuple(Curve(label, percent, tuple(values), dashed=label == "VD") for label, values in curves.items())
        figures.append(Figure(f"Figure 7.6, {TITLES[name]}", "noise, % of the range", "measure", drawn))
    return ItemOutcome(figures=tuple(figures))


@item(
    paper="thapa",
    name="table-7.4",
    title="CM and CCA do not depend on the units",
    page=117,
    needs=FIGURE_7_6,
    minutes=0.2,
    code=("tacit.measure.correlation_measure", "tacit.measure.canonical_correlation"),
)
def table_7_4(run: ItemRun) -> ItemOutcome:
    """Table 7.4, page 117: every column in another unit."""
    rows = []
    for name in run.each(("iris", "winequality", "spambase", "magic04")):
        A = _rows(run, name)
        draw = np.random.default_rng(run.seed)
        changed = A * 10.0 ** draw.uniform(-3, 3, A.shape[1]) + draw.uniform(-100, 100, A.shape[1])
        for label, measure in (("CM", correlation_measure), ("CCA", canonical_correlation)):
            remark = "Each column multiplied by a power of ten and shifted."
            rows.append(Row((TITLES[name], label), 1.0, (measure(A, changed),), "higher", remark, 2))
    return ItemOutcome((SideBySide("Table 7.4: unit independence", ("data", "measure"), tuple(rows)),))


@item(
    paper="thapa",
    name="table-7.5",
    title="KnnM does not depend on a rotation",
    page=117,
    needs=("iris", "winequality", "spambase"),
    minutes=1,
    code=("tacit.measure.neighbour_overlap",),
    stand_in="scikit-learn's diagnostic breast cancer table (569 rows) for the thesis's WBC",
)
def table_7_5(run: ItemRun) -> ItemOutcome:
    """Table 7.5, page 117: neighbours kept by a random rotation."""
    rows = []
    for name in run.each(tuple(TABLE_7_5)):
        A = _rows(run, name)
        turned = A @ ortho_group.rvs(A.shape[1], random_state=run.seed)
        for k, printed in zip(SIZES, TABLE_7_5[name], strict=True):
            ours = neighbour_overlap(A, turned, k, sample=None)
            remark = (
                "A rotation by an exactly orthogonal matrix keeps all distances; the thesis's Gram-Schmidt does not."
            )
            rows.append(Row((TITLES.get(name, "WBC"), f"KnnM({k})"), printed, (ours,), "higher", remark, 6))
    return ItemOutcome((SideBySide("Table 7.5: rotation invariance", ("data", "measure"), tuple(rows)),))
