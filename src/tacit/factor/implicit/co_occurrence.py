r"""Which items appear together in users' histories: sums of outer products of sparse rows, compiled.

A user's row over the chosen items is :math:`y`. Its part along a public direction :math:`d` of length 1 is shortened,
:math:`\bar y = y - (1 - s)(d \cdot y)\,d`, and :math:`\bar y \bar y' / |\bar y|^2` is what the user adds. The result is
dense, but its sum follows from sums over the pairs of items in each history, so that the work is that of the sparse rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.factor.kernels import compiled
from tacit.factor.noisy_moments.symmetric import pack


@dataclass(frozen=True)
class ChosenItems:
    """The items of a second moment, all of it public or released.

    Attributes
    ----------
    items : ndarray of int64
        Their places in the catalogue, ascending.
    direction : ndarray of shape (n_chosen,)
        Of length 1 and not negative: what an average user's row looks like.
    kept : float
        By how much the part of a row along `direction` is shortened, above 0 and at most 1.
    """

    items: NDArray[np.int64]
    direction: NDArray[np.float64]
    kept: float

    def restored(self, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
        """Undo the shortening: multiply each column by the inverse of I - (1 - s) d d'."""
        along = self.direction @ vectors
        return vectors + (1 / self.kept - 1) * np.outer(self.direction, along)


@compiled
def _add_users(
    ends: NDArray[np.int64],
    columns: NDArray[np.int32],
    values: NDArray[np.float64],
    places: NDArray[np.int64],
    direction: NDArray[np.float64],
    shortened: float,
    pairs: NDArray[np.float64],
    linear: NDArray[np.float64],
    square: NDArray[np.float64],
) -> None:
    """Add, for every user, y y' / |y_bar|^2 to `pairs` (upper triangle), and what the shortening needs to the others."""
    most = 0
    for user in range(len(ends) - 1):
        most = max(most, ends[user + 1] - ends[user])
    chosen, row = np.empty(most, np.int64), np.empty(most)
    for user in range(len(ends) - 1):
        count, largest = 0, 0.0
        for entry in range(ends[user], ends[user + 1]):
            place = places[columns[entry]]
            if place >= 0:
                chosen[count] = place
                row[count] = values[entry]
                largest = max(largest, row[count])
                count += 1
        if largest == 0.0:
            continue
        length, along = 0.0, 0.0
        for a in range(count):
            row[a] /= largest  # squares of very large or very small weights would leave the range of doubles
            length += row[a] * row[a]
            along += row[a] * direction[chosen[a]]
        # |y - (1 - s)(d y) d|^2 = |y|^2 - (1 - s^2)(d y)^2, which is at least s^2 |y|^2
        scale = 1 / (length - (1 - (1 - shortened) * (1 - shortened)) * along * along)
        away = shortened * along
        square[0] += scale * away * away
        for a in range(count):
            factor, first = scale * row[a], chosen[a]
            linear[first] += factor * away
            for b in range(a, count):  # items ascend within a user, and so do places
                pairs[first, chosen[b]] += factor * row[b]


def second_moment(
    ends: NDArray[np.int64],
    columns: NDArray[np.int32],
    values: NDArray[np.float64],
    n_items: int,
    chosen: ChosenItems,
) -> NDArray[np.float64]:
    """Return the users' second moment over the chosen items, packed (`tacit.factor.noisy_moments.symmetric.pack`).

    Each user's part has the norm 1, or 0 without chosen items.

    Parameters
    ----------
    ends, columns, values
        Rows of a CSR matrix with positive values, columns ascending.
    n_items : int
    chosen : ChosenItems
    """
    size = len(chosen.items)
    places = np.full(n_items, -1, dtype=np.int64)
    places[chosen.items] = np.arange(size)
    pairs, linear, square = np.zeros((size, size)), np.zeros(size), np.zeros(1)
    _add_users(ends, columns, values, places, chosen.direction, 1 - chosen.kept, pairs, linear, square)
    along = np.outer(chosen.direction, linear - square[0] / 2 * chosen.direction)
    return pack(pairs - along - along.T)
