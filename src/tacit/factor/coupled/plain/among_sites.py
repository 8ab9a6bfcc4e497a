"""A coupled model among sites: what its fit agrees on with the others before the first sweep, and the fit.

The start of a shared factor has the size that all sites' relations suggest, so it comes from a total; so does which of
its entities nobody knows anything of. The sweeps are those of a fit alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.channel import Clear, Outcome, Program, Sum, run
from tacit.errors import InvalidInputError, ProtocolError, words
from tacit.factor.coupled.divergence import Floats
from tacit.factor.coupled.einsum import checked_ranks, factor_shapes
from tacit.factor.coupled.outlines import Site
from tacit.factor.coupled.plain.start import checked_relations, filled_in, given_start, start_sizes, unknown_entities
from tacit.factor.coupled.relation import Relation
from tacit.privacy.guarantee import Guarantee
from tacit.validation import check_choice, check_count


def fit_site(model: Any, site: Site) -> Any:
    """Fit `model`, a `CoupledFactorization`, to all sites' relations, from this site."""
    own = checked_relations(site.relations)
    everyone = site.everyone()
    together = [relation for relations in everyone for relation in relations]
    method = check_choice(model.inference, "inference", ["map", "vb"])
    shapes = factor_shapes(together, checked_ranks(model.ranks, together))
    shared = shared_factors(everyone)
    mine = {name: shape for name, shape in shapes.items() if name in shared or _uses(own, name)}
    settings: Any = {"map": model._settings, "vb": model._bayes}[method](together)
    fit: Any = {"map": model._point, "vb": model._variational}[method]
    tries = check_count(model.n_init, "n_init") if model._is_random() else 1
    met = run(_meeting(own, together, shapes, shared), Clear())
    if isinstance(met.channel, Clear):
        raise ProtocolError(
            "a site's part within tacit.parties", words("a site alone"), "Use run_local, or give all relations to fit."
        )

    def fitted(rng: np.random.Generator) -> dict[str, Any]:
        start = met.private["start"](rng) if model._is_random() else given_start(model.init, mine)
        return fit(own, start, shared, settings)  # type: ignore[no-any-return]

    best = model._best(tries, fitted)
    factors = filled_in(best["factors"], met.private["unknown"], together)
    model._keep(own, {}, {**best, "factors": factors})
    model.guarantee_ = _with_assumptions(met.channel.guarantee, site, shared)
    return model


def _with_assumptions(guarantee: Guarantee, site: Site, shared: Sequence[str]) -> Guarantee:
    """Say which totals are of two sites only: the others are known to add nothing to them."""
    users = {name: [one for one in site.names if name in _names(site, one)] for name in shared}
    pairs = [f"{name!r} of {' and '.join(ones)}" for name, ones in users.items() if len(ones) == 2]
    if not pairs or len(site.names) == 2:
        return guarantee
    more = f"; but of what only two parties share each can subtract its own term ({', '.join(pairs)})"
    return replace(guarantee, reason=guarantee.reason + more)


def _names(site: Site, name: str) -> set[str]:
    return {factor for outline in site.outlines if outline.site == name for factor in outline.factors}


def shared_factors(everyone: Sequence[Sequence[Relation]]) -> list[str]:
    """Return the factors that several sites use, in the order in which they appear."""
    names = dict.fromkeys(name for relations in everyone for relation in relations for name in relation.factors)
    shared = [name for name in names if sum(_uses(relations, name) > 0 for relations in everyone) > 1]
    if not shared:
        raise InvalidInputError(
            "a factor that two sites share", words("none: each site would be alone"), "Name shared factors alike."
        )
    return shared


def _uses(relations: Sequence[Relation], name: str) -> int:
    return sum(name in relation.factors for relation in relations)


def _meeting(
    own: Sequence[Relation], together: Sequence[Relation], shapes: Mapping[str, tuple[int, ...]], shared: Sequence[str]
) -> Program:
    """Total what a start and an end need to know of all sites; sizes enter by their logarithms, of which means are taken."""
    logs = {name: [math.log(size) for size in sizes] for name, sizes in start_sizes(own, shapes).items()}
    unknown = unknown_entities(own)
    listed = {name: _entities(together, name, shapes[name]) for name in shared}
    known: dict[str, Any] = {
        f"known:{name}": np.full(size, float(_uses(own, name) > 0)) * ~unknown.get(name, np.zeros(size, bool))
        for name, size in listed.items()
        if size
    }
    total = yield Sum(sizes=[sum(logs.get(name, [])) for name in shared], **known)
    means = {name: float(np.mean(found)) for name, found in logs.items() if found}
    means |= {name: float(total.sizes[place]) / _uses(together, name) for place, name in enumerate(shared)}

    def start(rng: np.random.Generator) -> dict[str, Floats]:
        # all sites draw for all factors, as one holder of everything would
        drawn = {name: 0.2 + 1.6 * rng.random(shape) for name, shape in shapes.items()}
        return {name: math.exp(means[name]) * drawn[name] for name in shapes if name in means}

    missing: dict[str, NDArray[np.bool_]] = {name: found for name, found in unknown.items() if name not in shared}
    missing |= {name.removeprefix("known:"): total[name] < 0.5 for name in known if (total[name] < 0.5).any()}
    return Outcome(public={"sizes": total.sizes}, private={"start": start, "unknown": missing})


def _entities(relations: Sequence[Relation], name: str, shape: tuple[int, ...]) -> int:
    """Return how many entities a factor has: one a row, or 0 for a core and for factors of several axes of the data."""
    relation = next(relation for relation in relations if name in relation.factors)
    place = relation.factors.index(name)
    letters = relation.spec.data_letters(place)
    return shape[relation.spec.inputs[place].index(letters)] if len(letters) == 1 else 0
