"""Truncated singular value decomposition: the best approximation of low rank of a table.

`LowRank` is the base of methods of low rank: their rank is at least 1, at most full, and may be fractional.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from tacit.errors import InvalidInputError, parameter, words
from tacit.estimators.base import public
from tacit.perturb.base import Rows, TablePerturbation
from tacit.perturb.target import Range
from tacit.validation import check_positive


class LowRank(TablePerturbation):
    """Base of methods whose setting is the rank."""

    _level_name = "rank"

    rank: float | None = public(default=None, kw_only=False)

    def _settings(self, rows: Rows) -> Range:
        return Range(float(min(rows.shape)), 1.0)

    def _check_level(self, value: float) -> float:
        rank = check_positive(value, "rank")
        if rank < 1:
            raise InvalidInputError("rank to be at least 1", parameter(value), "Rank 1 changes a table the most.")
        return rank

    def _check_rank(self, rows: Rows) -> None:
        rank = self._asked()
        if rank is not None and rank > min(rows.shape):
            raise InvalidInputError(
                f"rank of at most {min(rows.shape)}, the number of rows or columns",
                words(f"{rank:g}"),
                "Ask for a lower rank.",
            )


class TruncatedSVDRelease(LowRank):
    r"""Release the best approximation of low rank, :math:`\tilde A = U_k \Sigma_k V_k^\top` (Thapa's SVD and TSVD).

    A fractional rank, such as 2.4, keeps two components and 0.4 of the third, so that every distortion between those of
    rank 1 and of full rank can be reached. New rows are projected: :math:`\tilde x = x V_k V_k^\top`.

    Parameters
    ----------
    rank : float, optional
        Number of components to keep.
    level : float, optional
        Another name of `rank`.
    target_distortion : float, optional
        Instead: the value difference to reach.
    columns, unchanged, missing
        As in `AdditiveNoise`.
    scale : {"range", "unit", "standard", "none"}, default="none"
        As in `AdditiveNoise`.

    Attributes
    ----------
    level_, distortion_, n_imputed_, guarantee_
        As in `AdditiveNoise`.
    components_ : ndarray of shape (n_components, n_columns)
        Right singular vectors of the scaled table.

    Privacy
    -------
    None is proven. Distances between rows are hardly changed, so rows can be linked: see `tacit.measure.attacks`.

    References
    ----------
    Wang et al. 2006; Thapa 2013, sections 4.9 and 6.2.5.

    Examples
    --------
    >>> import numpy as np
    >>> from tacit.perturb import TruncatedSVDRelease
    >>> table = np.random.default_rng(0).random((50, 4))
    >>> int(np.linalg.matrix_rank(TruncatedSVDRelease(2).fit_transform(table)))
    2
    """

    random_state: ClassVar[None] = None  # type: ignore[misc]  # nothing here is random

    scale: str = public(default="none")

    def _learn(self, rows: Rows, y: object) -> None:
        self._check_rank(rows)
        self.components_ = np.linalg.svd(rows, full_matrices=False)[2]

    def _change(self, rows: Rows, level: float) -> Rows:
        kept = np.clip(level - np.arange(len(self.components_)), 0.0, 1.0)
        # A_k of sections 4.9 and 6.2.5, as A V_k V_k'
        projected: Rows = ((rows @ self.components_.T) * kept) @ self.components_
        return projected
