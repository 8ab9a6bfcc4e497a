"""Spectral filtering: random noise has a spectrum that theory knows, and what sticks out of it is the data."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.measure.attacks.additive import filtered
from tacit.measure.attacks.result import Reconstruction, reconstruction
from tacit.measure.inputs import table_pair


def spectral_filtering(original: Any, released: Any, *, noise_variance: Any = None) -> Reconstruction:
    r"""Remove the noise from a release by keeping the directions in which it spreads more than noise alone would.

    The covariance of n rows of pure noise of variance 1 in m columns has its eigenvalues below
    :math:`\lambda_{max} = (1 + \sqrt{m/n})^2`, the edge of the Marchenko-Pastur law. The release, in units of its noise,
    is projected on the eigenvectors whose eigenvalues are larger. The more the columns depend on each other, the fewer
    directions hold the data, and the less noise stays.

    Parameters
    ----------
    original, released : array-like or data frame of shape (n_rows, n_columns)
        The table, which only judges the result, and its release.
    noise_variance : float or array-like of shape (n_columns,), optional
        What the attacker knows of the noise. Users of noise commonly publish it; if not given, the variance of the
        difference of both tables is taken.

    Returns
    -------
    Reconstruction
        The share of variance recovered, beside 0 for an attacker who says the means.

    References
    ----------
    H. Kargupta, S. Datta, Q. Wang and K. Sivakumar (2003). On the privacy preserving properties of random data
    perturbation techniques. ICDM.

    Examples
    --------
    >>> generator = np.random.default_rng(0)
    >>> table = generator.normal(size=(500, 1)) @ np.ones((1, 8))
    >>> found = spectral_filtering(table, table + generator.normal(size=table.shape))
    >>> found.leaks, found.as_released < 0.1, found.recovered > 0.8
    (True, True, True)
    """
    pair = table_pair(original, released, least_rows=3, varying=True)
    n_rows, n_columns = pair.original.shape
    edge = (1 + np.sqrt(n_columns / n_rows)) ** 2

    def weights(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.where(values > edge, 1.0, 0.0)

    return reconstruction("spectral filtering", pair.original, pair.released, filtered(pair, noise_variance, weights))
