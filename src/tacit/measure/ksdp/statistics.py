r"""Statistics by which an adversary may detect the presence of a document: functions of an observation and the document.

Each takes an `Observation` and a document (a vector) and returns numbers by name. Any function that does so can be used.

References
----------
M. Tsikhanovich et al., "PD-ML-Lite", 2019: sections 5.1 (NMF) and 5.2 (SVD).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from tacit.measure.ksdp.observation import Observation

Vector = NDArray[np.float64]
Statistic = Callable[[Observation, Vector], Mapping[str, float]]
BLOCK_NUMBERS = 1 << 20
"""Numbers of a matrix that are in memory at the same time: 8 MB."""


def nmf_statistics(observation: Observation, document: Vector) -> dict[str, float]:
    r"""Return the paper's :math:`\sigma = a \cdot w^2` (section 5.1), the most sensitive of seven that it tried.

    a in :math:`[0, 1]^k` are the document's best coefficients for the topics, and :math:`w^2` the squared norms of the
    columns of W, the denominators of Algorithm 1. Topics are scaled to sum to 1, as there.
    """
    from scipy.optimize import lsq_linear

    T, WW = observation.public["T"], observation.public["WW"]
    sums = T.sum(axis=1)
    scale = np.where(sums > 0, sums, 1.0)
    T, weights = T / scale[:, None], np.diag(WW) * scale**2
    # the same least squares in k dimensions: T' = Q R, so |T'a - x|^2 and |R a - Q'x|^2 differ by a constant
    turned = np.linalg.qr(T.T)
    coefficients = lsq_linear(turned.R, turned.Q.T @ document, bounds=(0, 1), method="bvls").x
    return {"a.w^2": float(coefficients @ weights)}  # sigma of section 5.1 (not numbered)


def svd_statistics(observation: Observation, document: Vector, *, values: Vector | None = None) -> dict[str, float]:
    r"""Return the paper's six statistics (section 5.2): maximum, sum and sum of squares of the entries of two matrices.

    They are :math:`|S \circ x x^\top|` and :math:`|S/\|S\|_F - x x^\top/\|x\||`, where :math:`S = V
    \Sigma^2 V^\top` is the adversary's estimate of :math:`X^\top X`.

    Parameters
    ----------
    observation, document
        As for every statistic.
    values : ndarray, optional
        The adversary's own estimate of the singular values, for a run that hides them, as in the paper. If not given,
        the revealed values are used, or else their ratios, which follow from the revealed directions.
    """
    V = observation.public["components"]
    if values is None:
        known = observation.public
        values = known["singular_values"] if "singular_values" in known else known["relative_values"]
    squares = np.asarray(values, dtype=np.float64) ** 2
    size = float(np.linalg.norm(squares)) or 1.0  # |V diag(s) V'|_F, as V has orthonormal rows
    length = float(np.linalg.norm(document)) or 1.0
    values_of = {f"{name} of {kind}": 0.0 for kind in ("S o xx'", "S - xx'") for name in ("maximum", "sum", "squares")}
    step = max(1, BLOCK_NUMBERS // len(document))
    for start in range(0, len(document), step):
        rows = slice(start, start + step)
        # W = |S o xx'| and D = |S / |S|_F - xx' / |x|| of section 5.2 (not numbered)
        S, outer = (V[:, rows].T * squares) @ V, np.outer(document[rows], document)
        for kind, block in (("S o xx'", np.abs(S * outer)), ("S - xx'", np.abs(S / size - outer / length))):
            values_of[f"maximum of {kind}"] = max(values_of[f"maximum of {kind}"], float(block.max()))
            values_of[f"sum of {kind}"] += float(block.sum())
            values_of[f"squares of {kind}"] += float(np.vdot(block, block))
    return values_of


def total_statistics(observation: Observation, document: Vector) -> dict[str, float]:
    """Return, for every observed array, its norm and the norm of its projection on the document; for any mechanism."""
    numbers = {}
    direction = document / (float(np.linalg.norm(document)) or 1.0)
    for name, array in observation.arrays():
        numbers[f"length of {name}"] = float(np.linalg.norm(array))
        if array.shape[-1:] == document.shape:
            numbers[f"{name} along the document"] = float(np.linalg.norm(array @ direction))
        elif array.shape[:1] == document.shape:
            numbers[f"{name} along the document"] = float(np.linalg.norm(direction @ array))
    return numbers


def fitting_statistics(observation: Observation) -> tuple[Statistic, ...]:
    """Return the statistics that can be computed from runs like this one."""
    chosen: list[Statistic] = [total_statistics]
    if {"T", "WW"} <= set(observation.public):
        chosen.append(nmf_statistics)
    if "components" in observation.public and {"singular_values", "relative_values"} & set(observation.public):
        chosen.append(svd_statistics)
    return tuple(chosen)
