"""Estimating the noise from the covariance: principal components, and the Bayes estimate for normal data."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.measure.attacks.additive import filtered
from tacit.measure.attacks.result import Reconstruction, reconstruction
from tacit.measure.inputs import table_pair
from tacit.validation import check_choice


def noise_estimation(
    original: Any, released: Any, *, method: Literal["bayes", "pca"] = "bayes", noise_variance: Any = None
) -> Reconstruction:
    r"""Remove the noise from a release by what it must have added to the covariance.

    In units of the noise the covariance of the release is that of the data plus 1 in every direction:
    :math:`\Sigma_B = \Sigma_A + I`. So the attacker knows :math:`\Sigma_A`, with eigenvalues
    :math:`\lambda - 1` (at least 0) where the release has :math:`\lambda`.

    - "bayes": the most probable original if the data is normal, :math:`\hat a = \Sigma_A (\Sigma_A + I)^{-1} b` after
      centring. Every direction shrinks by :math:`(\lambda - 1) / \lambda`. For other data it is the best linear estimate.
    - "pca": the projection on the principal components of :math:`\Sigma_A` that hold more data than noise,
      :math:`\lambda - 1 > 1`: keeping such a direction costs less than dropping it. (Huang et al. look for a drop in the
      eigenvalues instead, which need not be there.)

    Parameters
    ----------
    original, released : array-like or data frame of shape (n_rows, n_columns)
        The table, which only judges the result, and its release.
    method : {"bayes", "pca"}
        Which of the two.
    noise_variance : float or array-like of shape (n_columns,), optional
        What the attacker knows of the noise; if not given, the variance of the difference of both tables is taken.

    Returns
    -------
    Reconstruction
        The share of variance recovered, beside 0 for an attacker who says the means.

    References
    ----------
    Z. Huang, W. Du and B. Chen (2005). Deriving private information from randomized data. SIGMOD. Their PCA-DR and BE-DR.

    Examples
    --------
    >>> generator = np.random.default_rng(0)
    >>> table = generator.normal(size=(500, 1)) @ np.ones((1, 8))
    >>> found = noise_estimation(table, table + generator.normal(size=table.shape))
    >>> found.leaks, found.recovered > 0.85
    (True, True)
    """
    check_choice(method, "method", ("bayes", "pca"))
    pair = table_pair(original, released, least_rows=3, varying=True)
    estimate = filtered(pair, noise_variance, _shrunk if method == "bayes" else _components)
    name = "Bayes estimate of the noise" if method == "bayes" else "principal components without the noise"
    return reconstruction(name, pair.original, pair.released, estimate)


def _shrunk(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.maximum(values - 1, 0) / np.maximum(values, 1)


def _components(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(values - 1 > 1, 1.0, 0.0)
