"""Numbers that an attacker computes from a released model about one unit: how well the model knows it.

They need nothing but what was released and the unit itself. What a released array says along the unit's own vector serves all
factorisations; networks are asked for their loss, synthetic tables for their nearest rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.audit.units import CellUnits, PersonUnits, RatingUnits, RowUnits, Unit, Units
from tacit.data.schema import ColumnSpec
from tacit.estimators.base import Estimator

Floats = NDArray[np.float64]
SYNTHETIC_ROWS = 400
"""Rows that an attacker draws from a released table."""
TINY = 1e-12
"""Keeps divisors and arguments of logarithms above zero; far below any value that matters to a score."""


def unit_scores(model: Estimator, data: Units, units: list[Unit]) -> Floats:
    """Return the numbers of every unit, one row per unit.

    Parameters
    ----------
    model : estimator
        Fitted; only what it releases is used.
    data : Units
        Says what kind of units there are.
    units : list
        As `Units.unit` returns them.
    """
    if isinstance(data, RowUnits | PersonUnits) and hasattr(model, "tables_"):
        return _table_scores(model, units)
    known = [_Known(array) for _, array in float_arrays(expanded(model._result.values))]
    numbers = np.array([_along(known, probes(model, data, unit)) for unit in units])
    return np.hstack([_losses(model, units), numbers]) if isinstance(data, RowUnits) and data.y is not None else numbers


def probes(model: Estimator, data: Units, unit: Unit) -> list[Floats]:
    """Return the vectors of one unit: a row, a user's ratings over the items, or sums of values over other entities."""
    if isinstance(data, RatingUnits):
        items, values = unit[-2:]
        place = {item: index for index, item in enumerate(np.asarray(model._result.values["item_ids_"]).tolist())}
        vector = np.zeros(len(place))
        middle = float(np.mean(model.rating_range)) if getattr(model, "rating_range", None) is not None else 0.0
        for item, value in zip(np.asarray(items).tolist(), values, strict=True):
            if item in place:
                vector[place[item]] = value - middle
        return [vector]
    if isinstance(data, CellUnits):
        coords, values = unit
        return [
            np.bincount(coords[:, axis], weights=values, minlength=size).astype(np.float64)
            for axis, size in enumerate(data.shape)
            if axis != data.axis
        ]
    row = unit[0]
    return [np.asarray(row.todense() if hasattr(row, "todense") else row, dtype=np.float64).ravel()]


def expanded(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return released values in their shapes: coupled factors one by one, pairs of a recommender's items at their places."""
    if "index_" in values and "arrays_" in values:
        values, flat = dict(values), np.asarray(values["arrays_"])
        for name, shape in values.pop("index_").items():
            size = math.prod(shape)
            values[name], flat = flat[:size].reshape(shape), flat[size:]
        del values["arrays_"]
    pairs, learned = values.get("item_pairs_"), values.get("learned_items_")
    if pairs is None or learned is None or "item_weights_" not in values:
        return dict(values)
    items = len(values["item_weights_"])
    whole = np.zeros((items, items))
    rows, columns = np.triu_indices(len(learned))
    whole[learned[rows], learned[columns]] = whole[learned[columns], learned[rows]] = pairs
    return {**values, "item_pairs_": whole}


def float_arrays(values: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, Floats]]:
    """Yield all arrays of real numbers among released values, by name."""
    for name, value in sorted(values.items()):
        if isinstance(value, Mapping):
            yield from float_arrays(value, f"{prefix}{name}.")
        elif isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.ndim in (1, 2):
            yield f"{prefix}{name}", np.asarray(value, dtype=np.float64)


class _Known:
    """A released array, with what all units need of it computed once.

    Of a vector: its product with the unit. Of a matrix: the length and the largest entry of the product; the quadratic form and
    the leverage x' M^-1 x, which is small if rows like this one are in the moment, if it is square; and what is left of the unit
    outside its rows, if it has fewer rows than columns.
    """

    def __init__(self, array: Floats) -> None:
        self.array = array
        self.basis: Floats | None = None
        self.inverse: Floats | None = None
        if array.ndim == 2 and array.size and array.shape[0] == array.shape[1]:
            self.level = max(float(np.trace(array)) / len(array), TINY)
            self.inverse = np.asarray(np.linalg.inv(array + 0.1 * self.level * np.eye(len(array))), dtype=np.float64)
        elif array.ndim == 2 and array.size:
            wide = array if array.shape[0] < array.shape[1] else array.T
            _, values, directions = np.linalg.svd(wide, full_matrices=False)
            self.basis = np.asarray(directions[values > TINY], dtype=np.float64)

    def along(self, unit: Floats) -> list[float]:
        """Return the numbers of one unit; zeros if the array has no axis of its length, so that all fits have as many."""
        array = self.array
        fits = len(unit) in array.shape and array.size > 0
        if array.ndim == 1:
            return [float(array @ unit) if fits else 0.0]
        if not fits:
            return [0.0] * 5
        seen = array @ unit if array.shape[1] == len(unit) else array.T @ unit
        form = leverage = left = 0.0
        if self.inverse is not None:
            form = float(unit @ seen)
            leverage = float(np.log(max(abs(float(unit @ self.inverse @ unit)) * self.level, TINY)))
        elif self.basis is not None and self.basis.shape[1] == len(unit):
            left = float(np.linalg.norm(unit - self.basis.T @ (self.basis @ unit)))
        return [float(np.linalg.norm(seen)), float(np.abs(seen).max()), form, leverage, left]


def _along(known: list[_Known], vectors: list[Floats]) -> list[float]:
    """Return what every released array says along every vector of a unit."""
    numbers: list[float] = []
    for vector in vectors:
        unit = vector / max(float(np.linalg.norm(vector)), TINY)
        numbers += [number for one in known for number in one.along(unit)]
    return numbers or [0.0]


def _losses(model: Estimator, units: list[Unit]) -> Floats:
    """Return the loss of every labelled row."""
    rows = np.vstack([np.asarray(unit[0], dtype=np.float64) for unit in units])
    labels = np.concatenate([unit[1] for unit in units])
    if hasattr(model, "predict_proba"):
        chances = np.asarray(model.predict_proba(rows))
        own = chances[np.arange(len(rows)), np.searchsorted(model.classes_, labels)]
        odds = np.log(np.maximum(own, TINY)) - np.log(np.maximum(1 - own, TINY))
        return np.asarray(odds[:, None], dtype=np.float64)
    return np.asarray(np.square(np.asarray(model.predict(rows)).ravel() - labels)[:, None], dtype=np.float64)


def _table_scores(model: Estimator, units: list[Unit]) -> Floats:
    """Return what the released tables and the synthetic rows of a private table say about every row.

    The first three numbers add up the cells that a row falls into, over all columns and over all pairs of columns, and the
    logarithms of the latter: one more row in the fit adds one to each of these cells. The last two are the distances to the
    nearest synthetic row and to the fifth nearest. A person with several rows has the mean of their numbers.
    """
    specs = model._specs()
    starts = np.concatenate([[0], np.cumsum([spec.n_cells for spec in specs.values()])])[:-1]
    sizes = model._sizes()
    edges = np.concatenate([[0], np.cumsum(sizes)])[:-1]
    parts = [_cells(unit[0], specs) for unit in units]
    cells = np.vstack(parts)
    codes = model.bins_[cells + starts] + edges
    pairs = np.array([model.tables_[np.ix_(row, row)][np.triu_indices(len(row), 1)] for row in codes])
    near = _distances(cells, _cells(model.sample(SYNTHETIC_ROWS, random_state=0), specs), specs)
    numbers = np.column_stack(
        [
            model.count_ * model.margins_[codes].sum(axis=1),
            model.count_ * pairs.sum(axis=1),
            np.log(model.count_ * pairs + 1).sum(axis=1),
            np.log(near + 0.01),
        ]
    )
    owner = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    return np.array([numbers[owner == place].mean(axis=0) for place in range(len(parts))])


def _cells(table: Any, specs: Mapping[str, ColumnSpec]) -> NDArray[np.intp]:
    """Return the cell of every value, as the schema of the model reads it; columns outside the schema are not used."""
    if isinstance(table, np.ndarray):
        return np.column_stack([spec.cells(table[:, place], name) for place, (name, spec) in enumerate(specs.items())])
    return np.column_stack([spec.cells(table[name].to_numpy(), name) for name, spec in specs.items()])


def _distances(rows: NDArray[np.intp], drawn: NDArray[np.intp], specs: Mapping[str, ColumnSpec]) -> Floats:
    """Return the distances of rows to the nearest and to the fifth nearest drawn one, between 0 and 1 per column."""
    apart = np.zeros((len(rows), len(drawn)))
    for place, spec in enumerate(specs.values()):
        away = np.abs(rows[:, None, place] - drawn[None, :, place])
        apart += away / spec.n_cells if spec.is_ordered else away > 0
    return np.sort(apart, axis=1)[:, [0, 4]]
