r"""Compiled sampling of true counts given noisy ones, one cell at a time.

With :math:`x \sim \mathrm{Poisson}(\mu)` and two-sided geometric noise (Method 1 of Table D.1 of Ermis 2020), the
distribution of the true count is

.. math:: P(x \mid z, \mu) \propto \frac{\mu^x}{x!} a^{|z - x|}, \qquad x = 0, 1, 2, \dots

It has one mode, and each term is the previous one times a simple ratio. A draw goes outwards from the mode, in both
directions, until the terms are negligible: once to add them up, and once to find the count at a uniform random place of
the sum. The same method draws the Bessel-distributed counts of [1]_, where the noise is a difference of two Poisson
variables with exponential rates (Method 2 of that table). The thesis names neither conditional distribution: its
eqs 4.16 and 4.17 are those of the factors given the true counts.

References
----------
.. [1] A. Schein, Z. S. Wu, A. Schofield, M. Zhou, H. Wallach. Locally private Bayesian inference for count models. ICML 2019.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tacit.factor.kernels import compiled

NOTHING = 1e-18
"""Terms below this fraction of the sum are left out: it is below the resolution of a random double between 0 and 1."""
LEAST_RATE = 1e-300
"""Rates are raised to this, so that their logarithms are finite."""
MANY = 12
"""Counts up to this are assigned to components one by one, larger ones by binomial draws. Set by hand; it affects speed
only."""


@compiled
def true_count(z: int, rate: float, ratio: float, place: float) -> int:
    """Return the count at `place`, a uniform draw, of the distribution above with ``a = ratio``."""
    up_before, up_after = rate / ratio, rate * ratio
    mode = int(np.floor(up_after))
    if z > 0:
        mode = int(min(max(np.floor(up_after), float(z)), np.floor(up_before)))
    total = 1.0
    term, x = 1.0, mode
    while term > NOTHING * total:
        term *= (up_before if x < z else up_after) / (x + 1)
        x += 1
        total += term
    top = x
    term, x = 1.0, mode
    while x > 0 and term > NOTHING * total:
        term *= x / (up_before if x - 1 < z else up_after)
        x -= 1
        total += term
    left = place * total - 1.0
    if left <= 0:
        return mode
    term, x = 1.0, mode
    while x < top:
        term *= (up_before if x < z else up_after) / (x + 1)
        x += 1
        left -= term
        if left <= 0:
            return x
    term, x = 1.0, mode
    while x > 0:
        term *= x / (up_before if x - 1 < z else up_after)
        x -= 1
        left -= term
        if left <= 0:
            return x
    return mode


@compiled
def bessel_count(order: int, product: float, place: float) -> int:
    """Return the count at `place`, a uniform draw, of the Bessel distribution, P(m) ~ product^m / (m! (m + order)!)."""
    mode = int(np.floor((np.sqrt(4 * product + float(order) ** 2) - order) / 2))
    total = 1.0
    term, m = 1.0, mode
    while term > NOTHING * total:
        term *= product / ((m + 1.0) * (m + 1.0 + order))
        m += 1
        total += term
    top = m
    term, m = 1.0, mode
    while m > 0 and term > NOTHING * total:
        term *= m * (m + float(order)) / product
        m -= 1
        total += term
    left = place * total - 1.0
    if left <= 0:
        return mode
    term, m = 1.0, mode
    while m < top:
        term *= product / ((m + 1.0) * (m + 1.0 + order))
        m += 1
        left -= term
        if left <= 0:
            return m
    term, m = 1.0, mode
    while m > 0:
        term *= m * (m + float(order)) / product
        m -= 1
        left -= term
        if left <= 0:
            return m
    return mode


@compiled
def draw_counts(
    z: NDArray[np.int64],
    rates: NDArray[np.float64],
    ratio: float,
    generator: np.random.Generator,
    counts: NDArray[np.int64],
) -> None:
    """Set `counts` to draws of the true counts of a list of cells, given their rates; the noise is summed out."""
    for n in range(z.shape[0]):
        counts[n] = true_count(z[n], rates[n], ratio, generator.random())


@compiled
def draw_counts_and_noise(
    z: NDArray[np.int64],
    rates: NDArray[np.float64],
    ratio: float,
    generator: np.random.Generator,
    counts: NDArray[np.int64],
    noise_rates: NDArray[np.float64],
) -> None:
    r"""Set `counts` by the variables of Schein et al. (2019): z = (x + g1) - g2, with Poisson g1 and g2 of rates `noise_rates`.

    This is Method 2 of Table D.1 of Ermis 2020, where the rates :math:`t_n` are exponential with mean a/(1 - a), and a
    is written as epsilon. Given the rates, the smaller of x + g1 and g2 has a Bessel distribution, x is binomial given
    x + g1, and a rate given its count g is Gamma(1 + g) with mean (1 + g) a.
    """
    for n in range(z.shape[0]):
        rate, up, down = rates[n], noise_rates[0, n], noise_rates[1, n]
        less = bessel_count(abs(z[n]), (rate + up) * down, generator.random())
        above, below = less + max(z[n], 0), less + max(-z[n], 0)
        x = generator.binomial(above, min(rate / (rate + up), 1.0)) if above else 0
        counts[n] = x
        noise_rates[0, n] = max(generator.standard_gamma(1.0 + above - x) * ratio, LEAST_RATE)
        noise_rates[1, n] = max(generator.standard_gamma(1.0 + below) * ratio, LEAST_RATE)


@compiled
def divide_counts(
    counts: NDArray[np.int64],
    terms: NDArray[np.float64],
    generator: np.random.Generator,
    parts: NDArray[np.float64],
) -> None:
    """Divide the count of every cell among the components, by their rates in the cell (`terms`), into `parts`.

    The parts are the S of the Poisson model of Ermis 2020, section 3.1.2: given their sum, they are multinomial.
    """
    size = terms.shape[1]
    reached = np.empty(size)
    for n in range(counts.shape[0]):
        for k in range(size):
            parts[n, k] = 0.0
        if counts[n] == 0:
            continue
        total = 0.0
        for k in range(size):
            total += terms[n, k]
            reached[k] = total
        left, k = counts[n], size - 1
        while left > MANY and k > 0:  # large counts: one binomial draw per component, from the last one down
            part = (
                generator.binomial(left, min((reached[k] - reached[k - 1]) / reached[k], 1.0)) if reached[k] > 0 else 0
            )
            parts[n, k] += part
            left -= part
            k -= 1
        last = k
        for _ in range(left):
            place, k = generator.random() * reached[last], 0
            while k < last and place >= reached[k]:
                k += 1
            parts[n, k] += 1
