"""Poisson factorisation of count tables or tensors that share all axes but the first; some or all of them have noise.

LDP1 and LDP2 of Ermis 2020, section 4.1.4, by Gibbs sampling (eqs 4.16 and 4.17) of the model of eqs 4.1 to 4.3, in
which the true counts are drawn too (eq. 2.12).

The sampler starts at the main directions of the noisy tables, in which most of the noise averages out. From another start it
would converge to the same posterior, but slowly if the noise is strong, because a noisy cell says little about its count.
Tensors and large tables start at the means of their rows and columns.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, logsumexp
from sklearn.decomposition import NMF
from sklearn.exceptions import ConvergenceWarning

from tacit.errors import InvalidInputError, Undisclosed, parameter, words
from tacit.estimators.base import learned, public, released
from tacit.estimators.saved import SavedModel
from tacit.factor.coupled.cells import TensorLike, added, checked_cells
from tacit.factor.coupled.local.kernels import LEAST_RATE, divide_counts, draw_counts, draw_counts_and_noise
from tacit.factor.coupled.local.noise import CountList, NoisyCounts, checked_counts, checked_mask, listed_counts
from tacit.privacy.guarantee import Guarantee
from tacit.progress import tell
from tacit.validation import check_choice, check_count, check_positive, check_seed

LEAST = 0.05
"""Entries of the start are raised by this, so that none is zero. Set by hand: small against a mean of 1."""
WEAK = 0.01
"""Shape and rate of the Gamma prior of the rows' rates, if these are learned. Set by hand: a weak prior."""
MEAN_SPREAD = 2.0
"""As START_SPREAD, for the start at means, where nothing else tells the components apart. Set by hand."""
START_CELLS = 2_000_000
"""Tables with more cells than this start at means: a decomposition of the whole table would take longer than the sweeps."""
MOST_CELLS = 50_000_000
"""Most cells that `predict` returns without a list of cells: 400 MB."""
ONE_TABLE = "no cell is in two of the tables: two views of the same counts reveal more than the stated epsilon"
START_SPREAD = 20.0
"""Shape of the Gamma noise, of mean 1, that the start is multiplied by, so that it is not exactly the same for all
components. Set by hand."""


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
        weights = model.fit_transform(smooth)
    scales = model.components_.mean(axis=1) + LEAST
    rows, shared = np.full((len(joined), rank), LEAST), np.full((joined.shape[1], rank), LEAST)
    rows[:, :used] += weights * scales
    shared[:, :used] += (model.components_ / scales[:, None]).T
    ends = np.cumsum([0, *(len(table) for table in tables)])
    return [rows[first:last] for first, last in itertools.pairwise(ends)], shared


def mean_start(
    lists: Sequence[CountList], rank: int, generator: np.random.Generator
) -> tuple[list[NDArray[np.float64]], list[NDArray[np.float64]]]:
    """Return positive rows of every site, and factors of mean about 1 for the other axes, from the means along each axis."""
    shape = lists[0].shape
    level = max(sum(float(one.values.sum()) for one in lists) / max(sum(len(one.values) for one in lists), 1), LEAST)

    def means(axis: int, ones: Sequence[CountList], size: int) -> NDArray[np.float64]:
        sums, counts = np.zeros(size), np.zeros(size)
        for one in ones:
            sums += np.bincount(one.cells[:, axis], one.values, minlength=size)
            counts += np.bincount(one.cells[:, axis], minlength=size)
        return np.maximum((sums + level) / (counts + 1) / level, LEAST)

    def spread(mean: NDArray[np.float64]) -> NDArray[np.float64]:
        noise: NDArray[np.float64] = generator.gamma(MEAN_SPREAD, 1 / MEAN_SPREAD, (len(mean), rank))
        return mean[:, None] * noise

    rows = [spread(means(0, [one], one.shape[0])) * level / rank for one in lists]
    return rows, [spread(means(axis, lists, size)) for axis, size in enumerate(shape) if axis]


def _filled(table: NDArray[np.int64], observed: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the table with its unknown cells set to row mean times column mean over the mean."""
    known = np.where(observed, table, 0).astype(np.float64)
    rows = known.sum(axis=1) / np.maximum(observed.sum(axis=1), 1)
    columns = known.sum(axis=0) / np.maximum(observed.sum(axis=0), 1)
    level = max(float(known.sum() / max(observed.sum(), 1)), LEAST)
    return np.where(observed, known, np.maximum(np.outer(rows, columns) / level, 0.0))


@dataclass(eq=False, repr=False)
class _Site(Undisclosed):
    """One site's cells and the state of its chain."""

    listed: CountList
    mask: NDArray[np.bool_] | None
    scale: float | None
    own: NDArray[np.float64]
    counts: NDArray[np.int64]
    noise_rates: NDArray[np.float64] | None
    rate: NDArray[np.float64]

    @property
    def rows(self) -> NDArray[np.int64]:
        """The row of every cell."""
        return self.listed.cells[:, 0]

    def product(self, shared: Sequence[NDArray[np.float64]], *, without: int = -1) -> NDArray[np.float64]:
        """Return, for every cell, the product of the shared factors, or of all except one."""
        product = np.ones((len(self.listed.cells), self.own.shape[1]))
        for axis, factor in enumerate(shared):
            if axis != without:
                product *= factor[self.listed.cells[:, axis + 1]]
        return product


class LocalCountFactorization(SavedModel):
    r"""Tables :math:`X^{(n)}_{ij} \sim \mathrm{Poisson}(\sum_k U^{(n)}_{ik} V_{jk})` of several sites, with shared V.

    The sites' tables have the same columns; tensors share all axes except the first, with one factor each,
    :math:`\sum_k U_{ik} V_{jk} W_{lk} \cdots`. Counts are given without noise, or as the `NoisyCounts` that a site released.
    With noise in all tables this is LDP1 of [1]_: anyone may fit it. With a site's own table without noise and the others'
    with noise it is LDP2: the site fits it, and keeps the model.

    Parameters
    ----------
    n_components : int, default=5
    noise : {"modelled", "naive"}, default="modelled"
        "modelled": Gibbs sampling with the true counts as latent variables, so that noise is treated as noise.
        "naive": the noisy counts, with negative ones set to zero, are used as true counts. For comparison only.
    latent : {"counts", "skellam"}, default="counts"
        The variables that are drawn for a noisy cell. "counts": the true count, with the noise summed out. "skellam": the
        variables of [2]_ (a difference of two Poisson counts with exponential rates, Bessel-distributed given the rest).
        Both have the same posterior; the first chain mixes faster.
    sweeps, burn_in : int, default=600, 300
        Number of sweeps, and number of the first ones that are discarded.
    n_samples : int, default=100
        Number of the other sweeps that are kept, evenly spaced.
    prior_shape : float, default=0.5
        Shape of the Gamma priors of U and V.
    prior_rate : float, optional
        Rate of the prior of U; learned per site and component if not given. That of V is `prior_shape`, so its mean is 1.
    random_state : int, default=0
        Seed of the sampler. Not secret: privacy noise does not use it.
    verbose : bool, default=False
        Say on standard error what a fit is doing; see `tacit.show_progress`.

    Attributes
    ----------
    shared_samples_ : ndarray of shape (n_samples, n_columns, n_components)
        Of tensors, the factors of all shared axes, one after another.
    axis_ends_ : ndarray of int, shape (n_shared_axes + 1,)
    own_samples_ : ndarray of shape (n_samples, n_rows of all sites, n_components)
        One site after another, in the given order.
    site_ends_ : ndarray of int, shape (n_sites + 1,)
    expected_counts_ : list of ndarray
        The posterior mean of every site's true counts, in the form in which they were given; not saved.
    guarantee_ : Guarantee
        That of the noisy tables; none if a table was given without noise.

    Privacy
    -------
    The fit adds no noise. A model that is computed from noisy tables alone has the guarantee of these tables
    (post-processing): the largest epsilon of one of them, if no cell is in two.

    References
    ----------
    .. [1] B. Ermis. Bayesian approaches for privacy preserving data sharing. PhD thesis, 2020, section 4.1.4.
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
    axis_ends_: NDArray[np.int64] = released()
    expected_counts_: list[NDArray[np.float64]] = learned()

    def fit(
        self, tables: Sequence[NoisyCounts | TensorLike], *, observed: Sequence[ArrayLike | None] | None = None
    ) -> LocalCountFactorization:
        """Draw from the posterior.

        Parameters
        ----------
        tables : sequence of NoisyCounts, array_like of int, scipy sparse arrays or ``(coords, values, shape)``
            One per site, with at least two axes, of which all except the first are the same. Noisy counts have their own
            masks.
        observed : sequence of array_like of bool, "stored" or None, optional
            For counts without noise: which cells are known; "stored" for sparse counts.
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
        expected = [np.zeros(len(site.counts)) for site in sites]
        for sweep in range(self.sweeps):
            shared = self._sweep(sites, shared, generator)
            tell("sweep", sweep + 1, self.sweeps)
            if sweep in kept:
                drawn_shared.append(np.concatenate(shared))
                drawn_own.append(np.concatenate([site.own for site in sites]))
            if sweep >= self.burn_in:
                for place, site in enumerate(sites):
                    expected[place] += site.counts / (self.sweeps - self.burn_in)
        self.shared_samples_, self.own_samples_ = np.stack(drawn_shared), np.stack(drawn_own)
        self.site_ends_ = np.cumsum([0, *(len(site.own) for site in sites)])
        self.axis_ends_ = np.cumsum([0, *(len(factor) for factor in shared)])
        self.expected_counts_ = [_as_given(site, one) for site, one in zip(sites, expected, strict=True)]
        self.guarantee_ = _weakest(tables)
        return self

    def predict(self, site: int = 0, cells: ArrayLike | None = None) -> NDArray[np.float64]:
        """Return the posterior mean of the site's rates: of all cells, or of the given ones.

        Parameters
        ----------
        site : int, default=0
        cells : array_like of int, shape (n, order), optional
        """
        own, shape = self._own(site), self.shape(site)
        if cells is None:
            if math.prod(shape) > MOST_CELLS:
                raise InvalidInputError(
                    f"at most {MOST_CELLS} cells at once", parameter(math.prod(shape)), "Name the cells you need."
                )
            letters = "jlmnopqrtuvwxyz"[: len(shape) - 1]
            inputs = ",".join(["sik", *(f"s{letter}k" for letter in letters)])
            mean: NDArray[np.float64] = np.einsum(f"{inputs}->i{letters}", own, *self._shared(), optimize=True) / len(
                own
            )
            return mean
        where = checked_cells(cells, shape, "the cells to predict")
        total = np.zeros(len(where))
        for sample in range(len(own)):
            total += self._rates(sample, own, where)
        return total / len(own)

    def score(self, counts: TensorLike, *, site: int = 0, observed: ArrayLike | None = None) -> float:
        r"""Return the mean log-likelihood of true counts, :math:`\log \frac1S\sum_s P(x \mid U_s, V_s)`, over the observed cells.

        Parameters
        ----------
        counts : array_like of int, scipy sparse array or ``(coords, values, shape)``
            The site's true counts.
        site : int, default=0
        observed : array_like of bool, or "stored" for sparse counts
            Which cells to score: those that were held out.
        """
        scored = count_list(counts, observed)
        own = self._own(site)
        if scored.shape != self.shape(site):
            raise InvalidInputError(
                f"counts of shape {self.shape(site)}", words("another shape"), "Give the site's whole table."
            )
        x = scored.values
        logs = np.empty((len(own), len(x)))
        for sample in range(len(own)):
            rates = self._rates(sample, own, scored.cells) + LEAST_RATE
            logs[sample] = x * np.log(rates) - rates - gammaln(x + 1)
        return float(np.mean(logsumexp(logs, axis=0) - math.log(len(own))))

    def _rates(self, sample: int, own: NDArray[np.float64], cells: NDArray[np.integer]) -> NDArray[np.float64]:
        product = own[sample][cells[:, 0]]
        for axis, factor in enumerate(self._shared()):
            product = product * factor[sample][cells[:, axis + 1]]
        return np.asarray(product.sum(axis=1))

    def _shared(self) -> list[NDArray[np.float64]]:
        """Return the samples of every shared factor."""
        ends = itertools.pairwise(self.axis_ends_.tolist())
        return [self.shared_samples_[:, first:last] for first, last in ends]

    def shape(self, site: int = 0) -> tuple[int, ...]:
        """Return the shape of a site's table or tensor."""
        return (self._own(site).shape[1], *np.diff(self.axis_ends_).tolist())

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

    def _sites(
        self, tables: Sequence[NoisyCounts | TensorLike], observed: Sequence[ArrayLike | None] | None
    ) -> list[_Site]:
        if not len(tables):
            raise InvalidInputError("at least one table", words("none"), "Give one table per site.")
        masks = [None] * len(tables) if observed is None else list(observed)
        if len(masks) != len(tables):
            raise InvalidInputError(
                "one mask per table",
                words(f"{len(masks)} masks for {len(tables)} tables"),
                "Give None for a table without a mask.",
            )
        sites = [self._site(table, mask) for table, mask in zip(tables, masks, strict=True)]
        shape = sites[0].listed.shape
        for site in sites:
            if len(site.listed.shape) < 2 or site.listed.shape[1:] != shape[1:]:
                raise InvalidInputError(
                    "counts with at least two axes, and the same sizes of all axes except the first",
                    words("one axis" if len(site.listed.shape) < 2 else "different numbers or sizes of axes"),
                    "Give all sites' tables the same columns, which are shared.",
                )
        if not any(len(site.counts) for site in sites):
            raise InvalidInputError("at least one observed cell", words("none"), "Mark known cells True.")
        return sites

    def _site(self, table: NoisyCounts | TensorLike, mask: ArrayLike | None) -> _Site:
        scale, given = None, None
        if isinstance(table, NoisyCounts):
            listed, scale, given = table.listed(), table.scale, table.observed
            if self.noise == "naive":
                listed, scale = replace(listed, values=np.maximum(listed.values, 0)), None
        else:
            listed = count_list(table, mask)
            given = None if isinstance(mask, str) else checked_mask(mask, listed.shape)
        rates = None
        if scale is not None and self.latent == "skellam":
            rates = np.full((2, len(listed.values)), scale)
        own = np.empty((listed.shape[0], self.n_components))
        return _Site(listed, given, scale, own, np.maximum(listed.values, 0), rates, np.ones(self.n_components))

    def _start(self, sites: list[_Site], generator: np.random.Generator) -> list[NDArray[np.float64]]:
        shape = sites[0].listed.shape
        if len(shape) == 2 and sum(site.listed.shape[0] for site in sites) * shape[1] <= START_CELLS:
            tables, masks = zip(*(_as_table(site.listed) for site in sites), strict=True)
            rows, columns = start_of(tables, masks, self.n_components, self.random_state)
            shared = [columns]
            rows = [own * generator.gamma(START_SPREAD, 1 / START_SPREAD, own.shape) for own in rows]
        else:
            rows, shared = mean_start([site.listed for site in sites], self.n_components, generator)
        for site, own in zip(sites, rows, strict=True):
            site.own = own
            site.rate = np.full(
                self.n_components, self.prior_shape / float(own.mean()) if self.prior_rate is None else self.prior_rate
            )
        return shared

    def _sweep(
        self, sites: list[_Site], shared: list[NDArray[np.float64]], generator: np.random.Generator
    ) -> list[NDArray[np.float64]]:
        """Draw the true counts, then U (Ermis 2020, eq. 4.16), then the shared factors (eq. 4.17), each given the rest.

        With the priors of eqs 4.2 and 4.3 and the Poisson counts of eq. 4.1, both conditional distributions are Gamma:
        the shape is that of the prior plus the counts of a component, the rate that of the prior plus the sum of the
        other factors' products.
        """
        parts = [np.zeros_like(factor) for factor in shared]
        for site in sites:
            product = site.product(shared)
            terms = site.own[site.rows] * product
            rates, z = terms.sum(axis=1) + LEAST_RATE, site.listed.values
            if site.scale is not None and site.noise_rates is not None:
                draw_counts_and_noise(z, rates, math.exp(-1 / site.scale), generator, site.counts, site.noise_rates)
            elif site.scale is not None:
                draw_counts(z, rates, math.exp(-1 / site.scale), generator, site.counts)
            divided = np.empty_like(terms)
            divide_counts(site.counts, terms, generator, divided)
            size = len(site.own)
            exposure = added(site.rows, product, size)
            site.own = _gamma(generator, self.prior_shape + added(site.rows, divided, size), site.rate + exposure)
            if self.prior_rate is None:
                site.rate = _gamma(generator, WEAK + self.prior_shape * size, WEAK + site.own.sum(axis=0))
            for axis in range(len(shared)):
                parts[axis] += added(site.listed.cells[:, axis + 1], divided, len(shared[axis]))
        drawn = list(shared)
        for axis in range(len(shared)):
            exposure = np.zeros_like(shared[axis])
            for site in sites:
                others = site.own[site.rows] * site.product(drawn, without=axis)
                exposure += added(site.listed.cells[:, axis + 1], others, len(exposure))
            drawn[axis] = _gamma(generator, self.prior_shape + parts[axis], self.prior_shape + exposure)
        return drawn

    def _own(self, site: int) -> NDArray[np.float64]:
        if not hasattr(self, "own_samples_"):
            raise InvalidInputError("a fitted model", words("one that was not fitted"), "Call fit first.")
        if check_count(site, "site", least=0) >= len(self.site_ends_) - 1:
            raise InvalidInputError(
                f"a site below {len(self.site_ends_) - 1}",
                parameter(site),
                "Sites are numbered from 0, in the order of the tables.",
            )
        return self.own_samples_[:, self.site_ends_[site] : self.site_ends_[site + 1]]


def count_list(counts: TensorLike, observed: ArrayLike | None) -> CountList:
    """Return true counts as a list of their observed cells."""
    listed = listed_counts(counts, observed)
    if listed is not None:
        return listed
    table = checked_counts(counts)
    mask = checked_mask(observed, table.shape)
    return CountList(np.argwhere(mask), table[mask], table.shape)


def _as_table(listed: CountList) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return a list of cells as a table, and which of its cells are in the list."""
    table, mask = np.zeros(listed.shape, np.int64), np.zeros(listed.shape, bool)
    table[tuple(listed.cells.T)] = listed.values
    mask[tuple(listed.cells.T)] = True
    return table, mask


def _as_given(site: _Site, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return values per cell as a table, if the counts were given as one."""
    if site.mask is None:
        return values
    table = np.zeros(site.mask.shape)
    table[site.mask] = values
    return table


def _gamma(
    generator: np.random.Generator, shape: float | NDArray[np.float64], rate: NDArray[np.float64]
) -> NDArray[np.float64]:
    drawn: NDArray[np.float64] = np.maximum(generator.gamma(shape, 1.0, size=np.shape(rate)) / rate, LEAST_RATE)
    return drawn


def _weakest(tables: Sequence[NoisyCounts | TensorLike]) -> Guarantee:
    """Return the guarantee of an entry of any of the tables, which holds if each entry is in one of them."""
    guarantees = [table.guarantee for table in tables if isinstance(table, NoisyCounts)]
    clear = len(tables) - len(guarantees)
    if clear:
        return Guarantee.none(
            f"{clear} of {len(tables)} tables were given without noise: keep this model at the site that holds them. The noisy "
            "tables have their own guarantees"
        )
    weakest = max(guarantees, key=lambda guarantee: guarantee.epsilon)
    return weakest.assuming(ONE_TABLE) if len(tables) > 1 and weakest.holds else weakest
