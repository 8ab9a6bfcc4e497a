"""Leader clustering: the first row that nobody took leads all free rows within a radius, and so on, by a spatial index."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Neighbourhoods:
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

    Algorithm 6 of Thapa (2013), which does not say that rows that were placed are taken away. Every row is looked up at most
    once as a leader, in a k-d tree: no distance is computed to rows that are far away, and there is no n x n matrix.

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
    for place, leader in enumerate(leaders):
        _take(tree, leader, within, members, place)
    for row in range(len(rows)):
        if members[row] < 0:
            members[row] = len(leaders)
            _take(tree, rows[row], within, members, len(leaders))
            leaders.append(rows[row])
    return Neighbourhoods(members, np.array(leaders))


def _take(tree: object, leader: NDArray[np.float64], within: float, members: NDArray[np.intp], place: int) -> None:
    near = np.array(tree.query_ball_point(leader, within), dtype=np.intp)  # type: ignore[attr-defined]
    members[near[members[near] < 0]] = place
