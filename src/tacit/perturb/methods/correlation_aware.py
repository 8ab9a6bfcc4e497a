"""Correlation-aware perturbation (CAP): predictive columns move towards class means, the others get noise.

This is Algorithm 4 of Thapa (2013), section 5.5.3. ``form="leaf"`` is the modified CAP of section 6.1, and more than
two classes are the proposal of section 5.8.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from tacit.errors import InvalidInputError, parameter, words
from tacit.estimators.base import public
from tacit.perturb.base import Rows, TablePerturbation
from tacit.perturb.columns import fill_missing
from tacit.perturb.target import Range
from tacit.validation import TableLike, check_choice, check_count, check_non_negative, check_positive

FORMS = ("class", "leaf")
MOST_PERCENT = 2.0
"""Largest p: a value is then at most reflected at its class mean. Lemma 1 of the thesis is for p up to 1."""


def label_codes(y: object, n_rows: int, classes: ArrayLike | None) -> tuple[NDArray[np.intp], NDArray[np.generic]]:
    """Return the class of each row as a number, and the classes in order.

    Parameters
    ----------
    y : array_like of shape (n_rows,)
    n_rows : int
    classes : sequence, optional
        All classes in their order; sorted if not given.
    """
    if y is None:
        raise InvalidInputError("one label per row", words("none"), "Call fit(X, y): this method uses the classes.")
    labels = np.asarray(y)
    if labels.shape != (n_rows,):
        raise InvalidInputError(
            "one label per row",
            words(f"labels in {labels.ndim} dimensions" if labels.ndim != 1 else "more or fewer labels than rows"),
            "Give the labels in the order of the rows.",
        )
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise InvalidInputError("a label for every row", words("missing ones"), "Drop the rows without a label.")
    present, codes = np.unique(labels, return_inverse=True)
    if classes is not None:
        order = {value: place for place, value in enumerate(np.asarray(classes).tolist())}
        if any(value not in order for value in present.tolist()):
            raise InvalidInputError(
                "labels among the given classes", words("other labels"), "Name all classes in `classes`, in order."
            )
        codes, present = np.array([order[value] for value in present.tolist()])[codes], np.asarray(classes)
    if len(np.unique(codes)) < 2:
        raise InvalidInputError("at least two classes", words("one"), "Give labels of two or more classes.")
    return codes.astype(np.intp), present


def label_correlations(rows: NDArray[np.float64], codes: NDArray[np.intp], *, ordered: bool) -> NDArray[np.float64]:
    """Return each column's largest absolute correlation with the label.

    Two classes, or ordered ones, are correlated as numbers. Otherwise each pair of classes is correlated as 0 and 1, and the
    largest correlation counts (Thapa 2013, section 5.8).
    """
    present = np.unique(codes)
    if ordered or len(present) == 2:
        return _correlations(rows, codes.astype(np.float64))
    largest = np.zeros(rows.shape[1])
    for first, second in combinations(present, 2):
        both = (codes == first) | (codes == second)
        largest = np.maximum(largest, _correlations(rows[both], (codes[both] == second).astype(np.float64)))
    return largest


def _correlations(rows: NDArray[np.float64], label: NDArray[np.float64]) -> NDArray[np.float64]:
    centred, label = rows - rows.mean(axis=0), label - label.mean()
    size = np.linalg.norm(centred, axis=0) * np.linalg.norm(label)
    products = np.abs(label @ centred)
    # the correlation of a column that is constant among these rows, up to rounding, is 0
    correlations: NDArray[np.float64] = np.divide(
        products, size, out=np.zeros_like(products), where=size > 1e-12 * np.abs(rows).max(initial=1.0)
    )
    return correlations


class CorrelationAware(TablePerturbation):
    r"""Change values, and keep what linear classifiers use.

    In a column whose correlation with the label is above :math:`\eta`, a value of class c becomes

    .. math:: \tilde a_{ij} = a_{ij} + p\, u_{ij} (\mu_{cj} - a_{ij}), \qquad u_{ij} \sim U[0, 1],

    which moves it towards its class mean; in every other column it gets noise :math:`p\, r_j (u_{ij} - 1/2)` with the column's
    range :math:`r_j`. For trees, ``form="leaf"`` uses the means of the leaves of a decision tree instead of those of classes.

    Parameters
    ----------
    percent : float in (0, 2], optional
        The fraction p. Up to 2, no value is farther from its class mean than before.
    eta : float, default=0.1
        Columns with a larger absolute correlation with the label are predictors.
    form : {"class", "leaf"}, default="class"
    leaf_rows : int, default=10
        Fewest rows of a leaf.
    ordered : bool, default=False
        Whether the classes have an order. If not, they are compared in pairs.
    classes : sequence, optional
        All classes, in order; sorted if not given.
    level : float, optional
        Another name of `percent`.
    target_distortion : float, optional
        Instead: the value difference to reach.
    columns, unchanged, missing, random_state
        As in `AdditiveNoise`.
    scale : {"range", "unit", "standard", "none"}, default="none"
        As in `AdditiveNoise`; the result does not depend on it, up to rounding.

    Attributes
    ----------
    level_, distortion_, n_imputed_, guarantee_
        As in `AdditiveNoise`.
    correlations_ : ndarray of shape (n_columns,)
        Absolute correlation of each column with the label.
    predictors_ : ndarray of bool
        Which columns are above `eta`.

    Notes
    -----
    `fit_transform` uses the labels of the rows. `transform` does not: it moves a row towards the average of the class
    means, weighted by the probability of each class (Gaussian naive Bayes on the fitted table), or towards the mean of
    its leaf. The thesis perturbs test rows with their true labels (section 5.5.2), which reveals them to a classifier;
    `transform_with_labels` does this, to reproduce its figures, with the p of the fit (the thesis has p = 1 there).

    Privacy
    -------
    None is proven.

    References
    ----------
    Thapa 2013, chapter 5 (Algorithm 4) and section 6.1.

    Examples
    --------
    >>> import numpy as np
    >>> from tacit.perturb import CorrelationAware
    >>> generator = np.random.default_rng(0)
    >>> y = generator.integers(2, size=300)
    >>> table = np.column_stack([y + generator.normal(size=300), generator.normal(size=300)])
    >>> released = CorrelationAware(0.8, eta=0.3, random_state=0).fit_transform(table, y)
    >>> bool(np.corrcoef(released[:, 0], y)[0, 1] > np.corrcoef(table[:, 0], y)[0, 1])
    True
    """

    _level_name = "percent"
    _noisy = True

    percent: float | None = public(default=None, kw_only=False)
    eta: float = public(default=0.1)
    form: str = public(default="class")
    leaf_rows: int = public(default=10)
    ordered: bool = public(default=False)
    classes: ArrayLike | None = public(default=None)
    scale: str = public(default="none")

    def transform_with_labels(self, X: TableLike, y: ArrayLike) -> Any:
        """Return the release of other rows with their *true labels*, as in the thesis.

        A classifier scores better on it than on rows with unknown labels: use it only to reproduce figures.
        """
        check_is_fitted(self)
        chosen = self._read(X, reset=False)
        values, _, self.n_imputed_ = fill_missing(chosen.values, self.missing, chosen.names, self._fills)
        rows = self._scaling.down(values)
        codes, _ = label_codes(y, len(rows), self._classes)
        return chosen.rebuilt(self._scaling.up(self._moved(rows, self._targets(rows, codes), self.level_)))

    def _learn(self, rows: Rows, y: object) -> None:
        check_choice(self.form, "form", FORMS)
        eta = check_non_negative(self.eta, "eta")
        codes, self._classes = label_codes(y, len(rows), self.classes)
        self.correlations_ = label_correlations(rows, codes, ordered=bool(self.ordered))
        self.predictors_ = self.correlations_ > eta  # abs(corr) > eta in Algorithm 4
        self._range = np.ptp(rows, axis=0)
        if self.form == "leaf":
            from sklearn.tree import DecisionTreeClassifier

            leaf_rows = check_count(self.leaf_rows, "leaf_rows")
            self._tree = DecisionTreeClassifier(min_samples_leaf=leaf_rows, random_state=int(self._seed % 2**31))
            regions = self._tree.fit(rows, codes).apply(rows)
        else:
            from sklearn.naive_bayes import GaussianNB

            self._bayes = GaussianNB().fit(rows, codes)
            regions = codes
        self._means = np.full((int(regions.max()) + 1, rows.shape[1]), np.nan)
        for region in np.unique(regions):
            self._means[region] = rows[regions == region].mean(axis=0)
        self._fitted_targets = self._targets(rows, codes)

    def _settings(self, rows: Rows) -> Range:
        return Range(0.0, MOST_PERCENT)

    def _check_level(self, value: float) -> float:
        percent = check_positive(value, "percent")
        if percent > MOST_PERCENT:
            raise InvalidInputError(
                "percent in (0, 2]", parameter(value), "1 is 100%; beyond 2, values move away from their class mean."
            )
        return percent

    def _change(self, rows: Rows, level: float) -> Rows:
        return self._moved(rows, self._fitted_targets, level)

    def _change_new(self, rows: Rows) -> Rows:
        if self.form == "leaf":
            return self._moved(rows, self._targets(rows, None), self.level_)
        likely = self._bayes.predict_proba(rows) @ self._means[self._bayes.classes_]
        return self._moved(rows, likely, self.level_)

    def _targets(self, rows: Rows, codes: NDArray[np.intp] | None) -> Rows:
        regions = self._tree.apply(rows) if self.form == "leaf" else codes
        targets: Rows = self._means[regions]
        return targets

    def _moved(self, rows: Rows, targets: Rows, percent: float) -> Rows:
        uniform = self._generator(rows).random(rows.shape)
        # Algorithm 4: rand * (mu_c - a) * percent for predictors, (rand - 0.5) * range * percent for the others
        towards = uniform * (targets - rows)
        noise = (uniform - 0.5) * self._range
        changed: Rows = rows + percent * np.where(self.predictors_, towards, noise)
        return changed
