"""Neighbourhood-aware perturbation (NAP): values move within small neighbourhoods of rows.

This is Algorithm 5 of Thapa (2013), section 6.4, with the neighbourhoods of Algorithm 6 (nclassify), repaired:
Algorithm 5 as printed applies labels in the order of Algorithm 6 to rows in another order.
`tacit.reproduce.thapa.neighbourhoods` has the printed form.

Neighbourhoods come from leader clustering: each unassigned row in turn becomes a leader and takes the unassigned rows within
the radius, found by a spatial index.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.errors import Undisclosed
from tacit.estimators.base import public
from tacit.measure import value_difference
from tacit.perturb.base import Rows, TablePerturbation
from tacit.perturb.target import Range
from tacit.validation import check_choice, check_positive

MOST_AT_ONCE = 512
"""Most rows in one query of the tree. Set by hand; it affects speed only."""
CENTRES = ("leader", "mean")
FULL = 2.0
"""The factor s, 2 in Algorithm 5 of Thapa (2013): a value is then at most reflected at the centre."""


@dataclass(frozen=True, repr=False)
class Neighbourhoods(Undisclosed):
    """The neighbourhood of each row.

    Attributes
    ----------
    members : ndarray of shape (n_rows,)
        The index in `leaders` of the row's leader: the first one within the radius.
    leaders : ndarray of shape (n_neighbourhoods, n_columns)
    """

    members: NDArray[np.intp]
    leaders: NDArray[np.float64]


def leader_clusters(
    rows: NDArray[np.float64], radius: float, known: NDArray[np.float64] | None = None
) -> Neighbourhoods:
    """Cluster `rows` in their order; rows closer than `radius` to a leader share it.

    Algorithm 6 of Thapa (2013), which does not state that assigned rows are removed. The rows near a leader are found by a k-d
    tree, for several unassigned rows at the same time if most of them become leaders. So no distances to far rows are computed,
    and there is no n x n matrix.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_columns)
    radius : float
    known : ndarray, optional
        Earlier leaders, which come first.
    """
    from scipy.spatial import cKDTree

    tree = cKDTree(rows)
    within = np.nextafter(radius, 0.0)  # the tree includes rows at the radius itself, the algorithm does not
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
            if members[row] >= 0:  # assigned to another leader of this block
                wasted += 1
                continue
            members[row] = len(leaders)
            _take(near, len(leaders), members)
            leaders.append(rows[row])
        start = int(free[-1]) + 1
        at_once = min(2 * at_once, MOST_AT_ONCE) if wasted < len(free) / 4 else max(at_once // 2, 1)
    return Neighbourhoods(members, np.array(leaders))


def _take(near: ArrayLike, place: int, members: NDArray[np.intp]) -> None:
    rows = np.array(near, dtype=np.intp)
    members[rows[members[rows] < 0]] = place


class NeighbourhoodAware(TablePerturbation):
    r"""Move every value by a random amount towards the centre of its neighbourhood, or beyond it, at most to the same distance.

    .. math:: \tilde a_{ij} = a_{ij} + s\, u_{ij} (m_{ij} - a_{ij}), \qquad u_{ij} \sim U[0, 1],\ s = 2

    m is the centre of the row's neighbourhood, found by leader clustering: each unassigned row in turn becomes a leader and takes
    the unassigned rows nearer than the radius. Small neighbourhoods keep covariances, and so what non-linear classifiers use.

    Parameters
    ----------
    radius : float, optional
        Radius of a neighbourhood, in the scale of the method (with ``scale="range"``, columns are from 0 to 1).
    centre : {"leader", "mean"}, default="leader"
        The centre m. "leader" is Algorithm 5, whose comment and section 6.5 say "mean". With "leader", a leader does
        not move: its values are released unchanged. With "mean", only rows that are alone in their neighbourhood do not
        move.
    level : float, optional
        Another name of `radius`.
    target_distortion : float, optional
        Instead: the value difference to reach.
    columns, unchanged, missing, scale, random_state
        As in `AdditiveNoise`.

    Attributes
    ----------
    level_ : float
        The radius.
    strength_ : float
        The factor s: 2, or a little less if a target is between those of two radii.
    n_neighbourhoods_ : int
    n_unchanged_ : int
        Number of fitted rows that were released unchanged.
    distortion_, n_imputed_, guarantee_
        As in `AdditiveNoise`.

    Notes
    -----
    Rows that were not fitted join the neighbourhoods of the fitted rows; rows outside all of them form new ones. No labels are
    used.

    Privacy
    -------
    None is proven. `n_unchanged_` rows are not changed at all.

    References
    ----------
    Thapa 2013, chapter 6 (Algorithms 5 and 6).

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

    def _learn(self, rows: Rows, y: object) -> None:
        check_choice(self.centre, "centre", CENTRES)
        self.strength_ = FULL

    def _settings(self, rows: Rows) -> Range:
        # beyond the diagonal of the box around all rows, there is only one neighbourhood
        return Range(0.0, 1.01 * float(np.linalg.norm(np.ptp(rows, axis=0))))

    def _choose_level(self, values: Rows, scaled: Rows, released: Callable[[float], Rows]) -> float:
        """Return a radius with at least the wanted distortion, and set the strength that gives exactly this distortion.

        The distortion is a discontinuous function of the radius, and is proportional to the strength.
        """
        if self._asked() is not None or self.target_distortion is None:
            return super()._choose_level(values, scaled, released)
        target = check_positive(self.target_distortion, "target_distortion")
        settings = self._settings(scaled)
        high = settings.most
        reached = value_difference(values, released(high))
        if reached < target:
            return super()._choose_level(values, scaled, released)  # raises an error
        low = high / 4  # from large to small: small radii, with many neighbourhoods, are the slowest
        while (distortion := value_difference(values, released(low))) > target:
            low, high, reached = low / 4, low, distortion
        # a radius within 10% will do (set by hand): the strength makes up the rest
        while high > 1.1 * low and reached > 1.1 * target:
            middle = math.sqrt(low * high)
            distortion = value_difference(values, released(middle))
            if distortion < target:
                low = middle
            else:
                high, reached = middle, distortion
        self.strength_ = FULL * target / reached
        return high

    def _change(self, rows: Rows, level: float) -> Rows:
        changed = self._moved(rows, level, None)
        self.n_unchanged_ = int((changed == rows).all(axis=1).sum())
        return changed

    def _change_new(self, rows: Rows) -> Rows:
        return self._moved(rows, self.level_, self._leaders)

    def _moved(self, rows: Rows, radius: float, known: Rows | None) -> Rows:
        neighbourhoods = leader_clusters(rows, radius, known)
        centres = neighbourhoods.leaders
        if known is None:
            self._leaders = centres
            self.n_neighbourhoods_ = len(centres)
            if self.centre == "mean":
                self._centres = centres = _means(rows, neighbourhoods.members, len(centres))
        elif self.centre == "mean":
            centres = np.vstack([self._centres, centres[len(known) :]])
        uniform = self._generator(rows).random(rows.shape)
        # the innermost line of Algorithm 5, with the row itself in both places: a + 2 rand (mu_0 - a)
        changed: Rows = rows + self.strength_ * uniform * (centres[neighbourhoods.members] - rows)
        return changed


def _means(rows: Rows, members: NDArray[np.intp], count: int) -> Rows:
    sums = np.zeros((count, rows.shape[1]))
    np.add.at(sums, members, rows)
    means: Rows = sums / np.bincount(members, minlength=count)[:, None]
    return means
