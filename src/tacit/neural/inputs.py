"""What a network is fed: rows in public bounds, through a front end that has seen no data; labels, and targets in bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import InvalidInputError, parameter, words
from tacit.neural.wavelets import scattering
from tacit.validation import check_choice

FEATURES = ("scattering",)


def as_rows(X: Any) -> tuple[Any, tuple[int, int] | None]:
    """Flatten a stack or a list of images to one row an image, and return their shape; a table stays as it is."""
    if isinstance(X, list | tuple) and len(X) and all(getattr(image, "ndim", 0) == 2 for image in X):
        if len({tuple(image.shape) for image in X}) > 1:
            raise InvalidInputError(
                "images of one size",
                words("images of different sizes"),
                "Scale or crop the images to one size.",
            )
        X = np.stack(list(X))
    if isinstance(X, np.ndarray) and X.ndim == 3:
        return X.reshape(len(X), -1), (int(X.shape[1]), int(X.shape[2]))
    return X, None


def checked_bounds(bounds: Any, n_features: int, name: str = "bounds") -> NDArray[np.float64]:
    """Return the public lowest and highest value of every feature (or target) as two rows."""
    try:
        low, high = (np.broadcast_to(np.asarray(side, np.float64), n_features) for side in bounds)
    except (TypeError, ValueError):
        low = high = np.full(n_features, np.nan)
    if not np.all(np.isfinite(low) & np.isfinite(high) & (low < high)):
        raise InvalidInputError(
            f"{name} to be the lowest and the highest value, one pair or {n_features} of each, low < high",
            parameter(bounds),
            f"Give {name}=(low, high), known without looking at the data.",
        )
    return np.stack([low, high])


def fed(
    rows: Any, bounds: NDArray[np.float64], features: str | None, shape: Sequence[int] | None
) -> tuple[NDArray[np.float32], float]:
    """Return what the network gets for the rows, each by itself, and the share of values that were cut off at the bounds.

    Without a front end every value is mapped from its bounds to [-1, 1].
    """
    dense = rows if isinstance(rows, np.ndarray) else rows.toarray()
    low, high = bounds
    clipped_share = float(((dense < low) | (dense > high)).mean())
    scaled = (np.clip(dense, low, high) - low) / (high - low)
    if features is None:
        return (2 * scaled - 1).astype(np.float32), clipped_share
    assert shape is not None
    return scattering(scaled, (int(shape[0]), int(shape[1]))), clipped_share


def checked_features(features: Any, shape: Any, n_features: int) -> tuple[int, int] | None:
    """Check the front end and the images' shape; square images are recognised by their size."""
    if features is None:
        return None if shape is None else _checked_shape(shape, n_features)
    check_choice(features, "features", FEATURES)
    if shape is None:
        side = int(n_features**0.5 + 0.5)
        shape = (side, side)
    return _checked_shape(shape, n_features)


def _checked_shape(shape: Any, n_features: int) -> tuple[int, int]:
    try:
        height, width = (int(side) for side in shape)
    except (TypeError, ValueError):
        height = width = 0
    if height * width != n_features:
        raise InvalidInputError(
            f"image_shape to be (height, width) of {n_features} pixels",
            parameter(shape),
            "Give the shape that a row has as an image.",
        )
    return height, width


def checked_labels(y: Any, n_rows: int, classes: Any) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the classes in order and every label's place among them."""
    from sklearn.utils.multiclass import type_of_target

    if y is None:
        raise InvalidInputError(
            "a label for every row",
            parameter(None),
            "This estimator requires y to be passed, but the target y is None.",
        )
    given = np.asarray(y)
    if given.ndim == 2 and given.shape[1] == 1:
        given = given.ravel()
    if given.shape != (n_rows,):
        raise InvalidInputError(
            "one label per row",
            words(f"labels in {given.ndim} dimensions" if given.ndim != 1 else "more or fewer labels than rows"),
            "Give the labels in the order of the rows.",
        )
    try:
        kind = type_of_target(given if given.dtype.kind not in "OT" else [str(label) for label in given])
    except ValueError:
        kind = "NaN or infinity (inf)"
    if kind not in ("binary", "multiclass"):
        raise InvalidInputError(
            "labels that are classes",
            words(f"Unknown label type: {kind}"),
            "Give whole numbers or names; for numbers to be predicted as such use PrivateBayesianRegressor (--label-range).",
        )
    names = np.asarray([str(name) for name in given]) if given.dtype.kind in "OT" else given
    known = np.unique(names) if classes is None else np.unique(np.asarray(classes))
    if len(known) < 2:
        raise InvalidInputError(
            "at least two classes",
            words("one class" if len(known) else "none"),
            "Give labels of two or more classes.",
        )
    places = np.searchsorted(known, names).clip(max=len(known) - 1)
    strangers = known[places] != names
    if np.any(strangers):
        raise InvalidInputError(
            f"labels among the {len(known)} classes given",
            words("other labels"),
            "Name every class that may occur in `classes`.",
        )
    return known, places.astype(np.int64)


def checked_targets(y: Any, n_rows: int, bounds: Any) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Return the targets, one row each and mapped from their bounds to [-1, 1], the bounds, and the share cut off at them."""
    if y is None:
        raise InvalidInputError(
            "a target for every row",
            parameter(None),
            "This estimator requires y to be passed, but the target y is None.",
        )
    try:
        given = np.asarray(y, np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError(
            "targets that are numbers", words("text or objects"), "Names are classes: use PrivateBayesianClassifier."
        ) from None
    if given.ndim not in (1, 2) or len(given) != n_rows or not given.size:
        raise InvalidInputError(
            "one target per row, or one row of targets",
            words(f"targets in {given.ndim} dimensions" if given.ndim not in (1, 2) else "more or fewer than rows"),
            "Give the targets in the order of the rows.",
        )
    if not np.all(np.isfinite(given)):
        raise InvalidInputError(
            "finite targets", words("Input y contains NaN or infinity."), "Drop or fill the rows without one."
        )
    given = given.reshape(n_rows, -1)
    low, high = limits = checked_bounds(bounds, given.shape[1], "target_bounds")
    beyond = float(((given < low) | (given > high)).mean())
    return 2 * (np.clip(given, low, high) - low) / (high - low) - 1, limits, beyond
