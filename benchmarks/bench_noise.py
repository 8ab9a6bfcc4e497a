"""Draws per second of tacit's integer noise and of OpenDP's, on one core, in the same run.

Run it as a script, on Linux, where a process can be bound to one core. Compilation is excluded, drawing the random bits
is included, and each rate is the best of several rounds, which other work on the machine affects least.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from harness import Part, main, peer

from tacit.privacy.noise import discrete_gaussian, discrete_laplace

WIDTHS = {"1": 1.0, "1000": 1000.0, "2^30": 2.0**30}
TACIT_DRAWS = 2_000_000
OPENDP_DRAWS = 50_000
ROUNDS = 3


def rate(draw: Callable[[], object], draws: int, rounds: int) -> float:
    """Return the draws per second of the fastest of the rounds."""
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        draw()
        seconds.append(time.perf_counter() - start)
    return draws / min(seconds)


def noise(draws: int = TACIT_DRAWS, opendp_draws: int = OPENDP_DRAWS, rounds: int = ROUNDS) -> None:
    dp = peer("opendp.prelude", "opendp")
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # tacit would use all
    dp.enable_features("contrib")
    vectors = dp.vector_domain(dp.atom_domain(T="i64"))
    zeros = [0] * opendp_draws
    laws = {
        "discrete Gaussian": (discrete_gaussian, dp.m.make_gaussian, dp.l2_distance(T="i64")),
        "discrete Laplace": (discrete_laplace, dp.m.make_laplace, dp.l1_distance(T="i64")),
    }
    discrete_gaussian(1.0, 1)  # compiles, or loads what an earlier run compiled
    print(f"{'law':<18} {'width':>6} {'tacit, draws/s':>16} {'OpenDP, draws/s':>16} {'ratio':>7}")
    for law, (ours, make_theirs, metric) in laws.items():
        for label, width in WIDTHS.items():
            theirs = make_theirs(vectors, metric, scale=width)
            tacit_rate = rate(lambda ours=ours, width=width: ours(width, draws), draws, rounds)
            opendp_rate = rate(lambda theirs=theirs: theirs(zeros), opendp_draws, rounds)
            print(f"{law:<18} {label:>6} {tacit_rate:>16,.0f} {opendp_rate:>16,.0f} {tacit_rate / opendp_rate:>7.0f}")


PARTS = {"noise": Part(noise, quick={"draws": 20_000, "opendp_draws": 1000, "rounds": 1})}

if __name__ == "__main__":
    main(__doc__, PARTS)
