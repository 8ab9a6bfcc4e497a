"""Where a non-negative factorisation starts: NNDSVD of the data, random, or a dictionary that the caller has."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import InvalidInputError, words
from tacit.validation import check_choice

STARTS = ("nndsvd", "random")


def nndsvd(X: Any, n_components: int, *, random_state: int = 0) -> tuple[NDArray[Any], NDArray[Any]]:
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
        if np.prod(_part_lengths(left, right)) < np.prod(_part_lengths(-left, -right)):
            left, right = -left, -right
        left_length, right_length = _part_lengths(left, right)
        if left_length * right_length == 0:  # a singular value of zero: there is nothing to take
            continue
        scale = np.sqrt(strengths[j] * left_length * right_length)
        W[:, j] = scale * np.maximum(left, 0) / left_length
        T[j] = scale * np.maximum(right, 0) / right_length
    return W, T


def _part_lengths(left: NDArray[Any], right: NDArray[Any]) -> tuple[float, float]:
    """Return the L2 norms of the positive parts."""
    return float(np.linalg.norm(np.maximum(left, 0))), float(np.linalg.norm(np.maximum(right, 0)))


def starting_dictionary(init: Any, X: Any, n_components: int, *, random_state: int) -> NDArray[Any]:
    """Return the dictionary (k x d) that `init` stands for, or raise with what to do."""
    shape = (n_components, X.shape[1])
    if not isinstance(init, str):
        T = np.asarray(init, dtype=np.float64)
        if T.shape != shape:
            raise InvalidInputError(
                f"a starting dictionary of shape {shape}", words(f"one of shape {T.shape}"), "Give one row a component."
            )
        if not np.all(np.isfinite(T)) or T.min() < 0 or not T.any(axis=1).all():
            raise InvalidInputError(
                "a starting dictionary of finite numbers of at least 0, no row all zero",
                words("one with other numbers, or with a row of zeros"),
                "Clip it, or drop the rows of zeros and ask for fewer components.",
            )
        return T
    check_choice(init, "init", STARTS)
    mean = float(X.sum(dtype=np.float64)) / (X.shape[0] * X.shape[1])
    generator = np.random.default_rng(random_state)
    random: NDArray[np.float64] = np.sqrt(mean / n_components) * np.abs(generator.standard_normal(shape))
    if init == "random":
        return random
    if n_components > min(X.shape):
        raise InvalidInputError(
            f"n_components of at most min(n_samples, n_features) = {min(X.shape)} for init='nndsvd' "
            f"(n_samples={X.shape[0]}, n_features={X.shape[1]})",
            n_components,
            "Ask for fewer components, or use init='random'.",
        )
    T = nndsvd(X, n_components, random_state=random_state)[1].astype(np.float64)
    # data of lower rank than k leave rows of zeros, and a topic of zeros would stay one
    empty = ~T.any(axis=1)
    T[empty] = random[empty]
    return T
