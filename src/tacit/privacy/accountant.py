"""The accountant: computes (epsilon, delta) from releases, and refuses releases that it cannot bound.

Full-batch Gaussian releases are composed by the closed form in `tacit.privacy.gaussian`. If any other kind takes part
(Poisson sampling, Laplace, geometric, exponential, a plain (epsilon, delta) step), all releases are composed as privacy
loss distributions by dp-accounting, whose discretisation rounds losses up: the epsilon returned is an upper bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from tacit.errors import UnaccountableError, parameter, words
from tacit.privacy import gaussian
from tacit.privacy.releases import (
    ADJACENCIES,
    ApproximateRelease,
    ExponentialRelease,
    GaussianRelease,
    GeometricRelease,
    LaplaceRelease,
    Release,
    merge,
)
from tacit.validation import check_choice, check_delta

if TYPE_CHECKING:
    from types import ModuleType

    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

CLOSED_FORM = "exact Gaussian composition (Balle & Wang 2018)"
ZCDP = "concentrated privacy of the discrete Gaussian (Canonne, Kamath & Steinke 2020)"
LOSS_DISTRIBUTION = "privacy loss distributions (dp-accounting, pessimistic)"
KNOWN = (GaussianRelease, LaplaceRelease, GeometricRelease, ExponentialRelease, ApproximateRelease)
EXACT_TOLERANCE = 1e-9
"""Relative difference allowed between two computations of one epsilon by a closed form. Its root is found to 1e-13;
the rest is for the special functions of other platforms."""
NUMERICAL_TOLERANCE = 1e-3
"""The same for loss distributions, whose grid another version of dp-accounting may choose differently."""
WIDEST_INTERVAL = 5e-4
"""Grid of privacy losses for few steps: the rounding adds less than this to epsilon."""
INTERVAL_AT_1000_STEPS = 1e-4
"""Grid at 1,000 steps. What rounding adds to epsilon grows with steps * interval^2, so the interval shrinks with the
square root of the steps; 1e-4 at 1,000 steps adds about 1e-5 (measured against intervals five times finer)."""
MOST_GRID_POINTS = 200_000
"""Largest number of grid points for the losses of one step: bounds the time and memory of a composition."""


@dataclass(frozen=True)
class Accountant:
    """Compose releases of different kinds into one (epsilon, delta).

    Parameters
    ----------
    adjacency : {"add-remove", "replace-one"}
        How neighbouring data sets differ: one unit was added or removed, or one unit's data were replaced.
    releases : iterable of Release
        What was released, in any order. The statistics of later releases may depend on the results of earlier ones.

    Notes
    -----
    Accountants are immutable: `compose` returns a new one.

    Examples
    --------
    >>> from tacit.privacy import Accountant, GaussianRelease
    >>> spent = Accountant().compose(GaussianRelease(noise_multiplier=5.0, count=10))
    >>> round(spent.epsilon(1e-5), 3)
    2.594
    """

    adjacency: str = "add-remove"
    releases: tuple[Release, ...] = field(default=())

    def __post_init__(self) -> None:
        check_choice(self.adjacency, "adjacency", ADJACENCIES)
        given = tuple(self.releases)
        for release in given:
            if not isinstance(release, KNOWN):
                raise UnaccountableError(
                    f"a release of a kind with a known bound ({', '.join(cls.__name__ for cls in KNOWN)})",
                    parameter(release),
                    "Record it as an ApproximateRelease if its (epsilon, delta) is proven elsewhere.",
                )
        object.__setattr__(self, "releases", merge(given))

    def compose(self, *releases: Release) -> Accountant:
        """Return an accountant of these releases as well."""
        return Accountant(self.adjacency, self.releases + releases)

    @property
    def method(self) -> str:
        """The method that computes the total, in words."""
        if not self._all_full_batch():
            return LOSS_DISTRIBUTION
        too_coarse = any(self.continuous_multiplier(release) is None for release in self._gaussians())
        return ZCDP if too_coarse else CLOSED_FORM

    @property
    def tolerance(self) -> float:
        """Relative difference allowed between a recorded epsilon and the same epsilon computed again."""
        return NUMERICAL_TOLERANCE if self.method == LOSS_DISTRIBUTION else EXACT_TOLERANCE

    def agrees(self, stated: float, computed: float) -> bool:
        """Return whether a recorded epsilon and the one computed again differ by at most `tolerance`, either way."""
        if math.isinf(stated) or math.isinf(computed):
            return stated == computed
        return abs(stated - computed) <= self.tolerance * max(stated, computed)

    def epsilon(self, delta: float) -> float:
        """Return the total epsilon at this delta; 0 when nothing was released, infinity when there is no bound."""
        delta = check_delta(delta)
        if not self.releases:
            return 0.0
        try:
            return self._epsilon(delta)
        except OverflowError:  # the noise is so small that the loss exceeds floating point
            return math.inf

    def _epsilon(self, delta: float) -> float:
        shift, scale = self._lattice_price()
        if self._all_full_batch():
            bounds = [gaussian.epsilon_of_rho(self._rho(), delta)]
            if (mu := self._mu()) is not None:
                bounds.append(gaussian.epsilon_of_mu(mu, delta * scale) + shift)
            return min(bounds)
        return float(_loss_distribution(self).get_epsilon_for_delta(delta * scale)) + shift

    def delta(self, epsilon: float) -> float:
        """Return the total delta at this epsilon."""
        if not self.releases:
            return 0.0
        shift, scale = self._lattice_price()
        if self._all_full_batch() and (mu := self._mu()) is not None:
            return min(1.0, gaussian.delta_of_mu(max(epsilon - shift, 0.0), mu) / scale)
        if self._all_full_batch():
            raise UnaccountableError(
                "a grid fine enough for delta(epsilon): noise of at least two grid steps",
                parameter(self._coarsest()),
                "Use epsilon(delta), which also works for coarse grids, or a finer grid.",
            )
        return min(1.0, float(_loss_distribution(self).get_delta_for_epsilon(max(epsilon - shift, 0.0))) / scale)

    def _gaussians(self) -> list[GaussianRelease]:
        return [release for release in self.releases if isinstance(release, GaussianRelease)]

    def _all_full_batch(self) -> bool:
        return all(isinstance(release, GaussianRelease) and release.sampling_rate == 1 for release in self.releases)

    def _coarsest(self) -> float | None:
        grids = [release.lattice_sigma for release in self._gaussians() if release.lattice_sigma is not None]
        return min(grids) if grids else None

    def _coordinates(self) -> int:
        return sum(r.dimension * r.count for r in self._gaussians() if r.lattice_sigma is not None)

    def _lattice_price(self) -> tuple[float, float]:
        """Return what the grid adds to epsilon, and the factor by which it lowers delta."""
        if self._coarsest() is None:
            return 0.0, 1.0
        return gaussian.LATTICE_SLACK, math.exp(-gaussian.LATTICE_SLACK)

    def continuous_multiplier(self, release: GaussianRelease) -> float | None:
        """Return the multiplier of a continuous Gaussian that bounds this release; None if its grid is too coarse."""
        if release.lattice_sigma is None:
            return release.noise_multiplier
        factor = gaussian.lattice_loss(release.lattice_sigma, self._coordinates())
        return None if factor is None else release.noise_multiplier * factor

    def _mu(self) -> float | None:
        doubling = 2.0 if self.adjacency == "replace-one" else 1.0
        total = 0.0
        for release in self._gaussians():
            if release.sampling_rate < 1:
                continue
            multiplier = self.continuous_multiplier(release)
            if multiplier is None:
                return None
            total += release.count * (doubling / multiplier) ** 2
        return math.sqrt(total)

    def _rho(self) -> float:
        doubling = 2.0 if self.adjacency == "replace-one" else 1.0
        return sum(r.count * (doubling / r.noise_multiplier) ** 2 / 2 for r in self._gaussians())


@lru_cache(maxsize=256)
def _loss_distribution(accountant: Accountant) -> PrivacyLossDistribution:
    """Compose all releases as privacy loss distributions. The import of dp-accounting takes seconds, so it is here."""
    from dp_accounting.pld import privacy_loss_distribution as pld
    from dp_accounting.pld.common import DifferentialPrivacyParameters

    interval = _interval(accountant)
    if math.isinf(interval):
        raise OverflowError("a privacy loss beyond floating point")
    parts = [_gaussian_part(pld, accountant, interval)] if accountant._gaussians() else []
    for release in accountant.releases:
        if isinstance(release, LaplaceRelease) and release.dimension == 1:
            part = pld.from_laplace_mechanism(release.noise_multiplier, value_discretization_interval=interval)
        elif isinstance(release, GeometricRelease) and release.dimension == 1:
            part = pld.from_discrete_laplace_mechanism(
                1 / release.scale, release.sensitivity, value_discretization_interval=interval
            )
        elif not isinstance(release, GaussianRelease):
            # for noise on vectors and for choices only (epsilon, delta) is proven, so that is composed
            bound = DifferentialPrivacyParameters(*_plain_bound(release))
            part = pld.from_privacy_parameters(bound, value_discretization_interval=interval)
        else:
            continue
        parts.append(part.self_compose(release.count) if release.count > 1 else part)
    total = parts[0]
    for part in parts[1:]:
        total = total.compose(part)
    return total


def _gaussian_part(pld: ModuleType, accountant: Accountant, interval: float) -> PrivacyLossDistribution:
    from dp_accounting import NeighboringRelation

    relation = NeighboringRelation.ADD_OR_REMOVE_ONE
    if accountant.adjacency == "replace-one":
        relation = NeighboringRelation.REPLACE_ONE
    total = None
    full_batch = accountant._mu()
    if full_batch is None:
        raise _too_coarse(accountant._coarsest())
    if full_batch > 0:
        total = pld.from_gaussian_mechanism(1 / full_batch, value_discretization_interval=interval)
    for release in accountant._gaussians():
        if release.sampling_rate == 1:
            continue
        multiplier = accountant.continuous_multiplier(release)
        if multiplier is None:
            raise _too_coarse(release.lattice_sigma)
        part = pld.from_gaussian_mechanism(
            multiplier,
            sampling_prob=release.sampling_rate,
            value_discretization_interval=interval,
            neighboring_relation=relation,
        ).self_compose(release.count)
        total = part if total is None else total.compose(part)
    return total


def _too_coarse(lattice_sigma: float | None) -> UnaccountableError:
    return UnaccountableError(
        "noise of at least two grid steps, where Gaussian releases compose with other kinds",
        words(f"noise of {lattice_sigma} grid steps"),
        "Use a finer grid (more fractional bits).",
    )


def _plain_bound(release: Release) -> tuple[float, float]:
    if isinstance(release, LaplaceRelease):
        return 1 / release.noise_multiplier, 0.0
    if isinstance(release, GeometricRelease):
        return release.sensitivity / release.scale, 0.0
    if isinstance(release, ApproximateRelease):
        return release.epsilon, release.delta
    assert isinstance(release, ExponentialRelease)
    return release.epsilon, 0.0


def _interval(accountant: Accountant) -> float:
    """Choose the grid of privacy losses: fine where there are many steps, coarse where one loss is large.

    Any interval is sound, because losses are rounded up to the grid. A wide one only makes epsilon larger.
    """
    steps = sum(release.count for release in accountant.releases)
    fine = min(WIDEST_INTERVAL, INTERVAL_AT_1000_STEPS * math.sqrt(1000 / steps))
    doubling = 2.0 if accountant.adjacency == "replace-one" else 1.0
    ratios = [doubling / r.noise_multiplier for r in accountant._gaussians() if r.sampling_rate < 1]
    ratios.append(accountant._mu() or 0.0)
    # the loss of a Gaussian is normal with mean mu^2/2 and deviation mu: ten deviations leave out less than 1e-22
    losses = [ratio**2 / 2 + 10 * ratio for ratio in ratios]
    losses += [_plain_bound(r)[0] for r in accountant.releases if not isinstance(r, GaussianRelease)]
    return max(fine, max(losses) / MOST_GRID_POINTS)
