"""How statistics leave a holder: what a program asks for, the channels that answer, and the transcript they keep."""

from tacit.channel.asks import Bound, Choose, NormedSum, Sample, Sum, Total
from tacit.channel.clear import Clear
from tacit.channel.fixedpoint import Grid
from tacit.channel.neighbours import NeighbourReport, check_neighbours
from tacit.channel.noisy import Noisy
from tacit.channel.observe import TotalsOnly, observing
from tacit.channel.plan import Plan
from tacit.channel.program import Outcome, Program
from tacit.channel.run import Channel, on_public_data, run, run_together
from tacit.channel.split import Split, Step
from tacit.channel.transcript import Entry, Transcript

__all__ = [
    "Bound",
    "Channel",
    "Choose",
    "Clear",
    "Entry",
    "Grid",
    "NeighbourReport",
    "Noisy",
    "NormedSum",
    "Outcome",
    "Plan",
    "Program",
    "Sample",
    "Split",
    "Step",
    "Sum",
    "Total",
    "TotalsOnly",
    "Transcript",
    "check_neighbours",
    "observing",
    "on_public_data",
    "run",
    "run_together",
]
