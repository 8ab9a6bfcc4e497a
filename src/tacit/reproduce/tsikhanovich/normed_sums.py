"""Table 3: seconds of one normalised sum among parties."""

from __future__ import annotations

import time

import numpy as np

from tacit.channel import Clear, NormedSum, Outcome, Program
from tacit.channel import run as run_program
from tacit.parties import run_local
from tacit.reproduce.catalogue import ItemRun, item
from tacit.reproduce.outcome import ItemOutcome, Row, SideBySide
from tacit.validation import TableLike

PAPER = {
    **{(2, 100): 1.4, (2, 1000): 11.5, (2, 10_000): 113.9},
    **{(3, 100): 2.1, (3, 1000): 17.4, (3, 10_000): 168.1},
    **{(4, 100): 3.5, (4, 1000): 29.3, (4, 10_000): 293.0},
    **{(5, 100): 4.6, (5, 1000): 40.3, (5, 10_000): 403.9},
}
"""Table 3, page 31: seconds by M and d, SPDZ without its offline phase."""


class Directions:
    """Ask for the direction of a total several times, and keep the seconds of each."""

    def __init__(self, repeats: int) -> None:
        self.repeats = repeats

    def fit(self, X: TableLike, y: object = None) -> Directions:
        """Run the sums; the first connects and is not counted."""
        self.guarantee_ = None
        run_program(self._program(X), Clear())
        return self

    def _program(self, X: TableLike) -> Program:
        self.seconds_: list[float] = []
        term = np.asarray(X, dtype=np.float64)[:1].T
        for _ in range(self.repeats + 1):
            began = time.perf_counter()
            yield NormedSum(x=term)
            self.seconds_.append(time.perf_counter() - began)
        return Outcome({})


@item(
    paper="tsikhanovich",
    name="table-3",
    title="seconds of one normalised secure sum",
    page=31,
    minutes=6,
    code=("tacit.channel.directions.summer.NormalisedSummer", "tacit.channel.NormedSum", "tacit.parties.run_local"),
)
def table_3(run: ItemRun) -> ItemOutcome:
    """M parties on this machine, each a process; all but one may collude, as in the paper."""
    rows = []
    for parties, size in run.each(run.pick(list(PAPER), [(2, 100)])):
        draw = np.random.default_rng(parties)
        parts = [draw.normal(size=(2, size)) for _ in range(parties)]
        models = run_local(Directions(run.repetitions), parts, colluding=parties - 1)
        seconds = models[0].seconds_[1:]
        remark = (
            "Preparation included, which the paper leaves out; other machines, so only the order of magnitude counts."
        )
        rows.append(Row((str(parties), f"{size:,}"), PAPER[parties, size], tuple(seconds), "lower", remark, decimals=2))
    caption = "Seconds of one normalised sum, hidden from all but one"
    return ItemOutcome((SideBySide(caption, ("M", "d"), tuple(rows)),))
