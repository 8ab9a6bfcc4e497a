"""Perturbed tables: the time of neighbourhood-aware perturbation (NAP) on 19,020 rows.

The tables of the thesis (Thapa 2013) are computed by `tacit reproduce thapa`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import polars as pl
from harness import Part, main
from real_data import data_folder

from tacit.perturb import NeighbourhoodAware


def table(name: str) -> np.ndarray:
    """Return the numeric columns of a data set."""
    return pl.read_csv(data_folder() / "uci" / f"{name}.csv.gz").drop("y").to_numpy().astype(float)


SPEEDS = ({"radius": 0.05}, {"radius": 0.2}, {"target_distortion": 0.1}, {"target_distortion": 0.3})


def speed(forms: Sequence[dict[str, float]] = SPEEDS) -> None:
    A = table("magic04")
    print(f"\nNAP on {len(A):,} rows of {A.shape[1]} columns, in range [0, 1]")
    for settings in forms:
        start = time.perf_counter()
        model = NeighbourhoodAware(random_state=0, **settings).fit(A)
        seconds = time.perf_counter() - start
        print(
            f"{settings}: {seconds:.2f} s, radius {model.level_:.3f}, {model.n_neighbourhoods_:,} neighbourhoods, "
            f"VD {model.distortion_:.4f}, {model.n_unchanged_:,} rows as they were"
        )


PARTS = {"speed": Part(speed, quick={"forms": SPEEDS[:1]})}

if __name__ == "__main__":
    main(__doc__, PARTS)
