"""A fit of data in partitions, on a cluster: the model, what it cost, and nothing that would need all data at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tacit.channel.noisy import FLOAT_UNIT
from tacit.cluster import Progress, run_on
from tacit.cluster.driver import dashboard_of
from tacit.cluster.here import Cluster
from tacit.cluster.run import cluster_of, is_small
from tacit.estimators.base import Estimator
from tacit.report.page import Report
from tacit.report.result import FitResult


@dataclass(frozen=True, eq=False)
class PartitionedFit(FitResult):
    """The result of `fit_partitions`.

    Attributes
    ----------
    model : estimator
    model_name : str
        The name of the model's file.
    rounds, partitions, workers : int
        Totals of the fit, partitions of the data, and workers that had some at the last total.
    seconds : float
        From the start of the cluster to the end of the fit.
    source : dict of str to str
        Where the data is; it is in ``result.json``.
    """

    title = "Fit of data in partitions"

    model: Estimator
    model_name: str
    rounds: int
    partitions: int
    workers: int
    seconds: float
    source: dict[str, str] = field(default_factory=dict)

    @property
    def rounding_reserve(self) -> float | None:
        """How much the noise was enlarged because a partition adds up to `max_units` units in floating point."""
        most = getattr(self.model, "max_units", None)
        return None if most is None or not self.guarantee.holds else float(2 * most**2 * FLOAT_UNIT)

    def values(self) -> dict[str, object]:
        """Return the counts and the time."""
        values = {
            **self.source,
            "totals": self.rounds,
            "partitions": self.partitions,
            "workers": self.workers,
            "seconds": round(self.seconds, 3),
        }
        if self.rounding_reserve is not None:
            values |= {"max_units_of_a_partition": self.model.max_units, "rounding_reserve": self.rounding_reserve}
        return values

    def lines(self) -> list[str]:
        """Return the counts, the time and the reserve."""
        lines = [
            f"{self.rounds} totals of {self.partitions} partitions on {self.workers} workers in {self.seconds:.1f} s"
        ]
        if self.rounding_reserve is not None:
            lines.append(
                f"reserve for rounding in the noise: {self.rounding_reserve:.2%}, for at most {self.model.max_units} units in a "
                "partition (max_units)"
            )
        return lines

    def draw(self, report: Report) -> None:
        """Add the counts."""
        rows = [[name.replace("_", " "), str(value)] for name, value in self.values().items()]
        report.table("Fit", ["what", "value"], rows)


def fit_partitions(
    estimator: Estimator,
    partitions: Any,
    *,
    client: Cluster | str | None = None,
    workers: int | None = None,
    dashboard: bool = False,
    name: str = "model",
    assumptions: tuple[str, ...] = (),
    source: dict[str, str] | None = None,
    progress: Callable[[str], None] | None = None,
    **settings: Any,
) -> PartitionedFit:
    """Fit an estimator to data in partitions, on a cluster.

    Parameters
    ----------
    estimator, partitions
        See `tacit.cluster.run_on`.
    client : distributed.Client or str, optional
        The cluster, or the address of its scheduler; without it, processes are started on this machine.
    workers, dashboard
        How many processes, and whether they have a dashboard.
    name : str, default="model"
        The name of the model's file.
    assumptions : tuple of str
        What must be public for the guarantee to hold.
    source : dict of str to str, optional
        Kept with the result.
    progress : callable, optional
        Called with a line about each total.
    **settings
        Further ones of `run_on`.

    Returns
    -------
    PartitionedFit
    """
    say, seen, begun = progress or (lambda stage: None), list[Progress](), time.perf_counter()

    def on_round(now: Progress) -> None:
        seen.append(now)
        say(str(now))

    small = client is None and workers is None and not dashboard and is_small(partitions)
    with cluster_of(client, workers, dashboard=dashboard, small=small) as cluster:
        address = dashboard_of(cluster) if dashboard or client is not None else None
        ready = "small data: fitted in this process" if small else "cluster ready"
        say(f"{ready}, dashboard {address}" if address else ready)
        model = run_on(cluster, estimator, partitions, on_round=on_round, **settings)
    if assumptions and model.guarantee_.holds:
        model.extend_guarantee(*assumptions)
    last = seen[-1]
    taken = time.perf_counter() - begun
    return PartitionedFit(model, name, last.rounds, last.partitions, last.workers, taken, source or {})
