"""What attacks on additive noise share: the release in units of the noise, and a filter on its spectrum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import InvalidInputError, parameter
from tacit.measure.inputs import Pair

# A column without noise is given this share of its variance as noise: it is then kept to six digits.
_LEAST_NOISE = 1e-12


def filtered(
    pair: Pair, noise_variance: Any, weights: Callable[[NDArray[np.float64]], NDArray[np.float64]]
) -> NDArray[np.float64]:
    """Return an estimate of the original: the release with the directions of its spectrum weighted.

    The columns are divided by the standard deviation of their noise, so that the noise is equally strong in all
    directions. `weights` turns the eigenvalues of the covariance then, largest first, into factors from 0 to 1.
    """
    released = pair.released
    mean, spread = released.mean(axis=0), released.var(axis=0)
    least = np.where(spread > 0, _LEAST_NOISE * spread, 1.0)
    noise = np.sqrt(np.maximum(_variance(pair, noise_variance), least))
    white = (released - mean) / noise
    values, vectors = np.linalg.eigh(white.T @ white / len(white))
    values, vectors = values[::-1], vectors[:, ::-1]
    estimate: NDArray[np.float64] = mean + ((white @ vectors) * weights(values)) @ vectors.T * noise
    return estimate


def _variance(pair: Pair, given: Any) -> NDArray[np.float64]:
    if given is None:
        known: NDArray[np.float64] = (pair.released - pair.original).var(axis=0)
        return known
    values = np.asarray(given, dtype=np.float64)
    n_columns = pair.original.shape[1]
    if values.shape not in ((), (n_columns,)) or not np.all(np.isfinite(values)) or np.any(values < 0):
        raise InvalidInputError(
            f"noise_variance to be one variance, or one for each of the {n_columns} columns",
            parameter(given),
            "Give what the attacker knows of the noise, or nothing for its true variance.",
        )
    return np.broadcast_to(values, (n_columns,))
