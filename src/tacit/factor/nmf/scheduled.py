r"""Moments of rows that arrive over time, in two running sums with correlated noise: topics every week for one budget.

A row arrives once. Each release asks for the number and the sum of the new rows, and for the second moment of their
distances to a centre over some columns. The centre and the columns are fixed at the first release, from what it released,
so that later sums add up to those of all rows so far (`tacit.privacy.schedules`). The rest is post-processing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.channel import Bound, Outcome, Program, Split, Sum
from tacit.estimators.input import clip_rows
from tacit.estimators.scheduled import ScheduledSums
from tacit.factor.noisy_moments.centred import CAUTION, CentredMoments, shrunk_sums
from tacit.factor.noisy_moments.symmetric import pack, semicircle_edge, unpack

SPLIT = Split(sums=0.15, second=0.85)
"""How the two sums divide the budget: set by hand, as for a single fit by moments."""
COUNT_FRACTION = 0.1
"""Of the first sum's budget, for the number of rows; as for a single fit by moments."""
BLOCK = 2048
"""Rows whose outer products are added at once: a block of 500 columns takes 8 MB."""


def scheduled_moments_program(X: Any, memory: ScheduledSums, *, row_norm: float, max_columns: int) -> Program:
    """One holder's view of one release.

    Parameters
    ----------
    X : array or CSR matrix, not negative
        The rows that are new since the last release.
    memory : ScheduledSums
        With the steps of `SPLIT`.
    row_norm : float
        Rows are clipped to this L2 norm.
    max_columns : int
        At most this many columns enter the second moment.
    """
    rows = clip_rows(X, row_norm)
    units, reach = rows.shape[0], memory.schedule.sensitivity
    terms = memory.terms("sums", {"count": np.array([float(units)]), "total": np.asarray(rows.sum(axis=0)).ravel()})
    first = yield Sum(
        count=terms["count"],
        total=terms["total"],
        bound={"count": reach, "total": Bound(reach * row_norm, change=reach * 2**0.5 * row_norm)},
        fractions={"count": COUNT_FRACTION, "total": 1 - COUNT_FRACTION},
        step=SPLIT["sums"],
        units=units,
    )
    sums, noise = memory.totals("sums", first)
    count = max(float(sums["count"][0]), 1.0)
    mean = np.maximum(sums["total"], 0.0) / count
    cautious = shrunk_sums(sums["total"], noise["total"], non_negative=True, caution=CAUTION) / count
    if not memory.fixed:
        wanted = np.flatnonzero(sums["total"] > noise["total"])
        columns = np.sort(wanted[np.argsort(-sums["total"][wanted], kind="stable")[:max_columns]])
        memory.fixed = {"columns": columns, "centre": mean[columns]}
    columns, centre = memory.fixed["columns"], memory.fixed["centre"]
    if len(columns) < 2:
        columns, vectors = np.zeros(0, np.intp), np.zeros((0, len(mean)))
        return Outcome({"moments": CentredMoments(count, 0.0, mean, cautious, columns, np.zeros(0), vectors, 0.0)})
    outer = np.zeros((len(columns), len(columns)))
    for start in range(0, units, BLOCK):
        chosen = rows[start : start + BLOCK][:, columns]
        away = clip_rows((chosen if isinstance(chosen, np.ndarray) else chosen.toarray()) - centre, row_norm)
        outer += away.T @ away
    second = yield Sum(
        second=memory.terms("second", {"second": pack(outer)})["second"],
        # outer products of vectors of this norm are at most sqrt(2) times its square apart
        bound=Bound(reach * row_norm**2, change=reach * 2**0.5 * row_norm**2),
        step=SPLIT["second"],
        units=units,
    )
    seconds, noise = memory.totals("second", second)
    moved = mean[columns] - centre
    covariance = unpack(seconds["second"], len(columns)) / count - np.outer(moved, moved)
    distance = float(np.sqrt(max(np.trace(covariance), 0.0)))
    edge = semicircle_edge(noise["second"], len(columns)) / count
    values, directions = (found[..., ::-1] for found in np.linalg.eigh(covariance))  # the largest first
    kept = values > edge
    vectors = np.zeros((int(kept.sum()), len(mean)))
    vectors[:, columns] = directions[:, kept].T
    strengths = np.sqrt(np.maximum(values[kept] ** 2 - edge**2, 0.0))
    entry_noise = noise["second"] / 2**0.5 / count
    return Outcome(
        {"moments": CentredMoments(count, distance, mean, cautious, columns, strengths, vectors, entry_noise)}
    )
