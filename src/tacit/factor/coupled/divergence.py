r"""Beta-divergences, by the power p of the variance function: Euclid (0), Kullback-Leibler (1), Itakura-Saito (2).

.. math:: d_p(x, m) = \frac{x^{2-p}}{(1-p)(2-p)} - \frac{x m^{1-p}}{1-p} + \frac{m^{2-p}}{2-p}

and its limits :math:`x \log(x/m) - x + m` at 1 and :math:`x/m - \log(x/m) - 1` at 2; :math:`\frac12 (x - m)^2` at 0.
The sum over relations, each divided by its dispersion :math:`\phi_v`, is the cost of `plain.program` (eq. 2.3).

Reference: Ermis 2020, eq. 2.4, which is undefined at 1 and 2 as printed.
"""

from __future__ import annotations

import numbers

import numpy as np

from tacit.errors import InvalidInputError, parameter
from tacit.factor.arrays import Floats

NAMES = {"euclid": 0.0, "kl": 1.0, "itakura-saito": 2.0}
"""The powers p with names."""
LEAST = 1e-12
"""Means are raised to this, so that quotients stay finite if factors are zero. Set by hand: far below any mean of a fit."""


def checked_power(divergence: object) -> float:
    """Return p, from a name or a number in [0, 2]."""
    if isinstance(divergence, str) and divergence in NAMES:
        return NAMES[divergence]
    if not isinstance(divergence, numbers.Real) or isinstance(divergence, bool) or not 0 <= float(divergence) <= 2:
        listed = ", ".join(repr(name) for name in NAMES)
        raise InvalidInputError(
            f"divergence to be one of {listed}, or a number in [0, 2]",
            parameter(divergence),
            "0 is Euclid, 1 KL, 2 Itakura-Saito.",
        )
    return float(divergence)


def divergence(x: Floats, mean: Floats, p: float) -> Floats:
    """Return :math:`d_p(x, m)` cell by cell: eq. 2.4 of Ermis 2020, and at p = 1 and 2 its limits."""
    if p == 0:
        return 0.5 * (x - mean) ** 2
    mean = np.maximum(mean, LEAST)
    if p == 1:
        positive = np.where(x > 0, x, 1.0)
        return np.where(x > 0, x * np.log(positive / mean), 0.0) - x + mean
    if p == 2:
        quotient = x / mean
        return quotient - np.log(quotient) - 1
    return x ** (2 - p) / ((1 - p) * (2 - p)) - x * mean ** (1 - p) / (1 - p) + mean ** (2 - p) / (2 - p)


def curvatures(p: float) -> tuple[float, float]:
    r"""Return (a, b): the surrogate's derivative is :math:`den \cdot u^a - num \cdot u^{-b}` in the change u of an entry.

    For p up to 1, the divergence is convex in the mean, and Jensen's inequality gives a = 1 - p, b = p. For larger p, its
    concave part is replaced by its tangent, which gives a = 0 (Févotte & Idier 2011, with beta = 2 - p).
    """
    return max(1.0 - p, 0.0), p
