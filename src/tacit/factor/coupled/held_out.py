"""Keeping some cells of a relation out of a fit, and scoring a model by them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.errors import InvalidInputError, Undisclosed, parameter, words
from tacit.factor.coupled.cells import Coords, in_kept, is_among, keys
from tacit.factor.coupled.divergence import Floats, divergence
from tacit.factor.coupled.relation import Relation

ZEROS_PER_STORED = 5
"""Of sparse data whose other cells are zeros, so many zeros are held out for every stored cell."""


@dataclass(frozen=True, eq=False, repr=False)
class HeldOut(Undisclosed):
    """Cells that a fit does not see.

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

    def scores(self, model: Any) -> dict[str, float]:
        """Return RMSE, mean divergence and, where some cells are zero and some are not, the area under the ROC curve."""
        from sklearn.metrics import roc_auc_score

        found = model.predict(self.relation.name, self.cells)
        scores = {
            "rmse": float(np.sqrt(np.mean((found - self.values) ** 2))),
            "divergence": float(divergence(self.values, found, self.relation.power).mean()),
        }
        present = self.values > self.values.min()
        if (self.values <= 0).any() and (self.values > 0).any() and self.values.min() >= 0:
            scores["auc"] = float(roc_auc_score(present, found))
        return scores


def hold_out(relation: Relation, share: float, *, random_state: int = 0) -> HeldOut:
    """Choose cells at random to keep out of a fit **without** privacy: the choice depends on the cells' places and a seed.

    Of dense data, and of data of which only the stored cells are known, `share` of the known cells. Of sparse data whose other
    cells are zeros, `share` of the stored cells and five times as many zeros.

    Examples
    --------
    >>> import numpy as np
    >>> from tacit import Relation
    >>> from tacit.factor.coupled.held_out import hold_out
    >>> kept = hold_out(Relation(np.ones((20, 10)), "ir,jr->ij", ("a", "b")), 0.1)
    >>> kept.relation.n_observed + len(kept.cells)
    200
    """
    if not 0 < share < 1:
        raise InvalidInputError(
            "a fraction to hold out between 0 and 1", parameter(share), "Give a fraction of the cells, such as 0.1."
        )
    rng = np.random.default_rng(random_state)
    cells, values = relation.stored()
    out = rng.random(len(values)) < share
    if not out.any() or out.all():
        raise InvalidInputError(
            f"enough cells in {relation.name!r} to hold out {share:g} of them",
            words("too few"),
            "Hold out a larger or a smaller fraction.",
        )
    chosen, known = cells[out], values[out]
    if relation.is_sparse and not relation.stored_only:
        zeros = _zeros(relation, cells, ZEROS_PER_STORED * len(chosen), rng)
        chosen, known = np.vstack([chosen, zeros]), np.concatenate([known, np.zeros(len(zeros))])
    return HeldOut(relation.without(chosen), chosen, known)


def _zeros(relation: Relation, stored: Coords, count: int, rng: np.random.Generator) -> Coords:
    """Draw known cells that are not stored; fewer than asked for where there are few."""
    drawn = np.stack([rng.integers(0, size, 2 * count) for size in relation.shape], axis=1).astype(np.int32)
    _, first = np.unique(keys(drawn, relation.shape), return_index=True)
    drawn = drawn[np.sort(first)]
    taken = is_among(drawn, np.vstack([stored, relation.holes]), relation.shape)
    return drawn[in_kept(drawn, relation.keep) & ~taken][:count]
