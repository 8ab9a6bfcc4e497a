r"""Tastes whose effects on two items multiply, fitted to a noisy second moment; all of it is post-processing.

In `tacit.factor.implicit.item_model` tastes add up: a taste that makes items i and j go together adds :math:`l_i l_j`. Here
it multiplies, as in models of the co-occurrence of words [1]_:

.. math:: C_{ij} = \exp(b_i + b_j + x_i \cdot x_j), \qquad i \ne j .

No entry is negative, and a few tastes have many directions as consequences, which are too weak to be found by themselves. The
model alone has larger errors than added tastes, but other ones, so that the mean of both is better than either.

References
----------
.. [1] J. Pennington, R. Socher, C. Manning. GloVe: global vectors for word representation. EMNLP 2014.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import minimize

from tacit.factor.arrays import Floats
from tacit.factor.implicit.co_occurrence import ChosenItems
from tacit.factor.kernels import one_blas_thread

TASTES = 16
"""Number of entries of x. Chosen, with the other numbers up to `LEAST_LIFT`, on validation users of MovieLens 1M at epsilon 8,
where 12 to 24 gave the same within chance and 8 less."""
TASTE_VARIANCE, LEVEL_VARIANCE = 0.3, 0.1
"""Of the normal priors of the entries of x, around zero, and of b, around the logarithm of the popularity. The second was set by
hand."""
ITERATIONS = 40
"""Of L-BFGS, from the added tastes; it has not converged then, and 15 or 100 were no better."""
LEAST_LIFT = 0.15
"""Added tastes start x at this fraction at least of what popularities alone give an entry."""
DIAGONAL_STEPS = 4
"""How often the diagonal of the logarithms, which is not known, is filled in for the start. Set by hand."""
TINY = 1e-12
"""In place of zero, relative to numbers of about 1."""


def multiplied_tastes(noisy: Floats, spread: Floats, users: float, chosen: ChosenItems, estimate: Floats) -> Floats:
    r"""Return C with a zero diagonal, the most likely one given the release; zeros if nothing is known of popularities.

    With the entries' weights :math:`w_{ij} = 1 / s_{ij}^2`, half of the sum over all :math:`i \ne j` of
    :math:`w_{ij} (\bar M - A C A)_{ij}^2 / 2` and the priors' terms is minimised.

    Parameters
    ----------
    noisy : ndarray of shape (size, size)
        :math:`\bar M`, the second moment of the shortened rows, as released.
    spread : ndarray of shape (size, size)
        s, the standard deviation of every entry.
    users : float
        Number of users: no entry is larger.
    chosen : ChosenItems
    estimate : ndarray of shape (size, size)
        C with added tastes: the start, and the diagonal.
    """
    size, d, taken = len(noisy), np.maximum(chosen.direction, TINY), 1 - chosen.kept
    diagonal = np.diag(estimate)
    common = float(d @ estimate @ d - diagonal @ d**2) / max(1 - float((d**4).sum()), TINY)
    if common <= 0:
        return np.zeros_like(noisy)
    centre, largest = np.log(np.sqrt(common) * d), np.log(users)
    logarithms = np.log(np.maximum(estimate / (common * np.outer(d, d)), LEAST_LIFT))
    np.fill_diagonal(logarithms, 0.0)
    start = _loadings(logarithms, min(TASTES, size - 1))
    weights = spread**-2.0
    np.fill_diagonal(weights, 0.0)

    def shortened(moment: Floats) -> Floats:
        along = taken * np.outer(d, moment @ d - taken / 2 * float(d @ moment @ d) * d)
        short: Floats = moment - along - along.T
        return short

    def parts(point: Floats) -> tuple[Floats, Floats]:
        return point[:size], point[size:].reshape(size, -1)

    def moment_of(levels: Floats, tastes: Floats) -> Floats:
        moment = np.exp(np.minimum(levels[:, None] + levels + tastes @ tastes.T, largest))
        np.fill_diagonal(moment, 0.0)
        return moment

    target = noisy - shortened(np.diag(diagonal))

    def unlikely(point: Floats) -> tuple[float, Floats]:
        levels, tastes = parts(point)
        moment, away = moment_of(levels, tastes), levels - centre
        left = target - shortened(moment)
        weighted = weights * left
        value = float((weighted * left).sum()) / 4
        value += float((tastes**2).sum()) / (2 * TASTE_VARIANCE) + float(away @ away) / (2 * LEVEL_VARIANCE)
        slopes = -shortened(weighted) * moment  # twice those of the logarithms of the entries: C is symmetric
        of_levels = slopes.sum(axis=1) + away / LEVEL_VARIANCE
        of_tastes = slopes @ tastes + tastes / TASTE_VARIANCE
        return value, np.concatenate([of_levels, of_tastes.ravel()])

    with one_blas_thread():
        found = minimize(
            unlikely,
            np.concatenate([centre, start.ravel()]),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": ITERATIONS},
        )
        return moment_of(*parts(found.x))


def _loadings(symmetric: Floats, count: int) -> Floats:
    """Return X with `count` columns such that X X' is close to a matrix off its diagonal."""
    size, filled = len(symmetric), symmetric.copy()
    loadings = np.zeros((size, count))
    with one_blas_thread():
        for _ in range(DIAGONAL_STEPS):
            values, vectors = eigh(filled, subset_by_index=(size - count, size - 1))
            loadings = vectors * np.sqrt(np.maximum(values, 0.0))
            np.fill_diagonal(filled, (loadings**2).sum(axis=1))
    return loadings
