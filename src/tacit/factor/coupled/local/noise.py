r"""Counts that leave their site with noise only: two-sided geometric noise, drawn at the site.

.. math:: z = x + \tau, \qquad P(\tau) = \frac{1-a}{1+a} a^{|\tau|}, \qquad a = e^{-\varepsilon/\Delta}

If one entry changes by at most :math:`\Delta`, the probability of any outcome changes by at most a factor of
:math:`e^\varepsilon`. This is eq. 4.15 of Ermis 2020 (Method 1 of its Table D.1), which writes :math:`\varepsilon` for
`a` itself and has :math:`\Delta = 1`; see `tacit.privacy.published.ermis_geometric_epsilon`.

References
----------
A. Ghosh, T. Roughgarden, M. Sundararajan. Universally utility-maximizing privacy mechanisms. STOC 2009.
"""

from __future__ import annotations

import json
import math
import os
import warnings
import zipfile
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.errors import InvalidInputError, PrivacyWarning, Undisclosed, kind_of, words
from tacit.estimators.base import Estimator, public, released, starts_fresh, withheld
from tacit.estimators.private import AGAIN
from tacit.factor.coupled.cells import TensorLike, checked_cells, refuse_duplicates
from tacit.privacy.guarantee import Guarantee
from tacit.privacy.ledger import Ledger
from tacit.privacy.ledger.spending import Spending, check_chargeable, open_ledger
from tacit.privacy.noise import discrete_laplace
from tacit.privacy.noise.entropy import insecure_generator
from tacit.privacy.releases import GeometricRelease
from tacit.validation import check_count, check_epsilon

MOST_COUNT = 2**40
"""Largest count. Set by hand: with noise added it is far from the limits of int64."""
NEGLIGIBLE = 1e-15
"""The delta for the accountant. The privacy loss never exceeds epsilon, so any delta gives the same epsilon."""


@dataclass(frozen=True, eq=False)
class NoisyCounts:
    r"""Counts with noise, as their site releases them: a table, or a list of the observed cells of a table or tensor.

    Attributes
    ----------
    values : ndarray of int64
        The counts plus noise, which may be negative. Of a table, zero in cells that are not observed.
    scale : float
        Scale of the noise, :math:`\Delta/\varepsilon`.
    observed : ndarray of bool, or None
        Which cells of a table hold counts: public. None for a list.
    guarantee : Guarantee
    cells : ndarray of int64, shape (n, order), or None
        The places of the counts in a list: public. None for a table.
    shape : tuple of int, or None
        The shape of the table or tensor that a list belongs to.
    """

    values: NDArray[np.int64]
    scale: float
    observed: NDArray[np.bool_] | None
    guarantee: Guarantee
    cells: NDArray[np.int64] | None = None
    shape: tuple[int, ...] | None = None

    def listed(self) -> CountList:
        """Return the observed cells as a list."""
        if self.cells is not None and self.shape is not None:
            return CountList(self.cells, self.values, self.shape)
        assert self.observed is not None
        return CountList(np.argwhere(self.observed), self.values[self.observed], self.values.shape)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write what is released, with its guarantee, to a file that `NoisyCounts.load` reads."""
        listed = self.listed()
        with open(path, "wb") as file:
            np.savez_compressed(
                file,
                cells=listed.cells,
                values=listed.values,
                shape=np.array(listed.shape),
                scale=np.array(self.scale),
                guarantee=np.array(json.dumps(self.guarantee.to_dict())),
            )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> NoisyCounts:
        """Read a file that `save` wrote; its guarantee is checked as that of every file."""
        try:
            with np.load(path, allow_pickle=False) as arrays:
                shape = tuple(int(size) for size in arrays["shape"])
                cells, values = arrays["cells"].astype(np.int64), arrays["values"].astype(np.int64)
                scale, stated = float(arrays["scale"]), json.loads(str(arrays["guarantee"]))
            is_list = cells.ndim == 2 and cells.shape == (len(values), len(shape)) and scale > 0
            if not is_list or (len(cells) and ((cells < 0).any() or (cells >= np.array(shape)).any())):
                raise ValueError("another form")
        except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
            raise InvalidInputError(
                "a file of noisy counts, as `NoisyCounts.save` and `tacit fit local` write it",
                words(f"a file that cannot be read as one ({type(error).__name__})"),
                "Ask for the file again.",
            ) from None
        return cls(values, scale, None, Guarantee.from_dict(stated), cells, shape)


@dataclass(frozen=True, eq=False, repr=False)
class CountList(Undisclosed):
    """A list of cells of a table or tensor, with their counts.

    Attributes
    ----------
    cells : ndarray of int64, shape (n, order)
        In ascending order.
    values : ndarray of int64, shape (n,)
    shape : tuple of int
    """

    cells: NDArray[np.int64]
    values: NDArray[np.int64]
    shape: tuple[int, ...]


def listed_counts(counts: Any, observed: ArrayLike | None = None) -> CountList | None:
    """Return sparse counts as a list of their stored cells; None for arrays.

    Sparse counts are a scipy sparse array or ``(coords, values, shape)``, with ``observed="stored"``: their places are public.
    """
    is_triple = isinstance(counts, tuple) and len(counts) == 3 and np.ndim(counts[0]) == 2 and np.ndim(counts[2]) == 1
    if not hasattr(counts, "tocoo") and not is_triple:
        return None
    if not isinstance(observed, str) or observed != "stored":
        raise InvalidInputError(
            'observed="stored" for sparse counts',
            words("nothing that says that their places are public"),
            "If it is not public which cells are stored, convert the counts to an array, with zeros: every cell gets noise.",
        )
    if is_triple:
        coords, values, shape = counts
    else:
        entries = counts.tocoo()
        coords, values, shape = np.stack([*entries.coords], axis=1), entries.data, entries.shape
    sizes = tuple(int(size) for size in shape)
    places = checked_cells(coords, sizes, "the stored cells")
    refuse_duplicates(places, sizes, "the stored cells")
    cells = places.astype(np.int64)
    numbers = checked_counts(values)
    if numbers.shape != (len(cells),):
        raise InvalidInputError(
            "one count for each stored cell", words("more or fewer counts than cells"), "Give as many counts as cells."
        )
    order = np.lexsort(cells.T[::-1])
    return CountList(cells[order], numbers[order], sizes)


def named_by(counts: TensorLike, observed: ArrayLike | None = None) -> object:
    """Return what names the account of counts in a ledger, if nobody names it: their fingerprint is computed from this."""
    listed = listed_counts(counts, observed)
    return checked_counts(counts) if listed is None else (listed.cells, listed.values)


def checked_counts(counts: TensorLike, name: str = "counts") -> NDArray[np.int64]:
    """Return counts as integers; raise for negative numbers, fractions and NaN."""
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


def checked_mask(observed: ArrayLike | None, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Return which cells are observed; all if `observed` is None."""
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
        Privacy loss of one entry.
    delta_max : int, default=1
        Largest change of a protected entry, :math:`\Delta`. If the counts are clipped to it first, the whole value of an
        entry is protected.
    ledger : Ledger or path, optional
        Charged before anything is released; a path must be that of an existing ledger.
    dataset : str, optional
        The account to charge; the data's fingerprint if not given.
    insecure_seed : int, optional
        Reproducible noise, for tests only; voids the guarantee.

    Attributes
    ----------
    scale_ : float
        :math:`\Delta/\varepsilon`; the standard deviation of the noise is about 1.41 times this.
    guarantee_ : Guarantee

    Privacy
    -------
    Unit: one entry, changed by at most `delta_max`. What leaves: every observed entry plus independent noise; which
    entries are observed is public. Pure epsilon: the bound holds with delta = 0. Only the site must be trusted. Somebody
    with k entries that change together is protected with k epsilon.

    References
    ----------
    B. Ermis. Bayesian approaches for privacy preserving data sharing. PhD thesis, 2020, section 4.1.4 (eq. 4.15) and
    appendix D.

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
    def privatise(self, counts: TensorLike, *, observed: ArrayLike | None = None) -> NoisyCounts:
        """Return the table with noise, which may be released.

        Parameters
        ----------
        counts : array_like of int, scipy sparse array or ``(coords, values, shape)``
            With any number of axes. All cells of an array get noise, also zeros. Of sparse counts, the stored cells do, and
            their places are released: they must be public (``observed="stored"``).
        observed : array_like of bool, or "stored" for sparse counts
            Which cells hold counts (public); all cells of an array if not given.
        """
        epsilon, most = check_epsilon(self.epsilon), check_count(self.delta_max, "delta_max")
        listed = listed_counts(counts, observed)
        table = checked_counts(counts) if listed is None else listed.values
        mask = checked_mask(None if listed is not None else observed, table.shape)
        # rounded up, so that the noise is never too small
        scale = math.nextafter(most / epsilon, math.inf) if most / (most / epsilon) > epsilon else most / epsilon
        discrete_laplace(scale, 0)  # noise that cannot be drawn is refused before anything is charged
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
            account = named_by(counts, observed) if self.dataset is None else self.dataset
            Spending.on(open_ledger(self.ledger), account, type(self).__name__).charge(guarantee)
        self._has_released = True
        noise = discrete_laplace(scale, table.shape, generator=generator)  # tau of eq. 4.15, with a = exp(-1 / scale)
        self.scale_, self.guarantee_ = scale, guarantee
        if listed is not None:
            return NoisyCounts(table + noise, scale, None, guarantee, listed.cells, listed.shape)
        return NoisyCounts(np.where(mask, table + noise, 0), scale, mask, guarantee)

    def _before_fit(self) -> None:
        check_chargeable(self.ledger, self.epsilon, self.insecure_seed)
