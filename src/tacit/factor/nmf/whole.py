"""The whole fit from one holder's view: a start that all holders share, then sweeps by one of two schedules."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.channel import Program
from tacit.factor.nmf.merge_local import merge_program
from tacit.factor.nmf.program import Settings, nmf_program
from tacit.factor.nmf.start import nndsvd_program, random_program
from tacit.factor.nmf.topic_schedule import topic_program

SCHEDULES = ("sweep", "topic")


def fit_program(
    X: Any,
    n_components: int,
    start: str | NDArray[np.float64],
    *,
    schedule: str,
    random_state: int,
    settings: Settings,
) -> Program:
    """One holder's view of a fit; nothing of the start is one holder's own.

    Parameters
    ----------
    X : ndarray or CSR matrix
        The holder's rows.
    n_components : int
    start : str or ndarray
        As `checked_start` returns it.
    schedule : {"sweep", "topic"}
    random_state : int
    settings : Settings
    """
    if not isinstance(start, str):
        T = start
    elif start == "nndsvd":
        T, _ = yield from nndsvd_program(X, n_components, random_state=random_state)
    elif start == "random":
        T, _ = yield from random_program(X, n_components, random_state=random_state)
    else:
        T, _ = yield from merge_program(X, n_components, random_state=random_state, settings=settings)
    sweeps = nmf_program if schedule == "sweep" else topic_program
    return (yield from sweeps(X, T, settings=settings))
