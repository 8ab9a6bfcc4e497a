"""The panel of classifiers that a release must still serve, by name."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import InvalidInputError, words
from tacit.validation import check_choice

# The rows on which a kernel machine is trained at most, unless asked otherwise: its time grows faster than their square.
KERNEL_ROWS = 5_000


def _logistic(seed: int, **settings: Any) -> Any:
    from sklearn.linear_model import LogisticRegression

    return _scaled(LogisticRegression(C=np.inf, max_iter=1000, random_state=seed, **settings))


def _logistic_l1(seed: int) -> Any:
    import sklearn
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier

    major, minor = (int(part) for part in sklearn.__version__.split(".")[:2])
    kind: dict[str, Any] = {"l1_ratio": 1.0} if (major, minor) >= (1, 8) else {"penalty": "l1"}
    return _scaled(OneVsRestClassifier(LogisticRegression(solver="liblinear", random_state=seed, **kind)))


def _naive_bayes(seed: int) -> Any:
    from sklearn.naive_bayes import GaussianNB

    return _scaled(GaussianNB())


def _tree(seed: int) -> Any:
    from sklearn.tree import DecisionTreeClassifier

    return DecisionTreeClassifier(min_samples_split=10, random_state=seed)


def _svm(kernel: Any) -> Callable[[int], Any]:
    def make(seed: int) -> Any:
        from sklearn.svm import SVC

        return _scaled(SVC(kernel=kernel, cache_size=500, random_state=seed))

    return make


def combined_kernel(X: NDArray[np.float64], Y: NDArray[np.float64]) -> NDArray[np.float64]:
    r"""Return half a linear and half a radial kernel, both of about unit size on standardised columns.

    .. math::
        k(x, y) = \frac{1}{2} \frac{\langle x, y \rangle}{m} + \frac{1}{2} \exp\Big(-\frac{\lVert x - y \rVert^2}{m}\Big)
    """
    products = X @ Y.T
    squares = np.einsum("ij,ij->i", X, X)[:, None] + np.einsum("ij,ij->i", Y, Y)[None, :] - 2 * products
    kernel: NDArray[np.float64] = 0.5 * (products + X.shape[1] * np.exp(-squares / X.shape[1])) / X.shape[1]
    return kernel


def _scaled(classifier: Any) -> Any:
    """Return the classifier on columns standardised by the rows that it was trained on."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), classifier)


_MAKERS: dict[str, Callable[[int], Any]] = {
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
    train_labels: NDArray[Any],
    test: NDArray[np.float64],
    test_labels: NDArray[Any],
    classifier: str,
    *,
    kernel_rows: int | None = KERNEL_ROWS,
    random_state: int = 0,
) -> tuple[float, float]:
    """Train one classifier of the panel, and return its share of wrong answers and its AUC on other rows.

    Parameters
    ----------
    train, test : ndarray of shape (n_rows, n_columns)
        The rows to learn from and the rows to be tested on, checked by the caller.
    train_labels, test_labels : ndarray of shape (n_rows,)
        Their classes.
    classifier : str
        One of `CLASSIFIERS`.
    kernel_rows : int or None
        Support vector machines learn from a random choice of this many rows if there are more; None for all.
    random_state : int
        Seed of that choice and of the classifier.

    Returns
    -------
    tuple of float
        The share of wrong answers, and the area under the ROC curve. With more than two classes it is the mean over
        the classes of each against all others, left out those that the test rows do not have. A class that is not among
        the training rows, as synthetic rows can lose one, counts 0.5: nothing is learned of it. So do training rows that are
        all alike.
    """
    name = check_choice(classifier, "classifier", CLASSIFIERS)
    names, counts = np.unique(train_labels, return_counts=True)
    if len(names) < 2 or not np.ptp(train, axis=0).any():
        # One class, or rows that are all alike: all that can be said is the class that most have.
        return float(np.mean(test_labels != names[counts.argmax()])), 0.5
    if name.startswith("svm") and kernel_rows is not None and len(train) > kernel_rows:
        train, train_labels = _fewer(train, train_labels, kernel_rows, random_state)
    model = _MAKERS[name](random_state)
    with warnings.catch_warnings():
        # Separable classes have no finite optimum without a penalty; where the solver stops does not change its answers.
        warnings.simplefilter("ignore")
        model.fit(train, train_labels)
    wrong = float(np.mean(model.predict(test) != test_labels))
    return wrong, _auc(_scores(model, test), test_labels, model.classes_)


def _fewer(
    rows: NDArray[np.float64], labels: NDArray[Any], count: int, seed: int
) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Return a random choice of rows that keeps at least one of each class."""
    order = np.random.default_rng(seed).permutation(len(rows))
    _, firsts = np.unique(labels[order], return_index=True)
    rest = np.setdiff1d(np.arange(len(order)), firsts)
    kept = order[np.concatenate([firsts, rest[: max(count - len(firsts), 0)]])]
    return rows[kept], labels[kept]


def _scores(model: Any, test: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a score for each row and class, or for two classes one that grows with the second."""
    last = model.steps[-1][1] if hasattr(model, "steps") else model
    if hasattr(last, "predict_joint_log_proba"):
        return _log_odds(last.predict_joint_log_proba(model[:-1].transform(test)))
    if not hasattr(last, "decision_function"):
        shares: NDArray[np.float64] = model.predict_proba(test)
        return shares
    found: NDArray[np.float64] = model.decision_function(test)
    # Several classes: what counts against one class is the evidence for all others. Machines of one class against the
    # rest and support vector machines have that in their scores.
    return _log_odds(found) if type(last).__name__ == "LogisticRegression" and found.ndim == 2 else found


def _log_odds(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return log(p / (1 - p)) of each class from log p + constant; p itself rounds to 0 and 1, which would make ties."""
    odds = [logs[:, c] - np.logaddexp.reduce(np.delete(logs, c, axis=1), axis=1) for c in range(logs.shape[1])]
    return np.stack(odds, axis=1)


def _auc(scores: NDArray[np.float64], labels: NDArray[Any], classes: NDArray[Any]) -> float:
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
