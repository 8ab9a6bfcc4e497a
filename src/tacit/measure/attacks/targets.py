"""What attacks by distance share: which rows are attacked, and columns in units that can be compared."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tacit.validation import check_count, check_seed


def standardised(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the columns with mean 0 and standard deviation 1; constant ones as zeros.

    An attacker does this to the release and to what is known, each by its own moments, so that translations and changes
    of units protect nothing.
    """
    constant = np.ptp(table, axis=0) == 0
    spread = np.where(constant, 1.0, table.std(axis=0))
    return np.where(constant, 0.0, table - table.mean(axis=0)) / np.where(spread > 0, spread, 1.0)


def chosen_rows(n_rows: int, sample: object, random_state: object) -> NDArray[np.intp]:
    """Return all rows, or a random choice of `sample` of them if there are more.

    By place, with a public seed: an attack is a measurement, which carries no guarantee and stays with the holder.
    """
    seed = check_seed(random_state)
    if sample is None or check_count(sample, "sample", least=2) >= n_rows:
        return np.arange(n_rows)
    count = check_count(sample, "sample", least=2)
    return np.sort(np.random.default_rng(seed).choice(n_rows, count, replace=False))
