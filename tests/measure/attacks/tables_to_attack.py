"""Tables whose columns depend on each other, and releases of known recoverability."""

import numpy as np
from scipy.stats import ortho_group


def correlated(seed=0, n_rows=600, n_columns=8, n_factors=2, own=0.1):
    """Rows that a few factors explain, except for a little noise in each column."""
    generator = np.random.default_rng(seed)
    factors = generator.normal(size=(n_rows, n_factors)) @ generator.normal(size=(n_factors, n_columns))
    return 5 + factors + own * generator.normal(size=factors.shape)


def independent_copy(seed=0, **shape):
    """A table from the same distribution, independent of the first: the same factor weights, other rows."""
    table = correlated(seed, **{**shape, "n_rows": 2 * shape.get("n_rows", 600)})
    return table[: len(table) // 2], table[len(table) // 2 :]


def rotated(table, seed=0):
    return table @ ortho_group.rvs(table.shape[1], random_state=seed)


def truncated(table, rank):
    left, sizes, right = np.linalg.svd(table, full_matrices=False)
    return (left[:, :rank] * sizes[:rank]) @ right[:rank]
