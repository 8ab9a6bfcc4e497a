r"""Counts that leave their site only with noise: two-sided geometric, drawn where the counts are.

.. math:: z = x + \tau, \qquad P(\tau) = \frac{1-a}{1+a} a^{|\tau|}, \qquad a = e^{-\varepsilon/\Delta}

One entry that changes by at most :math:`\Delta` makes any outcome at most :math:`e^\varepsilon` times as likely. (Section
4.1.4 of Ermis 2020 writes :math:`\varepsilon` for `a` itself; see `tacit.privacy.published.ermis_geometric_epsilon`.)

References
----------
A. Ghosh, T. Roughgarden, M. Sundararajan. Universally utility-maximizing privacy mechanisms. STOC 2009.
"""

from __future__ import annotations

import math
import os
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.errors import InvalidInputError, PrivacyWarning, kind_of, words
from tacit.estimators.base import Estimator, public, released, starts_fresh, withheld
from tacit.estimators.private import AGAIN
from tacit.privacy.guarantee import Guarantee
from tacit.privacy.ledger import Ledger
from tacit.privacy.ledger.spending import Spending, check_chargeable, open_ledger
from tacit.privacy.noise import discrete_laplace
from tacit.privacy.noise.entropy import insecure_generator
from tacit.privacy.releases import GeometricRelease
from tacit.validation import check_count, check_epsilon

MOST_COUNT = 2**40
NEGLIGIBLE = 1e-15
"""The loss never exceeds epsilon, so any delta will do for the accountant's arithmetic."""


@dataclass(frozen=True, eq=False)
class NoisyCounts:
    r"""A table of counts as its site lets others see it.

    Attributes
    ----------
    values : ndarray of int64
        The counts plus noise: negative numbers are normal. Zero where not observed.
    scale : float
        Of the noise: :math:`\Delta/\varepsilon`.
    observed : ndarray of bool
        Which cells hold counts: public.
    guarantee : Guarantee
    """

    values: NDArray[np.int64]
    scale: float
    observed: NDArray[np.bool_]
    guarantee: Guarantee


def checked_counts(counts: ArrayLike, name: str = "counts") -> NDArray[np.int64]:
    """Return counts as integers; negative numbers, fractions and NaN are refused."""
    given = np.asarray(counts)
    if given.dtype.kind not in "iufb" or given.ndim == 0 or given.size == 0:
        raise InvalidInputError(
            f"{name} to be a table of whole numbers", kind_of(given), "Give an array of counts with at least one cell."
        )
    if given.dtype.kind == "f" and not np.all(np.isfinite(given) & (given == np.rint(given))):
        raise InvalidInputError(
            f"{name} to be whole numbers",
            words("fractions, NaN or infinity"),
            "Mark missing cells by `observed`, and round the others.",
        )
    if given.min() < 0 or given.max() > MOST_COUNT:
        raise InvalidInputError(
            f"{name} between 0 and 2**40",
            words("negative numbers" if given.min() < 0 else "larger numbers"),
            "Correct the counts. Only what `privatise` returns may be negative.",
        )
    return given.astype(np.int64)


def checked_mask(observed: Any, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Return which cells are observed; all, if not said."""
    mask = np.ones(shape, dtype=bool) if observed is None else np.asarray(observed)
    if mask.dtype != bool or mask.shape != shape:
        raise InvalidInputError(
            f"observed to be a boolean table of shape {shape}",
            kind_of(mask),
            "Mark known cells True.",
        )
    return mask


class LocallyPrivateCounts(Estimator):
    r"""Add two-sided geometric noise to a table of counts, at the site that holds it.

    Parameters
    ----------
    epsilon : float
        Privacy loss of an entry.
    delta_max : int, default=1
        The most by which a protected entry may change, :math:`\Delta`. If the counts are cut off at it first, an entry's
        whole value is protected.
    ledger : Ledger or path, optional
        Charged before anything is released; a path is that of an existing ledger.
    dataset : str, optional
        The account to charge; the data's fingerprint if not given.
    insecure_seed : int, optional
        Reproducible noise, for tests only; voids the guarantee.

    Attributes
    ----------
    scale_ : float
        :math:`\Delta/\varepsilon`; the noise has standard deviation of about 1.41 times it.
    guarantee_ : Guarantee

    Privacy
    -------
    Unit: one entry, changed by at most `delta_max`. What leaves: every observed entry plus independent noise; which
    entries are observed is public. Pure epsilon: the bound holds with delta = 0. Nobody needs to be trusted but the site.
    Whoever has k entries that change together is protected with k epsilon.

    References
    ----------
    B. Ermis. Bayesian coupled factorization and differential privacy. PhD thesis, 2020, section 4.1.4 and appendix D.

    Examples
    --------
    >>> import numpy as np
    >>> from tacit import LocallyPrivateCounts
    >>> site = LocallyPrivateCounts(epsilon=1.0, delta_max=2)
    >>> view = site.privatise(np.arange(6).reshape(2, 3))
    >>> view.values.shape, view.scale, site.guarantee_.unit
    ((2, 3), 2.0, 'cell')
    """

    epsilon: float = public(default=1.0, kw_only=False)
    delta_max: int = public(default=1, kw_only=False)
    ledger: Ledger | str | os.PathLike[str] | None = withheld(default=None)
    dataset: str | None = withheld(default=None)
    insecure_seed: int | None = withheld(default=None)
    scale_: float = released()

    _withholds = True

    @starts_fresh
    def privatise(self, counts: ArrayLike, *, observed: Any = None) -> NoisyCounts:
        """Return the table with noise: what others may see.

        Parameters
        ----------
        counts : array_like of int
            Of any order.
        observed : array_like of bool, optional
            Which cells hold counts (public); all if not given.
        """
        epsilon, most = check_epsilon(self.epsilon), check_count(self.delta_max, "delta_max")
        table = checked_counts(counts)
        mask = checked_mask(observed, table.shape)
        # rounded up, so that the noise is never less than asked for
        scale = math.nextafter(most / epsilon, math.inf) if most / (most / epsilon) > epsilon else most / epsilon
        guarantee = Guarantee.from_releases(
            [GeometricRelease("counts", scale=scale, sensitivity=most)],
            delta=NEGLIGIBLE,
            unit="cell",
            adjacency="replace-one",
            trust="Only the site that holds the counts must be trusted. The bound also holds with delta = 0",
            assumptions=(
                f"a cell's value changes by at most {most}",
                "which cells are observed is public",
            ),
        )
        if self.insecure_seed is not None:
            guarantee = guarantee.voided("the noise came from a fixed seed (insecure_seed), so anyone can subtract it")
        elif getattr(self, "_has_released", False) and self.ledger is None:
            warnings.warn(AGAIN, PrivacyWarning, stacklevel=3)
        generator = None if self.insecure_seed is None else insecure_generator(self.insecure_seed)
        if self.ledger is not None:
            account = table if self.dataset is None else self.dataset
            Spending.on(open_ledger(self.ledger), account, type(self).__name__).charge(guarantee)
        self._has_released = True
        noise = discrete_laplace(scale, table.shape, generator=generator)
        self.scale_, self.guarantee_ = scale, guarantee
        return NoisyCounts(np.where(mask, table + noise, 0), scale, mask, guarantee)

    def _before_fit(self) -> None:
        check_chargeable(self.ledger, self.epsilon, self.insecure_seed)
