r"""Non-negative factors of ratings with missing entries (weighted NMF), as a program over sums, and its estimator.

This is the recommender of Tsikhanovich et al. (2019), section 5.1: PD-NMF in a weighted element-wise version, for which
the paper prints no formula (it refers to Ho 2008, section 6). The objective is that of its eq. 2 over the rated
entries; the penalty of a factor is counted once per rating.

.. math:: \min_{P, Q \ge 0} \frac12 \sum_{(u,i)\ \text{rated}} (r_{ui} - p_u \cdot q_i)^2
          + \frac\lambda2 \Big(\sum_u n_u |p_u|^2 + \sum_i n_i |q_i|^2\Big)

Users and items alternate. Each side is improved by coordinate descent on its own normal equations, so the objective never
rises. Users stay with their holder. The items' normal equations are added up over holders, so several holders get the same
result as one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.channel import Clear, Outcome, Program, Sum, run
from tacit.errors import InvalidInputError, words
from tacit.estimators.base import public, released
from tacit.factor.arrays import SomeFloats
from tacit.factor.kernels import parallel_for
from tacit.factor.ratings.als import BLOCK, ItemSide
from tacit.factor.ratings.model import RatingModel
from tacit.factor.ratings.table import IdsLike, RatingsLike, RatingTable, read_ratings
from tacit.factor.small_solves import fused, normal_rows
from tacit.privacy.guarantee import Guarantee
from tacit.validation import check_count, check_positive, check_range, check_seed

DESCENT_TOLERANCE = 1e-12
"""A row is finished when a sweep changes it by less than this fraction of its squared norm. Set by hand: about single
precision in the row's entries."""
ROW_SWEEPS = 30
"""Most sweeps over one row per sweep of the fit. Set by hand: rows continue from their last values, so few are needed."""
USER_SWEEPS = 1000
"""Most sweeps over a user's row after the fit. Set by hand, to reach DESCENT_TOLERANCE: users start from zero, so the same
ratings give the same factors."""


@fused
def _descend_packed(
    grams: SomeFloats, linears: SomeFloats, ridge: SomeFloats, rows: SomeFloats, most_sweeps: int, start: int, stop: int
) -> None:
    size = linears.shape[1]
    gradient = np.empty(size, linears.dtype)
    for i in range(start, stop):
        gram, row = grams[i], rows[i]
        for a in range(size):
            gradient[a] = linears[i, a] - ridge[i] * row[a]
        for a in range(size):
            for c in range(size):
                gradient[a] -= gram[max(a, c) * (max(a, c) + 1) // 2 + min(a, c)] * row[c]
        for _ in range(most_sweeps):
            moved, length = 0.0, 0.0
            for a in range(size):
                curvature = gram[a * (a + 1) // 2 + a] + ridge[i]
                if curvature <= 0:
                    continue
                new = max(row[a] + gradient[a] / curvature, 0.0)
                step = new - row[a]
                if step != 0:
                    row[a] = new
                    gradient[a] -= step * ridge[i]
                    for c in range(size):
                        gradient[c] -= step * gram[max(a, c) * (max(a, c) + 1) // 2 + min(a, c)]
                moved += step * step
                length += new * new
            if moved <= DESCENT_TOLERANCE * length:
                break


def descend_packed(
    grams: SomeFloats, linears: SomeFloats, ridge: SomeFloats, rows: SomeFloats, most_sweeps: int
) -> None:
    """Lower ``1/2 x'(G + ridge) x - b'x`` over ``x >= 0`` for every row of `rows`, in place, by coordinate descent."""
    parallel_for(
        lambda start, stop: _descend_packed(grams, linears, ridge, rows, most_sweeps, start, stop),
        np.arange(len(linears) + 1) * linears.shape[1] ** 2 * 10,
    )


@dataclass(frozen=True)
class NonNegativeSide(ItemSide):
    """Items' factors. Users are solved without a bias and without negative entries; `noise` is the penalty."""

    def solve_users(
        self, ends: NDArray[np.int64], columns: NDArray[np.int32], values: NDArray[np.float64]
    ) -> SomeFloats:
        """Return the factors of users with these ratings and, last, a bias of zero."""
        users = np.zeros((len(ends) - 1, self.factors.shape[1]))
        solve_rows_in_blocks(ends, columns, values, self.factors, self.noise, users, USER_SWEEPS)
        return np.concatenate([users, np.zeros((len(users), 1))], axis=1)


def solve_rows_in_blocks(
    ends: NDArray[np.int64],
    columns: NDArray[np.int32],
    values: NDArray[np.float64],
    factors: SomeFloats,
    penalty: float,
    rows: NDArray[np.float64],
    most_sweeps: int,
) -> None:
    """Improve the rows, in place, given the other side."""
    for start in range(0, len(rows), BLOCK):
        block = range(start, min(start + BLOCK, len(rows)))
        grams, linears = normal_rows(ends, columns, values, factors, factors[:0], block)
        ridge = penalty * np.maximum(np.diff(ends[block.start : block.stop + 1]), 1).astype(np.float64)
        descend_packed(grams, linears, ridge, rows[block.start : block.stop], most_sweeps)


def rating_nmf_program(
    table: RatingTable, *, n_factors: int, sweeps: int, penalty: float, random_state: int
) -> Program:
    """One holder's view: improve its users, ask for the items' normal equations, improve the items."""
    n_items = len(table.items)
    first = yield Sum(
        counts=np.bincount(table.columns, minlength=n_items), moments=[len(table.values), table.values.sum()]
    )
    mean = float(first.moments[1] / first.moments[0])
    level = math.sqrt(max(mean, 0.0) / n_factors)
    # products have the mean rating; the spread of 0.5 to 1.5, set by hand, makes the factors different
    items = level * np.random.default_rng(random_state).uniform(0.5, 1.5, (n_items, n_factors))
    users = np.full((len(table.users), n_factors), level)
    by_item = np.argsort(table.columns, kind="stable")
    raters, values = table.rows.astype(np.int32)[by_item], table.values[by_item]
    item_ends = np.concatenate([[0], np.cumsum(np.bincount(table.columns, minlength=n_items))]).astype(np.int64)
    ridge = penalty * np.maximum(first.counts, 1.0)
    for _ in range(sweeps):
        solve_rows_in_blocks(table.ends, table.columns, table.values, items, penalty, users, ROW_SWEEPS)
        for start in range(0, n_items, BLOCK):
            block = range(start, min(start + BLOCK, n_items))
            grams, linears = normal_rows(item_ends, raters, values, users, users[:0], block)
            total = yield Sum(grams=grams, linears=linears)
            part = slice(block.start, block.stop)
            descend_packed(total.grams, total.linears, ridge[part], items[part], ROW_SWEEPS)
    side = NonNegativeSide(0.0, np.zeros(n_items), items, items[:0], np.ones(n_factors + 1), penalty)
    return Outcome({**side.public(), "rating_mean": mean})


class NonNegativeRatings:
    """Mixin of rating models with non-negative factors; the mean rating is predicted where the user or the item is not known."""

    rating_mean_: float

    def _scores(self, users: SomeFloats, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.float64]:
        unknown = (rows < 0) | (columns < 0)
        return np.where(unknown, self.rating_mean_, super()._scores(users, rows, columns))  # type: ignore[misc]

    def _item_side(self) -> ItemSide:
        return NonNegativeSide(**super()._item_side().public())  # type: ignore[misc]


class RatingNMF(NonNegativeRatings, RatingModel):
    """Non-negative factorisation of ratings, without privacy; missing ratings do not count as zero.

    Parameters
    ----------
    n_factors : int, default=10
    sweeps : int, default=30
    penalty : float, default=0.05
        On the squared norm of the factors, for each rating.
    rating_range : tuple of float, optional
        The least and greatest rating, not below 0; those of the data if not given.
    catalogue : sequence of ids, optional
        All items, rated or not; the rated items if not given. Data in partitions needs it.
    random_state : int, default=0
        Seed of the random start.
    verbose : bool, default=False
        Say on standard error what a fit is doing; see `tacit.show_progress`.

    Attributes
    ----------
    item_factors_ : ndarray of shape (n_items, n_factors)
        Not negative.
    rating_mean_ : float
        The prediction where the user or the item was not in the fit.
    item_ids_, guarantee_, n_duplicates_
        As for `Recommender`; the biases and the mean are zero.
    """

    n_factors: int = public(default=10, kw_only=False)
    sweeps: int = public(default=30)
    penalty: float = public(default=0.05)
    catalogue: IdsLike | None = public(default=None)
    random_state: int = public(default=0)
    rating_mean_: float = released()

    def fit(self, users: RatingsLike, items: IdsLike | None = None, ratings: ArrayLike | None = None) -> RatingNMF:
        """Learn from ratings, given as to `Recommender.fit`."""
        bounds = None if self.rating_range is None else check_range(self.rating_range, "rating_range", example=(1, 5))
        check_count(self.n_factors, "n_factors")
        check_count(self.sweeps, "sweeps")
        check_positive(self.penalty, "penalty")
        check_seed(self.random_state)
        table = read_ratings(users, items, ratings, rating_range=bounds, catalogue=self.catalogue)
        least, greatest = bounds if bounds is not None else (table.values.min(), table.values.max())
        if least < 0:
            raise InvalidInputError(
                "ratings that are not negative", words("negative ones"), "Shift them by a public amount."
            )
        program = rating_nmf_program(
            table,
            n_factors=self.n_factors,
            sweeps=self.sweeps,
            penalty=self.penalty,
            random_state=self.random_state,
        )
        outcome = run(program, Clear())
        self.rating_mean_ = outcome.public["rating_mean"]
        self.n_duplicates_ = table.duplicates
        self.guarantee_ = Guarantee.none("the items' factors were computed from the ratings without noise")
        self._keep(NonNegativeSide.learned(outcome), table, least, greatest)
        return self
