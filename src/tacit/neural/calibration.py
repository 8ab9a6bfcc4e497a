"""Calibration: how far predicted probabilities agree with observed frequencies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.errors import InvalidInputError, words
from tacit.validation import check_count


@dataclass(frozen=True, eq=False)
class Reliability:
    """How often the predicted class was right, among predictions of about the same confidence.

    Attributes
    ----------
    confidence, accuracy : ndarray of shape (n_bins,)
        Mean of a bin; NaN where it is empty.
    fraction : ndarray of shape (n_bins,)
        Fraction of the predictions in each bin.
    """

    confidence: NDArray[np.float64]
    accuracy: NDArray[np.float64]
    fraction: NDArray[np.float64]

    @property
    def error(self) -> float:
        """Expected calibration error: the mean gap between confidence and accuracy."""
        used = self.fraction > 0
        return float(np.sum(self.fraction[used] * np.abs(self.confidence[used] - self.accuracy[used])))


def reliability(probabilities: ArrayLike, labels: ArrayLike, *, bins: int = 15) -> Reliability:
    """Sort predictions into bins of equal width by the probability of the predicted class.

    Parameters
    ----------
    probabilities : array_like of shape (n_examples, n_classes)
    labels : array_like of shape (n_examples,)
        The index of the true class.
    bins : int, default=15
    """
    given, truth = np.asarray(probabilities, np.float64), np.asarray(labels)
    check_count(bins, "bins")
    if given.ndim != 2 or truth.shape != given.shape[:1] or not len(truth):
        raise InvalidInputError(
            "one row of probabilities and one class index per example",
            words("other shapes"),
            "Give arrays of shapes (n, n_classes) and (n,).",
        )
    confidence: NDArray[np.float64] = given.max(axis=1)
    right = given.argmax(axis=1) == truth
    place = np.clip(np.ceil(confidence * bins).astype(int) - 1, 0, bins - 1)
    counts = np.bincount(place, minlength=bins)
    with np.errstate(invalid="ignore"):
        return Reliability(
            np.bincount(place, confidence, bins) / counts, np.bincount(place, right, bins) / counts, counts / len(truth)
        )


def expected_calibration_error(probabilities: ArrayLike, labels: ArrayLike, *, bins: int = 15) -> float:
    """Return the mean gap between the confidence of predictions and how often they are right (Naeini et al. 2015).

    Examples
    --------
    >>> from tacit.neural import expected_calibration_error
    >>> round(expected_calibration_error([[0.9, 0.1], [0.9, 0.1]], [0, 1]), 3)
    0.4
    """
    return reliability(probabilities, labels, bins=bins).error
