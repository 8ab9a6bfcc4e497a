r"""The solver of constrained factorisation: :math:`\min_{H, W \ge 0}\ \alpha\|A - HW\|_F^2 + \beta\|H - C\|_F^2`.

With W fixed, H solves non-negative least squares of ``[sqrt(alpha) A, sqrt(beta) C]`` on ``[sqrt(alpha) W, sqrt(beta) I]``; with
H fixed, W does of A on H. Each is lowered by a few sweeps of coordinate descent, in turn, so the objective never increases; at
the end H is solved to convergence. (Thapa's multiplicative updates (3.24) and (3.25) lower the same objective, more slowly. In
the denominator of (3.25) beta multiplies H.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.errors import Undisclosed
from tacit.factor.nmf.steps import MOST_SWEEPS as TO_CONVERGENCE
from tacit.factor.nmf.steps import solve_rows

Matrix = NDArray[np.float64]
MOST_SWEEPS = 300
TOLERANCE = 1e-6
INNER_SWEEPS = 3


@dataclass(frozen=True, repr=False)
class Constrained(Undisclosed):
    """A factorisation near memberships: ``H @ W``, and the objective after every sweep."""

    H: Matrix
    W: Matrix
    objective: tuple[float, ...]


def constrained_factors(
    A: Matrix, C: Matrix, beta: float, W: Matrix, *, most_sweeps: int = MOST_SWEEPS, tolerance: float = TOLERANCE
) -> Constrained:
    """Factorise `A` with H near the memberships `C`, from the centroids `W`; alpha is ``1 - beta``.

    Parameters
    ----------
    A : ndarray of shape (n_rows, n_columns), not negative
    C : ndarray of shape (n_rows, n_clusters), not negative
    beta : float in [0, 1]
    W : ndarray of shape (n_clusters, n_columns)
        Where to start.
    most_sweeps, tolerance
        Stop when a sweep lowers the objective by less than this share of it.
    """
    H, objective = C, [np.inf]
    columns = np.ascontiguousarray(A.T)
    for _ in range(most_sweeps):
        H = solve_memberships(A, C, beta, W, start=H, most_sweeps=INNER_SWEEPS)
        W = solve_rows(columns, np.ascontiguousarray(H.T), np.ascontiguousarray(W.T), most_sweeps=INNER_SWEEPS).T
        fit, distance = np.sum((A - H @ W) ** 2), np.sum((H - C) ** 2)
        objective.append(float((1 - beta) * fit + beta * distance))
        if objective[-2] - objective[-1] <= tolerance * objective[-1]:
            break
    return Constrained(solve_memberships(A, C, beta, W, start=H), np.ascontiguousarray(W), tuple(objective[1:]))


def solve_memberships(
    A: Matrix, C: Matrix, beta: float, W: Matrix, *, start: Matrix, most_sweeps: int = TO_CONVERGENCE
) -> Matrix:
    """Return H lowered for fixed W, to convergence if not told otherwise."""
    alpha_root, beta_root = np.sqrt(1 - beta), np.sqrt(beta)
    data = np.hstack([alpha_root * A, beta_root * C])
    basis = np.hstack([alpha_root * W, beta_root * np.eye(len(W))])
    return solve_rows(data, basis, start, most_sweeps=most_sweeps)
