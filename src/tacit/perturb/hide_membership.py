"""Pattern hiding: chosen rows change their cluster, all others stay in theirs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import InvalidInputError, parameter, words
from tacit.factor.base import public, withheld
from tacit.measure.clusters import cluster_labels
from tacit.perturb.base import Release, Rows
from tacit.perturb.clusters import indicators, k_means
from tacit.perturb.constrained_solver import constrained_factors, solve_memberships
from tacit.perturb.memberships import Trial, Wishes, matched_labels, nearest_other, summary
from tacit.perturb.nmf_release import check_non_negative_rows
from tacit.perturb.search import Range
from tacit.validation import check_non_negative

BETAS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999, 1.0)
MOST_SWEEPS = 100
INSISTENCE = 3
"""How often, at one beta, rows that may go anywhere and did not leave are told where to go."""


class HideMembership(Release):
    r"""Release ``H W`` with chosen rows in another cluster.

    Constrained factorisation, as in `ConstrainedNMF`, with memberships C set by hand: a row to move has its 1 at the cluster it
    is to be in; or, if it may go anywhere else, random weights everywhere but at its own. The outer loop raises :math:`\beta`,
    and lowers :math:`\alpha = 1 - \beta`, until k-means on the release finds every chosen row where it was wanted and every
    other row where it was.

    Parameters
    ----------
    hide : mapping from int to int or str
        From the place of a row to the number of a cluster (as `clusters` gives them) or to "anywhere else".
    n_clusters : int, default=3
    beta : float in [0, 1], optional
        This one only, in place of the loop.
    level : float, optional
        Another name of `beta`.
    target_distortion : float, optional
        In place of the loop: the value difference to reach.
    columns, unchanged, missing, scale, random_state
        As in `AdditiveNoise`; with ``scale="none"`` the table must not have negative entries.

    Attributes
    ----------
    labels_ : ndarray of shape (n_rows,)
        Clusters of the rows before.
    new_labels_ : ndarray of shape (n_rows,)
        Clusters that k-means finds in the release, from the same starts, numbered as in `labels_`.
    changes_ : ndarray of int
        Chosen rows that are where they were wanted.
    missed_ : ndarray of int
        Chosen rows that are not.
    side_effects_ : ndarray of int
        Other rows that moved.
    trials_ : list of Trial
        What each pass of the loop came to; empty where a setting or a target was given.
    level_, distortion_, n_imputed_, guarantee_
        As in `AdditiveNoise`; `level_` is the beta used.

    Privacy
    -------
    None is proven. That a row was moved can show: it lies apart from its new neighbours.

    References
    ----------
    Thapa 2013, chapter 3.

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

    hide: Mapping[int, Any] | None = withheld(default=None, kw_only=False)
    n_clusters: int = public(default=3)
    beta: float | None = public(default=None)
    random_state: int | None = withheld(default=0)

    def clusters(self, X: Any) -> NDArray[np.intp]:
        """Return the cluster of each row of `X`, by the numbers that `hide` uses; only with a `random_state`."""
        if self.random_state is None:
            raise InvalidInputError(
                "a random_state",
                words("none"),
                "Set one: without it the numbers of the clusters change from fit to fit.",
            )
        from sklearn.base import clone

        twin = clone(self).set_params(hide={0: "anywhere else"}, beta=1.0, level=None, target_distortion=None)
        labels: NDArray[np.intp] = twin.fit(X).labels_
        return labels

    def _learn(self, rows: Rows, y: Any) -> None:
        check_non_negative_rows(rows)
        self._k_means = k_means(rows, self.n_clusters, self._seed)
        self.labels_ = self._k_means.labels_.astype(np.intp)
        self._wishes = Wishes.of(self.hide or {}, self.labels_, self.n_clusters)
        self._nearest = nearest_other(self._k_means.transform(rows), self.labels_)
        self._drawn = self._wishes.memberships(self.labels_, self.n_clusters, self._generator(rows))

    def _settings(self, rows: Rows) -> Range:
        return Range(0.0, 1.0)

    def _check_level(self, value: Any) -> float:
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
        for drawn in (self._drawn, self._wishes.insist(self._drawn, self._wishes.rows, self._nearest)):
            # first with random weights for rows that may go anywhere, then, if need be, with all of them told where to go
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
        """Factorise, and insist where rows that may go anywhere stayed."""
        C = self._drawn
        for attempt in range(INSISTENCE):
            found = constrained_factors(rows, C, level, self._start(rows, C), most_sweeps=MOST_SWEEPS)
            released: Rows = found.H @ found.W
            self._basis = found.W
            self._judge(rows, released)
            insisted = self._wishes.insist(C, self.missed_, self._nearest)
            if not self.missed_.size or attempt + 1 == INSISTENCE or np.array_equal(insisted, C):
                break
            C = insisted
        return released

    def _change_new(self, rows: Rows) -> Rows:
        rows = np.maximum(rows, 0.0)
        memberships = indicators(self._k_means.predict(rows), self.n_clusters)
        changed: Rows = solve_memberships(rows, memberships, self.level_, self._basis, start=memberships) @ self._basis
        return changed

    def _start(self, rows: Rows, C: Rows) -> Rows:
        """Return the centroids of the clusters as they are to be; a cluster that would be empty keeps its own."""
        sizes = C.sum(axis=0)[:, None]
        start: Rows = np.where(sizes > 0, C.T @ rows / np.maximum(sizes, 1e-12), self._k_means.cluster_centers_)
        return start

    def _judge(self, rows: Rows, released: Rows) -> None:
        """Cluster the release from the starts of the original, in the table's scale of the method."""
        seed = int(self._seed % 2**31)
        _, after = cluster_labels((rows, released), self.n_clusters, random_state=seed)
        trusted = np.ones(len(rows), dtype=bool)
        trusted[self._wishes.rows] = False
        self.new_labels_ = matched_labels(self.labels_, after.astype(np.intp), trusted, self.n_clusters)
        self.missed_ = self._wishes.missed(self.labels_, self.new_labels_)
        self.side_effects_ = self._wishes.side_effects(self.labels_, self.new_labels_)
        self.changes_ = np.setdiff1d(self._wishes.rows, self.missed_)
