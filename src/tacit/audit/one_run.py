"""Attack 3: many canaries in a single fit, guessed from the released model alone (Steinke, Nasr and Jagielski 2023).

Canaries are made to be as different from each other as the model's sums allow: rows of random signs, users of distinct pairs of
items. Each is in the data with probability 1/2. A second fit with other coins, which the attacker makes, teaches how the
numbers of present canaries look; then the canaries of the audited fit are guessed. Where the model is Gaussian differential
privacy (full-batch sums), the refinement of Mahloujifar et al. (2024) gives the larger bound.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np

from tacit.audit.canaries import is_non_negative
from tacit.audit.findings import ONE_RUN, Finding
from tacit.audit.journal import AuditJournal
from tacit.audit.membership import guessed, shadow_fits
from tacit.audit.subject import Subject
from tacit.audit.units import RowUnits, Unit, Units
from tacit.audit.white_box import roc
from tacit.estimators.base import Estimator

MOST_CANARIES = 2000
"""More make the bound larger only slowly."""
LEAST_CANARIES = 50
"""With fewer the bound is zero for any attack."""


def crowd(estimator: Estimator, data: Units, most: int, random: np.random.Generator) -> list[Unit]:
    """Return canaries for one run, or none where the model allows no crowd of them.

    A second moment of d columns tells about d^2/2 rows apart.
    """
    if (
        not isinstance(data, RowUnits)
        or hasattr(data.X, "iter_columns")
        or hasattr(estimator, "schema")
        or data.y is not None
    ):
        return []
    width = data.X.shape[1]
    count = min(most, width * (width - 1) // 2)
    if count < LEAST_CANARIES or getattr(estimator, "feature_range", None) is not None:
        return []
    if hasattr(estimator, "weighting") or is_non_negative(estimator):
        pairs = np.array(list(itertools.combinations(range(width), 2)))
        rows = np.zeros((count, width))
        chosen = pairs[random.permutation(len(pairs))[:count]]
        np.put_along_axis(rows, chosen, 1.0, axis=1)
    else:
        rows = random.choice([-1.0, 1.0], size=(count, width))
    scale = 1.0 if hasattr(estimator, "weighting") else float(getattr(estimator, "row_norm", 1.0))
    if not hasattr(estimator, "weighting"):
        rows *= scale / np.linalg.norm(rows, axis=1, keepdims=True)
    return [(row[None], None) for row in rows]


def one_run(
    subject: Subject,
    *,
    canaries: int = 1000,
    level: float = 0.05,
    random_state: int = 0,
    journal: AuditJournal | None = None,
    step: Callable[[], None] = lambda: None,
) -> Finding | None:
    """Attack one fit with many canaries; None where the model allows no crowd of them.

    Parameters
    ----------
    subject : Subject
    canaries : int
    level, random_state, journal, step
        As for the other attacks.
    """
    random = np.random.default_rng(random_state)
    units = crowd(subject.estimator, subject.data, min(canaries, MOST_CANARIES), random)
    if not units:
        return None
    key = f"{ONE_RUN}: {len(units)}: {subject.fingerprint}: {subject.data.digest()}: {random_state}"
    numbers, present = shadow_fits(
        subject, units, fits=2, seconds=math.inf, random_state=random_state, journal=journal, key=key
    )
    step()
    guesses = guessed(numbers, present, per_target=False)
    delta = subject.claimed[1]
    lower, steinke, by_mu = guesses.bounds(delta=delta, level=level, gaussian=subject.is_full_batch)
    return Finding(
        ONE_RUN,
        f"{len(units)} canaries in one fit, seen through the released model",
        lower,
        1 - level,
        violation=f"epsilon of at least {lower:.4g}" if lower > subject.claimed[0] else "",
        remark="The attacker sees the released model only. The canaries are not typical of the data.",
        figures={
            "canaries": len(units),
            "area under the ROC curve": guesses.area,
            "epsilon (Steinke et al.)": steinke,
            "epsilon (Mahloujifar et al.)": by_mu,
        },
        curve=roc(guesses.scores[guesses.present], guesses.scores[~guesses.present]),
    )
