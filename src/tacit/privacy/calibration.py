"""From noise to epsilon and back, for Gaussian releases."""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.optimize import brentq

from tacit.errors import InvalidInputError, parameter, words
from tacit.privacy.accountant import Accountant
from tacit.privacy.gaussian import mu_of_epsilon
from tacit.privacy.releases import ADJACENCIES, GaussianRelease
from tacit.validation import check_choice, check_count, check_delta, check_epsilon, check_positive, check_rate

LEAST_MULTIPLIER = 1e-3
"""Below this a single release costs an epsilon of half a million: nobody asks for it."""


def gaussian_epsilon(
    noise_multiplier: float,
    delta: float,
    *,
    steps: int = 1,
    sampling_rate: float = 1.0,
    adjacency: str = "add-remove",
) -> float:
    r"""Return what `steps` Gaussian releases cost in total.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of the noise over the largest L2 norm of one unit's contribution.
    delta : float
        Failure probability of the whole.
    steps : int
        Number of releases, each with fresh noise; later ones may depend on earlier ones.
    sampling_rate : float
        Probability with which each unit takes part in a step, independently (Poisson sampling).
    adjacency : {"add-remove", "replace-one"}
        Under replace-one a unit's change moves the sum by up to twice the norm; the doubling is done here.

    Returns
    -------
    float
        Total epsilon: exact for ``sampling_rate=1`` (Balle & Wang 2018), otherwise an upper bound by
        privacy loss distributions.

    Examples
    --------
    >>> from tacit.privacy import gaussian_epsilon
    >>> round(gaussian_epsilon(1.0, 1e-5), 4)
    4.3772
    """
    release = _planned(noise_multiplier, steps, sampling_rate)
    return Accountant(adjacency, (release,)).epsilon(delta)


def gaussian_noise_multiplier(
    epsilon: float,
    delta: float,
    *,
    steps: int = 1,
    sampling_rate: float = 1.0,
    adjacency: str = "add-remove",
) -> float:
    """Return the least noise multiplier whose `steps` releases cost at most `epsilon` at `delta`.

    The inverse of `gaussian_epsilon`, with the same parameters. The value returned is on the private side:
    ``gaussian_epsilon(result, ...) <= epsilon``.

    Examples
    --------
    >>> from tacit.privacy import gaussian_noise_multiplier
    >>> round(gaussian_noise_multiplier(1.0, 1e-5), 4)
    3.7306
    """
    epsilon, delta = check_epsilon(epsilon), check_delta(delta)
    steps, sampling_rate = check_count(steps, "steps"), check_rate(sampling_rate)
    check_choice(adjacency, "adjacency", ADJACENCIES)
    mu = mu_of_epsilon(epsilon, delta)
    doubling = 2.0 if adjacency == "replace-one" else 1.0
    if sampling_rate == 1:
        return doubling * math.sqrt(steps) / mu

    # the central limit of the sampled composition, mu = q sqrt(T (exp(1/z^2) - 1)), starts within a few percent
    start = math.log1p((mu / (doubling * sampling_rate)) ** 2 / steps) ** -0.5
    return least_multiplier(
        lambda z: gaussian_epsilon(z, delta, steps=steps, sampling_rate=sampling_rate, adjacency=adjacency),
        epsilon,
        start=start,
    )


def least_multiplier(cost: Callable[[float], float], epsilon: float, *, start: float) -> float:
    """Return the least multiplier with ``cost(multiplier) <= epsilon``, to 2e-5 relative, for a decreasing `cost`."""
    return math.exp(_decreasing_root(lambda log_z: cost(math.exp(log_z)) - epsilon, math.log(start)))


def _planned(noise_multiplier: float, steps: int, sampling_rate: float) -> GaussianRelease:
    return GaussianRelease(
        noise_multiplier=check_positive(noise_multiplier, "noise_multiplier"),
        count=check_count(steps, "steps"),
        sampling_rate=check_rate(sampling_rate),
    )


def _decreasing_root(function: Callable[[float], float], start: float, *, tolerance: float = 2e-5) -> float:
    """Return a point at most `tolerance` above the root of a decreasing function, where it is not positive."""
    low = high = start
    stride = 0.02
    while function(high) > 0:
        low, high, stride = high, high + stride, 2 * stride
        if high > 60:
            raise InvalidInputError(
                "a reachable epsilon", parameter(math.exp(start)), "Ask for a larger epsilon or fewer steps."
            )
    if low == high:
        stride, low = 0.02, high - 0.02
        while function(low) <= 0:
            low, high, stride = low - 2 * stride, low, 2 * stride
            if low < math.log(LEAST_MULTIPLIER):
                raise InvalidInputError(
                    "a delta below the chance that a unit is drawn at all",
                    words("samples so rare that without any noise the budget would be kept"),
                    "Such a delta promises nothing to those who are drawn. Use a smaller delta.",
                )
    if high - low > tolerance:
        high = float(brentq(function, low, high, xtol=tolerance / 2))
    while function(high) > 0:  # brentq may end on either side; end on the private one
        high += tolerance / 2
    return high
