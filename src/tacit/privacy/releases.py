"""Releases: records of what was released, as plain values. The accountant composes them, the ledger stores them.

A release records the size of the noise relative to what one unit can change. It holds nothing of the data. Conventions:

* A Gaussian release records ``noise_multiplier`` = standard deviation / largest L2 norm of *one unit's contribution*.
  Under replace-one adjacency a change moves the sum by up to twice that norm; the accountant does the doubling. (This
  is the convention of dp-accounting; Poisson sampling needs the norm, not the sensitivity.)
* The other kinds record their noise relative to the sensitivity under the adjacency in use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import ClassVar

from tacit.errors import InvalidInputError, UnaccountableError, kind_of, words
from tacit.privacy.records import OTHER_VERSION, checked_record, is_integer, is_number, is_number_or_none, is_text
from tacit.privacy.rounding import DELTA_DIGITS, rounded_down, rounded_up
from tacit.validation import check_count, check_delta, check_epsilon, check_positive, check_rate

ADJACENCIES = ("add-remove", "replace-one")
"""How neighbouring data sets differ: one unit added or removed, or one unit's data replaced by other data."""
UNITS = ("cell", "row", "user", "site")
"""What neighbouring data sets differ in."""
LARGEST_COUNT = 2**62
"""Counts and dimensions above this are refused: they fit no 64-bit integer and no run ever has them."""
_NOISE_DIGITS = 6
"""Significant digits of noise multipliers, scales and sampling rates in words."""


@dataclass(frozen=True)
class Release:
    """One kind of release, made `count` times. `name` says what was released, in a word."""

    kind: ClassVar[str] = ""
    name: str = ""
    count: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise InvalidInputError("name to be a string", kind_of(self.name), "Give a short name.")
        _check_size(self.count, "count")

    def to_dict(self) -> dict[str, object]:
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
        For discrete noise: its smallest standard deviation, in grid steps. None for continuous noise.
    dimension : int
        Length of the released vector. It only enters the (tiny) cost of rounding to the grid.
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
        _check_size(self.dimension, "dimension")
        if self.lattice_sigma is not None:
            check_positive(self.lattice_sigma, "lattice_sigma")

    def describe(self) -> str:
        """Return the release in words."""
        noise = "Gaussian" if self.lattice_sigma is None else "discrete Gaussian"
        rate = rounded_up(self.sampling_rate, _NOISE_DIGITS)
        sampled = "" if self.sampling_rate == 1 else f", Poisson-sampled at rate {rate}"
        return f"{noise} noise, multiplier {rounded_down(self.noise_multiplier, _NOISE_DIGITS)}{sampled}"


@dataclass(frozen=True)
class LaplaceRelease(Release):
    """A vector released with Laplace noise: `noise_multiplier` is the scale over the L1 sensitivity."""

    kind: ClassVar[str] = "laplace"
    noise_multiplier: float = 1.0
    dimension: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self.noise_multiplier, "noise_multiplier")
        _check_size(self.dimension, "dimension")

    def describe(self) -> str:
        """Return the release in words."""
        return f"Laplace noise, scale {rounded_down(self.noise_multiplier, _NOISE_DIGITS)} times the L1 sensitivity"


@dataclass(frozen=True)
class GeometricRelease(Release):
    """Integers released with two-sided geometric (discrete Laplace) noise P(t) ~ exp(-abs(t) / scale)."""

    kind: ClassVar[str] = "geometric"
    scale: float = 1.0
    sensitivity: int = 1
    dimension: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self.scale, "scale")
        _check_size(self.sensitivity, "sensitivity")
        _check_size(self.dimension, "dimension")

    def describe(self) -> str:
        """Return the release in words."""
        scale = rounded_down(self.scale, _NOISE_DIGITS)
        return f"two-sided geometric noise, scale {scale}, L1 sensitivity {self.sensitivity}"


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
        return f"exponential mechanism, epsilon {rounded_up(self.epsilon, _NOISE_DIGITS)}"


@dataclass(frozen=True)
class ApproximateRelease(Release):
    """Anything of which only (epsilon, delta)-differential privacy is known. Delta may be zero."""

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
        epsilon, delta = rounded_up(self.epsilon, _NOISE_DIGITS), rounded_up(self.delta, DELTA_DIGITS)
        return f"a step with epsilon {epsilon}, delta {delta}"


KINDS: dict[str, type[Release]] = {
    cls.kind: cls for cls in (GaussianRelease, LaplaceRelease, GeometricRelease, ExponentialRelease, ApproximateRelease)
}


_FIELDS = {
    **{"kind": is_text, "name": is_text, "count": is_integer, "dimension": is_integer, "sensitivity": is_integer},
    **{"noise_multiplier": is_number, "sampling_rate": is_number, "lattice_sigma": is_number_or_none},
    **{"scale": is_number, "epsilon": is_number, "delta": is_number},
}
"""The type of every field that a record of a release may have."""


def release_from_dict(values: Mapping[str, object]) -> Release:
    """Rebuild a release from `Release.to_dict`. Every field of its kind is required, and no other is accepted."""
    kind = values.get("kind") if isinstance(values, Mapping) else None
    cls = KINDS.get(kind) if isinstance(kind, str) else None
    if cls is None:
        raise UnaccountableError(
            f"a release of a known kind ({', '.join(KINDS)})",
            words("a record of another kind, or of none"),
            OTHER_VERSION,
        )
    names = ["kind", *(field.name for field in fields(cls))]
    given = checked_record(values, f"a release of the kind {kind!r}", {name: _FIELDS[name] for name in names})
    del given["kind"]
    return cls(**given)


def merge(releases: Iterable[Release]) -> tuple[Release, ...]:
    """Join releases that differ only in their count, so that 20,000 equal rounds are one record."""
    counts: dict[Release, int] = {}
    for release in releases:
        key = replace(release, count=1)
        counts[key] = counts.get(key, 0) + release.count
    return tuple(replace(key, count=count) for key, count in counts.items())


def _check_size(value: object, name: str) -> None:
    if check_count(value, name) > LARGEST_COUNT:
        raise InvalidInputError(f"{name} of at most 2**62", words("a larger integer"), f"Give a smaller {name}.")
