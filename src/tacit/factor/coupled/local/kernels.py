r"""Compiled draws of true counts from noisy ones, one cell at a time.

With :math:`x \sim \mathrm{Poisson}(\mu)` and two-sided geometric noise, a cell's true count given what was seen is

.. math:: P(x \mid z, \mu) \propto \frac{\mu^x}{x!} a^{|z - x|}, \qquad x = 0, 1, 2, \dots

It rises to one mode and falls from there, each term being the last one times a simple ratio. So a draw walks outwards from
the mode until nothing is left, twice: once to add up, once to find its place. The same walk draws the Bessel-distributed
counts of [1]_, where the noise is a difference of two Poisson variables with exponential rates.

References
----------
.. [1] A. Schein, Z. S. Wu, A. Schofield, M. Zhou, H. Wallach. Locally private Bayesian inference for count models. ICML 2019.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.factor.kernels import compiled

NOTHING = 1e-18
"""Terms below this share of the sum are left out: less than a random number between 0 and 1 can show."""
LEAST_RATE = 1e-300
MANY = 12
"""Counts up to this are shared out one by one."""


@compiled
def true_count(z: int, rate: float, ratio: float, place: float) -> int:
    """Return the count at which the distribution above, with ``a = ratio``, reaches `place` (a uniform draw)."""
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
    """Return where the Bessel distribution, P(m) proportional to product^m / (m! (m + order)!), reaches `place`."""
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
    observed: NDArray[np.bool_],
    own: NDArray[np.float64],
    shared: NDArray[np.float64],
    ratio: float,
    generator: Any,
    counts: NDArray[np.int64],
) -> None:
    """Set `counts` to draws of the true counts, given the rates ``own @ shared.T``; the noise is summed out."""
    for i in range(z.shape[0]):
        for j in range(z.shape[1]):
            if observed[i, j]:
                rate = LEAST_RATE
                for k in range(own.shape[1]):
                    rate += own[i, k] * shared[j, k]
                counts[i, j] = true_count(z[i, j], rate, ratio, generator.random())


@compiled
def draw_counts_and_noise(
    z: NDArray[np.int64],
    observed: NDArray[np.bool_],
    own: NDArray[np.float64],
    shared: NDArray[np.float64],
    ratio: float,
    generator: Any,
    counts: NDArray[np.int64],
    noise_rates: NDArray[np.float64],
) -> None:
    r"""Do so by the paper's variables: z = (x + g1) - g2, with Poisson g1 and g2 whose rates are kept in `noise_rates`.

    Given the rates, the smaller of x + g1 and g2 has a Bessel distribution; x is a binomial part of x + g1; a rate given
    its count is Gamma(1 + g) with mean (1 + g) a.
    """
    for i in range(z.shape[0]):
        for j in range(z.shape[1]):
            if observed[i, j]:
                rate = LEAST_RATE
                for k in range(own.shape[1]):
                    rate += own[i, k] * shared[j, k]
                up, down = noise_rates[0, i, j], noise_rates[1, i, j]
                less = bessel_count(abs(z[i, j]), (rate + up) * down, generator.random())
                above, below = less + max(z[i, j], 0), less + max(-z[i, j], 0)
                x = generator.binomial(above, min(rate / (rate + up), 1.0)) if above else 0
                counts[i, j] = x
                noise_rates[0, i, j] = max(generator.standard_gamma(1.0 + above - x) * ratio, LEAST_RATE)
                noise_rates[1, i, j] = max(generator.standard_gamma(1.0 + below) * ratio, LEAST_RATE)


@compiled
def share_counts(
    counts: NDArray[np.int64],
    observed: NDArray[np.bool_],
    own: NDArray[np.float64],
    shared: NDArray[np.float64],
    generator: Any,
    by_row: NDArray[np.float64],
    by_column: NDArray[np.float64],
) -> None:
    """Split every count over the components by their rates, and add the parts up by row and by column."""
    size = own.shape[1]
    reached = np.empty(size)
    for i in range(counts.shape[0]):
        for j in range(counts.shape[1]):
            if not observed[i, j] or counts[i, j] == 0:
                continue
            total = 0.0
            for k in range(size):
                total += own[i, k] * shared[j, k]
                reached[k] = total
            left, k = counts[i, j], size - 1
            while left > MANY and k > 0:  # large counts: one binomial a component, from the last one down
                part = generator.binomial(left, min((reached[k] - reached[k - 1]) / reached[k], 1.0))
                by_row[i, k] += part
                by_column[j, k] += part
                left -= part
                k -= 1
            last = k
            for _ in range(left):
                place, k = generator.random() * reached[last], 0
                while k < last and place >= reached[k]:
                    k += 1
                by_row[i, k] += 1
                by_column[j, k] += 1
