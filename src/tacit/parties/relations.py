"""Coupled relations as the data of a job: its features are one line per relation of every party, with what is public about it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from tacit.errors import InvalidInputError, words
from tacit.estimators.base import Estimator
from tacit.factor.coupled.outlines import Outline, Site, check_outlines
from tacit.factor.coupled.relation import Relation, Relations


def are_relations(part: object) -> bool:
    """Whether a party's data is a relation, or a list of some."""
    return isinstance(part, Relation) or (
        isinstance(part, list | tuple) and len(part) > 0 and all(isinstance(one, Relation) for one in part)
    )


def outlines_of(
    relations: Relations,
    party: str,
    *,
    names: Mapping[str, Sequence[str]] | None = None,
    private: str | None = None,
) -> list[str]:
    """Return the lines that a party gives to the others.

    Parameters
    ----------
    relations : Relation or sequence of Relation
    party : str
    names : mapping of factor to sequence of str, optional
        The entities of the factors that parties share; a digest of them goes into the line.
    private : str, optional
        For a private model: the factor of the protected entities. The data of relations without it is public, and a digest
        of it goes into the line. Of relations with it the line has no more than einsum, factors, shape, divergence and the
        digests of `names`: the shape and `names` must be public, and must not have been read off the data.
    """
    own = [relations] if isinstance(relations, Relation) else list(relations)
    entities = {factor: _digest(listed) for factor, listed in (names or {}).items()}
    lines = []
    for relation in own:
        protected = private if private is not None and private in relation.factors else ""
        is_public = private is not None and not protected
        lines.append(Outline.of(relation, party, entities=entities, is_public=is_public, private=protected).text)
    return lines


def site_of(
    features: Sequence[str],
    party: str,
    relations: Relations,
    names: Mapping[str, Sequence[str]] | None = None,
) -> Site:
    """Return a party's relations as the data of a job with these features; refuse relations that do not match the job."""
    outlines = [Outline.parse(line) for line in features]
    site = Site(party, relations, outlines)
    for outline in outlines:
        for factor, digest in outline.entities.items():
            if outline.site == party and names is not None and _digest(names.get(factor, ())) != digest:
                raise InvalidInputError(
                    f"the entities of {factor!r} from {party}, as the job has them",
                    words("other names, or another order"),
                    f"Use the file of names of {factor!r} that the parties agreed on.",
                )
    return site


def protected_by(features: Sequence[str]) -> str | None:
    """Return the factor of the protected entities of a job with these features; None if it is not private."""
    return next((outline.private for line in features if (outline := Outline.parse(line)).private), None)


def check_sites(
    features: Sequence[str], parties: Sequence[str], private: str | None, estimator: Estimator | None = None
) -> None:
    """Raise unless the relations of all parties fit together and, for a private model, the `estimator` can fit them."""
    outlines = [Outline.parse(line) for line in features]
    check_outlines(outlines, parties, private)
    if private is not None and estimator is not None:
        sites = [[outline.stand_in() for outline in outlines if outline.site == party] for party in parties]
        estimator.check_sites(sites, parties)


def _digest(names: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:32]
