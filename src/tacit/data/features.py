"""Public features of items, from the columns of a catalogue: 0 or 1 for each genre, type, tag or group of years."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tacit.errors import InvalidInputError, words
from tacit.validation import check_count

SEPARATORS = re.compile(r"\s*[|,;]\s*")
GROUPS = 8
"""Numbers are put into this many groups of about equal size."""
TITLE_WORD = re.compile(r"[^\W_]{4,}")
MOST_TITLES = 15
"""Words of titles have at least four letters or digits, and words of more items than this say too little."""


def item_features(
    columns: Mapping[str, Sequence[str | float | None]], *, least: int = 2, titles: Sequence[str] = ()
) -> tuple[NDArray[np.float64], list[str]]:
    """Return features of items, and their names, for `tacit.PrivateImplicitRecommender` and `tacit.PrivateRecommender`.

    Parameters
    ----------
    columns : mapping of name to sequence
        One value per item, in the order of the catalogue. Texts are lists of words, separated by ``|``, ``,`` or ``;``: each
        word becomes a column of 0 and 1. Numbers are put into groups of about equal size. None and NaN are in no group.
    least : int, default=2
        Words of fewer items are left out.
    titles : sequence of str, default=()
        Names of columns whose texts are titles: each word of four letters or more becomes a column, if few items have it
        (at most 15). Parts of a series are recognised by them. For `tacit.PrivateImplicitRecommender`.

    Returns
    -------
    features : ndarray of shape (n_items, n_features)
    names : list of str
        As in "genre: Drama".

    Examples
    --------
    >>> from tacit.data import item_features
    >>> features, names = item_features({"genre": ["Drama|War", "Drama", "War, Western"]})
    >>> names, features.tolist()
    (['genre: Drama', 'genre: War'], [[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    """
    least = check_count(least, "least")
    parts: list[NDArray[np.float64]] = []
    names: list[str] = []
    for name, given in columns.items():
        values = list(given)
        if parts and len(values) != len(parts[0]):
            raise InvalidInputError("one value per item in each column", words("different numbers"), "Fill the gaps.")
        numbers = _as_numbers(values)
        split = _title_words if name in titles else _words
        groups = split(values) if numbers is None else _groups(numbers)
        for label, members in groups.items():
            if members.sum() >= least:
                parts.append(members.astype(np.float64))
                names.append(f"{name}: {label}")
    if not parts:
        raise InvalidInputError(
            "features that items have in common", words("none"), "Give columns of genres, types or years."
        )
    return np.stack(parts, axis=1), names


def _as_numbers(values: Sequence[str | float | None]) -> NDArray[np.float64] | None:
    """Return the values as numbers, NaN for None; None if one of them is a text."""
    if any(isinstance(value, str) for value in values):
        return None
    return np.array([np.nan if value is None else float(value) for value in values])


def _words(values: Sequence[str | float | None]) -> dict[str, NDArray[np.bool_]]:
    listed = [
        set(filter(None, SEPARATORS.split(str(value).strip()))) if value is not None else set() for value in values
    ]
    return {word: np.array([word in own_words for own_words in listed]) for word in sorted(set().union(*listed))}


def _title_words(values: list[str | float | None]) -> dict[str, NDArray[np.bool_]]:
    holders: dict[str, list[int]] = {}
    for place, value in enumerate(values):
        for word in sorted(set(TITLE_WORD.findall(str(value).lower()))) if value is not None else ():
            holders.setdefault(word, []).append(place)
    few = {word: own for word, own in sorted(holders.items()) if len(own) <= MOST_TITLES}
    return {word: np.isin(np.arange(len(values)), own) for word, own in few.items()}


def _groups(numbers: NDArray[np.float64]) -> dict[str, NDArray[np.bool_]]:
    known = numbers[~np.isnan(numbers)]
    if not len(known):
        return {}
    edges = np.unique(np.quantile(known, np.linspace(0, 1, GROUPS + 1)[1:-1], method="inverted_cdf"))
    group = np.where(np.isnan(numbers), -1, np.searchsorted(edges, numbers, side="left"))
    labels = [f"up to {edge:g}" for edge in edges] + [f"above {edges[-1]:g}"]
    return {label: group == place for place, label in enumerate(labels)}
