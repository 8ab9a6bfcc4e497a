"""Leader clustering: the first row that nobody took leads all free rows within a radius, and so on, by a spatial index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import Undisclosed

MOST_AT_ONCE = 512


@dataclass(frozen=True, repr=False)
class Neighbourhoods(Undisclosed):
    """Which neighbourhood each row is in.

    Attributes
    ----------
    members : ndarray of shape (n_rows,)
        The place in `leaders` of the leader that took the row: the first one within the radius.
    leaders : ndarray of shape (n_neighbourhoods, n_columns)
    """

    members: NDArray[np.intp]
    leaders: NDArray[np.float64]


def leader_clusters(
    rows: NDArray[np.float64], radius: float, known: NDArray[np.float64] | None = None
) -> Neighbourhoods:
    """Cluster `rows` in their order; two rows closer than `radius` can share a leader.

    Algorithm 6 of Thapa (2013), which does not say that rows that were placed are taken away. The rows near a leader are looked
    up in a k-d tree, for several free rows at once where most of them become leaders: no distance is computed to rows far away,
    and there is no n x n matrix.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_columns)
    radius : float
    known : ndarray, optional
        Leaders from before, which come first.
    """
    from scipy.spatial import cKDTree

    tree = cKDTree(rows)
    within = np.nextafter(radius, 0.0)  # the tree counts rows at the radius itself, the algorithm does not
    members = np.full(len(rows), -1, dtype=np.intp)
    leaders = [] if known is None else list(known)
    for start in range(0, len(leaders), MOST_AT_ONCE):
        block = leaders[start : start + MOST_AT_ONCE]
        for place, near in enumerate(tree.query_ball_point(block, within, return_sorted=False), start):
            _take(near, place, members)
    start, at_once = 0, 1
    while (free := start + np.flatnonzero(members[start:] < 0)[:at_once]).size:
        wasted = 0
        for row, near in zip(free, tree.query_ball_point(rows[free], within, return_sorted=False), strict=True):
            if members[row] >= 0:  # a leader of this very block took it
                wasted += 1
                continue
            members[row] = len(leaders)
            _take(near, len(leaders), members)
            leaders.append(rows[row])
        start = int(free[-1]) + 1
        at_once = min(2 * at_once, MOST_AT_ONCE) if wasted < len(free) / 4 else max(at_once // 2, 1)
    return Neighbourhoods(members, np.array(leaders))


def _take(near: Any, place: int, members: NDArray[np.intp]) -> None:
    rows = np.array(near, dtype=np.intp)
    members[rows[members[rows] < 0]] = place
