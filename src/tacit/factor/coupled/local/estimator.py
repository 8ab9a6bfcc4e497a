"""Poisson factorisation of count tables that share their columns, some or all of them seen only with noise.

The sampler starts at the main directions of the noisy tables, in which most of the noise averages out. It would get there from
any start, but slowly where the noise is strong: a noisy cell says little about its count.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, logsumexp
from sklearn.decomposition import NMF
from sklearn.exceptions import ConvergenceWarning

from tacit.errors import InvalidInputError, Undisclosed, parameter, words
from tacit.estimators.base import learned, public, released
from tacit.estimators.saved import SavedModel
from tacit.factor.coupled.local.kernels import LEAST_RATE, draw_counts, draw_counts_and_noise, share_counts
from tacit.factor.coupled.local.noise import NoisyCounts, checked_counts, checked_mask
from tacit.privacy.guarantee import Guarantee
from tacit.validation import check_choice, check_count, check_positive, check_seed

LEAST = 0.05
WEAK = 0.01
"""Shape and rate of the prior of the rows' rates, where these are learned."""


def start_of(
    tables: Sequence[NDArray[np.int64]], observed: Sequence[NDArray[np.bool_]], rank: int, seed: int
) -> tuple[list[NDArray[np.float64]], NDArray[np.float64]]:
    """Return positive rows of every table, and shared columns of mean about 1, from tables with the same columns."""
    joined = np.concatenate([_filled(table, mask) for table, mask in zip(tables, observed, strict=True)])
    left, values, right = np.linalg.svd(joined, full_matrices=False)
    smooth = np.maximum((left[:, :rank] * values[:rank]) @ right[:rank], LEAST)
    used = min(rank, *smooth.shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a start need not have converged
        model = NMF(used, init="random", max_iter=100, random_state=seed)
        found = model.fit_transform(smooth)
    scales = model.components_.mean(axis=1) + LEAST
    rows, shared = np.full((len(joined), rank), LEAST), np.full((joined.shape[1], rank), LEAST)
    rows[:, :used] += found * scales
    shared[:, :used] += (model.components_ / scales[:, None]).T
    ends = np.cumsum([0, *(len(table) for table in tables)])
    return [rows[first:last] for first, last in itertools.pairwise(ends)], shared


def _filled(table: NDArray[np.int64], observed: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the table with its unknown cells set to row mean times column mean over the mean."""
    known = np.where(observed, table, 0).astype(np.float64)
    rows = known.sum(axis=1) / np.maximum(observed.sum(axis=1), 1)
    columns = known.sum(axis=0) / np.maximum(observed.sum(axis=0), 1)
    level = max(float(known.sum() / max(observed.sum(), 1)), LEAST)
    return np.where(observed, known, np.maximum(np.outer(rows, columns) / level, 0.0))


@dataclass(eq=False, repr=False)
class _Site(Undisclosed):
    """One site's table and the state of its draw."""

    z: NDArray[np.int64]
    observed: NDArray[np.bool_]
    scale: float | None
    own: NDArray[np.float64]
    counts: NDArray[np.int64]
    noise_rates: NDArray[np.float64] | None
    rate: NDArray[np.float64]


class LocalCountFactorization(SavedModel):
    r"""Tables :math:`X^{(n)}_{ij} \sim \mathrm{Poisson}(\sum_k U^{(n)}_{ik} V_{jk})` of several sites, V shared, noise known.

    The sites' tables have the same columns. A table may be given as it is, or as the `NoisyCounts` that its site let out.
    With all tables noisy this is LDP1 of [1]_: anyone may fit it. With a site's own table in the clear and the others'
    noisy it is LDP2: the site fits it, and keeps it.

    Parameters
    ----------
    n_components : int, default=5
    noise : {"modelled", "naive"}, default="modelled"
        "modelled": Gibbs sampling with the true counts as latent variables, so that noise is treated as noise.
        "naive": the noisy counts, negative ones set to zero, taken for the truth. For comparison only.
    latent : {"counts", "skellam"}, default="counts"
        What is drawn for a noisy cell. "counts": the true count, the noise being summed out. "skellam": the variables of
        [2]_ (a difference of two Poisson counts with exponential rates, Bessel-distributed given the rest). Both have the same
        posterior; the first forgets its past sooner.
    sweeps, burn_in : int, default=600, 300
        Number of sweeps, and how many of the first are thrown away.
    n_samples : int, default=100
        How many of the rest are kept, evenly spread.
    prior_shape : float, default=0.5
        Of the Gamma priors of U and V.
    prior_rate : float, optional
        Of the prior of U; learned per site and component if not given. V's is `prior_shape`, so its mean is 1.
    random_state : int, default=0
        Of the sampler; it protects nothing.

    Attributes
    ----------
    shared_samples_ : ndarray of shape (n_samples, n_columns, n_components)
    own_samples_ : ndarray of shape (n_samples, n_rows of all sites, n_components)
        Site by site, in the order given.
    site_ends_ : ndarray of int, shape (n_sites + 1,)
    expected_counts_ : list of ndarray
        The posterior mean of every site's true counts; not saved.
    guarantee_ : Guarantee
        That of the noisy tables; none if a table was given in the clear.

    Privacy
    -------
    The fit sees what it is given and adds nothing: what is computed from noisy tables alone is as private as these.

    References
    ----------
    .. [1] B. Ermis. Bayesian coupled factorization and differential privacy. PhD thesis, 2020, section 4.1.4.
    .. [2] A. Schein et al. Locally private Bayesian inference for count models. ICML 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from tacit import LocalCountFactorization, LocallyPrivateCounts
    >>> rng = np.random.default_rng(0)
    >>> tables = [rng.poisson(rng.gamma(1, 3, (20, 1)) * rng.gamma(1, 1, 8)) for _ in range(2)]
    >>> views = [LocallyPrivateCounts(epsilon=1.0).privatise(table) for table in tables]
    >>> ldp1 = LocalCountFactorization(2, sweeps=60, burn_in=30, n_samples=10).fit(views)
    >>> ldp2 = LocalCountFactorization(2, sweeps=60, burn_in=30, n_samples=10).fit([tables[0], views[1]])
    >>> ldp1.guarantee_.holds, ldp2.guarantee_.holds, ldp1.predict(0).shape
    (True, False, (20, 8))
    """

    n_components: int = public(default=5, kw_only=False)
    noise: str = public(default="modelled")
    latent: str = public(default="counts")
    sweeps: int = public(default=600)
    burn_in: int = public(default=300)
    n_samples: int = public(default=100)
    prior_shape: float = public(default=0.5)
    prior_rate: float | None = public(default=None)
    random_state: int = public(default=0)
    shared_samples_: NDArray[np.float64] = released()
    own_samples_: NDArray[np.float64] = released()
    site_ends_: NDArray[np.int64] = released()
    expected_counts_: list[NDArray[np.float64]] = learned()

    def fit(self, tables: Sequence[Any], *, observed: Sequence[Any] | None = None) -> LocalCountFactorization:
        """Draw from the posterior.

        Parameters
        ----------
        tables : sequence of NoisyCounts or array_like of int
            One a site, of two axes, all with the same columns. Noisy ones bring their own mask.
        observed : sequence of array_like of bool or None, optional
            For tables in the clear: which cells are known.
        """
        self._check_settings()
        generator = np.random.default_rng(check_seed(self.random_state))
        sites = self._sites(tables, observed)
        shared = self._start(sites, generator)
        kept = set(
            np.linspace(self.burn_in, self.sweeps - 1, min(self.n_samples, self.sweeps - self.burn_in))
            .astype(int)
            .tolist()
        )
        drawn_shared, drawn_own = [], []
        expected = [np.zeros(site.z.shape) for site in sites]
        for sweep in range(self.sweeps):
            shared = self._sweep(sites, shared, generator)
            if sweep in kept:
                drawn_shared.append(shared)
                drawn_own.append(np.concatenate([site.own for site in sites]))
            if sweep >= self.burn_in:
                for place, site in enumerate(sites):
                    expected[place] += site.counts / (self.sweeps - self.burn_in)
        self.shared_samples_, self.own_samples_ = np.stack(drawn_shared), np.stack(drawn_own)
        self.site_ends_ = np.cumsum([0, *(len(site.own) for site in sites)])
        self.expected_counts_ = expected
        self.guarantee_ = _weakest(tables)
        return self

    def predict(self, site: int = 0) -> NDArray[np.float64]:
        """Return the posterior mean of the site's rates."""
        own = self._own(site)
        mean: NDArray[np.float64] = np.einsum("sik,sjk->ij", own, self.shared_samples_, optimize=True) / len(own)
        return mean

    def score(self, counts: ArrayLike, *, site: int = 0, observed: Any = None) -> float:
        r"""Return the mean log-likelihood of true counts, :math:`\log \frac1S\sum_s P(x \mid U_s, V_s)`, over the cells observed.

        Parameters
        ----------
        counts : array_like of int
            The site's true counts.
        site : int, default=0
        observed : array_like of bool, optional
            Which cells to score: those held out.
        """
        table = checked_counts(counts)
        own = self._own(site)
        if table.shape != (own.shape[1], self.shared_samples_.shape[1]):
            raise InvalidInputError(
                f"counts of shape {(own.shape[1], self.shared_samples_.shape[1])}",
                words("another shape"),
                "Give the site's whole table.",
            )
        rows, columns = np.nonzero(checked_mask(observed, table.shape))
        x = table[rows, columns]
        logs = np.empty((len(own), len(x)))
        for sample, (left, right) in enumerate(zip(own, self.shared_samples_, strict=True)):
            rates = np.einsum("ik,ik->i", left[rows], right[columns]) + LEAST_RATE
            logs[sample] = x * np.log(rates) - rates - gammaln(x + 1)
        return float(np.mean(logsumexp(logs, axis=0) - math.log(len(own))))

    def _check_settings(self) -> None:
        check_count(self.n_components, "n_components")
        check_choice(self.noise, "noise", ("modelled", "naive"))
        check_choice(self.latent, "latent", ("counts", "skellam"))
        check_count(self.burn_in, "burn_in", least=0)
        check_count(self.sweeps, "sweeps", least=self.burn_in + 1)
        check_count(self.n_samples, "n_samples")
        check_positive(self.prior_shape, "prior_shape")
        if self.prior_rate is not None:
            check_positive(self.prior_rate, "prior_rate")

    def _sites(self, tables: Sequence[Any], observed: Sequence[Any] | None) -> list[_Site]:
        if not len(tables):
            raise InvalidInputError("at least one table", words("none"), "Give one table per site.")
        masks = [None] * len(tables) if observed is None else list(observed)
        if len(masks) != len(tables):
            raise InvalidInputError(
                "one mask per table",
                words(f"{len(masks)} masks for {len(tables)} tables"),
                "Use None for tables without one.",
            )
        sites = [self._site(table, mask) for table, mask in zip(tables, masks, strict=True)]
        for site in sites:
            if site.z.ndim != 2 or site.z.shape[1] != sites[0].z.shape[1]:
                raise InvalidInputError(
                    "tables with two axes and the same number of columns",
                    words(f"{site.z.ndim} axes" if site.z.ndim != 2 else "different numbers of columns"),
                    "Give all sites' tables the same columns: these are shared.",
                )
        if not any(site.observed.any() for site in sites):
            raise InvalidInputError("at least one observed cell", words("none"), "Mark known cells True.")
        return sites

    def _site(self, table: Any, mask: Any) -> _Site:
        scale = None
        if isinstance(table, NoisyCounts):
            z, seen, scale = table.values, table.observed, table.scale
            if self.noise == "naive":
                z, scale = np.maximum(z, 0), None
        else:
            z = checked_counts(table)
            seen = checked_mask(mask, z.shape)
        rates = None
        if scale is not None and self.latent == "skellam":
            rates = np.full((2, *z.shape), scale)
        counts = np.where(seen, np.maximum(z, 0), 0)
        return _Site(z, seen, scale, np.empty((len(z), self.n_components)), counts, rates, np.ones(self.n_components))

    def _start(self, sites: list[_Site], generator: np.random.Generator) -> NDArray[np.float64]:
        rows, shared = start_of(
            [site.z for site in sites], [site.observed for site in sites], self.n_components, self.random_state
        )
        for site, own in zip(sites, rows, strict=True):
            site.own = own * generator.gamma(20.0, 1 / 20, own.shape)
            site.rate = np.full(
                self.n_components, self.prior_shape / float(own.mean()) if self.prior_rate is None else self.prior_rate
            )
        return shared

    def _sweep(
        self, sites: list[_Site], shared: NDArray[np.float64], generator: np.random.Generator
    ) -> NDArray[np.float64]:
        """Draw the true counts, then U, then V, each given the rest."""
        parts, exposure = np.zeros_like(shared), np.zeros_like(shared)
        for site in sites:
            if site.noise_rates is not None and site.scale is not None:
                ratio = math.exp(-1 / site.scale)
                draw_counts_and_noise(
                    site.z, site.observed, site.own, shared, ratio, generator, site.counts, site.noise_rates
                )
            elif site.scale is not None:
                ratio = math.exp(-1 / site.scale)
                draw_counts(site.z, site.observed, site.own, shared, ratio, generator, site.counts)
            by_row, by_column = np.zeros_like(site.own), np.zeros_like(shared)
            share_counts(site.counts, site.observed, site.own, shared, generator, by_row, by_column)
            site.own = _gamma(generator, self.prior_shape + by_row, site.rate + site.observed @ shared)
            if self.prior_rate is None:
                site.rate = _gamma(generator, WEAK + self.prior_shape * len(site.own), WEAK + site.own.sum(axis=0))
            parts += by_column
            exposure += site.observed.T @ site.own
        return _gamma(generator, self.prior_shape + parts, self.prior_shape + exposure)

    def _own(self, site: int) -> NDArray[np.float64]:
        if not hasattr(self, "own_samples_"):
            raise InvalidInputError("a fitted model", words("one that was not fitted"), "Call fit first.")
        if check_count(site, "site", least=0) >= len(self.site_ends_) - 1:
            raise InvalidInputError(
                f"a site below {len(self.site_ends_) - 1}", parameter(site), "Sites are numbered as they were given."
            )
        return self.own_samples_[:, self.site_ends_[site] : self.site_ends_[site + 1]]


def _gamma(generator: np.random.Generator, shape: Any, rate: NDArray[np.float64]) -> NDArray[np.float64]:
    drawn: NDArray[np.float64] = np.maximum(generator.gamma(shape, 1.0, size=np.shape(rate)) / rate, LEAST_RATE)
    return drawn


def _weakest(tables: Sequence[Any]) -> Guarantee:
    """Return what holds for an entry of any of the tables: each entry is in one of them."""
    clear = sum(not isinstance(table, NoisyCounts) for table in tables)
    if clear:
        return Guarantee.none(
            f"{clear} of {len(tables)} tables were given in the clear: keep this model at the site that holds them. The noisy "
            "tables are protected by their own guarantees"
        )
    guarantees: list[Guarantee] = [table.guarantee for table in tables]
    return max(guarantees, key=lambda guarantee: guarantee.epsilon)
