"""The leading right singular vectors of one holder's rows by ARPACK, on the smaller of the two Gram matrices, never formed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from tacit.estimators.input import Rows

NOT_ORTHOGONAL = 1e-11
"""If inner products of the vectors are above this, some of them have no variance, and ARPACK cannot find them."""

Decomposition = tuple[NDArray[np.float64], NDArray[np.float64], float, int]


def by_arpack(X: Rows, mean: NDArray[np.float64] | None, size: int, tol: float, seed: int) -> Decomposition | None:
    """Return squared singular values, right singular vectors as rows, the largest residual, and the number of products.

    The strongest comes first. The residual is that of the worst vector, as a fraction of the smallest value; the products
    are those that ARPACK asked for. None where ARPACK does not find that number of vectors: if there are not more rows and
    columns than vectors, or if the rows have a lower rank.

    Parameters
    ----------
    X : ndarray or CSR matrix
    mean : ndarray or None
        Subtracted from the rows; from products, so that sparse rows stay sparse.
    size : int
        Number of vectors.
    tol : float
        ARPACK's tolerance.
    seed : int
        Of the start.
    """
    rows, columns = X.shape
    if size >= min(rows, columns):
        return None
    X = X.astype(np.float64, copy=False)
    transposed = X.T

    def forward(v: NDArray[np.float64]) -> NDArray[np.float64]:
        product: NDArray[np.float64] = np.asarray(X @ v)
        if mean is not None:
            product = product - mean @ v
        return product

    def back(u: NDArray[np.float64]) -> NDArray[np.float64]:
        product: NDArray[np.float64] = np.asarray(transposed @ u)
        if mean is not None:
            product = product - np.multiply.outer(mean, u.sum(axis=0))
        return product

    wide = columns > rows
    first, second = (back, forward) if wide else (forward, back)
    products = 0

    def squared_times(v: NDArray[np.float64]) -> NDArray[np.float64]:
        nonlocal products
        products += 1
        return second(first(v.ravel()))

    operator = LinearOperator((min(rows, columns),) * 2, matvec=squared_times, dtype=np.float64)
    start = np.random.default_rng(seed).standard_normal(operator.shape[0])
    try:
        values, vectors = eigsh(operator, k=size, tol=tol, v0=start)
    except ArpackError:
        return None
    values, vectors = values[::-1], vectors[:, ::-1]
    if values[-1] <= np.finfo(np.float64).eps * values[0]:
        return None
    if wide:
        vectors = back(vectors) / np.sqrt(values)
    if np.abs(vectors.T @ vectors - np.eye(size)).max() > NOT_ORTHOGONAL:
        return None
    gaps = np.linalg.norm(back(forward(vectors)) - vectors * values, axis=0)
    return values, vectors.T, float(gaps.max() / values[-1]), products
