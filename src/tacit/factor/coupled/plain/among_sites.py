"""Fit of a coupled model by one of several sites.

Before the first sweep, the sites add up two things: the scale of the start of every shared factor, which depends on all sites'
relations, and which of its entities have known cells. The sweeps are the same as in a fit of one holder.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.channel import Clear, Outcome, Program, Sum, run
from tacit.errors import InvalidInputError, ProtocolError, words
from tacit.factor.arrays import Floats
from tacit.factor.coupled.einsum import checked_ranks, factor_shapes
from tacit.factor.coupled.outlines import Site
from tacit.factor.coupled.plain.langevin import check_powers
from tacit.factor.coupled.plain.start import (
    checked_relations,
    filled_in,
    given_start,
    random_entries,
    start_sizes,
    starts_filled_in,
    unknown_entities,
)
from tacit.factor.coupled.relation import Relation
from tacit.privacy.guarantee import Guarantee
from tacit.validation import check_choice

if TYPE_CHECKING:
    from tacit.factor.coupled.plain.estimator import CoupledFactorization


def fit_site(model: CoupledFactorization, site: Site) -> CoupledFactorization:
    """Fit `model`, a `CoupledFactorization`, to all sites' relations, from this site."""
    own = checked_relations(site.relations)
    everyone = site.everyone()
    together = [relation for relations in everyone for relation in relations]
    method = check_choice(model.inference, "inference", ["map", "vb", "sgld"])
    if method == "sgld":
        check_powers(together)
    shapes = factor_shapes(together, checked_ranks(model.ranks, together))
    shared = shared_factors(everyone)
    mine = {name: shape for name, shape in shapes.items() if name in shared or _uses(own, name)}
    tries = model._tries(1)
    agreed = run(_agreement(own, together, shapes, shared), Clear())
    if isinstance(agreed.channel, Clear):
        raise ProtocolError(
            "a site's part within tacit.parties", words("a site alone"), "Use run_local, or give all relations to fit."
        )

    fit = model._fit_of(method, together, agreed.private["scales"], tries, everyone=everyone, place=site.place)

    def fitted(rng: np.random.Generator) -> dict[str, Any]:
        start = agreed.private["start"](rng) if isinstance(model.init, str) else given_start(model.init, mine)
        return fit(own, start, shared)

    best = model._best(tries, fitted)
    factors = filled_in(best["factors"], agreed.private["unknown"], together)
    posterior = starts_filled_in(best["posterior"], agreed.private["unknown"], together)
    model._keep(own, {}, {**best, "factors": factors, "posterior": posterior})
    model.guarantee_ = _with_assumptions(agreed.channel.guarantee, site, shared)
    return model


def _with_assumptions(guarantee: Guarantee, site: Site, shared: Sequence[str]) -> Guarantee:
    """Add to the reason which totals come from two sites only, because all sites know that the others add nothing to them."""
    users = {name: [one for one in site.names if name in _names(site, one)] for name in shared}
    pairs = [f"{name!r} of {' and '.join(ones)}" for name, ones in users.items() if len(ones) == 2]
    if not pairs or len(site.names) == 2:
        return guarantee
    more = (
        f"; but each of two parties that share a factor can subtract its own term from the total ({', '.join(pairs)})"
    )
    return replace(guarantee, reason=guarantee.reason + more)


def _names(site: Site, name: str) -> set[str]:
    return {factor for outline in site.outlines if outline.site == name for factor in outline.factors}


def shared_factors(everyone: Sequence[Sequence[Relation]]) -> list[str]:
    """Return the factors that several sites use, in the order in which they appear."""
    names = dict.fromkeys(name for relations in everyone for relation in relations for name in relation.factors)
    shared = [name for name in names if sum(_uses(relations, name) > 0 for relations in everyone) > 1]
    if not shared:
        raise InvalidInputError(
            "a factor that two sites share", words("none"), "Give shared factors the same name at all sites."
        )
    return shared


def _uses(relations: Sequence[Relation], name: str) -> int:
    return sum(name in relation.factors for relation in relations)


def _agreement(
    own: Sequence[Relation], together: Sequence[Relation], shapes: Mapping[str, tuple[int, ...]], shared: Sequence[str]
) -> Program:
    """Add up the logarithms of the start's scales, and which entities are known, over all sites."""
    logs = {name: [math.log(size) for size in sizes] for name, sizes in start_sizes(own, shapes).items()}
    unknown = unknown_entities(own)
    listed = {name: _entities(together, name, shapes[name]) for name in shared}
    known: dict[str, Any] = {
        f"known:{name}": np.full(size, float(_uses(own, name) > 0)) * ~unknown.get(name, np.zeros(size, bool))
        for name, size in listed.items()
        if size
    }
    total = yield Sum(sizes=[sum(logs.get(name, [])) for name in shared], **known)
    means = {name: float(np.mean(sizes)) for name, sizes in logs.items() if sizes}
    means |= {name: float(total.sizes[place]) / _uses(together, name) for place, name in enumerate(shared)}

    scales = {name: math.exp(mean) for name, mean in means.items()}

    def start(rng: np.random.Generator) -> dict[str, Floats]:
        # all sites draw for all factors, so that the start is that of one holder of all data
        drawn = {name: random_entries(shape, rng) for name, shape in shapes.items()}
        return {name: scales[name] * drawn[name] for name in shapes if name in scales}

    missing: dict[str, NDArray[np.bool_]] = {name: rows for name, rows in unknown.items() if name not in shared}
    missing |= {name.removeprefix("known:"): total[name] < 0.5 for name in known if (total[name] < 0.5).any()}
    return Outcome(public={"sizes": total.sizes}, private={"start": start, "scales": scales, "unknown": missing})


def _entities(relations: Sequence[Relation], name: str, shape: tuple[int, ...]) -> int:
    """Return the number of entities of a factor; 0 for a core and for factors with several axes of the data."""
    relation = next(relation for relation in relations if name in relation.factors)
    place = relation.factors.index(name)
    letters = relation.spec.data_letters(place)
    return shape[relation.spec.inputs[place].index(letters)] if len(letters) == 1 else 0
