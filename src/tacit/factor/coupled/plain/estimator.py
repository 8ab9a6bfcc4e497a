"""Coupled factorisation, without privacy: the estimator, and what a fitted model does (predict, score, save)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tacit.channel import Clear, run
from tacit.errors import InvalidInputError, parameter, words
from tacit.estimators.base import public, released
from tacit.estimators.saved import SavedModel
from tacit.factor.coupled.cells import Coords, checked_cells
from tacit.factor.coupled.divergence import Floats
from tacit.factor.coupled.einsum import Spec, checked_ranks, factor_shapes
from tacit.factor.coupled.outlines import Site
from tacit.factor.coupled.plain.among_sites import fit_site
from tacit.factor.coupled.plain.langevin import LangevinSettings, langevin_program
from tacit.factor.coupled.plain.program import CoupledSettings, Prior, coupled_program, rules_for
from tacit.factor.coupled.plain.start import (
    checked_relations,
    filled_in,
    given_start,
    random_start,
    unknown_entities,
    warn_about_relations,
)
from tacit.factor.coupled.plain.terms import Term
from tacit.factor.coupled.plain.variational import BayesSettings, variational_program
from tacit.factor.coupled.predict import in_order, reconstruct, reconstruct_at
from tacit.factor.coupled.relation import Relation
from tacit.privacy.guarantee import Guarantee
from tacit.validation import check_choice, check_count, check_non_negative, check_positive, check_rate, check_seed

MOST_CELLS = 50_000_000
DRAWS = 200
"""Draws from a variational posterior, for the spread of predictions."""
START_SWEEPS = 50
"""Sweeps of point estimation from which sampling starts."""


class FittedFactors(SavedModel):
    """Base of models that have learned factors by name."""

    arrays_: Floats = released()
    index_: list[Any] = released()
    relations_: dict[str, dict[str, Any]] = released()
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
        """What is known of the posterior, by kind and factor."""
        return {name: array for name, array in self._unpacked("").items() if not name.startswith("factor:")}

    def predict(self, relation: str | Relation, cells: Any = None, *, return_std: bool = False) -> Any:
        """Return what the model expects in some cells of a relation, or in all.

        Parameters
        ----------
        relation : str or Relation
            The name of a relation that was fitted, or another one over the same factors.
        cells : array_like of shape (n_cells, order), optional
            One cell a row; all cells, in the shape of the relation, if not given.
        return_std : bool, default=False
            Whether to return the posterior standard deviation of the expectations too ("vb" and "sgld").

        Returns
        -------
        ndarray, or two
        """
        factors, spec, shape = self._found(relation)
        if cells is None and math.prod(shape) > MOST_CELLS:
            raise InvalidInputError(
                f"at most {MOST_CELLS} cells at once", parameter(math.prod(shape)), "Name the cells you need."
            )
        where = None if cells is None else checked_cells(cells, shape, "the cells to predict")
        posterior = self.posterior_
        sampled = any(name.startswith("samples:") for name in posterior)
        if return_std and not posterior:
            raise InvalidInputError(
                "a model with a posterior for return_std=True",
                words("a point estimate"),
                'Use inference="vb" or "sgld".',
            )
        if not sampled and not return_std:
            return _at(spec, in_order(factors, self.factors_), where)
        total: Any = 0.0
        squares: Any = 0.0
        count = 0
        for drawn in self._draws(posterior):
            found = _at(spec, in_order(factors, drawn), where)
            total, squares, count = total + found, squares + found**2, count + 1
        mean = total / count
        std = np.sqrt(np.maximum(squares / count - mean**2, 0))
        if not sampled:
            mean = _at(spec, in_order(factors, self.factors_), where)  # exact: the entries are independent
        return (mean, std) if return_std else mean

    def score(self, relations: Relation | Sequence[Relation], y: Any = None) -> float:
        """Return minus the mean divergence of the relations' known cells from their predictions; higher is better."""
        from tacit.factor.coupled.plain.terms import term_of

        lost, known = 0.0, 0
        for relation in checked_relations(relations):
            factors, _, _ = self._found(relation)
            term: Term = term_of(relation)
            lost += term.loss(in_order(factors, self.factors_)) / relation.dispersion
            known += term.n_observed
        return -lost / known

    def _remember(
        self, relations: Sequence[Relation], factors: Mapping[str, Floats], posterior: Mapping[str, Floats]
    ) -> None:
        """Keep what was learned, in a form that can be saved: all arrays in one, with an index of their names."""
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
        found, begin = {}, 0
        for name, shape in self.index_:
            end = begin + math.prod(shape)
            if name.startswith(prefix):
                found[name.removeprefix(prefix)] = self.arrays_[begin:end].reshape(shape)
            begin = end
        return found

    def _found(self, relation: str | Relation) -> tuple[tuple[str, ...], Spec, tuple[int, ...]]:
        """Return the factors, einsum and shape of a relation, all checked."""
        if not hasattr(self, "relations_"):
            raise InvalidInputError("a fitted model", words("one that was not fitted"), "Call fit first.")
        if isinstance(relation, Relation):
            self._check_fits(relation)
            return relation.factors, relation.spec, relation.shape
        if relation not in self.relations_:
            raise InvalidInputError(
                f"one of the relations {', '.join(map(repr, self.relations_))}",
                parameter(relation),
                "Name one that was fitted.",
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
    r"""Factorise several matrices and tensors at once; factors with one name are one factor.

    .. math:: \hat X^{(v)} = \mathrm{einsum}(\Theta_{d_1}, \Theta_{d_2}, \dots), \qquad
              \min_{\Theta \ge 0} \sum_v \frac{1}{\phi_v} \sum_{i\ \text{known}} d_{p_v}(X^{(v)}_i, \hat X^{(v)}_i)
              - \log p(\Theta)

    Parameters
    ----------
    ranks : int or dict of letter to int
        The size of every letter that the einsums sum over; one number for all.
    inference : {"map", "vb", "sgld"}, default="map"
        A point estimate; variational Bayes (KL only); or samples by Langevin dynamics (KL in all relations, or Euclid in all).
    max_iter : int, default=500
        Most sweeps ("map" and "vb").
    tol : float, default=1e-6
        Stop when a sweep lowers the cost by less than this share of it; 0 makes all sweeps.
    init : "random" or dict of factor to ndarray, default="random"
    n_init : int, default=1
        So many random starts; the best by cost is kept ("map" and "vb").
    dispersion : {"given", "estimate"}, default="given"
        Whether every relation's dispersion is taken from it, or estimated ("map").
    prior_shape, prior_scale : float, optional
        Gamma prior of all entries: its shape A and mean B. Without them "map" has none, "vb" starts from A = 0.5 and B = 10,
        "sgld" has 1 and 1. Normal samples have standard deviation `prior_scale`. "map" needs a shape of at least 1.
    adapt_prior : {"factor", "component", "no"}, default="factor"
        Whether "vb" fits A and B, for every factor or every component of it.
    extrapolate : bool, default=True
        Whether sweeps start ahead of where the last one ended ("map"); the cost never rises either way.
    burn_in, n_samples, thin : int
        "sgld": steps before the first sample, samples, and steps for each.
    step_size, step_decay : float
        "sgld": the step size is ``step_size * t ** -step_decay``.
    sampling_rate : float, default=1.0
        "sgld": probability with which each stored cell takes part in a step.
    random_state : int, default=0

    Attributes
    ----------
    factors_ : dict of str to ndarray
        The factors, by name; posterior means with "vb" and "sgld".
    loss_curve_ : ndarray
        The cost at every sweep that was kept; with "vb" minus the evidence lower bound, without ``log x!``; with "sgld" the
        divergence at every sample.
    loss_ : float
        The cost at the end.
    n_iter_ : int
    dispersions_ : dict of str to float
        Of every relation.
    posterior_ : dict of str to ndarray
        "vb": the posterior's ``shape:<factor>`` and ``scale:<factor>``, and its prior; "sgld": ``samples:<factor>``.
    relations_ : dict
        Name to einsum, factors, shape and divergence of every relation fitted.
    guarantee_ : Guarantee
        That there is none.

    Privacy
    -------
    None: the factors depend on the data without noise.

    Notes
    -----
    Multiplicative updates lower the cost for every p in [0, 2] and any mixture of divergences in one factor. Under Euclid without
    gaps a factor's rows are solved by coordinate descent instead, which is faster. Sparse data cost what is stored: zeros are
    handled by column sums and Grams. An entity without any known cell gets the mean of the others, with a warning.

    References
    ----------
    Ermis 2020, chapters 3 and 6.

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

    ranks: Any = public(default=2, kw_only=False)
    inference: str = public(default="map")
    max_iter: int = public(default=500)
    tol: float = public(default=1e-6)
    init: Any = public(default="random")
    n_init: int = public(default=1)
    dispersion: str = public(default="given")
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

    def fit(self, relations: Relation | Sequence[Relation], y: Any = None) -> Self:
        """Learn the factors of all relations."""
        if isinstance(relations, Site):  # one of several parties, whose data is elsewhere
            return fit_site(self, relations)  # type: ignore[no-any-return]
        found = checked_relations(relations)
        method = check_choice(self.inference, "inference", ["map", "vb", "sgld"])
        shapes = factor_shapes(found, checked_ranks(self.ranks, found))
        tries = check_count(self.n_init, "n_init") if isinstance(self.init, str) and method != "sgld" else 1
        fit: Any = {"map": self._point, "vb": self._variational, "sgld": self._sampled}[method]
        settings: Any = {"map": self._settings, "vb": self._bayes, "sgld": self._langevin}[method](found)
        unknown = unknown_entities(found)
        warn_about_relations(found, unknown)
        uses = [name for relation in found for name in relation.factors]
        # factors of several relations move last, as they would among holders with one relation each
        shared = [name for name in shapes if uses.count(name) > 1]

        def fitted(rng: np.random.Generator) -> dict[str, Any]:
            start = random_start(found, shapes, rng) if self._is_random() else given_start(self.init, shapes)
            return fit(found, start, shared, settings)  # type: ignore[no-any-return]

        best = self._best(tries, fitted)
        self._keep(found, unknown, best)
        return self

    def _best(self, tries: int, fitted: Callable[[np.random.Generator], dict[str, Any]]) -> dict[str, Any]:
        """Return the result of the least loss, of so many starts."""
        seed = check_seed(self.random_state)
        results = (fitted(np.random.default_rng([seed, attempt])) for attempt in range(tries))
        return min(results, key=lambda result: result["loss"])

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
        for name, found in outcome.private["posteriors"].items():
            posterior[f"shape:{name}"], posterior[f"scale:{name}"] = found.shape, found.scale
            posterior[f"prior_shape:{name}"] = np.array(found.prior_shape)
            posterior[f"prior_scale:{name}"] = np.array(found.prior_mean)
        factors = {name: found.mean for name, found in outcome.private["posteriors"].items()}
        return {**outcome.public, **outcome.private, "factors": factors, "posterior": posterior}

    def _sampled(
        self, relations: list[Relation], start: dict[str, Floats], shared: list[str], settings: LangevinSettings
    ) -> dict[str, Any]:
        near = CoupledSettings(rules=rules_for(relations, Prior()), max_iter=START_SWEEPS, tol=1e-4)
        start = run(coupled_program(relations, start, shared=shared, settings=near), Clear()).private["factors"]
        outcome = run(langevin_program(relations, start, shared=shared, settings=settings), Clear())
        samples: dict[str, NDArray[Any]] = outcome.private["samples"]
        factors = {name: drawn.mean(axis=0) for name, drawn in samples.items()}
        posterior = {f"samples:{name}": drawn for name, drawn in samples.items()}
        loss = float(outcome.public["loss_curve"].mean())
        return {**outcome.public, **outcome.private, "loss": loss, "factors": factors, "posterior": posterior}

    def _settings(self, relations: list[Relation]) -> CoupledSettings:
        shape = check_positive(1.0 if self.prior_shape is None else self.prior_shape, "prior_shape")
        if shape < 1:
            raise InvalidInputError(
                'prior_shape of at least 1 for inference="map"',
                parameter(shape),
                'A smaller one has its mode at zero; use "vb".',
            )
        rate = 0.0
        if self.prior_scale is not None:
            rate = shape / check_positive(self.prior_scale, "prior_scale")
        elif shape > 1:
            raise InvalidInputError("prior_scale with prior_shape", words("none"), "Give the prior's mean.")
        prior = Prior(shape, rate)
        return CoupledSettings(
            rules=rules_for(relations, prior),
            prior=prior,
            max_iter=check_count(self.max_iter, "max_iter"),
            tol=check_non_negative(self.tol, "tol"),
            extrapolate=bool(self.extrapolate),
            estimate_dispersion=check_choice(self.dispersion, "dispersion", ["given", "estimate"]) == "estimate",
        )

    def _bayes(self, relations: list[Relation]) -> BayesSettings:
        return BayesSettings(
            shape=check_positive(0.5 if self.prior_shape is None else self.prior_shape, "prior_shape"),
            mean=check_positive(10.0 if self.prior_scale is None else self.prior_scale, "prior_scale"),
            adapt=check_choice(self.adapt_prior, "adapt_prior", ["factor", "component", "no"]),
            max_iter=check_count(self.max_iter, "max_iter"),
            tol=check_non_negative(self.tol, "tol"),
        )

    def _langevin(self, relations: list[Relation]) -> LangevinSettings:
        decay = check_positive(self.step_decay, "step_decay")
        if decay > 1:
            raise InvalidInputError("step_decay of at most 1", parameter(decay), "Larger ones stop before they arrive.")
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

    def _keep(self, relations: list[Relation], unknown: dict[str, NDArray[np.bool_]], found: dict[str, Any]) -> None:
        self._remember(relations, filled_in(found["factors"], unknown, relations), found["posterior"])
        self.dispersions_ = {
            relation.name: float(phi) for relation, phi in zip(relations, found["dispersions"], strict=True)
        }
        self.loss_curve_ = np.asarray(found["loss_curve"])
        self.loss_ = float(found["loss"])
        self.n_iter_ = len(self.loss_curve_)
