"""Neighbourhood-aware perturbation (NAP): values move within small neighbourhoods of rows.

Neighbourhoods come from leader clustering: each unassigned row in turn becomes a leader and takes the unassigned rows within
the radius, found by a spatial index.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import Undisclosed
from tacit.estimators.base import public
from tacit.measure import value_difference
from tacit.perturb.base import Rows, TablePerturbation
from tacit.perturb.target import Range
from tacit.validation import check_choice, check_positive

MOST_AT_ONCE = 512
CENTRES = ("leader", "mean")
FULL = 2.0


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


class NeighbourhoodAware(TablePerturbation):
    r"""Move every value to the other side of its neighbourhood's centre, by chance, and at most as far as it was from it.

    .. math:: \tilde a_{ij} = a_{ij} + s\, u_{ij} (m_{ij} - a_{ij}), \qquad u_{ij} \sim U[0, 1],\ s = 2

    m is the centre of the row's neighbourhood, found by leader clustering: the first free row leads all free rows nearer than
    the radius. Small neighbourhoods keep covariances, and with them what non-linear classifiers use.

    Parameters
    ----------
    radius : float, optional
        Of a neighbourhood, in the scale of the method (with ``scale="range"``, columns run from 0 to 1).
    centre : {"leader", "mean"}, default="leader"
        What rows move about. A leader does not move at all: its values are released as they are. With "mean" only rows that are
        alone in their neighbourhood stay.
    level : float, optional
        Another name of `radius`.
    target_distortion : float, optional
        In their place: the value difference to reach.
    columns, unchanged, missing, scale, random_state
        As in `AdditiveNoise`.

    Attributes
    ----------
    level_ : float
        The radius.
    strength_ : float
        The factor s: 2, or a little less where a target lies between two radii.
    n_neighbourhoods_ : int
    n_unchanged_ : int
        Fitted rows that were released as they are.
    distortion_, n_imputed_, guarantee_
        As in `AdditiveNoise`.

    Notes
    -----
    Rows that were not fitted join the neighbourhoods of those that were; what is in none of them forms new ones. No label is
    used.

    Privacy
    -------
    None is proven. `n_unchanged_` rows are not changed at all.

    References
    ----------
    Thapa 2013, chapter 6.

    Examples
    --------
    >>> import numpy as np
    >>> from tacit.perturb import NeighbourhoodAware
    >>> table = np.random.default_rng(0).random((300, 2))
    >>> method = NeighbourhoodAware(0.2, random_state=0)
    >>> released = method.fit_transform(table)
    >>> bool(np.abs(released - table).max() < 2 * 0.2)
    True
    """

    _level_name = "radius"
    _noisy = True

    radius: float | None = public(default=None, kw_only=False)
    centre: str = public(default="leader")

    def _learn(self, rows: Rows, y: Any) -> None:
        check_choice(self.centre, "centre", CENTRES)
        self.strength_ = FULL

    def _settings(self, rows: Rows) -> Range:
        # beyond the diagonal of the box around all rows, everything is one neighbourhood
        return Range(0.0, 1.01 * float(np.linalg.norm(np.ptp(rows, axis=0))))

    def _choose_level(self, values: Rows, scaled: Rows, released: Callable[[float], Rows]) -> float:
        """Return a radius that distorts at least as much as asked, and set the strength that distorts exactly so.

        Neighbourhoods change in jumps, so no radius need reach a target; the distortion grows in proportion to the strength.
        """
        if self._asked() is not None or self.target_distortion is None:
            return super()._choose_level(values, scaled, released)
        target = check_positive(self.target_distortion, "target_distortion")
        settings = self._settings(scaled)
        high = settings.most
        found = value_difference(values, released(high))
        if found < target:
            return super()._choose_level(values, scaled, released)  # which says so
        low = high / 4  # down from above: small radii, with many neighbourhoods, take longest
        while (distortion := value_difference(values, released(low))) > target:
            low, high, found = low / 4, low, distortion
        while high > 1.1 * low and found > 1.1 * target:
            middle = math.sqrt(low * high)
            distortion = value_difference(values, released(middle))
            if distortion < target:
                low = middle
            else:
                high, found = middle, distortion
        self.strength_ = FULL * target / found
        return high

    def _change(self, rows: Rows, level: float) -> Rows:
        changed = self._moved(rows, level, None)
        self.n_unchanged_ = int((changed == rows).all(axis=1).sum())
        return changed

    def _change_new(self, rows: Rows) -> Rows:
        return self._moved(rows, self.level_, self._leaders)

    def _moved(self, rows: Rows, radius: float, known: Rows | None) -> Rows:
        found = leader_clusters(rows, radius, known)
        centres = found.leaders
        if known is None:
            self._leaders = centres
            self.n_neighbourhoods_ = len(centres)
            if self.centre == "mean":
                self._centres = centres = _means(rows, found.members, len(centres))
        elif self.centre == "mean":
            centres = np.vstack([self._centres, centres[len(known) :]])
        uniform = self._generator(rows).random(rows.shape)
        changed: Rows = rows + self.strength_ * uniform * (centres[found.members] - rows)
        return changed


def _means(rows: Rows, members: Any, count: int) -> Rows:
    sums = np.zeros((count, rows.shape[1]))
    np.add.at(sums, members, rows)
    means: Rows = sums / np.bincount(members, minlength=count)[:, None]
    return means
