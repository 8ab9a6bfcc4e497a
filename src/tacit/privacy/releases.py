"""What was released, as plain values: the accountant composes them, the ledger stores them.

A release records how much noise stood against what one unit could change, and nothing of the data. Conventions:

* A Gaussian release records ``noise_multiplier`` = standard deviation / largest L2 norm of *one unit's contribution*.
  Under replace-one adjacency a change moves the sum by up to twice that norm; the accountant does the doubling. (This
  is the convention of dp-accounting; Poisson sampling needs the norm, not the sensitivity.)
* The others record their noise against the sensitivity under the adjacency in force.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, ClassVar

from tacit.errors import UnaccountableError, parameter
from tacit.validation import check_count, check_delta, check_epsilon, check_positive, check_rate

ADJACENCIES = ("add-remove", "replace-one")
UNITS = ("cell", "row", "user", "site")


@dataclass(frozen=True)
class Release:
    """One kind of release, made `count` times; `name` says in a word what was released."""

    kind: ClassVar[str] = ""
    name: str = ""
    count: int = 1

    def __post_init__(self) -> None:
        check_count(self.count, "count")

    def to_dict(self) -> dict[str, Any]:
        """Return the release as plain values, the inverse of `release_from_dict`."""
        return {"kind": self.kind, **asdict(self)}

    def describe(self) -> str:
        """Return the release in words, for tables and reports."""
        raise NotImplementedError


@dataclass(frozen=True)
class GaussianRelease(Release):
    """A sum released with Gaussian noise.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of the noise over the largest L2 norm that one unit contributes.
    sampling_rate : float
        Probability with which each unit took part, independently (Poisson sampling); 1 for all.
    lattice_sigma : float or None
        For discrete noise: its smallest standard deviation in steps of the grid. None for continuous noise.
    dimension : int
        Numbers in the released vector; it enters only the (tiny) price of the grid.
    """

    kind: ClassVar[str] = "gaussian"
    noise_multiplier: float = 1.0
    sampling_rate: float = 1.0
    lattice_sigma: float | None = None
    dimension: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self.noise_multiplier, "noise_multiplier")
        check_rate(self.sampling_rate)
        check_count(self.dimension, "dimension")
        if self.lattice_sigma is not None:
            check_positive(self.lattice_sigma, "lattice_sigma")

    def describe(self) -> str:
        """Return the release in words."""
        noise = "Gaussian" if self.lattice_sigma is None else "discrete Gaussian"
        sampled = "" if self.sampling_rate == 1 else f", Poisson-sampled at rate {self.sampling_rate:g}"
        return f"{noise} noise, multiplier {self.noise_multiplier:.6g}{sampled}"


@dataclass(frozen=True)
class LaplaceRelease(Release):
    """A vector released with Laplace noise: `noise_multiplier` is the scale over the L1 sensitivity."""

    kind: ClassVar[str] = "laplace"
    noise_multiplier: float = 1.0
    dimension: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self.noise_multiplier, "noise_multiplier")
        check_count(self.dimension, "dimension")

    def describe(self) -> str:
        """Return the release in words."""
        return f"Laplace noise, scale {self.noise_multiplier:.6g} times the L1 sensitivity"


@dataclass(frozen=True)
class GeometricRelease(Release):
    """Integers released with two-sided geometric (discrete Laplace) noise P(t) ~ exp(-|t|/scale)."""

    kind: ClassVar[str] = "geometric"
    scale: float = 1.0
    sensitivity: int = 1
    dimension: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self.scale, "scale")
        check_count(self.sensitivity, "sensitivity")
        check_count(self.dimension, "dimension")

    def describe(self) -> str:
        """Return the release in words."""
        return f"two-sided geometric noise, scale {self.scale:.6g}, L1 sensitivity {self.sensitivity}"


@dataclass(frozen=True)
class ExponentialRelease(Release):
    """A choice made by the exponential mechanism (or report-noisy-max) with the given epsilon."""

    kind: ClassVar[str] = "exponential"
    epsilon: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_epsilon(self.epsilon)

    def describe(self) -> str:
        """Return the release in words."""
        return f"exponential mechanism, epsilon {self.epsilon:.6g}"


@dataclass(frozen=True)
class ApproximateRelease(Release):
    """Anything known only to be (epsilon, delta)-differentially private; delta may be zero."""

    kind: ClassVar[str] = "approximate"
    epsilon: float = 1.0
    delta: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_epsilon(self.epsilon)
        if self.delta != 0:
            check_delta(self.delta)

    def describe(self) -> str:
        """Return the release in words."""
        return f"a step of epsilon {self.epsilon:.6g}, delta {self.delta:.3g}"


KINDS: dict[str, type[Release]] = {
    cls.kind: cls for cls in (GaussianRelease, LaplaceRelease, GeometricRelease, ExponentialRelease, ApproximateRelease)
}


def release_from_dict(values: Mapping[str, Any]) -> Release:
    """Rebuild a release from `Release.to_dict`; unknown kinds and fields are refused."""
    given = dict(values)
    kind = given.pop("kind", None)
    cls = KINDS.get(kind) if isinstance(kind, str) else None
    if cls is None or not set(given) <= {field.name for field in fields(cls)}:
        raise UnaccountableError(
            f"a release of a known kind ({', '.join(KINDS)}) with that kind's fields",
            parameter(dict(values)),
            "Read it with the version of tacit that wrote it, or record it as an ApproximateRelease.",
        )
    return cls(**given)


def merge(releases: Iterable[Release]) -> tuple[Release, ...]:
    """Join releases that differ only in their count, so that 20,000 equal rounds are one entry."""
    counts: dict[Release, int] = {}
    for release in releases:
        key = replace(release, count=1)
        counts[key] = counts.get(key, 0) + release.count
    return tuple(replace(key, count=count) for key, count in counts.items())
