"""Attribute inference: whoever knows all of a person's values but one reads that one off the most similar released row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.errors import InvalidInputError, words
from tacit.measure.attacks.result import Finding, normal_interval
from tacit.measure.attacks.targets import chosen_rows, standardised
from tacit.measure.inputs import table_pair
from tacit.measure.neighbours import Numbers, nearest
from tacit.validation import check_positive


@dataclass(frozen=True)
class AttributeInference(Finding):
    """The share of hidden values that are guessed; baseline: from a release without the person's own row.

    Parameters
    ----------
    best_constant : float
        The share that someone guesses who says one value for everyone, the best one there is.
    by_column : dict of str to float
        The share guessed in each column.
    """

    best_constant: float
    by_column: dict[str, float]


def attribute_inference(
    original: Any, released: Any, *, tolerance: float = 0.1, sample: int | None = 2_000, random_state: int = 0
) -> AttributeInference:
    """Guess each value of a row from its other values and the release.

    For one column at a time the attacker knows a person's values in all others, looks for the released row nearest in
    these (all columns standardised, each table by its own moments), and says the value that it has. A guess counts
    if it is within `tolerance` standard deviations.

    Much can be guessed of anyone from what columns generally have to do with each other, also from a table in which the
    person is not. That is what data is for, and no leak of the person's row. So the baseline is the same attack on the
    release without that row: what is above it is what the person's presence gave away.

    Parameters
    ----------
    original, released : array-like or data frame of shape (n_rows, n_columns)
        The table, of at least two columns, and its release.
    tolerance : float
        How close a guess must be, in standard deviations of the column.
    sample : int or None
        Of larger tables a random choice of this many rows is attacked, each beside all released rows; None for all.
    random_state : int
        Seed of that choice.

    Returns
    -------
    AttributeInference
        The mean share over all columns, beside the same without the person's row.

    Examples
    --------
    >>> generator = np.random.default_rng(0)
    >>> table = generator.normal(size=(300, 4))
    >>> found = attribute_inference(table, table)
    >>> found.recovered, found.baseline < 0.15
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
        found, _ = nearest(points[:, others], truth[np.ix_(rows, others)], 2)
        without = np.where(found[:, 0] == rows, found[:, 1], found[:, 0])
        hidden = truth[rows, column]
        hits[column] = np.abs(points[found[:, 0], column] - hidden) <= reach
        hits_without[column] = np.abs(points[without, column] - hidden) <= reach
        constant[column] = _best_constant(truth[:, column], reach)
    gain = (hits - hits_without).mean(axis=0)
    recovered = float(hits.mean())
    return AttributeInference(
        attack="attribute inference",
        measure=f"share of hidden values guessed to {reach:g} standard deviations",
        recovered=recovered,
        baseline=float(hits_without.mean()),
        interval=normal_interval(recovered, float(gain.std(ddof=1) / np.sqrt(len(rows)))),
        n_targets=len(rows),
        best_constant=float(constant.mean()),
        by_column={name: float(share) for name, share in zip(pair.names, hits.mean(axis=1), strict=True)},
    )


def _best_constant(values: Numbers, reach: float) -> float:
    """Return the largest share of the values that one guess is close to."""
    ordered = np.sort(values)
    counts = np.searchsorted(ordered, ordered + 2 * reach, side="right") - np.arange(len(ordered))
    return float(counts.max() / len(ordered))
