"""Canaries: units made to be seen, one list per kind of data, from which the one that moves a model most is chosen.

A canary uses the clipping up in every sum: a row far along the least common direction, a user with one rare item or with
extreme ratings of everything, an example with a large gradient. Which of them is the worst depends on the model; the audit
tries each with one replay, and attacks with the one whose presence moves the sums most.

A guarantee holds for every data set, so the other units may be made up too. Where a unit's contribution depends on what
earlier sums released, they are made so that it stays at its bound in all sums.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from tacit.audit.units import CellUnits, NeighbourPair, PersonUnits, RatingUnits, RowUnits, Unit, Units
from tacit.estimators.base import Estimator
from tacit.estimators.input import Rows
from tacit.factor.coupled.private.fitted import range_of

if TYPE_CHECKING:
    import polars

FAR = 1e3
"""Rows of models that clip are this many times longer than the bound, to find missing clipping too."""
MOST_PAIRS = 12
"""Candidates that are tried; a replay of each costs two fits."""
COPIES = 1000
"""Copies of a component of the start: with them the noise of epsilon 1 moves a dictionary of 25 columns by some percent."""
MOST_COPIED = 4_000_000
"""Numbers in all copies together, for the memory of an audit with many columns."""
TINY = 1e-12
"""Added to lengths, so that a component of zeros does not divide by zero."""
Floats = NDArray[np.float64]


def candidate_pairs(estimator: Estimator, data: Units) -> list[NeighbourPair]:
    """Return neighbouring data sets for the model's adjacency, the most promising first."""
    canaries = list(_canaries(estimator, data))
    if getattr(estimator, "adjacency", "add-remove") == "replace-one" or _is_cell_of_ratings(data):
        pairs = [
            data.pair(f"{name} in place of {other}", unit, against)
            for (name, unit), (other, against) in itertools.combinations(canaries, 2)
        ]
    else:
        pairs = [data.pair(name, unit) for name, unit in canaries]
    return [*_steady_pairs(estimator, data), *pairs][:MOST_PAIRS]


def _steady_pairs(estimator: Estimator, data: Units) -> list[NeighbourPair]:
    """Return neighbours whose distance is the same in all rounds of `PrivateNMF`, or none for other models.

    In a round a row u adds h h' and h u', where h are its weights in the dictionary of the round before. Both have their
    largest norm if u is a component of length 1 times the norm of a row. Among many copies of all components of the start,
    which is public, the dictionary stays at the start but for the noise, so that this holds in every round. A noisy start
    finds the components itself if each is one column.
    """
    if getattr(estimator, "method", None) != "rounds" or not isinstance(data, RowUnits):
        return []
    noisy = estimator._starts_from_moments()
    start = np.eye(estimator.n_components, data.X.shape[1]) if noisy else estimator._given_start(data.X)
    rows = float(estimator.row_norm) * start / np.maximum(np.linalg.norm(start, axis=1, keepdims=True), TINY)
    copies = np.tile(rows, (max(1, min(COPIES, MOST_COPIED // rows.size)), 1))
    others = RowUnits(csr_array(copies) if hasattr(data.X, "tocsr") else copies)
    exchanged = estimator.adjacency == "replace-one" and len(rows) > 1
    name = "a component of the start among copies of all"
    return [
        others.pair(f"{name}, in place of another" if exchanged else name, (row[None], None), other)
        for row, other in [(rows[0], (rows[1][None], None) if exchanged else None)]
    ]


def _is_cell_of_ratings(data: Units) -> bool:
    return isinstance(data, RatingUnits) and data.cells


def _canaries(estimator: Estimator, data: Units) -> Iterator[tuple[str, Unit]]:
    if isinstance(data, RatingUnits):
        return _raters(estimator, data)
    if isinstance(data, CellUnits):
        return _cells(estimator, data)
    if isinstance(data, PersonUnits):  # a person with as many copies of an unusual row as one may have
        copies = [0] * int(estimator.max_rows_per_unit)
        return ((f"a person with {name}", (row[copies], None)) for name, row in _table_rows(data))
    assert isinstance(data, RowUnits)
    if hasattr(data.X, "iter_columns") or hasattr(estimator, "schema"):
        return ((name, (row, None)) for name, row in _table_rows(data))
    if data.y is None:
        return ((name, (row[None], None)) for name, row in _rows(estimator, data))
    return _labelled(estimator, data)


def _rows(estimator: Estimator, data: RowUnits) -> Iterator[tuple[str, Floats]]:
    """Yield rows at and beyond the bound of a model of rows."""
    moment, mean = _moments(data.X)
    width = len(mean)
    bounds = getattr(estimator, "feature_range", None)
    scale = FAR * float(getattr(estimator, "row_norm", 1.0))
    if hasattr(estimator, "weighting"):  # interactions: a weight cannot be negative, and one interaction is enough
        rare = np.argsort(mean, kind="stable")
        yield "every item", np.ones(width)  # first: whichever items a run learns about, they are among these
        yield "one rare item", _spike(width, rare[:1])
        yield "two rare items", _spike(width, rare[:2])
        return
    positive = bounds is None and is_non_negative(estimator)
    least = np.linalg.eigh(moment)[1][:, 0] if width <= 512 else _spike(width, [int(np.argmin(np.diag(moment)))])
    directions = {
        # first: a run that learns about some of the columns only learns about this one
        "the commonest column": _spike(width, [int(np.argmax(np.diag(moment)))]),
        "the rarest column": _spike(width, [int(np.argmin(np.diag(moment)))]),
        "the least common direction": np.abs(least) if positive else least,
        "away from the mean": np.maximum(-mean, 0.0) + 1e-9 if positive else -mean - 1e-9,
        "all columns": np.ones(width),
    }
    if bounds is not None:
        low, high = (np.broadcast_to(np.asarray(end, dtype=np.float64), width) for end in bounds)
        for name, direction in directions.items():
            yield f"a corner along {name}", np.where(direction > 0, high, low)
        yield "the other corner", np.where(least > 0, low, high)
        return
    for name, direction in directions.items():
        length = float(np.linalg.norm(direction))
        yield f"a row along {name}", scale * direction / (length if length > 0 else 1.0)
    if not positive:
        yield "a row against the least common direction", -scale * least
    yield "an empty row", np.zeros(width)


def _labelled(estimator: Estimator, data: RowUnits) -> Iterator[tuple[str, Unit]]:
    """Yield rows with every label: a label that does not fit gives a large gradient."""
    assert data.y is not None
    classes = getattr(estimator, "classes", None)
    labels = getattr(estimator, "target_range", None) if classes is None else classes
    listed = np.asarray(np.unique(data.y) if labels is None else labels)
    for name, row in itertools.islice(_rows(estimator, data), 4):
        for label in listed[[0, -1]]:
            yield (
                f"{name}, labelled {'first' if label == listed[0] else 'last'}",
                (
                    row[None],
                    np.asarray([label], dtype=data.y.dtype if classes is not None else np.float64),
                ),
            )


def _table_rows(data: RowUnits | PersonUnits) -> Iterator[tuple[str, polars.DataFrame | Floats]]:
    """Yield rows of a table that are unusual; all their values occur in the table, so that they fit its schema."""
    if isinstance(data, PersonUnits) or hasattr(data.X, "iter_columns"):
        rarity = np.zeros(len(data.X))
        for column in data.X.iter_columns():
            if isinstance(data, PersonUnits) and column.name == data.owner:
                continue
            _, codes, counts = np.unique(
                column.cast(str).fill_null("").to_numpy(), return_inverse=True, return_counts=True
            )
            rarity += np.log(counts[codes])
        order = np.argsort(rarity, kind="stable")
        for place, name in ((order[0], "the rarest row"), (order[1], "a rare row"), (order[-1], "the commonest row")):
            yield name, data.X[[int(place)]]
        return
    low, high = data.X.min(axis=0), data.X.max(axis=0)
    alternate = np.where(np.arange(len(low)) % 2, low, high)
    for name, row in (("all low", low), ("all high", high), ("alternating ends", alternate)):
        yield f"a row with {name}", row[None]


def _raters(estimator: Estimator, data: RatingUnits) -> Iterator[tuple[str, Unit]]:
    """Yield users with extreme ratings of everything, or of one rare item."""
    low, high = (float(end) for end in estimator.rating_range)
    known, counts = np.unique(data.items, return_counts=True)
    items = known if getattr(estimator, "catalogue", None) is None else np.asarray(list(estimator.catalogue))
    rare = known[np.argsort(counts, kind="stable")]
    if data.cells:
        for name, item, value in (("lowest", rare[0], low), ("highest", rare[0], high)):
            yield f"the {name} rating of a rare item", (np.zeros(1, np.int64), np.array([item]), np.array([value]))
        return
    alternate = np.where(np.arange(len(items)) % 2, low, high)
    yield "a user of one rare item", (rare[:1], np.array([high]))
    yield "a user who dislikes one rare item", (rare[:1], np.array([low]))
    yield "a user of two rare items", (rare[:2], np.array([high, low])[: len(rare[:2])])
    yield "a user with extreme ratings of everything", (items, alternate)
    yield "a user who likes everything", (items, np.full(len(items), high))
    yield "a user who dislikes everything", (items, np.full(len(items), low))


def _cells(estimator: Estimator, data: CellUnits) -> Iterator[tuple[str, Unit]]:
    """Yield users (or single cells) with extreme values."""
    low, high = range_of(estimator.value_range, data.relations[data.private].name)
    others = [size for axis, size in enumerate(data.shape) if axis != data.axis]
    every = np.stack([part.ravel() for part in np.indices(others)], axis=1)
    places = np.insert(every, data.axis, data.shape[data.axis] - 1, axis=1)
    if data.by_cell:
        yield "a cell with the highest value", (places[:1], np.array([high]))
        yield "a cell with the lowest value", (places[:1], np.array([low]))
        return
    alternate = np.where(np.arange(len(places)) % 2, low, high)
    yield "a user with extreme values everywhere", (places, alternate)
    yield "a user with the highest value everywhere", (places, np.full(len(places), high))
    yield "a user with the lowest value everywhere", (places, np.full(len(places), low))
    yield "a user with one cell", (places[-1:], np.array([high]))


def _moments(X: Rows) -> tuple[Floats, Floats]:
    second = X.T @ X
    dense = np.asarray(second.todense() if hasattr(second, "todense") else second, dtype=np.float64)
    return dense / max(X.shape[0], 1), np.asarray(X.mean(axis=0), dtype=np.float64).ravel()


def is_non_negative(estimator: Estimator) -> bool:
    """Whether the model refuses negative entries, or was told that there are none."""
    tags = estimator.__sklearn_tags__() if hasattr(estimator, "__sklearn_tags__") else None
    return bool(getattr(estimator, "non_negative", False) or (tags is not None and tags.input_tags.positive_only))


def _spike(width: int, places: Sequence[int] | NDArray[np.intp]) -> Floats:
    row = np.zeros(width)
    row[np.asarray(places)] = 1.0
    return row
