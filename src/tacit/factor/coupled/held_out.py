"""Holding cells of a relation out of a fit, and scoring a model on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tacit.data.split import held_out_cells
from tacit.errors import InvalidInputError, Undisclosed, parameter, words
from tacit.factor.arrays import Floats
from tacit.factor.coupled.cells import Coords, in_kept, is_among, keys
from tacit.factor.coupled.divergence import divergence
from tacit.factor.coupled.relation import Relation

if TYPE_CHECKING:
    from tacit.factor.coupled.plain.estimator import FittedFactors
    from tacit.factor.coupled.private.fitted import PrivateFactors

ZEROS_PER_STORED = 5
"""Zeros held out per stored cell, for sparse data whose other cells are zeros. Set by hand: enough for an area under the ROC
curve, without listing all zeros."""


@dataclass(frozen=True, eq=False, repr=False)
class HeldOutCells(Undisclosed):
    """Cells that are held out of a fit.

    Parameters
    ----------
    relation : Relation
        The relation without them.
    cells, values : ndarray
        The cells and their values.
    """

    relation: Relation
    cells: Coords
    values: Floats

    def scores(self, model: FittedFactors | PrivateFactors) -> dict[str, float]:
        """Return RMSE, mean divergence and, if some cells are zero and some are not, the area under the ROC curve."""
        from sklearn.metrics import roc_auc_score

        predicted = model.predict(self.relation.name, self.cells)
        scores = {
            "rmse": float(np.sqrt(np.mean((predicted - self.values) ** 2))),
            "divergence": float(divergence(self.values, predicted, self.relation.power).mean()),
        }
        present = self.values > self.values.min()
        if (self.values <= 0).any() and (self.values > 0).any() and self.values.min() >= 0:
            scores["auc"] = float(roc_auc_score(present, predicted))
        return scores


def hold_out(relation: Relation, fraction: float, *, random_state: int = 0) -> HeldOutCells:
    """Choose random cells to hold out of a fit **without** privacy: the choice depends on the cells' places and a seed.

    For dense data, and for data with ``observed="stored"``, it holds out this `fraction` of the known cells. For sparse
    data whose other cells are zeros, it holds out this `fraction` of the stored cells, and five times as many zeros.

    Examples
    --------
    >>> import numpy as np
    >>> from tacit import Relation
    >>> from tacit.factor.coupled.held_out import hold_out
    >>> kept = hold_out(Relation(np.ones((20, 10)), "ir,jr->ij", ("a", "b")), 0.1)
    >>> kept.relation.n_observed + len(kept.cells)
    200
    """
    if not 0 < fraction < 1:
        raise InvalidInputError(
            "a fraction to hold out between 0 and 1", parameter(fraction), "Give a fraction of the cells, such as 0.1."
        )
    rng = np.random.default_rng(random_state)
    cells, values = relation.stored()
    out = rng.random(len(values)) < fraction
    if not out.any() or out.all():
        raise InvalidInputError(
            f"enough cells in {relation.name!r} to hold out {fraction:g} of them",
            words("too few"),
            "Hold out a larger or a smaller fraction.",
        )
    chosen, known = cells[out], values[out]
    if relation.is_sparse and not relation.stored_only:
        zeros = _zeros(relation, cells, ZEROS_PER_STORED * len(chosen), rng)
        chosen, known = np.vstack([chosen, zeros]), np.concatenate([known, np.zeros(len(zeros))])
    return HeldOutCells(relation.without(chosen), chosen, known)


def hold_out_by_key(relation: Relation, fraction: float, *, key: bytes | None = None) -> HeldOutCells:
    """Choose cells to hold out of a fit **with** privacy: each by its place and a secret key (`tacit.data.split`).

    Examples
    --------
    >>> import numpy as np
    >>> from tacit import Relation
    >>> from tacit.factor.coupled.held_out import hold_out_by_key
    >>> kept = hold_out_by_key(Relation(np.ones((20, 10)), "ir,jr->ij", ("a", "b")), 0.1)
    >>> kept.relation.n_observed + len(kept.cells)
    200
    """
    cells, values = relation.known_cells()
    out = held_out_cells(cells, fraction=fraction, key=key)
    return HeldOutCells(relation.without(cells[out]), cells[out], values[out])


def _zeros(relation: Relation, stored: Coords, count: int, rng: np.random.Generator) -> Coords:
    """Draw known cells that are not stored; fewer than `count` if there are few."""
    drawn = np.stack([rng.integers(0, size, 2 * count) for size in relation.shape], axis=1).astype(np.int32)
    _, first = np.unique(keys(drawn, relation.shape), return_index=True)
    drawn = drawn[np.sort(first)]
    taken = is_among(drawn, np.vstack([stored, relation.holes]), relation.shape)
    return drawn[in_kept(drawn, relation.keep) & ~taken][:count]
