"""Checks the relations of every site, and computes which factors are shared and which rows are a site's own.

Entities that belong to one site (its users, or the activities of a site that shares only places) get rows of their own in one
factor over all sites. A site adds to its own rows of a sum. So the sums of all sites have the same shape, and one program
serves every choice of shared factors. Public relations become a few standardised columns (`public_features`) that describe
the rows of a factor; they do not depend on private data.

Sites may have different private relations. A sum has the rows of the factors of all sites, and a site adds zeros to the rows
of factors that it does not have. The layouts of Fig. 4.1 of Ermis 2020 are choices of `shared`: row-distributed (the sites'
users differ, films are shared), column-distributed (the users are shared, the films differ), and mixed (both are shared).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.errors import InvalidInputError, kind_of, parameter, words
from tacit.factor.arrays import Floats
from tacit.factor.coupled.einsum import Spec, checked_ranks, factor_shapes
from tacit.factor.coupled.outlines import Site
from tacit.factor.coupled.relation import Relation, Relations

EXAMPLE = "For example Relation(ratings, 'ir,jr->ij', ('user', 'film'), observed='stored', divergence='euclid')."
MOST_FEATURES = 5
"""Maximum number of columns from public relations, per factor. Set by hand: each needs a regression weight, which is estimated
from noisy sums."""


@dataclass(frozen=True)
class Kind:
    """What is public about one private relation of a site, apart from its shape."""

    spec: Spec
    factors: tuple[str, ...]
    power: float


@dataclass(frozen=True, eq=False)
class Problem:
    """One site's part of a private factorisation, checked.

    Attributes
    ----------
    private : tuple of Relation
        The relations with the protected entity.
    public : tuple of Relation
        The others. They hold nothing about that entity, so their use costs no privacy.
    entity : str
        The factor of the protected entity.
    shapes : mapping of factor to tuple of int
        Shapes of this site's factors.
    sizes : mapping of factor to int
        Number of rows of the factors over all sites; 1 for a factor without entities, such as a core.
    offsets : mapping of factor to int
        First row of this site.
    ranks : mapping of letter to int
    shared : tuple of str
        The factors whose entities are the same at all sites that have them.
    kinds : tuple of tuple of Kind
        The private relations of every site.
    listed : tuple of int
        The number of protected entities in every site's list.
    names : tuple of str
        What messages call the sites.
    """

    private: tuple[Relation, ...]
    public: tuple[Relation, ...]
    entity: str
    shapes: Mapping[str, tuple[int, ...]]
    sizes: Mapping[str, int]
    offsets: Mapping[str, int]
    ranks: Mapping[str, int]
    shared: tuple[str, ...]
    kinds: tuple[tuple[Kind, ...], ...]
    listed: tuple[int, ...]
    names: tuple[str, ...]

    @property
    def own(self) -> tuple[str, ...]:
        """The factors of the private relations that belong to one site, except that of the protected entity."""
        return tuple(name for name in self.others if name not in self.shared)

    @property
    def others(self) -> tuple[str, ...]:
        """The factors of the private relations, except that of the protected entity."""
        return tuple(dict.fromkeys(name for r in self.private for name in r.factors if name != self.entity))

    @property
    def everywhere(self) -> tuple[str, ...]:
        """The factors of all sites' private relations, except that of the protected entity."""
        return tuple(dict.fromkeys(name for held in self.held for name in held if name != self.entity))

    @property
    def held(self) -> tuple[tuple[str, ...], ...]:
        """The factors of every site's private relations."""
        return tuple(tuple(dict.fromkeys(name for kind in kinds for name in kind.factors)) for kinds in self.kinds)

    @property
    def is_common(self) -> bool:
        """Whether the protected entities are the same at all sites, so that one may have cells at each of them."""
        return self.entity in self.shared and len(self.kinds) > 1

    def listed_with(self, name: str) -> int:
        """Return the number of protected entities in the lists of all sites that have a factor; one at two sites counts twice."""
        return sum(listed for listed, held in zip(self.listed, self.held, strict=True) if name in held)

    def repeats(self, names: Sequence[str] | None = None) -> float:
        r"""Return how many times its bound at one site a protected entity can move a sum over all sites.

        Let an entity add :math:`v_s` to the sum at site s, with :math:`\|v_s\| \le B`. Two sites that add to different numbers
        have :math:`\langle v_s, v_t \rangle = 0`, any others at most :math:`B^2`. So

        .. math:: \Big\|\sum_s v_s\Big\|^2 = \sum_{s,t} \langle v_s, v_t \rangle \le B^2 k,

        where k counts the pairs (s, t), including s = t, of sites that add to common numbers, and the result is
        :math:`\sqrt k`: 1 if an entity is at one site only, :math:`\sqrt N` if N sites add to rows of their own, and N if they
        all add to the same rows. The same holds for the difference of two entities' contributions.

        Parameters
        ----------
        names : sequence of str, optional
            The factors to whose rows the sum adds; if not given, all sites add to the same numbers.
        """
        if not self.is_common:
            return 1.0
        if names is None:
            return float(len(self.kinds))
        held = [own for own in (set(names).intersection(factors) for factors in self.held) if own]
        common = set(self.shared)
        pairs = sum(here is there or bool(here & there & common) for here in held for there in held)
        return math.sqrt(pairs)


def problems_of(
    sites: Sequence[Any],
    ranks: int | Mapping[str, int],
    entity: str,
    shared: Sequence[str] | None,
    called: Sequence[str] | None = None,
) -> list[Problem]:
    """Check that the relations of all sites agree; return one `Problem` per site. Messages call the sites as `called` says."""
    if len(sites) == 1 and isinstance(sites[0], Site):  # one of several parties, with the outlines of the others
        return [problems_of(sites[0].everyone(), ranks, entity, shared, sites[0].names)[sites[0].place]]
    if not len(sites):
        raise InvalidInputError("at least one site", words("none"), "Give the relations of every site.")
    labels = tuple(called or (f"site {site}" for site in range(len(sites))))
    split = [_split(relations, entity, label, len(sites)) for label, relations in zip(labels, sites, strict=True)]
    everything = [relation for mine, public in split for relation in (*mine, *public)]
    all_ranks = checked_ranks(ranks, everything)
    shapes = [factor_shapes([*mine, *public], all_ranks) for mine, public in split]
    names = dict.fromkeys(name for of_site in shapes for name in of_site)
    common = _checked_shared(shared, entity, names)
    axes = {name: _row_axis(name, everything) for name in names}

    def rows(site: int, name: str) -> int:
        axis, shape = axes[name], shapes[site].get(name)
        return 0 if shape is None else 1 if axis is None else shape[axis]

    _check_widths(names, shapes, split, labels)
    for name in names:
        lengths = {rows(site, name) for site in range(len(sites)) if name in shapes[site]}
        if name in common and len(lengths) > 1:
            raise InvalidInputError(
                f"the same size of the shared factor {name!r} at all sites",
                parameter(sorted(lengths)),
                "Give all sites the same list of its entities.",
            )
        if axes[name] is None and name not in common and sum(name in of_site for of_site in shapes) > 1:
            raise InvalidInputError(
                f"the factor {name!r}, which has no entities, to be shared",
                words("one that is not in `shared`"),
                "Add it to `shared`, or give it another name at every site.",
            )
    kinds = tuple(tuple(Kind(one.spec, one.factors, one.power) for one in mine) for mine, _ in split)
    listed = tuple(rows(site, entity) for site in range(len(sites)))
    problems = []
    for site, (mine, public) in enumerate(split):
        sizes, offsets = {}, {}
        for name in names:
            at_sites = [rows(other, name) for other in range(len(sites))]
            sizes[name] = max(at_sites) if name in common else sum(at_sites)
            offsets[name] = 0 if name in common else sum(at_sites[:site])
        problems.append(
            Problem(
                tuple(mine),
                tuple(public),
                entity,
                shapes[site],
                sizes,
                offsets,
                all_ranks,
                tuple(common),
                kinds,
                listed,
                labels,
            )
        )
    return problems


def _check_widths(
    names: Mapping[str, None],
    shapes: Sequence[Mapping[str, tuple[int, ...]]],
    split: Sequence[tuple[list[Relation], list[Relation]]],
    labels: Sequence[str],
) -> None:
    """Raise unless the rows of every factor have the same columns at all sites."""
    for name in names:
        first: tuple[object, ...] | None = None
        for site, (mine, public) in enumerate(split):
            if name not in shapes[site]:
                continue
            axis = _row_axis(name, [*mine, *public])
            width = (axis, tuple(size for place, size in enumerate(shapes[site][name]) if place != axis))
            first = width if first is None else first
            if width != first:
                raise InvalidInputError(
                    f"the same letters and ranks of the factor {name!r} at all sites",
                    words(f"other ones at {labels[site]}"),
                    "Write its letters in the same order everywhere, with the same ranks, or give it another name.",
                )


def check_coupled(problem: Problem, *, noised: Sequence[str]) -> None:
    """Raise if a site has nothing in common with the others: no factor whose rows several sites add to."""
    reached, left = {0}, set(range(1, len(problem.held)))
    common = set(problem.shared).intersection(noised)
    while near := {
        site for site in left if any(common.intersection(problem.held[site], problem.held[one]) for one in reached)
    }:
        reached |= near
        left -= near
    if left:
        raise InvalidInputError(
            "sites that are coupled by factors that they share and that are noised",
            words(
                f"{problem.names[min(left)]}, which has none in common with {problem.names[0]}, directly or through others"
            ),
            "Name the common factors in `shared`. Sites that have only protected entities in common need "
            'protect="user" or unit="cell": otherwise the entities\' factors stay at each site.',
        )


def _split(relations: Relations, entity: str, label: str, sites: int) -> tuple[list[Relation], list[Relation]]:
    given = [relations] if isinstance(relations, Relation) else list(relations)
    for relation in given:
        if not isinstance(relation, Relation):
            raise InvalidInputError("relations", kind_of(relation), EXAMPLE)
    names = sorted({name for relation in given for name in relation.factors})
    if not isinstance(entity, str) or entity not in names:
        raise InvalidInputError(
            f"private to name a factor of a relation ({', '.join(map(repr, names)) or 'there are none'})",
            parameter(entity),
            "It names the entities to protect."
            if sites == 1
            else f"It names the entities to protect. Of {label} there is no relation with them: such data is public, and is "
            "given to all sites.",
        )
    for relation in given:
        for place, factor in enumerate(relation.factors):
            letters = relation.spec.data_letters(place)
            if len(letters) > 1 or (factor == entity and not letters):
                raise InvalidInputError(
                    f"factors with at most one axis of the data, and exactly one for {entity!r}",
                    words(f"{factor!r} with {len(letters)} in {relation.spec.text}"),
                    "Change the einsum: in a private fit, each row of a factor belongs to one entity.",
                )
    mine = [relation for relation in given if entity in relation.factors]
    return mine, [relation for relation in given if entity not in relation.factors]


def _row_axis(name: str, relations: Sequence[Relation]) -> int | None:
    """Return the axis of a factor that is indexed by entities; None for a core."""
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
        if name not in names:
            raise InvalidInputError(
                f"shared to name factors ({', '.join(map(repr, names))})",
                parameter(name),
                "Omit `shared` to share all factors except that of the protected entity.",
            )
    return list(dict.fromkeys(shared))


def public_features(problem: Problem) -> dict[str, Floats]:
    """Return, for every factor of a private relation that is also in public ones, the main directions of these over its rows."""
    tables: dict[str, list[Floats]] = {}
    for relation in problem.public:
        cells, values = relation.known_cells()
        for place, name in enumerate(relation.factors):
            letter = relation.spec.data_letters(place)
            if name not in problem.everywhere or not letter:
                continue
            axis = relation.spec.output.index(letter)
            table = np.full(relation.shape, np.nan)
            table[tuple(cells.T)] = values
            tables.setdefault(name, []).append(np.moveaxis(table, axis, 0).reshape(relation.shape[axis], -1))
    return {name: _directions(np.concatenate(each, axis=1)) for name, each in tables.items() if name in problem.shared}


def _directions(table: Floats) -> Floats:
    known = ~np.isnan(table)
    counts = np.maximum(known.sum(axis=0), 1)
    means = np.where(known, table, 0.0).sum(axis=0) / counts
    centred = np.where(known, table - means, 0.0)
    spread = centred.std(axis=0)
    left, values, _ = np.linalg.svd(centred / np.where(spread > 0, spread, 1.0), full_matrices=False)
    kept = (np.arange(len(values)) < MOST_FEATURES) & (values > 1e-9)  # of standardised columns; below it is rounding
    directions: Floats = left[:, kept] * np.sqrt(len(table))
    return directions
