"""Attack 4b: attribute inference. The attacker knows a unit but for one value, and guesses it by how well the model fits each.

Two candidates are offered, the true value and one of another unit. A model learns facts about the population, so that a guess
is better than chance even for units that were not in the fit; only what is guessed *better for units in the fit than for
others* is a leak of theirs. The attack is for rows and for ratings.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from tacit.audit.findings import ATTRIBUTES, Finding
from tacit.audit.membership import chosen_targets, without_noise
from tacit.audit.scores import unit_scores
from tacit.audit.subject import Subject
from tacit.audit.units import Ratings, Rows, Units

LEAST_FITS = 4


def attribute_inference(
    subject: Subject,
    *,
    fits: int = 16,
    targets: int = 20,
    seconds: float = math.inf,
    level: float = 0.05,
    random_state: int = 0,
    step: Callable[[], None] = lambda: None,
) -> Finding | None:
    """Guess one value of units in the fit and of units outside it; None for data without a single value to guess.

    Parameters
    ----------
    subject, fits, targets, seconds, level, random_state, step
        As for `membership`.
    """
    if not _fits(subject.data):
        return None
    random = np.random.default_rng(random_state)
    rest, units = chosen_targets(subject, targets, random)
    decoys = [_altered(subject.data, units, place, random) for place in range(len(units))]
    figures: dict[str, float] = {}
    leaks = {}
    for name, one in (("private", rest), ("without noise", without_noise(rest))):
        right, inside = _guesses(one, units, decoys, fits, seconds, random)
        figures[f"guessed right, in the fit, {name}"] = float(right[inside].mean())
        figures[f"guessed right, not in the fit, {name}"] = float(right[~inside].mean())
        hits, others = int(right[inside].sum()), int(right[~inside].sum())
        table = np.array([[hits, int(inside.sum()) - hits], [others, int((~inside).sum()) - others]])
        leaks[name] = float(stats.fisher_exact(table, alternative="greater").pvalue)
        figures[f"p-value, {name}"] = leaks[name]
        step()
    shown = "shows" if leaks["private"] <= level else "does not show"
    weak = (
        "" if leaks["without noise"] <= level else " The attack is weak: it shows nothing in fits without noise either."
    )
    return Finding(
        ATTRIBUTES,
        f"one value of {len(units)} units",
        None,
        1 - level,
        remark=f"That a unit was in the fit {shown} in the guesses of its value.{weak}",
        figures=figures,
    )


def _fits(data: Units) -> bool:
    if isinstance(data, Ratings):
        return not data.cells
    return isinstance(data, Rows) and isinstance(data.X, np.ndarray) and data.y is None


def _altered(data: Units, units: list[Any], place: int, random: np.random.Generator) -> Any:
    """Return the unit with one value exchanged for that of another target."""
    other = units[int(random.integers(len(units) - 1))] if len(units) > 1 else units[place]
    if isinstance(data, Ratings):
        items, values = units[place]
        changed = values.copy()
        which = int(random.integers(len(values)))
        unlike = np.unique(data.values[data.values != values[which]])
        changed[which] = random.choice(unlike) if len(unlike) else values[which]
        return items, changed
    row = units[place][0].copy()
    which = int(np.argmax(np.abs(row - other[0])))
    row[0, which] = other[0][0, which]
    return row, None


def _guesses(
    subject: Subject, units: list[Any], decoys: list[Any], fits: int, seconds: float, random: np.random.Generator
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return, for every target in the second half of the fits, whether the guess was right and whether it was present."""
    from sklearn.linear_model import LogisticRegression

    differences, present = [], []
    begun = time.monotonic()
    for fitted in range(fits):
        if fitted >= LEAST_FITS and time.monotonic() - begun > seconds:
            break
        inside = random.random(len(units)) < 0.5
        chosen = [unit for unit, drawn in zip(units, inside, strict=True) if drawn]
        model = subject.fitted(subject.data.with_units(chosen))
        differences.append(unit_scores(model, subject.data, units) - unit_scores(model, subject.data, decoys))
        present.append(inside)
    half = len(differences) // 2
    gaps = np.array(differences)
    spread = np.maximum(np.abs(gaps[:half]).mean(axis=(0, 1)), 1e-12)
    early, late = ((part / spread).reshape(-1, gaps.shape[2]) for part in (gaps[:half], gaps[half:]))
    # both orders of the two candidates: the classifier learns which sign of a difference speaks for the truth
    known, answers = np.vstack([early, -early]), np.repeat([True, False], len(early))
    judge = LogisticRegression(C=1.0, fit_intercept=False, max_iter=500).fit(np.clip(known, -20, 20), answers)
    return judge.decision_function(np.clip(late, -20, 20)) > 0, np.array(present[half:]).ravel()
