r"""Attack 4: membership inference on the released model itself, with shadow models.

Some units are *targets*: each is in a fit with probability 1/2, independently. The attacker repeats the fit many times (shadow
models), learns from the first half of the fits how the numbers of `tacit.audit.scores` look with and without each target,
and guesses the targets of the other half. As in LiRA (Carlini et al. 2022) the numbers are compared per target, by their
means and deviations without it.

Every bit belongs to one fit, so all fits together are one private mechanism for all bits, and the bounds for one run with
many canaries hold (`tacit.audit.bounds`). The same attack runs on fits without noise: if it finds nothing there, it is too
weak to say something about the private ones.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tacit.audit.bounds import area, epsilon_of, found_at, one_run_epsilon, one_run_mu
from tacit.audit.findings import MEMBERSHIP, Finding
from tacit.audit.journal import AuditJournal
from tacit.audit.scores import unit_scores
from tacit.audit.subject import Subject
from tacit.audit.units import Unit
from tacit.audit.white_box import roc
from tacit.errors import Undisclosed

Floats = NDArray[np.float64]
GUESSED = 0.2
"""Fraction of the targets that are guessed, half of them as present: those with the most extreme scores. About the best for mu
between 0.5 and 2."""
OTHERS = 40
"""Units that are in every fit. Noise and bounds do not depend on their number, and among few units one more shows."""
LEAST_FITS = 8
"""Fewest fits: from fewer nothing is learned."""
WEAK = 0.6
"""An attack that reaches no larger area under the ROC curve on fits without noise is called too weak."""


@dataclass(frozen=True, repr=False)
class Guessed(Undisclosed):
    """Scores of all targets in all attacked fits, and whether each was present."""

    scores: Floats
    present: NDArray[np.bool_]

    def bounds(self, *, delta: float, level: float, gaussian: bool) -> tuple[float, float, float]:
        """Return the lower bound on epsilon, and those of Steinke et al. and of Mahloujifar et al.

        The second needs a Gaussian mechanism and is the larger one there. Which of them counts depends on the model, not on
        the outcome, so that it has the whole level.
        """
        count = len(self.scores)
        sure = max(1, round(GUESSED * count / 2))
        order = np.argsort(self.scores, kind="stable")
        correct = int(self.present[order[-sure:]].sum() + (~self.present[order[:sure]]).sum())
        steinke = one_run_epsilon(count, 2 * sure, correct, delta=delta, level=level)
        if not gaussian:
            return steinke, steinke, 0.0
        by_mu = epsilon_of(one_run_mu(count, 2 * sure, correct, level=level), delta)
        return by_mu, steinke, by_mu

    @property
    def area(self) -> float:
        """The area under the ROC curve."""
        return area(self.scores[self.present], self.scores[~self.present])

    def found_at(self, false_alarms: float) -> float:
        """Return the fraction of present targets that are found at a rate of false alarms."""
        return found_at(self.scores[self.present], self.scores[~self.present], false_alarms)


def shadow_fits(
    subject: Subject,
    targets: list[Unit],
    *,
    fits: int,
    seconds: float,
    random_state: int,
    journal: AuditJournal | None,
    key: str,
) -> tuple[Floats, NDArray[np.bool_]]:
    """Fit again and again with random targets; return their numbers, fits x targets x numbers, and who was present.

    The coins of a fit follow from `random_state` and its place, so that a continued audit throws no coin twice.
    """
    noted = [] if journal is None else journal.read(key)
    numbers = [np.array(one["numbers"]) for one in noted][:fits]
    present = [np.array(one["present"], dtype=bool) for one in noted][:fits]
    begun = time.monotonic()
    while len(numbers) < fits:
        if len(numbers) >= LEAST_FITS and time.monotonic() - begun > seconds:
            break
        inside = np.random.default_rng([random_state, len(numbers)]).random(len(targets)) < 0.5
        data = subject.data.with_units([unit for unit, drawn in zip(targets, inside, strict=True) if drawn])
        numbers.append(unit_scores(subject.fitted(data), subject.data, targets))
        present.append(inside)
        if journal is not None:
            journal.add(key, {"numbers": numbers[-1].tolist(), "present": inside.tolist()})
    return np.array(numbers), np.array(present)


def guessed(numbers: Floats, present: NDArray[np.bool_], *, per_target: bool = True) -> Guessed:
    """Learn from the first half of the fits, and score the targets of the second half.

    With `per_target`, a target's numbers are compared with its own in fits without it; otherwise with those of all targets.
    """
    from sklearn.linear_model import LogisticRegression

    half = len(numbers) // 2
    if per_target:
        known = np.array([_without(numbers[:half, place], present[:half, place]) for place in range(numbers.shape[1])])
        centre, spread = known[:, 0], known[:, 1]
    else:
        centre, spread = numbers.mean(axis=1, keepdims=True), np.maximum(numbers.std(axis=1, keepdims=True), 1e-12)
    away = (numbers - centre) / spread
    shape = away.shape[2]
    classifier = LogisticRegression(C=1.0, max_iter=500)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        examples, answers = np.clip(away[:half], -20, 20).reshape(-1, shape), present[:half].ravel()
        if answers.all() or not answers.any():
            return Guessed(np.zeros(present[half:].size), present[half:].ravel())
        classifier.fit(examples, answers)
        scores = classifier.decision_function(np.clip(away[half:], -20, 20).reshape(-1, shape))
    return Guessed(np.asarray(scores), present[half:].ravel())


def _without(numbers: Floats, present: NDArray[np.bool_]) -> Floats:
    """Return mean and deviation of a target's numbers in the fits without it (in all, if it was in nearly all)."""
    absent = numbers[~present] if (~present).sum() >= 2 else numbers
    return np.array([absent.mean(axis=0), np.maximum(numbers.std(axis=0), 1e-12)])


def chosen_targets(subject: Subject, count: int, random: np.random.Generator) -> tuple[Subject, list[Unit]]:
    """Take random units out of the data: they are the targets; some others are in every fit."""
    count = min(count, subject.data.count // 2)
    places = random.permutation(subject.data.count)
    targets = [subject.data.unit(int(place)) for place in places[:count]]
    return subject.on(subject.data.take(np.sort(places[count : count + max(count, OTHERS)]))), targets


def membership(
    subject: Subject,
    *,
    fits: int = 32,
    targets: int = 20,
    seconds: float = math.inf,
    level: float = 0.05,
    random_state: int = 0,
    journal: AuditJournal | None = None,
    step: Callable[[], None] = lambda: None,
) -> Finding:
    """Attack the membership of random units of the data, in private fits and in fits without noise.

    Parameters
    ----------
    subject : Subject
    fits : int
        Shadow models of each kind.
    targets : int
        Units whose membership is attacked.
    seconds : float
        For the fits of each kind.
    level, random_state, journal, step
        As for the other attacks.
    """
    random = np.random.default_rng(random_state)
    rest, units = chosen_targets(subject, targets, random)
    delta = subject.claimed[1]
    guesses = {}
    for name, one in (("private", rest), ("without noise", without_noise(rest))):
        key = f"{MEMBERSHIP}: {name}: {subject.fingerprint}: {subject.data.digest()}: {random_state}"
        numbers, present = shadow_fits(
            one, units, fits=fits, seconds=seconds, random_state=random_state, journal=journal, key=key
        )
        guesses[name] = guessed(numbers, present)
        step()
    private, plain = guesses["private"], guesses["without noise"]
    lower, _, _ = private.bounds(delta=delta, level=level, gaussian=subject.is_full_batch)
    weak = plain.area < WEAK
    return Finding(
        MEMBERSHIP,
        f"{len(units)} units of the data in {2 * len(private.scores) // len(units)} fits",
        lower,
        1 - level,
        violation=f"epsilon of at least {lower:.4g}" if lower > subject.claimed[0] else "",
        remark=(
            "The attack is too weak to say something: it finds little in fits without noise either."
            if weak
            else "The same attack finds members in fits without noise."
        ),
        figures={
            "area under the ROC curve": private.area,
            "area without noise": plain.area,
            "found at 1% false alarms": private.found_at(0.01),
            "found at 1% false alarms, without noise": plain.found_at(0.01),
            "too weak": float(weak),
        },
        curve=roc(private.scores[private.present], private.scores[~private.present]),
    )


def without_noise(subject: Subject) -> Subject:
    """Return the subject with an infinite epsilon: the same fit without noise."""
    settings = {**subject.estimator.get_params(deep=False), "epsilon": math.inf}
    settings |= {name: None for name in ("ledger", "insecure_seed") if name in settings}
    if settings.get("method") == "published":
        return subject  # it has no noise of a channel
    return replace(subject, estimator=type(subject.estimator)(**settings), honest=None, plant=None)
