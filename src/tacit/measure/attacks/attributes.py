"""Attribute inference: an attacker who knows all values of a person except one guesses it from the nearest released row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.errors import InvalidInputError, words
from tacit.measure.attacks.result import AttackResult, normal_interval
from tacit.measure.attacks.targets import chosen_rows, standardised
from tacit.measure.inputs import table_pair
from tacit.measure.neighbours import Numbers, nearest
from tacit.validation import TableLike, check_positive


@dataclass(frozen=True)
class AttributeInference(AttackResult):
    """The fraction of hidden values that are guessed; baseline: from a release without the person's own row.

    Parameters
    ----------
    best_constant : float
        The fraction that is guessed by the best constant, the same for everyone.
    by_column : dict of str to float
        The fraction guessed in each column.
    """

    best_constant: float
    by_column: dict[str, float]


def attribute_inference(
    original: TableLike,
    released: TableLike,
    *,
    tolerance: float = 0.1,
    sample: int | None = 2_000,
    random_state: int = 0,
) -> AttributeInference:
    """Guess each value of a row from its other values and the release.

    For each column, the attacker knows a person's values in all others, finds the nearest released row in these (all columns
    standardised, each table by its own moments), and guesses the value of that row. A guess is right if it is within
    `tolerance` standard deviations.

    Much can be guessed about anyone from the dependence between columns, even from a table without the person. This is the
    use of data, not a leak of the person's row. So the baseline is the same attack on the release without that row. What
    exceeds it is due to the person's presence.

    Parameters
    ----------
    original, released : array-like or data frame of shape (n_rows, n_columns)
        The table, of at least two columns, and its release.
    tolerance : float
        Largest error of a right guess, in standard deviations of the column.
    sample : int or None
        In larger tables, this many random rows are attacked, each among all released rows; None for all.
    random_state : int
        Seed of that choice.

    Returns
    -------
    AttributeInference
        The mean fraction over all columns, and the same without the person's row.

    Examples
    --------
    >>> generator = np.random.default_rng(0)
    >>> table = generator.normal(size=(300, 4))
    >>> result = attribute_inference(table, table)
    >>> result.recovered, result.baseline < 0.15
    (1.0, True)
    """
    pair = table_pair(original, released, least_rows=4, varying=True)
    reach = check_positive(tolerance, "tolerance")
    n_rows, n_columns = pair.original.shape
    if n_columns < 2:
        raise InvalidInputError("at least two columns", words("one"), "One value is guessed from the others.")
    rows = chosen_rows(n_rows, sample, random_state)
    truth, points = standardised(pair.original), standardised(pair.released)
    hits, hits_without, constant = (np.empty((n_columns, len(rows))) for _ in range(3))
    for column in range(n_columns):
        others = np.arange(n_columns) != column
        neighbours, _ = nearest(points[:, others], truth[np.ix_(rows, others)], 2)
        without = np.where(neighbours[:, 0] == rows, neighbours[:, 1], neighbours[:, 0])
        hidden = truth[rows, column]
        hits[column] = np.abs(points[neighbours[:, 0], column] - hidden) <= reach
        hits_without[column] = np.abs(points[without, column] - hidden) <= reach
        constant[column] = _best_constant(truth[:, column], reach)
    gain = (hits - hits_without).mean(axis=0)
    recovered = float(hits.mean())
    return AttributeInference(
        attack="attribute inference",
        measure=f"fraction of hidden values guessed to {reach:g} standard deviations",
        recovered=recovered,
        baseline=float(hits_without.mean()),
        interval=normal_interval(recovered, float(gain.std(ddof=1) / np.sqrt(len(rows)))),
        n_targets=len(rows),
        best_constant=float(constant.mean()),
        by_column={name: float(guessed) for name, guessed in zip(pair.names, hits.mean(axis=1), strict=True)},
    )


def _best_constant(values: Numbers, reach: float) -> float:
    """Return the largest fraction of the values that are close to one guess."""
    ordered = np.sort(values)
    counts = np.searchsorted(ordered, ordered + 2 * reach, side="right") - np.arange(len(ordered))
    return float(counts.max() / len(ordered))
