"""From noise to epsilon and back, for Gaussian releases."""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.optimize import brentq

from tacit.errors import InvalidInputError, words
from tacit.privacy.accountant import Accountant
from tacit.privacy.gaussian import mu_of_epsilon
from tacit.privacy.releases import ADJACENCIES, GaussianRelease
from tacit.privacy.rounding import exact
from tacit.validation import check_choice, check_count, check_delta, check_epsilon, check_positive, check_rate

LEAST_MULTIPLIER = 1e-3
"""The search stops here: at a smaller noise multiplier a single release costs an epsilon of half a million."""
MOST_LOG_MULTIPLIER = 60.0
"""The search stops at a multiplier of e^60, about 1e26: no sum has room for that much noise."""
TOLERANCE = 2e-5
"""Relative precision of a multiplier found by search: a loss of accuracy that no experiment shows."""
FIRST_STRIDE = 0.02
"""First step of the search on the logarithm of the multiplier, about the error of the central limit it starts from."""


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
        Failure probability of all releases together.
    steps : int
        Number of releases, each with fresh noise. Later ones may depend on earlier ones.
    sampling_rate : float
        Probability with which each unit takes part in a step, independently (Poisson sampling).
    adjacency : {"add-remove", "replace-one"}
        Under replace-one a unit's change moves the sum by up to twice the norm; this function does the doubling.

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
    release = GaussianRelease(
        noise_multiplier=check_positive(noise_multiplier, "noise_multiplier"),
        count=check_count(steps, "steps"),
        sampling_rate=check_rate(sampling_rate),
    )
    return Accountant(adjacency, (release,)).epsilon(delta)


def gaussian_noise_multiplier(
    epsilon: float,
    delta: float,
    *,
    steps: int = 1,
    sampling_rate: float = 1.0,
    adjacency: str = "add-remove",
) -> float:
    """Return the smallest noise multiplier whose `steps` releases cost at most `epsilon` at `delta`.

    The inverse of `gaussian_epsilon`, with the same parameters. The result is on the private side:
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
    drawn = -math.expm1(steps * math.log1p(-sampling_rate))  # the probability that a unit takes part at all
    if drawn <= delta:
        raise InvalidInputError(
            "a delta below the probability that a unit is drawn at all",
            words(f"delta {exact(delta)}, where that probability is {drawn:.3g}"),
            "Such a delta allows a release without noise. Use a smaller delta.",
        )
    # start from the central limit of the sampled composition, mu = q sqrt(T (exp(1/z^2) - 1)), solved for z;
    # it is within a few percent (Dong, Roth & Su 2019, Gaussian Differential Privacy, section 5)
    start = math.log1p((mu / (doubling * sampling_rate)) ** 2 / steps) ** -0.5
    return least_multiplier(
        lambda z: gaussian_epsilon(z, delta, steps=steps, sampling_rate=sampling_rate, adjacency=adjacency),
        epsilon,
        start=start,
    )


def least_multiplier(cost: Callable[[float], float], epsilon: float, *, start: float) -> float:
    """Return the smallest multiplier with ``cost(multiplier) <= epsilon``, to a relative TOLERANCE above.

    `cost` must decrease. `start` is a guess, from which the search goes up and down.
    """

    def excess(log_multiplier: float) -> float:
        return cost(math.exp(log_multiplier)) - epsilon

    low = high = math.log(start)
    stride = FIRST_STRIDE
    while excess(high) > 0:
        low, high, stride = high, high + stride, 2 * stride
        if high > MOST_LOG_MULTIPLIER:
            raise InvalidInputError(
                "an epsilon that some noise reaches", words(exact(epsilon)), "Use a larger epsilon or fewer steps."
            )
    if low == high:
        low -= stride
        while excess(low) <= 0:
            low, high, stride = low - 2 * stride, low, 2 * stride
            if low < math.log(LEAST_MULTIPLIER):
                raise InvalidInputError(
                    f"a budget that needs a noise multiplier of at least {LEAST_MULTIPLIER:g}",
                    words(f"epsilon {exact(epsilon)}, which is kept with less"),
                    "Use a smaller epsilon or delta: this budget protects nobody.",
                )
    if high - low > TOLERANCE:
        high = float(brentq(excess, low, high, xtol=TOLERANCE / 2))
    while excess(high) > 0:  # brentq may end on either side of the root
        high += TOLERANCE / 2
    return math.exp(high)
