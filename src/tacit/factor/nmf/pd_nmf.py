r"""The two algorithms of Tsikhanovich et al. 2019 for non-negative factorisation among holders, as programs.

*PD-NMF-Iter (Algorithm 1)*, `topic_program`. For every topic t in turn, each holder updates its column of W, and the holders
total what updates the topic's row of T:

.. math::

    w_t \leftarrow \frac{[R_t T_t^\top - l_1^W]_+}{\|T_t\|^2 + l_2^W}, \qquad
    T_t \leftarrow \frac{[w_t^\top R_t - l_1^T]_+}{\|w_t\|^2 + l_2^T}, \qquad R_t = X - \sum_{l \ne t} w_l T_l.

These are eqs 5 and 4 of the paper (lines 3 to 7 of the algorithm), with its :math:`\alpha, \beta, \gamma, \delta` as
:math:`l_1^T, l_2^T, l_1^W, l_2^W`. They lower the objective of eqs 2 and 3. With ``simplex`` the topic is then
projected onto the simplex of non-negative vectors with the sum 1, as the paper prints (line 8). This fixes the scale.
It is not the minimiser over the simplex, so the objective may rise; without it the scale is fixed at the end, by
lengths.

The two sums of a topic (numerator, denominator) do not depend on each other and go in one exchange. A sweep is k
exchanges, where `nmf_program` needs one; a point that neither can improve is the same for both.

*PD-NMF-Init (Algorithm 2)*, `merge_program`. Every holder factorises its own rows, X_m ~ W_m T_m, and weights its topics by how
much its rows use them. The weighted topics stand for its rows: as few as k, in place of thousands. All holders then factorise
these pseudo-rows together, from a random start, by the same program and the same sums as the rows themselves afterwards.

References
----------
M. Tsikhanovich et al., "PD-ML-Lite: private distributed machine learning from lightweight cryptography", 2019.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tacit.channel import Outcome, Program, Sum, Total
from tacit.estimators.input import Rows
from tacit.factor.nmf.program import NMFSettings, nmf_program, released
from tacit.factor.nmf.start import Step, nndsvd, random_program
from tacit.factor.row_table import Table


def topic_program(X: Rows, T: NDArray[np.float64], *, settings: NMFSettings) -> Program:
    """One holder's view, from the dictionary `T` (k x d), the same for all; the outcome is that of `nmf_program`.

    `settings` has no outliers. The numbers of sweeps inside a step are not used: a step here is one coordinate,
    solved exactly.
    """
    table, T = Table(X), np.array(T, dtype=np.float64)
    k, rows, shared = len(T), settings.row_penalty, settings.dictionary_penalty
    W, WX = np.zeros((table.shape[0], k)), np.zeros(T.shape)
    curve: list[float] = []
    for _ in range(settings.max_iter):
        for t in range(k):
            others = np.arange(k) != t
            square = float(T[t] @ T[t]) + rows.l2
            if square > 0:
                # lines 3 and 4, eqs 4 and 5: R_t T_t' - gamma, without forming R_t
                pull = table.times(T[t][:, None])[:, 0] - W[:, others] @ (T[others] @ T[t]) - rows.l1
                W[:, t] = np.maximum(pull, 0) / square
            WX[t] = table.transposed_times(W[:, t][:, None])[:, 0]
            # lines 5 and 6, in one sum: w_t' R_t and |w_t|^2
            numerator = WX[t] - (W[:, t] @ W[:, others]) @ T[others]
            asked = {"numerator": numerator, "denominator": [float(W[:, t] @ W[:, t])]}
            if t == k - 1:  # what is left of the objective when the last topic is taken out of it
                asked["own"] = np.array([_residual(table, W, WX, T, others), rows.of(W)])
            total = yield Sum(**asked)
            curved = float(total.denominator[0]) + shared.l2
            if curved > 0:  # else no row uses the topic, and it stays as it is
                T[t] = np.maximum(total.numerator - shared.l1, 0) / curved  # line 7
            if settings.simplex:
                T[t] = on_simplex(T[t])  # line 8
        last = 0.5 * float(total.denominator[0]) * float(T[-1] @ T[-1]) - float(total.numerator @ T[-1])
        squared_error = max(0.0, 2 * (float(total.own[0]) + last))
        curve.append(squared_error / 2 + float(total.own[1]) + shared.of(T))
        if len(curve) > 1 and settings.tol > 0:
            gained = curve[-2] - curve[-1]
            if (abs(gained) if settings.simplex else gained) <= settings.tol * curve[-1]:
                break
    total = yield Sum(WX=WX, WW=W.T @ W)  # of the last sweep's W: what `partial_fit` goes on from
    public, scale = released(T, total.WX, total.WW, squared_error, settings)
    return Outcome(public={**public, "loss_curve": np.array(curve)}, private={"W": (W * scale).astype(table.dtype)})


def _residual(
    table: Table, W: NDArray[np.float64], WX: NDArray[np.float64], T: NDArray[np.float64], kept: NDArray[np.bool_]
) -> float:
    """Return half the squared norm of ``X - W T`` with the kept topics only, without forming it."""
    square = W[:, kept].T @ W[:, kept]
    return table.squares / 2 - float(np.vdot(WX[kept], T[kept])) + float(np.vdot(square, T[kept] @ T[kept].T)) / 2


def on_simplex(vector: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the nearest non-negative vector with the sum 1: the last of eqs 5 (Condat 2016, by sorting).

    Examples
    --------
    >>> import numpy as np
    >>> from tacit.factor.nmf.pd_nmf import on_simplex
    >>> on_simplex(np.array([0.9, 0.5, 0.1]))
    array([0.7, 0.3, 0. ])
    """
    descending = np.sort(vector)[::-1]
    excess = (np.cumsum(descending) - 1) / np.arange(1, len(vector) + 1)
    kept = int(np.flatnonzero(descending > excess)[-1])
    projected: NDArray[np.float64] = np.maximum(vector - excess[kept], 0.0)
    return projected


def merge_program(X: Rows, n_components: int, *, random_state: int, settings: NMFSettings) -> Step:
    """One holder's view of the start, lines 6 to 9 of Algorithm 2; returns the dictionary and the number of all rows.

    The random topics follow from the common seed, where the paper adds up random topics of all parties (lines 6 and 7),
    and have the scale of the rows; with ``simplex`` they sum to 1 (line 8). The outliers of the model are set aside in
    the holder's own fit; its topics have none.
    """
    random, rows = yield from random_program(X, n_components, random_state=random_state)
    topics = weighted_topics(X, n_components, random_state=random_state, settings=settings)
    if settings.simplex:  # as printed: rows of the start sum to 1, and PD-NMF-Iter merges
        random = random / random.sum(axis=1, keepdims=True)
    sweeps = topic_program if settings.simplex else nmf_program
    outcome = yield from sweeps(topics, random, settings=replace(settings, outliers=None))
    T = np.array(outcome.public["T"])
    # a topic that no holder's topics use would stay one of zeros
    empty = ~T.any(axis=1)
    T[empty] = random[empty]
    return T, rows


def weighted_topics(X: Rows, n_components: int, *, random_state: int, settings: NMFSettings) -> NDArray[np.float64]:
    """Return one holder's own topics, each times the length of its column of W: lines 1 to 5 of Algorithm 2.

    A holder of few rows has fewer topics.
    """
    size = min(n_components, *X.shape)
    T = nndsvd(X, size, random_state=random_state)[1].astype(np.float64)
    T = T[T.any(axis=1)]
    own = _alone((topic_program if settings.simplex else nmf_program)(X, T, settings=settings))
    lengths = np.linalg.norm(own.private["W"].astype(np.float64), axis=0)
    # lines 4 and 5: V_jj = |W_j|, and V T
    topics: NDArray[np.float64] = lengths[:, None] * own.public["T"]
    return topics


def _alone(program: Program) -> Outcome:
    """Run a program that asks for nothing but sums with its own terms as the totals: no channel, since nothing leaves."""
    answer = None
    while True:
        try:
            ask = program.send(answer)
        except StopIteration as stop:
            outcome: Outcome = stop.value
            return outcome
        assert type(ask) is Sum
        answer = Total(ask.arrays)
