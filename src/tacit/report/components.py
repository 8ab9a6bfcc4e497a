"""Singular vectors or principal components, private or not, and the fraction of the rows that they explain."""

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
from tacit.estimators.base import Estimator
from tacit.estimators.input import Rows
from tacit.estimators.verdict import Concern, about_columns, about_directions, about_strength, some_rows
from tacit.factor.arrays import SomeFloats
from tacit.factor.svd.estimator import SVD
from tacit.factor.svd.pca import PCA
from tacit.factor.svd.private import PrivatePCA, PrivateSVD
from tacit.privacy.ledger.spending import account_of
from tacit.report.figures import curves, image_rows
from tacit.report.page import Report
from tacit.report.result import FitResult, concerns_in_the_result, keep_release
from tacit.report.synthetic_frontier import Frontier, components_frontier
from tacit.validation import check_choice, check_epsilon

if TYPE_CHECKING:
    from tacit.privacy.ledger import Ledger

HELD_OUT = "fraction explained, held out"
NAMES_LISTED = 8
"""Names per end of a component in the report."""


@dataclass(frozen=True, eq=False)
class ComponentsResult(FitResult):
    """The result of `fit_components`.

    Attributes
    ----------
    model : SVD, PCA, PrivateSVD or PrivatePCA
    measures : dict of str to float
        The fraction of the rows' squared norm that the components explain, on fitted and on held-out rows.
    guarantee : Guarantee
        None without an epsilon.
    n_rows : int
        Number of fitted rows.
    terms : sequence of str or None
        Names of the columns.
    image_shape : tuple of int or None
    frontier : Frontier or None
        Fraction explained against epsilon, on synthetic rows.
    data_concerns : tuple of Concern
        Concerns about the rows themselves.
    """

    model: Estimator
    measures: dict[str, float]
    n_rows: int
    terms: Sequence[str] | None = None
    image_shape: tuple[int, int] | None = None
    frontier: Frontier | None = None
    data_concerns: tuple[Concern, ...] = ()

    @property
    def n_units(self) -> int:
        """The number of fitted rows."""
        return self.n_rows

    @property
    def concerns(self) -> list[Concern]:
        """Concerns about the guarantee, the columns, the strength of the components and what they explain."""
        concerns = [*super().concerns, *self.data_concerns]
        if self.guarantee.holds:
            concerns += about_strength(next(iter(self._spectrum().values()), np.empty(0)))
        if HELD_OUT in self.measures:
            concerns += about_directions(self.measures[HELD_OUT], *self.model.components_.shape, measure=HELD_OUT)
        return concerns

    def values(self) -> dict[str, object]:
        """Return measures and singular values as plain values."""
        model = self.model
        settings = ["n_components", "epsilon", "delta", "row_norm", "hide_singular_values", "random_state"]
        values = {
            "rows": self.n_rows,
            "columns": int(model.components_.shape[1]),
            "measures": self.measures,
            "settings": {name: getattr(model, name) for name in settings if hasattr(model, name)},
        }
        if self.frontier is not None:
            values["frontier_on_synthetic_rows"] = self.frontier.values()
        if hasattr(model, "residual_"):
            values["residual"] = model.residual_
        return values | {name: [float(one) for one in series] for name, series in self._spectrum().items()}

    def _spectrum(self) -> dict[str, SomeFloats]:
        """Return the singular values or variances, as far as the model has them."""
        names = ("singular_values", "explained_variance")
        return {name: getattr(self.model, f"{name}_") for name in names if hasattr(self.model, f"{name}_")}

    def lines(self) -> list[str]:
        """Return the measures, one per line."""
        return [f"{name}: {value:.4f}" for name, value in self.measures.items()]

    def draw(self, report: Report) -> None:
        """Add measures, singular values, and the components by their columns or as images."""
        rows = [[name, f"{value:.4f}"] for name, value in self.measures.items()]
        report.table("Measures", ["measure", "value"], rows)
        if self.frontier is not None:
            self.frontier.draw(report)
        for name, values in self._spectrum().items():
            figure = curves(
                {name.replace("_", " "): [float(one) for one in values]},
                step_name="component",
                value_name=name.replace("_", " "),
            )
            caption = "With a steep start and a flat end, a few components explain most of the rows."
            report.figure(name.replace("_", " ").capitalize(), figure, caption)
        if self.terms is not None:
            table = [
                [str(place + 1), _ends(component, self.terms, 1), _ends(component, self.terms, -1)]
                for place, component in enumerate(self.model.components_)
            ]
            report.table("Columns at the two ends of each component", ["component", "positive", "negative"], table)
        if self.image_shape is not None:
            images = image_rows({"components": self.model.components_}, self.image_shape)
            report.figure("Components", images, "Each component as an image.")


class SingularVectors(ComponentsResult):
    """The result of `fit_components` with ``kind="svd"``."""

    title, model_name = "Singular vectors", "svd"


class PrincipalComponents(ComponentsResult):
    """The result of `fit_components` with ``kind="pca"``."""

    title, model_name = "Principal components", "pca"


KINDS: dict[str, tuple[type[SVD | PCA], type[PrivateSVD | PrivatePCA], type[ComponentsResult]]] = {
    "svd": (SVD, PrivateSVD, SingularVectors),
    "pca": (PCA, PrivatePCA, PrincipalComponents),
}


@concerns_in_the_result
def fit_components(
    X: Rows,
    n_components: int,
    *,
    kind: str = "svd",
    epsilon: float | None = None,
    delta: float = 1e-6,
    row_norm: float = 1.0,
    feature_range: ArrayLike | None = None,
    non_negative: bool = False,
    hide_singular_values: bool = False,
    held_out: float = 0.1,
    terms: Sequence[str] | None = None,
    image_shape: tuple[int, int] | None = None,
    assumptions: Sequence[str] = (),
    frontier: bool = False,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    dataset: str | None = None,
    random_state: int = 0,
    progress: Callable[[str], None] | None = None,
) -> ComponentsResult:
    """Compute the leading components of the rows, with an epsilon privately, and measure how much of other rows they explain.

    Parameters
    ----------
    X : array or CSR matrix of shape (n_rows, n_columns)
    n_components : int
    kind : {"svd", "pca"}, default="svd"
        Singular vectors (`tacit.SVD`), or principal components (`tacit.PCA`).
    epsilon : float, optional
        Total privacy loss of a private fit (`tacit.PrivateSVD`, `tacit.PrivatePCA`), which is compared with one without privacy
        on the same scaled and clipped rows; without it there is no private fit.
    delta, row_norm, feature_range, non_negative, ledger, dataset
        Of the private fit.
    hide_singular_values : bool, default=False
        Without an epsilon: leave the singular values out of the model, as a fit among holders does.
    held_out : float, default=0.1
        Fraction of the rows to hold out of the fit; with an epsilon each by itself, under a secret key.
    terms : sequence of str, optional
        Names of the columns.
    image_shape : tuple of int, optional
        Draw the components as images of this shape.
    assumptions : sequence of str
        What must be public for the guarantee to hold; the guarantee lists it.
    frontier : bool, default=False
        With an epsilon: also fit synthetic rows at several epsilons, to draw what privacy costs. They are made from what
        was released, so this costs no privacy.
    random_state : int, default=0
        Without an epsilon: seed of the split and of the first directions.
    progress : callable, optional
        Called with the name of each stage.

    Examples
    --------
    >>> from tacit.data import make_images
    >>> from tacit.report import fit_components
    >>> result = fit_components(make_images(500, side=6, n_parts=3).images, 3, kind="pca")
    >>> bool(result.measures["fraction explained, held out"] > 0.9)
    True
    """
    check_choice(kind, "kind", KINDS)
    check_fraction(held_out)
    say = progress or (lambda stage: None)
    plain_class, private_class, result = KINDS[kind]
    if epsilon is None:
        out = held_out_by_seed(X.shape[0], fraction=held_out, random_state=random_state)
        train, test = X[~out], X[out]
        say("fitting")
        model = plain_class(n_components, hide_singular_values=hide_singular_values, random_state=random_state)
        measures = _measures(model.fit(train), train, test)
        seen = _about_columns(model, train, terms, centred=kind == "pca")
        return result(model, measures, int(train.shape[0]), terms, image_shape, data_concerns=seen)
    check_epsilon(epsilon)
    out = held_out_rows(X, fraction=held_out)
    train, test = X[~out], X[out]
    bounded = partial(
        private_class, n_components, row_norm=row_norm, feature_range=feature_range, non_negative=non_negative
    )
    say("fitting without privacy, to compare")
    plain = bounded(epsilon=math.inf).fit(train)
    without = _measures(plain, train, test)
    say("fitting with privacy")
    account = account_of(ledger, dataset, X)
    private = bounded(epsilon=epsilon, delta=delta, ledger=ledger, dataset=account).fit(train)
    private.extend_guarantee(*assumptions)
    keep_release(private, result.model_name)
    measures = {}
    for name, value in _measures(private, train, test).items():
        measures |= {name: value, f"{name}, without privacy": without[name]}
    measures["fraction of rows clipped"] = private.clipped_fraction_
    drawn = components_frontier(private, _explained, int(train.shape[0])) if frontier else None
    seen = _about_columns(private, train, terms, centred=kind == "pca")
    return result(private, measures, int(train.shape[0]), terms, image_shape, drawn, seen)


def _measures(model: Estimator, train: Rows, test: Rows) -> dict[str, float]:
    measures = {"fraction explained": _explained(model, train)}
    if test.shape[0]:
        measures[HELD_OUT] = _explained(model, test)
    return measures


def _explained(model: Estimator, rows: Rows) -> float:
    """Return the squared norm of the scores divided by that of the rows (minus the mean, for PCA)."""
    mean = getattr(model, "mean_", None) if isinstance(model, PCA | PrivatePCA) else None
    explained = float(np.sum(np.square(model.transform(rows)), dtype=np.float64))
    if isinstance(model, PrivateSVD | PrivatePCA):
        rows = model.scaled(rows)
        mean = None if mean is None else model.scaled(mean[None])[0]
    squares = float(np.sum(np.square(rows if isinstance(rows, np.ndarray) else rows.data), dtype=np.float64))
    if mean is not None:
        sums = np.asarray(rows.sum(axis=0)).ravel()
        squares += rows.shape[0] * float(mean @ mean) - 2 * float(mean @ sums)
    return explained / squares if squares > 0 else 1.0


def _ends(component: NDArray[np.floating], terms: Sequence[str], sign: int) -> str:
    """Return the names of the columns with the largest entries of this sign."""
    order = np.argsort(-sign * component, kind="stable")[:NAMES_LISTED]
    return " ".join(str(terms[place]) for place in order if sign * component[place] > 0)


def _about_columns(model: Estimator, X: Rows, terms: Sequence[str] | None, *, centred: bool) -> tuple[Concern, ...]:
    """Return a concern if one column has nearly all of the squared entries of some of the rows, as the model sees them."""
    scaled = getattr(model, "scaled", lambda rows: rows)  # a private model maps columns from their public range
    (rows,) = some_rows(X)
    rows = scaled(rows.toarray() if hasattr(rows, "toarray") else rows)
    return tuple(about_columns(rows - rows.mean(axis=0) if centred else rows, terms))
