"""Rows or ratings to hold out of a fit: splits of private data that cost no privacy, and splits by a seed.

A split of private data is decided **per unit**: a keyed hash (BLAKE2b) of the unit's own content, or of its ids, gives a
number between 0 and 1, and the unit is held out if that number is below the fraction to hold out. The key has 32 bytes
from the operating system, is made for one split, and is never written anywhere.

Why this costs no privacy: let k be the key and S_k(D) the part of the data D that is kept. Each unit's decision is a
function of k and of that unit only. So if D and D' differ by one added or removed unit, S_k(D) and S_k(D') differ by that
unit or not at all. A fit that is (epsilon, delta)-differentially private under add-remove adjacency keeps its guarantee
on S_k(D) and S_k(D') for every k, and therefore also for a k that is drawn independently of the data.

Rows with equal content would all be held out or all be kept, which is a poor split of a table with few different rows. So
the second and every further copy of a row hashes its number as well. The decisions for the copies of one row are then a
sequence that depends on the key and the content only; the number of copies determines how much of the sequence is used.
One copy more or less changes the kept rows by at most one copy.

A split by row number with a public seed does not have this property: removing the first row moves every later row to
another place in the sequence, and so in or out of the fit. `held_out_by_seed` is for fits without privacy only.

Under replace-one adjacency a unit that is replaced may be held out before and kept afterwards, which changes the number
of kept units. Split by something that the replacement does not change, as ``held_out_rows(row_numbers)``.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Hashable, Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.errors import InvalidInputError, kind_of, parameter
from tacit.validation import TableLike, check_count, check_seed

if TYPE_CHECKING:
    from scipy.sparse import csr_array

KEY_BYTES = 32
"""Length of a key; BLAKE2b accepts up to 64 bytes."""


def new_key() -> bytes:
    """Return a secret key for one split, from the operating system."""
    return os.urandom(KEY_BYTES)


def held_out_rows(X: TableLike, y: object = None, *, fraction: float, key: bytes | None = None) -> NDArray[np.bool_]:
    """Decide for each row by itself whether it is held out.

    Parameters
    ----------
    X : array or sparse matrix of shape (n_rows, n_columns), or array of shape (n_rows,)
        The rows, or ids of the rows.
    y : array of shape (n_rows,), optional
        Labels, which are part of the row.
    fraction : float
        Fraction of the rows to hold out, on average.
    key : bytes, optional
        For tests; a new secret key if not given.

    Returns
    -------
    ndarray of bool, shape (n_rows,)
        True where a row is held out.

    Examples
    --------
    Removing the first row changes nothing for the others under the same key:

    >>> import numpy as np
    >>> from tacit.data.split import held_out_rows, new_key
    >>> X, key = np.random.default_rng(0).random((1000, 3)), new_key()
    >>> out, without_first = (held_out_rows(rows, fraction=0.1, key=key) for rows in (X, X[1:]))
    >>> bool((out[1:] == without_first).all())
    True
    """
    return _draws(_rows(X, y), key) < check_fraction(fraction)


def held_out_pairs(
    users: Iterable[Hashable], items: Iterable[Hashable], *, fraction: float, key: bytes | None = None
) -> NDArray[np.bool_]:
    """Decide for each rating whether it is held out, by its user and item only.

    No user's presence changes what happens to another user's ratings, so the split keeps a guarantee whose unit is the
    user, and one whose unit is the single rating.

    Parameters
    ----------
    users, items : sequence of shape (n_ratings,)
        Ids; numbers and strings that are written alike are the same id.
    fraction : float
    key : bytes, optional
        See `held_out_rows`.

    Returns
    -------
    ndarray of bool, shape (n_ratings,)
    """
    pairs = (
        _joined(_id_bytes(user), _id_bytes(item)) for user, item in zip(_values(users), _values(items), strict=True)
    )
    return _draws(pairs, key) < check_fraction(fraction)


def held_out_cells(cells: ArrayLike, *, fraction: float, key: bytes | None = None) -> NDArray[np.bool_]:
    """Decide for each cell of a tensor whether it is held out, by its place only.

    As with `held_out_pairs`, the split keeps a guarantee whose unit is an entity of one axis, and one whose unit is the cell.

    Parameters
    ----------
    cells : array_like of int, shape (n_cells, order)
        The places in public lists of entities.
    fraction : float
    key : bytes, optional
        See `held_out_rows`.

    Returns
    -------
    ndarray of bool, shape (n_cells,)
    """
    places = np.ascontiguousarray(cells, np.int64)
    return _draws((place.tobytes() for place in places), key) < check_fraction(fraction)


def held_out_users(users: Iterable[Hashable], *, fraction: float, key: bytes | None = None) -> NDArray[np.bool_]:
    """Decide for each user whether all of the user's interactions are held out, by the user's id only.

    Parameters
    ----------
    users : sequence of shape (n_interactions,)
        The user of each interaction; numbers and strings that are written alike are the same id.
    fraction : float
        Of the users, on average.
    key : bytes, optional
        See `held_out_rows`.

    Returns
    -------
    ndarray of bool, shape (n_interactions,)
    """
    ids = [_id_bytes(user) for user in _values(users)]
    distinct = list(dict.fromkeys(ids))
    out = dict(zip(distinct, _draws(distinct, key) < check_fraction(fraction), strict=True))
    return np.fromiter((out[user] for user in ids), np.bool_, len(ids))


def parts_of_rows(X: TableLike, n_parts: int, *, key: bytes | None = None) -> NDArray[np.int64]:
    """Assign each row by itself to one of `n_parts` parts; their sizes are random.

    Parameters
    ----------
    X : array or sparse matrix
    n_parts : int
    key : bytes, optional
        See `held_out_rows`.

    Returns
    -------
    ndarray of int, shape (n_rows,)
        From 0 to ``n_parts - 1``.
    """
    count = check_count(n_parts, "n_parts")
    parts = (_draws(_rows(X, None), key) * count).astype(np.int64)
    return np.minimum(parts, count - 1)  # a draw within 2**-54 of 1 is rounded to 1


def parts_of_ids(ids: Iterable[Hashable], n_parts: int, *, key: bytes | None = None) -> NDArray[np.int64]:
    """Assign each id, with everything that carries it, to one of `n_parts` parts; their sizes are random.

    Parameters
    ----------
    ids : sequence of shape (n,)
        As of the users of ratings: all ratings of a user come to the same part.
    n_parts : int
    key : bytes, optional
        See `held_out_rows`.

    Returns
    -------
    ndarray of int, shape (n,)
        From 0 to ``n_parts - 1``.
    """
    count, texts = check_count(n_parts, "n_parts"), [_id_bytes(value) for value in _values(ids)]
    listed = list(dict.fromkeys(texts))
    parts = np.minimum((_draws(iter(listed), key) * count).astype(np.int64), count - 1)
    part_of = dict(zip(listed, parts.tolist(), strict=True))
    return np.array([part_of[text] for text in texts], dtype=np.int64)


def held_out_by_seed(n: int, *, fraction: float, random_state: int) -> NDArray[np.bool_]:
    """Hold out rows by their number and a seed that may be public: for fits **without** privacy only.

    Parameters
    ----------
    n : int
        Number of rows.
    fraction : float
    random_state : int
    """
    return np.random.default_rng(check_seed(random_state)).random(n) < check_fraction(fraction)


def check_fraction(fraction: float) -> float:
    """Return a fraction to hold out, strictly between 0 and 1."""
    if not 0 < fraction < 1:
        raise InvalidInputError(
            "held_out (--held-out) to be between 0 and 1",
            parameter(fraction),
            "Give the fraction to hold out, as in 0.1.",
        )
    return float(fraction)


def _draws(units: Iterable[bytes], key: bytes | None) -> NDArray[np.float64]:
    """Return a number in [0, 1] per unit, from the key and the unit; further copies of a unit get numbers of their own."""
    secret = new_key() if key is None else key
    copies: dict[bytes, int] = {}

    def number(unit: bytes) -> int:
        digest = hashlib.blake2b(unit, key=secret, digest_size=16).digest()
        copy = copies.get(digest, 0)
        copies[digest] = copy + 1
        if copy:
            digest = hashlib.blake2b(digest + copy.to_bytes(8, "little"), key=secret, digest_size=16).digest()
        return int.from_bytes(digest[:8], "little")

    return np.fromiter((number(unit) for unit in units), np.uint64) / 2.0**64


def _rows(X: TableLike, y: object) -> Iterator[bytes]:
    """Yield each row's content, with its label, in a form that does not depend on the types of the other rows."""
    contents = _sparse_rows(X.tocsr()) if hasattr(X, "tocsr") else _dense_rows(np.asarray(X))
    if y is None:
        return contents
    return (_joined(row, _id_bytes(label)) for row, label in zip(contents, _values(y), strict=True))


def _dense_rows(X: NDArray[np.generic]) -> Iterator[bytes]:
    for row in X:
        try:
            numbers = np.asarray(row, np.float64)
        except (TypeError, ValueError):
            raise InvalidInputError("rows of numbers to split", kind_of(X), "Convert text to numbers.") from None
        yield (numbers + 0.0).tobytes()  # -0.0 + 0.0 is 0.0


def _sparse_rows(X: csr_array) -> Iterator[bytes]:
    rows = X.copy()
    rows.sum_duplicates()
    rows.eliminate_zeros()
    columns, values = rows.indices.astype(np.int64), rows.data.astype(np.float64)
    for start, end in zip(rows.indptr[:-1], rows.indptr[1:], strict=True):
        yield columns[start:end].tobytes() + values[start:end].tobytes()


def _values(given: object) -> list[Hashable]:
    listed: list[Hashable] = given.to_list() if hasattr(given, "to_list") else np.asarray(given).tolist()
    return listed


def _id_bytes(value: object) -> bytes:
    # one fractional or textual id changes the type of a whole column: 7, 7.0 and "7" must stay the same id
    whole = int(value) if isinstance(value, float) and value.is_integer() else value
    return str(whole).encode("utf-8", "surrogatepass")


def _joined(first: bytes, second: bytes) -> bytes:
    """Join two fields so that no other two fields give the same bytes."""
    return len(first).to_bytes(8, "little") + first + second
