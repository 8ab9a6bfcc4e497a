"""What an attack found, beside what could be had without it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Half the width of a 95% interval in standard errors.
_Z = 1.959963984540054


@dataclass(frozen=True)
class Finding:
    """What an attacker recovers from a release, and what one recovers who has not seen it.

    Parameters
    ----------
    attack : str
        The attack.
    measure : str
        What is counted, in words.
    recovered : float
        With the release.
    baseline : float
        Without it.
    interval : tuple of float
        A 95% interval of what is recovered. Where the baseline is measured on the same rows, its error is counted here.
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
        """Whether more is recovered than without the release, beyond what chance explains."""
        return self.interval[0] > self.baseline

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as plain values, without tables."""
        found = {name: value for name, value in asdict(self).items() if not isinstance(value, np.ndarray)}
        return {**found, "interval": list(self.interval), "leaks": self.leaks}

    def __str__(self) -> str:
        verdict = "more than" if self.leaks else "no more than"
        low, high = self.interval
        return (
            f"{self.attack}: {self.measure} {self.recovered:.4g} (95% interval {low:.4g} to {high:.4g}), {verdict} the "
            f"{self.baseline:.4g} without the release"
        )


@dataclass(frozen=True, eq=False)
class Reconstruction(Finding):
    """A finding about values: the share of the original's variance that an estimate explains.

    Parameters
    ----------
    as_released : float
        The same share for the released values themselves, taken as they are; an attack that adds to it has undone some of
        the distortion.
    estimate : ndarray of shape (n_targets, n_columns)
        The attacker's table.
    """

    as_released: float = 0.0
    estimate: NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 0)), repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as plain values, without the estimate."""
        names = ("attack", "measure", "recovered", "baseline", "n_targets", "as_released")
        return {**{name: getattr(self, name) for name in names}, "interval": list(self.interval), "leaks": self.leaks}


def reconstruction(
    attack: str,
    original: NDArray[np.float64],
    released: NDArray[np.float64],
    estimate: NDArray[np.float64],
    guess: NDArray[np.float64] | None = None,
) -> Reconstruction:
    r"""Return how much of the variance of the original an estimate explains, columns of all units counted alike.

    .. math::
        1 - \sum_i e_i \Big/ \sum_i t_i, \qquad e_i = \sum_j (a_{ij} - \hat a_{ij})^2 / s_j^2,
        \quad t_i = \sum_j (a_{ij} - \bar a_j)^2 / s_j^2

    1 for the original itself, 0 for its means. `guess` is what an attacker without the release would say of every row;
    the means if not given. The interval is that of a ratio of two means, by their linear terms.
    """
    scale = original.std(axis=0)
    spread = _squares(original, original.mean(axis=0), scale)
    errors = _squares(original, estimate, scale)
    ratio = float(errors.sum() / spread.sum())
    error = float(np.sqrt(np.square(errors - ratio * spread).sum()) / spread.sum())
    blind = 0.0 if guess is None else 1 - float(_squares(original, guess, scale).sum() / spread.sum())
    return Reconstruction(
        attack=attack,
        measure="share of the variance recovered",
        recovered=1 - ratio,
        baseline=blind,
        interval=(1 - ratio - _Z * error, 1 - ratio + _Z * error),
        n_targets=len(original),
        as_released=1 - float(_squares(original, released, scale).sum() / spread.sum()),
        estimate=estimate,
    )


def around(value: float, error: float) -> tuple[float, float]:
    """Return the 95% interval of a mean with this standard error."""
    return value - _Z * error, value + _Z * error


def wilson_interval(hits: float, count: int) -> tuple[float, float]:
    """Return Wilson's 95% interval of a share; hits may be a sum of probabilities.

    Examples
    --------
    >>> low, high = wilson_interval(0, 10)
    >>> round(low, 4), round(high, 4)
    (0.0, 0.2775)
    """
    share, weight = hits / count, _Z**2 / count
    centre = (share + weight / 2) / (1 + weight)
    half = np.sqrt(share * (1 - share) * weight + weight**2 / 4) / (1 + weight)
    return max(float(centre - half), 0.0), min(float(centre + half), 1.0)


def _squares(
    original: NDArray[np.float64], estimate: NDArray[np.float64], scale: NDArray[np.float64]
) -> NDArray[np.float64]:
    difference = (original - estimate) / scale
    squares: NDArray[np.float64] = np.einsum("ij,ij->i", difference, difference)
    return squares
