r"""The search for the leading eigenvectors of S = X'X from products S Q, of which perhaps only the directions are known.

Block Lanczos with thick restarts: all directions asked about so far form an orthonormal basis B, and the best vectors in its
span follow from the small matrix :math:`B^\top S B` (Rayleigh-Ritz). What is asked about next are the residuals of these.

Where columns come back divided by their norms, S is known up to a factor a column. Symmetry gives the factors back up
to a common one, which changes no eigenvector: :math:`q_i^\top S q_j = q_j^\top S q_i`, and each side has one unknown.
So a run over normalised sums finds the same vectors as one over plain sums, in as many exchanges; and whoever sees it
can find the *ratios* of the singular values, as from any power iteration, in which a component grows by its
eigenvalue at each step.

References
----------
K. Wu, H. Simon, "Thick-restart Lanczos method for large symmetric eigenvalue problems", SIAM J. Matrix Anal. Appl.
22(2), 2000.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

Matrix = NDArray[np.float64]

BLOCKS_KEPT = 5
"""The basis is cut back to one block when it would exceed this many; more cost memory, fewer cost exchanges."""
ROUNDING = 1e-12
"""What is below this share of the largest product is rounding, and is not asked about."""
NEARLY_FOUND = 1e-4
PATIENCE = 4
"""Exchanges in which residuals below NEARLY_FOUND do not halve, after which the totals' own precision is reached."""


@dataclass
class Search:
    """What is known about S so far. All holders make the same of the same totals: nothing here is one holder's own.

    Parameters
    ----------
    wanted : int
        Number of eigenvectors.
    directions : ndarray of shape (d, b)
        The first to ask about, orthonormal; b, at least `wanted`, is the size of the block.
    tol : float
        The search ends when no residual is above this share of the smallest wanted eigenvalue. It also ends when nothing
        new is left to ask about, or when the residuals, already small, stop shrinking: then the totals hold no more.
    """

    wanted: int
    directions: Matrix
    tol: float
    done: bool = False
    values: Matrix = field(default_factory=lambda: np.zeros(0))
    vectors: Matrix = field(init=False)
    residuals: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._block = self.directions.shape[1]
        self._basis = self._images = np.zeros((len(self.directions), 0))
        self.vectors = self.directions[:, : self.wanted]

    def learn(self, products: Matrix, *, normed: bool) -> None:
        """Take in ``S @ directions``, or its columns divided by their norms, and find what to ask about next."""
        # one thread: the order of additions must not depend on a holder's machine being busy
        with threadpool_limits(1, user_api="blas"):
            images = products * self._norms(products) if normed else products
            self._basis = np.hstack([self._basis, self.directions])
            self._images = np.hstack([self._images, images])
            outside = self._outside(images)
            self._rotate()
            self._judge()
            if outside.shape[1] == 0:
                self.done = True
            else:
                self.directions = outside

    def _norms(self, products: Matrix) -> Matrix:
        """Return the norms that were divided out, up to one common factor."""
        if self._basis.shape[1] == 0:
            return norms_within(self.directions.T @ products)
        # q'S b is known from earlier answers, b'S q up to the norm of S q
        known, scaled = self._images.T @ self.directions, self._basis.T @ products
        squares = np.einsum("ij,ij->j", scaled, scaled)
        found = np.einsum("ij,ij->j", known, scaled) / np.where(squares > 0, squares, 1.0)
        norms: Matrix = np.maximum(found, 0.0)
        return norms

    def _rotate(self) -> None:
        """Turn the basis so that it consists of Ritz vectors, the best first; forget the last ones if there are too many."""
        small = self._basis.T @ self._images
        values, turn = np.linalg.eigh((small + small.T) / 2)
        kept = slice(None, None, -1)
        if len(values) + self._block > BLOCKS_KEPT * self._block:
            kept = slice(None, -self._block - 1, -1)
        self.values = np.maximum(values[kept], 0.0)
        self._basis, self._images = self._basis @ turn[:, kept], self._images @ turn[:, kept]
        self.vectors = self._basis[:, : self.wanted]

    def _judge(self) -> None:
        gaps = self._images[:, : self.wanted] - self.vectors * self.values[: self.wanted]
        largest = float(np.linalg.norm(gaps, axis=0).max())
        least = max(float(self.values[self.wanted - 1]), ROUNDING * float(self.values[0]))
        self.residuals.append(largest / least if least > 0 else 0.0)
        before, since = self.residuals[:-PATIENCE], self.residuals[-PATIENCE:]
        stuck = bool(before) and min(before) < NEARLY_FOUND and min(since) > min(before) / 2
        self.done = self.residuals[-1] <= self.tol or stuck

    def _outside(self, images: Matrix) -> Matrix:
        """Return orthonormal directions of what the last products have outside the basis; all residuals lie in their span."""
        left = images - self._basis @ (self._basis.T @ images)
        directions, lengths, _ = np.linalg.svd(left, full_matrices=False)
        largest = float(np.linalg.norm(self._images, axis=0).max())
        directions = directions[:, lengths > ROUNDING * largest]
        for _ in range(2):  # once is not enough when little of a column is left
            directions = directions - self._basis @ (self._basis.T @ directions)
            directions = np.linalg.qr(directions)[0]
        return directions


def norms_within(small: Matrix) -> Matrix:
    r"""Return the factors d > 0, of unit length, that make ``small * d`` as symmetric as possible.

    They minimise :math:`\sum_{ij} (A_{ij} d_j - A_{ji} d_i)^2`: the eigenvector of a matrix that has no positive
    entry off its diagonal if an exact solution exists, so it has one sign.
    """
    squares = small**2
    own = squares.sum(axis=0) - np.diag(squares)
    form = -small * small.T
    np.fill_diagonal(form, own)
    # products that are orthogonal up to rounding say nothing about each other: then all factors are taken to be alike
    form += ROUNDING**2 * (np.eye(len(small)) - 1 / len(small))
    factors: Matrix = np.abs(np.linalg.eigh(form)[1][:, 0])
    return factors


def first_directions(features: int, block: int, seed: int) -> Matrix:
    """Return orthonormal directions that do not depend on the data, the same for all holders with the same seed."""
    with threadpool_limits(1, user_api="blas"):
        orthonormal: Matrix = np.linalg.qr(np.random.default_rng(seed).standard_normal((features, block)))[0]
    return orthonormal
