"""Interactions as they come (ids, a data frame, a sparse matrix; with or without weights), indexed by user and by item."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import InvalidInputError, kind_of, words
from tacit.factor.ratings.table import Ids, RatingTable, as_ids, as_ratings, check_lengths, indexed

WEIGHTINGS: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "log": lambda weights: np.log2(1 + weights),
    "linear": np.asarray,
    "binary": np.ones_like,
}
"""What an interaction counts, from the sum of its weights; without weights each counts 1."""


def read_interactions(
    users: Any,
    items: Any = None,
    weights: Any = None,
    *,
    catalogue: Any = None,
    weighting: str = "log",
) -> RatingTable:
    """Read interactions and index them.

    Parameters
    ----------
    users : data frame, sparse matrix, or ids
        A frame with columns ``user``, ``item`` and optionally ``weight`` or ``count`` (or with two or three columns, in this
        order); a users x items scipy sparse matrix, whose positive entries are the weights; or the users' ids, with `items`.
    items, weights : array_like, optional
    catalogue : sequence of ids, optional
        All items; an item outside is refused. The items of the interactions, or the columns of the matrix, if not given.
    weighting : {"log", "linear", "binary"}

    Returns
    -------
    RatingTable
        With what each interaction counts as `values`, all positive. Weights of repeated interactions are added up; without
        weights a repeated interaction counts once. `duplicates` is the number of repetitions. Interactions whose weight is
        zero are left out; their users and items stay.
    """
    sizes: tuple[int, int] | None = None
    if items is None:
        if weights is not None:
            raise InvalidInputError(
                "weights in the table itself, or users, items and weights as three lists",
                words("a table and a list of weights"),
                "Add the weights as the third column of the frame or as the entries of the matrix.",
            )
        users, items, weights, sizes = _split(users)
    given_users, given_items = as_ids(users, "user"), as_ids(items, "item")
    values = np.ones(len(given_users)) if weights is None else as_weights(weights)
    check_lengths(given_users, given_items, values, "interaction")
    if sizes is not None:
        user_ids, item_ids = Ids(np.arange(sizes[0])), Ids(np.arange(sizes[1]))
        rows, columns = given_users.astype(np.int64), given_items.astype(np.int64)
        if catalogue is not None:
            item_ids = named_columns(catalogue, sizes[1])
    else:
        user_ids, rows = indexed(given_users)
        if catalogue is None:
            item_ids, columns = indexed(given_items)
        else:
            item_ids = distinct_items(catalogue)
            columns = item_ids.codes(given_items, "item")
            if (columns < 0).any():
                raise InvalidInputError(
                    "items of the catalogue", words("others"), "Add them to the catalogue, or drop these interactions."
                )
    return _by_user(user_ids, item_ids, rows, columns, values, WEIGHTINGS[weighting], weighted=weights is not None)


def as_weights(weights: Any) -> NDArray[np.float64]:
    """Return finite weights of at least 0, or raise."""
    values = as_ratings(weights, None, name="weight")
    if (values < 0).any():
        raise InvalidInputError(
            "weights of at least 0", words("negative weights"), "Drop or correct these interactions."
        )
    return values


def distinct_items(catalogue: Any) -> Ids:
    """Return the ids of a catalogue in the order given, which is public; repetitions are refused."""
    given = as_ids(catalogue, "catalogue")
    plain: list[Any] = given.tolist()
    if len(set(plain)) < len(plain):
        raise InvalidInputError("a catalogue without repetitions", words("an item twice"), "Remove repetitions.")
    if not plain:
        raise InvalidInputError("a catalogue with at least one item", words("an empty one"), "List all items.")
    return CatalogueIds(given if given.dtype.kind in "iuU" else plain)


def named_columns(catalogue: Any, width: int) -> Ids:
    """Return the ids of the columns of a matrix."""
    ids = distinct_items(catalogue)
    if len(ids) != width:
        raise InvalidInputError(
            "one id in the catalogue per column of the matrix", words("another number"), "List the columns in order."
        )
    return ids


class CatalogueIds(Ids):
    """Ids in the order of a public catalogue, which need not be sorted."""

    def codes(self, ids: Any, name: str) -> NDArray[np.int64]:
        """Return the index of each id; -1 where it is not known."""
        given = as_ids(ids, name)
        lookup = self._place
        distinct, places = np.unique(given, return_inverse=True) if given.dtype.kind != "O" else (given, None)
        codes = np.fromiter((lookup.get(value, -1) for value in distinct.tolist()), np.int64, len(distinct))
        return codes if places is None else codes[places]


def _split(data: Any) -> tuple[Any, Any, Any, tuple[int, int] | None]:
    if hasattr(data, "tocoo"):
        entries = data.tocoo()
        return entries.row, entries.col, entries.data, entries.shape
    import narwhals as nw

    try:
        frame = nw.from_native(data, eager_only=True)
    except TypeError:
        raise InvalidInputError(
            "a data frame, a scipy sparse matrix, or users and items", kind_of(data), "Convert it to one of these."
        ) from None
    columns = list(frame.columns)
    known = ["user", "item", *[name for name in ("weight", "count") if name in columns][:1]]
    names = known if set(known) <= set(columns) else columns
    if len(names) not in (2, 3):
        raise InvalidInputError(
            "columns named user, item and (if there are any) weight or count, or two or three columns",
            words("others"),
            "Rename or select the columns.",
        )
    for name in names:
        if frame[name].null_count():
            raise InvalidInputError(f"a column {name!r} without gaps", words("missing values"), "Drop these rows.")
    arrays = [frame[name].to_numpy() for name in names]
    return arrays[0], arrays[1], arrays[2] if len(arrays) > 2 else None, None


def _by_user(
    users: Ids,
    items: Ids,
    rows: NDArray[np.int64],
    columns: NDArray[np.int64],
    weights: NDArray[np.float64],
    weighting: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    *,
    weighted: bool,
) -> RatingTable:
    pairs = rows * len(items) + columns
    order = np.argsort(pairs, kind="stable")
    pairs = pairs[order]
    first = np.flatnonzero(np.r_[True, pairs[1:] != pairs[:-1]])
    duplicates = len(pairs) - len(first)
    pairs, order = pairs[first], order if weighted else order[first]
    if weighted:
        totals = np.add.reduceat(weights[order], first)
        pairs, totals = pairs[totals > 0], totals[totals > 0]
        values = weighting(totals)
    else:
        values = np.ones(len(pairs))
    ends = np.searchsorted(pairs, np.arange(len(users) + 1) * len(items))
    return RatingTable(
        users, items, ends.astype(np.int64), (pairs % len(items)).astype(np.int32), np.asarray(values), duplicates
    )
