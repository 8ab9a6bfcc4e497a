"""Where a non-negative factorisation starts: NNDSVD of the data of one holder or of all, random, or a given dictionary."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.channel import Sum
from tacit.channel.asks import Ask
from tacit.errors import InvalidInputError, parameter, words
from tacit.estimators.input import Rows
from tacit.factor.arrays import SomeFloats
from tacit.factor.svd import program as svd
from tacit.validation import check_choice

STARTS = ("nndsvd", "random", "merge-local")
Step = Generator[Ask, Any, tuple[NDArray[np.float64], int]]


def nndsvd(X: Rows, n_components: int, *, random_state: int = 0) -> tuple[SomeFloats, SomeFloats]:
    """Return factors W (n x k) and T (k x d) made of the leading singular vectors' positive or negative parts.

    The first pair of singular vectors of a non-negative matrix is non-negative. Of every other pair, the two positive parts
    or the two negative parts are taken, whichever have the larger product of norms. The zeros stay zeros: coordinate
    descent, unlike multiplicative updates, moves away from them.

    It looks at the data without noise: a private fit must not start here.

    References
    ----------
    C. Boutsidis, E. Gallopoulos, "SVD based initialization: a head start for nonnegative matrix factorization", Pattern
    Recognition 41(4), 2008.
    """
    from sklearn.utils.extmath import randomized_svd

    lefts, strengths, rights = randomized_svd(X, n_components, random_state=random_state)
    W, T = np.zeros_like(lefts), np.zeros_like(rights)
    W[:, 0] = np.sqrt(strengths[0]) * np.abs(lefts[:, 0])
    T[0] = np.sqrt(strengths[0]) * np.abs(rights[0])
    for j in range(1, n_components):
        left, right = lefts[:, j], rights[j]
        sign, product = _larger_parts(right, *(_length(np.maximum(part, 0)) for part in (left, -left)))
        if product == 0:  # a singular value of zero: there is nothing to take
            continue
        scale = np.sqrt(strengths[j] * product)
        W[:, j] = scale * _unit_part(sign * left)
        T[j] = scale * _unit_part(sign * right)
    return W, T


def _larger_parts(right: SomeFloats, positive: float, negative: float) -> tuple[float, float]:
    """Return the sign whose parts have the larger product of lengths, and that product.

    `positive` and `negative` are the lengths of those parts of the left vector, all that is needed of it.
    """
    products = positive * _length(np.maximum(right, 0)), negative * _length(np.maximum(-right, 0))
    return (1.0, products[0]) if products[0] >= products[1] else (-1.0, products[1])


def _unit_part(vector: SomeFloats) -> SomeFloats:
    """Return the positive part, of length one."""
    part: SomeFloats = np.maximum(vector, 0)
    return part / _length(part)


def _length(vector: SomeFloats) -> float:
    return float(np.linalg.norm(vector))


def checked_start(init: Any, shape: tuple[int, int]) -> str | NDArray[np.float64]:
    """Return the name of a start, or the dictionary that the caller has; raise with what to do about any other."""
    if isinstance(init, str):
        return check_choice(init, "init", STARTS)
    T = np.asarray(init, dtype=np.float64)
    if T.shape != shape:
        raise InvalidInputError(
            f"a starting dictionary of shape {shape}", words(f"one of shape {T.shape}"), "Give one row per component."
        )
    if not np.all(np.isfinite(T)) or T.min() < 0 or not T.any(axis=1).all():
        raise InvalidInputError(
            "a starting dictionary of finite numbers of at least 0, no row all zero",
            words("one with other numbers, or with a row of zeros"),
            "Clip it, or drop the rows of zeros and ask for fewer components.",
        )
    return T


def random_program(X: Rows, n_components: int, *, random_state: int) -> Step:
    """One holder's view of a random dictionary of the scale of all holders' rows; returns it and the number of rows.

    One sum: of all entries, and of the rows. The rest is the same for all holders with the same seed.
    """
    total = yield Sum(entries=[float(X.sum(dtype=np.float64))], count=[X.shape[0]])
    shape, count = (n_components, X.shape[1]), float(total["count"][0])
    mean = max(float(total.entries[0]), 0.0) / (count * X.shape[1])
    draws = np.abs(np.random.default_rng(random_state).standard_normal(shape))
    return np.sqrt((mean or 1.0) / n_components) * draws, round(count)


def nndsvd_program(X: Rows, n_components: int, *, random_state: int) -> Step:
    """One holder's view of the dictionary of `nndsvd` of all holders' rows, from totals; returns it and the number of rows.

    A holder of all rows, and so alone, takes `nndsvd` itself, which needs no exchange and is a little closer. Otherwise
    the right singular vectors are found by `svd_program`. Of the left ones only the lengths of the positive and negative
    parts are needed: sums over rows.
    """
    random, rows = yield from random_program(X, n_components, random_state=random_state)
    if n_components > min(rows, X.shape[1]):
        raise InvalidInputError(
            f"n_components of at most min(n_samples, n_features) = {min(rows, X.shape[1])} for init='nndsvd' "
            f"(n_samples={rows}, n_features={X.shape[1]})",
            parameter(n_components),
            "Ask for fewer components, or use init='random'.",
        )
    if rows == X.shape[0]:
        T = nndsvd(X, n_components, random_state=random_state)[1].astype(np.float64)
        return _filled(T, random), rows
    # tol and max_iter set by hand: a start need not be precise
    coarse = svd.SVDSettings(n_components, hide_singular_values=False, tol=0.03, max_iter=20, seed=random_state)
    outcome = yield from svd.svd_program(X, coarse)
    rights, strengths = outcome.public["components"], outcome.public["singular_values"]
    lefts = np.asarray(X @ rights.T.astype(X.dtype), dtype=np.float64)
    parts = yield Sum(
        positive=np.square(np.maximum(lefts, 0)).sum(axis=0), negative=np.square(np.minimum(lefts, 0)).sum(axis=0)
    )
    T = np.zeros_like(rights)
    T[0] = np.sqrt(strengths[0]) * np.abs(rights[0])
    for j in range(1, n_components):
        lengths = (float(np.sqrt(max(square, 0.0))) for square in (parts.positive[j], parts.negative[j]))
        sign, product = _larger_parts(rights[j], *lengths)  # the singular value is in the lengths already
        if product > 0:
            T[j] = np.sqrt(product) * _unit_part(sign * rights[j])
    return _filled(T, random), rows


def _filled(T: NDArray[np.float64], random: NDArray[np.float64]) -> NDArray[np.float64]:
    """Data of lower rank than k leave rows of zeros, and a topic of zeros would stay one: take random ones there."""
    empty = ~T.any(axis=1)
    T[empty] = random[empty]
    return T
