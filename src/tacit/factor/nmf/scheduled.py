r"""Moments of rows that arrive over time, in two running sums with correlated noise: topics every week for one budget.

A row arrives once. Each release asks for the number and the sum of the new rows, and for the second moment of their
distances to a centre over some columns. The centre and the columns are fixed once, from what was released, so that later
sums add up to those of all rows so far (`tacit.privacy.schedules`). The first of many releases may be too early for that: its
rows are then kept, and their second moments asked for together with those of the release that chooses. The noise of each is
as planned, and so is what a row can move. The rest is post-processing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from tacit.channel import Bound, Outcome, Program, Split, Sum
from tacit.estimators.input import Rows, clip_rows
from tacit.estimators.scheduled import ScheduledSums
from tacit.factor.noisy_moments.centred import CAUTION, CentredMoments, shrunk_sums
from tacit.factor.noisy_moments.symmetric import pack, semicircle_edge, unpack

SPLIT = Split(sums=0.15, second=0.85)
"""How the two sums divide the budget: set by hand, as for a single fit by moments."""
COUNT_FRACTION = 0.1
"""Of the first sum's budget, for the number of rows; as for a single fit by moments."""
LATEST_CHOICE = 0.25
"""Columns are chosen after this part of the releases at the latest, if noise leaves any; before that there is a mean."""
NOISE_PART = 0.1
"""And before, if noise makes up at most this part of the squared sums. Set by hand."""
BLOCK = 2048
"""Rows whose outer products are added at once: a block of 500 columns takes 8 MB."""


def scheduled_moments_program(X: Rows, memory: ScheduledSums, *, row_norm: float, max_columns: int) -> Program:
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
    units, reach = rows.shape[0], memory.reach
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
    if not memory.fixed and _may_choose(sums["total"], noise["total"], memory):
        wanted = np.flatnonzero(sums["total"] > noise["total"])
        columns = np.sort(wanted[np.argsort(-sums["total"][wanted], kind="stable")[:max_columns]])
        if len(columns) > 1:
            memory.fixed = {"columns": columns, "centre": mean[columns]}
    if not memory.fixed:
        memory.kept.append(_as_arrays(rows))
        columns, vectors = np.zeros(0, np.intp), np.zeros((0, len(mean)))
        return Outcome({"moments": CentredMoments(count, 0.0, mean, cautious, columns, np.zeros(0), vectors, 0.0)})
    columns, centre = memory.fixed["columns"], memory.fixed["centre"]
    releases = [*(_as_rows(one, len(mean)) for one in memory.kept), rows]
    terms_of_releases = [
        memory.terms("second", {"second": pack(_outer(one, columns, centre, row_norm))})["second"] for one in releases
    ]
    memory.kept = []
    second = yield Sum(
        second=np.concatenate(terms_of_releases),
        # outer products of vectors of this norm are at most sqrt(2) times its square apart
        bound=Bound(reach * row_norm**2, change=reach * 2**0.5 * row_norm**2),
        step=SPLIT["second"],
        units=max(one.shape[0] for one in releases),  # each release's term is added up by itself
    )
    seconds, noise = memory.totals("second", second)
    moved = mean[columns] - centre
    covariance = unpack(seconds["second"], len(columns)) / count - np.outer(moved, moved)
    distance = float(np.sqrt(max(np.trace(covariance), 0.0)))
    edge = semicircle_edge(noise["second"], len(columns)) / count
    values, directions = (ascending[..., ::-1] for ascending in np.linalg.eigh(covariance))  # the largest first
    kept = values > edge
    vectors = np.zeros((int(kept.sum()), len(mean)))
    vectors[:, columns] = directions[:, kept].T
    strengths = np.sqrt(np.maximum(values[kept] ** 2 - edge**2, 0.0))
    entry_noise = noise["second"] / 2**0.5 / count
    return Outcome(
        {"moments": CentredMoments(count, distance, mean, cautious, columns, strengths, vectors, entry_noise)}
    )


def _may_choose(total: NDArray[np.float64], noise: float, memory: ScheduledSums) -> bool:
    """Return whether columns can be chosen: little of the sums is noise, or `LATEST_CHOICE` of the releases are made."""
    little = len(total) * noise**2 <= NOISE_PART * float((total**2).sum())
    return little or memory.released >= LATEST_CHOICE * memory.schedule.releases


def _outer(
    rows: Rows, columns: NDArray[np.integer], centre: NDArray[np.float64], row_norm: float
) -> NDArray[np.float64]:
    """Return the second moment of the distances of the rows to the centre, clipped."""
    outer = np.zeros((len(columns), len(columns)))
    for start in range(0, rows.shape[0], BLOCK):
        chosen = rows[start : start + BLOCK][:, columns]
        away = clip_rows((chosen if isinstance(chosen, np.ndarray) else chosen.toarray()) - centre, row_norm)
        outer += away.T @ away
    return outer


def _as_arrays(rows: Rows) -> dict[str, NDArray[np.generic]]:
    """Return rows as arrays, to be kept."""
    if isinstance(rows, np.ndarray):
        return {"rows": rows}
    return {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr}


def _as_rows(arrays: Mapping[str, NDArray[Any]], width: int) -> Rows:
    """Invert `_as_arrays`."""
    if "rows" in arrays:
        return arrays["rows"]
    return csr_array((arrays["data"], arrays["indices"], arrays["indptr"]), shape=(len(arrays["indptr"]) - 1, width))
