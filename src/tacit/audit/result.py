"""The result of an audit: lower bounds beside the claim, in words, as a page, and as a certificate."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.audit.certificate import FOR_THE_HOLDER, FORMAT, MADE_UP, MAY_BE_PUBLISHED, PRIVATE, Certificate, finite
from tacit.audit.findings import Finding, rounded_down
from tacit.privacy.ledger import Ledger
from tacit.report.page import Report
from tacit.report.result import ResultFolder, Shown, facts_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLAIM, BOUND, WRONG = "#6b7280", "#1f6f8b", "#b5651d"
NOT_PRIVATE = (
    "This does not show that the model is private: it shows what these attacks, with this number of runs, can tell. Only a "
    "guarantee bounds all attackers."
)


@dataclass(frozen=True)
class Caught:
    """A planted bug, and the attacks of this audit that noticed it."""

    kind: str
    name: str
    by: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Audit(Shown):
    """What attackers can tell, beside what is claimed.

    Attributes
    ----------
    model : str
        The name of the estimator's class.
    settings : mapping
        Its public parameters.
    fingerprint : str
        Hash of the model, its parameters and its plan; not of the data.
    epsilon, delta : float
        What is claimed.
    unit, adjacency : str
    level : float
        Probability that any statement of the audit is wrong, all tests together.
    findings : tuple of Finding
    bugs : tuple of Caught
    made_up : bool
        Whether the data are made up, so that the result may be published.
    seconds : float
        How long it took.
    """

    model: str
    settings: Mapping[str, object]
    fingerprint: str
    epsilon: float
    delta: float
    unit: str
    adjacency: str
    level: float
    findings: tuple[Finding, ...]
    bugs: tuple[Caught, ...] = ()
    made_up: bool = False
    seconds: float = field(default=0.0, compare=False)

    @property
    def lower_bound(self) -> float:
        """The largest lower bound on epsilon that an attack reached."""
        return max((one.epsilon for one in self.findings if one.epsilon is not None), default=0.0)

    @property
    def violations(self) -> tuple[Finding, ...]:
        """The findings that contradict the claim."""
        return tuple(one for one in self.findings if one.violation)

    @property
    def verdict(self) -> str:
        """The result in a few sentences."""
        shown = f"The attacks show an epsilon of at least {rounded_down(self.lower_bound)} at delta {self.delta:g}"
        if math.isinf(self.epsilon):
            return f"No guarantee is claimed. {shown}. {self._violated()}".strip()
        claim = f"The claim is epsilon {self.epsilon:.4g}."
        if self.violations:
            return f"The claim is disproved. {claim} {shown}. {self._violated()}"
        return f"{claim} {shown}, and nothing that contradicts the claim. {NOT_PRIVATE}"

    def _violated(self) -> str:
        return " ".join(f"{one.method.capitalize()}: {one.violation}." for one in self.violations)

    def to_dict(self) -> dict[str, Any]:
        """Return all values, for JSON."""
        return {
            "verdict": self.verdict,
            "model": self.model,
            "settings": dict(self.settings),
            "fingerprint": self.fingerprint,
            "claimed": {
                "epsilon": finite(self.epsilon),
                "delta": self.delta,
                "unit": self.unit,
                "adjacency": self.adjacency,
            },
            "lower_bound": self.lower_bound,
            "level": self.level,
            "disproved": bool(self.violations),
            "findings": [one.to_dict() for one in self.findings],
            "bugs": [{"kind": bug.kind, "name": bug.name, "caught_by": list(bug.by)} for bug in self.bugs],
            "data": MADE_UP if self.made_up else PRIVATE,
            "publication": MAY_BE_PUBLISHED if self.made_up else FOR_THE_HOLDER,
        }

    @cached_property
    def certificate(self) -> Certificate:
        """What can be filed: the settings, the claim, the bounds and the bugs, with the version of the code."""
        from tacit import __version__

        values = self.to_dict()
        for finding in values["findings"]:
            finding.pop("curve", None)
        return Certificate({"format": FORMAT, "tacit": __version__, **values})

    @cached_property
    def summary(self) -> dict[str, Any]:
        """All values with the certificate's digest and the time that the audit took."""
        return {**self.to_dict(), "certificate": self.certificate.digest, "seconds": round(self.seconds, 1)}

    @cached_property
    def report(self) -> Report:
        """The page."""
        report = Report(f"Audit of {self.model}", MAY_BE_PUBLISHED if self.made_up else FOR_THE_HOLDER)
        given = {name: value for name, value in self.settings.items() if isinstance(value, bool | int | float | str)}
        report.facts = facts_of(given)
        report.text("Verdict", self.verdict)
        report.figure(
            "Claim and lower bounds",
            self.figure(),
            "The line is the claimed epsilon. A bar is what an attack shows; one beyond the line disproves the claim.",
        )
        rows = [
            [
                one.method,
                one.target,
                "-" if one.epsilon is None else rounded_down(one.epsilon),
                f"{one.confidence:.4g}",
                one.violation or "-",
                one.remark,
            ]
            for one in self.findings
        ]
        report.table("Attacks", ["attack", "on", "epsilon, at least", "confidence", "contradicts the claim", ""], rows)
        if any(one.curve for one in self.findings):
            report.figure(
                "ROC curves", self.curves(), "How often a present unit is recognised, by the rate of false alarms."
            )
        for one in self.findings:
            if one.figures:
                measured = [[name, f"{value:.4g}"] for name, value in one.figures.items()]
                report.table(f"{one.method.capitalize()}: {one.target}", ["measure", "value"], measured)
        if self.bugs:
            rows = [[bug.kind, bug.name, ", ".join(bug.by) or "not caught"] for bug in self.bugs]
            report.table(
                "Planted bugs", ["kind", "bug", "caught by"], rows, "Each was planted in this model, and audited again."
            )
        rows = [[name, str(value)] for name, value in self.settings.items()]
        report.table("Settings", ["parameter", "value"], [*rows, ["fingerprint of the plan", self.fingerprint]])
        report.text("Certificate", f"Its digest is {self.certificate.digest}.")
        return report

    def figure(self) -> Figure:
        """Draw the lower bounds beside the claim."""
        from matplotlib.figure import Figure

        shown = [one for one in self.findings if one.epsilon is not None]
        figure = Figure(figsize=(6.4, 0.8 + 0.5 * max(len(shown), 1)))
        axis = figure.subplots()
        for place, one in enumerate(reversed(shown)):
            axis.barh(place, one.epsilon or 0.0, color=WRONG if one.violation else BOUND, height=0.6)
        axis.set_yticks(range(len(shown)), [one.method for one in reversed(shown)])
        if math.isfinite(self.epsilon):
            axis.axvline(self.epsilon, color=CLAIM, linestyle="--")
            axis.text(self.epsilon, len(shown) - 0.45, "claimed", color=CLAIM, ha="center", va="bottom", fontsize=8)
        axis.set_xlabel(f"epsilon at delta {self.delta:g}, at least")
        axis.set_xlim(left=0)
        axis.spines[["top", "right"]].set_visible(False)
        return figure

    def curves(self) -> Figure:
        """Draw the ROC curves with logarithmic axes, which show low rates of false alarms."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(5.2, 4.2))
        axis = figure.subplots()
        least = 1.0
        for one in self.findings:
            if one.curve:
                points = sorted(point for point in one.curve if point[0] > 0)
                axis.plot([point[0] for point in points], [max(point[1], 1e-4) for point in points], label=one.method)
                least = min(least, points[0][0])
        axis.plot([least, 1], [least, 1], color=CLAIM, linestyle="--", label="a guess")
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xlabel("false-positive rate")
        axis.set_ylabel("true-positive rate")
        axis.legend(frameon=False, fontsize=8)
        axis.spines[["top", "right"]].set_visible(False)
        return figure

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write certificate.json, result.json and report.html into a folder."""
        with ResultFolder(folder, overwrite=overwrite, model=False):
            self.write(folder)

    def write(self, folder: str | os.PathLike[str]) -> None:
        """Write all files into a folder that was checked before."""
        super().write(folder)
        (Path(folder) / "certificate.json").write_text(self.certificate.to_json(), encoding="utf-8")

    def chain(self, ledger: Ledger, dataset: str) -> None:
        """Add the certificate's digest to a data set's account. It costs nothing, because it stays with the holder."""
        ledger.note_audit(dataset, self.certificate.digest)
