"""From an estimator's settings and the sites' data to the programs, one a site, and the plan of noise that they share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tacit.channel import Plan, Program, Split, Step
from tacit.errors import InvalidInputError, parameter, words
from tacit.factor.coupled.private_cells import UnitCells
from tacit.factor.coupled.private_entries import CELLS_PER_ENTITY, cell_split, entries_program
from tacit.factor.coupled.private_features import public_features
from tacit.factor.coupled.private_layout import Problem
from tacit.factor.coupled.private_moments import moments_program
from tacit.factor.coupled.private_settings import Settings
from tacit.factor.coupled.private_sgld import SgldSettings, sgld_program
from tacit.privacy.calibration import gaussian_noise_multiplier
from tacit.privacy.published import ermis_advanced_noise_multiplier, ermis_zcdp_noise_multiplier

PUBLISHED: dict[str, Callable[[float, float, int, float], float]] = {
    "zcdp": ermis_zcdp_noise_multiplier,
    "advanced": ermis_advanced_noise_multiplier,
}


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
    settings = Settings(
        rank=next(iter(first.ranks[letter] for letter in relation.spec.summed)),
        rounds=model.rounds,
        popular=model.popular,
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
    settings = SgldSettings(
        model.steps, model.sampling_rate, model.clip, model.step_size, model.decay, noised, by_cell, model.random_state
    )
    planned = Step(count=model.steps, sampling_rate=model.sampling_rate)
    if model.method == "published":
        multiplier = PUBLISHED[model.composition](model.epsilon, model.delta, model.steps, model.sampling_rate)
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
