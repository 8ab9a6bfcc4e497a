"""Which clusters rows are to be in, and what a release made of that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tacit.errors import InvalidInputError, Undisclosed, parameter, words
from tacit.perturb.clusters import indicators

ANYWHERE_ELSE = "anywhere else"


@dataclass(frozen=True, repr=False)
class Wishes(Undisclosed):
    """Rows to move, checked: where to, or -1 for anywhere but the cluster they are in."""

    rows: NDArray[np.intp]
    targets: NDArray[np.intp]

    @classmethod
    def of(cls, hide: Mapping[int, Any], labels: NDArray[np.intp], n_clusters: int) -> Wishes:
        """Check what was asked for against the clusters that were found."""
        if not isinstance(hide, Mapping) or not hide:
            raise InvalidInputError(
                "hide to be a mapping from row to cluster, or to 'anywhere else'",
                parameter(hide),
                "Name at least one row to move.",
            )
        for row, target in hide.items():
            if not _is_index(row, len(labels)):
                raise InvalidInputError(
                    f"rows from 0 to {len(labels) - 1}", parameter(row), "Give the place of the row in the table."
                )
            if target != ANYWHERE_ELSE and not _is_index(target, n_clusters):
                raise InvalidInputError(
                    f"'anywhere else' or a cluster from 0 to {n_clusters - 1}",
                    parameter(target),
                    "See clusters(X), or the report of a release, for the numbers.",
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
        """Return the matrix C: 1 at the cluster to be in; random weights, but 0 at its own, for a row that may go anywhere."""
        wanted = labels.copy()
        named = self.targets >= 0
        wanted[self.rows[named]] = self.targets[named]
        C = indicators(wanted, n_clusters)
        for row in self.rows[~named]:
            weights = generator.random(n_clusters)
            weights[labels[row]] = 0.0
            C[row] = weights / weights.sum()
        return C

    def insist(
        self, C: NDArray[np.float64], missed: NDArray[np.intp], nearest: NDArray[np.intp]
    ) -> NDArray[np.float64]:
        """Return C with rows that may go anywhere, and did not leave, put into the nearest of the other clusters.

        A row between two clusters, as random weights put it, can lie in a third, its own.
        """
        C = C.copy()
        for row in np.intersect1d(missed, self.rows[self.targets < 0]):
            C[row] = 0.0
            C[row, nearest[row]] = 1.0
        return C

    def missed(self, before: NDArray[np.intp], after: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the rows that are not where they were wanted."""
        moved = after[self.rows]
        there = np.where(self.targets >= 0, moved == self.targets, moved != before[self.rows])
        left: NDArray[np.intp] = self.rows[~there]
        return left

    def side_effects(self, before: NDArray[np.intp], after: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the rows that nobody wanted to move, and that did."""
        changed = before != after
        changed[self.rows] = False
        return np.flatnonzero(changed)


@dataclass(frozen=True)
class Trial:
    """One pass of the outer loop: its weights, how many rows stayed where they were not wanted, how many moved for nothing."""

    alpha: float
    beta: float
    missed: int
    side_effects: int


def matched_labels(
    before: NDArray[np.intp], after: NDArray[np.intp], trusted: NDArray[np.bool_], n_clusters: int
) -> NDArray[np.intp]:
    """Return `after` with its clusters numbered as in `before`: matched on the rows that should not have moved."""
    from scipy.optimize import linear_sum_assignment

    together = np.zeros((n_clusters, n_clusters), dtype=np.int64)
    np.add.at(together, (after[trusted], before[trusted]), 1)
    _, names = linear_sum_assignment(together, maximize=True)
    matched: NDArray[np.intp] = np.asarray(names, dtype=np.intp)[after]
    return matched


def nearest_other(distances: NDArray[np.float64], labels: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return each row's nearest cluster among those that it is not in."""
    away = distances.copy()
    away[np.arange(len(labels)), labels] = np.inf
    nearest: NDArray[np.intp] = np.argmin(away, axis=1)
    return nearest


def _is_index(value: Any, size: int) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and 0 <= int(value) < size


def summary(trials: list[Trial]) -> str:
    """Return in words what the best of the trials left undone."""
    best = min(trials, key=lambda trial: trial.missed + trial.side_effects)
    return words(
        f"{best.missed} rows not moved and {best.side_effects} side effects at beta {best.beta:g}, "
        f"the best of {len(trials)} trials"
    )
