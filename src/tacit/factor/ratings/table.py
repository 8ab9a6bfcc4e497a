"""Reads ratings (a data frame, three arrays or a sparse matrix; hashable ids) and indexes them by user and item."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence, Sized
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.errors import InvalidInputError, Undisclosed, kind_of, words
from tacit.validation import TableLike, refuse_dates

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame, IntoSeries
    from numpy.typing import ArrayLike
    from scipy.sparse import sparray, spmatrix

COLUMNS = ("user", "item", "rating")
DENSE_IDS = 4
"""Integer ids are indexed by a lookup table if their range is at most this many times their number, and by sorting
otherwise. Set by hand: a table is faster, and takes memory for the whole range."""
IdsLike: TypeAlias = "ArrayLike | Sequence[Hashable] | IntoSeries"
"""Ids of users or items that a user of the package gives: numbers, texts, or anything else that is hashable."""
RatingsLike: TypeAlias = "IdsLike | spmatrix | sparray | IntoDataFrame"
"""Who rated: ids; or a whole table of ratings, as a sparse matrix or a data frame."""


class Ids:
    """Distinct ids, in the order of their indices.

    Parameters
    ----------
    values : ndarray or list
        An array if all are numbers or all are strings, otherwise a list. Sorted, so that their order does not depend on the
        order of the data: numbers first, then strings, then others by their type and `repr`.
    """

    def __init__(self, values: NDArray[Any] | list[Hashable]) -> None:
        self.values = values

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def _place(self) -> dict[Hashable, int]:
        plain = self.values.tolist() if isinstance(self.values, np.ndarray) else self.values
        return {value: index for index, value in enumerate(plain)}

    def codes(self, ids: RatingsLike, name: str) -> NDArray[np.int64]:
        """Return the index of each id; -1 for an unknown id."""
        given = as_ids(ids, name)
        known = self.values
        if isinstance(known, np.ndarray) and len(known) and given.dtype.kind in "iu" and known.dtype.kind in "iu":
            place = np.minimum(np.searchsorted(known, given), len(known) - 1)
            return np.where(known[place] == given, place, -1).astype(np.int64)
        lookup = self._place
        return np.fromiter((lookup.get(value, -1) for value in given.tolist()), np.int64, len(given))

    def known(self, ids: RatingsLike, name: str) -> NDArray[np.int64]:
        """Return the index of each id; raise for an unknown id."""
        codes = self.codes(ids, name)
        if (codes < 0).any():
            raise InvalidInputError(
                f"{name} ids that the model knows",
                words(f"an unknown {name} id"),
                "Leave it out, fit with it, or (for a new user) use recommend_for with the user's own history.",
            )
        return codes

    def one(self, value: Hashable, name: str) -> int:
        """Return the index of one id."""
        return int(self.known([value], name)[0])

    def __getitem__(self, index: int) -> Hashable:
        value = self.values[index]
        return value.item() if isinstance(value, np.generic) else value


@dataclass(frozen=True, eq=False, repr=False)
class RatingTable(Undisclosed):
    """Ratings by user: those of user u are ``values[ends[u]:ends[u + 1]]``, of the items ``columns[...]``, ascending.

    Attributes
    ----------
    users, items : Ids
    ends : ndarray of int64, shape (n_users + 1,)
    columns : ndarray of int32, shape (n_ratings,)
    values : ndarray of float64, shape (n_ratings,)
    duplicates : int
        How many ratings were replaced by a later one of the same user and item.
    """

    users: Ids
    items: Ids
    ends: NDArray[np.int64]
    columns: NDArray[np.int32]
    values: NDArray[np.float64]
    duplicates: int = 0

    @property
    def counts(self) -> NDArray[np.int64]:
        """Number of ratings of every user."""
        return np.diff(self.ends)

    @property
    def rows(self) -> NDArray[np.int64]:
        """The user of every rating."""
        return np.repeat(np.arange(len(self.users)), self.counts)

    def per_user(self, terms: NDArray[np.float64]) -> NDArray[np.float64]:
        """Add up the terms (one per rating) of every user; 0 for users without ratings.

        Each user's sum is computed from that user's terms alone, so other users cannot change its rounding.
        """
        filled = self.counts > 0
        shape = (len(self.users), *terms.shape[1:])
        sums = np.zeros(shape)
        if filled.any():
            sums[filled] = np.add.reduceat(terms, self.ends[:-1][filled], axis=0)
        return sums

    def blocks(self, ratings: int) -> Iterator[tuple[slice, RatingTable]]:
        """Yield ranges of users with about this many ratings each, and their part of the table."""
        start = 0
        while start < len(self.users):
            stop = int(np.searchsorted(self.ends, self.ends[start] + ratings, side="right")) - 1
            stop = min(max(stop, start + 1), len(self.users))
            entries = slice(int(self.ends[start]), int(self.ends[stop]))
            users = Ids(self.users.values[start:stop])
            ends = self.ends[start : stop + 1] - self.ends[start]
            yield (
                slice(start, stop),
                replace(self, users=users, ends=ends, columns=self.columns[entries], values=self.values[entries]),
            )
            start = stop

    def of(self, user: int) -> slice:
        """Return the slice of one user's ratings."""
        return slice(int(self.ends[user]), int(self.ends[user + 1]))


def read_ratings(
    users: RatingsLike,
    items: IdsLike | None = None,
    ratings: ArrayLike | None = None,
    *,
    rating_range: tuple[float, float] | None = None,
    catalogue: IdsLike | None = None,
) -> RatingTable:
    """Read ratings and index them.

    Parameters
    ----------
    users : data frame, sparse matrix, or ids
        A frame with columns ``user``, ``item`` and ``rating`` (or with three columns, in this order); a users x items
        scipy sparse matrix, whose stored entries are the ratings; or the users' ids, with `items` and `ratings`.
    items, ratings : array_like, optional
    rating_range : tuple of float, optional
        Ratings outside are refused.
    catalogue : sequence of ids, optional
        All items, rated or not; an item outside is refused. If not given, the rated items.

    Returns
    -------
    RatingTable
        Of several ratings by the same user for the same item, the last is kept; the others are counted in `duplicates`.
    """
    sizes: tuple[int, int] | None = None
    if items is None and ratings is None:
        users, items, ratings, sizes = _split(users)
    elif items is None or ratings is None:
        raise InvalidInputError("users, items and ratings together", words("only some of them"), "Give all three.")
    values = as_ratings(ratings, rating_range)
    given_users, given_items = as_ids(users, "user"), as_ids(items, "item")
    check_lengths(given_users, given_items, values, "rating")
    if sizes is not None:
        user_ids, item_ids = Ids(np.arange(sizes[0])), Ids(np.arange(sizes[1]))
        rows, columns = given_users.astype(np.int64), given_items.astype(np.int64)
    else:
        user_ids, rows = indexed(given_users)
        item_ids, columns = indexed(given_items)
    if catalogue is not None:
        item_ids, _ = indexed(as_ids(catalogue, "catalogue"))
        columns = item_ids.known(given_items, "item")
    return _by_user(user_ids, item_ids, rows, columns, values)


def check_lengths(users: Sized, items: Sized, values: Sized, what: str) -> None:
    """Raise unless there are as many users as items and values, and at least one; `what` is the name of a value."""
    if not len(values) == len(users) == len(items):
        raise InvalidInputError(
            f"equal numbers of users, items and {what}s",
            words("different numbers of them"),
            f"Give one user and one item per {what}.",
        )
    if not len(values):
        raise InvalidInputError(f"at least one {what}", words("none"), "Check the file, or how it was filtered.")


def as_ids(ids: object, name: str) -> NDArray[Any]:
    """Return ids as a one-dimensional array: of numbers, of strings, or of objects if they are mixed."""
    array: Any = ids.to_numpy() if hasattr(ids, "to_numpy") else ids
    if not isinstance(array, np.ndarray):
        listed = (
            list(array) if isinstance(array, Sequence | set | frozenset) and not isinstance(array, str) else [array]
        )
        array = np.empty(len(listed), dtype=object)
        array[:] = listed
    if array.ndim != 1:
        raise InvalidInputError(f"{name} ids in one dimension", kind_of(array), "Give a list, or one column, of ids.")
    if array.dtype.kind not in "biufcmMSU":
        _check_objects(array, name)
        plain = [_plain_id(value) for value in array.tolist()]
        kinds = {type(value) for value in plain}
        if kinds <= {int} or kinds == {str}:
            array = np.array(plain)
        else:
            array = np.empty(len(plain), dtype=object)
            array[:] = plain
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise InvalidInputError(f"{name} ids without missing values", words("NaN"), "Drop the ratings without an id.")
    ids_array: NDArray[Any] = array
    return ids_array


def _plain_id(value: object) -> Hashable:
    """Return the common form of equal ids: 1, 1.0, True and NumPy's numbers are the same id."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool) or (isinstance(value, float) and value.is_integer()):
        return int(value)
    return value


def _id_order(value: Hashable) -> tuple[int, float | str, str]:
    if isinstance(value, int | float):
        return 0, value, ""
    if isinstance(value, str):
        return 1, value, ""
    return 2, type(value).__name__, repr(value)


def _check_objects(array: NDArray[np.object_], name: str) -> None:
    for value in array:
        if not isinstance(value, Hashable) or value is None or value != value:  # noqa: PLR0124  (NaN is not itself)
            raise InvalidInputError(
                f"hashable {name} ids without missing values", words("other ids"), "Drop or convert them."
            )


def as_ratings(
    ratings: ArrayLike, rating_range: tuple[float, float] | None, *, is_public: bool = True, name: str = "rating"
) -> NDArray[np.float64]:
    """Return finite ratings (or what `name` says) within the range, or raise; the message names a range that is public."""
    raw: Any = ratings
    refuse_dates(raw, f"{name}s")
    try:
        values = np.asarray(raw.to_numpy() if hasattr(raw, "to_numpy") else raw, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"{name}s that are numbers", words("other values"), "Convert or drop the others."
        ) from None
    if values.ndim != 1:
        raise InvalidInputError(f"{name}s in one dimension", kind_of(values), f"Give one number per {name}.")
    if not np.isfinite(values).all():
        raise InvalidInputError(f"finite {name}s", words("NaN or infinity"), f"Drop the pairs without a {name}.")
    if rating_range is not None and len(values):
        low, high = rating_range
        if ((values < low) | (values > high)).any():
            raise InvalidInputError(
                f"ratings between {low:g} and {high:g}" if is_public else "ratings within the range of those fitted",
                words("ratings outside"),
                "Set rating_range or correct the ratings.",
            )
    return values


def indexed(ids: NDArray[Any]) -> tuple[Ids, NDArray[np.int64]]:
    """Return the distinct ids, and the index of each."""
    if ids.dtype.kind in "iu" and len(ids):
        low, span = int(ids.min()), int(ids.max()) - int(ids.min()) + 1
        if span <= DENSE_IDS * len(ids) + 1024:
            shifted = (ids - low).astype(np.int64)
            seen = np.zeros(span, dtype=bool)
            seen[shifted] = True
            return Ids(np.flatnonzero(seen) + low), (np.cumsum(seen) - 1)[shifted]
    if ids.dtype.kind != "O":
        distinct, codes = np.unique(ids, return_inverse=True)
        return Ids(distinct), codes.astype(np.int64)
    known = sorted(set(ids.tolist()), key=_id_order)
    place = {value: index for index, value in enumerate(known)}
    return Ids(known), np.fromiter((place[value] for value in ids.tolist()), np.int64, len(ids))


def _split(data: Any) -> tuple[Any, Any, Any, tuple[int, int] | None]:
    if hasattr(data, "tocoo"):
        entries = data.tocoo()
        return entries.row, entries.col, entries.data, entries.shape
    import narwhals as nw

    try:
        frame = nw.from_native(data, eager_only=True)
    except TypeError:
        raise InvalidInputError(
            "a data frame, a scipy sparse matrix, or users, items and ratings",
            kind_of(data),
            "Give one of these.",
        ) from None
    names = COLUMNS if set(COLUMNS) <= set(frame.columns) else tuple(frame.columns)
    if len(names) != len(COLUMNS):
        raise InvalidInputError(
            f"columns named {', '.join(COLUMNS)}, or three columns",
            words("other columns"),
            "Rename or select the columns.",
        )
    for name in names:
        if frame[name].null_count():
            raise InvalidInputError(
                f"a column {name!r} without missing values", words("missing values"), "Drop these rows."
            )
    return (*(frame[name].to_numpy() for name in names), None)


def _by_user(
    users: Ids, items: Ids, rows: NDArray[np.int64], columns: NDArray[np.int64], values: NDArray[np.float64]
) -> RatingTable:
    pairs = rows * len(items) + columns
    order = np.argsort(pairs, kind="stable")
    pairs = pairs[order]
    last = np.ones(len(pairs), dtype=bool)
    last[:-1] = pairs[1:] != pairs[:-1]
    order = order[last]
    ends = np.searchsorted(pairs[last], np.arange(len(users) + 1) * len(items))
    return RatingTable(
        users, items, ends.astype(np.int64), columns[order].astype(np.int32), values[order], int((~last).sum())
    )


def public_features(features: TableLike | None, n_items: int) -> NDArray[np.float64] | None:
    """Return features as an array, or raise."""
    if features is None:
        return None
    dense = features.toarray() if hasattr(features, "toarray") else features
    try:
        matrix = np.asarray(dense.to_numpy() if hasattr(dense, "to_numpy") else dense, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError(
            "features that are numbers", kind_of(features), "Convert text to columns of 0 and 1."
        ) from None
    if matrix.ndim != 2 or len(matrix) != n_items or not np.isfinite(matrix).all() or (matrix < 0).any():
        raise InvalidInputError(
            "features with one row per item of the catalogue, finite and not negative",
            words("others"),
            "Give the features in the order of the catalogue.",
        )
    return matrix
