"""What a fitted coupled model can do: predict cells, with their spread where it has a posterior, score, save and load."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tacit.errors import InvalidInputError, parameter, words
from tacit.factor.base import released
from tacit.factor.coupled.cells import Coords, checked_cells
from tacit.factor.coupled.divergence import Floats
from tacit.factor.coupled.reconstruct import in_order, reconstruct, reconstruct_at
from tacit.factor.coupled.relation import Relation
from tacit.factor.coupled.spec import Spec
from tacit.factor.coupled.start import checked_relations
from tacit.factor.coupled.terms import Term
from tacit.factor.saved import SavedModel
from tacit.privacy.guarantee import Guarantee

MOST_CELLS = 50_000_000
DRAWS = 200
"""Draws from a variational posterior, for the spread of predictions."""


class FittedFactors(SavedModel):
    """Base of models that have learned factors by name."""

    arrays_: Floats = released()
    index_: list[Any] = released()
    relations_: dict[str, dict[str, Any]] = released()
    dispersions_: dict[str, float] = released()
    loss_curve_: Floats = released()
    loss_: float = released()
    n_iter_: int = released()

    @property
    def factors_(self) -> dict[str, Floats]:
        """The factors, by name."""
        return self._unpacked("factor:")

    @property
    def posterior_(self) -> dict[str, Floats]:
        """What is known of the posterior, by kind and factor."""
        return {name: array for name, array in self._unpacked("").items() if not name.startswith("factor:")}

    def predict(self, relation: str | Relation, cells: Any = None, *, return_std: bool = False) -> Any:
        """Return what the model expects in some cells of a relation, or in all.

        Parameters
        ----------
        relation : str or Relation
            The name of a relation that was fitted, or another one over the same factors.
        cells : array_like of shape (n_cells, order), optional
            One cell a row; all cells, in the shape of the relation, if not given.
        return_std : bool, default=False
            Whether to return the posterior standard deviation of the expectations too ("vb" and "sgld").

        Returns
        -------
        ndarray, or two
        """
        factors, spec, shape = self._found(relation)
        if cells is None and math.prod(shape) > MOST_CELLS:
            raise InvalidInputError(
                f"at most {MOST_CELLS} cells at once", parameter(math.prod(shape)), "Name the cells you need."
            )
        where = None if cells is None else checked_cells(cells, shape, "the cells to predict")
        posterior = self.posterior_
        sampled = any(name.startswith("samples:") for name in posterior)
        if return_std and not posterior:
            raise InvalidInputError(
                "a model with a posterior for return_std=True",
                words("a point estimate"),
                'Use inference="vb" or "sgld".',
            )
        if not sampled and not return_std:
            return _at(spec, in_order(factors, self.factors_), where)
        total: Any = 0.0
        squares: Any = 0.0
        count = 0
        for drawn in self._draws(posterior):
            found = _at(spec, in_order(factors, drawn), where)
            total, squares, count = total + found, squares + found**2, count + 1
        mean = total / count
        std = np.sqrt(np.maximum(squares / count - mean**2, 0))
        if not sampled:
            mean = _at(spec, in_order(factors, self.factors_), where)  # exact: the entries are independent
        return (mean, std) if return_std else mean

    def score(self, relations: Relation | Sequence[Relation], y: Any = None) -> float:
        """Return minus the mean divergence of the relations' known cells from their predictions; higher is better."""
        from tacit.factor.coupled.dense_term import term_of

        lost, known = 0.0, 0
        for relation in checked_relations(relations):
            factors, _, _ = self._found(relation)
            term: Term = term_of(relation)
            lost += term.loss(in_order(factors, self.factors_)) / relation.dispersion
            known += term.n_observed
        return -lost / known

    def _remember(
        self, relations: Sequence[Relation], factors: Mapping[str, Floats], posterior: Mapping[str, Floats]
    ) -> None:
        """Keep what was learned, in a form that can be saved: all arrays in one, with an index of their names."""
        arrays = {**{f"factor:{name}": factor for name, factor in factors.items()}, **posterior}
        self.index_ = [[name, list(array.shape)] for name, array in arrays.items()]
        self.arrays_ = np.concatenate([np.ravel(array) for array in arrays.values()])
        self.relations_ = {
            relation.name: {
                "einsum": relation.spec.text,
                "factors": list(relation.factors),
                "shape": list(relation.shape),
                "divergence": relation.power,
            }
            for relation in relations
        }
        self.guarantee_ = Guarantee.none("every number of the model depends on the data without noise")

    def _unpacked(self, prefix: str) -> dict[str, Floats]:
        if not hasattr(self, "arrays_"):
            raise AttributeError("factors_ and posterior_ exist after fit")
        found, begin = {}, 0
        for name, shape in self.index_:
            end = begin + math.prod(shape)
            if name.startswith(prefix):
                found[name.removeprefix(prefix)] = self.arrays_[begin:end].reshape(shape)
            begin = end
        return found

    def _found(self, relation: str | Relation) -> tuple[tuple[str, ...], Spec, tuple[int, ...]]:
        """Return the factors, einsum and shape of a relation, all checked."""
        if not hasattr(self, "relations_"):
            raise InvalidInputError("a fitted model", words("one that was not fitted"), "Call fit first.")
        if isinstance(relation, Relation):
            self._check_fits(relation)
            return relation.factors, relation.spec, relation.shape
        if relation not in self.relations_:
            raise InvalidInputError(
                f"one of the relations {', '.join(map(repr, self.relations_))}",
                parameter(relation),
                "Name one that was fitted.",
            )
        known = self.relations_[relation]
        factors, shape = tuple(known["factors"]), tuple(known["shape"])
        return factors, Spec.parse(known["einsum"], len(factors), len(shape)), shape

    def _check_fits(self, relation: Relation) -> None:
        shapes = {name: factor.shape for name, factor in self.factors_.items()}
        sizes = dict(zip(relation.spec.output, relation.shape, strict=True))
        for name, letters in zip(relation.factors, relation.spec.inputs, strict=True):
            if name not in shapes or len(shapes[name]) != len(letters):
                raise InvalidInputError(
                    f"factors among {sorted(shapes)}", parameter(name), "Use the names and letters of the fit."
                )
            for letter, size in zip(letters, shapes[name], strict=True):
                if sizes.setdefault(letter, size) != size:
                    raise InvalidInputError(
                        f"{sizes[letter]} for the letter {letter!r} of {relation.name!r}",
                        words(f"{size} in the factor {name!r}"),
                        "The relation must have the entities of the fit.",
                    )

    def _draws(self, posterior: Mapping[str, Floats]) -> Iterator[dict[str, Floats]]:
        names = list(self.factors_)
        if f"samples:{names[0]}" in posterior:
            for index in range(len(posterior[f"samples:{names[0]}"])):
                yield {name: posterior[f"samples:{name}"][index] for name in names}
            return
        rng = np.random.default_rng(0)
        for _ in range(DRAWS):
            yield {name: rng.gamma(posterior[f"shape:{name}"], posterior[f"scale:{name}"]) for name in names}


def _at(spec: Spec, factors: tuple[Floats, ...], cells: Coords | None) -> Floats:
    return reconstruct(spec, factors) if cells is None else reconstruct_at(spec, factors, cells)
