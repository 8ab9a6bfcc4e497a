"""Shared by attacks that use distances: the choice of rows to attack, and standardised columns."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tacit.validation import check_count, check_seed


def standardised(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the columns with mean 0 and standard deviation 1; constant ones as zeros.

    An attacker does this with the release and with the known values, each by its own moments, so translations and changes of
    units do not protect.
    """
    constant = np.ptp(table, axis=0) == 0
    spread = np.where(constant, 1.0, table.std(axis=0))
    return np.where(constant, 0.0, table - table.mean(axis=0)) / np.where(spread > 0, spread, 1.0)


def chosen_rows(n_rows: int, sample: object, random_state: object) -> NDArray[np.intp]:
    """Return all rows, or `sample` random ones if there are more.

    The choice uses a public seed: an attack is a measurement, which has no guarantee and stays with the holder.
    """
    seed = check_seed(random_state)
    if sample is None or check_count(sample, "sample", least=2) >= n_rows:
        return np.arange(n_rows)
    count = check_count(sample, "sample", least=2)
    return np.sort(np.random.default_rng(seed).choice(n_rows, count, replace=False))
