r"""The dropout rates that the privacy noise amounts to.

Adding noise to a weight is the same as multiplying the weight by a random number of mean 1 (Gaussian dropout):

.. math:: \theta_{ij} + \xi', \quad \xi' \sim N(0, s^2) \quad = \quad \theta_{ij}\,\xi, \quad \xi \sim N(1, \alpha_{ij}),
          \quad \alpha_{ij} = s^2 / \theta_{ij}^2, \quad p_{ij} = \alpha_{ij} / (1 + \alpha_{ij})

so privacy noise of standard deviation s in a step drops a weight at rate p: close to 1 for small weights and close to 0
for large ones. Weights and noise are public, and so are the rates. The two sides are eqs 5.3 and 5.2 of Ermis 2020;
alpha follows from :math:`\alpha\,\mathrm{diag}(\theta^2)` being the variance of the noise (section 5.2.2), and p from
:math:`\alpha = p/(1 - p)` (section 5.1.2).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.validation import check_non_negative

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
"""The quantiles of the rates in `dropout_rate_`."""


def dropout_rates(weights: ArrayLike, noise: float) -> NDArray[np.float64]:
    """Return the dropout rate of every weight under noise of this standard deviation; 1 for a weight of zero.

    Examples
    --------
    >>> from tacit.neural import dropout_rates
    >>> dropout_rates([0.1, 1.0], 0.1).round(3)
    array([0.5 , 0.01])
    """
    variance = check_non_negative(noise, "noise") ** 2
    squares = np.square(np.asarray(weights, np.float64))
    total = squares + variance
    # p = alpha / (1 + alpha) with alpha = s^2 / theta^2
    return np.where(total > 0, variance / np.where(total > 0, total, 1.0), 1.0)


def summarise_rates(weights: ArrayLike, noise: float) -> dict[str, float]:
    """Return the mean and the quantiles of the dropout rates, by name."""
    rates = dropout_rates(weights, noise).ravel()
    summary = {"mean": float(rates.mean())}
    for quantile, value in zip(QUANTILES, np.quantile(rates, QUANTILES), strict=True):
        summary[f"q{round(100 * quantile):02d}"] = float(value)
    return summary
