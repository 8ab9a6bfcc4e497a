"""Release of the product of a plain non-negative factorisation: equation (3.1) of Thapa (2013)."""

from __future__ import annotations

import math

import numpy as np

from tacit.errors import InvalidInputError, words
from tacit.estimators.base import withheld
from tacit.factor.nmf.estimator import NMF
from tacit.perturb.base import Rows
from tacit.perturb.methods.truncated_svd import LowRank


class NMFRelease(LowRank):
    r"""Release a non-negative factorisation's product, :math:`\tilde A = H W` with :math:`H, W \ge 0`, by `tacit.NMF`.

    A fractional rank, such as 2.4, gives 0.6 times the product of rank 2 plus 0.4 times that of rank 3. New rows get the best H
    for the fitted W.

    Parameters
    ----------
    rank : float, optional
        Number of components.
    level : float, optional
        Another name of `rank`.
    target_distortion : float, optional
        Instead: the value difference to reach.
    columns, unchanged, missing, scale, random_state
        As in `AdditiveNoise`; with ``scale="none"`` the table must not have negative entries. `random_state` is the seed of the
        start, and protects nothing.

    Attributes
    ----------
    level_, distortion_, n_imputed_, guarantee_
        As in `AdditiveNoise`.

    Privacy
    -------
    None is proven.

    References
    ----------
    Wang et al. 2006; Thapa 2013, sections 3.1.1 and 4.9.

    Examples
    --------
    >>> import numpy as np
    >>> from tacit.perturb import NMFRelease
    >>> table = np.random.default_rng(0).random((50, 4))
    >>> bool((NMFRelease(2, scale="none").fit_transform(table) >= 0).all())
    True
    """

    random_state: int | None = withheld(default=0)

    def _learn(self, rows: Rows, y: object) -> None:
        self._check_rank(rows)
        check_non_negative_rows(rows)
        self._models: dict[int, NMF] = {}
        self._fitted = rows

    def _change(self, rows: Rows, level: float) -> Rows:
        below, above = math.floor(level), math.ceil(level)
        part = level - below
        product = self._product(rows, below)
        return product if part == 0 else (1 - part) * product + part * self._product(rows, above)

    def _change_new(self, rows: Rows) -> Rows:
        return super()._change_new(np.maximum(rows, 0.0))

    def _product(self, rows: Rows, rank: int) -> Rows:
        if rank >= min(self._fitted.shape):
            return rows  # H = A and W = I are non-negative factors of full rank
        if rank not in self._models:
            self._models[rank] = NMF(rank, max_iter=1000, random_state=self._start_seed()).fit(self._fitted)
        model = self._models[rank]
        product = np.asarray(model.inverse_transform(model.transform(rows)), dtype=np.float64)
        return product

    def _start_seed(self) -> int:
        return int(self._seed % 2**31)


def check_non_negative_rows(rows: Rows) -> None:
    """Raise if there are negative entries."""
    if rows.min() < 0:
        raise InvalidInputError("a table of non-negative numbers", words("negative numbers"), "Give scale='range'.")
