"""Initial factors; warnings about unobserved entities and unconnected relations."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.errors import InvalidInputError, kind_of, parameter, words
from tacit.factor.arrays import Floats
from tacit.factor.coupled.relation import Relation, Relations


def random_start(
    scales: Mapping[str, float], shapes: Mapping[str, tuple[int, ...]], rng: np.random.Generator
) -> dict[str, Floats]:
    """Return positive factors whose products have about the mean of the data; they depend on the data by its mean only."""
    return {name: scales[name] * random_entries(shape, rng) for name, shape in shapes.items()}


def start_scales(relations: Sequence[Relation], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, float]:
    """Return the size of entries of every factor with which products have about the mean of the data."""
    return {name: float(np.exp(np.mean(np.log(sizes)))) for name, sizes in start_sizes(relations, shapes).items()}


def random_entries(shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Return uniform entries with mean 1, between 0.2 and 1.8, so that none is close to zero. Set by hand."""
    return np.asarray(0.2 + 1.6 * rng.random(shape))


def start_sizes(relations: Sequence[Relation], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, list[float]]:
    """Return, for every factor, the scale of entries that fits the mean of each of its relations."""
    sizes: dict[str, list[float]] = {name: [] for name in shapes}
    for relation in relations:
        mean = abs(float(relation.stored()[1].sum())) / relation.n_observed
        inputs = zip(relation.factors, relation.spec.inputs, strict=True)
        ranks = {
            letter: size
            for name, letters in inputs
            for letter, size in zip(letters, shapes[name], strict=True)
            if letter in relation.spec.summed
        }
        # 1e-9 for a relation of zeros: small, and not zero, where factors would stay
        size = (max(mean, 1e-9) / math.prod(ranks.values())) ** (1 / len(relation.factors))
        for name in relation.factors:
            sizes[name].append(size)
    return sizes


def given_start(given: Mapping[str, ArrayLike], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Floats]:
    """Check and return a start that the user gave."""
    start = {}
    for name, shape in shapes.items():
        if name not in given:
            raise InvalidInputError(
                f"a start for the factor {name!r}", parameter(sorted(given)), "Give all factors, or none."
            )
        factor = np.array(given[name], dtype=np.float64)
        if factor.shape != shape or not np.isfinite(factor).all() or (factor < 0).any():
            raise InvalidInputError(
                f"a start of shape {shape} for {name!r}, without negative numbers",
                words(f"one of shape {factor.shape}" if factor.shape != shape else "negative numbers, NaN or infinity"),
                "Give one number per entry. Entries that start at zero stay at zero.",
            )
        start[name] = factor
    return start


def has_cells(relation: Relation, axis: int) -> NDArray[np.bool_]:
    """Whether each entity of an axis has a known cell."""
    size = relation.shape[axis]
    if relation.dense is not None:
        if relation.mask is None:
            return np.ones(size, bool)
        return np.asarray(relation.mask.any(axis=tuple(other for other in range(len(relation.shape)) if other != axis)))
    if relation.stored_only:
        return np.bincount(relation.stored()[0][:, axis], minlength=size) > 0
    others = 1
    for other, kept in enumerate(relation.keep):
        if other != axis:
            others *= relation.shape[other] if kept is None else int(kept.sum())
    known = others - np.bincount(relation.holes[:, axis], minlength=size)
    own = relation.keep[axis]
    return (known > 0) & (own if own is not None else True)


def unknown_entities(relations: Sequence[Relation]) -> dict[str, NDArray[np.bool_]]:
    """Return which entities have no known cell in any relation, for factors with one entity per row that have such entities."""
    seen: dict[str, NDArray[np.bool_]] = {}
    for relation in relations:
        for place, name in enumerate(relation.factors):
            letters = relation.spec.data_letters(place)
            if len(letters) == 1:
                known = has_cells(relation, relation.spec.output.index(letters))
                seen[name] = known | seen.get(name, np.zeros(len(known), bool))
    return {name: ~known for name, known in seen.items() if not known.all()}


def warn_about_relations(relations: Sequence[Relation], unknown: Mapping[str, NDArray[np.bool_]]) -> None:
    """Warn about entities without known cells, and about relations without common factors."""
    for name in unknown:
        warnings.warn(
            f"some entities of {name!r} have no known cell in any relation: they get the mean of the others",
            stacklevel=3,
        )
    groups: list[set[str]] = []
    for relation in relations:
        names = set(relation.factors)
        touching = [group for group in groups if group & names]
        groups = [group for group in groups if not group & names] + [names.union(*touching)]
    if len(groups) > 1:
        warnings.warn(
            f"the relations form {len(groups)} groups without a common factor: each group is fitted by itself",
            stacklevel=3,
        )


def filled_in(
    factors: Mapping[str, Floats], unknown: Mapping[str, NDArray[np.bool_]], relations: Sequence[Relation]
) -> dict[str, Floats]:
    """Return the factors with the rows of unknown entities set to the mean of the others."""
    result = dict(factors)
    for name, missing in unknown.items():
        relation = next(relation for relation in relations if name in relation.factors)
        place = relation.factors.index(name)
        axis = relation.spec.inputs[place].index(relation.spec.data_letters(place))
        factor = np.moveaxis(result[name].copy(), axis, 0)
        factor[missing] = factor[~missing].mean(axis=0)
        result[name] = np.ascontiguousarray(np.moveaxis(factor, 0, axis))
    return result


def starts_filled_in(
    arrays: Mapping[str, Floats], unknown: Mapping[str, NDArray[np.bool_]], relations: Sequence[Relation]
) -> dict[str, Floats]:
    """Return named arrays with the factors of every start, ``starts:<factor>``, filled in as by `filled_in`."""
    result = dict(arrays)
    for name, missing in unknown.items():
        starts = result.get(f"starts:{name}", ())
        each = [filled_in({name: factor}, {name: missing}, relations)[name] for factor in starts]
        if each:
            result[f"starts:{name}"] = np.stack(each)
    return result


def checked_relations(relations: Relations) -> list[Relation]:
    """Return the relations as a list; raise if two have the same name."""
    checked = [relations] if isinstance(relations, Relation) else list(relations)
    if not checked:
        raise InvalidInputError("at least one relation", words("none"), "Give a list of tacit.Relation.")
    for relation in checked:
        if not isinstance(relation, Relation):
            raise InvalidInputError(
                "relations", kind_of(relation), "Wrap the data: tacit.Relation(data, einsum, factors)."
            )
    names = [relation.name for relation in checked]
    for name in names:
        if names.count(name) > 1:
            raise InvalidInputError(
                "a different name for every relation", words(f"{name!r} twice"), "Give them different names with name=."
            )
    return checked
