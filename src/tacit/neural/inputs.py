"""Inputs of a network: rows within a public range, an optional fixed front end, labels, and targets within a range."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.errors import InvalidInputError, parameter, words
from tacit.estimators.input import Rows, checked_range
from tacit.neural.network import LEAST_SIDE as LEAST_CONVOLVED
from tacit.neural.wavelets import LEAST_SIDE, scattering
from tacit.validation import TableLike, check_choice, refuse_dates

FEATURES = ("auto", "scattering", "convolution")


def as_rows(X: Any) -> tuple[TableLike, tuple[int, int] | None]:
    """Flatten a stack or a list of images to one row per image, and return their shape; a table stays as it is."""
    if isinstance(X, list | tuple) and len(X) and all(getattr(image, "ndim", 0) == 2 for image in X):
        if len({tuple(image.shape) for image in X}) > 1:
            raise InvalidInputError(
                "images of one size",
                words("images of several sizes"),
                "Scale or crop the images to one size.",
            )
        X = np.stack(list(X))
    if isinstance(X, np.ndarray) and X.ndim == 3:
        return X.reshape(len(X), -1), (int(X.shape[1]), int(X.shape[2]))
    return X, None


def random_rows(feature_range: NDArray[np.float64], count: int, random: np.random.Generator) -> NDArray[np.float64]:
    """Return rows within the range: the lowest, the highest and the middle one, then uniformly random ones."""
    low, high = feature_range
    positions = random.random((count, len(low)))
    positions[:3] = np.array([[0.0], [1.0], [0.5]])
    return np.asarray(low + positions * (high - low))


def prepare_inputs(
    rows: Rows, feature_range: NDArray[np.float64], features: str | None, shape: Sequence[int] | None
) -> tuple[NDArray[np.float32], float]:
    """Return the network's inputs, each computed from its row alone, and the fraction of values clipped to the range.

    Without a front end every value is mapped from its range to [-1, 1] in float64 and rounded to float32.
    """
    dense = rows if isinstance(rows, np.ndarray) else rows.toarray()
    low, high = feature_range
    clipped_fraction = float(((dense < low) | (dense > high)).mean())
    scaled = (np.clip(dense, low, high) - low) / (high - low)
    if features != "scattering":
        return (2 * scaled - 1).astype(np.float32), clipped_fraction
    assert shape is not None
    return scattering(scaled, (int(shape[0]), int(shape[1]))), clipped_fraction


def checked_features(
    features: str | None, shape: Sequence[int] | None, n_features: int, *, own_module: bool
) -> tuple[str | None, tuple[int, int] | None]:
    """Return the front end and the images' shape.

    "auto" is scattering for rows that are known to be images and large enough for it, unless the network is the user's own.
    For "scattering" and "convolution", rows without a shape are taken to be square images.
    """
    given = None if shape is None else _checked_shape(shape, n_features)
    if features is None:
        return None, given
    check_choice(features, "features", FEATURES)
    if features == "auto":
        suits = given is not None and min(given) >= LEAST_SIDE and not own_module
        return ("scattering" if suits else None), given
    side = int(n_features**0.5 + 0.5)
    shape = given or _checked_shape((side, side), n_features)
    if features == "convolution" and (own_module or min(shape) < LEAST_CONVOLVED):
        raise InvalidInputError(
            f"images of at least {LEAST_CONVOLVED} x {LEAST_CONVOLVED} pixels and no module for features='convolution'",
            words("a module" if own_module else "smaller images"),
            "Use features=None.",
        )
    return features, shape


def _checked_shape(shape: Sequence[int], n_features: int) -> tuple[int, int]:
    try:
        height, width = (int(side) for side in shape)
    except (TypeError, ValueError):
        height = width = 0
    if height * width != n_features:
        raise InvalidInputError(
            f"image_shape to be (height, width) of {n_features} pixels",
            parameter(shape),
            "Give the height and the width of the images.",
        )
    return height, width


def checked_labels(
    y: object, n_rows: int, classes: ArrayLike | None, *, private: bool
) -> tuple[NDArray[np.generic], NDArray[np.int64]]:
    """Return the classes in order and every label's index among them.

    Parameters
    ----------
    y : array_like of shape (n_rows,)
    n_rows : int
    classes : sequence, optional
        All classes. In a private fit they must be given: those that occur in `y` say which labels people have.
    private : bool
    """
    if y is None:
        raise InvalidInputError(
            "a label for every row",
            parameter(None),
            "This estimator requires y to be passed, but the target y is None.",
        )
    labels = _plain_labels(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels.ravel()
    if labels.shape != (n_rows,):
        raise InvalidInputError(
            "one label per row",
            words("several columns of labels" if labels.ndim > 1 else "more or fewer labels than rows"),
            "Give y as one column with one label for each row of X.",
        )
    if classes is None and private:
        raise InvalidInputError(
            "`classes`, all labels that may occur, for a private fit",
            words("none: which labels occur in the private rows would be released without being accounted for"),
            "Give classes=[...] (--classes), known without looking at the data.",
        )
    known = np.unique(_plain_labels(labels if classes is None else classes))
    _refuse_fractions(known)
    if len(known) < 2:
        raise InvalidInputError(
            "at least two classes", words("one class" if known.size else "none"), "Give all labels that may occur."
        )
    return known, _indices(labels, known)


def _plain_labels(labels: object) -> NDArray[np.generic]:
    """Return labels as an array of numbers, booleans or texts, never of objects: a saved model must be able to hold them."""
    try:
        array = np.asarray(labels)
        if array.dtype.kind in "OT":  # objects, and numpy's texts of variable length
            array = np.asarray(array.tolist())
    except ValueError:
        raise InvalidInputError(
            "one label per row", words("lists of several lengths"), "Give one number or text for each row."
        ) from None
    return array if array.dtype.kind in "biuf" else array.astype(np.str_)


def _refuse_fractions(classes: NDArray[np.generic]) -> None:
    """Refuse numbers that are not whole: they are targets for a regressor."""
    if classes.dtype.kind != "f":
        return
    finite = bool(np.all(np.isfinite(classes)))
    if not finite or not np.array_equal(classes, np.floor(classes)):
        kind = "continuous" if finite else "NaN or infinity (inf)"
        raise InvalidInputError(
            "labels that are classes",
            words(f"Unknown label type: {kind}"),
            "Give whole numbers or names; for numbers to be predicted as such use PrivateBayesianRegressor (--label-range).",
        )


def _indices(labels: NDArray[np.generic], known: NDArray[np.generic]) -> NDArray[np.int64]:
    if (labels.dtype.kind == "U") == (known.dtype.kind == "U"):
        indices = np.searchsorted(known, labels).clip(max=len(known) - 1)
        if np.array_equal(known[indices], labels):
            return indices.astype(np.int64)
    raise InvalidInputError(
        f"labels among the {len(known)} classes given",
        words("a label that is not one of them"),
        "Name every label that may occur in `classes` (--classes), or leave the rows with other labels out.",
    )


def checked_targets(
    y: object, n_rows: int, target_range: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Return the targets, mapped from their range to [-1, 1], the range, and the fraction of targets clipped to it."""
    if y is None:
        raise InvalidInputError(
            "a target for every row",
            parameter(None),
            "This estimator requires y to be passed, but the target y is None.",
        )
    refuse_dates(y, "targets")
    try:
        given = np.asarray(y, np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError(
            "targets that are numbers", words("text or objects"), "For classes use PrivateBayesianClassifier."
        ) from None
    if given.ndim not in (1, 2) or len(given) != n_rows or not given.size:
        raise InvalidInputError(
            "one target per row, or one row of targets",
            words("more or fewer targets than rows" if given.ndim in (1, 2) else f"{given.ndim} dimensions"),
            "Give y with one number, or one row of numbers, for each row of X.",
        )
    if not np.all(np.isfinite(given)):
        raise InvalidInputError(
            "finite targets",
            words("Input y contains NaN or infinity."),
            "Drop the rows without a target, or impute it.",
        )
    given = given.reshape(n_rows, -1)
    low, high = limits = checked_range(target_range, given.shape[1], "target_range")
    beyond = float(((given < low) | (given > high)).mean())
    return 2 * (np.clip(given, low, high) - low) / (high - low) - 1, limits, beyond
