"""The result of one party in a joint fit of several organisations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tacit.estimators.base import Estimator
from tacit.report.figures import bars, curves
from tacit.report.page import Report
from tacit.report.result import FitResult


@dataclass(frozen=True, eq=False)
class PartyResult(FitResult):
    """The result of one party in a joint fit.

    Attributes
    ----------
    model : estimator
    party : str
    parties : sequence of str
        All parties, this one included.
    job : dict
        Its name, digest, model and settings.
    n_records : int
        Records of this party.
    traffic : dict
        Rounds, bytes and seconds.
    payoff : dict or None
        Own and joint error on this party's held-out records, the gain and its interval.
    payoff_text : str
        The same in words, or why it was not measured.
    left : mapping of str to int
        Parties that left for good, and the first round without their records.
    guarantee : Guarantee
    """

    model: Estimator
    party: str
    parties: Sequence[str]
    job: dict[str, Any]
    n_records: int
    traffic: dict[str, Any]
    title: str
    model_name: str
    payoff: dict[str, Any] | None = None
    payoff_text: str = ""
    left: Mapping[str, int] = field(default_factory=dict)

    def values(self) -> dict[str, object]:
        """Return job, records and traffic as plain values."""
        return {
            "job": self.job,
            "party": self.party,
            "parties": list(self.parties),
            "records": self.n_records,
            "traffic": self.traffic,
            "payoff": self.payoff,
            "left": dict(self.left),
        }

    def lines(self) -> list[str]:
        """Return whether joining paid off, and the traffic."""
        traffic = f"{self.traffic['rounds']} rounds, {self.traffic['sent']:,} bytes sent."
        missing = [
            f"From round {number} on without the records of {name}, which left." for name, number in self.left.items()
        ]
        return [*missing, *([self.payoff_text] if self.payoff_text else []), traffic]

    def draw(self, report: Report) -> None:
        """Add the payoff, traffic, time, learning curve and job."""
        traffic = self.traffic
        left = "".join(
            f" From round {number} on the records of {name}, which left, are missing."
            for name, number in self.left.items()
        )
        report.facts = {"records of this party": f"{self.n_records:,}", **report.facts}
        report.text("Parties", f"One model, fitted by {', '.join(self.parties)}.{left}")
        if self.payoff_text:
            report.text("Did joining pay off?", f"{self.payoff_text} These figures stay with this party.")
        if self.payoff is not None:
            errors = {"mean squared error": [self.payoff["own"], self.payoff["joint"]]}
            figure = bars(["own model", "joint model"], errors, value_name="mean squared error")
            report.figure("Own and joint error", figure, "On this party's own held-out records.")
        report.table(
            "Traffic",
            ["measure", "value"],
            [
                ["rounds", str(traffic["rounds"])],
                ["bytes sent", f"{traffic['sent']:,}"],
                ["bytes received", f"{traffic['received']:,}"],
                ["seconds until all were connected", f"{traffic['connecting']:.2f}"],
                ["seconds computing", f"{traffic['computing']:.2f}"],
                ["seconds waiting for others", f"{traffic['waiting']:.2f}"],
            ],
        )
        seconds = {"seconds": [traffic["computing"], traffic["waiting"]]}
        figure = bars(["computing", "waiting"], seconds, value_name="seconds")
        report.figure("Time", figure, "How this party spent its time.")
        if hasattr(self.model, "loss_curve_"):
            figure = curves({"all parties": list(self.model.loss_curve_)}, step_name="sweep", value_name="objective")
            report.figure("Learning curve", figure, "The objective over all parties' records, from totals.")
        report.table("Job", ["entry", "value"], [["digest", self.job["digest"]], ["model", self.job["model"]]])
