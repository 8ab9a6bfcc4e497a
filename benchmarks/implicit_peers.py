"""Peers of the private recommender from interactions: alternating least squares with noisy statistics, and a one-shot sketch.

They are written for comparisons only: their noise is in floating point.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tacit.privacy import gaussian_noise_multiplier

Floats = NDArray[np.float64]


def popularity(rows: Any, noise: float, generator: np.random.Generator) -> Floats:
    """Return noisy sums of users' rows of norm 1."""
    lengths = np.sqrt(np.maximum(np.diff(rows.indptr), 1))
    sums = np.asarray((sparse.diags_array(1 / lengths) @ rows).sum(axis=0)).ravel()
    found: Floats = sums + generator.normal(0, noise, len(sums)) if noise else sums
    return found


def regression(gram: Floats) -> Floats:
    """Return EASE's weights (Steck 2019)."""
    inverse = np.linalg.inv(gram)
    weights = -inverse / np.diag(inverse)
    np.fill_diagonal(weights, 0.0)
    found: Floats = weights
    return found


def sketch(rows: Any, epsilon: float, delta: float, *, size: int, ridge: float, seed: int = 0) -> Any:
    """Noisy popularity, noisy second moment of the popular items, one shrinkage for all directions, then EASE."""
    generator, z = np.random.default_rng(seed), gaussian_noise_multiplier(epsilon, delta)
    weights = popularity(rows, z / math.sqrt(0.1), generator)
    top = np.argsort(-weights)[:size]
    noise = z / math.sqrt(0.9)
    gram = np.zeros((size, size))
    for start in range(0, rows.shape[0], 4096):
        block = rows[start : start + 4096][:, top].toarray()
        lengths = np.linalg.norm(block, axis=1, keepdims=True)
        block /= np.where(lengths > 0, lengths, 1)
        gram += block.T @ block
    upper = np.triu(generator.normal(0, noise / math.sqrt(2), gram.shape), 1)
    gram += upper + upper.T + np.diag(generator.normal(0, noise, size))
    values, vectors = np.linalg.eigh(gram)
    edge = math.sqrt(2 * size) * noise
    kept = values > edge
    shrunk = (vectors[:, kept] * np.sqrt(values[kept] ** 2 - edge**2)) @ vectors[:, kept].T
    learned = regression(shrunk + ridge * np.eye(size))

    def scores(histories: Any) -> Floats:
        found = np.tile(1e-6 * weights, (histories.shape[0], 1))
        found[:, top] += histories[:, top] @ learned
        return found

    return scores


@dataclass(frozen=True)
class AlternatingSettings:
    """Settings of `alternating`: chosen on validation users."""

    size: int = 16
    rounds: int = 3
    unobserved: float = 0.3
    ridge: float = 2.0
    own_ridge: float = 1.0
    rarity: float = 0.25


def alternating(  # noqa: PLR0915  (one published algorithm, in one piece)
    rows: Any,
    epsilon: float,
    delta: float,
    features: Floats | None = None,
    settings: AlternatingSettings | None = None,
    seed: int = 0,
) -> Any:
    """Alternating minimisation with perturbed sufficient statistics: DPALS, and AM-SSP with public item features.

    Users' vectors are solved from the items' (Hu et al. 2008), and clipped to norm 1. Items' vectors are solved from noisy
    sums over users (Chien et al. 2021): per item A_i = sum w p p' and b_i = sum w p, and K = sum p p' for what was not
    chosen. A user's weights over the items are larger for rare items and have norm 1 (Krichene et al. 2023). With features, an
    item's vector is the sum of its features' vectors and one of its own; the features' vectors are solved jointly from
    noisy sums per pair of features (Krichene et al. 2024).
    """
    chosen = settings or AlternatingSettings()
    generator, z = np.random.default_rng(seed), gaussian_noise_multiplier(epsilon, delta)
    n_items, size = rows.shape[1], chosen.size
    weights = popularity(rows, z / math.sqrt(0.1), generator)
    positive = np.maximum(weights, z / math.sqrt(0.1))
    rare = sparse.diags_array((positive / positive.max()) ** -chosen.rarity)
    W = (rows @ rare).tocsr()
    W = sparse.diags_array(1 / np.sqrt(np.maximum(W.multiply(W).sum(axis=1), 1e-12)).ravel()) @ W
    step = 0.9 / chosen.rounds
    upper = np.triu_indices(size)
    double = np.where(upper[0] == upper[1], 1.0, math.sqrt(2))

    def noisy(array: Floats, fraction: float) -> Floats:
        found: Floats = array + generator.normal(0, z / math.sqrt(step * fraction), array.shape)
        return found

    def unpacked(packed: Floats) -> Floats:
        square = np.zeros((*packed.shape[:-1], size, size))
        square[..., upper[0], upper[1]] = packed / double
        square[..., upper[1], upper[0]] = packed / double
        return square

    def positive_part(square: Floats, floor: float) -> Floats:
        values, vectors = np.linalg.eigh(square)
        found: Floats = (vectors * np.maximum(values, floor)[..., None, :]) @ np.swapaxes(vectors, -1, -2)
        return found

    def users_of(histories: Any, items: Floats) -> Floats:
        outer = (items[:, upper[0]] * items[:, upper[1]]) * double
        grams = unpacked(np.asarray(histories @ outer)) + chosen.unobserved * items.T @ items
        grams += 0.01 * np.trace(items.T @ items) / size * np.eye(size)
        found: Floats = np.linalg.solve(grams, np.asarray(histories @ items)[..., None])[..., 0]
        return found

    items = generator.normal(0, 1 / math.sqrt(size), (n_items, size)) * np.sqrt(positive / positive.max())[:, None]
    if features is not None:
        shared = features @ generator.normal(0, 1 / math.sqrt(size), (features.shape[1], size))
        items += shared * np.sqrt(positive / positive.max())[:, None]
        pairs = (features[:, :, None] * features[:, None, :]).reshape(n_items, -1)
    for _ in range(chosen.rounds):
        P = users_of(rows, items)
        P /= np.maximum(np.linalg.norm(P, axis=1, keepdims=True), 1e-12)
        PP = P[:, upper[0]] * P[:, upper[1]] * double
        own = 1.0 if features is None else 0.5
        K = positive_part(unpacked(noisy(PP.sum(axis=0), 0.1)), 0.0)
        A = unpacked(noisy(np.asarray(W.T @ PP), 0.3 * own))
        b = noisy(np.asarray(W.T @ P), 0.6 * own)
        ridge = chosen.ridge * (1 + math.sqrt(2 * size) * z / math.sqrt(step * 0.3 * own))  # in units of the noise of A
        base = chosen.unobserved * K + ridge * np.eye(size)
        mean = np.zeros((n_items, size))
        if features is not None:
            by_pair, by_feature = np.asarray(W @ pairs), np.asarray(W @ features)
            scale = 1 / np.sqrt(np.maximum((by_pair**2).sum(1), (by_feature**2).sum(1)) + 1e-12)
            q = features.shape[1]
            Af = unpacked(noisy((by_pair * scale[:, None]).T @ PP, 0.15)).reshape(q, q, size, size)
            bf = noisy((by_feature * scale[:, None]).T @ P, 0.3)
            Af = (Af + Af.transpose(1, 0, 2, 3)) / 2
            joint = Af.transpose(0, 2, 1, 3).reshape(q * size, q * size)
            joint = joint + np.kron(features.T @ features, chosen.unobserved * K * float(scale.mean()))
            joint = positive_part(joint, 0.0) + ridge * np.eye(q * size)
            mean = features @ np.linalg.solve(joint, bf.ravel()).reshape(q, size)
            base = base + chosen.own_ridge * ridge * np.eye(size)
        left = positive_part(A + base, ridge)
        right = b - np.einsum("iab,ib->ia", A + chosen.unobserved * K, mean)
        items = mean + np.linalg.solve(left, right[..., None])[..., 0]

    def scores(histories: Any) -> Floats:
        found: Floats = users_of(histories, items) @ items.T
        return found

    return scores
