"""A regression on principal components, private or not, measured on rows that were not fitted."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.data.split import check_fraction, held_out_by_seed, held_out_rows
from tacit.errors import InvalidInputError, words
from tacit.estimators.base import Estimator
from tacit.estimators.input import Rows, as_numbers
from tacit.estimators.verdict import Concern, about_strength, not_better_than
from tacit.factor.svd.private import PrivatePCR
from tacit.factor.svd.regression import PrincipalComponentRegression
from tacit.privacy.ledger.spending import account_of
from tacit.report.page import Report
from tacit.report.result import FitResult, concerns_in_the_result, keep_release
from tacit.report.synthetic_frontier import Frontier, regression_frontier
from tacit.validation import check_epsilon

if TYPE_CHECKING:
    from tacit.privacy.ledger import Ledger

MEAN_ERROR = "error of the mean target"


@dataclass(frozen=True, eq=False)
class RegressionResult(FitResult):
    """What `fit_regression` found.

    Attributes
    ----------
    model : PrincipalComponentRegression or PrivatePCR
    measures : dict of str to float
        Root mean square error and coefficient of determination on held-out rows, beside those of a fit without privacy and
        of the mean target.
    guarantee : Guarantee
    n_rows : int
        Rows that were fitted.
    frontier : Frontier or None
        The error against epsilon, on synthetic rows.
    """

    title, model_name = "Regression on principal components", "pcr"

    model: Estimator
    measures: dict[str, float]
    n_rows: int
    frontier: Frontier | None = None

    @property
    def n_units(self) -> int:
        """The number of rows that were fitted."""
        return self.n_rows

    @property
    def concerns(self) -> list[Concern]:
        """Concerns about the guarantee, the strength of the components and the error."""
        concerns = super().concerns
        if self.guarantee.holds:
            concerns += about_strength(self.model.explained_variance_)
        if MEAN_ERROR in self.measures:
            concerns += not_better_than(
                "the mean target", self.measures["error"], self.measures[MEAN_ERROR], measure="error"
            )
        return concerns

    def values(self) -> dict[str, object]:
        """Return measures and coefficients as plain values."""
        names = ("n_components", "epsilon", "delta", "row_norm", "target_range")
        drawn = {} if self.frontier is None else {"frontier_on_synthetic_rows": self.frontier.values()}
        return {
            "rows": self.n_rows,
            "columns": int(self.model.components_.shape[1]),
            "measures": self.measures,
            "settings": {name: getattr(self.model, name) for name in names if hasattr(self.model, name)},
            "coefficients_of_the_scores": [float(one) for one in self.model.score_coef_],
            "intercept": float(self.model.intercept_),
            **drawn,
        }

    def lines(self) -> list[str]:
        """Return the measures, one per line."""
        return [f"{name}: {value:.4f}" for name, value in self.measures.items()]

    def draw(self, report: Report) -> None:
        """Add measures and coefficients."""
        report.table("Measures", ["measure", "value"], [[name, f"{one:.4f}"] for name, one in self.measures.items()])
        rows = [[str(place + 1), f"{one:.4g}"] for place, one in enumerate(self.model.score_coef_)]
        report.table("Coefficients of the scores", ["component", "coefficient"], rows)
        if self.frontier is not None:
            self.frontier.draw(report)


@concerns_in_the_result
def fit_regression(
    X: Rows,
    y: NDArray[np.float64],
    n_components: int,
    *,
    epsilon: float | None = None,
    delta: float = 1e-6,
    target_range: tuple[float, float] | None = None,
    row_norm: float = 1.0,
    feature_range: ArrayLike | None = None,
    held_out: float = 0.1,
    frontier: bool = False,
    assumptions: Sequence[str] = (),
    ledger: Ledger | str | os.PathLike[str] | None = None,
    dataset: str | None = None,
    random_state: int = 0,
    progress: Callable[[str], None] | None = None,
) -> RegressionResult:
    """Regress a target on the leading principal components, with an epsilon privately, and measure it on other rows.

    Parameters
    ----------
    X : array or CSR matrix of shape (n_rows, n_columns)
    y : array of shape (n_rows,)
    n_components : int
    epsilon : float, optional
        Total privacy loss of a private fit (`tacit.PrivatePCR`); without it there is no private fit.
    delta, target_range, row_norm, feature_range, ledger, dataset
        Of the private fit.
    held_out : float, default=0.1
        Fraction of the rows to hold out of the fit; with an epsilon each by itself, under a secret key.
    frontier : bool, default=False
        With an epsilon: draw the error against epsilon, on synthetic rows made from what was released. It costs no privacy.
    assumptions : sequence of str
        What must be public for the guarantee to hold; the guarantee lists it.
    random_state : int, default=0
        Without an epsilon: seed of the split.
    progress : callable, optional
        Called with the name of each stage.

    Examples
    --------
    >>> import numpy as np
    >>> from tacit.report import fit_regression
    >>> X = np.random.default_rng(0).uniform(-1, 1, (3000, 4))
    >>> result = fit_regression(X, X[:, 0], 4, epsilon=5.0, feature_range=(-1, 1), target_range=(-1, 1))
    >>> bool(result.measures["error"] < result.measures["error of the mean target"])
    True
    """
    check_fraction(held_out)
    say = progress or (lambda stage: None)
    y = as_numbers(y, "targets")
    if epsilon is None:
        out = held_out_by_seed(X.shape[0], fraction=held_out, random_state=random_state)
        say("fitting")
        plain = PrincipalComponentRegression(n_components, random_state=random_state).fit(X[~out], y[~out])
        measures = _measures(plain, X[out], y[out])
        if out.any():
            measures[MEAN_ERROR] = _error(y[out], float(y[~out].mean()))
        return RegressionResult(plain, measures, int((~out).sum()))
    check_epsilon(epsilon)
    if target_range is None:
        raise InvalidInputError(
            "target_range, the public lowest and highest target, for a private fit",
            words("none"),
            "Give target_range=(low, high), known without looking at the data.",
        )
    out = held_out_rows(X, fraction=held_out, y=y)
    model = partial(PrivatePCR, n_components, row_norm=row_norm, feature_range=feature_range, target_range=target_range)
    say("fitting without privacy, to compare")
    without = model(epsilon=math.inf).fit(X[~out], y[~out])
    say("fitting with privacy")
    account = account_of(ledger, dataset, (X, y))
    private = model(epsilon=epsilon, delta=delta, ledger=ledger, dataset=account)
    private.fit(X[~out], y[~out]).extend_guarantee(*assumptions)
    keep_release(private, RegressionResult.model_name)
    measures, compared = _measures(private, X[out], y[out]), _measures(without, X[out], y[out])
    measures |= {f"{name}, without privacy": value for name, value in compared.items()}
    if out.any():
        measures[MEAN_ERROR] = _error(y[out], float(y[~out].mean()))
    measures["fraction of rows clipped"] = private.clipped_fraction_
    measures["fraction of targets clipped"] = private.clipped_target_fraction_
    n_rows = int((~out).sum())
    return RegressionResult(private, measures, n_rows, regression_frontier(private, n_rows) if frontier else None)


def _measures(model: Estimator, X: Rows, y: NDArray[np.float64]) -> dict[str, float]:
    if not len(y):
        return {}
    return {"error": _error(y, model.predict(X)), "R2": float(model.score(X, y))}


def _error(y: NDArray[np.float64], predicted: NDArray[np.float64] | float) -> float:
    return float(np.sqrt(np.mean((y - predicted) ** 2)))
