"""Additive noise: every value gets independent noise, in proportion to the range of its column.

Equation (4.19) of Thapa (2013), Z = X + epsilon; the thesis does not state the size of the noise.
"""

from __future__ import annotations

import math

import numpy as np

from tacit.estimators.base import public
from tacit.perturb.base import Rows, TablePerturbation
from tacit.perturb.target import Range
from tacit.validation import check_choice

KINDS = ("uniform", "normal")


class AdditiveNoise(TablePerturbation):
    r"""Add independent noise to every value: :math:`\tilde a_{ij} = a_{ij} + \ell\, r_j\, e_{ij}`.

    :math:`r_j` is the range of column j (with ``scale="range"``) and e is uniform on [-1/2, 1/2] or standard normal: RD
    and ND in Thapa (2013), section 4.9, equation (4.19). Noise on correlated columns can be filtered out: see
    `tacit.measure.attacks`.

    Parameters
    ----------
    level : float, optional
        The :math:`\ell` above.
    kind : {"uniform", "normal"}, default="uniform"
    target_distortion : float, optional
        Instead of `level`: the value difference :math:`\|A - \tilde A\|_F / \|A\|_F` to reach.
    columns : sequence of str or int, optional
        Columns to change, by name or index; all except those in `unchanged` if not given. In a data frame, columns that are not
        numeric or look like identifiers are then refused.
    unchanged : sequence of str or int, default=()
        Columns to release unchanged. No other column is released unchanged.
    missing : {"refuse", "mean", "median"}, default="refuse"
        What to do with missing values; `n_imputed_` is the number of filled ones.
    scale : {"range", "unit", "standard", "none"}, default="range"
        The scale in which the method works: range [0, 1], columns of norm 1, variance 1, or no scaling. The release has the
        units of the table, and so has the distortion.
    random_state : int, optional
        Makes the release reproducible. Anyone who knows it can undo the noise: keep it secret. If not given, it comes from the
        operating system and is not kept.

    Attributes
    ----------
    level_ : float
        The setting used.
    distortion_ : float
        Value difference of the fitted table's release.
    n_imputed_ : int
    guarantee_ : Guarantee
        States that there is none.
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

    def _learn(self, rows: Rows, y: object) -> None:
        check_choice(self.kind, "kind", KINDS)

    def _settings(self, rows: Rows) -> Range:
        return Range(0.0, math.inf)

    def _change(self, rows: Rows, level: float) -> Rows:
        generator = self._generator(rows)
        noise = generator.random(rows.shape) - 0.5 if self.kind == "uniform" else generator.standard_normal(rows.shape)
        changed: Rows = rows + level * np.asarray(noise)
        return changed
