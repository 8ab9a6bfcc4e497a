"""How statistics leave a holder: what a program asks for, the channels that answer, and the transcript they keep.

May be imported by all packages except `data` and `privacy`.
"""

from tacit.channel.asks import Bound, Choose, Columnwise, NormedSum, Sample, Sum, Total
from tacit.channel.clear import Clear
from tacit.channel.fixedpoint import Grid
from tacit.channel.noisy import Noisy
from tacit.channel.plan import Plan, Split, Step
from tacit.channel.run import (
    Channel,
    Outcome,
    Program,
    RunOutcome,
    Transcript,
    TranscriptEntry,
    has_one_owner,
    is_alone,
    run,
    run_alone,
    run_together,
)

__all__ = [
    "Bound",
    "Channel",
    "Choose",
    "Clear",
    "Columnwise",
    "Grid",
    "Noisy",
    "NormedSum",
    "Outcome",
    "Plan",
    "Program",
    "RunOutcome",
    "Sample",
    "Split",
    "Step",
    "Sum",
    "Total",
    "Transcript",
    "TranscriptEntry",
    "has_one_owner",
    "is_alone",
    "run",
    "run_alone",
    "run_together",
]
