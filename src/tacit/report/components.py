"""Singular vectors or principal components, and how much of the rows they explain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.data.split import held_out_by_seed
from tacit.factor import PCA, SVD
from tacit.report.figures import curves, image_rows
from tacit.report.page import Report
from tacit.report.result import FitResult
from tacit.validation import check_choice

NAMES_LISTED = 8


@dataclass(frozen=True, eq=False)
class ComponentsResult(FitResult):
    """What `fit_components` found.

    Attributes
    ----------
    model : SVD or PCA
    measures : dict of str to float
        The fraction of the rows' squared length that the components explain, on fitted and on held-out rows.
    guarantee : Guarantee
        There is none.
    n_rows : int
        Rows that were fitted.
    terms : sequence of str or None
        Names of the columns.
    image_shape : tuple of int or None
    """

    model: SVD | PCA
    measures: dict[str, float]
    n_rows: int
    terms: Sequence[str] | None = None
    image_shape: tuple[int, int] | None = None

    def values(self) -> dict[str, Any]:
        """Return measures and singular values as plain values."""
        settings = ("n_components", "hide_singular_values", "random_state")
        found = {
            "rows": self.n_rows,
            "columns": int(self.model.components_.shape[1]),
            "exchanges": self.model.n_iter_,
            "residual": self.model.residual_,
            "measures": self.measures,
            "settings": {name: getattr(self.model, name) for name in settings},
        }
        if not self.model.hide_singular_values:
            found["singular_values"] = [float(value) for value in self.model.singular_values_]
        return found

    def lines(self) -> list[str]:
        """Return the measures, one per line."""
        return [f"{name}: {value:.4f}" for name, value in self.measures.items()]

    def draw(self, report: Report) -> None:
        """Add measures, singular values, and the components by their columns or as images."""
        rows = [[name, f"{value:.4f}"] for name, value in self.measures.items()]
        report.table("Measures", ["measure", "value"], rows)
        if not self.model.hide_singular_values:
            values = {"singular values": [float(value) for value in self.model.singular_values_]}
            figure = curves(values, step_name="component", value_name="singular value")
            caption = "With a steep start and a flat end, a few components explain most of the rows."
            report.figure("Singular values", figure, caption)
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
    """What `fit_components` found with ``kind="svd"``."""

    title, model_name = "Singular vectors", "svd"


class PrincipalComponents(ComponentsResult):
    """What `fit_components` found with ``kind="pca"``."""

    title, model_name = "Principal components", "pca"


KINDS: dict[str, tuple[type[SVD | PCA], type[ComponentsResult]]] = {
    "svd": (SVD, SingularVectors),
    "pca": (PCA, PrincipalComponents),
}


def fit_components(
    X: Any,
    n_components: int,
    *,
    kind: str = "svd",
    hide_singular_values: bool = False,
    held_out: float = 0.1,
    terms: Sequence[str] | None = None,
    image_shape: tuple[int, int] | None = None,
    random_state: int = 0,
    progress: Callable[[str], None] | None = None,
) -> ComponentsResult:
    """Find the leading components of the rows, without privacy, and measure what they explain of other rows.

    Parameters
    ----------
    X : array or CSR matrix of shape (n_rows, n_columns)
    n_components : int
    kind : {"svd", "pca"}, default="svd"
        Singular vectors (`tacit.SVD`), or principal components (`tacit.PCA`).
    hide_singular_values : bool, default=False
        Leave the singular values out of the model, as a fit among holders does.
    held_out : float, default=0.1
        Fraction of the rows to hold out of the fit.
    terms : sequence of str, optional
        Names of the columns.
    image_shape : tuple of int, optional
        Draw the components as images of this shape.
    random_state : int, default=0
        Seed of the split and of the first directions.
    progress : callable, optional
        Called with the name of each stage.

    Examples
    --------
    >>> from tacit.data import make_images
    >>> from tacit.report import fit_components
    >>> found = fit_components(make_images(500, side=6, n_parts=3).images, 3, kind="pca")
    >>> bool(found.measures["fraction explained, held out"] > 0.9)
    True
    """
    check_choice(kind, "kind", KINDS)
    say = progress or (lambda stage: None)
    out = held_out_by_seed(X.shape[0], fraction=held_out, random_state=random_state)
    train, test = X[~out], X[out]
    say("fitting")
    estimator, result = KINDS[kind]
    model = estimator(n_components, hide_singular_values=hide_singular_values, random_state=random_state).fit(train)
    measures = {"fraction explained": _explained(model, train)}
    if test.shape[0]:
        measures["fraction explained, held out"] = _explained(model, test)
    return result(model, measures, int(train.shape[0]), terms, image_shape)


def _explained(model: SVD | PCA, rows: Any) -> float:
    """Return the fraction of the rows' squared length (about the mean, for PCA) that their scores have."""
    squares = float(np.sum(np.square(rows if isinstance(rows, np.ndarray) else rows.data), dtype=np.float64))
    if isinstance(model, PCA):
        sums = np.asarray(rows.sum(axis=0)).ravel()
        squares += rows.shape[0] * float(model.mean_ @ model.mean_) - 2 * float(model.mean_ @ sums)
    explained = float(np.sum(np.square(model.transform(rows)), dtype=np.float64))
    return explained / squares if squares > 0 else 1.0


def _ends(component: Any, terms: Sequence[str], sign: int) -> str:
    """Return the names of the columns with the largest entries of this sign."""
    order = np.argsort(-sign * component, kind="stable")[:NAMES_LISTED]
    return " ".join(str(terms[place]) for place in order if sign * component[place] > 0)
