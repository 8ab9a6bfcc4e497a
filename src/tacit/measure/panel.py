"""Whether classifiers still learn from a release what they learn from the original."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.errors import InvalidInputError, parameter, words
from tacit.measure.classifiers import CLASSIFIERS, KERNEL_ROWS, classifier_scores
from tacit.measure.pairs import table_pair
from tacit.validation import check_choice, check_count, check_seed

TestRows = Literal["original", "released"]


@dataclass(frozen=True)
class PanelScore:
    """What one classifier learns from a release, beside what it learns from the original.

    Parameters
    ----------
    classifier : str
        Its name in the panel.
    misclassification, auc : float
        Its share of wrong answers and area under the ROC curve, trained on released rows.
    misclassification_original, auc_original : float
        The same, trained and tested on original rows.
    test_rows : {"original", "released"}
        Which form of the test rows the classifier trained on released rows was given.
    """

    classifier: str
    misclassification: float
    auc: float
    misclassification_original: float
    auc_original: float
    test_rows: TestRows


def classifier_panel(
    original: Any,
    released: Any,
    labels: Any,
    *,
    classifiers: Sequence[str] = CLASSIFIERS,
    test_rows: TestRows = "original",
    test_share: float = 0.3,
    kernel_rows: int | None = KERNEL_ROWS,
    random_state: int = 0,
) -> tuple[PanelScore, ...]:
    """Train classifiers on the original and on its release, and test both on rows that they have not seen.

    The rows are split once, with the same share of each class on both sides. Trained on released rows, a classifier is
    tested on the other rows in their original form, as its user would meet them, or in their released form, as an
    analyst would who has nothing else. A release that was made with the help of labels has used those of the
    test rows too: in released form these are then no fair test.

    Parameters
    ----------
    original, released : array-like or data frame of shape (n_rows, n_columns)
        The table, without the labels, and its release.
    labels : array-like of shape (n_rows,)
        The class of each row, of any kind; at least two classes with at least two rows each.
    classifiers : sequence of str
        Names from the panel: "logistic" (no penalty), "logistic-l1", "naive-bayes", "tree", "svm-linear", "svm-rbf",
        "svm-sigmoid" (the thesis's multilayer perceptron kernel) and "svm-combined" (half linear, half radial).
        All but the tree standardise the columns by the training rows.
    test_rows : {"original", "released"}
        The form of the test rows.
    test_share : float
        Share of the rows to test on.
    kernel_rows : int or None
        Support vector machines learn from a random choice of this many rows if there are more; None for all.
    random_state : int
        Seed of the split, of that choice and of the classifiers.

    Returns
    -------
    tuple of PanelScore
        One for each classifier, in the order asked for.

    References
    ----------
    Thapa (2013), section 2.3 and chapters 5 and 6.

    Examples
    --------
    >>> table, labels = [[0.0], [0.2], [0.1], [0.3], [5.0], [5.2], [5.1], [5.3]], list("aaaabbbb")
    >>> score = classifier_panel(table, table, labels, classifiers=["naive-bayes"])[0]
    >>> score.misclassification, score.auc
    (0.0, 1.0)
    """
    pair = table_pair(original, released, least_rows=4)
    classes = as_labels(labels, len(pair.original))
    names = [check_choice(name, "classifiers", CLASSIFIERS) for name in classifiers]
    check_choice(test_rows, "test_rows", ("original", "released"))
    if kernel_rows is not None:
        check_count(kernel_rows, "kernel_rows", least=2)
    train, test = _split(classes, test_share, check_seed(random_state))
    shown = pair.original if test_rows == "original" else pair.released
    found = []
    for name in names:
        settings: dict[str, Any] = {"kernel_rows": kernel_rows, "random_state": random_state}
        before, after = (
            classifier_scores(table[train], classes[train], seen[test], classes[test], name, **settings)
            for table, seen in ((pair.original, pair.original), (pair.released, shown))
        )
        found.append(PanelScore(name, *after, *before, test_rows))
    return tuple(found)


def misclassification_rate(original: Any, released: Any, labels: Any, classifier: str, **settings: Any) -> float:
    """Return the share of wrong answers of one classifier trained on the release; see `classifier_panel`.

    Examples
    --------
    >>> table, labels = [[0.0], [0.2], [0.1], [0.3], [5.0], [5.2], [5.1], [5.3]], list("aaaabbbb")
    >>> misclassification_rate(table, table, labels, "svm-linear")
    0.0
    """
    return classifier_panel(original, released, labels, classifiers=[classifier], **settings)[0].misclassification


def area_under_curve(original: Any, released: Any, labels: Any, classifier: str, **settings: Any) -> float:
    """Return the area under the ROC curve of one classifier trained on the release; see `classifier_panel`.

    Examples
    --------
    >>> table, labels = [[0.0], [0.2], [0.1], [0.3], [5.0], [5.2], [5.1], [5.3]], list("aaaabbbb")
    >>> area_under_curve(table, table, labels, "logistic-l1")
    1.0
    """
    return classifier_panel(original, released, labels, classifiers=[classifier], **settings)[0].auc


def as_labels(labels: Any, n_rows: int) -> NDArray[Any]:
    """Return the class of each row, or say what is wrong with them."""
    values = label_values(labels, n_rows)
    names, counts = np.unique(values, return_counts=True)
    if len(names) < 2 or counts.min() < 2:
        got = "one class" if len(names) < 2 else "a class with one row"
        raise InvalidInputError(
            "at least two classes with at least two rows each", words(got), "Merge rare classes, or drop their rows."
        )
    return values


def label_values(labels: Any, n_rows: int) -> NDArray[Any]:
    """Return a label for each row, none missing, whether or not they make classes to learn."""
    values = np.asarray(labels)
    missing = sum(value is None or (isinstance(value, float) and isnan(value)) for value in values.ravel().tolist())
    if values.dtype.kind == "O" and not missing:
        values = values.astype(str)  # text of any library as numpy's own, which sorts
    if values.ndim != 1 or len(values) != n_rows or missing:
        got = "missing labels" if missing else f"shape {values.shape}"
        raise InvalidInputError(
            f"a label for each of the {n_rows} rows", words(got), "Give the classes in the order of the rows."
        )
    return values


def _split(classes: NDArray[Any], test_share: float, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the rows to train and to test on; of each class at least one row is on either side."""
    if isinstance(test_share, bool) or not isinstance(test_share, int | float) or not 0 < test_share < 1:
        raise InvalidInputError(
            "test_share to be between 0 and 1", parameter(test_share), "Give a fraction of the rows, such as 0.3."
        )
    # A split by place with a public seed is fine here: a measurement carries no guarantee and stays with the holder.
    generator = np.random.default_rng(seed)
    test = []
    for name in np.unique(classes):
        rows = generator.permutation(np.flatnonzero(classes == name))
        test.append(rows[: min(max(round(test_share * len(rows)), 1), len(rows) - 1)])
    tested = np.sort(np.concatenate(test))
    return np.setdiff1d(np.arange(len(classes)), tested), tested
