"""MST or AIM of OpenDP on a table of codes; `bench_synthetic.py` runs this under an interpreter with "opendp[mbi]" and pandas.

    python peer_opendp.py mst table.csv synthetic.csv epsilon delta seed rounds

`rounds` is the number of steps of the inference, or "own" for the setting of mbi (1,000). All else is OpenDP's own setting: half
of the budget for the columns, a model of at most 80 MB, tables of up to three columns. Its noise is Gaussian, of the zCDP budget
that OpenDP's own conversion allows at epsilon and delta; neighbours differ in one row, added or removed. The seed is that of the
draw only: OpenDP's noise has none. It prints the seconds of one core of the fit and of the draw, and on stderr, one line for each
inference, the share of the budget that was spent on measurements so far. The table has integer codes from 0; its first line has
the numbers of codes.
"""

import os
import sys
import time

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
os.environ.setdefault("POLARS_MAX_THREADS", "1")

import numpy as np
import opendp.prelude as dp
import polars as pl
from mbi.estimation import mirror_descent


def rho_of(epsilon: float, delta: float) -> float:
    """Return the largest zCDP budget that OpenDP converts to at most epsilon at delta."""
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
    gaussian = space >> dp.m.then_gaussian(scale=1.0)  # a unit with distance d has rho d**2 / 2
    profile = dp.c.make_zCDP_to_approxDP(gaussian)
    return dp.binary_search(lambda rho: profile.map((2 * rho) ** 0.5).epsilon(delta) <= epsilon, bounds=(1e-6, epsilon))


if __name__ == "__main__":
    method, source, target, epsilon, delta, seed, rounds = sys.argv[1:]
    dp.enable_features("contrib")
    table = pl.read_csv(source)
    sizes = {f"c{place}": int(name.split("_")[0]) for place, name in enumerate(table.columns)}
    table.columns = list(sizes)
    start = time.process_time()
    rho = rho_of(float(epsilon), float(delta))

    def infer(domain, measurements, *, potentials=None):
        """Infer as OpenDP does, and say how far the fit is."""
        spent = sum(0.5 / measurement.stddev**2 for measurement in measurements) / rho
        line = f"{len(measurements)} tables measured, {spent:.0%} of the budget, {time.process_time() - start:.0f} s"
        print(line, file=sys.stderr, flush=True)
        steps = {} if rounds == "own" else {"iters": int(rounds)}
        return mirror_descent(domain, measurements, potentials=potentials, **steps)

    unit, loss = dp.unit_of(contributions=1), dp.loss_of(rho=rho)
    context = dp.Context.compositor(data=table.lazy(), privacy_unit=unit, privacy_loss=loss, split_evenly_over=1)
    # One cell for each code, (-inf, 0], (0, 1] and so on; keys would add a cell for unknown values to each column.
    cuts = {name: list(range(size - 1)) for name, size in sizes.items()}
    algorithm = (dp.mbi.AIM if method == "aim" else dp.mbi.MST)(estimator=infer)
    model = context.query().contingency_table(cuts=cuts, algorithm=algorithm).release()
    np.random.seed(int(seed))  # noqa: NPY002 - mbi draws with the global generator
    drawn = model.synthesize(rows=len(table))
    seconds = time.process_time() - start
    drawn.select(list(sizes)).write_csv(target)
    print(rho, file=sys.stderr)
    print(seconds)
