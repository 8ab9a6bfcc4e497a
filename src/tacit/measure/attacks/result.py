"""The result of an attack, with the baseline of an attacker without the release."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import InvalidInputError, Undisclosed, words

# Half the width of a 95% interval in standard errors: the 97.5% quantile of the normal distribution.
_Z = 1.959963984540054


@dataclass(frozen=True)
class AttackResult:
    """What an attacker recovers from a release, and what an attacker without the release recovers.

    Parameters
    ----------
    attack : str
        The name of the attack.
    measure : str
        What is measured, in words.
    recovered : float
        The measure with the release.
    baseline : float
        The measure without it.
    interval : tuple of float
        A 95% interval of `recovered`. If the baseline is measured on the same rows, the interval includes its error.
    n_targets : int
        The number of rows that were attacked.
    """

    attack: str
    measure: str
    recovered: float
    baseline: float
    interval: tuple[float, float]
    n_targets: int

    @property
    def leaks(self) -> bool:
        """Whether significantly more is recovered than without the release."""
        return self.interval[0] > self.baseline

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as plain values, without tables."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        plain = {
            name: value.to_dict() if isinstance(value, AttackResult) else value
            for name, value in values.items()
            if not isinstance(value, np.ndarray)
        }
        return {**plain, "interval": list(self.interval), "leaks": self.leaks}

    def __str__(self) -> str:
        verdict = "more than" if self.leaks else "no more than"
        low, high = self.interval
        return (
            f"{self.attack}: {self.measure} {self.recovered:.4g} (95% interval {low:.4g} to {high:.4g}), {verdict} the "
            f"{self.baseline:.4g} without the release"
        )


@dataclass(frozen=True, eq=False, repr=False)
class Reconstruction(Undisclosed, AttackResult):
    """A finding about values: the fraction of the original's variance that an estimate explains.

    Parameters
    ----------
    as_released : float
        The same fraction for the released values themselves. An attack that exceeds it has undone some of the distortion.
    estimate : ndarray of shape (n_targets, n_columns)
        The attacker's estimate of the table.
    """

    as_released: float = 0.0
    estimate: NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 0)), repr=False)


def reconstruction(
    attack: str,
    original: NDArray[np.float64],
    released: NDArray[np.float64],
    estimate: NDArray[np.float64],
    guess: NDArray[np.float64] | None = None,
) -> Reconstruction:
    r"""Return how much of the variance of the original an estimate explains, with the same weight for all columns.

    .. math::
        1 - \frac{1}{m} \sum_j \frac{\sum_i (a_{ij} - \hat a_{ij})^2}{\sum_i (a_{ij} - \bar a_j)^2}

    It is 1 for the original itself, and 0 for its means. `guess` is the estimate of an attacker without the release, the
    same for every row; the means if not given. The interval is that of a mean of ratios, linearised. Columns that are
    constant among these rows have no variance to recover, and are left out.
    """
    varied = np.ptp(original, axis=0) > 0
    if not varied.any():
        raise InvalidInputError(
            "a column that varies among the rows to attack",
            words(f"none among {len(original)} rows"),
            "Attack more rows.",
        )
    whole = estimate
    original, released, estimate = original[:, varied], released[:, varied], estimate[:, varied]
    guess = None if guess is None else guess[varied]
    centred = np.square(original - original.mean(axis=0))
    size = centred.sum(axis=0)
    errors = np.square(original - estimate)
    ratios = errors.sum(axis=0) / size
    recovered = 1 - float(ratios.mean())
    # The contribution of each row to the ratios, to first order.
    parts = ((errors - ratios * centred) / size).mean(axis=1)
    low, high = normal_interval(recovered, float(np.sqrt(np.square(parts).sum())))
    return Reconstruction(
        attack=attack,
        measure="fraction of the variance recovered",
        recovered=recovered,
        baseline=0.0 if guess is None else 1 - _mean_ratio(original, guess, size),
        interval=(low, high),
        n_targets=len(original),
        as_released=1 - _mean_ratio(original, released, size),
        estimate=whole,
    )


def normal_interval(value: float, error: float) -> tuple[float, float]:
    """Return the 95% interval of a mean with this standard error."""
    return value - _Z * error, value + _Z * error


def fraction_interval(hits: float, count: int) -> tuple[float, float]:
    """Return the exact 95% interval of a fraction, by Clopper and Pearson (1934).

    If chance alone gives about one hit, as in record linkage, approximate intervals report too many leaks. Hits may be a
    sum of probabilities, which is rounded outwards.

    Examples
    --------
    >>> low, high = fraction_interval(0, 10)
    >>> round(low, 4), round(high, 4)
    (0.0, 0.3085)
    """
    from scipy.stats import beta

    # 95%: 2.5% on each side; 1e-9 for whole numbers that rounding moved
    fewest, most = np.floor(hits + 1e-9), np.ceil(hits - 1e-9)
    low = 0.0 if fewest == 0 else float(beta.ppf(0.025, fewest, count - fewest + 1))
    high = 1.0 if most == count else float(beta.ppf(0.975, most + 1, count - most))
    return low, high


def _mean_ratio(original: NDArray[np.float64], estimate: NDArray[np.float64], size: NDArray[np.float64]) -> float:
    return float(np.mean(np.square(original - estimate).sum(axis=0) / size))
