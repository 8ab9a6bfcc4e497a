"""Concerns about a fit, in words, with what to do: shown first in every report and by every command, and warned of in Python.

A concern states what it was computed from. Public settings and released values may be discussed with anyone; what was
computed from the data is for the holder only, like the rest of the report.
"""

from __future__ import annotations

import contextlib
import math
import os
import sys
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray

from tacit.errors import ConcernWarning
from tacit.estimators.input import Rows
from tacit.privacy.guarantee import Guarantee

PASSED_OVER = (
    os.path.dirname(os.path.dirname(__file__)) + os.sep,
    os.path.dirname(sklearn.__file__) + os.sep,
    contextlib.__file__,
)
"""Code between a concern and the user's own: a warning points at the first caller elsewhere."""

PUBLIC = "from public settings"
RELEASED = "from what was released"
HOLDER = "from the data: for the holder only"

LARGEST_USUAL_EPSILON = 10.0
"""Set by hand: at 10 the probability of a result may already change by a factor of 22,000."""
COLUMNS_PER_COMPONENT = 3
"""With fewer columns per component, components are little more than single columns. Set by hand."""
DOMINANT = 0.95
"""A column with more than this fraction of the squared entries determines a factorisation alone. Set by hand."""

ROWS_COMPARED = 300
"""A fit in Python is compared with a trivial predictor on this many of its rows: enough to see a difference, and quick."""
FAR_OFF = 3.0
"""An error of more than this many times that of a constant is not a poor fit, but one that diverged. Set by hand."""


@dataclass(frozen=True)
class Concern:
    """One thing that a reader should know before using a model.

    Attributes
    ----------
    what : str
        The observation.
    advice : str
        What to do about it.
    basis : str
        What it was computed from: `PUBLIC`, `RELEASED` or `HOLDER`.
    """

    what: str
    advice: str
    basis: str

    def __str__(self) -> str:
        return f"{self.what} {self.advice} ({self.basis})"

    def to_dict(self) -> dict[str, str]:
        """Return the fields as plain values."""
        return dict(vars(self))


def warn_of(concerns: Iterable[Concern]) -> None:
    """Give each concern as a warning of Python."""
    for concern in concerns:
        warnings.warn(str(concern), ConcernWarning, stacklevel=_frames_of_tacit())


def _frames_of_tacit() -> int:
    """Return the stack level of the first caller outside tacit and scikit-learn, from the function that calls this one."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PASSED_OVER):
        frame, level = frame.f_back, level + 1
    return level


def some_rows(*arrays: Any) -> tuple[Any, ...]:
    """Return at most `ROWS_COMPARED` rows of each array, the same ones, evenly spaced."""
    n_rows = arrays[0].shape[0]
    places = np.unique(np.linspace(0, max(n_rows - 1, 0), min(n_rows, ROWS_COMPARED)).astype(int))
    return tuple(array[places] for array in arrays)


def about_guarantee(guarantee: Guarantee, n_units: int | None) -> list[Concern]:
    """Compare epsilon with usual values, and delta with the number of units, which the holder knows."""
    if not guarantee.holds:
        return []
    concerns = []
    if guarantee.epsilon > LARGEST_USUAL_EPSILON:
        concerns.append(
            Concern(
                f"An epsilon of {guarantee.epsilon:.4g} is a weak guarantee: the probability of a result may change by a "
                f"factor of {_factor(guarantee.epsilon)} because of one {guarantee.unit}.",
                f"Use an epsilon of at most {LARGEST_USUAL_EPSILON:g}; 1 or less is strong protection.",
                PUBLIC,
            )
        )
    if n_units and guarantee.delta >= 1 / n_units:
        concerns.append(
            Concern(
                f"delta = {guarantee.delta:g} is not below one over the number of units. A mechanism that publishes one "
                "unit's data outright, chosen at random, has such a delta.",
                "Give a delta well below one over the number of units, for example 1e-6.",
                HOLDER,
            )
        )
    return concerns


def not_better_than(
    trivial: str, score: float, trivial_score: float, *, measure: str, higher: bool = False
) -> list[Concern]:
    """Compare a model's score with that of a predictor that needs no model."""
    if score > trivial_score if higher else score < trivial_score:
        return []
    return [
        Concern(
            f"The model is not better than {trivial}: {measure} {score:.4g} against {trivial_score:.4g}.",
            "Do not use it for predictions. Fit more rows, or give a larger epsilon or fewer components.",
            HOLDER,
        )
    ]


def out_of_scale(what: str, error: float, constant_error: float) -> list[Concern]:
    """Return a concern about a fit that is shown to compare, if its predictions have left the scale of the data."""
    if error <= FAR_OFF * constant_error:
        return []
    return [
        Concern(
            f"The comparison with {what} means nothing: its error is {_times(error, constant_error)} that of a constant, so that "
            "some of its predictions are far outside the data.",
            "Too few of its cells are known for its rank. Give a smaller rank, or a prior (prior_shape, prior_scale).",
            HOLDER,
        )
    ]


def about_columns(X: Rows, names: Sequence[str] | None) -> list[Concern]:
    """Return a concern if one column determines a factorisation alone, for example an identifier.

    Give the rows as the model sees them: in its units, less their mean if it takes the mean off.
    """
    squares = np.asarray(X.multiply(X).sum(axis=0)).ravel() if hasattr(X, "multiply") else np.square(X).sum(axis=0)
    total = float(squares.sum())
    if len(squares) < 2 or total == 0 or float(squares.max()) <= DOMINANT * total:
        return []
    place = int(np.argmax(squares))
    column = f"the column {names[place]!r}" if names is not None else f"column {place + 1}"
    return [
        Concern(
            f"Nearly all of the squared entries are in {column}, so every error is measured on that column alone.",
            "Leave it out if it is an identifier; otherwise bring all columns to comparable units by public factors, or give "
            "each column a public range of its own.",
            HOLDER,
        )
    ]


def about_components(components: NDArray[np.floating]) -> list[Concern]:
    """Return concerns about released components: zero components, and too few columns."""
    concerns = []
    blank = int((np.abs(components).max(axis=1, initial=0.0) == 0).sum())
    if blank:
        concerns.append(
            Concern(
                f"{blank} of {len(components)} components are zero: nothing in them exceeds the noise.",
                "Use a larger epsilon, more rows, or fewer components.",
                RELEASED,
            )
        )
    used = int((np.abs(components).max(axis=0, initial=0.0) > 0).sum())
    if used < COLUMNS_PER_COMPONENT * len(components):
        concerns.append(
            Concern(
                f"{len(components)} components share {used} columns, so most of them are little more than single columns.",
                "Ask for fewer components, or keep more columns (a larger epsilon, or a public vocabulary).",
                RELEASED,
            )
        )
    return concerns


def about_parts(X: Rows, components: NDArray[np.floating]) -> list[Concern]:
    """Compare the error of a non-negative dictionary on some of the fitted rows with that of a constant row."""
    from tacit.measure import held_out_error

    (rows,) = some_rows(X)
    errors = [float(held_out_error(rows, parts)) for parts in (components, np.ones((1, components.shape[1])))]
    return not_better_than("a constant row, which costs no privacy", *errors, measure="error on some of the rows")


def about_directions(
    explained: float, n_components: int, n_features: int, *, measure: str = "fraction explained of some of the rows"
) -> list[Concern]:
    """Compare the fraction that components explain with the expected one of as many random directions."""
    if n_components >= n_features:
        return []
    return not_better_than(
        "directions drawn at random, which cost no privacy",
        explained,
        n_components / n_features,
        measure=measure,
        higher=True,
    )


def about_strength(values: NDArray[np.floating]) -> list[Concern]:
    """Return a concern about components whose released variance is zero."""
    blank = int((np.asarray(values) == 0).sum())
    if not blank:
        return []
    return [
        Concern(
            f"{blank} of {len(values)} components did not rise above the noise: their direction means little.",
            "Use a larger epsilon, more rows, or fewer components.",
            RELEASED,
        )
    ]


def only_popularity(n_learned: int) -> list[Concern]:
    """Return a concern if a recommender learned nothing but how popular items are."""
    if n_learned:
        return []
    return [
        Concern(
            "Only the popularity of items is known, so that all users get the same order of items.",
            "Fit more users, or give a larger epsilon.",
            RELEASED,
        )
    ]


def only_biases(n_factors: int) -> list[Concern]:
    """Return a concern if a recommender has no factors."""
    if n_factors:
        return []
    return [
        Concern(
            "The model consists of biases only: no direction in the ratings exceeds the noise, and all users get the same "
            "order of items.",
            "Fit more users, give a larger epsilon, or give public features of items.",
            RELEASED,
        )
    ]


def only_means(n_components: int) -> list[Concern]:
    """Return a concern if a coupled model has no components."""
    if n_components:
        return []
    return [
        Concern(
            "The model consists of means and biases only: no component exceeds the noise.",
            "Fit more entities, or give a larger epsilon.",
            RELEASED,
        )
    ]


def about_ratings(values: NDArray[np.floating]) -> list[Concern]:
    """Return a concern if all ratings are the same number."""
    if not len(values) or np.min(values) < np.max(values):
        return []
    return [
        Concern(
            "All ratings are equal, so there is nothing to predict, and every error is close to zero.",
            "If the data are clicks, plays or purchases, fit a model of these: --implicit, or an implicit recommender.",
            HOLDER,
        )
    ]


def about_losses(losses: Sequence[float]) -> list[Concern]:
    """Compare the mean loss of the last quarter of the steps with that of the first quarter."""
    quarter = len(losses) // 4
    if not quarter or not np.mean(losses[-quarter:]) >= np.mean(losses[:quarter]):
        return []
    return [
        Concern(
            "The loss did not fall during training: the noise outweighs the gradients.",
            "Use fewer steps, a larger sampling rate, a smaller step size, a larger epsilon, or more examples.",
            HOLDER,
        )
    ]


def _factor(epsilon: float) -> str:
    return f"{math.exp(epsilon):.3g}" if epsilon < 700 else f"e^{epsilon:.4g}"  # exp(709) is the largest float


def _times(error: float, constant_error: float) -> str:
    return (
        f"{error / constant_error:.3g} times"
        if constant_error > 0 and math.isfinite(error)
        else "infinitely many times"
    )
