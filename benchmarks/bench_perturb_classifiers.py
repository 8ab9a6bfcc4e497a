"""The private table, and classifiers trained on it, on the data sets of Thapa (2013).

Perturbed tables are compared with the thesis by `tacit reproduce thapa`. The classes of the wines: white wines, good from
quality 6; 30% of the rows are for testing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from harness import Part, main
from real_data import data_folder

from tacit.data import CategoryColumn, NumberColumn
from tacit.measure import classifier_scores
from tacit.synthetic import PrivateTable

TABLES = ("spambase", "magic04", "winequality")


def table(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the numeric columns of a data set, and its two classes."""
    frame = pl.read_csv(data_folder() / "uci" / f"{name}.csv.gz")
    if name == "winequality":
        frame = frame.filter(pl.col("is_red") == 0)
        return frame.drop("quality", "is_red").to_numpy().astype(float), (frame["quality"] >= 6).to_numpy().astype(int)
    _, classes = np.unique(frame["y"].to_numpy(), return_inverse=True)
    return frame.drop("y").to_numpy().astype(float), classes


def halves(name: str, fraction: float = 0.3) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    A, y = table(name)
    test = np.random.default_rng(0).random(len(A)) < fraction
    return A[~test], y[~test], A[test], y[test]


def auc(train: np.ndarray, y: np.ndarray, test: np.ndarray, truth: np.ndarray, classifier: str) -> float:
    return float(classifier_scores(train, y, test, truth, classifier, kernel_rows=3000)[1])


def private(tables: Sequence[str] = TABLES, epsilons: Sequence[float] = (0.5, 1.0, 3.0, 10.0)) -> None:
    print("\nPrivateTable, delta 1e-6: AUC of classifiers trained on synthetic rows, tested on real ones")
    for name in tables:
        train, y, test, truth = halves(name)
        width = train.shape[1]
        # bounds must be public: these represent what a holder would know of the quantities in advance
        schema = {str(place): NumberColumn(*round_bounds(train[:, place])) for place in range(width)}
        schema[str(width)] = CategoryColumn((0, 1))
        for classifier in ("logistic-l1", "naive-bayes", "tree"):
            areas = []
            for epsilon in epsilons:
                model = PrivateTable(epsilon=epsilon, schema=schema, label=width)
                synthetic = model.fit(np.column_stack([train, y])).sample(len(train), random_state=0)
                drawn = synthetic[:, -1].astype(int)
                areas.append(auc(synthetic[:, :-1], drawn, test, truth, classifier))
            shown = ", ".join(f"{value:.3f}" for value in areas)
            asked = ", ".join(f"{epsilon:g}" for epsilon in epsilons)
            without = auc(train, y, test, truth, classifier)
            print(f"{name:<12} {classifier:<12} epsilon {asked}: {shown}; without privacy {without:.3f}", flush=True)


def round_bounds(column: np.ndarray) -> tuple[float, float]:
    """Return the range of the column, rounded outwards to a tenth of the power of ten of its width."""
    step = 10.0 ** np.floor(np.log10(np.ptp(column))) / 10
    return float(np.floor(column.min() / step) * step), float(np.ceil(column.max() / step) * step)


WINES = {"tables": ("winequality",)}
PARTS = {"private": Part(private, quick={**WINES, "epsilons": (3.0,)})}

if __name__ == "__main__":
    main(__doc__, PARTS)
