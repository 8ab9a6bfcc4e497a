"""Releases of changed tables and the classifiers they serve, ours beside the thesis (Thapa 2013), on the same data sets.

    python benchmarks/bench_perturb_classifiers.py            # all of it
    python benchmarks/bench_perturb_classifiers.py cap        # chapter 5: AUC against distortion
    python benchmarks/bench_perturb_classifiers.py nap        # Tables 6.1 to 6.12
    python benchmarks/bench_perturb_classifiers.py private    # the private table beside them

In the tables' own units, as in the thesis. What it does not say: the classes of the wines (white ones here, good from quality 6),
the settings of its kernels, and how rows were split (here: 30% to test on).
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
from real_data import data_folder

from tacit.errors import InvalidInputError
from tacit.measure import classifier_scores
from tacit.perturb import AdditiveNoise, CorrelationAware, NeighbourhoodAware, PrivateTable, TruncatedSVDRelease

RAW: dict[str, Any] = {"scale": "none"}
# data set: classifier: (VD, AUC of NBP, AUC of NBPT, AUC of SVD near its largest VD), a row of Tables 6.1 to 6.12
CHAPTER_6 = {
    "spambase": {
        "svm-sigmoid": (0.646821, 0.877, 0.884, 0.599),
        "svm-rbf": (0.680908, 0.697, 0.681, 0.500),
        "svm-combined": (0.675638, 0.886, 0.866, 0.536),
        "tree": (0.619634, 0.900, 0.902, 0.504),
    },
    "winequality": {
        "svm-sigmoid": (0.450574, 0.638, 0.734, 0.495),
        "svm-rbf": (0.451724, 0.647, 0.820, 0.525),
        "svm-combined": (0.451707, 0.629, 0.739, 0.485),
        "tree": (0.450207, 0.708, 0.821, 0.497),
    },
    "magic04": {
        "svm-sigmoid": (0.285163, 0.603, 0.592, 0.528),
        "svm-rbf": (0.284462, 0.828, 0.828, 0.746),
        "svm-combined": (0.285756, 0.630, 0.636, 0.518),
        "tree": (0.288334, 0.799, 0.797, 0.532),
    },
}


def table(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of a data set, and its two classes."""
    frame = pl.read_csv(data_folder() / "uci" / f"{name}.csv.gz")
    if name == "winequality":
        frame = frame.filter(pl.col("is_red") == 0)
        return frame.drop("quality", "is_red").to_numpy().astype(float), (frame["quality"] >= 6).to_numpy().astype(int)
    _, classes = np.unique(frame["y"].to_numpy(), return_inverse=True)
    return frame.drop("y").to_numpy().astype(float), classes


def halves(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    A, y = table(name)
    test = np.random.default_rng(0).random(len(A)) < 0.3
    return A[~test], y[~test], A[test], y[test]


def cap() -> None:
    print("\nChapter 5: AUC; CAP with eta 0.1, test rows changed without their labels, as they are, or by their labels")
    print("(the thesis's, which tells the answer); RP is uniform noise, test rows changed or as they are")
    for name in ("spambase", "magic04", "winequality"):
        train, y, test, truth = halves(name)
        for classifier in ("logistic-l1", "naive-bayes"):
            print(f"\n{name}, {classifier}: original {auc(train, y, test, truth, classifier):.3f}")
            header = f"{'CAP':>8} {'as is':>8} {'labels*':>8} | {'RP':>8} {'as is':>8}"
            print(f"{'VD':>6} {header}")
            for target in (0.05, 0.1, 0.2, 0.4, 0.6, 0.8):
                ours = CorrelationAware(eta=0.1, target_distortion=target, random_state=0)
                noise = AdditiveNoise(target_distortion=target, random_state=0)
                released, noisy = ours.fit_transform(train, y), noise.fit_transform(train)
                labelled = ours.transform_with_labels(test, truth)
                tests = [(released, rows) for rows in (ours.transform(test), test, labelled)]
                tests += [(noisy, rows) for rows in (noise.transform(test), test)]
                found = [auc(rows, y, seen, truth, classifier) for rows, seen in tests]
                shown = " ".join(f"{value:>8.3f}" for value in found[:3]) + " | "
                print(f"{target:>6} {shown}" + " ".join(f"{value:>8.3f}" for value in found[3:]), flush=True)
    print("\nDecision trees: CAP by classes and by leaves, test rows changed without their labels; RP; original")
    for name in ("spambase", "magic04", "winequality"):
        train, y, test, truth = halves(name)
        for target in (0.1, 0.4):
            found = []
            for form in ("class", "leaf"):
                try:
                    model = CorrelationAware(eta=0.1, form=form, target_distortion=target, random_state=0)
                    found.append(f"{auc(model.fit_transform(train, y), y, model.transform(test), truth, 'tree'):.3f}")
                except InvalidInputError as error:
                    found.append(error.expected.split(": ")[-1])
            noise = AdditiveNoise(target_distortion=target, random_state=0).fit(train)
            found.append(f"{auc(noise.transform(train), y, noise.transform(test), truth, 'tree'):.3f}")
            found.append(f"{auc(train, y, test, truth, 'tree'):.3f}")
            print(f"{name:<12} VD {target}: " + "  ".join(found), flush=True)


def auc(train: np.ndarray, y: np.ndarray, test: np.ndarray, truth: np.ndarray, classifier: str) -> float:
    return float(classifier_scores(train, y, test, truth, classifier, kernel_rows=3000)[1])


def nap() -> None:
    print(
        "\nTables 6.1 to 6.12: AUC at the thesis's distortion; NBP: test rows as they are, NBPT: changed too; SVD: at rank 1,"
    )
    print("its largest distortion. Thesis | ours. Support vector machines learn from 3,000 rows here.")
    print(f"{'data':<12} {'classifier':<13} {'VD':>5} {'NBP':>6} {'NBPT':>6} {'SVD':>6} | ", end="")
    print(f"{'original':>8} {'NBP':>6} {'NBPT':>6} {'SVD at':>7} {'AUC':>6}")
    for name, rows in CHAPTER_6.items():
        train, y, test, truth = halves(name)
        low = TruncatedSVDRelease(1).fit(train)
        for classifier, (target, nbp, nbpt, svd) in rows.items():
            model = NeighbourhoodAware(target_distortion=target, random_state=0, **RAW)
            released = model.fit_transform(train)
            ours = [
                auc(train, y, test, truth, classifier),
                auc(released, y, test, truth, classifier),
                auc(released, y, model.transform(test), truth, classifier),
            ]
            alone = auc(low.transform(train), y, low.transform(test), truth, classifier)
            print(
                f"{name:<12} {classifier:<13} {target:>5.3f} {nbp:>6.3f} {nbpt:>6.3f} {svd:>6.3f} | "
                f"{ours[0]:>8.3f} {ours[1]:>6.3f} {ours[2]:>6.3f} {low.distortion_:>7.4f} {alone:>6.3f}",
                flush=True,
            )


def private() -> None:
    print("\nPrivateTable, delta 1e-6: AUC of classifiers trained on synthetic rows, tested on real ones")
    for name in ("spambase", "magic04", "winequality"):
        train, y, test, truth = halves(name)
        width = train.shape[1]
        # bounds must be public: these stand for what a holder would know of the quantities
        bounds = {str(place): round_bounds(train[:, place]) for place in range(width)}
        for classifier in ("logistic-l1", "naive-bayes", "tree"):
            found = []
            for epsilon in (0.5, 1.0, 3.0, 10.0):
                model = PrivateTable(epsilon=epsilon, bounds=bounds, categories={str(width): [0, 1]}, label=width)
                synthetic = model.fit(np.column_stack([train, y])).sample(len(train), random_state=0)
                drawn = synthetic[:, -1].astype(int)
                found.append(auc(synthetic[:, :-1], drawn, test, truth, classifier))
            shown = ", ".join(f"{value:.3f}" for value in found)
            without = auc(train, y, test, truth, classifier)
            print(
                f"{name:<12} {classifier:<12} epsilon 0.5, 1, 3, 10: {shown}; without privacy {without:.3f}", flush=True
            )


def round_bounds(column: np.ndarray) -> tuple[float, float]:
    """Return the range of the column, rounded outwards to a tenth of the power of ten of its width."""
    step = 10.0 ** np.floor(np.log10(np.ptp(column))) / 10
    return float(np.floor(column.min() / step) * step), float(np.ceil(column.max() / step) * step)


PARTS: dict[str, Callable[[], None]] = {"cap": cap, "nap": nap, "private": private}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=list(PARTS))
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for part in [given.part] if given.part else PARTS:
        PARTS[part]()


if __name__ == "__main__":
    main()
