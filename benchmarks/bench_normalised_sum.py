"""Seconds of one normalised sum among processes on this machine, compared with MPyC's fixed point and the paper.

Run it as a script. Ways to divide a sum of secret vectors by its norm:

- tacit: `NormalisedSummer`, 61-bit terms, the direction to 2**-37, norms hidden also from common divisors, from fewer than half
  of the parties (from all but one: `tacit reproduce tsikhanovich table-3`);
- plain MPyC: `SecFxp(64, 32)` arrays over MPyC's own sockets, its secure square root, one division, one product;
- the paper's: Table 3 of Tsikhanovich et al. (2019), SPDZ, without its offline phase, on their machines.

Every time is the fastest of several calls on an established connection. CPU time is that of one party; on a shared
machine it is more reliable than wall time.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from harness import Part, Quoted, main

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "channel" / "directions"))
from local_wires import run_parties

PAPER = Quoted(
    "Table 3 of Tsikhanovich et al. (2019), SPDZ without its offline phase, on the authors' machines",
    {
        **{(2, 100): 1.4, (2, 1000): 11.5, (2, 10_000): 113.9},
        **{(3, 100): 2.1, (3, 1000): 17.4, (3, 10_000): 168.1},
        **{(4, 100): 3.5, (4, 1000): 29.3, (4, 10_000): 293.0},
        **{(5, 100): 4.6, (5, 1000): 40.3, (5, 10_000): 403.9},
    },
)
SIZES = ((100, 1), (1000, 1), (10_000, 1), (1000, 20))
ROUNDS = 3


def fastest(call: Any) -> tuple[float, float]:
    """Return the least wall time and the least CPU time."""
    clock, processor = [], []
    for _ in range(ROUNDS):
        began = time.perf_counter(), time.process_time()
        call()
        clock.append(time.perf_counter() - began[0])
        processor.append(time.process_time() - began[1])
    return min(clock), min(processor)


def tacit_party(wire: Any, rows: int, columns: int) -> tuple[float, float, int]:
    from tacit.channel.directions.summer import NormalisedSummer

    term = np.random.default_rng(wire.index).integers(-(2**56), 2**56, (rows, columns))
    with NormalisedSummer(wire, timeout=600) as directions:
        directions(term)
        before = directions.bytes_sent
        seconds = fastest(lambda: directions(term))
        return *seconds, (directions.bytes_sent - before) // ROUNDS


def plain_party(rows: int) -> None:
    """Run one party of plain MPyC; its options follow this script's own on the command line."""
    from mpyc.runtime import mpc
    from mpyc.statistics import _fsqrt

    fixed = mpc.SecFxp(64, 32)
    term = np.random.default_rng(mpc.pid).normal(size=rows)

    async def direction() -> Any:
        total = sum(mpc.input(fixed.array(term)))
        inverse = 1 / _fsqrt(total @ total)
        return await mpc.output(total * inverse)

    mpc.run(mpc.start())
    unit_vector = mpc.run(direction())
    clock, processor = fastest(lambda: mpc.run(direction()))
    mpc.run(mpc.shutdown())
    if mpc.pid == 0:
        print(clock, processor, abs(np.linalg.norm(unit_vector) - 1) < 1e-4)


def plain(parties: int, rows: int) -> tuple[float, float]:
    command = [sys.executable, __file__, "plain", str(rows), f"-M{parties}", "--no-log"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    if printed[-1] != "True":
        raise RuntimeError(f"plain MPyC did not find a vector of length one: {printed}")
    return float(printed[0]), float(printed[1])


def sums(parties: Sequence[int] = (3, 5), sizes: Sequence[tuple[int, int]] = SIZES) -> None:
    heads = (
        "parties",
        "rows",
        "columns",
        "tacit s",
        "CPU s",
        "MB sent",
        "plain s",
        "CPU s",
        "ratio",
        "CPU ratio",
        "paper s*",
    )
    print(" ".join(f"{head:>9}" for head in heads))
    for count in parties:
        for rows, columns in sizes:
            results = run_parties(tacit_party, count, rows, columns)
            clock, processor, sent = results[0]
            line = f"{count:>9} {rows:>9} {columns:>9} {clock:>9.2f} {processor:>9.2f} {sent / 1e6:>9.2f}"
            if columns == 1:
                theirs = plain(count, rows)
                line += f" {theirs[0]:>9.2f} {theirs[1]:>9.2f} {theirs[0] / clock:>9.1f} {theirs[1] / processor:>9.1f}"
                line += f" {PAPER[count, rows]:>9.1f}"
            print(line, flush=True)


PARTS = {
    "sums": Part(sums, quick={"parties": (3,), "sizes": ((100, 1),)}, quoted=(PAPER,)),
}

if __name__ == "__main__":
    if "plain" in sys.argv[1:]:
        plain_party(int(sys.argv[2]))  # MPyC reads its own options from the command line
    else:
        main(__doc__, PARTS)
