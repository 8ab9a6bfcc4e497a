r"""A private dictionary from several rounds: Algorithm 2 of Saha and Imtiaz (2022), repaired and as printed.

In each round the holder solves the weights H of its rows for the current dictionary T (eq. 2, line 2), and releases
with noise (line 3)

.. math:: A = H^\top H, \qquad B = H^\top U, \qquad U = X - R,

where R are the outliers (eq. 9). Then T minimises
:math:`\frac12 \operatorname{tr}(T^\top A T) - \operatorname{tr}(T^\top B)` over :math:`T \ge 0` (eq. 10, line 5), which
depends on the released A and B only. The paper's V, W and H are the transposed X, T and H here, and its A and B are
these divided by the number of rows N.

The error of the paper: its start is the NNDSVD of the private data, it assumes row norms that it does not enforce, and it uses
the exact number of rows. The repaired form starts from random numbers or from noisy moments, clips the rows of H and U, and
does not use the number of rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tacit.channel import Bound, Outcome, Program, Sample, Step, Sum
from tacit.estimators.input import Rows, clip_rows
from tacit.factor.nmf.nnls import Outliers, solve_dictionary, solve_rows
from tacit.factor.noisy_moments.symmetric import pack, unpack
from tacit.factor.row_table import Table
from tacit.privacy.published import dwork_roth_noise_multiplier, saha_noise_multiplier
from tacit.validation import check_choice, check_count, check_flag, check_positive

TINY = 1e-12
"""Least divisor of a norm, so that zero rows stay zero."""
GRAM_FRACTION = 0.2
"""Fraction of a round's budget for A (k x k); the rest is for B (k x d). See docs/results/nmf.md."""
LEAST_EIGENVALUE = 1e-3
"""Eigenvalues of the noisy A are raised to this fraction of the largest. Set by hand: A is positive, and noise may make small
eigenvalues negative."""


def random_start(n_components: int, n_features: int, generator: Generator) -> NDArray[np.float64]:
    """Return a random dictionary that does not depend on the data: non-negative, with rows of norm 1."""
    start = generator.random((n_components, n_features))
    normed: NDArray[np.float64] = start / np.linalg.norm(start, axis=1, keepdims=True)
    return normed


def rounds_program(
    X: Rows,
    T: NDArray[np.float64],
    *,
    row_norm: float,
    outliers: float | None,
    step: Step,
) -> Program:
    """One holder's view. The noisy statistics are averaged over the rounds, which averages their noise.

    The outcome's public part has ``components``, and ``path``: the dictionary after every round.

    Parameters
    ----------
    X : array or CSR matrix, not negative
    T : ndarray of shape (n_components, n_features)
        The start, which does not depend on the data or was released with noise.
    row_norm : float
        Bound on the L2 norm of a row, and of its weights.
    outliers : float or None
        Threshold of outliers. U = X - R is clipped after they are removed, so they need no further noise.
    step : Step
        The plan's step of the rounds: their number, and the sampling rate of each (1 for all rows).
    """
    rows = clip_rows(X, row_norm)
    size = len(T)
    # |h u'| <= row_norm^2; the distance of two outer products of non-negative vectors is at most sqrt(2) times that.
    # (For rows of norm 1, eqs 13 and 14 have 2 for both, and with outliers 4 for B.)
    bound = Bound(row_norm**2, change=math.sqrt(2) * row_norm**2)
    weights, cross = np.zeros((size, size)), np.zeros_like(T)
    path = np.empty((step.count, *T.shape))
    for place in range(step.count):
        batch: Rows = rows
        if step.sampling_rate < 1:
            mask: NDArray[np.bool_] = yield Sample(rows.shape[0], step.sampling_rate)
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
    rows: Rows, T: NDArray[np.float64], row_norm: float, outliers: float | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the terms of one holder: A, packed, and B.

    The rows of H and U are clipped to `row_norm`, and U is clipped at zero, so outliers need no bound or noise of their own.
    """
    table = Table(rows)
    if outliers is None:
        H = clip_rows(solve_rows(table, T), row_norm)
        return pack(H.T @ H), table.transposed_times(H).T
    limits = Outliers(outliers, np.inf)
    weights = solve_rows(table, T, outliers=limits)
    short = clip_rows(weights, row_norm)
    B = np.zeros_like(T)
    for place, cleaned, _ in table.clean_blocks(weights, T, limits.threshold, limits.bound):
        B += short[place].T @ clip_rows(np.maximum(cleaned, 0.0), row_norm)
    return pack(short.T @ short), B


def definite(symmetric: NDArray[np.float64]) -> NDArray[np.float64]:
    """Raise the eigenvalues of the noisy A to a small fraction of the largest, so that the dictionary step has a solution."""
    values, vectors = np.linalg.eigh(symmetric)
    raised = np.maximum(values, LEAST_EIGENVALUE * max(float(values[-1]), 1.0))
    repaired: NDArray[np.float64] = (vectors * raised) @ vectors.T
    return repaired


def unit_ball(T: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scale rows of norm above 1 down to 1: the projection of eq. 12."""
    scaled: NDArray[np.float64] = clip_rows(T, 1.0)
    return scaled


@dataclass(frozen=True)
class SahaImtiazSettings:
    r"""The parameters of Algorithm 2 as printed, by the paper's symbols: for ``PrivateNMF(method="published")``.

    The other parameters are those of `PrivateNMF`: K is `n_components`, T is `rounds`, lambda is `outliers`, delta is `delta`.
    The paper's W and H are tacit's transposed dictionary and weights.

    Parameters
    ----------
    eta_H : float, optional
        Step size of eq. 8, :math:`H \leftarrow P_+(H - \eta_H \nabla q(H))`. The gradient of q is divided by the number of
        rows N, so a step of about N suits. If not given, H is solved exactly in every iteration (the argmin of line 2).
    eta_W : float, optional
        Step size of eq. 12. If not given, 1 over the largest singular value of the noisy A.
    H_steps, W_steps : int, default=1
        Number of steps of eq. 8 and of eq. 12 in every iteration. The paper does not state them.
    M : float, default=inf
        The largest size of an outlier in eq. 9.
    epsilon_t : float, optional
        Epsilon of one iteration (line 3): the noise is :math:`\tau = (\Delta/\epsilon_t)\sqrt{2\log(1.25/\delta)}` for
        each of A and B. `inf` adds none. If not given, the noise is that of Theorem 3.1 for the `epsilon` of the fit.
        `tacit.privacy.published.saha_epsilon` computes what the paper's accounting makes of it.
    normalise_H : bool, default=True
        Bring the weights of each row to length 1 in A and B, which eq. 13 assumes.
    start : {"nndsvd", "random"}, default="nndsvd"
        The paper starts from the NNDSVD of the private data.
    keep_every : int, default=1
        `components_by_round_` has the dictionary after every `keep_every` iterations.

    Examples
    --------
    >>> from tacit import PrivateNMF
    >>> from tacit.data import make_images
    >>> from tacit.factor.nmf.saha_imtiaz import SahaImtiazSettings
    >>> X = make_images(200, side=6, n_parts=4).images
    >>> paper = SahaImtiazSettings(eta_H=200.0, eta_W=0.02, epsilon_t=0.5)
    >>> model = PrivateNMF(4, delta=1e-5, method="published", rounds=5, published=paper).fit(X)
    >>> model.components_by_round_.shape, model.guarantee_.holds
    ((5, 4, 36), False)
    """

    eta_H: float | None = None
    eta_W: float | None = None
    H_steps: int = 1
    W_steps: int = 1
    M: float = math.inf
    epsilon_t: float | None = None
    normalise_H: bool = True
    start: str = "nndsvd"
    keep_every: int = 1

    def __post_init__(self) -> None:
        for name in ("eta_H", "eta_W", "epsilon_t"):
            if getattr(self, name) is not None:
                check_positive(getattr(self, name), name, infinite=name == "epsilon_t")
        check_positive(self.M, "M", infinite=True)
        for name in ("H_steps", "W_steps", "keep_every"):
            check_count(getattr(self, name), name)
        check_flag(self.normalise_H, "normalise_H")
        check_choice(self.start, "start", ("nndsvd", "random"))

    def noise_multiplier(self, epsilon: float, delta: float, rounds: int) -> float:
        """Return the standard deviation of the noise over the sensitivity, for each of A and B in each iteration."""
        if self.epsilon_t is None:
            # two statistics per round have twice the Rényi cost of one
            return saha_noise_multiplier(epsilon, delta, 2 * rounds)
        return 0.0 if math.isinf(self.epsilon_t) else dwork_roth_noise_multiplier(self.epsilon_t, delta)


def published_program(
    X: Rows,
    T: NDArray[np.float64],
    H: NDArray[np.float64],
    *,
    rounds: int,
    multiplier: float,
    outliers: float | None,
    settings: SahaImtiazSettings,
    generator: Generator,
) -> Program:
    """Algorithm 2 as printed: sensitivities 2/N for A and 2/N for B (4/N with outliers), projected gradient steps.

    The noise is added here in floating point, as in the paper, to sums without noise from the channel: there is no guarantee.
    The outcome is that of `rounds_program`.
    """
    count = X.shape[0]
    table, limits = Table(X), None if outliers is None else Outliers(outliers, settings.M)
    path = []
    for place in range(rounds):
        H = _published_weights(table, T, H, limits, settings)
        used = H / np.maximum(np.linalg.norm(H, axis=1, keepdims=True), TINY) if settings.normalise_H else H
        total = yield Sum(WX=_cross(table, T, H, used, limits), WW=used.T @ used)
        # line 3, with Delta_A = 2/N (eq. 13), and Delta_B = 2/N, or 4/N with outliers (eq. 14 and the text below it)
        A = total.WW / count + generator.normal(size=total.WW.shape) * multiplier * 2 / count
        B = total.WX / count + generator.normal(size=total.WX.shape) * multiplier * (2 if limits is None else 4) / count
        eta_W = 1 / max(float(np.linalg.norm(A, 2)), TINY) if settings.eta_W is None else settings.eta_W
        for _ in range(settings.W_steps):
            T = unit_ball(np.maximum(T - eta_W * (A.T @ T - B), 0.0))  # eqs 11 and 12, transposed (lines 4 and 5)
        if (place + 1) % settings.keep_every == 0:
            path.append(T)
    return Outcome({"components": T, "path": np.array(path).reshape(-1, *T.shape)})


def _published_weights(
    table: Table, T: NDArray[np.float64], H: NDArray[np.float64], limits: Outliers | None, settings: SahaImtiazSettings
) -> NDArray[np.float64]:
    """Return H after the steps of eqs. 8 and 9, in turn, or the H that is best for T."""
    if settings.eta_H is None:
        return np.asarray(solve_rows(table, T, outliers=limits), dtype=np.float64)
    gram = T @ T.T
    for _ in range(settings.H_steps):
        # R of the last H enters the gradient as V - R
        pull = _clean_times(table, T, H, limits)
        H = np.maximum(H - settings.eta_H / len(H) * (H @ gram - pull), 0.0)  # eq. 8
    return H


def _clean_times(
    table: Table, T: NDArray[np.float64], H: NDArray[np.float64], limits: Outliers | None
) -> NDArray[np.float64]:
    """Return (V - R)T', with the outliers R that eq. 9 gives for H."""
    if limits is None:
        return np.asarray(table.times(np.ascontiguousarray(T.T)), dtype=np.float64)
    pull = np.empty_like(H)
    for place, cleaned, _ in table.clean_blocks(H, T, limits.threshold, limits.bound):
        pull[place] = cleaned @ T.T
    return pull


def _cross(
    table: Table, T: NDArray[np.float64], H: NDArray[np.float64], used: NDArray[np.float64], limits: Outliers | None
) -> NDArray[np.float64]:
    """Return H'(V - R): the outliers are those of H, which `used` is, or is with rows of length 1."""
    if limits is None:
        return table.transposed_times(used).T
    B = np.zeros_like(T)
    for place, cleaned, _ in table.clean_blocks(H, T, limits.threshold, limits.bound):
        B += used[place].T @ cleaned
    return B
