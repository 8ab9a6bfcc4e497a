"""What a guarantee is: an immutable value, computed from recorded releases, that prints as a sentence."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from tacit.errors import InvalidInputError, parameter
from tacit.privacy.accountant import Accountant
from tacit.privacy.releases import ADJACENCIES, UNITS, Release, merge, release_from_dict
from tacit.validation import check_choice, check_delta

PRIVATE = "differential privacy"
NONE = "none"
MEASURED = "measured"
KINDS = (PRIVATE, NONE, MEASURED)

_NEIGHBOURS = {
    "add-remove": "with any one {unit} added or removed",
    "replace-one": "with any one {unit}'s data replaced by any other",
}


@dataclass(frozen=True)
class Guarantee:
    """What is promised about a release, to whom, and on what grounds.

    Build it with `from_releases`, `none` or `measured`; never by hand, so that epsilon is always computed.

    Attributes
    ----------
    kind : {"differential privacy", "none", "measured"}
    epsilon, delta : float
        Total for everything in `releases`; infinity and 1 when there is no guarantee.
    unit : {"cell", "row", "user", "site"}
        What neighbouring data sets differ in: one of these.
    adjacency : {"add-remove", "replace-one"}
    trust : str
        Who must be trusted with what.
    accountant : str
        The method that computed epsilon.
    releases : tuple of Release
        What it was computed from.
    assumptions : tuple of str
        What else has to hold, in words.
    reason : str
        Why there is no guarantee, or what was measured.
    """

    kind: str
    epsilon: float
    delta: float
    unit: str = "row"
    adjacency: str = "add-remove"
    trust: str = ""
    accountant: str = ""
    releases: tuple[Release, ...] = ()
    assumptions: tuple[str, ...] = ()
    reason: str = ""

    @classmethod
    def from_releases(
        cls,
        releases: Iterable[Release],
        *,
        delta: float,
        unit: str = "row",
        adjacency: str = "add-remove",
        trust: str = "the data holder, who sees the data; nobody else is trusted",
        assumptions: Iterable[str] = (),
    ) -> Guarantee:
        """Compute the guarantee that these releases earn together, at this delta."""
        check_choice(unit, "unit", UNITS)
        check_choice(adjacency, "adjacency", ADJACENCIES)
        accountant = Accountant(adjacency, tuple(releases))
        return cls(
            kind=PRIVATE,
            epsilon=accountant.epsilon(delta),
            delta=check_delta(delta),
            unit=unit,
            adjacency=adjacency,
            trust=trust,
            accountant=accountant.method if accountant.releases else "nothing was released",
            releases=accountant.releases,
            assumptions=tuple(assumptions),
        )

    @classmethod
    def none(cls, reason: str) -> Guarantee:
        """Say that there is no guarantee, and why."""
        return cls(kind=NONE, epsilon=math.inf, delta=1.0, reason=reason)

    @classmethod
    def measured(cls, statement: str) -> Guarantee:
        """Say what was measured, where nothing is proven."""
        return cls(kind=MEASURED, epsilon=math.inf, delta=1.0, reason=statement)

    def voided(self, reason: str) -> Guarantee:
        """Return the guarantee that is left when `reason` takes it away; the releases stay on record."""
        return replace(self, kind=NONE, epsilon=math.inf, delta=1.0, reason=reason)

    def assuming(self, *assumptions: str) -> Guarantee:
        """Return the same guarantee with more assumptions in words."""
        return replace(self, assumptions=(*self.assumptions, *assumptions))

    @property
    def holds(self) -> bool:
        """Whether this is a proven, finite guarantee."""
        return self.kind == PRIVATE and math.isfinite(self.epsilon)

    def __str__(self) -> str:
        if self.kind == NONE:
            return f"No privacy guarantee: {self.reason}"
        if self.kind == MEASURED:
            return f"Measured only, not a guarantee: {self.reason}"
        if not self.holds:
            return "No privacy guarantee: the noise was too small for any finite epsilon."
        neighbours = _NEIGHBOURS[self.adjacency].format(unit=self.unit)
        count = sum(release.count for release in self.releases)
        sentence = (
            f"Whatever anyone does with what was released, the probability of any outcome changes by at most a factor "
            f"of exp({shown_epsilon(self.epsilon)}), give or take {self.delta:.3g}, {neighbours}: "
            f"({shown_epsilon(self.epsilon)}, {self.delta:.3g})-differential privacy for the {self.unit}. "
            f"Computed by {self.accountant} from {count} recorded release{'s' if count != 1 else ''}. "
            f"Trusted: {self.trust}."
        )
        if self.assumptions:
            sentence += " Assumes: " + "; ".join(self.assumptions) + "."
        return sentence

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; an infinite epsilon is None."""
        return {
            "kind": self.kind,
            "epsilon": self.epsilon if math.isfinite(self.epsilon) else None,
            "delta": self.delta,
            "unit": self.unit,
            "adjacency": self.adjacency,
            "trust": self.trust,
            "accountant": self.accountant,
            "releases": [release.to_dict() for release in self.releases],
            "assumptions": list(self.assumptions),
            "reason": self.reason,
            "sentence": str(self),
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Guarantee:
        """Rebuild a guarantee from `to_dict`; epsilon is computed again from the releases, not believed."""
        kind = check_choice(values.get("kind"), "kind", KINDS)
        releases = merge(release_from_dict(item) for item in values.get("releases", ()))
        texts = {key: str(values.get(key, "")) for key in ("trust", "reason")}
        assumptions = tuple(str(item) for item in values.get("assumptions", ()))
        if kind != PRIVATE:
            return cls(kind, math.inf, 1.0, releases=releases, assumptions=assumptions, **texts)
        found = cls.from_releases(
            releases,
            delta=values["delta"],
            unit=values["unit"],
            adjacency=values["adjacency"],
            trust=texts["trust"],
            assumptions=assumptions,
        )
        stated = values.get("epsilon")
        if stated is not None and found.epsilon > float(stated) * (1 + 1e-6):
            raise InvalidInputError(
                f"an epsilon that its releases earn (at least {found.epsilon:.6g})",
                parameter(stated),
                "The record was changed, or written by another version; do not rely on it.",
            )
        return found


def shown_epsilon(epsilon: float) -> str:
    """Return epsilon with four significant digits, rounded up: what is printed is never less than what holds."""
    if not math.isfinite(epsilon) or epsilon <= 0:
        return f"{epsilon:g}"
    # the last kept decimal; the small allowance keeps 1.0000000000001 from printing as 1.001
    decimals = 3 - math.floor(math.log10(epsilon))
    return f"{math.ceil(epsilon * 10.0**decimals * (1 - 1e-9)) / 10.0**decimals:.6g}"
