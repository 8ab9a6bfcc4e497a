"""A fitted private coupled model: released attributes, the site's own factors, prediction, saving."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, TypedDict, overload

import numpy as np
from numpy.typing import ArrayLike

from tacit.errors import InvalidInputError, parameter, words
from tacit.estimators.base import learned, released
from tacit.estimators.private import PrivateFit
from tacit.factor.arrays import Floats
from tacit.factor.coupled.cells import Coords, checked_cells
from tacit.factor.coupled.einsum import Layout, Spec
from tacit.factor.coupled.predict import in_order, reconstruct, reconstruct_at
from tacit.factor.coupled.private.dp_sgld import solve_own
from tacit.factor.coupled.private.fixed_factors import FixedFactors
from tacit.factor.coupled.private.problem import Problem, problems_of
from tacit.factor.coupled.private.unit_cells import UnitCells
from tacit.factor.coupled.relation import Relation, Relations
from tacit.validation import check_range

MOST_CELLS = 50_000_000
"""Most cells that `predict` returns without a list of cells: 400 MB."""


def range_of(given: object, relation: str) -> tuple[float, float]:
    """Return the public range of a relation's values, from one range for all relations or a mapping with one of each."""
    if not isinstance(given, Mapping):
        return check_range(given, "value_range")
    if relation not in given:
        raise InvalidInputError(
            f"value_range to have a range of the relation {relation!r}",
            parameter(sorted(given)),
            "Give the public limits of every private relation, by its name.",
        )
    return check_range(given[relation], f"value_range of {relation!r}")


class ReleasedRelation(TypedDict):
    """What a model says of a private relation."""

    einsum: str
    factors: list[str]
    shape: list[int]
    range: list[float]


class PrivateFactors(PrivateFit):
    """Base: released arrays joined in one, with an index of their names, for `save`; own factors are in memory only."""

    arrays_: Floats = released()
    index_: dict[str, list[int]] = released()
    relations_: dict[str, ReleasedRelation] = released()
    levels_: list[float] = released()
    noise_: float = released()
    entity_: str = released()
    n_components_: int = released()
    _own: dict[str, Floats] = learned()
    _own_spread: Floats = learned()

    @property
    def factors_(self) -> dict[str, Floats]:
        """The released factors, by name."""
        return self._unpacked("factor:")

    @property
    def biases_(self) -> dict[str, Floats]:
        """The released biases, by factor; none with ``method="sgld"``."""
        return self._unpacked("bias:")

    def own_factors(self) -> dict[str, Floats]:
        """Return the site's own factors and biases, by name; empty if there are none or the model was loaded."""
        return dict(getattr(self, "_own", {}))

    @overload
    def predict(
        self, relation: str | Relation, cells: ArrayLike | None = None, *, return_std: Literal[False] = False
    ) -> Floats: ...
    @overload
    def predict(
        self, relation: str | Relation, cells: ArrayLike | None = None, *, return_std: Literal[True]
    ) -> tuple[Floats, Floats]: ...
    def predict(
        self, relation: str | Relation, cells: ArrayLike | None = None, *, return_std: bool = False
    ) -> Floats | tuple[Floats, Floats]:
        r"""Return the expected values of some or all cells of a private relation, within `value_range`.

        Parameters
        ----------
        relation : str or Relation
            A fitted relation, or its name.
        cells : array_like of shape (n_cells, order), optional
            One cell per row; all cells if not given.
        return_std : bool, default=False
            Whether to return also a standard deviation per cell (``method="moments"``, ``protect="site"``).

        Returns
        -------
        ndarray, or a pair of them

        Notes
        -----
        The standard deviation is that of a new value around its prediction, :math:`\sqrt{s^2 + x'\Sigma_u x}` on the scale of
        the values. :math:`\Sigma_u` is the posterior covariance of the entity's own factors, given the released ones: it is
        computed from the entity's cells, and stays at the site like the factors themselves. :math:`s^2` (`noise_`) is released.
        If regressions were made, it is a noisy mean of squared leave-one-out errors, and so contains the error of the released
        factors, by privacy noise and by few data alike; the two are not told apart. Otherwise it is a constant.
        """
        known = self._relation(relation)
        spec = Spec.parse(known["einsum"], len(known["factors"]), len(known["shape"]))
        arrays = {**self._unpacked(""), **self.own_factors()}
        names, shape = tuple(known["factors"]), tuple(known["shape"])
        if any(f"factor:{name}" not in arrays for name in names):
            raise InvalidInputError(
                f"a model with factors of this site's {self.entity_!r} entities",
                words("a loaded one, which has the released factors only"),
                "Solve the site's own factors from its relations first: model.solve_own(relations).",
            )
        if cells is None and math.prod(shape) > MOST_CELLS:
            raise InvalidInputError(
                f"at most {MOST_CELLS} cells at once", parameter(math.prod(shape)), "Name the cells you need."
            )
        where = None if cells is None else checked_cells(cells, shape, "the cells to predict")
        if return_std:
            if where is None:
                where = np.argwhere(np.ones(shape, bool)).astype(np.int32)
                mean, std = self.predict(relation, where, return_std=True)
                return mean.reshape(shape), std.reshape(shape)
            return self.predict(relation, where), self._spread(spec, known, arrays, where)
        factors = in_order(names, {name: arrays[f"factor:{name}"] for name in names})
        expected = reconstruct(spec, factors) if where is None else reconstruct_at(spec, factors, where)
        least, greatest = known["range"]
        level, is_count = self.levels_
        for place, name in enumerate(names):
            if f"bias:{name}" in arrays:
                axis = spec.output.index(spec.data_letters(place))
                bias = arrays[f"bias:{name}"]
                if where is None:
                    expected = expected + bias.reshape([-1 if other == axis else 1 for other in range(len(shape))])
                else:
                    expected = expected + bias[where[:, axis]]
        if is_count:
            return np.clip(least + (greatest - least) * expected, least, greatest)
        return np.clip((least + greatest) / 2 + (greatest - least) / 2 * (level + expected), least, greatest)

    def _spread(self, spec: Spec, known: ReleasedRelation, arrays: Mapping[str, Floats], where: Coords) -> Floats:
        """Return the standard deviation of a value around its prediction, see `predict`."""
        if not hasattr(self, "_own_spread"):
            raise InvalidInputError(
                'a model of method="moments" with protect="site", fitted or solved here, for return_std=True',
                words("another one"),
                "For a loaded model, call solve_own(relations) first.",
            )
        product = np.ones((len(where), self._own_spread.shape[1] - 1))
        entity = None
        for place, name in enumerate(known["factors"]):
            rows = where[:, spec.output.index(spec.data_letters(place))]
            if name == self.entity_:
                entity = rows
            else:
                factor = arrays[f"factor:{name}"]
                product *= (factor if spec.inputs[place][0] == spec.data_letters(place) else factor.T)[rows]
        regressors = np.concatenate([product, np.ones((len(where), 1))], axis=1)
        own = np.einsum("na,nab,nb->n", regressors, self._own_spread[entity], regressors, optimize=True)
        half = (known["range"][1] - known["range"][0]) / 2
        return np.asarray(half * np.sqrt(self.noise_ + own))

    def solve_own(self, relations: Relations) -> PrivateFactors:
        """Solve the site's own factors from its relations and the released factors, for a loaded model."""
        given = [relations] if isinstance(relations, Relation) else list(relations)
        letters = {letter for relation in given for letter in relation.spec.summed}
        names = {name for relation in given for name in relation.factors}
        # other sites of the fit may have had other relations
        ranks = (
            {letter: rank for letter, rank in self.ranks.items() if letter in letters}
            if isinstance(self.ranks, Mapping)
            else self.ranks
        )
        shared = None if self.shared is None else [name for name in self.shared if name in names]
        problem = problems_of([given], ranks, self.entity_, shared)[0]
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
        return [UnitCells.of(one, problem, *range_of(self.value_range, one.name)) for one in problem.private]

    def _keep(
        self, problem: Problem, public: Mapping[str, Any], rows: Mapping[str, Floats], own: Floats | None
    ) -> None:
        """Set the released attributes: all rows of shared factors, and this site's rows of the others."""
        arrays: dict[str, Floats] = {}
        here = {name: _mine(problem, name, rows[name]) for name in rows}
        if own is not None:
            here[problem.entity] = _mine(problem, problem.entity, own)
        for name, own_rows in here.items():
            arrays |= _named(problem, name, own_rows, has_bias="mean" in public)
        self.index_ = {name: list(array.shape) for name, array in arrays.items()}
        self.arrays_ = np.concatenate([np.ravel(array) for array in arrays.values()])
        self.relations_ = {
            relation.name: {
                "einsum": relation.spec.text,
                "factors": list(relation.factors),
                "shape": list(relation.shape),
                "range": list(range_of(self.value_range, relation.name)),
            }
            for relation in problem.private
        }
        self.entity_ = problem.entity
        self._own = {}

    def _solve(self, problem: Problem, rows: Mapping[str, Floats]) -> None:
        """Solve this site's own factors from its data, without noise; they stay in memory, under a private name."""
        cells = self._cells(problem)
        if self.levels_[1] or not self._has_biases():
            start = np.zeros((problem.sizes[problem.entity], self._width(problem)))
            solved = solve_own(problem, cells, problem.ranks, {**rows, problem.entity: start})
            own = _mine(problem, problem.entity, solved)
            self._own = _named(problem, problem.entity, own, has_bias=False)
            return
        fixed = FixedFactors(self.levels_[0], dict(rows), self.noise_).with_own(cells[0], problem.own)
        self._own = _named(problem, problem.entity, fixed.solve(cells[0]), has_bias=True)
        self._own_spread = fixed.spread(cells[0])
        for name in problem.own:
            self._own |= _named(problem, name, _mine(problem, name, fixed.rows[name]), has_bias=True)

    def _has_biases(self) -> bool:
        return any(name.startswith("bias:") for name in self.index_)

    def _width(self, problem: Problem) -> int:
        layout, shape = _layout(problem, problem.entity)
        return layout.size(shape)[1]

    def _relation(self, relation: str | Relation) -> ReleasedRelation:
        if not hasattr(self, "relations_"):
            raise InvalidInputError("a fitted model", words("one that was not fitted"), "Call fit first.")
        name = relation.name if isinstance(relation, Relation) else relation
        if name not in self.relations_:
            raise InvalidInputError(
                f"one of the private relations {', '.join(map(repr, self.relations_))}",
                parameter(name),
                "Give the name of a fitted relation.",
            )
        return self.relations_[name]

    def _unpacked(self, prefix: str) -> dict[str, Floats]:
        if not hasattr(self, "arrays_"):
            raise AttributeError("factors_ and biases_ exist after fit")
        arrays, begin = {}, 0
        for name, shape in self.index_.items():
            end = begin + math.prod(shape)
            if name.startswith(prefix):
                arrays[name.removeprefix(prefix)] = self.arrays_[begin:end].reshape(shape)
            begin = end
        return arrays


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
    """Return one site's rows as the array of the factor and, with `has_bias`, its bias."""
    layout, shape = _layout(problem, name)
    if not has_bias:
        return {f"factor:{name}": layout.back(rows, shape)}
    # fewer components than the rank may exceed the noise
    fewer = tuple(rows.shape[1] - 1 if axis == layout.order[-1] else size for axis, size in enumerate(shape))
    return {f"factor:{name}": layout.back(rows[:, :-1], fewer), f"bias:{name}": rows[:, -1].copy()}
