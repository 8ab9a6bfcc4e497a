r"""What the noise hides of a covariance, guessed from columns that are alike.

Directions whose variance is below the edge of the noise cannot be told one by one. Together they can, if columns that vary alike
in the strong directions also vary alike in the weak ones, as neighbouring pixels of images do. Column i has the loadings
:math:`\ell_i`, its entries of the eigenvectors above the noise times the square roots of their eigenvalues. The rest of the
covariance, orthogonal to these eigenvectors, is taken to be

.. math:: R_{ij} = a \sqrt{v_i v_j}\, \exp\left(-\frac{\|\ell_i - \ell_j\|^2}{2 h}\right),

with :math:`v_i` the variance that column i has left, averaged over columns alike. The width h is the one of a few whose R has the
largest correlation with what was released, and a is its least-squares coefficient. These are two numbers from a matrix with many
entries of known noise, so little noise is left in them. If the correlation could be chance, the rest is zero. R is positive
semi-definite, since a normal kernel is. All of it is post-processing.

Chosen on the faces of Yale B, after a look at those of CBCL with a first version: the projection to the rest, and the number of
neighbours, which hardly matters (4 and 16 change the error by 1%).
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import eigh

from tacit.factor.arrays import Floats

NEIGHBOURS = 8
"""The unit of widths is the median, over columns, of the squared distance to the column that is the 8th nearest."""
WIDTHS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Widths h that are compared, in that unit."""
CLEAR = 3.0
"""The rest is used if its correlation is this many standard deviations of chance. Set by hand, above the usual 2 because the best
of several widths is taken."""
NEGLIGIBLE = 1e-4
"""Directions of the rest below this fraction of its largest variance are left out. Set by hand."""


def likely_rest(covariance: Floats, values: Floats, directions: Floats, noise: float) -> tuple[Floats, Floats]:
    """Return likely variances and directions (as rows) of what a noisy covariance hides, the largest first.

    Parameters
    ----------
    covariance : ndarray of shape (n_columns, n_columns)
        As released.
    values : ndarray of shape (rank,)
        The variances that rose above the noise; shrunk.
    directions : ndarray of shape (rank, n_columns)
        Their directions, orthonormal. Those that are returned are orthogonal to them.
    noise : float
        Standard deviation of the noise in an entry off the diagonal.
    """
    size = len(covariance)
    nothing = np.zeros(0), np.zeros((0, size))
    if noise <= 0 or not len(values) or size <= max(NEIGHBOURS, len(values)):
        return nothing
    loadings = (directions * np.sqrt(values)[:, None]).T
    lengths = (loadings**2).sum(axis=1)
    distances = np.maximum(np.add.outer(lengths, lengths) - 2 * loadings @ loadings.T, 0.0)
    unit = float(np.median(np.partition(distances, NEIGHBOURS, axis=1)[:, NEIGHBOURS]))
    if unit <= 0:
        return nothing

    def rest_of(matrix: Floats) -> Floats:
        once = matrix - directions.T @ (directions @ matrix)
        twice: Floats = once - (once @ directions.T) @ directions
        return twice

    released = rest_of(covariance)
    own = np.diag(covariance) - lengths
    best, likely = CLEAR, None
    for width in WIDTHS:
        alike = np.exp(-distances / (2 * width * unit))
        variances = np.maximum(alike @ own / alike.sum(axis=1), 0.0)
        rest = rest_of(alike * np.sqrt(np.outer(variances, variances)))
        off_diagonal = rest.copy()
        np.fill_diagonal(off_diagonal, 0.0)
        product, square = float((released * off_diagonal).sum()), float((off_diagonal**2).sum())
        # every number of the noise is in the sum of products twice
        clearness = product / (math.sqrt(2 * square) * noise) if square > 0 else 0.0
        if clearness > best:
            best, likely = clearness, min(product / square, 1.0) * rest
    if likely is None:
        return nothing
    variances, vectors = eigh(likely, check_finite=False)
    kept = variances > NEGLIGIBLE * variances[-1]
    return variances[kept][::-1], vectors[:, kept].T[::-1]
