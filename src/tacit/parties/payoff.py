"""Did joining pay off? A party's own held-out records, predicted by the joint model and by a model of its own records alone.

Privacy
-------
The split costs no guarantee: each unit (row, or user) is held out by a keyed hash of its own content, so that adding or
removing one unit moves no other (`tacit.data.split` has the argument). Under replace-one adjacency the place of the unit is
hashed, which a replacement does not change. The party's own model and the errors are computed by the party from its own
records; they stay with it, and are not charged.
"""

from __future__ import annotations

import copy
import hashlib
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.split import held_out_pairs, held_out_rows
from tacit.errors import InvalidInputError, TacitError, Undisclosed, words
from tacit.estimators.base import Estimator
from tacit.estimators.private import PrivateFit
from tacit.estimators.registry import JOBS, RATINGS, RECORDS, RELATIONS
from tacit.parties.job import Job
from tacit.parties.models import PartyData

NORMAL_95 = 1.96
"""Quantile of the normal distribution for an interval with a confidence of 95%."""
LEAST_UNITS = 5
"""With fewer held-out units an interval means nothing, and none is stated."""
OWN_FITS = 10
"""A party's own private model is fitted this often: noise makes the error of a single fit vary, by a factor on few rows."""
OWN_SECONDS = 60.0
"""No further fit begins after this time."""


@dataclass(frozen=True, repr=False)
class HeldOutRecords(Undisclosed):
    """Records that the fit does not see: rows, or ratings of users whose other ratings it sees."""

    X: Any
    y: Any
    is_ratings: bool


@dataclass(frozen=True)
class Payoff:
    """Errors on a party's own held-out records, for that party only.

    Attributes
    ----------
    own, joint : float
        Mean squared error per number (or rating) of the party's own model and of the joint one. For private models `own` is the
        mean over `own_fits` fits, each with noise of its own.
    gain : float
        Fraction by which the joint error is below the own one; negative if it is above.
    interval : (float, float)
        95% interval of the gain, over held-out units and the noise of the own fits; the joint model is the one that there is.
    n_units : int
        Held-out rows, or users with held-out ratings.
    own_fits : int
    """

    own: float
    joint: float
    gain: float
    interval: tuple[float, float]
    n_units: int
    own_fits: int = 1

    def __str__(self) -> str:
        low, high = self.interval
        better = "lower" if self.gain >= 0 else "higher"
        verdict = "joining paid off" if low > 0 else "joining did not pay off" if high < 0 else "no clear difference"
        fits = f", the mean of {self.own_fits} fits" if self.own_fits > 1 else ""
        return (
            f"On {self.n_units} held-out units of this party the joint model's error is {100 * abs(self.gain):.1f}% {better} "
            f"than that of its own model ({self.joint:.4g} against {self.own:.4g}{fits}; 95% interval of the gain "
            f"{100 * low:.1f} to {100 * high:.1f}%): {verdict}."
        )


def hold_out(
    data: PartyData, job: Job, fraction: float, key: bytes, *, adjacency: str = "add-remove", unit: str = "row"
) -> tuple[PartyData, HeldOutRecords]:
    """Divide a party's records into those that are fitted and those that are held out; `key` must be secret.

    Parameters
    ----------
    data : PartyData
    job : Job
    fraction : float
        Fraction of the rows, or of the ratings, to hold out.
    key : bytes
    adjacency, unit : str
        Of the model's guarantee, if it has one.
    """
    kind = JOBS[job.model].data if job.model in JOBS else None
    if kind in (RELATIONS, RECORDS) or unit == "cell":
        held = {RELATIONS: "coupled relations", RECORDS: "a synthetic table, which has no error on single rows"}
        raise InvalidInputError(
            "a model of rows or of users to hold records out",
            words(held.get(str(kind), "a guarantee per cell")),
            "Leave out --held-out (--held-out 0).",
        )
    by_place = adjacency == "replace-one"
    if kind == RATINGS:
        return _without_ratings(data, fraction, key, by_place=by_place)
    rows = np.arange(data.X.shape[0]) if by_place else data.X
    out = held_out_rows(rows, None if by_place else data.y, fraction=fraction, key=key)
    y = None if data.y is None else np.asarray(data.y)
    kept = PartyData(data.X[~out], None if y is None else y[~out])
    if kept.X.shape[0] == 0:
        raise InvalidInputError(
            "a record to fit", words("none: all were held out"), "Hold out nothing with --held-out 0. Nothing was sent."
        )
    return kept, HeldOutRecords(data.X[out], None if y is None else y[out], is_ratings=False)


def _without_ratings(
    data: PartyData, fraction: float, key: bytes, *, by_place: bool
) -> tuple[PartyData, HeldOutRecords]:
    """Hold out ratings by their user's own content and their item."""
    from scipy.sparse import coo_array, csr_array

    X = csr_array(data.X)
    X.sum_duplicates()
    entries = X.tocoo()
    users = [
        str(place) if by_place else _content(X.indices[start:end], X.data[start:end])
        for place, (start, end) in enumerate(zip(X.indptr[:-1], X.indptr[1:], strict=True))
    ]
    rows, columns = entries.coords
    out = held_out_pairs([users[row] for row in rows], columns, fraction=fraction, key=key)
    parts = [
        coo_array((entries.data[chosen], (rows[chosen], columns[chosen])), shape=X.shape).tocsr()
        for chosen in (~out, out)
    ]
    return PartyData(parts[0]), HeldOutRecords(parts[1], None, is_ratings=True)


def _content(columns: NDArray[np.integer], values: NDArray[np.floating]) -> str:
    return hashlib.sha256(columns.astype("<i8").tobytes() + values.astype("<f8").tobytes()).hexdigest()


def own_models(estimator: Estimator, data: PartyData) -> list[Estimator]:
    """Fit this party's records alone, with the settings of the job; that stays here, so no ledger is charged.

    A private model is fitted several times, each time with new noise.
    """
    fits = OWN_FITS if isinstance(estimator, PrivateFit) and estimator.voided_by() is None else 1
    fitted: list[Estimator] = []
    until = time.monotonic() + OWN_SECONDS
    while not fitted or (len(fitted) < fits and time.monotonic() < until):
        alone = copy.copy(estimator)
        if isinstance(alone, PrivateFit):
            alone.set_params(ledger=None, dataset=None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted.append(alone.fit(data.X) if data.y is None else alone.fit(data.X, data.y))
    return fitted


def unit_errors(model: Estimator, held: HeldOutRecords) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return, for each held-out unit, its summed squared error and how many numbers that is."""
    if held.is_ratings:
        entries = held.X.tocoo()
        rows, columns = entries.coords
        wrong = (model.predict(rows, columns, unknown="mean") - entries.data) ** 2
        users, place = np.unique(rows, return_inverse=True)
        sums = np.bincount(place, wrong, len(users)).astype(np.float64)
        return sums, np.bincount(place, minlength=len(users)).astype(np.float64)
    X = np.asarray(held.X.toarray() if hasattr(held.X, "toarray") else held.X, dtype=np.float64)
    if held.y is not None:
        return (np.asarray(model.predict(held.X)) - held.y) ** 2, np.ones(len(held.y))
    if hasattr(model, "inverse_transform"):
        predicted = np.asarray(model.inverse_transform(model.transform(held.X)))
    else:
        predicted = np.asarray(model.mean_)[None]
    return np.sum((X - predicted) ** 2, axis=1), np.full(len(X), float(X.shape[1]))


def mean_error(models: Sequence[Estimator], held: HeldOutRecords) -> tuple[float, tuple[float, float], int]:
    """Return the mean squared error of a model, fitted once or several times, a 95% interval of it, and the number of units."""
    errors, counts = _errors(models, held)
    return (*_ratio(errors, np.broadcast_to(counts, errors.shape)), len(counts))


def compare(own: Sequence[Estimator], joint: Estimator, held: HeldOutRecords) -> Payoff | None:
    """Compare an own model, fitted once or several times, with the joint one on held-out units; None if there are too few."""
    errors, counts = _errors(own, held)
    others, _ = unit_errors(joint, held)
    if len(others) < LEAST_UNITS or not errors.sum() > 0:
        return None
    ratio, (low, high) = _ratio(others[None], errors)
    total = float(counts.sum())
    own_error, joint_error = float(errors.mean(axis=0).sum()) / total, float(others.sum()) / total
    return Payoff(own_error, joint_error, 1 - ratio, (1 - high, 1 - low), len(others), len(own))


def _errors(models: Sequence[Estimator], held: HeldOutRecords) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the errors of units by fit and unit, and how many numbers each unit has."""
    pairs = [unit_errors(model, held) for model in models]
    return np.stack([errors for errors, _ in pairs]), pairs[0][1]


def measured(
    estimator: Estimator, kept: PartyData, joint: Estimator, held: HeldOutRecords
) -> tuple[Payoff | None, str]:
    """Return the payoff of a joint model, and it or what prevented it in words."""
    try:
        payoff = compare(own_models(estimator, kept), joint, held)
    except (TacitError, ArithmeticError, ValueError) as error:
        return (
            None,
            f"Whether joining paid off was not measured: this party's own model failed ({type(error).__name__}).",
        )
    if payoff is None:
        return None, f"Whether joining paid off was not measured: fewer than {LEAST_UNITS} units were held out."
    return payoff, str(payoff)


def _ratio(above: NDArray[np.float64], below: NDArray[np.float64]) -> tuple[float, tuple[float, float]]:
    """Return a ratio of sums over units, each the mean of some fits, and its 95% interval.

    Both arrays are by fit and unit. The interval is by linearisation (Cochran 1977, section 6.3): the variance over units, of
    the fits' means, and over fits, of the units' sums, whose few fits count by Student's quantile.
    """
    from scipy.stats import t as student

    one, other = above.mean(axis=0), below.mean(axis=0)
    if len(one) < 2 or not other.sum() > 0:
        return (float(one.sum() / other.sum()) if other.sum() > 0 else np.nan), (-np.inf, np.inf)
    ratio = float(one.sum() / other.sum())
    units = (one - ratio * other) / other.mean()
    width = NORMAL_95**2 * float(np.var(units, ddof=1)) / len(one)
    fits = max(len(above), len(below))
    if fits > 1:
        sums = (above.sum(axis=1) - ratio * below.sum(axis=1)) / other.sum()
        width += float(student.ppf(0.975, fits - 1)) ** 2 * float(np.var(sums, ddof=1)) / fits
    return ratio, (ratio - np.sqrt(width), ratio + np.sqrt(width))
