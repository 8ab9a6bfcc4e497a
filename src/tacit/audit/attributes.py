"""Attack 4b: attribute inference. The attacker knows a unit but for one value, and guesses it by how well the model fits each.

Two candidates are offered, the true value and another one: of a column, a rating, a cell, a label or an item. A model learns
facts about the population, so that a guess is better than chance even for units that were not in the fit; only what is guessed
*better for units in the fit than for others* is a leak of theirs.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from tacit.audit.findings import ATTRIBUTES, Finding
from tacit.audit.journal import AuditJournal
from tacit.audit.membership import chosen_targets, without_noise
from tacit.audit.scores import unit_scores
from tacit.audit.subject import Subject
from tacit.audit.units import CellUnits, PersonUnits, RatingUnits, RowUnits, Unit, Units

if TYPE_CHECKING:
    import polars
    from scipy import sparse

LEAST_FITS = 4
"""Fits that are made even if the time limit is passed."""


def attribute_inference(
    subject: Subject,
    *,
    fits: int = 16,
    targets: int = 20,
    seconds: float = math.inf,
    level: float = 0.05,
    random_state: int = 0,
    journal: AuditJournal | None = None,
    step: Callable[[], None] = lambda: None,
) -> Finding:
    """Guess one value of units in the fit and of units outside it.

    Parameters
    ----------
    subject, fits, targets, seconds, level, random_state, journal, step
        As for `membership`.
    """
    random = np.random.default_rng(random_state)
    rest, units = chosen_targets(subject, targets, random)
    decoys = [_altered(subject.data, units, place, random) for place in range(len(units))]
    figures: dict[str, float] = {}
    leaks = {}
    for name, one in (("private", rest), ("without noise", without_noise(rest))):
        key = f"{ATTRIBUTES}: {name}: {subject.fingerprint}: {subject.data.digest()}: {random_state}"
        gaps, present = _gaps(
            one, units, decoys, fits=fits, seconds=seconds, random_state=random_state, journal=journal, key=key
        )
        right, inside = _guesses(gaps, present)
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


def _altered(data: Units, units: list[Unit], place: int, random: np.random.Generator) -> Unit:
    """Return the unit with one value exchanged: a rating, a cell, a label, an item, or the value of a column."""
    unit = units[place]
    if isinstance(data, RatingUnits | CellUnits):
        *where, values = unit
        return (*where, _exchanged(values, data.values, random))
    other = units[(place + 1 + int(random.integers(len(units) - 1))) % len(units)]
    row = unit[0]
    if isinstance(data, RowUnits) and data.y is not None:
        return row, _exchanged(unit[1], data.y, random)
    if hasattr(row, "iter_columns"):
        return _other_cell(data, row, other[0], random), None
    if hasattr(row, "tocsr"):
        return _other_item(row, random), None
    changed = row.copy()
    which = int(np.argmax(np.abs(row - other[0])))
    changed[0, which] = other[0][0, which]
    return changed, None


def _exchanged(
    values: NDArray[np.generic], known: NDArray[np.generic], random: np.random.Generator
) -> NDArray[np.generic]:
    """Return the values with one of them replaced by another value of the data."""
    changed = values.copy()
    which = int(random.integers(len(values)))
    unlike = np.unique(known[known != values[which]])
    changed[which] = random.choice(unlike) if len(unlike) else values[which]
    return changed


def _other_cell(
    data: Units, rows: polars.DataFrame, other: polars.DataFrame, random: np.random.Generator
) -> polars.DataFrame:
    """Return the rows of a table with the value of another unit in one column, a column in which they differ if there is one."""
    import polars

    owner = data.owner if isinstance(data, PersonUnits) else None
    names = [name for name in rows.columns if name != owner]
    differing = [name for name in names if rows[name][0] != other[name][0]] or names
    name = str(random.choice(differing))
    return rows.with_columns(polars.Series(name, [other[name][0]] * len(rows), dtype=rows[name].dtype))


def _other_item(row: sparse.csr_array, random: np.random.Generator) -> sparse.csr_array:
    """Return a user's interactions with one item exchanged for one that the user does not have."""
    from scipy.sparse import csr_array

    dense = np.asarray(row.todense()).ravel()
    stored, free = np.flatnonzero(dense), np.flatnonzero(dense == 0)
    if len(stored) and len(free):
        old, new = random.choice(stored), random.choice(free)
        dense[new], dense[old] = dense[old], 0.0
    return csr_array(dense[None])


def _gaps(
    subject: Subject,
    units: list[Unit],
    decoys: list[Unit],
    *,
    fits: int,
    seconds: float,
    random_state: int,
    journal: AuditJournal | None,
    key: str,
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Fit with random targets; return the numbers of the targets minus those of their decoys, and who was present."""
    noted = [] if journal is None else journal.read(key)
    differences = [np.array(one["gaps"]) for one in noted][:fits]
    present = [np.array(one["present"], dtype=bool) for one in noted][:fits]
    begun = time.monotonic()
    while len(differences) < fits:
        if len(differences) >= LEAST_FITS and time.monotonic() - begun > seconds:
            break
        inside = np.random.default_rng([random_state, len(differences)]).random(len(units)) < 0.5
        chosen = [unit for unit, drawn in zip(units, inside, strict=True) if drawn]
        model = subject.fitted(subject.data.with_units(chosen))
        differences.append(unit_scores(model, subject.data, units) - unit_scores(model, subject.data, decoys))
        present.append(inside)
        if journal is not None:
            journal.add(key, {"gaps": differences[-1].tolist(), "present": inside.tolist()})
    return np.array(differences), np.array(present)


def _guesses(gaps: NDArray[np.float64], present: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return, for every target in the second half of the fits, whether the guess was right and whether it was present."""
    from sklearn.linear_model import LogisticRegression

    half = len(gaps) // 2
    spread = np.maximum(np.abs(gaps[:half]).mean(axis=(0, 1)), 1e-12)
    early, late = ((part / spread).reshape(-1, gaps.shape[2]) for part in (gaps[:half], gaps[half:]))
    # both orders of the two candidates: the classifier learns which sign of a difference speaks for the truth
    known, answers = np.vstack([early, -early]), np.repeat([True, False], len(early))
    judge = LogisticRegression(C=1.0, fit_intercept=False, max_iter=500).fit(np.clip(known, -20, 20), answers)
    return judge.decision_function(np.clip(late, -20, 20)) > 0, present[half:].ravel()
