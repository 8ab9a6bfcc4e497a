"""One of several sites: its own relations, plus the public outline of every other site's relations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tacit.errors import InvalidInputError, parameter, words
from tacit.factor.coupled.einsum import Spec
from tacit.factor.coupled.relation import Relation
from tacit.privacy.fingerprint import fingerprint

CELLS = "*"
"""The gaps of a relation of which single cells are not known."""
RESERVED = ";,=@"


@dataclass(frozen=True)
class Outline:
    """What all sites know about a relation of one of them.

    Parameters
    ----------
    site, name : str
    einsum : str
    factors : tuple of str
    shape : tuple of int
    power : float
        Of the divergence.
    gaps : str
        "*" if single cells are not known, else the letters of the axes of which some entities are not known at all. Empty for a
        relation with protected entities: which of its cells are known is private.
    entities : mapping of factor to str
        A digest of the list of entities, for factors that sites share: equal lists in equal order have equal digests.
    content : str
        A digest of the data, for relations that are public and held by every site.
    private : str
        The factor of the protected entities, for relations that have it in a private model.
    """

    site: str
    name: str
    einsum: str
    factors: tuple[str, ...]
    shape: tuple[int, ...]
    power: float
    gaps: str = ""
    entities: Mapping[str, str] = field(default_factory=dict)
    content: str = ""
    private: str = ""

    @classmethod
    def of(
        cls,
        relation: Relation,
        site: str,
        *,
        entities: Mapping[str, str] | None = None,
        is_public: bool = False,
        private: str = "",
    ) -> Outline:
        """Outline a relation; `entities` may have digests of more factors than the relation uses.

        With `private`, a factor of the relation, nothing in the outline depends on the relation's cells.
        """
        kept = {name: digest for name, digest in (entities or {}).items() if name in relation.factors}
        content = fingerprint(tuple(arrays_of([relation]))) if is_public else ""
        outline = cls(
            site, relation.name, relation.spec.text, relation.factors, relation.shape, relation.power,
            "" if private else _gaps(relation), kept, content, private,
        )  # fmt: skip
        for text in (site, relation.name, *relation.factors):
            if any(sign in text for sign in RESERVED):
                raise InvalidInputError(
                    f"names without {' '.join(RESERVED)}", parameter(text), "Rename the relation or factor."
                )
        return outline

    @property
    def text(self) -> str:
        """The outline as a line: of a job, and for people."""
        known = [f"{name}@{digest}" for name, digest in self.entities.items()]
        parts = {
            "site": self.site,
            "name": self.name,
            "einsum": self.einsum,
            "factors": ",".join(self.factors),
            "shape": ",".join(map(str, self.shape)),
            "power": repr(float(self.power)),
            "gaps": self.gaps,
            "entities": ",".join(known),
            "content": self.content,
            "private": self.private,
        }
        return "; ".join(f"{key}={value}" for key, value in parts.items() if value)

    @classmethod
    def parse(cls, line: str) -> Outline:
        """Read what `text` wrote."""
        parts = dict(part.partition("=")[::2] for part in line.strip().split("; "))
        try:
            shape = tuple(int(size) for size in parts["shape"].split(","))
            factors = tuple(parts["factors"].split(","))
            Spec.parse(parts["einsum"], len(factors), len(shape))
            pairs = [one.partition("@")[::2] for one in parts.get("entities", "").split(",") if one]
            return cls(
                parts["site"], parts["name"], parts["einsum"], factors, shape, float(parts["power"]),
                parts.get("gaps", ""), dict(pairs), parts.get("content", ""), parts.get("private", ""),
            )  # fmt: skip
        except (KeyError, ValueError):
            raise InvalidInputError(
                "a relation as `tacit parties outline` writes it",
                words("a line in another form"),
                "Ask that party for the outline again.",
            ) from None

    def stand_in(self) -> Relation:
        """Return a relation of this outline with one cell in it: for what depends on nothing else."""
        cell = (np.zeros((1, len(self.shape)), np.int64), np.ones(1), self.shape)
        # zeros that are not stored have a short form under Euclid and KL only
        observed = "stored" if self.private or self.gaps == CELLS or self.power not in (0, 1) else "all"
        found = Relation(
            cell,
            self.einsum,
            self.factors,
            observed=observed,
            divergence=self.power,
            name=f"{self.name} of {self.site}",
        )
        if self.gaps and self.gaps != CELLS:
            found.keep = tuple(
                np.ones(size, bool) if letter in self.gaps else None
                for letter, size in zip(found.spec.output, self.shape, strict=True)
            )
        return found


class Site:
    """The data of one of several sites, for the `fit` of a coupled model within `tacit.parties`.

    Parameters
    ----------
    name : str
    relations : Relation or sequence of Relation
        Its own.
    outlines : sequence of Outline
        Of all sites' relations, the same everywhere; the sites in the order of their first.
    """

    def __init__(self, name: str, relations: Any, outlines: Sequence[Outline]) -> None:
        self.name = name
        self.relations = [relations] if isinstance(relations, Relation) else list(relations)
        self.outlines = list(outlines)
        self._check_own()

    @property
    def names(self) -> list[str]:
        """All sites, in order."""
        return list(dict.fromkeys(outline.site for outline in self.outlines))

    @property
    def place(self) -> int:
        """The place of this one among them."""
        return self.names.index(self.name)

    @property
    def n_cells(self) -> int:
        """Number of known cells here."""
        return sum(relation.n_observed for relation in self.relations)

    def arrays(self) -> list[Any]:
        """Return all data of this site, as arrays."""
        return arrays_of(self.relations)

    def everyone(self) -> list[list[Relation]]:
        """Return every site's relations: this one's own, and stand-ins of the others'."""
        return [
            self.relations
            if site == self.name
            else [outline.stand_in() for outline in self.outlines if outline.site == site]
            for site in self.names
        ]

    def _check_own(self) -> None:
        """Refuse data that is not what the others were told."""
        told = [outline for outline in self.outlines if outline.site == self.name]
        if not self.relations or len(told) != len(self.relations):
            raise InvalidInputError(
                f"{len(told)} relations from {self.name}, as the job says",
                words(f"{len(self.relations)}"),
                "Give the relations that were described to the other parties.",
            )
        for relation, outline in zip(self.relations, told, strict=True):
            if outline.private and outline.private not in relation.factors:
                raise InvalidInputError(
                    f"a relation with {outline.private!r} from {self.name}, as the job says",
                    words("one without"),
                    "Give the relations in the order in which they were described to the other parties.",
                )
            mine = Outline.of(
                relation,
                self.name,
                entities=outline.entities,
                is_public=bool(outline.content),
                private=outline.private,
            )
            for what in ("name", "einsum", "factors", "shape", "power", "gaps", "content"):
                if getattr(mine, what) != getattr(outline, what):
                    raise InvalidInputError(
                        f"{what} {getattr(outline, what)!r} of {outline.name!r} from {self.name}, as the job says",
                        parameter(getattr(mine, what)),
                        "Use the data that was described to the others, or have the job made anew.",
                    )


def check_outlines(outlines: Sequence[Outline], parties: Sequence[str], private: str | None) -> None:
    """Raise unless the sites' relations fit together; errors name the party.

    `private` is the factor of the protected entities, if some are: relations without it must be public, and the same.
    """
    if list(dict.fromkeys(outline.site for outline in outlines)) != list(parties):
        raise InvalidInputError(
            f"relations of {', '.join(parties)}, in this order",
            words(", ".join(dict.fromkeys(outline.site for outline in outlines)) or "none"),
            "Put the outlines of all parties together, in the order of the parties.",
        )
    lists: dict[str, tuple[str, str]] = {}
    public: dict[str, dict[str, str]] = {party: {} for party in parties}
    kinds: dict[str, list[tuple[Any, ...]]] = {party: [] for party in parties}
    for outline in outlines:
        protected = private if private is not None and private in outline.factors else ""
        if outline.private != protected:
            raise InvalidInputError(
                f"an outline of {outline.name!r} from {outline.site} for a model that protects {private or 'nobody'}",
                words(f"one for a model that protects {outline.private or 'nobody'}"),
                f"Have it made again with `tacit parties outline --private {private}`: without it, an outline is read off the "
                "private data."
                if protected
                else "Have it made again without --private.",
            )
    if private is None:  # where some entities are protected, which factors are shared is a setting
        _check_sizes(outlines)
    for outline in outlines:
        for factor, digest in outline.entities.items():
            first = lists.setdefault(factor, (digest, outline.site))
            if first[0] != digest:
                raise InvalidInputError(
                    f"the entities of {factor!r} from {outline.site} as {first[1]} has them",
                    words("others, or another order"),
                    f"Give both the same file of names for {factor!r}.",
                )
        if private is not None and private not in outline.factors:
            public[outline.site][outline.name] = outline.content
        elif private is not None:
            kinds[outline.site].append((outline.einsum, outline.factors, outline.power))
    for party in parties:
        if kinds[party] != kinds[parties[0]]:
            raise InvalidInputError(
                f"the same private relations from {party} as from {parties[0]}: {kinds[parties[0]]}",
                parameter(kinds[party]),
                "Give every party's relations in the same order, with the same einsums, factors and divergences.",
            )
        odd = [name for name, content in public[party].items() if not content]
        if odd or public[party] != public[parties[0]]:
            raise InvalidInputError(
                f"the same public relations (those without {private!r}) from {party} as from {parties[0]}",
                words(f"{odd[0]!r}, which is not described as public" if odd else ", ".join(public[party]) or "none"),
                "Public relations are given to every party, with the same data.",
            )


def _check_sizes(outlines: Sequence[Outline]) -> None:
    seen: dict[str, tuple[list[int], str]] = {}
    for outline in outlines:
        spec = Spec.parse(outline.einsum, len(outline.factors), len(outline.shape))
        for place, factor in enumerate(outline.factors):
            sizes = [outline.shape[spec.output.index(letter)] for letter in spec.data_letters(place)]
            first = seen.setdefault(factor, (sizes, outline.site))
            if first[0] != sizes:
                raise InvalidInputError(
                    f"as many entities of {factor!r} from {outline.site} as from {first[1]}: {first[0]}",
                    parameter(sizes),
                    "Factors with one name are one factor: give all parties its whole list of entities, or rename it.",
                )


def arrays_of(relations: Sequence[Relation]) -> list[Any]:
    """Return what the relations hold, as arrays."""
    found: list[Any] = []
    for relation in relations:
        parts = (relation.dense, relation.mask, relation.coords, relation.values, relation.holes, *relation.keep)
        found += [np.asarray(part) for part in parts if part is not None]
    return found


def _gaps(relation: Relation) -> str:
    if relation.stored_only or relation.mask is not None or len(relation.holes):
        return CELLS
    pairs = zip(relation.spec.output, relation.keep, strict=True)
    return "".join(letter for letter, kept in pairs if kept is not None)
