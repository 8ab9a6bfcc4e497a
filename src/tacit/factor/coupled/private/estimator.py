"""Coupled factorisation with differential privacy: shared factors leave a site with noise only.

"sgld" is Algorithm 1 (DP-CMF) and Algorithm 2 (DP-CTF) of Ermis 2020, repaired (`dp_sgld.py`); "published" has the
noise that its appendix E prints; "moments" is tacit's own (`user_moments.py`, `cell_moments.py`).

`moments_run` and `gradient_run` make one program per site, and the plan that all programs share, from the estimator's
parameters and the sites' data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from tacit.channel import Plan, Program, Split, Step, run_together
from tacit.errors import InvalidInputError, parameter, words
from tacit.estimators.base import public
from tacit.estimators.verdict import Concern, only_means
from tacit.factor.coupled.outlines import Site
from tacit.factor.coupled.private.budget import CoupledMomentSettings, Sites
from tacit.factor.coupled.private.cell_moments import CELLS_PER_ENTITY, cell_split, cells_program
from tacit.factor.coupled.private.dp_sgld import SgldSettings, sgld_program
from tacit.factor.coupled.private.fitted import PrivateFactors, range_of
from tacit.factor.coupled.private.problem import Problem, check_coupled, problems_of, public_features
from tacit.factor.coupled.private.unit_cells import UnitCells
from tacit.factor.coupled.private.user_moments import moments_program
from tacit.factor.coupled.relation import Relations
from tacit.factor.noisy_moments.constants import VALUE_VARIANCE
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
"""Default rounds of "moments" (as for the recommender) and of the methods with gradients (set by hand)."""
PUBLISHED: dict[str, Callable[[float, float, int, float], float]] = {
    "zcdp": ermis_zcdp_noise_multiplier,
    "advanced": ermis_advanced_noise_multiplier,
}
SIZES = "the numbers of entities are public; a unit is absent if its cells are absent"
SUMMED_BY_ONE = (
    "whoever adds up the sites' sums sees each site's term before noise is added, unless the channel masks it"
)
STAYS = (
    "a site's own factors are solved from its own data and the released factors, and stay there: all others together learn no "
    "more about a unit than the release allows"
)


@dataclass(frozen=True, eq=False)
class PlannedPrograms:
    """The programs of all sites, and the plan; None for a fit without noise."""

    programs: list[Program]
    plan: Plan | None


def moments_run(
    model: PrivateCoupledFactorization, problems: Sequence[Problem], cells: Sequence[Sequence[UnitCells]]
) -> PlannedPrograms:
    """Prepare "moments", for one private relation per site, in CP form under Euclid."""
    first = problems[0]
    (kind,) = first.kinds[0]
    common = [name for name in first.everywhere if name in first.shared]
    is_private = not math.isinf(model.epsilon)
    by_cell = model.unit == "cell"
    # the factor that the sites with the most listed entities have; of these the largest
    lead = max(common, key=lambda name: (first.listed_with(name), first.sizes[name])) if common else None
    sites = _sites(first, lead, by_cell=by_cell)
    settings = CoupledMomentSettings(
        rank=first.ranks[kind.spec.summed],
        rounds=MOMENT_ROUNDS if model.rounds is None else model.rounds,
        max_columns=model.max_columns,
        lead=lead,
        release_own=model.protect == "user",
        planned_noise=sites.all * gaussian_noise_multiplier(model.epsilon, model.delta, adjacency=model.adjacency)
        if is_private
        else 0.0,
        # a common entity takes part in averages over entities once at every site
        n_listed=first.sizes[first.entity] * CELLS_PER_ENTITY if by_cell else sum(first.listed),
        sites=sites,
    )
    plan = _plan(model, cell_split(settings, len(first.everywhere)) if by_cell else settings.split)
    make = cells_program if by_cell else moments_program
    programs = [
        make(mine[0], settings, public_features(problem), first.entity)
        for problem, mine in zip(problems, cells, strict=True)
    ]
    return PlannedPrograms(programs, plan)


def _sites(problem: Problem, lead: str | None, *, by_cell: bool) -> Sites:
    """Return what follows from the relations of all sites."""
    total = sum(problem.listed)
    slices, begin = [], 0
    for listed, held in zip(problem.listed, problem.held, strict=True):
        if lead in held:
            slices.append(slice(begin, begin + listed))
        begin += listed
    fractions = {name: problem.listed_with(name) / total for name in problem.everywhere}
    return Sites(
        # a cell is at one site
        rows=1.0 if by_cell else problem.repeats(problem.everywhere),
        lead=1.0 if by_cell or lead is None else problem.repeats([lead]),
        all=1.0 if by_cell else problem.repeats(),
        fractions=fractions,
        most_factors=max(len(kind.factors) for kinds in problem.kinds for kind in kinds),
        lead_entities=None if problem.is_common else tuple(slices),
    )


def gradient_run(
    model: PrivateCoupledFactorization, problems: Sequence[Problem], cells: Sequence[Sequence[UnitCells]]
) -> PlannedPrograms:
    """Prepare "sgld" and "published"."""
    first = problems[0]
    by_cell = model.unit == "cell"
    noised = model._noised(first)
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
        None if model.hyper_prior is None else (float(model.hyper_prior[0]), float(model.hyper_prior[1])),
        model.value_variance,
        1.0 if by_cell else first.repeats(noised),
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
    return PlannedPrograms(programs, plan)


def _plan(model: PrivateCoupledFactorization, steps: Split | list[Step]) -> Plan | None:
    if math.isinf(model.epsilon):
        return None
    return Plan.for_budget(model.epsilon, model.delta, steps=steps, unit=model.unit, adjacency=model.adjacency)


class PrivateCoupledFactorization(PrivateFactors):
    r"""Factorise relations about protected entities, with differential privacy for the factors that sites share.

    Parameters
    ----------
    ranks : int or dict of letter to int
        The size of every letter that the einsums sum over. With "moments" it is the maximum number of components; those that
        exceed the noise are used.
    private : str, default="user"
        The factor whose entities are protected. Relations without it must hold nothing about them: they count as public, and
        their use costs no privacy.
    epsilon, delta : float
        Privacy loss and failure probability of the **whole** fit. ``epsilon=inf`` adds no noise and has no guarantee.
    protect : {"site", "user"}, default="site"
        "site": only the shared factors are released; a site solves its own factors from its own data without noise, and they
        never leave it. "user": the protected entities' own factors are noised and released too.
    unit : {"user", "cell"}, default="user"
        What is protected: a protected entity with all its cells, or one cell (its presence and its value).
    shared : sequence of str, optional
        The factors whose entities are the same at all sites that have them; all except the protected entity's if not given. The
        others are each site's own. If the protected entity's is among them, an entity may have cells at several sites, and the
        guarantee is for its cells at all of them (see "Privacy").
    value_range : tuple of float, or mapping of relation to tuple of float
        Public least and greatest value, of all private relations or of each by its name; values outside are clipped. Choose it
        without looking at the data.
    method : {"moments", "sgld", "published"}, default="moments"
        "moments": noisy sufficient statistics, shrunk by the noise in them; for one private relation per site, in CP form with
        ``divergence="euclid"``. "sgld": noisy gradients of Poisson samples, for any einsum, Euclid or KL. "published": the
        same with the noise of the thesis's formula; `guarantee_` states the epsilon that this noise gives.
    rounds : int, optional
        Number of regressions of "moments" (4 if not given), or of gradient steps of "sgld" and "published" (200).
    max_columns : int, default=250
        For "moments": maximum number of rows of the largest shared factor in the second moment.
    sampling_rate, clip, step_size, step_decay
        For "sgld": probability with which a unit takes part in a step, largest norm of a unit's gradient, size of the first
        step, and the power with which steps become smaller.
    hyper_prior : tuple of float, optional
        For "sgld" and "published": a_0 and b_0 of a Gamma prior of the precisions of the factors' components, which are
        then estimated from the noisy factors, at no cost. The thesis uses (1, 0.01), the best of its Table 7.4. If not
        given, the prior has a fixed weight.
    value_variance : float, default=0.18
        For `hyper_prior`: a public guess of the variance of a cell around its mean, on the scale from -1 to 1 that `value_range`
        is mapped to; for Kullback-Leibler its dispersion. The default is that of ratings. If it is much too large, the
        factors become zero.
    composition : {"zcdp", "advanced"}, default="zcdp"
        The formula of "published".
    adjacency : {"add-remove", "replace-one"}, default="add-remove"
        Whether neighbouring data differ in the presence of a unit's cells, or in the cells of a unit.
    max_units : int, default=2**20
        Public upper bound on the number of units of a site.
    ledger, dataset, insecure_seed
        See `PrivateMoments`.
    random_state : int, default=0
        Seed of the random start of "sgld". Not secret: privacy noise does not use it.
    verbose : bool, default=False
        Say on standard error what a fit is doing; see `tacit.show_progress`.

    Attributes
    ----------
    factors_, biases_ : dict of str to ndarray
        The released arrays, by factor. The expectation of a cell is the mean plus biases plus the einsum of the factors, on a
        scale where `value_range` is -1 to 1; `predict` computes it.
    n_components_ : int
        Number of components that exceed the noise. If it is zero, the model consists of biases.
    guarantee_ : Guarantee

    Privacy
    -------
    Unit: see `unit`. The numbers of entities (the sizes of the factors) are public, and a unit is absent if its cells are
    absent. What leaves a site: noisy sums of contributions, each computed from one unit's cells and earlier totals. Why the
    bound holds: a contribution is divided by its own norm (unit "user"), made from clipped residuals (unit "cell"), or
    clipped (gradients). Anything computed from more than one unit is noised before it influences a later sum, even if it
    never leaves its site; with ``protect="site"`` the site solves it again without noise at the end. Which sums are released
    depends on sizes and budget only. What stays: a site's own factors; `save` does not write them.

    Several sites: unless `shared` names the protected entity, a unit is at one site, and whoever is in two sites' lists is two
    units. If `shared` names it, a unit is an entity with its cells at all sites. Each site bounds its part by B, and the noise
    is sized for B times the square root of the number of pairs of sites that add to common numbers (`Problem.repeats`): N
    times B if all N sites do. A cell is at one site; one that two sites know is two units.

    References
    ----------
    B. Ermis. Bayesian approaches for privacy preserving data sharing. PhD thesis, 2020, chapters 4 (Algorithms 1 and 2)
    and 7.

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

    ranks: int | Mapping[str, int] = public(default=5, kw_only=False)
    private: str = public(default="user")
    protect: str = public(default="site")
    unit: str = public(default="user")
    shared: Sequence[str] | None = public(default=None)
    value_range: tuple[float, float] | Mapping[str, tuple[float, float]] | None = public(default=None)
    method: str = public(default="moments")
    rounds: int | None = public(default=None)
    max_columns: int = public(default=250)
    sampling_rate: float = public(default=0.2)
    clip: float = public(default=1.0)
    step_size: float = public(default=0.05)
    step_decay: float = public(default=0.33)
    hyper_prior: tuple[float, float] | None = public(default=None)
    value_variance: float = public(default=VALUE_VARIANCE)
    composition: str = public(default="zcdp")
    random_state: int = public(default=0)

    def fit(self, relations: Relations | Site, y: object = None) -> PrivateCoupledFactorization:
        """Fit one site's relations."""
        self._fit_all([relations], [self])
        return self

    def fit_sites(self, sites: Sequence[Relations | Site]) -> list[PrivateCoupledFactorization]:
        """Fit the relations of several sites together; return one model per site, each with the site's own factors.

        Parameters
        ----------
        sites : sequence of sequence of Relation
            Every site's relations; they may differ from site to site. Public relations are given to all.
        """
        models = [type(self)(**self.get_params(deep=False)) for _ in sites]
        with ExitStack() as stack:
            for model in models:
                stack.enter_context(model._fitting())
            self._fit_all(list(sites), models)
        return models

    def _fit_all(self, sites: Sequence[Relations | Site], models: list[PrivateCoupledFactorization]) -> None:
        self._check_ranges()
        problems = self._problems(sites)
        self._check_absence(problems)
        is_count = problems[0].private[0].power == 1
        ranges = [range_of(self.value_range, one.name) for problem in problems for one in problem.private]
        if is_count and any(least != 0 for least, _ in ranges):
            raise InvalidInputError(
                'value_range to start at 0 with divergence="kl"',
                parameter(self.value_range),
                "Give value_range=(0, most).",
            )
        for model in models:
            model.levels_ = [0.0, float(is_count)]
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

    def check_sites(self, sites: Sequence[Relations | Site], names: Sequence[str] | None = None) -> None:
        """Raise unless the relations of all sites can be fitted together with these parameters; their cells are not used.

        Parameters
        ----------
        sites : sequence of sequence of Relation
            The relations of every site, or stand-ins with their einsums, factors, shapes and divergences.
        names : sequence of str, optional
            What messages call the sites.
        """
        self._check_ranges()
        self._problems(list(sites), names)

    def _problems(self, sites: Sequence[Relations | Site], names: Sequence[str] | None = None) -> list[Problem]:
        """Check the parameters and what is public about all sites' relations; return one problem per site of this process."""
        self._check_settings()
        problems = problems_of(sites, self.ranks, self.private, self.shared, names)
        first = problems[0]
        check_coupled(first, noised=self._noised(first))
        if self.method == "moments":
            self._check_moments(first)
        else:
            self._check_gradients(first)
        return problems

    def _noised(self, problem: Problem) -> tuple[str, ...]:
        """Return the factors that get noise during the fit."""
        if self.protect == "site" and self.unit == "user":
            return problem.everywhere
        return (problem.entity, *problem.everywhere)

    def _check_moments(self, problem: Problem) -> None:
        for site, kinds in enumerate(problem.kinds):
            if len(kinds) > 1 or not kinds[0].spec.is_cp or kinds[0].power != 0:
                where = f" at {problem.names[site]}" if len(problem.kinds) > 1 else ""
                raise InvalidInputError(
                    'one private relation per site, in CP form (such as "ir,jr->ij"), with divergence="euclid", for method '
                    '"moments"',
                    words(f"{len(kinds)} private{where}, the first {kinds[0].spec.text} with power {kinds[0].power:g}"),
                    'Use method="sgld", or divergence="euclid" and one einsum of the form "ir,jr,kr->ijk".',
                )
        if problem.is_common and self.unit == "user" and self.protect == "user":
            raise InvalidInputError(
                f'protect="site" for {problem.entity!r} entities that several sites have, with method "moments" and unit "user"',
                parameter(self.protect),
                'Each site solves them from its own cells, and such solutions cannot be added up. Use method="sgld", or '
                'unit="cell".',
            )

    def _check_gradients(self, problem: Problem) -> None:
        kinds = [kind for of_site in problem.kinds for kind in of_site]
        for power in [kind.power for kind in kinds] + [relation.power for relation in problem.public]:
            if power not in (0, 1) or power != kinds[0].power:
                raise InvalidInputError(
                    'divergence="euclid" in all relations, or "kl" in all',
                    parameter(power),
                    "Give all relations the same divergence.",
                )
        if problem.is_common and self.unit == "user" and self.sampling_rate != 1:
            raise InvalidInputError(
                f'sampling_rate=1 for {problem.entity!r} entities that several sites have, with unit "user"',
                parameter(self.sampling_rate),
                "Each site would draw such an entity by itself, and it would take part more often than is accounted for.",
            )

    def _take(self, problem: Problem, public: Mapping[str, Any]) -> None:
        """Set the released attributes of this site, and solve its own factors."""
        rows = {name: public[f"rows:{name}"] for name in problem.others}
        self.levels_[0] = float(public.get("mean", 0.0))
        self.noise_ = float(public.get("noise", 0.0))
        own = public.get("own") if "mean" in public else public.get(f"rows:{problem.entity}")
        self._keep(problem, public, rows, own if self.protect == "user" else None)
        self.n_components_ = next(iter(self.factors_.values())).shape[-1]
        if self.protect == "site":
            self._solve(problem, rows)

    def _concerns(self) -> list[Concern]:
        return only_means(vars(self).get("n_components_", 1))

    def _with_assumptions(self, guarantee: Guarantee, problems: list[Problem]) -> Guarantee:
        more = [SIZES]
        if problems[0].public:
            named = ", ".join(relation.name for relation in problems[0].public)
            more.append(f"the relations without {self.private!r} are public: {named}")
        if len(problems) > 1:
            more.append(SUMMED_BY_ONE)
        if len(problems[0].kinds) > 1:
            more.append(self._who_is_a_unit(problems[0]))
        if self.protect == "site":
            more.append(STAYS)
        if self.method == "published":
            more.append(
                f"the noise is that of the thesis's formula for epsilon {self.epsilon:g}; the epsilon stated here is the "
                "one that this noise gives"
            )
        return guarantee.assuming(*more)

    def _who_is_a_unit(self, problem: Problem) -> str:
        if self.unit == "cell":
            return "a cell that two sites know is two units"
        if problem.is_common:
            return f"a unit is one of the common {problem.entity!r} entities, with its cells at all sites"
        return f"a unit is at one site: whoever is in the lists of {problem.entity!r} of two sites is two units"

    def _check_absence(self, problems: Sequence[Problem]) -> None:
        """Refuse add-remove adjacency for relations in which an absent unit would have cells: zeros."""
        for relation in (relation for problem in problems for relation in problem.private):
            if self.adjacency == "add-remove" and relation.is_sparse and not relation.stored_only:
                raise InvalidInputError(
                    f'observed="stored" for {relation.name!r} with adjacency="add-remove"',
                    words("cells that are zeros where nothing is stored, so that no unit can be absent"),
                    'If only the stored cells are known, give observed="stored". If the others are zeros, protect the change '
                    'of a unit: adjacency="replace-one".',
                )

    def _check_ranges(self) -> None:
        """Check the form of `value_range`."""
        for name in self.value_range if isinstance(self.value_range, Mapping) else ("",):
            range_of(self.value_range, name)

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
        for name in ("clip", "step_size", "step_decay", "value_variance"):
            check_positive(getattr(self, name), name)
        check_rate(self.sampling_rate)
        if self.hyper_prior is not None:
            if len(self.hyper_prior) != 2:
                raise InvalidInputError(
                    "hyper_prior to be two numbers", parameter(self.hyper_prior), "Give (a_0, b_0), as in (1, 0.01)."
                )
            for value in self.hyper_prior:
                check_positive(value, "hyper_prior")
        check_seed(self.random_state)
