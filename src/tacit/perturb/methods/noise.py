"""Additive noise: every value gets its own, in proportion to the range of its column."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tacit.estimators.base import public
from tacit.perturb.base import Rows, TablePerturbation
from tacit.perturb.target import Range
from tacit.validation import check_choice

KINDS = ("uniform", "normal")


class AdditiveNoise(TablePerturbation):
    r"""Add independent noise to every value: :math:`\tilde a_{ij} = a_{ij} + \ell\, r_j\, e_{ij}`.

    :math:`r_j` is the range of column j (with ``scale="range"``) and e is uniform on [-1/2, 1/2] or standard normal: RD and
    ND in Thapa (2013), section 4.9. Noise on correlated columns can be filtered out: see `tacit.measure.attacks`.

    Parameters
    ----------
    level : float, optional
        The :math:`\ell` above.
    kind : {"uniform", "normal"}, default="uniform"
    target_distortion : float, optional
        In place of `level`: the value difference :math:`\|A - \tilde A\|_F / \|A\|_F` to reach.
    columns : sequence of str or int, optional
        Columns to change, by name or place; all but those in `unchanged` if not given. In a data frame that refuses columns that
        are not numeric or look like identifiers.
    unchanged : sequence of str or int, default=()
        Columns to release as they are. Nothing is released unchanged that is not named here.
    missing : {"refuse", "mean", "median"}, default="refuse"
        What to do with missing values; `n_imputed_` says how many were filled.
    scale : {"range", "unit", "standard", "none"}, default="range"
        The scale in which the method works: range [0, 1], columns of length 1, variance 1, or as they are. The release is in
        the units of the table, and so is the distortion.
    random_state : int, optional
        Makes the release repeatable. Whoever knows it can undo the noise: keep it secret. If not given, it comes from the
        operating system and is forgotten.

    Attributes
    ----------
    level_ : float
        The setting used.
    distortion_ : float
        Value difference of the fitted table's release.
    n_imputed_ : int
    guarantee_ : Guarantee
        That there is none.
    n_features_in_ : int
    feature_names_in_ : ndarray

    Privacy
    -------
    None is proven.

    Examples
    --------
    >>> import numpy as np
    >>> from tacit.perturb import AdditiveNoise
    >>> table = np.random.default_rng(0).random((200, 3))
    >>> method = AdditiveNoise(target_distortion=0.1, random_state=1)
    >>> released = method.fit_transform(table)
    >>> round(method.distortion_, 2)
    0.1
    """

    _noisy = True

    level: float | None = public(default=None, kw_only=False)
    kind: str = public(default="uniform")

    def _learn(self, rows: Rows, y: Any) -> None:
        check_choice(self.kind, "kind", KINDS)

    def _settings(self, rows: Rows) -> Range:
        return Range(0.0, math.inf)

    def _change(self, rows: Rows, level: float) -> Rows:
        generator = self._generator(rows)
        noise = generator.random(rows.shape) - 0.5 if self.kind == "uniform" else generator.standard_normal(rows.shape)
        changed: Rows = rows + level * np.asarray(noise)
        return changed
