"""Who holds what: the relations of every site, which factors sites share, and where a site's own entities lie.

Entities that belong to one site (its users, or the activities of a site that shares only places) get rows of their own in one
factor over all sites. So a site adds to its own rows of a sum, all sites' sums have one shape, and one program serves
every choice of what is shared. Public relations become a few standardised columns (`public_features`) that describe the rows of
a factor; nothing private is used for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.errors import InvalidInputError, kind_of, parameter, words
from tacit.factor.coupled.einsum import checked_ranks, factor_shapes
from tacit.factor.coupled.outlines import Site
from tacit.factor.coupled.relation import Relation
from tacit.factor.noisy_moments.symmetric import Floats

EXAMPLE = "For example Relation(ratings, 'ir,jr->ij', ('user', 'film'), observed='stored', divergence='euclid')."
MOST_FEATURES = 5


@dataclass(frozen=True, eq=False)
class Problem:
    """One site's part of a private factorisation, checked.

    Attributes
    ----------
    private : tuple of Relation
        Those with the protected entity.
    public : tuple of Relation
        The others: they hold nothing about that entity, and cost nothing.
    entity : str
        The factor of the protected entity.
    shapes : mapping of factor to tuple of int
        Of this site's factors.
    sizes : mapping of factor to int
        Rows of the factors over all sites; 1 for a factor without entities, such as a core.
    offsets : mapping of factor to int
        Where this site's rows begin.
    ranks : mapping of letter to int
    shared : tuple of str
        The factors that all sites share.
    """

    private: tuple[Relation, ...]
    public: tuple[Relation, ...]
    entity: str
    shapes: Mapping[str, tuple[int, ...]]
    sizes: Mapping[str, int]
    offsets: Mapping[str, int]
    ranks: Mapping[str, int]
    shared: tuple[str, ...]

    @property
    def own(self) -> tuple[str, ...]:
        """The factors of the private relations that belong to one site, but that of the protected entity."""
        return tuple(name for name in self.others if name not in self.shared)

    @property
    def others(self) -> tuple[str, ...]:
        """The factors of the private relations but that of the protected entity."""
        return tuple(dict.fromkeys(name for r in self.private for name in r.factors if name != self.entity))


def problems_of(
    sites: Sequence[Sequence[Relation]], ranks: Any, entity: Any, shared: Sequence[str] | None
) -> list[Problem]:
    """Check every site's relations against what all agree on; return one `Problem` a site."""
    if len(sites) == 1 and isinstance(sites[0], Site):  # one of several parties: of the others only outlines are here
        return [problems_of(sites[0].everyone(), ranks, entity, shared)[sites[0].place]]
    if not len(sites):
        raise InvalidInputError("at least one site", words("none"), "Give the relations of every site.")
    split = [_split(relations, entity) for relations in sites]
    found_ranks = [checked_ranks(ranks, [*mine, *public]) for mine, public in split]
    shapes = [factor_shapes([*split[site][0], *split[site][1]], found_ranks[site]) for site in range(len(sites))]
    kinds = [[(relation.spec.text, relation.factors) for relation in mine] for mine, _ in split]
    for index, kind in enumerate(kinds):
        if kind != kinds[0]:
            raise InvalidInputError(
                f"all sites to have the same private relations: {kinds[0]}",
                words(f"{kind} at site {index}"),
                "Give every site's relations in the same order, with the same einsums and factors.",
            )
    names = dict.fromkeys(name for found in shapes for name in found)
    common = _checked_shared(shared, entity, names)
    axes = {name: _row_axis(name, [r for mine, public in split for r in (*mine, *public)]) for name in names}

    def rows(site: int, name: str) -> int:
        axis, shape = axes[name], shapes[site].get(name)
        return 0 if shape is None else 1 if axis is None else shape[axis]

    for name in common:
        found = {rows(site, name) for site in range(len(sites)) if name in shapes[site]}
        if len(found) > 1:
            raise InvalidInputError(
                f"one size for the shared factor {name!r}",
                parameter(sorted(found)),
                "Give all sites the same list of its entities.",
            )
    problems = []
    for site, (mine, public) in enumerate(split):
        sizes, offsets = {}, {}
        for name in names:
            lengths = [rows(other, name) for other in range(len(sites))]
            sizes[name] = max(lengths) if name in common else sum(lengths)
            offsets[name] = 0 if name in common else sum(lengths[:site])
        problems.append(
            Problem(tuple(mine), tuple(public), entity, shapes[site], sizes, offsets, found_ranks[site], tuple(common))
        )
    return problems


def _split(relations: Any, entity: Any) -> tuple[list[Relation], list[Relation]]:
    given = [relations] if isinstance(relations, Relation) else list(relations)
    for relation in given:
        if not isinstance(relation, Relation):
            raise InvalidInputError("relations", kind_of(relation), EXAMPLE)
    names = sorted({name for relation in given for name in relation.factors})
    if not isinstance(entity, str) or entity not in names:
        raise InvalidInputError(
            f"private to name a factor of a relation ({', '.join(map(repr, names)) or 'there are none'})",
            parameter(entity),
            "It names the entities to protect: every one of them, with all its cells, is a unit.",
        )
    for relation in given:
        for place, factor in enumerate(relation.factors):
            letters = relation.spec.data_letters(place)
            if len(letters) > 1 or (factor == entity and not letters):
                raise InvalidInputError(
                    f"factors with at most one axis of the data, and one for {entity!r}",
                    words(f"{factor!r} with {len(letters)} in {relation.spec.text}"),
                    "Private fits need to know which entity a row belongs to.",
                )
    mine = [relation for relation in given if entity in relation.factors]
    return mine, [relation for relation in given if entity not in relation.factors]


def _row_axis(name: str, relations: Sequence[Relation]) -> int | None:
    """Return which axis of a factor has its entities; None for a core."""
    for relation in relations:
        if name in relation.factors:
            place = relation.factors.index(name)
            letters = relation.spec.data_letters(place)
            return relation.spec.inputs[place].index(letters) if letters else None
    raise AssertionError(name)


def _checked_shared(shared: Sequence[str] | None, entity: str, names: Mapping[str, None]) -> list[str]:
    if shared is None:
        return [name for name in names if name != entity]
    for name in shared:
        if name not in names or name == entity:
            raise InvalidInputError(
                f"shared to name factors but {entity!r} ({', '.join(repr(n) for n in names if n != entity)})",
                parameter(name),
                "Leave it out to share all factors but that of the protected entity.",
            )
    return list(shared)


def public_features(problem: Problem) -> dict[str, Floats]:
    """Return, for every factor of a private relation that public relations have too, their main directions over its rows."""
    found: dict[str, list[Floats]] = {}
    for relation in problem.public:
        cells, values = relation.known_cells()
        for place, name in enumerate(relation.factors):
            letter = relation.spec.data_letters(place)
            if name not in problem.others or not letter:
                continue
            axis = relation.spec.output.index(letter)
            table = np.full(relation.shape, np.nan)
            table[tuple(cells.T)] = values
            found.setdefault(name, []).append(np.moveaxis(table, axis, 0).reshape(relation.shape[axis], -1))
    return {
        name: _directions(np.concatenate(tables, axis=1)) for name, tables in found.items() if name in problem.shared
    }


def _directions(table: Floats) -> Floats:
    known = ~np.isnan(table)
    counts = np.maximum(known.sum(axis=0), 1)
    means = np.where(known, table, 0.0).sum(axis=0) / counts
    centred = np.where(known, table - means, 0.0)
    spread = centred.std(axis=0)
    left, values, _ = np.linalg.svd(centred / np.where(spread > 0, spread, 1.0), full_matrices=False)
    kept = (np.arange(len(values)) < MOST_FEATURES) & (values > 1e-9)
    directions: Floats = left[:, kept] * np.sqrt(len(table))
    return directions
