"""One party's part in a model that several organisations fitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tacit.report.figures import bars, curves
from tacit.report.page import Report
from tacit.report.result import FitResult


@dataclass(frozen=True, eq=False)
class PartyResult(FitResult):
    """What one party has after a joint fit.

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
    guarantee : Guarantee
    """

    model: Any
    party: str
    parties: Sequence[str]
    job: dict[str, Any]
    n_records: int
    traffic: dict[str, Any]
    title: str
    model_name: str

    def values(self) -> dict[str, Any]:
        """Return job, records and traffic as plain values."""
        return {
            "job": self.job,
            "party": self.party,
            "parties": list(self.parties),
            "records": self.n_records,
            "traffic": self.traffic,
        }

    def lines(self) -> list[str]:
        """Return the traffic."""
        return [f"{self.traffic['rounds']} rounds, {self.traffic['sent']:,} bytes sent."]

    def draw(self, report: Report) -> None:
        """Add traffic, time, learning curve and job."""
        traffic = self.traffic
        report.text("Parties", f"One model, fitted by {', '.join(self.parties)}.")
        report.table(
            "Traffic",
            ["measure", "value"],
            [
                ["rounds", str(traffic["rounds"])],
                ["bytes sent", f"{traffic['sent']:,}"],
                ["bytes received", f"{traffic['received']:,}"],
                ["seconds until all had come", f"{traffic['connecting']:.2f}"],
                ["seconds computing", f"{traffic['computing']:.2f}"],
                ["seconds waiting for others", f"{traffic['waiting']:.2f}"],
            ],
        )
        seconds = {"seconds": [traffic["computing"], traffic["waiting"]]}
        figure = bars(["computing", "waiting"], seconds, value_name="seconds")
        report.figure("Time", figure, "Where this party's time went.")
        if hasattr(self.model, "loss_curve_"):
            figure = curves({"all parties": list(self.model.loss_curve_)}, step_name="sweep", value_name="objective")
            report.figure("Learning curve", figure, "The objective over all parties' records, from totals.")
        report.table("Job", ["entry", "value"], [["digest", self.job["digest"]], ["model", self.job["model"]]])
