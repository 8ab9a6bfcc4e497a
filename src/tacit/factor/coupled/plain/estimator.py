"""Coupled factorisation without privacy: the estimator, with prediction and scoring."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, Self, TypedDict, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.channel import Clear, run
from tacit.errors import InvalidInputError, parameter, words
from tacit.estimators.base import public, released
from tacit.estimators.saved import SavedModel
from tacit.factor.arrays import Floats
from tacit.factor.coupled.cells import Coords, checked_cells
from tacit.factor.coupled.einsum import Spec, checked_ranks, factor_shapes
from tacit.factor.coupled.outlines import Site
from tacit.factor.coupled.plain.among_sites import fit_site
from tacit.factor.coupled.plain.langevin import LangevinSettings, langevin_program
from tacit.factor.coupled.plain.program import FLAT, CoupledSettings, Prior, Priors, coupled_program, rules_for
from tacit.factor.coupled.plain.start import (
    checked_relations,
    filled_in,
    given_start,
    random_start,
    start_scales,
    starts_filled_in,
    unknown_entities,
    warn_about_relations,
)
from tacit.factor.coupled.plain.terms import Term
from tacit.factor.coupled.plain.variational import BayesSettings, variational_program
from tacit.factor.coupled.predict import in_order, reconstruct, reconstruct_at
from tacit.factor.coupled.relation import Relation, Relations
from tacit.privacy.guarantee import Guarantee
from tacit.validation import check_choice, check_count, check_non_negative, check_positive, check_rate, check_seed

MOST_CELLS = 50_000_000
"""Most cells that `predict` returns without a list of cells: 400 MB."""
DRAWS = 200
"""Draws from a variational posterior, for the standard deviation of predictions. Set by hand: it is then known to about 5%."""
STARTS = 5
"""Number of starts of a point estimate. Set by hand: on UCLAF, more starts change the AUC by less than 0.001."""
PRIOR_SHAPE, PRIOR_FRACTION = 1.2, 0.5
"""The default prior of a point estimate: its shape, and its mean as a fraction of the size of entries with which the products
have the mean of the data. Chosen with the dispersions on other splits of UCLAF than those of docs/results/coupled.md."""
MOST_DISPERSION = 30.0
"""Largest estimated dispersion under KL, where the smallest is 1. Set by hand: a relation that is fitted perfectly would
otherwise make the prior outweigh all others."""
WEIGHT_SWEEPS = 10
"""Sweeps of the fit from which dispersions are estimated. Set by hand: only their ratios matter, which change little later."""
SMALLEST = 1e-300
"""Products of small factors that underflow are raised to this before their logarithm is taken."""
START_SWEEPS, START_TOL = 50, 1e-4
"""Most sweeps and tolerance of the point estimate from which sampling starts. Set by hand."""


class FittedRelation(TypedDict):
    """What a model says of a relation."""

    einsum: str
    factors: list[str]
    shape: list[int]
    divergence: float


class FittedFactors(SavedModel):
    """Base of models with factors by name."""

    arrays_: Floats = released()
    index_: list[Any] = released()
    relations_: dict[str, FittedRelation] = released()
    dispersions_: dict[str, float] = released()
    loss_curve_: Floats = released()
    loss_: float = released()
    n_iter_: int = released()

    @property
    def factors_(self) -> dict[str, Floats]:
        """The factors, by name."""
        return self._unpacked("factor:")

    @property
    def posterior_(self) -> dict[str, Floats]:
        """The arrays of the posterior or of several starts, by kind and factor."""
        return {name: array for name, array in self._unpacked("").items() if not name.startswith("factor:")}

    @overload
    def predict(
        self, relation: str | Relation, cells: ArrayLike | None = None, *, return_std: Literal[False] = False
    ) -> Floats: ...
    @overload
    def predict(
        self, relation: str | Relation, cells: ArrayLike | None = None, *, return_std: Literal[True]
    ) -> tuple[Floats, Floats]: ...
    def predict(
        self, relation: str | Relation, cells: ArrayLike | None = None, *, return_std: bool = False
    ) -> Floats | tuple[Floats, Floats]:
        """Return the expected values of some or all cells of a relation.

        Parameters
        ----------
        relation : str or Relation
            The name of a fitted relation, or another relation over the same factors.
        cells : array_like of shape (n_cells, order), optional
            One cell per row; all cells, in the shape of the relation, if not given.
        return_std : bool, default=False
            Whether to return also the posterior standard deviation of the expected values ("vb" and "sgld").

        Returns
        -------
        ndarray, or a pair of them
        """
        factors, spec, shape = self._resolved(relation)
        if cells is None and math.prod(shape) > MOST_CELLS:
            raise InvalidInputError(
                f"at most {MOST_CELLS} cells at once", parameter(math.prod(shape)), "Name the cells you need."
            )
        where = None if cells is None else checked_cells(cells, shape, "the cells to predict")
        posterior = self.posterior_
        sampled = any(name.startswith("samples:") for name in posterior)
        if return_std and not any(name.startswith(("samples:", "shape:")) for name in posterior):
            raise InvalidInputError(
                "a model with a posterior for return_std=True",
                words("a point estimate"),
                'Use inference="vb" or "sgld".',
            )
        if f"starts:{factors[0]}" in posterior:
            return self._average(relation, spec, factors, where)
        if not sampled and not return_std:
            return _at(spec, in_order(factors, self.factors_), where)
        total: Floats = np.zeros(())
        squares: Floats = np.zeros(())
        count = 0
        for drawn in self._draws(posterior):
            values = _at(spec, in_order(factors, drawn), where)
            # the average over samples of Ermis 2020, eq. 3.13, of the cells' means
            total, squares, count = total + values, squares + values**2, count + 1
        mean = total / count
        std = np.sqrt(np.maximum(squares / count - mean**2, 0))
        if not sampled:
            mean = _at(spec, in_order(factors, self.factors_), where)  # exact: the entries are independent
        return (mean, std) if return_std else mean

    def _average(self, relation: str | Relation, spec: Spec, factors: tuple[str, ...], where: Coords | None) -> Floats:
        """Return the mean of the starts' predictions: the geometric mean, unless some factors are zero or the loss is Euclid."""
        power = relation.power if isinstance(relation, Relation) else self.relations_[relation]["divergence"]
        starts = {name: self.posterior_[f"starts:{name}"] for name in factors}
        geometric = power > 0 and all(each.min() > 0 for each in starts.values())
        total: Floats | float = 0.0
        count = len(starts[factors[0]])
        for place in range(count):
            values = _at(spec, in_order(factors, {name: each[place] for name, each in starts.items()}), where)
            total = total + (np.log(np.maximum(values, SMALLEST)) if geometric else values) / count
        return np.exp(total) if geometric else np.asarray(total)

    def score(self, relations: Relations, y: object = None) -> float:
        """Return minus the mean divergence of the relations' known cells from their predictions; higher is better."""
        from tacit.factor.coupled.plain.terms import term_of

        lost, known = 0.0, 0
        for relation in checked_relations(relations):
            factors, _, _ = self._resolved(relation)
            term: Term = term_of(relation)
            lost += term.loss(in_order(factors, self.factors_)) / relation.dispersion
            known += term.n_observed
        return -lost / known

    def _remember(
        self, relations: Sequence[Relation], factors: Mapping[str, Floats], posterior: Mapping[str, Floats]
    ) -> None:
        """Set the fitted attributes in a form that can be saved: all arrays joined, with an index of their names."""
        arrays = {**{f"factor:{name}": factor for name, factor in factors.items()}, **posterior}
        self.index_ = [[name, list(array.shape)] for name, array in arrays.items()]
        self.arrays_ = np.concatenate([np.ravel(array) for array in arrays.values()])
        self.relations_ = {
            relation.name: {
                "einsum": relation.spec.text,
                "factors": list(relation.factors),
                "shape": list(relation.shape),
                "divergence": relation.power,
            }
            for relation in relations
        }
        self.guarantee_ = Guarantee.none("every number of the model depends on the data without noise")

    def _unpacked(self, prefix: str) -> dict[str, Floats]:
        if not hasattr(self, "arrays_"):
            raise AttributeError("factors_ and posterior_ exist after fit")
        arrays, begin = {}, 0
        for name, shape in self.index_:
            end = begin + math.prod(shape)
            if name.startswith(prefix):
                arrays[name.removeprefix(prefix)] = self.arrays_[begin:end].reshape(shape)
            begin = end
        return arrays

    def _resolved(self, relation: str | Relation) -> tuple[tuple[str, ...], Spec, tuple[int, ...]]:
        """Return the factors, einsum and shape of a relation; raise if it does not fit the model."""
        if not hasattr(self, "relations_"):
            raise InvalidInputError("a fitted model", words("one that was not fitted"), "Call fit first.")
        if isinstance(relation, Relation):
            self._check_fits(relation)
            return relation.factors, relation.spec, relation.shape
        if relation not in self.relations_:
            raise InvalidInputError(
                f"one of the relations {', '.join(map(repr, self.relations_))}",
                parameter(relation),
                "Give the name of a fitted relation.",
            )
        known = self.relations_[relation]
        factors, shape = tuple(known["factors"]), tuple(known["shape"])
        return factors, Spec.parse(known["einsum"], len(factors), len(shape)), shape

    def _check_fits(self, relation: Relation) -> None:
        shapes = {name: factor.shape for name, factor in self.factors_.items()}
        sizes = dict(zip(relation.spec.output, relation.shape, strict=True))
        for name, letters in zip(relation.factors, relation.spec.inputs, strict=True):
            if name not in shapes or len(shapes[name]) != len(letters):
                raise InvalidInputError(
                    f"factors among {sorted(shapes)}", parameter(name), "Use the names and letters of the fit."
                )
            for letter, size in zip(letters, shapes[name], strict=True):
                if sizes.setdefault(letter, size) != size:
                    raise InvalidInputError(
                        f"{sizes[letter]} for the letter {letter!r} of {relation.name!r}",
                        words(f"{size} in the factor {name!r}"),
                        "The relation must have the entities of the fit.",
                    )

    def _draws(self, posterior: Mapping[str, Floats]) -> Iterator[dict[str, Floats]]:
        names = list(self.factors_)
        if f"samples:{names[0]}" in posterior:
            for index in range(len(posterior[f"samples:{names[0]}"])):
                yield {name: posterior[f"samples:{name}"][index] for name in names}
            return
        rng = np.random.default_rng(0)
        for _ in range(DRAWS):
            yield {name: rng.gamma(posterior[f"shape:{name}"], posterior[f"scale:{name}"]) for name in names}


def _at(spec: Spec, factors: tuple[Floats, ...], cells: Coords | None) -> Floats:
    return reconstruct(spec, factors) if cells is None else reconstruct_at(spec, factors, cells)


class CoupledFactorization(FittedFactors):
    r"""Factorise several matrices and tensors together; factors with the same name are the same factor.

    .. math:: \hat X^{(v)} = \mathrm{einsum}(\Theta_{d_1}, \Theta_{d_2}, \dots), \qquad
              \min_{\Theta \ge 0} \sum_v \frac{1}{\phi_v} \sum_{i\ \text{known}} d_{p_v}(X^{(v)}_i, \hat X^{(v)}_i)
              - \log p(\Theta)

    Parameters
    ----------
    ranks : int or dict of letter to int
        The size of every letter that the einsums sum over, or one number for all letters.
    inference : {"map", "vb", "sgld"}, default="map"
        A point estimate; variational Bayes (KL only); or samples by Langevin dynamics (KL in all relations, or Euclid in all).
    max_iter : int, default=500
        Most sweeps ("map" and "vb").
    tol : float, optional
        Stop when a sweep lowers the cost by less than this fraction of it; 0 makes all sweeps. If not given, 1e-4 with
        several starts of "map", and 1e-6 otherwise.
    init : "random" or dict of factor to ndarray, default="random"
    n_init : int, optional
        Number of random starts ("map" and "vb"). `factors_` are those of the start with the lowest cost; with "map", `predict`
        averages the predictions of all starts. If not given, 5 for "map" and 1 for "vb"; 1 among several sites.
    dispersion : {"auto", "given", "estimate"}, default="auto"
        "auto": if there are several relations ("map"), those without a dispersion get one from a short fit with dispersions of
        1: their mean divergences; under KL as multiples of the smallest, up to 30. Among several sites it is the same as "given".
        "given": 1 for relations without one. "estimate": fitted by maximum likelihood ("map").
    prior_shape, prior_scale : float, optional
        Gamma prior of all entries: its shape A and mean B. If neither is given, "map" has a weak prior for the factors of
        relations that are not Euclid (A = 1.2, B half the size of entries that fit the mean of the data), "vb" starts from
        A = 0.5 and B = 10, and "sgld" has A = B = 1. With Euclid, `prior_scale` is the standard deviation of the Normal prior
        of "sgld". "map" needs a shape of at least 1; ``prior_shape=1`` alone is maximum likelihood.
    adapt_prior : {"factor", "component", "no"}, default="factor"
        Whether "vb" fits A and B, per factor or per component.
    extrapolate : bool, default=True
        Whether sweeps start from extrapolated factors ("map"). The cost never rises in either case.
    burn_in, n_samples, thin : int
        "sgld": steps before the first sample, number of samples, and steps per sample.
    step_size, step_decay : float
        "sgld": the step size is ``step_size * t ** -step_decay``.
    sampling_rate : float, default=1.0
        "sgld": probability with which each stored cell takes part in a step.
    random_state : int, default=0
    verbose : bool, default=False
        Say on standard error what a fit is doing; see `tacit.show_progress`.

    Attributes
    ----------
    factors_ : dict of str to ndarray
        The factors, by name; posterior means with "vb" and "sgld".
    loss_curve_ : ndarray
        The cost at every kept sweep; with "vb" minus the evidence lower bound, without ``log x!``; with "sgld" the divergence
        at every sample.
    loss_ : float
        The final cost.
    n_iter_ : int
    dispersions_ : dict of str to float
        The dispersion of every relation.
    posterior_ : dict of str to ndarray
        "vb": the posterior's ``shape:<factor>`` and ``scale:<factor>``, and its prior; "sgld": ``samples:<factor>``; "map"
        with several starts: ``starts:<factor>``, all of them.
    relations_ : dict
        Einsum, factors, shape and divergence of every fitted relation, by name.
    guarantee_ : Guarantee
        States that there is none.

    Privacy
    -------
    None: the factors depend on the data without noise.

    Notes
    -----
    Multiplicative updates lower the cost for every p in [0, 2] and any mixture of divergences in one factor. Under Euclid without
    unknown cells, the rows of a factor are solved by coordinate descent instead, which is faster. For sparse data, the work
    depends on the number of stored cells: zeros enter by column sums and Gram matrices. An entity without any known cell gets
    the mean of the others, with a warning.

    References
    ----------
    Ermis 2020, chapters 3 and 6: "map" is CTF-ML, with a prior (section 3.1.1, eqs 3.1 and 3.2), "vb" is CTF-VB
    (section 3.1.2, eqs 3.7 to 3.12), "sgld" is section 3.1.3 (eqs 3.13 to 3.18). A = 0.5 and B = 10 are the best values
    of Figure 6.6.

    Examples
    --------
    >>> from tacit import CoupledFactorization, Relation
    >>> from tacit.data import make_coupled
    >>> data = make_coupled()
    >>> visits = Relation(data.tensor, "ir,jr,kr->ijk", ("user", "place", "activity"), name="visits")
    >>> about = Relation(data.features, "jr,fr->jf", ("place", "feature"), name="about")
    >>> model = CoupledFactorization({"r": 3}).fit([visits, about])
    >>> model.factors_["place"].shape
    (30, 3)
    >>> model.predict("visits", [[0, 0, 0], [1, 2, 3]]).shape
    (2,)
    """

    ranks: int | Mapping[str, int] = public(default=2, kw_only=False)
    inference: str = public(default="map")
    max_iter: int = public(default=500)
    tol: float | None = public(default=None)
    init: str | Mapping[str, ArrayLike] = public(default="random")
    n_init: int | None = public(default=None)
    dispersion: str = public(default="auto")
    prior_shape: float | None = public(default=None)
    prior_scale: float | None = public(default=None)
    adapt_prior: str = public(default="factor")
    extrapolate: bool = public(default=True)
    burn_in: int = public(default=500)
    n_samples: int = public(default=100)
    thin: int = public(default=5)
    step_size: float = public(default=0.3)
    step_decay: float = public(default=0.51)
    sampling_rate: float = public(default=1.0)
    random_state: int = public(default=0)

    def fit(self, relations: Relations | Site, y: object = None) -> Self:
        """Learn the factors of all relations."""
        if isinstance(relations, Site):  # one of several parties
            return fit_site(self, relations)
        checked = checked_relations(relations)
        method = check_choice(self.inference, "inference", ["map", "vb", "sgld"])
        shapes = factor_shapes(checked, checked_ranks(self.ranks, checked))
        tries = self._tries(STARTS if method == "map" else 1)
        scales = start_scales(checked, shapes)
        fit = self._fit_of(method, checked, scales, tries)
        unknown = unknown_entities(checked)
        warn_about_relations(checked, unknown)
        uses = [name for relation in checked for name in relation.factors]
        # factors of several relations are updated last, as they are among holders with one relation each
        shared = [name for name in shapes if uses.count(name) > 1]

        def start(rng: np.random.Generator) -> dict[str, Floats]:
            return random_start(scales, shapes, rng) if isinstance(self.init, str) else given_start(self.init, shapes)

        if method == "map" and self.dispersion == "auto":
            checked = self._weighed(checked, start, shared, self._settings(checked, scales, tries))
        best = self._best(tries, lambda rng: fit(checked, start(rng), shared))
        self._keep(checked, unknown, best)
        return self

    def _tries(self, default: int) -> int:
        """Return the number of starts."""
        if not self._is_random() or self.inference == "sgld":
            return 1
        return default if self.n_init is None else check_count(self.n_init, "n_init")

    def _fit_of(
        self,
        method: str,
        relations: list[Relation],
        scales: Mapping[str, float],
        tries: int,
        *,
        everyone: Sequence[Sequence[Relation]] | None = None,
        place: int = 0,
    ) -> Callable[[list[Relation], dict[str, Floats], list[str]], dict[str, Any]]:
        """Return a method's fit of relations from a start, with shared factors; its settings are those for `relations`."""
        if method == "map":
            return partial(self._point, settings=self._settings(relations, scales, tries))
        if method == "vb":
            return partial(self._variational, settings=self._bayes(relations))
        return partial(self._sampled, settings=self._langevin(relations), everyone=everyone, place=place)

    def _weighed(
        self,
        relations: list[Relation],
        start: Callable[[np.random.Generator], dict[str, Floats]],
        shared: list[str],
        settings: CoupledSettings,
    ) -> list[Relation]:
        """Give the relations without a dispersion one from a short fit: see `dispersion`."""
        if len(relations) < 2 or all(relation.has_dispersion for relation in relations):
            return relations
        short = replace(settings, max_iter=WEIGHT_SWEEPS)
        begun = start(np.random.default_rng([check_seed(self.random_state), 0]))
        outcome = run(coupled_program(relations, begun, shared=shared, settings=short), Clear())
        counts = [relation.n_observed for relation in relations]
        # phi = 2D/n, as in `Holder.costs`
        dispersions = [
            max(2 * loss / count, 1e-12) for loss, count in zip(outcome.private["losses"], counts, strict=True)
        ]
        # the mean divergence of rare counts is far below their dispersion, so that only the ratios are used
        least = min(
            (one for one, relation in zip(dispersions, relations, strict=True) if relation.power == 1), default=1.0
        )
        weighed = []
        for relation, one in zip(relations, dispersions, strict=True):
            weighed.append(copy.copy(relation))
            if not relation.has_dispersion:
                weighed[-1].dispersion = min(one / least, MOST_DISPERSION) if relation.power == 1 else one
        return weighed

    def _best(self, tries: int, fitted: Callable[[np.random.Generator], dict[str, Any]]) -> dict[str, Any]:
        """Fit from `tries` starts; return the result with the lowest loss."""
        seed = check_seed(self.random_state)
        results = [fitted(np.random.default_rng([seed, attempt])) for attempt in range(tries)]
        best = min(results, key=lambda result: result["loss"])
        if tries > 1 and self.inference == "map":
            names = best["factors"]
            starts = {f"starts:{name}": np.stack([one["factors"][name] for one in results]) for name in names}
            best = {**best, "posterior": starts}
        return best

    def _is_random(self) -> bool:
        if isinstance(self.init, str):
            check_choice(self.init, "init", ["random"])
            return True
        return False

    def _point(
        self, relations: list[Relation], start: dict[str, Floats], shared: list[str], settings: CoupledSettings
    ) -> dict[str, Any]:
        outcome = run(coupled_program(relations, start, shared=shared, settings=settings), Clear())
        return {**outcome.public, **outcome.private, "posterior": {}}

    def _variational(
        self, relations: list[Relation], start: dict[str, Floats], shared: list[str], settings: BayesSettings
    ) -> dict[str, Any]:
        outcome = run(variational_program(relations, start, shared=shared, settings=settings), Clear())
        posterior: dict[str, Floats] = {}
        for name, gamma in outcome.private["posteriors"].items():
            posterior[f"shape:{name}"], posterior[f"scale:{name}"] = gamma.shape, gamma.scale
            posterior[f"prior_shape:{name}"] = np.array(gamma.prior_shape)
            posterior[f"prior_scale:{name}"] = np.array(gamma.prior_mean)
        factors = {name: gamma.mean for name, gamma in outcome.private["posteriors"].items()}
        return {**outcome.public, **outcome.private, "factors": factors, "posterior": posterior}

    def _sampled(
        self,
        relations: list[Relation],
        start: dict[str, Floats],
        shared: list[str],
        settings: LangevinSettings,
        *,
        everyone: Sequence[Sequence[Relation]] | None = None,
        place: int = 0,
    ) -> dict[str, Any]:
        """Sample from the posterior; `everyone` are all sites' relations, and `place` is the index of this site in them."""
        sites = [relations] if everyone is None else everyone
        rules = rules_for([relation for site in sites for relation in site], Prior())
        near = CoupledSettings(rules=rules, max_iter=START_SWEEPS, tol=START_TOL)
        start = run(coupled_program(relations, start, shared=shared, settings=near), Clear()).private["factors"]
        first = sum(len(site) for site in sites[:place])
        program = langevin_program(relations, start, shared=shared, settings=settings, first_relation=first)
        outcome = run(program, Clear())
        samples: dict[str, Floats] = outcome.private["samples"]
        factors = {name: drawn.mean(axis=0) for name, drawn in samples.items()}
        posterior = {f"samples:{name}": drawn for name, drawn in samples.items()}
        loss = float(outcome.public["loss_curve"].mean())
        return {**outcome.public, **outcome.private, "loss": loss, "factors": factors, "posterior": posterior}

    def _settings(self, relations: Sequence[Relation], scales: Mapping[str, float], tries: int) -> CoupledSettings:
        priors = self._priors(relations, scales)
        # both set by hand
        tol = (1e-4 if tries > 1 else 1e-6) if self.tol is None else check_non_negative(self.tol, "tol")
        choices = ["auto", "given", "estimate"]
        return CoupledSettings(
            rules=rules_for(relations, priors),
            prior=priors,
            max_iter=check_count(self.max_iter, "max_iter"),
            tol=tol,
            extrapolate=bool(self.extrapolate),
            estimate_dispersion=check_choice(self.dispersion, "dispersion", choices) == "estimate",
        )

    def _priors(self, relations: Sequence[Relation], scales: Mapping[str, float]) -> Priors:
        """Return the prior of every factor; `scales` are the sizes of entries that fit the mean of the data."""
        shape = check_positive(PRIOR_SHAPE if self.prior_shape is None else self.prior_shape, "prior_shape")
        if shape < 1:
            raise InvalidInputError(
                'prior_shape of at least 1 for inference="map"',
                parameter(shape),
                'The mode of a smaller one is at zero; use inference="vb".',
            )
        if self.prior_scale is not None:
            return Prior(shape, shape / check_positive(self.prior_scale, "prior_scale"))
        if shape == 1:
            return FLAT
        counted = {name for relation in relations if relation.power > 0 for name in relation.factors}
        everywhere = self.prior_shape is not None
        return {
            name: Prior(shape, shape / (PRIOR_FRACTION * scale))
            for name, scale in scales.items()
            if everywhere or name in counted
        }

    def _bayes(self, relations: list[Relation]) -> BayesSettings:
        # A = 0.5 and B = 10 are the best of Figure 6.6 of Ermis 2020
        return BayesSettings(
            shape=check_positive(0.5 if self.prior_shape is None else self.prior_shape, "prior_shape"),
            mean=check_positive(10.0 if self.prior_scale is None else self.prior_scale, "prior_scale"),
            adapt=check_choice(self.adapt_prior, "adapt_prior", ["factor", "component", "no"]),
            max_iter=check_count(self.max_iter, "max_iter"),
            tol=1e-6 if self.tol is None else check_non_negative(self.tol, "tol"),
        )

    def _langevin(self, relations: list[Relation]) -> LangevinSettings:
        decay = check_positive(self.step_decay, "step_decay")
        if decay > 1:
            raise InvalidInputError(
                "step_decay of at most 1", parameter(decay), "With larger ones the steps shrink too fast."
            )
        return LangevinSettings(
            shape=check_positive(1.0 if self.prior_shape is None else self.prior_shape, "prior_shape"),
            scale=check_positive(1.0 if self.prior_scale is None else self.prior_scale, "prior_scale"),
            burn_in=check_count(self.burn_in, "burn_in", least=0),
            n_samples=check_count(self.n_samples, "n_samples"),
            thin=check_count(self.thin, "thin"),
            step_size=check_rate(self.step_size, "step_size"),
            step_decay=decay,
            sampling_rate=check_rate(self.sampling_rate),
            random_state=check_seed(self.random_state),
        )

    def _keep(self, relations: list[Relation], unknown: dict[str, NDArray[np.bool_]], result: dict[str, Any]) -> None:
        posterior = starts_filled_in(result["posterior"], unknown, relations)
        self._remember(relations, filled_in(result["factors"], unknown, relations), posterior)
        self.dispersions_ = {
            relation.name: float(phi) for relation, phi in zip(relations, result["dispersions"], strict=True)
        }
        self.loss_curve_ = np.asarray(result["loss_curve"])
        self.loss_ = float(result["loss"])
        self.n_iter_ = len(self.loss_curve_)
