"""Coupled factorisation with differential privacy: shared factors leave a site only noised.

`moments_run` and `gradient_run` make of the estimator's parameters and the sites' data one program per site and the plan of
noise that they share.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from tacit.channel import Plan, Program, Split, Step, run_together
from tacit.errors import InvalidInputError, parameter, words
from tacit.estimators.base import public
from tacit.factor.coupled.private.budget import CoupledMomentSettings
from tacit.factor.coupled.private.cell_moments import CELLS_PER_ENTITY, cell_split, entries_program
from tacit.factor.coupled.private.dp_sgld import SgldSettings, sgld_program
from tacit.factor.coupled.private.fitted import PrivateFactors
from tacit.factor.coupled.private.problem import Problem, problems_of, public_features
from tacit.factor.coupled.private.unit_cells import UnitCells, check_value_range
from tacit.factor.coupled.private.user_moments import moments_program
from tacit.privacy.calibration import gaussian_noise_multiplier
from tacit.privacy.guarantee import Guarantee
from tacit.privacy.published import ermis_advanced_noise_multiplier, ermis_zcdp_noise_multiplier
from tacit.validation import (
    check_choice,
    check_count,
    check_delta,
    check_epsilon,
    check_positive,
    check_rate,
    check_seed,
)

MOMENT_ROUNDS, GRADIENT_ROUNDS = 4, 200
"""Rounds of "moments" and of the methods with gradients, where the caller does not say."""
PUBLISHED: dict[str, Callable[[float, float, int, float], float]] = {
    "zcdp": ermis_zcdp_noise_multiplier,
    "advanced": ermis_advanced_noise_multiplier,
}
SIZES = "the numbers of entities are public; a unit is absent when its cells are"
TOGETHER = "whoever adds up the sites' sums sees each site's part before the noise, unless the channel masks it"
STAYS = (
    "a site's own factors are solved from its own data and what was released, and stay there: everybody else, together, learns "
    "of a unit what the release allows, no more"
)


@dataclass(frozen=True, eq=False)
class Run:
    """The programs of all sites, and the plan; no plan without noise."""

    programs: list[Program]
    plan: Plan | None


def moments_run(model: Any, problems: Sequence[Problem], cells: Sequence[Sequence[UnitCells]]) -> Run:
    """Prepare "moments", for one private relation in CP form under Euclid."""
    first = problems[0]
    relation = first.private[0]
    if len(first.private) > 1 or not relation.spec.is_cp or relation.power != 0:
        raise InvalidInputError(
            'one private relation, in CP form (such as "ir,jr->ij"), with divergence="euclid", for method "moments"',
            words(f"{len(first.private)} private, the first {relation.spec.text} with power {relation.power:g}"),
            'Use method="sgld", or divergence="euclid" and one einsum of the form "ir,jr,kr->ijk".',
        )
    common = [name for name in first.others if name in first.shared]
    is_private = not math.isinf(model.epsilon)
    by_cell = model.unit == "cell"
    settings = CoupledMomentSettings(
        rank=next(iter(first.ranks[letter] for letter in relation.spec.summed)),
        rounds=MOMENT_ROUNDS if model.rounds is None else model.rounds,
        max_columns=model.max_columns,
        lead=max(common, key=lambda name: first.sizes[name]) if common else None,
        release_own=model.protect == "user",
        planned_noise=gaussian_noise_multiplier(model.epsilon, model.delta, adjacency=model.adjacency)
        if is_private
        else 0.0,
        n_listed=first.sizes[first.entity] * (CELLS_PER_ENTITY if by_cell else 1),
    )
    plan = _plan(model, cell_split(settings, len(first.others)) if by_cell else settings.split)
    make = entries_program if by_cell else moments_program
    programs = [
        make(mine[0], settings, public_features(problem), first.entity)
        for problem, mine in zip(problems, cells, strict=True)
    ]
    return Run(programs, plan)


def gradient_run(model: Any, problems: Sequence[Problem], cells: Sequence[Sequence[UnitCells]]) -> Run:
    """Prepare "sgld" and "published"."""
    first = problems[0]
    for relation in (*first.private, *first.public):
        if relation.power not in (0, 1) or relation.power != first.private[0].power:
            raise InvalidInputError(
                'divergence="euclid" in all relations, or "kl" in all',
                parameter(relation.power),
                "Gradients need one of these.",
            )
    by_cell = model.unit == "cell"
    noised = first.others if model.protect == "site" and not by_cell else (first.entity, *first.others)
    rounds = GRADIENT_ROUNDS if model.rounds is None else model.rounds
    settings = SgldSettings(
        rounds,
        model.sampling_rate,
        model.clip,
        model.step_size,
        model.step_decay,
        noised,
        by_cell,
        model.random_state,
    )
    planned = Step(count=rounds, sampling_rate=model.sampling_rate)
    if model.method == "published":
        multiplier = PUBLISHED[model.composition](model.epsilon, model.delta, rounds, model.sampling_rate)
        plan: Plan | None = Plan(model.epsilon, model.delta, (planned,), multiplier, model.unit, model.adjacency)
    else:
        plan = _plan(model, [planned])
    programs = [
        sgld_program(problem, mine, problem.ranks, settings) for problem, mine in zip(problems, cells, strict=True)
    ]
    return Run(programs, plan)


def _plan(model: Any, steps: Split | list[Step]) -> Plan | None:
    if math.isinf(model.epsilon):
        return None
    return Plan.for_budget(model.epsilon, model.delta, steps=steps, unit=model.unit, adjacency=model.adjacency)


class PrivateCoupledFactorization(PrivateFactors):
    r"""Factorise relations about protected entities so that what sites share may be released.

    Parameters
    ----------
    ranks : int or dict of letter to int
        The size of every letter that the einsums sum over; with "moments" at most so many components, as many as rise above
        the noise.
    private : str, default="user"
        The factor whose entities are protected. Relations without it hold nothing about them: they are public, are used, and
        cost nothing.
    epsilon, delta : float
        Privacy loss and failure probability of the **whole** fit. ``epsilon=inf`` adds no noise and has no guarantee.
    protect : {"site", "user"}, default="site"
        "site": only what sites share is released; a site solves its own factors from its own data in the clear, and they
        never leave. "user": the protected entities' own factors are noised and released too.
    unit : {"user", "cell"}, default="user"
        What is protected: a protected entity with all its cells, or one cell (that it is known, and its value).
    shared : sequence of str, optional
        The factors that sites share; all but the protected entity's if not given. The others are each site's own.
    value_range : tuple of float
        Public bounds of the values; values beyond are cut off. Choose them without looking at the data.
    method : {"moments", "sgld", "published"}, default="moments"
        "moments": noisy sufficient statistics, shrunk by the noise that is known; for one private relation in CP form under
        Euclid. "sgld": noisy gradients of Poisson samples, for any einsum, Euclid or KL. "published": the same with the
        noise that the thesis's formula asks for; `guarantee_` says what that costs.
    rounds : int, optional
        Number of regressions of "moments" (4 if not given), or of gradient steps of "sgld" and "published" (200).
    max_columns : int, default=250
        Of "moments": at most this many rows of the largest shared factor enter the second moment.
    sampling_rate, clip, step_size, step_decay
        Of "sgld": probability of a unit to take part in a step, longest gradient of a unit, step size and the power with
        which it falls.
    composition : {"zcdp", "advanced"}, default="zcdp"
        Of "published".
    adjacency : {"add-remove", "replace-one"}, default="add-remove"
        Whether neighbouring data differ by a unit's cells being there or not, or by their being others.
    max_units : int, default=2**20
        Public upper bound on the number of units a site holds.
    ledger, dataset, insecure_seed
        See `PrivateMoments`.
    random_state : int, default=0
        Of the start of "sgld"; it protects nothing and may be public.

    Attributes
    ----------
    factors_, biases_ : dict of str to ndarray
        What was released, by factor. A cell is expected to be the mean plus biases plus the einsum of the factors, on a scale
        where `value_range` is -1 to 1; `predict` does that.
    n_components_ : int
        Components that rose above the noise; with none, the model is one of biases.
    guarantee_ : Guarantee

    Privacy
    -------
    Unit: see `unit`. Numbers of entities (the sizes of the factors) are public, and a unit is absent when its cells are. What
    leaves a site: noisy sums of contributions, each formed from one unit's cells and earlier answers, and bounded: by its own
    norm (unit "user"), by the cut of a cell's value (unit "cell"), by clipping (gradients). So whatever several units share
    is noised while it feeds sums, also where it belongs to one site; with ``protect="site"`` the site solves it again in
    the clear at the end. Which sums are made depends on sizes and budget alone. What stays: a site's own factors; `save`
    does not write them.

    References
    ----------
    B. Ermis. Bayesian coupled factorization and differential privacy. PhD thesis, 2020, chapters 4 and 7.

    Examples
    --------
    >>> import numpy as np
    >>> from tacit import PrivateCoupledFactorization, Relation
    >>> from tacit.data import make_ratings
    >>> data = make_ratings(600, 40, random_state=1)
    >>> cells = np.stack([data.users, data.items], axis=1)
    >>> known = {"observed": "stored", "divergence": "euclid"}
    >>> ratings = Relation((cells, data.ratings, (600, 40)), "ir,jr->ij", ("user", "film"), **known)
    >>> model = PrivateCoupledFactorization({"r": 3}, epsilon=5.0, value_range=(1, 5)).fit([ratings])
    >>> bool(model.guarantee_.epsilon <= 5.0), model.guarantee_.unit, sorted(model.factors_)
    (True, 'user', ['film'])
    >>> model.predict("user-film", cells[:3]).shape
    (3,)
    """

    ranks: Any = public(default=5, kw_only=False)
    private: str = public(default="user")
    protect: str = public(default="site")
    unit: str = public(default="user")
    shared: Sequence[str] | None = public(default=None)
    value_range: tuple[float, float] | None = public(default=None)
    method: str = public(default="moments")
    rounds: int | None = public(default=None)
    max_columns: int = public(default=250)
    sampling_rate: float = public(default=0.2)
    clip: float = public(default=1.0)
    step_size: float = public(default=0.05)
    step_decay: float = public(default=0.33)
    composition: str = public(default="zcdp")
    random_state: int = public(default=0)

    def fit(self, relations: Any, y: Any = None) -> PrivateCoupledFactorization:
        """Fit one site's relations."""
        self._fit_all([relations], [self])
        return self

    def fit_sites(self, sites: Sequence[Any]) -> list[PrivateCoupledFactorization]:
        """Fit the relations of several sites together, noise inside the sums; return one model a site, each with its own factors.

        Parameters
        ----------
        sites : sequence of sequence of Relation
            Every site's relations, in the same order. Public relations are given to all.
        """
        models = [type(self)(**self.get_params(deep=False)) for _ in sites]
        with ExitStack() as stack:
            for model in models:
                stack.enter_context(model._fitting())
            self._fit_all(list(sites), models)
        return models

    def _fit_all(self, sites: list[Any], models: list[PrivateCoupledFactorization]) -> None:
        self._check_settings()
        least, greatest = check_value_range(self.value_range)
        problems = problems_of(sites, self.ranks, self.private, self.shared)
        is_count = problems[0].private[0].power == 1
        if is_count and least != 0:
            raise InvalidInputError("value_range from 0 for KL", parameter(self.value_range), "Counts begin at 0.")
        for model in models:
            model.levels_ = [least, greatest, 0.0, float(is_count)]
        cells = [model._cells(problem) for model, problem in zip(models, problems, strict=True)]
        prepare = moments_run if self.method == "moments" else gradient_run
        run = prepare(self, problems, cells)
        given = tuple(array for one in cells for table in one for array in (table.coords, table.values))
        channel = self._channel(given, run.plan)
        outcome = run_together(run.programs, channel)[0]
        guarantee = self._with_assumptions(outcome.channel.guarantee, problems)
        for model, problem in zip(models, problems, strict=True):
            model.guarantee_ = guarantee
            model._take(problem, outcome.public)

    def _take(self, problem: Problem, public: Any) -> None:
        """Keep this site's part of what was released, and solve what stays."""
        rows = {name: public[f"rows:{name}"] for name in problem.others}
        self.levels_[2] = float(public.get("mean", 0.0))
        self.noise_ = float(public.get("noise", 0.0))
        own = public.get("own") if "mean" in public else public.get(f"rows:{problem.entity}")
        self._keep(problem, public, rows, own if self.protect == "user" else None)
        self.n_components_ = next(iter(self.factors_.values())).shape[-1]
        if self.protect == "site":
            self._solve(problem, rows)

    def _with_assumptions(self, guarantee: Guarantee, problems: list[Problem]) -> Guarantee:
        more = [SIZES]
        if problems[0].public:
            named = ", ".join(relation.name for relation in problems[0].public)
            more.append(f"the relations without {self.private!r} are public: {named}")
        if len(problems) > 1:
            more.append(TOGETHER)
        if self.protect == "site":
            more.append(STAYS)
        if self.method == "published":
            more.append(
                f"the noise is what the thesis asks for at epsilon {self.epsilon:g}; epsilon here is what it costs"
            )
        return guarantee.assuming(*more)

    def _check_settings(self) -> None:
        check_choice(self.unit, "unit", ("user", "cell"))
        check_choice(self.protect, "protect", ("site", "user"))
        check_choice(self.method, "method", ("moments", "sgld", "published"))
        check_choice(self.composition, "composition", PUBLISHED)
        check_choice(self.adjacency, "adjacency", ("add-remove", "replace-one"))
        check_epsilon(self.epsilon, infinite=self.method != "published")
        check_delta(self.delta)
        if self.rounds is not None:
            check_count(self.rounds, "rounds")
        check_count(self.max_columns, "max_columns")
        for name in ("clip", "step_size", "step_decay"):
            check_positive(getattr(self, name), name)
        check_rate(self.sampling_rate)
        check_seed(self.random_state)
