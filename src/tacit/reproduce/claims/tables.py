"""Claims about perturbed tables (Thapa 2013)."""

from __future__ import annotations

import warnings

import numpy as np

from tacit.measure import classifier_scores
from tacit.perturb import CorrelationAware, NeighbourhoodAware
from tacit.reproduce.catalogue import ItemRun, item
from tacit.reproduce.outcome import ItemOutcome, Row, SideBySide
from tacit.reproduce.thapa.neighbourhoods import as_printed


@item(
    paper="claims",
    name="thapa-test-labels",
    title="Thapa 2013, chapter 5: CAP improves on the original data",
    page=73,
    minutes=0.1,
    code=("tacit.perturb.CorrelationAware",),
)
def thapa_test_labels(run: ItemRun) -> ItemOutcome:
    """Figure 5.7 and Algorithm 4 move test rows towards the mean of their own class, which tells the classifier the answer.

    Training rows have two classes that differ. The test rows' classes are drawn at random, whatever the rows are, so an honest
    AUC is 0.5.
    """
    scores: dict[str, list[float]] = {"by their labels (thesis)": [], "without labels": []}
    for seed in range(run.seed, run.seed + run.pick(5, 1)):
        draw = np.random.default_rng(seed)
        labels = draw.integers(0, 2, 1000)
        rows = draw.normal(size=(1000, 8)) + labels[:, None]
        labels[700:] = draw.permutation(labels[700:])
        train, test = slice(0, 700), slice(700, 1000)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = CorrelationAware(1.0, eta=0.0, random_state=seed)
            released = model.fit_transform(rows[train], labels[train])
            for label, shown in (
                ("by their labels (thesis)", model.transform_with_labels(rows[test], labels[test])),
                ("without labels", model.transform(rows[test])),
            ):
                scores[label].append(classifier_scores(released, labels[train], shown, labels[test], "logistic-l1")[1])
    rows_of = tuple(
        Row(
            (f"test rows changed {label}",),
            0.5,
            tuple(values),
            "lower",
            "Test classes are random; above 0.5, the change gives them away.",
            3,
        )
        for label, values in scores.items()
    )
    return ItemOutcome(
        (SideBySide("AUC if nothing leaks, and as measured", ("test rows",), rows_of, ("fair", "measured"), True),),
        verdicts=(
            "To move training rows by their labels is fair, and keeps what a linear classifier needs: that idea holds.",
        ),
    )


@item(
    paper="claims",
    name="thapa-algorithm-5",
    title="Thapa 2013, Algorithm 5: rows move within their neighbourhood",
    page=95,
    minutes=0.1,
    code=("tacit.perturb.NeighbourhoodAware",),
)
def thapa_algorithm_5(run: ItemRun) -> ItemOutcome:
    """As printed, the labels of neighbourhoods are applied to rows in another order: runs of consecutive rows move together.

    In a table that is sorted by class, rows move towards rows of their class, whether these are near or not.
    """
    draw = np.random.default_rng(run.seed)
    size = run.pick(1000, 200)
    labels = np.repeat([0, 1], size // 2)
    rows = draw.normal(size=(size, 6)) + 1.5 * labels[:, None]
    test_labels = np.repeat([0, 1], size // 4)
    tests = draw.normal(size=(size // 2, 6)) + 1.5 * test_labels[:, None]
    radius = 4.0
    released = as_printed(rows, radius, np.random.default_rng(run.seed))
    shuffled = draw.permutation(size)
    mixed = np.empty_like(rows)
    mixed[shuffled] = as_printed(rows[shuffled], radius, np.random.default_rng(run.seed))
    near = NeighbourhoodAware(radius, random_state=run.seed, scale="none").fit(rows)
    centres = {"as printed": _moved(rows, released), "neighbourhoods of near rows": _moved(rows, near.transform(rows))}
    original = classifier_scores(rows, labels, tests, test_labels, "svm-rbf")[1]
    first = "Described: the AUC of the original rows. Rows move towards rows of their class."
    table = [
        Row(
            (label,), original, (classifier_scores(changed, labels, tests, test_labels, "svm-rbf")[1],), None, remark, 3
        )
        for label, changed, remark in (
            ("as printed, file sorted by class: AUC", released, first),
            ("as printed, same rows shuffled: AUC", mixed, "The order of the file decides what is kept."),
        )
    ]
    table += [
        Row(
            (f"{label}: rows that moved farther than twice the radius",),
            0.0,
            (value,),
            "lower",
            f"Radius {radius:.2f}.",
            3,
        )
        for label, value in ((key, float(np.mean(moved > 2 * radius))) for key, moved in centres.items())
    ]
    unchanged = float(near.n_unchanged_) / size
    alone = "A leader is the centre of its neighbourhood, and does not move."
    table.append(Row(("rows that are released unchanged (leaders)",), 0.0, (unchanged,), "lower", alone, 3))
    return ItemOutcome(
        (SideBySide("What the text describes", ("quantity",), tuple(table), ("described", "measured"), True),),
        verdicts=(
            "Local perturbation, which keeps local covariances, is a sound idea, and was early; the printed algorithm "
            "is another one.",
        ),
    )


def _moved(rows: np.ndarray, released: np.ndarray) -> np.ndarray:
    return np.asarray(np.linalg.norm(released - rows, axis=1))
