"""One of several sites: its own relations, plus the public outline of every other site's relations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tacit.errors import InvalidInputError, parameter, words
from tacit.factor.coupled.einsum import Spec
from tacit.factor.coupled.relation import Relation, Relations
from tacit.privacy.fingerprint import fingerprint

CELLS = "*"
"""The value of `Outline.gaps` for a relation with single unknown cells."""
RESERVED = ";,=@"
"""Characters that separate the parts of an outline's text."""


@dataclass(frozen=True)
class Outline:
    """The public description of one site's relation, known to all sites.

    Parameters
    ----------
    site, name : str
    einsum : str
    factors : tuple of str
    shape : tuple of int
    power : float
        Of the divergence.
    gaps : str
        "*" if single cells are unknown, otherwise the letters of the axes with entities that are wholly unknown. Empty for a
        relation with protected entities: which of its cells are known is private.
    entities : mapping of factor to str
        A digest of the list of entities, for shared factors: equal lists in the same order have equal digests.
    content : str
        A digest of the data, for public relations, which all sites hold.
    private : str
        In a private model, the factor of the protected entities, if the relation has it.
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
        """The outline as one line of text, for a job."""
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
        """Read a line that `text` wrote."""
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
        """Return a relation with this outline and one cell, for code that depends on the outline only."""
        cell = (np.zeros((1, len(self.shape)), np.int64), np.ones(1), self.shape)
        # only Euclid and KL can treat cells that are not stored as zeros
        observed = "stored" if self.private or self.gaps == CELLS or self.power not in (0, 1) else "all"
        relation = Relation(
            cell,
            self.einsum,
            self.factors,
            observed=observed,
            divergence=self.power,
            name=f"{self.name} of {self.site}",
        )
        if self.gaps and self.gaps != CELLS:
            relation.keep = tuple(
                np.ones(size, bool) if letter in self.gaps else None
                for letter, size in zip(relation.spec.output, self.shape, strict=True)
            )
        return relation


class Site:
    """The data of one of several sites, for the `fit` of a coupled model within `tacit.parties`.

    Parameters
    ----------
    name : str
    relations : Relation or sequence of Relation
        This site's relations.
    outlines : sequence of Outline
        The outlines of all sites' relations, the same at all sites. Sites are ordered by their first outline.
    """

    def __init__(self, name: str, relations: Relations, outlines: Sequence[Outline]) -> None:
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
        """The index of this site in `names`."""
        return self.names.index(self.name)

    @property
    def n_cells(self) -> int:
        """Number of known cells at this site."""
        return sum(relation.n_observed for relation in self.relations)

    def arrays(self) -> list[NDArray[np.generic]]:
        """Return all data of this site, as arrays."""
        return arrays_of(self.relations)

    def everyone(self) -> list[list[Relation]]:
        """Return every site's relations: this site's own, and stand-ins for those of the others."""
        return [
            self.relations
            if site == self.name
            else [outline.stand_in() for outline in self.outlines if outline.site == site]
            for site in self.names
        ]

    def _check_own(self) -> None:
        """Raise unless the relations fit the outlines that the others have."""
        stated = [outline for outline in self.outlines if outline.site == self.name]
        if not self.relations or len(stated) != len(self.relations):
            raise InvalidInputError(
                f"{len(stated)} relations from {self.name}, as stated in the job",
                words(f"{len(self.relations)}"),
                "Give the relations that were described to the other parties.",
            )
        for relation, outline in zip(self.relations, stated, strict=True):
            if outline.private and outline.private not in relation.factors:
                raise InvalidInputError(
                    f"a relation with {outline.private!r} from {self.name}, as stated in the job",
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
                        f"{what} {getattr(outline, what)!r} of {outline.name!r} from {self.name}, as stated in the job",
                        parameter(getattr(mine, what)),
                        "Use the data that was described to the others, or make a new job.",
                    )


def check_outlines(outlines: Sequence[Outline], parties: Sequence[str], private: str | None) -> None:
    """Raise unless the sites' relations fit together; errors name the party.

    `private` is the factor of the protected entities, or None. Relations without it must be public, and the same at all sites.
    """
    if list(dict.fromkeys(outline.site for outline in outlines)) != list(parties):
        raise InvalidInputError(
            f"relations of {', '.join(parties)}, in this order",
            words(", ".join(dict.fromkeys(outline.site for outline in outlines)) or "none"),
            "Put the outlines of all parties together, in the order of the parties.",
        )
    lists: dict[str, tuple[str, str]] = {}
    public: dict[str, dict[str, str]] = {party: {} for party in parties}
    for outline in outlines:
        protected = private if private is not None and private in outline.factors else ""
        if outline.private != protected:
            raise InvalidInputError(
                f"an outline of {outline.name!r} from {outline.site} for a model that protects {private or 'nobody'}",
                words(f"one for a model that protects {outline.private or 'nobody'}"),
                f"Ask for it again, made with `tacit parties outline --private {private}`: without this option, an outline "
                "depends on the private data."
                if protected
                else "Ask for it again, made without --private.",
            )
    if private is None:  # in a private model, the shared factors are a setting
        _check_sizes(outlines)
    for outline in outlines:
        for factor, digest in outline.entities.items():
            first = lists.setdefault(factor, (digest, outline.site))
            if first[0] != digest:
                raise InvalidInputError(
                    f"the entities of {factor!r} from {outline.site} to be those of {first[1]}",
                    words("other entities, or another order"),
                    f"Give both the same file of names for {factor!r}.",
                )
        if private is not None and private not in outline.factors:
            public[outline.site][outline.name] = outline.content
    for party in parties:
        if private is not None and not any(outline.site == party and outline.private for outline in outlines):
            raise InvalidInputError(
                f"a relation with {private!r} from {party}",
                words("public ones only"),
                "Public relations are given to all parties: a party that has no others does not take part.",
            )
        unstated = [name for name, content in public[party].items() if not content]
        if unstated or public[party] != public[parties[0]]:
            raise InvalidInputError(
                f"the same public relations (those without {private!r}) from {party} as from {parties[0]}",
                words(
                    f"{unstated[0]!r}, which is not described as public"
                    if unstated
                    else ", ".join(public[party]) or "none"
                ),
                "Give every party the same public relations, with the same data.",
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
                    f"the same number of entities of {factor!r} from {outline.site} as from {first[1]}: {first[0]}",
                    parameter(sizes),
                    "Factors with the same name are the same factor: give all parties its whole list of entities, or rename it.",
                )


def arrays_of(relations: Sequence[Relation]) -> list[NDArray[np.generic]]:
    """Return the data of the relations, as arrays."""
    arrays: list[NDArray[np.generic]] = []
    for relation in relations:
        parts = (relation.dense, relation.mask, relation.coords, relation.values, relation.holes, *relation.keep)
        arrays += [np.asarray(part) for part in parts if part is not None]
    return arrays


def _gaps(relation: Relation) -> str:
    if relation.stored_only or relation.mask is not None or len(relation.holes):
        return CELLS
    pairs = zip(relation.spec.output, relation.keep, strict=True)
    return "".join(letter for letter, kept in pairs if kept is not None)
