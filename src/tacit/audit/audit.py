"""One call audits a model: attacks from the cheapest to the most expensive, each with its part of the level."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.audit.attributes import attribute_inference
from tacit.audit.canaries import candidate_pairs
from tacit.audit.findings import (
    ATTRIBUTES,
    MANY_RUNS,
    MEMBERSHIP,
    ONE_RUN,
    PRESENCE,
    REPLAY,
    WHITE_BOX,
    Finding,
    rounded_down,
)
from tacit.audit.journal import AuditJournal
from tacit.audit.membership import membership
from tacit.audit.one_run import one_run
from tacit.audit.plants import BUGS, Bug
from tacit.audit.presence import many_runs, presence_finding
from tacit.audit.replay import replay
from tacit.audit.result import Audit, Caught
from tacit.audit.subject import Subject
from tacit.audit.units import NeighbourPair, Unit, units_of
from tacit.audit.white_box import white_box, worst_pair
from tacit.estimators.base import Estimator
from tacit.validation import check_choice, check_count, check_rate, check_seed

ATTACKS = (REPLAY, WHITE_BOX, ONE_RUN, MANY_RUNS, MEMBERSHIP, ATTRIBUTES, PRESENCE)
FAST = (REPLAY, WHITE_BOX, ONE_RUN, MEMBERSHIP)
"""Attacks of an audit that is not deep. A model without the noise of a channel is attacked by many runs too."""
STATISTICAL = tuple(name for name in ATTACKS if name != REPLAY)
"""Attacks that state lower bounds or p-values, which may be wrong; they share the level."""
STAGES = {
    REPLAY: "neighbouring data sets with the same answers",
    WHITE_BOX: "likelihood ratios of all noisy answers",
    ONE_RUN: "many canaries in one fit",
    MANY_RUNS: "telling two data sets apart by the released model",
    MEMBERSHIP: "shadow models",
    ATTRIBUTES: "guessing one value of a unit",
    PRESENCE: "runs on random data sets",
}
UNITS = 200
"""Units of a white-box run: neither bounds nor noise depend on their number, and small fits are fast."""
BUG_RUNS = 40
"""Runs of the white-box attack on a planted bug."""
BUG_TIMES = 3.0
"""All bugs together may take this many times as long as one attack. Set by hand."""
LEAST_BUG_RUNS = 8
"""Fewer, if they take longer than the time of an attack: enough for all but models that release a handful of numbers."""


def audit(
    estimator: Estimator,
    data: Any,
    *,
    attacks: Sequence[str] | None = None,
    deep: bool = False,
    runs: int | None = None,
    seconds: float | None = None,
    level: float = 0.05,
    bugs: bool = True,
    made_up: bool = False,
    journal: str | os.PathLike[str] | None = None,
    random_state: int = 0,
    progress: Callable[[str], None] = lambda stage: None,
    insecure_seed: int | None = None,
) -> Audit:
    """Attack a model, and return what the attacks show beside what the model claims.

    Parameters
    ----------
    estimator : estimator
        Not fitted. Its settings are audited. No ledger is charged: nothing leaves.
    data : object
        What its `fit` takes: rows; a tuple of rows and labels; a tuple of users, items and ratings; a list of relations.
    attacks : sequence of str, optional
        Of "replay", "white box", "one run", "many runs", "membership", "attributes" and "presence"; if not given, all with
        `deep`, and otherwise replay, white box, one run (or many, where the model allows no crowd of canaries in one) and
        membership. Those that do not fit the model are left out.
    deep : bool, default=False
        More runs and all attacks; for hours. Without it, a first answer within about a minute.
    runs : int, optional
        Runs of the white-box attack; 400, or 10,000 with `deep`.
    seconds : float, optional
        Time for each attack; 10, or without limit with `deep`.
    level : float, default=0.05
        Probability that any statement of the audit is wrong, all tests together.
    bugs : bool, default=True
        Whether to plant bugs in the model and see which the attacks catch.
    made_up : bool, default=False
        Whether the data are made up; then the result may be published.
    journal : path-like, optional
        A file in which runs are noted, so that an interrupted audit continues. It stays with the holder.
    random_state : int, default=0
        Seed of the choices of the attacks.
    progress : callable, optional
        Called with the name of every stage.
    insecure_seed : int, optional
        For tests of the audit: reproducible noise.

    Returns
    -------
    Audit

    Examples
    --------
    >>> import numpy as np
    >>> from tacit import PrivateMoments
    >>> from tacit.audit import audit
    >>> X = np.random.default_rng(0).dirichlet(np.ones(3), size=100)
    >>> found = audit(PrivateMoments(epsilon=1.0), X, attacks=["white box"], runs=200, bugs=False, insecure_seed=1)
    >>> bool(0.7 < found.lower_bound < 1.0), len(found.violations)
    (True, 0)
    """
    begun = time.monotonic()
    check_rate(level, "level")
    random = np.random.default_rng(check_seed(random_state))
    runs = (10_000 if deep else 400) if runs is None else check_count(runs, "runs", least=40)
    seconds = (math.inf if deep else 10.0) if seconds is None else seconds
    whole = Subject.of(estimator, units_of(estimator, data), seed=insecure_seed)
    noted = None if journal is None else AuditJournal(journal)
    progress("reading the plan")
    small = whole.smaller(UNITS, random)
    pairs = candidate_pairs(estimator, small.data)
    progress("choosing the worst unit")
    worst = _worst(small, pairs, seconds, noted) if small.plan is not None else pairs[0]
    wanted = chosen_attacks(attacks, deep=deep, noisy=small.plan is not None)
    effort = _Effort(
        whole,
        small,
        [worst, *(pair for pair in pairs if pair is not worst)],
        deep,
        runs,
        seconds,
        level / max(sum(name in STATISTICAL for name in wanted), 1),
        noted,
        random_state,
    )
    findings: list[Finding] = []
    for name in wanted:
        progress(f"{name}: {STAGES[name]}{_so_far(findings)}")
        finding = effort.run(name)
        if finding is None and name == ONE_RUN and attacks is None and MANY_RUNS not in wanted:  # at the same level
            progress(f"{MANY_RUNS}: {STAGES[MANY_RUNS]}{_so_far(findings)}")
            finding = effort.run(MANY_RUNS)
        findings += [] if finding is None else [finding]
    caught: tuple[Caught, ...] = ()
    if bugs and small.plan is not None:
        progress(f"planting bugs{_so_far(findings)}")
        caught = _all_caught(small, worst, level, seconds)
    epsilon, delta = small.claimed
    plan = small.plan
    return Audit(
        type(estimator).__name__,
        small.settings,
        small.fingerprint,
        epsilon,
        delta,
        "row" if plan is None else plan.unit,
        getattr(estimator, "adjacency", "add-remove") if plan is None else plan.adjacency,
        level,
        tuple(findings),
        caught,
        made_up,
        time.monotonic() - begun,
    )


@dataclass(frozen=True)
class _Effort:
    """What the attacks of one audit share: the model, how long they may take, and their part of the level."""

    whole: Subject
    small: Subject
    pairs: Sequence[NeighbourPair]
    deep: bool
    runs: int
    seconds: float
    level: float
    journal: AuditJournal | None
    random_state: int

    def run(self, attack: str) -> Finding | None:
        """Run one attack; None if it does not fit the model."""
        small, worst, deep = self.small, self.pairs[0], self.deep
        timed: dict[str, Any] = {"seconds": self.seconds}
        noted: dict[str, Any] = {"level": self.level, "journal": self.journal}
        seeded: dict[str, Any] = {"random_state": self.random_state}
        attempts: dict[str, Callable[[], Finding | None]] = {
            REPLAY: lambda: replay(small, self.pairs if deep else self.pairs[:2], **timed, **seeded),
            WHITE_BOX: lambda: white_box(small, worst, runs=self.runs, **timed, **noted),
            ONE_RUN: lambda: one_run(self.whole, canaries=2000 if deep else 500, **noted, **seeded),
            MANY_RUNS: lambda: many_runs(small, worst, runs=2000 if deep else 200, **timed, **noted),
            MEMBERSHIP: lambda: membership(small, fits=256 if deep else 24, **timed, **noted, **seeded),
            ATTRIBUTES: lambda: attribute_inference(small, **timed, **noted, **seeded),
            PRESENCE: lambda: self._presence(samples=100 if deep else 20, **timed, **noted, **seeded),
        }
        return attempts[attack]()

    def _presence(self, **settings: Any) -> Finding:
        rest, units = self._apart()
        return presence_finding(rest, units, **settings)

    def _apart(self) -> tuple[Subject, list[tuple[str, Unit]]]:
        """Return the subject without some random units, and these: a database without a unit must not have it."""
        data = self.small.data
        chosen = np.random.default_rng(self.random_state).choice(
            data.count, size=min(3, data.count // 2), replace=False
        )
        units = [(f"random unit {number}", data.unit(int(place))) for number, place in enumerate(chosen, 1)]
        return self.small.on(data.take(np.setdiff1d(np.arange(data.count), chosen))), units


def chosen_attacks(attacks: Sequence[str] | None, *, deep: bool, noisy: bool) -> tuple[str, ...]:
    """Return the names of the attacks to run."""
    if attacks is None:
        return ATTACKS if deep else FAST if noisy else (*FAST, MANY_RUNS)
    return tuple(check_choice(name, "attacks", ATTACKS) for name in attacks)


def _worst(
    subject: Subject, pairs: Sequence[NeighbourPair], seconds: float, journal: AuditJournal | None
) -> NeighbourPair:
    """Return the worst pair; a continued audit takes the one that it chose before, because other noise may choose another."""
    if journal is None:
        return worst_pair(subject, pairs, seconds=seconds)
    key = f"worst unit: {subject.fingerprint}: {subject.data.digest()}"
    before = journal.read(key)
    chosen = next((pair for pair in pairs if [pair.name] == before[:1]), None)
    if chosen is None:
        chosen = worst_pair(subject, pairs, seconds=seconds)
        journal.add(key, chosen.name)
    return chosen


def _so_far(findings: Sequence[Finding]) -> str:
    """Return the first answers in words, for whoever waits for the rest."""
    if any(one.violation for one in findings):
        return "; so far: the claim is disproved"
    bounds = [one.epsilon for one in findings if one.epsilon is not None]
    return f"; so far: epsilon of at least {rounded_down(max(bounds))}" if bounds else ""


def _all_caught(subject: Subject, pair: NeighbourPair, level: float, seconds: float) -> tuple[Caught, ...]:
    """Plant one bug after the other; no further one after some times the `seconds` of an attack."""
    begun, caught, plan = time.monotonic(), [], subject.plan
    for bug in BUGS:
        if plan is not None and bug.applies(plan) and time.monotonic() - begun <= BUG_TIMES * seconds:
            caught.append(_caught(subject, bug, pair, level, seconds))
    return tuple(caught)


def _caught(subject: Subject, bug: Bug, pair: NeighbourPair, level: float, seconds: float) -> Caught:
    """Plant a bug, attack again with few runs, and return the attacks that noticed it."""
    planted = subject.with_bug(bug.plant)
    attacks: Sequence[Callable[[], Finding]] = (
        lambda: white_box(planted, pair, runs=BUG_RUNS, least=LEAST_BUG_RUNS, seconds=seconds, level=level),
        lambda: replay(planted, [pair], random_units=0),
    )
    by: list[str] = []
    for attack in attacks:
        finding = attack()
        if finding.violation:
            by.append(finding.method)
            break
    return Caught(bug.kind, bug.name, tuple(by))
