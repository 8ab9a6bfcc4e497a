"""How statistics leave a holder: what a program asks for, the channels that answer, and the transcript they keep."""

from tacit.channel.asks import Bound, Choose, NormedSum, Sample, Sum, Total
from tacit.channel.clear import Clear
from tacit.channel.fixedpoint import Grid
from tacit.channel.noisy import Noisy
from tacit.channel.plan import Plan
from tacit.channel.run import Channel, Outcome, Program, on_public_data, run, run_together
from tacit.channel.split import Split, Step
from tacit.channel.transcript import Transcript, TranscriptEntry

__all__ = [
    "Bound",
    "Channel",
    "Choose",
    "Clear",
    "Grid",
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
    "Transcript",
    "TranscriptEntry",
    "on_public_data",
    "run",
    "run_together",
]
