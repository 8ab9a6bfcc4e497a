"""A fitted private coupled model: what was released apart from what stays, prediction, saving."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from tacit.errors import InvalidInputError, parameter, words
from tacit.estimators.base import learned, released
from tacit.estimators.private import PrivateFit
from tacit.factor.coupled.cells import checked_cells
from tacit.factor.coupled.einsum import Layout, Spec
from tacit.factor.coupled.predict import in_order, reconstruct, reconstruct_at
from tacit.factor.coupled.private.dp_sgld import solve_own
from tacit.factor.coupled.private.fixed_factors import FixedFactors
from tacit.factor.coupled.private.problem import Problem, problems_of
from tacit.factor.coupled.private.unit_cells import UnitCells
from tacit.factor.coupled.relation import Relation
from tacit.factor.noisy_moments.symmetric import Floats

MOST_CELLS = 50_000_000


class PrivateFactors(PrivateFit):
    """Base: released arrays in one, with an index of their names, so that `save` can write them; the rest in memory only."""

    arrays_: Floats = released()
    index_: dict[str, list[int]] = released()
    relations_: dict[str, dict[str, Any]] = released()
    levels_: list[float] = released()
    noise_: float = released()
    entity_: str = released()
    n_components_: int = released()
    _own: dict[str, Floats] = learned()

    @property
    def factors_(self) -> dict[str, Floats]:
        """The released factors, by name."""
        return self._unpacked("factor:")

    @property
    def biases_(self) -> dict[str, Floats]:
        """The released biases, by factor; none with ``method="sgld"``."""
        return self._unpacked("bias:")

    def own_factors(self) -> dict[str, Floats]:
        """Return the factors and biases that stay with the site, by name; empty where there is none or the model was loaded."""
        return dict(getattr(self, "_own", {}))

    def predict(self, relation: str | Relation, cells: Any = None) -> Floats:
        """Return what the model expects in some cells of a private relation, or in all, within `value_range`.

        Parameters
        ----------
        relation : str or Relation
            One that was fitted, or its name.
        cells : array_like of shape (n_cells, order), optional
            One cell a row; all cells if not given.
        """
        known = self._relation(relation)
        spec = Spec.parse(known["einsum"], len(known["factors"]), len(known["shape"]))
        arrays = {**self._unpacked(""), **self.own_factors()}
        names, shape = tuple(known["factors"]), tuple(known["shape"])
        if any(f"factor:{name}" not in arrays for name in names):
            raise InvalidInputError(
                f"a model that knows this site's {self.entity_!r} entities",
                words("one that was loaded, and so knows only what was released"),
                "Give it the site's own relations: model.solve_own(relations).",
            )
        if cells is None and math.prod(shape) > MOST_CELLS:
            raise InvalidInputError(
                f"at most {MOST_CELLS} cells at once", parameter(math.prod(shape)), "Name the cells you need."
            )
        where = None if cells is None else checked_cells(cells, shape, "the cells to predict")
        factors = in_order(names, {name: arrays[f"factor:{name}"] for name in names})
        found = reconstruct(spec, factors) if where is None else reconstruct_at(spec, factors, where)
        least, greatest, mean, is_count = self.levels_
        for place, name in enumerate(names):
            if f"bias:{name}" in arrays:
                axis = spec.output.index(spec.data_letters(place))
                bias = arrays[f"bias:{name}"]
                if where is None:
                    found = found + bias.reshape([-1 if other == axis else 1 for other in range(len(shape))])
                else:
                    found = found + bias[where[:, axis]]
        if is_count:
            return np.clip(least + (greatest - least) * found, least, greatest)
        return np.clip((least + greatest) / 2 + (greatest - least) / 2 * (mean + found), least, greatest)

    def solve_own(self, relations: Any) -> PrivateFactors:
        """Solve the site's own factors again from its relations and what was released: for a model that was loaded."""
        problem = problems_of([relations], self.ranks, self.entity_, self.shared)[0]
        released = self._unpacked("")
        sizes = {name: len(released[f"factor:{name}"]) for name in problem.others}
        local = Problem(**{**vars(problem), "sizes": {**problem.sizes, **sizes}})
        rows = {}
        for name in problem.others:
            layout, _ = _layout(problem, name)
            rows[name] = layout.rows(released[f"factor:{name}"])
            if f"bias:{name}" in released:
                rows[name] = np.concatenate([rows[name], released[f"bias:{name}"][:, None]], axis=1)
        self._solve(local, rows)
        return self

    def _cells(self, problem: Problem) -> list[UnitCells]:
        least, greatest = self.levels_[0], self.levels_[1]
        return [UnitCells.of(relation, problem, least, greatest) for relation in problem.private]

    def _keep(
        self, problem: Problem, public: Mapping[str, Any], rows: Mapping[str, Floats], own: Floats | None
    ) -> None:
        """Keep what was released, as this site sees it: all rows of shared factors, its own rows of the others."""
        arrays: dict[str, Floats] = {}
        here = {name: _mine(problem, name, rows[name]) for name in rows}
        if own is not None:
            here[problem.entity] = _mine(problem, problem.entity, own)
        for name, found in here.items():
            arrays |= _named(problem, name, found, has_bias="mean" in public)
        self.index_ = {name: list(array.shape) for name, array in arrays.items()}
        self.arrays_ = np.concatenate([np.ravel(array) for array in arrays.values()])
        self.relations_ = {
            relation.name: {
                "einsum": relation.spec.text,
                "factors": list(relation.factors),
                "shape": list(relation.shape),
            }
            for relation in problem.private
        }
        self.entity_ = problem.entity
        self._own = {}

    def _solve(self, problem: Problem, rows: Mapping[str, Floats]) -> None:
        """Solve what belongs to this site from its own data, in the clear; it stays in memory, under a private name."""
        cells = self._cells(problem)
        if self.levels_[3] or not self._has_biases():
            start = np.zeros((problem.sizes[problem.entity], self._width(problem)))
            found = solve_own(problem, cells, problem.ranks, {**rows, problem.entity: start})
            own = {problem.entity: _mine(problem, problem.entity, found)}
            self._own = {
                k: v for name, one in own.items() for k, v in _named(problem, name, one, has_bias=False).items()
            }
            return
        side = FixedFactors(self.levels_[2], dict(rows), self.noise_).with_own(cells[0], problem.own)
        solved = side.solve(cells[0])
        self._own = _named(problem, problem.entity, solved, has_bias=True)
        for name in problem.own:
            self._own |= _named(problem, name, _mine(problem, name, side.rows[name]), has_bias=True)

    def _has_biases(self) -> bool:
        return any(name.startswith("bias:") for name in self.index_)

    def _width(self, problem: Problem) -> int:
        layout, shape = _layout(problem, problem.entity)
        return layout.size(shape)[1]

    def _relation(self, relation: str | Relation) -> dict[str, Any]:
        if not hasattr(self, "relations_"):
            raise InvalidInputError("a fitted model", words("one that was not fitted"), "Call fit first.")
        name = relation.name if isinstance(relation, Relation) else relation
        if name not in self.relations_:
            raise InvalidInputError(
                f"one of the private relations {', '.join(map(repr, self.relations_))}",
                parameter(name),
                "Name one that was fitted.",
            )
        return self.relations_[name]

    def _unpacked(self, prefix: str) -> dict[str, Floats]:
        if not hasattr(self, "arrays_"):
            raise AttributeError("factors_ and biases_ exist after fit")
        found, begin = {}, 0
        for name, shape in self.index_.items():
            end = begin + math.prod(shape)
            if name.startswith(prefix):
                found[name.removeprefix(prefix)] = self.arrays_[begin:end].reshape(shape)
            begin = end
        return found


def _layout(problem: Problem, name: str) -> tuple[Layout, tuple[int, ...]]:
    for relation in (*problem.private, *problem.public):
        if name in relation.factors:
            return Layout.of(relation.spec, relation.factors.index(name)), problem.shapes[name]
    raise AssertionError(name)


def _mine(problem: Problem, name: str, rows: Floats) -> Floats:
    layout, shape = _layout(problem, name)
    first = problem.offsets[name]
    return rows[first : first + layout.size(shape)[0]]


def _named(problem: Problem, name: str, rows: Floats, *, has_bias: bool) -> dict[str, Floats]:
    """Return one site's rows as the factor's array and, where there is one, the bias."""
    layout, shape = _layout(problem, name)
    if not has_bias:
        return {f"factor:{name}": layout.back(rows, shape)}
    # fewer components than the rank may have risen above the noise
    fewer = tuple(rows.shape[1] - 1 if axis == layout.order[-1] else size for axis, size in enumerate(shape))
    return {f"factor:{name}": layout.back(rows[:, :-1], fewer), f"bias:{name}": rows[:, -1].copy()}
