"""The accounting of the thesis (Ermis 2020), by name, and the epsilon that its noise really gives.

These noise levels are for comparison only. The `guarantee_` of a fit that uses one of them is computed from what was
released, so it states the real epsilon.
"""

from __future__ import annotations

from dataclasses import dataclass

from tacit.privacy.calibration import gaussian_epsilon, gaussian_noise_multiplier
from tacit.privacy.published import ermis_advanced_noise_multiplier, ermis_zcdp_noise_multiplier
from tacit.validation import check_choice

FORMULAS = {"DPD-AC": ermis_advanced_noise_multiplier, "DPD-zCDP": ermis_zcdp_noise_multiplier}
ACCOUNTINGS = ("sound", *FORMULAS)
PRINTED = {"DPD-AC": 10.88, "DPD-zCDP": 3.23}
"""The values of sigma in section 8.1.1, for MNIST at epsilon 0.5, delta 1e-4, rate 0.01 and 200 epochs."""


def published_noise(name: str, epsilon: float, delta: float, steps: int, rate: float) -> float:
    """Return the noise multiplier by the formulas of appendix E."""
    check_choice(name, "accounting", FORMULAS)
    return FORMULAS[name](epsilon, delta, steps, rate)


@dataclass(frozen=True)
class ThesisRow:
    """One noise level of the thesis: its source, its multiplier, and the epsilon that it really costs."""

    accounting: str
    source: str
    noise_multiplier: float
    real_epsilon: float


def compare_thesis(
    epsilon: float = 0.5, delta: float = 1e-4, *, epochs: int = 200, sampling_rate: float = 0.01
) -> list[ThesisRow]:
    """Return the noise that the thesis prints, that of its formulas, and the sound one, each with its real epsilon.

    The number of steps is ``epochs / sampling_rate``, as section 8.1.1 states; the formulas are also evaluated with the
    number of epochs for T, in search of the printed values. Multipliers are relative to the clipping norm of one example,
    for add-remove adjacency and Poisson sampling.

    Examples
    --------
    >>> from tacit.neural import compare_thesis
    >>> for row in compare_thesis(1.0, 1e-3, epochs=6, sampling_rate=0.02):
    ...     print(f"{row.accounting:9} {row.source:20} {row.noise_multiplier:6.2f} {row.real_epsilon:5.2f}")
    sound     tacit                  1.17  1.00
    DPD-AC    formula, T = steps     8.58  0.06
    DPD-AC    formula, T = epochs    1.90  0.46
    DPD-zCDP  formula, T = steps     2.70  0.28
    DPD-zCDP  formula, T = epochs    0.99  1.40
    """
    steps = round(epochs / sampling_rate)

    def row(accounting: str, source: str, multiplier: float) -> ThesisRow:
        cost = gaussian_epsilon(multiplier, delta, steps=steps, sampling_rate=sampling_rate)
        return ThesisRow(accounting, source, multiplier, cost)

    sound = gaussian_noise_multiplier(epsilon, delta, steps=steps, sampling_rate=sampling_rate)
    rows = [row("sound", "tacit", sound)]
    as_printed = (epsilon, delta, epochs, sampling_rate) == (0.5, 1e-4, 200, 0.01)
    for name, formula in FORMULAS.items():
        if as_printed:
            rows.append(row(name, "printed in section 8.1.1", PRINTED[name]))
        rows.append(row(name, "formula, T = steps", formula(epsilon, delta, steps, sampling_rate)))
        rows.append(row(name, "formula, T = epochs", formula(epsilon, delta, epochs, sampling_rate)))
    return rows
