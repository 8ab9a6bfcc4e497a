"""Rotation: all rows are turned about their mean by one random rotation, so that their distances stay."""

from __future__ import annotations

import numpy as np

from tacit.estimators.base import learned, public
from tacit.perturb.base import Rows, TablePerturbation
from tacit.perturb.target import Range


class RotationRelease(TablePerturbation):
    r"""Turn all rows by one random rotation: :math:`\tilde A = \bar A + (A - \bar A)\, e^{\ell S}`.

    S is the logarithm of a random rotation: at :math:`\ell = 0` nothing changes, at 1 the rotation is the random one, and in
    between it is a part of it. Distances and inner products between rows stay, and with them clusters and most classifiers.
    Appended rows are turned by the same rotation (`transform`).

    Parameters
    ----------
    level : float, optional
        The :math:`\ell` above, from 0 to 1.
    target_distortion : float, optional
        Instead: the value difference to reach.
    columns, unchanged, missing, random_state
        As in `AdditiveNoise`.
    scale : {"range", "unit", "standard", "none"}, default="standard"
        As in `AdditiveNoise`; distances stay in this scale.

    Attributes
    ----------
    level_, distortion_, n_imputed_, guarantee_
        As in `AdditiveNoise`.

    Privacy
    -------
    None is proven, and the rotation is undone by whoever knows as many rows as there are columns, and two more:
    `tacit.measure.attacks.known_sample_regression`.

    References
    ----------
    Thapa 2013, section 7.3.3, where tables are rotated to test measures. K. Chen and L. Liu (2005). Privacy preserving
    data classification with rotation perturbation. ICDM. The attack: K. Liu, C. Giannella and H. Kargupta (2006). An
    attacker's view of distance preserving maps. PKDD.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.spatial.distance import pdist
    >>> from tacit.perturb import RotationRelease
    >>> table = np.random.default_rng(0).normal(size=(50, 4))
    >>> released = RotationRelease(1.0, scale="none").fit_transform(table)
    >>> bool(np.allclose(pdist(released), pdist(table))), bool(np.allclose(released, table))
    (True, False)
    """

    _noisy = True

    level: float | None = public(default=None, kw_only=False)
    scale: str = public(default="standard")
    _mean: Rows = learned()
    _turn: Rows = learned()

    def _learn(self, rows: Rows, y: object) -> None:
        from scipy.linalg import logm
        from scipy.stats import special_ortho_group

        self._mean = rows.mean(axis=0)
        if rows.shape[1] == 1:  # one column cannot be turned
            self._turn = np.zeros((1, 1))
            return
        rotation = special_ortho_group.rvs(rows.shape[1], random_state=self._generator(rows, "rotation"))
        turn = np.real(logm(rotation))
        self._turn = (turn - turn.T) / 2  # exactly skew-symmetric, so that its exponential is a rotation

    def _settings(self, rows: Rows) -> Range:
        return Range(0.0, 1.0)

    def _change(self, rows: Rows, level: float) -> Rows:
        from scipy.linalg import expm

        changed: Rows = self._mean + (rows - self._mean) @ expm(level * self._turn)
        return changed
