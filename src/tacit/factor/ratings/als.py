r"""Alternating least squares on ratings, with biases and with the uncertainty of the factors, as a program over sums.

The model is :math:`r_{ui} = \mu + b_u + c_i + p_u \cdot q_i + e_{ui}` with normal priors. Each half-step solves for one
side, given the means *and* variances of the other (variational Bayes with independent entries [1]_). The variances of the
priors and of the noise are re-estimated in every sweep, so the number of factors is the only parameter to tune.

Users' factors stay with their holder. A holder contributes, once, the number, sum and sum of squares of its ratings, and
in every sweep the users' second moments and the items' normal equations.

References
----------
.. [1] Y. J. Lim, Y. W. Teh. Variational Bayesian approach to movie rating prediction. KDD Cup 2007.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.channel import Outcome, Program, Sum
from tacit.factor.arrays import SomeFloats
from tacit.factor.ratings.table import RatingTable
from tacit.factor.small_solves import normal_rows, ridge_rows, solve_packed

BLOCK = 4096
"""Rows whose normal equations are in memory at the same time."""
START_SPREAD = 0.1
"""Standard deviation of the random start of the items' factors. Set by hand: small, so that biases are fitted first."""
START_NOISE, START_USER_BIAS, START_ITEM_BIAS, START_FACTOR = 0.6, 0.12, 0.24, 0.02
"""Initial variances, as fractions of the variance of the ratings. Set by hand; the noise is re-estimated in every sweep, the
priors after `SWEEPS_BEFORE_PRIORS`."""
SWEEPS_BEFORE_PRIORS = 2
"""Number of sweeps with the initial priors. Set by hand: re-estimated earlier, from a random start, they would be those of
the start."""
LEAST_VARIANCE = 1e-8
"""Re-estimated variances are raised to this, so that a precision is finite."""


@dataclass(frozen=True)
class ItemSide:
    """The fitted items, and the variances with which a user's own factors are solved.

    Attributes
    ----------
    mean : float
    biases : ndarray of shape (n_items,)
    factors, variances : ndarray of shape (n_items, n_factors)
        `variances` has no rows if the factors count as exact.
    precision : ndarray of shape (n_factors + 1,)
        Prior precision of a user's factors and, last, bias.
    noise : float
        Variance of a rating around its expectation.
    """

    mean: float
    biases: NDArray[np.float64]
    factors: SomeFloats
    variances: SomeFloats
    precision: SomeFloats
    noise: float

    def public(self) -> dict[str, Any]:
        """Return the attributes by name, for an `Outcome`."""
        return dict(vars(self))

    @classmethod
    def learned(cls, outcome: Outcome) -> ItemSide:
        """Return the items of an outcome that was made with `public`."""
        return cls(**{field.name: outcome.public[field.name] for field in fields(cls)})

    def solve_users(
        self, ends: NDArray[np.int64], columns: NDArray[np.int32], values: NDArray[np.float64]
    ) -> SomeFloats:
        """Return the factors and, last, the bias of users with these ratings."""
        targets = values - self.mean - self.biases[columns]
        solutions, _, _ = ridge_rows(
            ends,
            columns,
            targets.astype(self.factors.dtype),
            _with_constant(self.factors, 1),
            _with_constant(self.variances, 0),
            self.precision.astype(self.factors.dtype),
            self.noise,
        )
        return solutions


def als_program(table: RatingTable, *, n_factors: int, sweeps: int, random_state: int) -> Program:
    """One holder's view: solve its users, ask for the items' normal equations, solve the items."""
    values = table.values
    n_items, size = len(table.items), n_factors + 1
    first = yield Sum(
        moments=[len(values), values.sum(), (values**2).sum()],
        counts=np.bincount(table.columns, minlength=n_items),
        sums=np.bincount(table.columns, values, minlength=n_items),
    )
    n_ratings, total, squares = first.moments
    mean = total / n_ratings
    unit = math.sqrt(max(squares / n_ratings - mean**2, 0.0)) or 1.0  # the standard deviation of the ratings
    standard = ((values - mean) / unit).astype(np.float32)
    by_item = np.argsort(table.columns, kind="stable")
    raters = table.rows.astype(np.int32)[by_item]
    item_ends = np.concatenate([[0], np.cumsum(np.bincount(table.columns, minlength=n_items))]).astype(np.int64)
    by_item_standard = standard[by_item]

    generator = np.random.default_rng(random_state)
    items = np.zeros((n_items, size), dtype=np.float32)
    items[:, :-1] = START_SPREAD * generator.standard_normal((n_items, n_factors))
    items[:, -1] = (first.sums - mean * first.counts) / unit / (first.counts + START_NOISE / START_ITEM_BIAS)
    spreads = np.zeros((n_items, size), dtype=np.float32)
    noise = START_NOISE
    user_precision, item_precision = np.ones(size, np.float32), np.full(size, 1 / START_FACTOR, np.float32)
    user_precision[-1], item_precision[-1] = 1 / START_USER_BIAS, 1 / START_ITEM_BIAS
    for sweep in range(sweeps):
        users, user_spreads, errors = ridge_rows(
            table.ends,
            table.columns,
            standard - items[table.columns, -1],
            _with_constant(items[:, :-1], 1),
            _with_constant(spreads[:, :-1], 0),
            user_precision,
            noise,
        )
        seen = yield Sum(users=[len(users)], spread=(users**2 + user_spreads).sum(axis=0), errors=[errors.sum()])
        if sweep >= SWEEPS_BEFORE_PRIORS:
            user_precision = _precision(seen.spread / seen.users[0])
            item_precision = _precision((items**2 + spreads).mean(axis=0))
        noise = max(float(seen.errors[0] / n_ratings), LEAST_VARIANCE)
        targets = by_item_standard - users[raters, -1]
        regressors, uncertain = _with_constant(users[:, :-1], 1), _with_constant(user_spreads[:, :-1], 0)
        for start in range(0, n_items, BLOCK):
            block = range(start, min(start + BLOCK, n_items))
            grams, linears = normal_rows(item_ends, raters, targets, regressors, uncertain, block)
            asked = yield Sum(grams=grams, linears=linears)
            items[block], spreads[block] = solve_packed(asked.grams, asked.linears, item_precision, noise)
    fitted = ItemSide(
        mean,
        items[:, -1].astype(np.float64) * unit,
        items[:, :-1] * np.float32(unit),
        spreads[:, :-1] * np.float32(unit**2),
        user_precision / np.r_[np.ones(n_factors), unit**2].astype(np.float32),
        noise * unit**2,
    )
    return Outcome(fitted.public())


def _with_constant(factors: SomeFloats, constant: float) -> SomeFloats:
    """Append a column for the bias."""
    return np.ascontiguousarray(np.concatenate([factors, np.full((len(factors), 1), constant, factors.dtype)], axis=1))


def _precision(variances: SomeFloats) -> NDArray[np.float32]:
    precision: NDArray[np.float32] = (1 / np.maximum(variances, LEAST_VARIANCE)).astype(np.float32)
    return precision
