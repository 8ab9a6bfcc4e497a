"""A start that merges what each holder finds alone: Algorithm 2 (PD-NMF-Init) of Tsikhanovich et al. 2019.

Every holder factorises its own rows, X_m ~ W_m T_m, and weights its topics by how much its rows use them. The
weighted topics stand for its rows: as few as k, in place of thousands. All holders then factorise these pseudo-rows
together, from a random start, by the same program and the same sums as the rows themselves afterwards.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.channel import Outcome, Program, Sum, Total
from tacit.factor.nmf.program import Settings, nmf_program
from tacit.factor.nmf.start import Step, nndsvd, random_program


def merge_program(X: Any, n_components: int, *, random_state: int, settings: Settings) -> Step:
    """One holder's view of the start; returns the dictionary and the number of all rows.

    The outliers of the model are set aside in the holder's own fit; its topics have none.
    """
    random, rows = yield from random_program(X, n_components, random_state=random_state)
    topics = weighted_topics(X, n_components, random_state=random_state, settings=settings)
    found = yield from nmf_program(topics, random, settings=replace(settings, outliers=None))
    T = np.array(found.public["T"])
    # a topic that no holder's topics use would stay one of zeros
    empty = ~T.any(axis=1)
    T[empty] = random[empty]
    return T, rows


def weighted_topics(X: Any, n_components: int, *, random_state: int, settings: Settings) -> NDArray[np.float64]:
    """Return one holder's own topics, each times the length of its column of W; a holder of few rows has fewer topics."""
    size = min(n_components, *X.shape)
    T = nndsvd(X, size, random_state=random_state)[1].astype(np.float64)
    T = T[T.any(axis=1)]
    own = _alone(nmf_program(X, T, settings=settings))
    lengths = np.linalg.norm(own.private["W"].astype(np.float64), axis=0)
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
