"""Known-sample regression: an attacker who knows some rows learns from them how to undo the release of all others."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.errors import InvalidInputError, words
from tacit.measure.attacks.result import Reconstruction, reconstruction
from tacit.measure.attacks.targets import standardised
from tacit.measure.inputs import table_pair
from tacit.validation import check_count, check_seed

_PENALTIES = np.logspace(-10, 4, 29)


def known_sample_regression(
    original: Any, released: Any, *, n_known: int | None = None, random_state: int = 0
) -> Reconstruction:
    """Learn from a few known rows a linear map from released to original values, and apply it to all other rows.

    The attacker knows the original values of `n_known` random rows and which released rows are theirs, as anyone does
    whose own data, or whose friends' data, is in the table. The map is a ridge regression whose penalty, one for each
    column, is chosen by leaving one known row out at a time. A rotation, or any other invertible linear map of the
    columns, is undone by two rows more than there are columns: one for the means, one to see that the map holds.

    Parameters
    ----------
    original, released : array-like or data frame of shape (n_rows, n_columns)
        The table and its release.
    n_known : int, optional
        Number of known rows; three times the number of columns plus ten, or half the rows, if not given.
    random_state : int
        Seed of their choice.

    Returns
    -------
    Reconstruction
        The share of the variance of the other rows that is recovered, beside that of an attacker who says the means of
        the known rows.

    References
    ----------
    K. Liu, C. Giannella and H. Kargupta (2006). An attacker's view of distance preserving maps for privacy preserving data
    mining. PKDD.

    Examples
    --------
    >>> generator = np.random.default_rng(0)
    >>> table = generator.normal(size=(200, 2))
    >>> found = known_sample_regression(table, table @ [[0.6, 0.8], [-0.8, 0.6]], n_known=5)
    >>> round(found.recovered, 6), found.n_targets
    (1.0, 195)
    """
    from sklearn.linear_model import RidgeCV

    pair = table_pair(original, released, least_rows=6, varying=True)
    n_rows, n_columns = pair.original.shape
    count = min(3 * n_columns + 10, n_rows // 2) if n_known is None else check_count(n_known, "n_known", least=3)
    if count > n_rows - 2:
        raise InvalidInputError(
            f"n_known to leave at least two of the {n_rows} rows to attack", words(f"{count}"), "Let fewer be known."
        )
    is_known = np.zeros(n_rows, dtype=bool)
    is_known[np.random.default_rng(check_seed(random_state)).choice(n_rows, count, replace=False)] = True
    truth, clues = pair.original, standardised(pair.released)
    guess = truth[is_known].mean(axis=0)
    scale = truth[is_known].std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    model = RidgeCV(alphas=_PENALTIES, alpha_per_target=n_columns > 1)
    answers = (truth[is_known] - guess) / scale
    model.fit(clues[is_known], answers if n_columns > 1 else answers[:, 0])
    predicted = model.predict(clues[~is_known]).reshape(-1, n_columns)
    estimate = guess + predicted * scale
    others = ~is_known
    return reconstruction(
        f"regression from {count} known rows", truth[others], pair.released[others], estimate, guess=guess
    )
