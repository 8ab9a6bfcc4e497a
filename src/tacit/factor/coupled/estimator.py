"""Coupled factorisation, without privacy: the estimator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tacit.channel import Clear, run
from tacit.errors import InvalidInputError, parameter, words
from tacit.factor.base import public
from tacit.factor.coupled.divergence import Floats
from tacit.factor.coupled.langevin import LangevinSettings, langevin_program
from tacit.factor.coupled.prediction import FittedFactors
from tacit.factor.coupled.program import Settings, coupled_program
from tacit.factor.coupled.relation import Relation
from tacit.factor.coupled.rules import Prior, rules_for
from tacit.factor.coupled.site_fit import fit_site
from tacit.factor.coupled.sites import Site
from tacit.factor.coupled.spec import checked_ranks, factor_shapes
from tacit.factor.coupled.start import (
    checked_relations,
    filled_in,
    given_start,
    random_start,
    say_what_is_odd,
    unknown_entities,
)
from tacit.factor.coupled.variational import BayesSettings, variational_program
from tacit.validation import check_choice, check_count, check_non_negative, check_positive, check_rate, check_seed

START_SWEEPS = 50
"""Sweeps of point estimation from which sampling starts."""


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
    step, step_decay : float
        "sgld": the step size is ``step * t ** -step_decay``.
    batch : float, default=1.0
        "sgld": the share of the stored cells that a step looks at.
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
    step: float = public(default=0.3)
    step_decay: float = public(default=0.51)
    batch: float = public(default=1.0)
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
        say_what_is_odd(found, unknown)
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
        self, relations: list[Relation], start: dict[str, Floats], shared: list[str], settings: Settings
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
        near = Settings(rules=rules_for(relations, Prior()), max_iter=START_SWEEPS, tol=1e-4)
        start = run(coupled_program(relations, start, shared=shared, settings=near), Clear()).private["factors"]
        outcome = run(langevin_program(relations, start, shared=shared, settings=settings), Clear())
        samples: dict[str, NDArray[Any]] = outcome.private["samples"]
        factors = {name: drawn.mean(axis=0) for name, drawn in samples.items()}
        posterior = {f"samples:{name}": drawn for name, drawn in samples.items()}
        loss = float(outcome.public["loss_curve"].mean())
        return {**outcome.public, **outcome.private, "loss": loss, "factors": factors, "posterior": posterior}

    def _settings(self, relations: list[Relation]) -> Settings:
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
        return Settings(
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
            step=check_rate(self.step, "step"),
            decay=decay,
            batch=check_rate(self.batch, "batch"),
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
