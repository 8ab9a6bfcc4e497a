"""Pattern hiding: chosen rows change their cluster, and all others stay in theirs.

This is Algorithm 2 of Thapa (2013), section 3.6. Its inner loop is `constrained_factors`; its outer loop, which changes
alpha and beta until there is no side effect (section 3.3.1), is `HideMembership._choose_level`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tacit.errors import InvalidInputError, Undisclosed, parameter, words
from tacit.estimators.base import public, withheld
from tacit.measure.clusters import cluster_labels
from tacit.perturb.base import Rows, TablePerturbation
from tacit.perturb.clusters import indicators, k_means
from tacit.perturb.methods.constrained_nmf import constrained_factors, solve_memberships
from tacit.perturb.methods.nmf import check_non_negative_rows
from tacit.perturb.target import Range
from tacit.validation import TableLike, check_non_negative

ANYWHERE_ELSE = "anywhere else"
BETAS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999, 1.0)
"""The values of beta that are tried, in this order: up to 0.9 those of section 3.8.2 of Thapa (2013), the others set by
hand."""
MOST_SWEEPS = 100
"""Most sweeps of one factorisation. Set by hand: there are many, and only the clusters matter."""
MOST_ASSIGNMENTS = 3
"""Most factorisations at one beta; after each, rows that may go anywhere and did not move are assigned to a cluster."""


@dataclass(frozen=True, repr=False)
class Moves(Undisclosed):
    """Rows to move, checked, and their target clusters; -1 for any cluster except their own."""

    rows: NDArray[np.intp]
    targets: NDArray[np.intp]

    @classmethod
    def of(cls, hide: Mapping[int, int | str], labels: NDArray[np.intp], n_clusters: int) -> Moves:
        """Check the requested moves against the clusters."""
        if not isinstance(hide, Mapping) or not hide:
            raise InvalidInputError(
                "hide to be a mapping from row to cluster, or to 'anywhere else'",
                parameter(hide),
                "Give at least one row to move.",
            )
        for row, target in hide.items():
            if not _is_index(row, len(labels)):
                raise InvalidInputError(
                    f"rows from 0 to {len(labels) - 1}", parameter(row), "Give the index of the row in the table."
                )
            if target != ANYWHERE_ELSE and not _is_index(target, n_clusters):
                raise InvalidInputError(
                    f"'anywhere else' or a cluster from 0 to {n_clusters - 1}",
                    parameter(target),
                    "The numbers are those of clusters(X), and of the report of a release.",
                )
            if target == labels[row]:
                raise InvalidInputError(
                    f"a cluster other than the row's own for row {row}",
                    parameter(target),
                    "The row is in that cluster already.",
                )
        targets = [-1 if target == ANYWHERE_ELSE else int(target) for target in hide.values()]
        return cls(np.array(list(hide), dtype=np.intp), np.array(targets, dtype=np.intp))

    def memberships(self, labels: NDArray[np.intp], n_clusters: int, generator: Generator) -> NDArray[np.float64]:
        """Return C of section 3.4: 1 at the wanted cluster; for a row that may go anywhere, random weights.

        Its weight at its own cluster is 0. The thesis has random numbers from 0 to 1; here, as in its example, they sum
        to 1.
        """
        wanted = labels.copy()
        named = self.targets >= 0
        wanted[self.rows[named]] = self.targets[named]
        C = indicators(wanted, n_clusters)
        for row in self.rows[~named]:
            weights = generator.random(n_clusters)
            weights[labels[row]] = 0.0
            C[row] = weights / weights.sum()
        return C

    def assign_nearest(
        self, C: NDArray[np.float64], missed: NDArray[np.intp], nearest: NDArray[np.intp]
    ) -> NDArray[np.float64]:
        """Return C with rows that may go anywhere, and did not move, assigned to the nearest other cluster.

        Random weights place a row between two clusters, which may be in a third one: its own.
        """
        C = C.copy()
        for row in np.intersect1d(missed, self.rows[self.targets < 0]):
            C[row] = 0.0
            C[row, nearest[row]] = 1.0
        return C

    def missed(self, before: NDArray[np.intp], after: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the rows that are not in their wanted cluster."""
        moved = after[self.rows]
        there = np.where(self.targets >= 0, moved == self.targets, moved != before[self.rows])
        missed: NDArray[np.intp] = self.rows[~there]
        return missed

    def side_effects(self, before: NDArray[np.intp], after: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the rows that moved but were not to be moved (section 3.3.1)."""
        changed = before != after
        changed[self.rows] = False
        return np.flatnonzero(changed)


@dataclass(frozen=True)
class Trial:
    """One pass of the outer loop: its weights, the number of rows that did not move as wanted, and of side effects."""

    alpha: float
    beta: float
    missed: int
    side_effects: int


def matched_labels(
    before: NDArray[np.intp], after: NDArray[np.intp], trusted: NDArray[np.bool_], n_clusters: int
) -> NDArray[np.intp]:
    """Return `after` with its clusters numbered as in `before`, matched on the rows that should not have moved."""
    from scipy.optimize import linear_sum_assignment

    together = np.zeros((n_clusters, n_clusters), dtype=np.int64)
    np.add.at(together, (after[trusted], before[trusted]), 1)
    _, names = linear_sum_assignment(together, maximize=True)
    matched: NDArray[np.intp] = np.asarray(names, dtype=np.intp)[after]
    return matched


def nearest_other(distances: NDArray[np.float64], labels: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return each row's nearest cluster other than its own."""
    to_others = distances.copy()
    to_others[np.arange(len(labels)), labels] = np.inf
    nearest: NDArray[np.intp] = np.argmin(to_others, axis=1)
    return nearest


def _is_index(value: object, size: int) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and 0 <= int(value) < size


def summary(trials: list[Trial]) -> str:
    """Describe what the best trial did not achieve."""
    best = min(trials, key=lambda trial: trial.missed + trial.side_effects)
    return words(
        f"{best.missed} rows not moved and {best.side_effects} side effects at beta {best.beta:g}, "
        f"the best of {len(trials)} trials"
    )


class HideMembership(TablePerturbation):
    r"""Release ``H W`` with chosen rows in another cluster.

    Constrained factorisation, as in `ConstrainedNMF`, with changed memberships C: a row to move has its 1 at the wanted cluster;
    if it may go anywhere else, it has random weights at all clusters except its own. The outer loop raises :math:`\beta`, and
    lowers :math:`\alpha = 1 - \beta`, until k-means on the release finds every chosen row in its wanted cluster and every other
    row in its own.

    Parameters
    ----------
    hide : mapping from int to int or str
        From the index of a row to the number of a cluster (as in `clusters`) or to "anywhere else".
    n_clusters : int, default=3
    beta : float in [0, 1], optional
        A fixed value, instead of the loop.
    level : float, optional
        Another name of `beta`.
    target_distortion : float, optional
        Instead of the loop: the value difference to reach.
    columns, unchanged, missing, scale, random_state
        As in `AdditiveNoise`; with ``scale="none"`` the table must not have negative entries.

    Attributes
    ----------
    labels_ : ndarray of shape (n_rows,)
        Original clusters of the rows.
    new_labels_ : ndarray of shape (n_rows,)
        Clusters that k-means finds in the release, from the same starts, numbered as in `labels_`.
    changes_ : ndarray of int
        Chosen rows that are in their wanted cluster.
    missed_ : ndarray of int
        Chosen rows that are not.
    side_effects_ : ndarray of int
        Other rows that moved.
    trials_ : list of Trial
        The passes of the loop; empty if a setting or a target was given.
    level_, distortion_, n_imputed_, guarantee_
        As in `AdditiveNoise`; `level_` is the beta used.

    Privacy
    -------
    None is proven. It can be visible that a row was moved: it is often distant from the rows of its new cluster.

    References
    ----------
    Thapa 2013, chapter 3: Algorithm 2, C of section 3.4, equation (3.27).

    Examples
    --------
    >>> import numpy as np
    >>> from tacit.perturb import HideMembership
    >>> generator = np.random.default_rng(0)
    >>> table = np.vstack([centre + 0.1 * generator.random((40, 3)) for centre in ([0, 0, 1], [1, 0, 0], [0, 1, 0])])
    >>> method = HideMembership({0: "anywhere else", 1: "anywhere else"}, n_clusters=3, random_state=0).fit(table)
    >>> len(method.changes_), len(method.side_effects_)
    (2, 0)
    """

    _level_name = "beta"
    _needs_level = False

    hide: Mapping[int, int | str] | None = withheld(default=None, kw_only=False)
    n_clusters: int = public(default=3)
    beta: float | None = public(default=None)
    random_state: int | None = withheld(default=0)

    def clusters(self, X: TableLike) -> NDArray[np.intp]:
        """Return the cluster of each row of `X`, with the numbers that `hide` uses; needs a `random_state`."""
        if self.random_state is None:
            raise InvalidInputError(
                "a random_state",
                words("none"),
                "Set one: without it, the numbers of the clusters differ between fits.",
            )
        from sklearn.base import clone

        twin = clone(self).set_params(hide={0: "anywhere else"}, beta=1.0, level=None, target_distortion=None)
        labels: NDArray[np.intp] = twin.fit(X).labels_
        return labels

    def _learn(self, rows: Rows, y: object) -> None:
        check_non_negative_rows(rows)
        self._k_means = k_means(rows, self.n_clusters, self._seed)
        self.labels_ = self._k_means.labels_.astype(np.intp)
        self._moves = Moves.of(self.hide or {}, self.labels_, self.n_clusters)
        self._nearest = nearest_other(self._k_means.transform(rows), self.labels_)
        self._drawn = self._moves.memberships(self.labels_, self.n_clusters, self._generator(rows))

    def _settings(self, rows: Rows) -> Range:
        return Range(0.0, 1.0)

    def _check_level(self, value: float) -> float:
        beta = check_non_negative(value, "beta")
        if beta > 1:
            raise InvalidInputError(
                "beta in [0, 1]", parameter(value), "At 1 every row becomes its cluster's centroid."
            )
        return beta

    def _choose_level(self, values: Rows, scaled: Rows, released: Callable[[float], Rows]) -> float:
        self.trials_: list[Trial] = []
        if self._asked() is not None or self.target_distortion is not None:
            return super()._choose_level(values, scaled, released)
        best: tuple[int, float, Rows] | None = None
        for drawn in (self._drawn, self._moves.assign_nearest(self._drawn, self._moves.rows, self._nearest)):
            # first with random weights for rows that may go anywhere, then with all of them assigned to the nearest cluster
            self._drawn = drawn
            for beta in BETAS:
                released(beta)
                self.trials_.append(Trial(1 - beta, beta, self.missed_.size, self.side_effects_.size))
                if not self.missed_.size and not self.side_effects_.size:
                    return beta
                undone = self.missed_.size + self.side_effects_.size
                if best is None or undone < best[0]:
                    best = undone, beta, drawn
        warnings.warn(f"Not everything could be hidden: {summary(self.trials_)}.", stacklevel=4)
        assert best is not None  # there is at least one beta
        self._drawn = best[2]
        return best[1]

    def _change(self, rows: Rows, level: float) -> Rows:
        """Factorise; repeat with rows that may go anywhere and did not move assigned to a cluster."""
        C = self._drawn
        for attempt in range(MOST_ASSIGNMENTS):
            factors = constrained_factors(rows, C, level, self._start(rows, C), most_sweeps=MOST_SWEEPS)
            released: Rows = factors.H @ factors.W
            self._basis = factors.W
            self._compare_clusters(rows, released)
            assigned = self._moves.assign_nearest(C, self.missed_, self._nearest)
            if not self.missed_.size or attempt + 1 == MOST_ASSIGNMENTS or np.array_equal(assigned, C):
                break
            C = assigned
        return released

    def _change_new(self, rows: Rows) -> Rows:
        rows = np.maximum(rows, 0.0)
        memberships = indicators(self._k_means.predict(rows), self.n_clusters)
        changed: Rows = solve_memberships(rows, memberships, self.level_, self._basis, start=memberships) @ self._basis
        return changed

    def _start(self, rows: Rows, C: Rows) -> Rows:
        """Return the centroids of the wanted clusters; an empty cluster keeps its original one."""
        sizes = C.sum(axis=0)[:, None]
        start: Rows = np.where(sizes > 0, C.T @ rows / np.maximum(sizes, 1e-12), self._k_means.cluster_centers_)
        return start

    def _compare_clusters(self, rows: Rows, released: Rows) -> None:
        """Cluster the release from the same starts as the original, in the scale of the method, and compare."""
        seed = int(self._seed % 2**31)
        _, after = cluster_labels((rows, released), self.n_clusters, random_state=seed)
        trusted = np.ones(len(rows), dtype=bool)
        trusted[self._moves.rows] = False
        self.new_labels_ = matched_labels(self.labels_, after.astype(np.intp), trusted, self.n_clusters)
        self.missed_ = self._moves.missed(self.labels_, self.new_labels_)
        self.side_effects_ = self._moves.side_effects(self.labels_, self.new_labels_)
        self.changes_ = np.setdiff1d(self._moves.rows, self.missed_)
