"""The guarantee: an immutable value, computed from recorded releases, that prints as plain sentences."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from tacit.errors import InvalidInputError, words
from tacit.privacy.accountant import Accountant
from tacit.privacy.records import (
    OTHER_VERSION,
    checked_record,
    digest_of,
    is_list_of_records,
    is_list_of_texts,
    is_number,
    is_number_or_none,
    is_text,
    numbers_in,
)
from tacit.privacy.releases import ADJACENCIES, UNITS, Release, merge, release_from_dict
from tacit.privacy.rounding import shown_delta, shown_epsilon, shown_factor
from tacit.validation import check_choice, check_delta

PRIVATE = "differential privacy"
NONE = "none"
MEASURED = "measured"
KINDS = (PRIVATE, NONE, MEASURED)

HOLDER_IS_TRUSTED = "Only the data holder, who sees the data, must be trusted"
NOTHING_RELEASED = "nothing was released"

_CHANGE = {
    ("add-remove", "cell"): "adding or removing any one cell",
    ("add-remove", "row"): "adding or removing any one row",
    ("add-remove", "user"): "adding or removing all data of any one user",
    ("add-remove", "site"): "adding or removing all data of any one site",
    ("replace-one", "cell"): "replacing any one cell by any other cell",
    ("replace-one", "row"): "replacing any one row by any other row",
    ("replace-one", "user"): "replacing all data of any one user by any other data",
    ("replace-one", "site"): "replacing all data of any one site by any other data",
}


@dataclass(frozen=True)
class Guarantee:
    """What is guaranteed about a release, for whom, and why.

    Build it with `from_releases`, `none` or `measured`, never by hand: epsilon is always computed. ``print`` shows it as
    sentences in which every number is rounded in the safe direction.

    Attributes
    ----------
    kind : {"differential privacy", "none", "measured"}
    epsilon, delta : float
        Total of everything in `releases`; infinity and 1 when there is no guarantee.
    unit : {"cell", "row", "user", "site"}
        What neighbouring data sets differ in: one of these.
    adjacency : {"add-remove", "replace-one"}
        How they differ: one unit was added or removed, or its data were replaced.
    trust : str
        Who must be trusted with what, as a sentence without its full stop.
    accountant : str
        The method that computed epsilon.
    releases : tuple of Release
        What epsilon was computed from.
    assumptions : tuple of str
        What else must be true, each as a clause that continues "The guarantee assumes that".
    reason : str
        Why there is no guarantee, or what was measured.

    Examples
    --------
    >>> from tacit.privacy import GaussianRelease, Guarantee, gaussian_noise_multiplier
    >>> noise = GaussianRelease(noise_multiplier=gaussian_noise_multiplier(1.0, 1e-6))
    >>> str(Guarantee.from_releases([noise], delta=1e-6)).split(". ")[0]
    'Adding or removing any one row changes the probability of any result by at most a factor of 2.72 (e^1), plus 0.000001'
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
        trust: str = HOLDER_IS_TRUSTED,
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
            accountant=_method(accountant),
            releases=accountant.releases,
            assumptions=tuple(assumptions),
        )

    @classmethod
    def none(cls, reason: str) -> Guarantee:
        """State that there is no guarantee, and why."""
        return cls(kind=NONE, epsilon=math.inf, delta=1.0, reason=reason)

    @classmethod
    def measured(cls, statement: str) -> Guarantee:
        """State what was measured, where nothing is proven."""
        return cls(kind=MEASURED, epsilon=math.inf, delta=1.0, reason=statement)

    def voided(self, reason: str) -> Guarantee:
        """Return "no guarantee" for this reason, with the releases still on record."""
        return replace(self, kind=NONE, epsilon=math.inf, delta=1.0, reason=reason)

    def assuming(self, *assumptions: str) -> Guarantee:
        """Return the same guarantee with more assumptions."""
        return replace(self, assumptions=(*self.assumptions, *assumptions))

    def joined_with(self, earlier: Guarantee, disjoint: str) -> Guarantee:
        """Return the guarantee of a result that holds what two fits released of different units: the weaker one.

        Parameters
        ----------
        earlier : Guarantee
            With the same unit and adjacency, unless it does not hold.
        disjoint : str
            The assumption that no unit is in both, in words.
        """
        if not self.holds:
            return self
        if not earlier.holds:
            return self.voided("it adds up with what an earlier fit released, and that fit had no guarantee")
        delta = max(self.delta, earlier.delta)
        trust = self.trust if self.trust == earlier.trust else f"{self.trust}. For the earlier fit: {earlier.trust}"
        both = [
            Guarantee.from_releases(one.releases, delta=delta, unit=self.unit, adjacency=self.adjacency, trust=trust)
            for one in (self, earlier)
        ]
        assumed = dict.fromkeys((*self.assumptions, *earlier.assumptions, disjoint))
        return max(both, key=lambda one: one.epsilon).assuming(*assumed)

    @property
    def holds(self) -> bool:
        """Whether this is a proven, finite guarantee."""
        return self.kind == PRIVATE and math.isfinite(self.epsilon)

    def __str__(self) -> str:
        if self.kind == NONE:
            return f"This result has no privacy guarantee: {_sentence(self.reason)}"
        if self.kind == MEASURED:
            return f"This is a measurement, not a privacy guarantee: {_sentence(self.reason)}"
        if not self.holds:
            return "This result has no privacy guarantee: the noise is too small for any finite epsilon."
        return " ".join([*self._bound(), _sentence(self.trust), *self._assumed()])

    def _bound(self) -> list[str]:
        change = _CHANGE[self.adjacency, self.unit]
        epsilon, delta = shown_epsilon(self.epsilon), shown_delta(self.delta)
        stated = f"This is differential privacy per {self.unit} with epsilon {epsilon} and delta {delta}."
        if not self.releases:
            return [f"Nothing was released, so {change} changes no result.", stated]
        count = sum(release.count for release in self.releases)
        return [
            f"{change[0].upper()}{change[1:]} changes the probability of any result by at most a factor of "
            f"{shown_factor(self.epsilon)}, plus {delta}.",
            stated,
            f"It was computed from {count} recorded release{'s' if count != 1 else ''} by {self.accountant}.",
        ]

    def _assumed(self) -> list[str]:
        if not self.assumptions:
            return []
        clauses = "; ".join(f"that {assumption.rstrip('.')}" for assumption in self.assumptions)
        return [f"The guarantee assumes {clauses}."]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; an infinite epsilon is None."""
        record = {
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
        }
        return {**record, "digest": digest_of(record), "sentence": str(self)}

    @classmethod
    def from_dict(cls, values: object) -> Guarantee:
        """Rebuild a guarantee from `to_dict`, and refuse a record that does not agree with itself.

        Every field is required and no other is accepted. Epsilon is computed again from the releases and must agree with
        the stated one (`Accountant.agrees` has the tolerance). The digest must be that of the other fields. The sentence,
        which another version may word differently, must state epsilon and delta and no number that is not in the other
        fields. So a record that was cut off, or in which one field was changed, is refused.
        """
        record = checked_record(values, "a guarantee", _FIELDS)
        check_choice(record["kind"], "kind", KINDS)
        check_choice(record["unit"], "unit", UNITS)
        accountant = Accountant(
            check_choice(record["adjacency"], "adjacency", ADJACENCIES),
            merge(release_from_dict(item) for item in record["releases"]),
        )
        stated = math.inf if record["epsilon"] is None else float(record["epsilon"])
        if record["kind"] == PRIVATE:
            delta = check_delta(record["delta"])
            computed = accountant.epsilon(delta)
            fits = record["reason"] == ""
        else:
            delta, computed = 1.0, math.inf
            fits = record["delta"] == 1.0 and record["reason"] != ""
        if not accountant.agrees(stated, computed):
            raise InvalidInputError(
                f"the epsilon that the recorded releases give ({shown_epsilon(computed)})",
                words(f"a record with epsilon {shown_epsilon(stated)}"),
                OTHER_VERSION,
            )
        read = cls(
            kind=record["kind"],
            epsilon=stated,
            delta=delta,
            unit=record["unit"],
            adjacency=record["adjacency"],
            trust=record["trust"],
            accountant=record["accountant"],
            releases=accountant.releases,
            assumptions=tuple(record["assumptions"]),
            reason=record["reason"],
        )
        if not fits or not read._is_stated_by(record["sentence"]):
            raise InvalidInputError(
                "a guarantee whose kind, numbers, reason and sentence agree", words("one that does not"), OTHER_VERSION
            )
        fields = {name: value for name, value in record.items() if name not in ("digest", "sentence")}
        if record["digest"] != digest_of(fields):
            raise InvalidInputError("a guarantee with the digest of its fields", words("another digest"), OTHER_VERSION)
        return replace(read, epsilon=max(stated, computed))

    def _is_stated_by(self, sentence: str) -> bool:
        """Whether a sentence states epsilon and delta, if they are finite, and no numbers but those of this guarantee."""
        texts = " ".join([str(self), self.trust, self.accountant, self.reason, *self.assumptions])
        stated = numbers_in(sentence)
        needed = numbers_in(f"{shown_epsilon(self.epsilon)} {shown_delta(self.delta)}") if self.holds else set()
        return bool(sentence) and needed <= stated <= numbers_in(texts)


_FIELDS = {
    "kind": is_text,
    "epsilon": is_number_or_none,
    "delta": is_number,
    "unit": is_text,
    "adjacency": is_text,
    "trust": is_text,
    "accountant": is_text,
    "releases": is_list_of_records,
    "assumptions": is_list_of_texts,
    "reason": is_text,
    "digest": is_text,
    "sentence": is_text,
}


def _method(accountant: Accountant) -> str:
    return accountant.method if accountant.releases else NOTHING_RELEASED


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."
