r"""The exact privacy of Gaussian releases: any number of full-batch releases is equivalent to one.

Releases with sensitivities :math:`\Delta_t` and standard deviations :math:`\sigma_t`, chosen adaptively, are together
exactly as private as one with :math:`\mu = \sqrt{\sum_t (\Delta_t/\sigma_t)^2}`, for which (Theorem 8 of [1]_)

.. math:: \delta(\varepsilon) = \Phi(\mu/2 - \varepsilon/\mu) - e^{\varepsilon}\,\Phi(-\mu/2 - \varepsilon/\mu).

The discrete Gaussian on a grid is *not* that mechanism. `lattice_loss` bounds the difference:

*Claim.* Let :math:`s^2 < \sigma^2`. Draw :math:`g \sim N(\mu, \sigma^2 - s^2)` for an integer :math:`\mu`, then an
integer :math:`k` with probability proportional to :math:`\exp(-(k-g)^2/2s^2)`. By the Poisson summation formula the
normalising sum of the second step lies within a factor :math:`1 \pm e_s` of :math:`s\sqrt{2\pi}`,
:math:`e_s = 2\sum_{j\ge1} e^{-2\pi^2 s^2 j^2}`, so that the law of :math:`k` is within a factor
:math:`(1 + e_s)/(1 - e_s)` of the discrete Gaussian with parameter :math:`\sigma` around :math:`\mu`. Hence the
discrete Gaussian is, up to that factor per coordinate, a *post-processing of the continuous one with variance*
:math:`\sigma^2 - s^2` (the reverse of the rounding argument of [2]_), and every bound for the latter holds for it with
:math:`\varepsilon` enlarged by twice the logarithm of the factor, times the number of coordinates. Mixing over a
Poisson sample and adaptive composition keep the factor. With :math:`s \approx 1.3` grid steps the slack is below 1e-12.

References
----------
.. [1] B. Balle, Y.-X. Wang. Improving the Gaussian Mechanism for Differential Privacy. ICML 2018.
.. [2] C. Peikert. An Efficient and Parallel Gaussian Sampler for Lattices. CRYPTO 2010.
"""

from __future__ import annotations

import math

from scipy.optimize import brentq
from scipy.special import log_ndtr

LATTICE_SLACK = 1e-12
"""What the grid may add to epsilon over a whole composition; the rounding width s follows from it. It is chosen to be
negligible: a million times less would widen s by only 0.3 grid steps."""


def log_delta(epsilon: float, mu: float) -> float:
    """Return log delta(epsilon) of a Gaussian with sensitivity-to-noise ratio `mu`."""
    upper = float(log_ndtr(mu / 2 - epsilon / mu))
    lower = epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))
    if lower >= upper:  # by rounding only: delta is too small to be represented
        return -math.inf
    return upper + math.log(-math.expm1(lower - upper))


def delta_of_mu(epsilon: float, mu: float) -> float:
    """Return delta(epsilon) of a Gaussian with sensitivity-to-noise ratio `mu`."""
    return math.exp(log_delta(epsilon, mu))


def epsilon_of_mu(mu: float, delta: float) -> float:
    """Return the smallest epsilon >= 0 for which a Gaussian with ratio `mu` is (epsilon, delta)-private."""
    target = math.log(delta)
    if log_delta(0.0, mu) <= target:
        return 0.0
    # mu^2/2-zCDP gives an upper bound (Bun & Steinke 2016, Proposition 1.3), which brackets the root
    highest = mu * mu / 2 + mu * math.sqrt(2 * math.log(1 / delta))
    return float(brentq(lambda epsilon: log_delta(epsilon, mu) - target, 0.0, highest, xtol=1e-13, rtol=1e-13))


def mu_of_epsilon(epsilon: float, delta: float) -> float:
    """Return the largest ratio `mu` that is (epsilon, delta)-private; the inverse of `epsilon_of_mu`."""
    target = math.log(delta)

    def excess(log_mu: float) -> float:
        return max(log_delta(epsilon, math.exp(log_mu)), -1e300) - target  # brentq needs finite numbers

    low = high = math.log(1e-12)  # less than any mu that a useful budget allows
    while excess(high) < 0:
        low, high = high, high + 2.0
    root = math.exp(float(brentq(excess, low, high, xtol=1e-13, rtol=1e-13)))
    return root * (1 - 1e-12)  # the root is exact to 1e-13: stay on the private side of it


def epsilon_of_rho(rho: float, delta: float) -> float:
    r"""Return an epsilon for which :math:`\rho`-zCDP gives (epsilon, delta)-privacy.

    Minimises the conversion
    :math:`\varepsilon = \rho\alpha + \log(1 - 1/\alpha) - \log(\delta\alpha)/(\alpha - 1)` (Canonne, Kamath & Steinke
    2020, Proposition 12) over :math:`\alpha`. Any alpha gives a valid bound; the search makes it tight.
    """
    from scipy.optimize import minimize_scalar

    def converted(log_order: float) -> float:
        excess = math.exp(log_order)  # alpha - 1
        order = 1 + excess
        return rho * order + math.log(excess / order) - (math.log(delta) + math.log(order)) / excess

    # without the smaller terms the best alpha - 1 is sqrt(log(1/delta)/rho); search within a factor of e^6 of it
    centre = 0.5 * math.log(math.log(1 / delta) / rho)
    best = minimize_scalar(converted, bounds=(centre - 6, centre + 6), method="bounded", options={"xatol": 1e-9})
    return max(0.0, float(best.fun))


def rounding_width(coordinates: int) -> float:
    """Return s, in grid steps, for which `coordinates` roundings together add at most LATTICE_SLACK to epsilon."""
    # per coordinate: twice (for both neighbours) log((1+e)/(1-e)) <= 2.01 e, with e <= 2.01 exp(-2 pi^2 s^2);
    # 2 * 2.01 * 2.01 <= 8.1
    return math.sqrt(math.log(8.1 * coordinates / LATTICE_SLACK) / (2 * math.pi**2))


def lattice_loss(lattice_sigma: float, coordinates: int) -> float | None:
    """Return the factor by which the grid lowers a noise multiplier, or None if the grid is too coarse.

    A discrete Gaussian of `lattice_sigma` grid steps is accounted as a continuous one of
    ``factor * lattice_sigma``, plus LATTICE_SLACK for the whole composition of `coordinates` numbers.
    """
    rounded = (rounding_width(coordinates) / lattice_sigma) ** 2
    return math.sqrt(1 - rounded) if rounded < 1 else None
