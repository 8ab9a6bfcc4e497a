r"""Statistics by which an adversary may tell whether a document was there: functions of what is seen, and of the document.

Each takes an `Observation` and a document (a vector) and returns numbers by name. A user's own is any function that does so.

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


def nmf_statistics(observation: Observation, document: Vector) -> dict[str, float]:
    r"""Return the paper's :math:`\sigma = a \cdot w^2`, the most telling of seven that it tried.

    a in :math:`[0, 1]^k` are the document's best coefficients for the topics, :math:`w^2` the squared lengths of the
    columns of W, the denominators of Algorithm 1. Topics are scaled to sum to 1, as there.
    """
    from scipy.optimize import lsq_linear

    T, WW = observation.public["T"], observation.public["WW"]
    sums = T.sum(axis=1)
    scale = np.where(sums > 0, sums, 1.0)
    T, weights = T / scale[:, None], np.diag(WW) * scale**2
    # the same least squares in k dimensions: T' = Q R, so |T'a - x| and |R a - Q'x| differ by a constant
    turned = np.linalg.qr(T.T)
    coefficients = lsq_linear(turned.R, turned.Q.T @ document, bounds=(0, 1), method="bvls").x
    return {"a.w^2": float(coefficients @ weights)}


def svd_statistics(observation: Observation, document: Vector, *, values: Vector | None = None) -> dict[str, float]:
    r"""Return the paper's six: maximum, sum and sum of squares of the entries of two matrices.

    They are :math:`|S \circ x x^\top|` and :math:`|S/\|S\|_F - x x^\top/\|x\||`, where :math:`S = V
    \Sigma^2 V^\top` is the adversary's estimate of :math:`X^\top X`.

    Parameters
    ----------
    observation, document
        As for every statistic.
    values : ndarray, optional
        The adversary's own estimate of the singular values, for a run that hides them, as in the paper. If not given:
        the values that were revealed, or else their ratios, which follow from the directions that were.
    """
    V = observation.public["components"]
    if values is None:
        known = observation.public
        values = known["singular_values"] if "singular_values" in known else known["relative_values"]
    squares = np.asarray(values, dtype=np.float64) ** 2
    size = float(np.linalg.norm(squares)) or 1.0  # |V diag(s) V'|_F, as V has orthonormal rows
    length = float(np.linalg.norm(document)) or 1.0
    found = {f"{name} of {kind}": 0.0 for kind in ("S o xx'", "S - xx'") for name in ("maximum", "sum", "squares")}
    step = max(1, BLOCK_NUMBERS // len(document))
    for start in range(0, len(document), step):
        rows = slice(start, start + step)
        S, outer = (V[:, rows].T * squares) @ V, np.outer(document[rows], document)
        for kind, block in (("S o xx'", np.abs(S * outer)), ("S - xx'", np.abs(S / size - outer / length))):
            found[f"maximum of {kind}"] = max(found[f"maximum of {kind}"], float(block.max()))
            found[f"sum of {kind}"] += float(block.sum())
            found[f"squares of {kind}"] += float(np.vdot(block, block))
    return found


def total_statistics(observation: Observation, document: Vector) -> dict[str, float]:
    """Return, for every array that was seen, its length and how much of it lies along the document; for any mechanism."""
    found = {}
    direction = document / (float(np.linalg.norm(document)) or 1.0)
    for name, array in observation.arrays():
        found[f"length of {name}"] = float(np.linalg.norm(array))
        if array.shape[-1:] == document.shape:
            found[f"{name} along the document"] = float(np.linalg.norm(array @ direction))
        elif array.shape[:1] == document.shape:
            found[f"{name} along the document"] = float(np.linalg.norm(direction @ array))
    return found


def fitting_statistics(observation: Observation) -> tuple[Statistic, ...]:
    """Return the statistics that can be computed from runs like this one."""
    chosen: list[Statistic] = [total_statistics]
    if {"T", "WW"} <= set(observation.public):
        chosen.append(nmf_statistics)
    if "components" in observation.public and {"singular_values", "relative_values"} & set(observation.public):
        chosen.append(svd_statistics)
    return tuple(chosen)
