"""Attacks that reconstruct values from a perturbed table: filters of additive noise, and regression on known rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.errors import InvalidInputError, parameter, words
from tacit.measure.attacks.result import Reconstruction, reconstruction
from tacit.measure.attacks.targets import standardised
from tacit.measure.inputs import TablePair, table_pair
from tacit.validation import TableLike, check_choice, check_count, check_seed

# Least noise variance of a column, as a fraction of its variance: the column is then kept to six digits.
_LEAST_NOISE = 1e-12


def filtered(
    pair: TablePair, noise_variance: ArrayLike | None, weights: Callable[[NDArray[np.float64]], NDArray[np.float64]]
) -> NDArray[np.float64]:
    """Return an estimate of the original: the release with the directions of its spectrum weighted.

    The columns are divided by the standard deviation of their noise, so that the noise is the same in all directions.
    `weights` maps the eigenvalues of the covariance, largest first, to factors from 0 to 1.
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


def _variance(pair: TablePair, given: ArrayLike | None) -> NDArray[np.float64]:
    if given is None:
        known: NDArray[np.float64] = (pair.released - pair.original).var(axis=0)
        return known
    values = np.asarray(given, dtype=np.float64)
    n_columns = pair.original.shape[1]
    if values.shape not in ((), (n_columns,)) or not np.all(np.isfinite(values)) or np.any(values < 0):
        raise InvalidInputError(
            f"noise_variance to be one variance, or one for each of the {n_columns} columns",
            parameter(given),
            "Give the variance that the attacker knows, or None for the true one.",
        )
    return np.broadcast_to(values, (n_columns,))


def noise_estimation(
    original: TableLike,
    released: TableLike,
    *,
    method: Literal["bayes", "pca"] = "bayes",
    noise_variance: ArrayLike | None = None,
) -> Reconstruction:
    r"""Remove the noise from a release, using its effect on the covariance.

    In units of the noise, the covariance of the release is that of the data plus 1 in every direction:
    :math:`\Sigma_B = \Sigma_A + I`. So the attacker can estimate :math:`\Sigma_A`: its eigenvalues are
    :math:`\lambda - 1` (at least 0), where :math:`\lambda` are those of the release.

    - "bayes": the most probable original if the data is normal, :math:`\hat a = \Sigma_A (\Sigma_A + I)^{-1} b` after
      centring. Every direction is multiplied by :math:`(\lambda - 1) / \lambda`. For other data it is the best linear estimate.
    - "pca": the projection on the principal components of :math:`\Sigma_A` that hold more data than noise,
      :math:`\lambda - 1 > 1`: keeping such a direction gives a smaller error than dropping it. (Huang et al. look for a drop
      in the eigenvalues instead, which need not exist.)

    Parameters
    ----------
    original, released : array-like or data frame of shape (n_rows, n_columns)
        The table, which is used only to judge the result, and its release.
    method : {"bayes", "pca"}
    noise_variance : float or array-like of shape (n_columns,), optional
        The variance of the noise that the attacker knows; that of the difference of both tables if not given.

    Returns
    -------
    Reconstruction
        The recovered fraction of the variance; the baseline is 0, for an attacker who guesses the means.

    References
    ----------
    Z. Huang, W. Du and B. Chen (2005). Deriving private information from randomized data. SIGMOD. Their PCA-DR and BE-DR.

    Examples
    --------
    >>> generator = np.random.default_rng(0)
    >>> table = generator.normal(size=(500, 1)) @ np.ones((1, 8))
    >>> result = noise_estimation(table, table + generator.normal(size=table.shape))
    >>> result.leaks, result.recovered > 0.85
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


def spectral_filtering(
    original: TableLike, released: TableLike, *, noise_variance: ArrayLike | None = None
) -> Reconstruction:
    r"""Remove the noise from a release by keeping the directions with more variance than noise alone would have.

    The eigenvalues of the covariance of n rows of pure noise of variance 1 in m columns are below
    :math:`\lambda_{max} = (1 + \sqrt{m/n})^2`, the edge of the Marchenko-Pastur law. The release, in units of its noise,
    is projected on the eigenvectors with larger eigenvalues. The more the columns depend on each other, the fewer directions
    hold the data, and the less noise remains.

    Parameters
    ----------
    original, released : array-like or data frame of shape (n_rows, n_columns)
        The table, which is used only to judge the result, and its release.
    noise_variance : float or array-like of shape (n_columns,), optional
        The variance of the noise that the attacker knows (it is commonly published); that of the difference of both tables
        if not given.

    Returns
    -------
    Reconstruction
        The recovered fraction of the variance; the baseline is 0, for an attacker who guesses the means.

    References
    ----------
    H. Kargupta, S. Datta, Q. Wang and K. Sivakumar (2003). On the privacy preserving properties of random data
    perturbation techniques. ICDM.

    Examples
    --------
    >>> generator = np.random.default_rng(0)
    >>> table = generator.normal(size=(500, 1)) @ np.ones((1, 8))
    >>> result = spectral_filtering(table, table + generator.normal(size=table.shape))
    >>> result.leaks, result.as_released < 0.1, result.recovered > 0.8
    (True, True, True)
    """
    pair = table_pair(original, released, least_rows=3, varying=True)
    n_rows, n_columns = pair.original.shape
    edge = (1 + np.sqrt(n_columns / n_rows)) ** 2

    def weights(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.where(values > edge, 1.0, 0.0)

    return reconstruction("spectral filtering", pair.original, pair.released, filtered(pair, noise_variance, weights))


# Ridge penalties to choose from, two per power of ten: from none to one that leaves the means only.
_PENALTIES = np.logspace(-10, 4, 29)


def known_sample_regression(
    original: TableLike, released: TableLike, *, n_known: int | None = None, random_state: int = 0
) -> Reconstruction:
    """Learn from a few known rows a linear map from released to original values, and apply it to all other rows.

    The attacker knows the original values of `n_known` random rows and which released rows are theirs, for example because
    the attacker's own data is in the table. The map is a ridge regression; the penalty of each column is chosen by
    leave-one-out. A rotation, or any other invertible linear map of m columns, is undone with m + 2 known rows: one more for
    the means, and one to see that the map holds.

    Parameters
    ----------
    original, released : array-like or data frame of shape (n_rows, n_columns)
        The table and its release.
    n_known : int, optional
        Number of known rows; three times the number of columns plus ten, or half the rows, if not given.
    random_state : int
        Seed of their choice.

    Returns
    -------
    Reconstruction
        The recovered fraction of the variance of the other rows; the baseline is that of an attacker who guesses the means
        of the known rows.

    References
    ----------
    K. Liu, C. Giannella and H. Kargupta (2006). An attacker's view of distance preserving maps for privacy preserving data
    mining. PKDD.

    Examples
    --------
    >>> generator = np.random.default_rng(0)
    >>> table = generator.normal(size=(200, 2))
    >>> result = known_sample_regression(table, table @ [[0.6, 0.8], [-0.8, 0.6]], n_known=5)
    >>> round(result.recovered, 6), result.n_targets
    (1.0, 195)
    """
    from sklearn.linear_model import RidgeCV

    pair = table_pair(original, released, least_rows=6, varying=True)
    n_rows, n_columns = pair.original.shape
    count = min(3 * n_columns + 10, n_rows // 2) if n_known is None else check_count(n_known, "n_known", least=3)
    if count > n_rows - 2:
        raise InvalidInputError(
            f"n_known to leave at least two of the {n_rows} rows to attack",
            words(f"{count}"),
            "Give a smaller n_known.",
        )
    is_known = np.zeros(n_rows, dtype=bool)
    is_known[np.random.default_rng(check_seed(random_state)).choice(n_rows, count, replace=False)] = True
    truth, clues = pair.original, standardised(pair.released)
    guess = truth[is_known].mean(axis=0)
    scale = truth[is_known].std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    model = RidgeCV(alphas=_PENALTIES, alpha_per_target=n_columns > 1)
    answers = (truth[is_known] - guess) / scale
    model.fit(clues[is_known], answers if n_columns > 1 else answers[:, 0])
    predicted = model.predict(clues[~is_known]).reshape(-1, n_columns)
    estimate = guess + predicted * scale
    others = ~is_known
    return reconstruction(
        f"regression from {count} known rows", truth[others], pair.released[others], estimate, guess=guess
    )
