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

from tacit.factor.kernels import one_blas_thread

Matrix = NDArray[np.float64]

MOST_BLOCKS, BLOCKS_KEPT = 6, 2
"""The basis is restarted with the second number of blocks when it would exceed the first. More need memory, fewer need more
exchanges. Set by hand."""
ROUNDING = 1e-12
"""Residuals below this fraction of the largest product are rounding. Set by hand, for double precision."""
NEARLY_FOUND = 1e-4
"""Residuals below this fraction of the largest value are close to convergence; see PATIENCE. Set by hand."""
DISAGREEMENT = 1e-2
"""If two totals that should be equal differ by more than this fraction, they are rounding, and the search ends. Set by hand."""
PATIENCE = 8
"""Number of exchanges in which residuals below NEARLY_FOUND do not halve, after which the precision of the totals is reached. Set
by hand."""


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
        The search ends when no residual is above this fraction of the smallest wanted eigenvalue. It also ends when nothing
        new is left to ask about, or when the residuals, already small, stop shrinking: then the totals hold no more.
    """

    wanted: int
    directions: Matrix
    tol: float
    done: bool = False
    values: Matrix = field(init=False)
    vectors: Matrix = field(init=False)
    residuals: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._block = self.directions.shape[1]
        self._basis = self._images = np.zeros((len(self.directions), 0))
        self._small = np.zeros((0, 0))

    def learn(self, products: Matrix, *, normed: bool) -> None:
        """Take in ``S @ directions``, or its columns divided by their norms, and find what to ask about next."""
        with one_blas_thread():
            older, within = self._basis.T @ products, self.directions.T @ products
            if normed:
                norms, agreed = self._norms(older, within)
                if not agreed:
                    self.done = True
                    self.residuals.append(self.residuals[-1])
                    return
                products, older, within = products * norms, older * norms, within * norms
            self._small = np.block([[self._small, older], [older.T, (within + within.T) / 2]])
            self._basis = np.hstack([self._basis, self.directions])
            self._images = np.hstack([self._images, products])
            left = products - self._basis @ np.vstack([older, within])
            values, turns = np.linalg.eigh(self._small)
            values, turns = values[::-1], turns[:, ::-1]
            self.directions, lengths = self._outside(left, float(max(values[0], 0.0)))
            # what a Ritz vector's image has outside the basis comes from its part in the last block
            self._judge(values, np.linalg.norm(lengths @ turns[-left.shape[1] :, : self.wanted], axis=0))
            if self._basis.shape[1] + self._block > MOST_BLOCKS * self._block:
                self._cut_back(values, turns)

    def _norms(self, older: Matrix, within: Matrix) -> tuple[Matrix, bool]:
        """Return the norms that were divided out, up to one common factor, and whether the answers agree on them."""
        if self._basis.shape[1] == 0:
            return norms_within(within), True
        # q'S b is known from earlier answers, b'S q up to the norm of S q
        known, squares = self._images.T @ self.directions, np.einsum("ij,ij->j", older, older)
        norms = np.einsum("ij,ij->j", known, older) / np.where(squares > 0, squares, 1.0)
        apart = np.linalg.norm(known - older * norms, axis=0)
        return norms, bool(np.all(apart <= DISAGREEMENT * np.linalg.norm(known, axis=0)))

    def _outside(self, left: Matrix, largest: float) -> tuple[Matrix, Matrix]:
        """Return orthonormal directions of `left`, which has no part in the basis but by rounding, and its coordinates."""
        triangle = np.linalg.qr(left)
        turn, lengths, coordinates = np.linalg.svd(triangle.R)
        new = lengths > ROUNDING * largest
        directions = triangle.Q @ turn[:, new]
        # what rounding left in the basis is large beside a direction that is short
        directions -= self._basis @ (self._basis.T @ directions)
        # mixed, every direction has a part of the longest, so that its norm can be estimated from what is known
        return np.linalg.qr(directions).Q @ evenly_mixing(int(new.sum())), lengths[:, None] * coordinates

    def _judge(self, values: Matrix, gaps: Matrix) -> None:
        least = max(float(values[self.wanted - 1]), ROUNDING * float(values[0]))
        self.residuals.append(float(gaps.max()) / least if least > 0 else 0.0)
        before, since = self.residuals[:-PATIENCE], self.residuals[-PATIENCE:]
        stuck = bool(before) and min(before) < NEARLY_FOUND and min(since) > min(before) / 2
        self.done = self.residuals[-1] <= self.tol or stuck or self.directions.shape[1] == 0

    def _cut_back(self, values: Matrix, turns: Matrix) -> None:
        """Replace the basis by its leading Ritz vectors."""
        kept = BLOCKS_KEPT * self._block
        self._basis, self._images = self._basis @ turns[:, :kept], self._images @ turns[:, :kept]
        self._small = np.diag(values[:kept])

    def close(self) -> None:
        """Set `values` and `vectors` to what was found, and the last residual to what it is when it is computed in full."""
        with one_blas_thread():
            values, turns = np.linalg.eigh(self._small)
            turns = turns[:, : -self.wanted - 1 : -1]
            self.values, self.vectors = np.maximum(values[: -self.wanted - 1 : -1], 0.0), self._basis @ turns
            gaps = np.linalg.norm(self._images @ turns - self.vectors * self.values, axis=0)
            least = max(float(self.values[-1]), ROUNDING * float(self.values[0]))
            self.residuals[-1] = float(gaps.max()) / least if least > 0 else 0.0


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


def evenly_mixing(size: int) -> Matrix:
    """Return an orthogonal matrix whose first row has equal entries: the discrete cosine transform."""
    rows, columns = np.arange(size)[:, None], np.arange(size)[None, :]
    mixing: Matrix = np.sqrt(2 / max(size, 1)) * np.cos(np.pi * rows * (columns + 0.5) / max(size, 1))
    mixing[:1] /= np.sqrt(2)
    return mixing


def first_directions(features: int, block: int, seed: int) -> Matrix:
    """Return orthonormal directions that do not depend on the data, the same for all holders with the same seed."""
    with one_blas_thread():
        orthonormal: Matrix = np.linalg.qr(np.random.default_rng(seed).standard_normal((features, block)))[0]
    return orthonormal
