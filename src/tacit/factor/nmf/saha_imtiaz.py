"""The private dictionary by rounds: the repaired form of Saha and Imtiaz's Algorithm 2, and the algorithm as printed.

In each round the holder solves its rows' weights H for the current dictionary T and releases, with noise, A = H'H and
B = H'U, where U is the data less its outliers; everybody solves T from A and B.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tacit.channel import Bound, Outcome, Program, Sample, Step, Sum
from tacit.estimators.rows import clip_rows
from tacit.factor.nmf.nnls import Outliers, solve_dictionary, solve_rows, total_rows
from tacit.factor.noisy_moments.symmetric import pack, unpack
from tacit.factor.row_table import Table
from tacit.privacy.published import saha_noise_multiplier

TINY = 1e-12
GRAM_FRACTION = 0.2
"""Fraction of a round's budget for A (k x k); the rest is for B (k x d), which carries the words or pixels."""


def random_start(n_components: int, n_features: int, generator: Generator) -> NDArray[np.float64]:
    """Return a dictionary that has not seen the data: non-negative, rows of norm 1."""
    start = generator.random((n_components, n_features))
    normed: NDArray[np.float64] = start / np.linalg.norm(start, axis=1, keepdims=True)
    return normed


def rounds_program(
    X: Any,
    T: NDArray[np.float64],
    *,
    row_norm: float,
    outliers: float | None,
    step: Step,
) -> Program:
    """One holder's view. The noisy statistics are averaged over the rounds, so that no round's noise is lost on the next.

    The outcome's public part has ``components``, and ``path``: the dictionary after every round.

    Parameters
    ----------
    X : array or CSR matrix, not negative
    T : ndarray of shape (n_components, n_features)
        A start that has not seen the data, or that was paid for.
    row_norm : float
        Bound on the L2 norm of a row, and of its weights.
    outliers : float or None
        Threshold of the entries that are taken out as outliers. U = X - R is clipped itself, so they cost no noise.
    step : Step
        The plan's step of the rounds: their number, and the rate of the Poisson mini-batch of each (1 takes all rows).
    """
    rows = clip_rows(X, row_norm)
    size = len(T)
    # of two non-negative vectors of norm 1, the outer products are at most sqrt(2) apart
    bound = Bound(row_norm**2, change=math.sqrt(2) * row_norm**2)
    weights, cross = np.zeros((size, size)), np.zeros_like(T)
    path = np.empty((step.count, *T.shape))
    for place in range(step.count):
        batch = rows
        if step.sampling_rate < 1:
            mask = yield Sample(rows.shape[0], step.sampling_rate)
            batch = rows[mask]
        A, B = holder_step(batch, T, row_norm, outliers)
        total = yield Sum(
            A=A,
            B=B,
            bound={"A": bound, "B": bound},
            fractions={"A": GRAM_FRACTION, "B": 1 - GRAM_FRACTION},
            step=step,
            units=batch.shape[0],
        )
        weights = weights + unpack(total.A, size)
        cross = cross + total.B
        T = path[place] = unit_ball(solve_dictionary(T, cross, definite(weights))[0])
    return Outcome({"components": T, "path": path})


def holder_step(
    rows: Any, T: NDArray[np.float64], row_norm: float, outliers: float | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return what leaves: A, packed, and B, of the rows' weights H and of the rows less their outliers, U.

    H and U are clipped to `row_norm` row by row, U also at zero: so the outliers need no bound, and no noise, of their own.
    """
    table = Table(rows)
    if outliers is None:
        H = clip_rows(solve_rows(table, T), row_norm)
        return pack(H.T @ H), table.transposed_times(H).T
    limits = Outliers(outliers, np.inf)
    H = solve_rows(table, T, outliers=limits)
    short = clip_rows(H, row_norm)
    B = np.zeros_like(T)
    for place, cleaned, _ in table.clean_blocks(H, T, limits.threshold, limits.bound):
        B += short[place].T @ clip_rows(np.maximum(cleaned, 0.0), row_norm)
    return pack(short.T @ short), B


def definite(symmetric: NDArray[np.float64]) -> NDArray[np.float64]:
    """Raise the eigenvalues of a noisy Gram matrix to a small part of the largest, so that the dictionary step has a solution."""
    values, vectors = np.linalg.eigh(symmetric)
    raised = np.maximum(values, 1e-3 * max(float(values[-1]), 1.0))
    repaired: NDArray[np.float64] = (vectors * raised) @ vectors.T
    return repaired


def unit_ball(T: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scale rows of norm above 1 down to 1."""
    scaled: NDArray[np.float64] = clip_rows(T, 1.0)
    return scaled


def published_program(
    X: Any,
    T: NDArray[np.float64],
    *,
    rounds: int,
    epsilon: float,
    delta: float,
    outliers: float | None,
    generator: Generator,
) -> Program:
    """Algorithm 2 as printed: sensitivities 2/n and 2/n (4/n with outliers), fresh noise, one projected gradient step a round.

    The per-round noise is what Theorem 3.1 asks for a total (epsilon, delta). It is added here, in floating point, as
    the paper does, and the sums leave through whatever channel runs this: there is no guarantee to account.
    """
    count = X.shape[0]
    # two statistics a round have together twice the Rényi cost of one
    multiplier = saha_noise_multiplier(epsilon, delta, 2 * rounds)
    table, limits = Table(X), None if outliers is None else Outliers(outliers, np.inf)
    for _ in range(rounds):
        H = solve_rows(table, T, outliers=limits)
        H = H / np.maximum(np.linalg.norm(H, axis=1, keepdims=True), TINY)  # "normalizing each column of H"
        own = total_rows(table, T, H, outliers=limits)
        total = yield Sum(WX=own.WX, WW=own.WW)
        A = total.WW / count + generator.normal(size=total.WW.shape) * multiplier * 2 / count
        B = total.WX / count + generator.normal(size=total.WX.shape) * multiplier * (2 if limits is None else 4) / count
        step = 1 / max(float(np.linalg.norm(A, 2)), TINY)
        T = unit_ball(np.maximum(T - step * (A @ T - B), 0.0))
    return Outcome({"components": T})
