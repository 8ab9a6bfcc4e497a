"""A panel of classifiers: what they learn from a release, compared with what they learn from the original."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isnan
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.errors import InvalidInputError, parameter, words
from tacit.measure.inputs import table_pair
from tacit.validation import TableLike, check_choice, check_count, check_seed

if TYPE_CHECKING:
    from sklearn.base import ClassifierMixin
    from sklearn.pipeline import Pipeline

# Default of the largest number of rows on which a kernel machine is trained: its time grows faster than their square.
KERNEL_ROWS = 5_000
TestRows = Literal["original", "released"]


Kernel = Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]]


def _logistic(seed: int, **settings: Any) -> Pipeline:
    from sklearn.linear_model import LogisticRegression

    return _scaled(LogisticRegression(C=np.inf, max_iter=1000, random_state=seed, **settings))


def _logistic_l1(seed: int) -> Pipeline:
    import sklearn
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier

    major, minor = (int(part) for part in sklearn.__version__.split(".")[:2])
    kind: dict[str, Any] = {"l1_ratio": 1.0} if (major, minor) >= (1, 8) else {"penalty": "l1"}
    return _scaled(OneVsRestClassifier(LogisticRegression(solver="liblinear", random_state=seed, **kind)))


def _naive_bayes(seed: int) -> ClassifierMixin:
    from sklearn.naive_bayes import GaussianNB

    return _scaled(GaussianNB())


def _tree(seed: int) -> ClassifierMixin:
    from sklearn.tree import DecisionTreeClassifier

    return DecisionTreeClassifier(min_samples_split=10, random_state=seed)


def _svm(kernel: str | Kernel) -> Callable[[int], Pipeline]:
    def make(seed: int) -> Pipeline:
        from sklearn.svm import SVC

        return _scaled(SVC(kernel=kernel, cache_size=500, random_state=seed))

    return make


def combined_kernel(X: NDArray[np.float64], Y: NDArray[np.float64]) -> NDArray[np.float64]:
    r"""Return the mean of a linear and a radial kernel, both of about unit size on standardised columns.

    CK of Thapa (2013), section 6.2.1, which states neither its kernels nor their weights.

    .. math::
        k(x, y) = \frac{1}{2} \frac{\langle x, y \rangle}{m} + \frac{1}{2} \exp\Big(-\frac{\lVert x - y \rVert^2}{m}\Big)
    """
    products = X @ Y.T
    squares = np.einsum("ij,ij->i", X, X)[:, None] + np.einsum("ij,ij->i", Y, Y)[None, :] - 2 * products
    kernel: NDArray[np.float64] = 0.5 * (products + X.shape[1] * np.exp(-squares / X.shape[1])) / X.shape[1]
    return kernel


def _scaled(classifier: ClassifierMixin) -> Pipeline:
    """Return the classifier with columns standardised by its training rows."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), classifier)


_MAKERS: dict[str, Callable[[int], ClassifierMixin | Pipeline]] = {
    "logistic": _logistic,
    "logistic-l1": _logistic_l1,
    "naive-bayes": _naive_bayes,
    "tree": _tree,
    "svm-linear": _svm("linear"),
    "svm-rbf": _svm("rbf"),
    "svm-sigmoid": _svm("sigmoid"),
    "svm-combined": _svm(combined_kernel),
}


CLASSIFIERS = tuple(_MAKERS)
"""The names of the panel."""


def classifier_scores(
    train: NDArray[np.float64],
    train_labels: NDArray[np.generic],
    test: NDArray[np.float64],
    test_labels: NDArray[np.generic],
    classifier: str,
    *,
    kernel_rows: int | None = KERNEL_ROWS,
    random_state: int = 0,
) -> tuple[float, float]:
    """Train one classifier of the panel, and return its misclassification rate and its AUC on other rows.

    Parameters
    ----------
    train, test : ndarray of shape (n_rows, n_columns)
        The training rows and the test rows, checked by the caller.
    train_labels, test_labels : ndarray of shape (n_rows,)
        Their classes.
    classifier : str
        One of `CLASSIFIERS`.
    kernel_rows : int or None
        Support vector machines are trained on this many random rows if there are more; None for all.
    random_state : int
        Seed of that choice and of the classifier.

    Returns
    -------
    tuple of float
        The misclassification rate, and the area under the ROC curve. With more than two classes, the area is the mean of one
        class against all others, over the classes of the test rows. A class without training rows (synthetic rows can lose
        one) counts 0.5, because nothing is learned about it. The area is also 0.5 if all training rows are equal.
    """
    name = check_choice(classifier, "classifier", CLASSIFIERS)
    names, counts = np.unique(train_labels, return_counts=True)
    if len(names) < 2 or not np.ptp(train, axis=0).any():
        # One class, or rows that are all equal: predict the most frequent class.
        return float(np.mean(test_labels != names[counts.argmax()])), 0.5
    if name.startswith("svm") and kernel_rows is not None and len(train) > kernel_rows:
        train, train_labels = _fewer(train, train_labels, kernel_rows, random_state)
    model = _MAKERS[name](random_state)
    with warnings.catch_warnings():
        # Separable classes have no finite optimum without a penalty; the predictions do not depend on where the solver stops.
        warnings.simplefilter("ignore")
        model.fit(train, train_labels)
    wrong = float(np.mean(model.predict(test) != test_labels))  # Misrate, equation (2.4) of Thapa (2013)
    return wrong, _auc(_scores(model, test), test_labels, model.classes_)


def _fewer(
    rows: NDArray[np.float64], labels: NDArray[np.generic], count: int, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.generic]]:
    """Return random rows, at least one of each class."""
    order = np.random.default_rng(seed).permutation(len(rows))
    _, firsts = np.unique(labels[order], return_index=True)
    rest = np.setdiff1d(np.arange(len(order)), firsts)
    kept = order[np.concatenate([firsts, rest[: max(count - len(firsts), 0)]])]
    return rows[kept], labels[kept]


def _scores(model: ClassifierMixin | Pipeline, test: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a score for each row and class; for two classes, one score that grows with the second."""
    last = model.steps[-1][1] if hasattr(model, "steps") else model
    if hasattr(last, "predict_joint_log_proba"):
        return _log_odds(last.predict_joint_log_proba(model[:-1].transform(test)))
    if not hasattr(last, "decision_function"):
        probabilities: NDArray[np.float64] = model.predict_proba(test)
        return probabilities
    scores: NDArray[np.float64] = model.decision_function(test)
    # With several classes, the score of a class must fall with the evidence for all others. One-against-rest classifiers
    # and support vector machines have such scores already.
    return _log_odds(scores) if type(last).__name__ == "LogisticRegression" and scores.ndim == 2 else scores


def _log_odds(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return log(p / (1 - p)) of each class from log p + constant; p itself would round to 0 or 1, and make ties."""
    odds = [logs[:, c] - np.logaddexp.reduce(np.delete(logs, c, axis=1), axis=1) for c in range(logs.shape[1])]
    return np.stack(odds, axis=1)


def _auc(scores: NDArray[np.float64], labels: NDArray[np.generic], classes: NDArray[np.generic]) -> float:
    from sklearn.metrics import roc_auc_score

    tested = np.unique(labels)
    if len(tested) < 2:
        raise InvalidInputError("test rows of at least two classes", words("one class"), "Test on more rows.")
    by_class = np.column_stack([-scores, scores]) if scores.ndim == 1 else scores
    if len(tested) == 2 and set(tested) == set(classes):
        return float(roc_auc_score(labels == classes[1], by_class[:, 1]))
    place = {name: number for number, name in enumerate(classes)}
    areas = [roc_auc_score(labels == name, by_class[:, place[name]]) if name in place else 0.5 for name in tested]
    return float(np.mean(areas))


@dataclass(frozen=True)
class PanelScore:
    """The scores of one classifier trained on a release, and trained on the original.

    Parameters
    ----------
    classifier : str
        Its name in the panel.
    misclassification, auc : float
        Its misclassification rate and area under the ROC curve, trained on released rows.
    misclassification_original, auc_original : float
        The same, trained and tested on original rows.
    test_rows : {"original", "released"}
        The form of the test rows for the classifier that was trained on released rows.
    """

    classifier: str
    misclassification: float
    auc: float
    misclassification_original: float
    auc_original: float
    test_rows: TestRows


def classifier_panel(
    original: TableLike,
    released: TableLike,
    labels: ArrayLike,
    *,
    classifiers: Sequence[str] = CLASSIFIERS,
    test_rows: TestRows = "original",
    test_fraction: float = 0.3,
    kernel_rows: int | None = KERNEL_ROWS,
    random_state: int = 0,
) -> tuple[PanelScore, ...]:
    """Train classifiers on the original and on its release, and test both on held-out rows.

    The rows are split once, with the same fraction of each class on both sides. A classifier that was trained on released rows
    is tested on the other rows in their original form, as its user would have them, or in their released form, as an analyst
    would who has nothing else. A release that was made with labels has used those of the test rows too; in released form, they
    are then not a fair test.

    Parameters
    ----------
    original, released : array-like or data frame of shape (n_rows, n_columns)
        The table, without the labels, and its release.
    labels : array-like of shape (n_rows,)
        The class of each row, of any type; at least two classes with at least two rows each.
    classifiers : sequence of str
        Names from the panel: "logistic" (no penalty), "logistic-l1", "naive-bayes", "tree", "svm-linear", "svm-rbf",
        "svm-sigmoid" (the thesis's multilayer perceptron kernel) and "svm-combined" (half linear, half radial).
        All except the tree standardise the columns by the training rows.
    test_rows : {"original", "released"}
        The form of the test rows.
    test_fraction : float
        Fraction of the rows to test on.
    kernel_rows : int or None
        Support vector machines are trained on this many random rows if there are more; None for all.
    random_state : int
        Seed of the split, of that choice and of the classifiers.

    Returns
    -------
    tuple of PanelScore
        One for each classifier, in the given order.

    References
    ----------
    Thapa (2013), section 2.3 (Misrate, equation (2.4), and AUC), sections 5.3.1 (logistic regression, equation (5.1)),
    5.6 (L1, equation (5.9)) and 6.2.1 (kernels).

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
    train, test = _split(classes, test_fraction, check_seed(random_state))
    shown = pair.original if test_rows == "original" else pair.released
    scores = []
    for name in names:
        before, after = (
            classifier_scores(
                table[train],
                classes[train],
                seen[test],
                classes[test],
                name,
                kernel_rows=kernel_rows,
                random_state=random_state,
            )
            for table, seen in ((pair.original, pair.original), (pair.released, shown))
        )
        scores.append(PanelScore(name, *after, *before, test_rows))
    return tuple(scores)


def misclassification_rate(
    original: TableLike, released: TableLike, labels: ArrayLike, classifier: str, **settings: Any
) -> float:
    """Return the misclassification rate of one classifier trained on the release; see `classifier_panel`.

    Examples
    --------
    >>> table, labels = [[0.0], [0.2], [0.1], [0.3], [5.0], [5.2], [5.1], [5.3]], list("aaaabbbb")
    >>> misclassification_rate(table, table, labels, "svm-linear")
    0.0
    """
    return classifier_panel(original, released, labels, classifiers=[classifier], **settings)[0].misclassification


def area_under_curve(
    original: TableLike, released: TableLike, labels: ArrayLike, classifier: str, **settings: Any
) -> float:
    """Return the area under the ROC curve of one classifier trained on the release; see `classifier_panel`.

    Examples
    --------
    >>> table, labels = [[0.0], [0.2], [0.1], [0.3], [5.0], [5.2], [5.1], [5.3]], list("aaaabbbb")
    >>> area_under_curve(table, table, labels, "logistic-l1")
    1.0
    """
    return classifier_panel(original, released, labels, classifiers=[classifier], **settings)[0].auc


def as_labels(labels: ArrayLike, n_rows: int) -> NDArray[np.generic]:
    """Return the class of each row, or raise an error."""
    values = label_values(labels, n_rows)
    names, counts = np.unique(values, return_counts=True)
    if len(names) < 2 or counts.min() < 2:
        got = "one class" if len(names) < 2 else "a class with one row"
        raise InvalidInputError(
            "at least two classes with at least two rows each", words(got), "Merge rare classes, or drop their rows."
        )
    return values


def label_values(labels: ArrayLike, n_rows: int) -> NDArray[np.generic]:
    """Return a label for each row, or raise an error if labels are missing; the labels need not be useful as classes."""
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


def _split(classes: NDArray[np.generic], test_fraction: float, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the training rows and the test rows; each has at least one row of each class."""
    if isinstance(test_fraction, bool) or not isinstance(test_fraction, int | float) or not 0 < test_fraction < 1:
        raise InvalidInputError(
            "test_fraction to be between 0 and 1", parameter(test_fraction), "Give a fraction of the rows, such as 0.3."
        )
    # A split with a public seed is fine here: a measurement has no guarantee and stays with the holder.
    generator = np.random.default_rng(seed)
    test = []
    for name in np.unique(classes):
        rows = generator.permutation(np.flatnonzero(classes == name))
        test.append(rows[: min(max(round(test_fraction * len(rows)), 1), len(rows) - 1)])
    tested = np.sort(np.concatenate(test))
    return np.setdiff1d(np.arange(len(classes)), tested), tested
