"""Attack 5: presence (KSDP) for every model, with a statistic that is found automatically.

KSDP (Tsikhanovich et al. 2019) compares statistics of runs with and without a unit by Kolmogorov-Smirnov tests. The paper names
the search for statistics as future work. Here a classifier is trained on half of the runs to tell them apart by everything that
was released; its decision value on the other half is the statistic. The same runs with two fixed neighbouring data sets
give a lower bound on epsilon by the rates of a threshold (*many runs*), which needs no noise of a channel and no knowledge of
the program: it is the attack on algorithms without a guarantee.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.audit.bounds import halved_test
from tacit.audit.findings import MANY_RUNS, PRESENCE, Finding
from tacit.audit.journal import AuditJournal
from tacit.audit.scores import expanded, float_arrays
from tacit.audit.subject import Subject
from tacit.audit.units import NeighbourPair, Unit, Units
from tacit.audit.white_box import roc
from tacit.estimators.base import Estimator
from tacit.measure.ksdp.result import KSDP

Floats = NDArray[np.float64]
MOST_NUMBERS = 300
"""Numbers of a released model that the classifier sees; of larger models, this many fixed random sums."""
LEAST_RUNS = 32
"""Fewest runs, of both kinds together."""


def released_numbers(model: Estimator) -> Floats:
    """Return everything that a fitted model released as numbers; the same number of them in every fit of a model."""
    parts = [np.zeros(1)]
    for name, array in float_arrays(expanded(model._result.values)):
        flat = np.nan_to_num(array.ravel())
        if len(flat) > MOST_NUMBERS:
            # seeded by the array's name and size, so that all fits use the same sums
            seed = [len(flat), *name.encode()]
            signs = np.random.default_rng(seed).choice([-1.0, 1.0], size=(MOST_NUMBERS, len(flat)))
            flat = signs @ flat / math.sqrt(len(flat))
        padded = np.zeros(MOST_NUMBERS)
        padded[: len(flat)] = flat
        parts.append(padded if array.ndim == 2 else flat)
    scalars = [float(value) for value in model._result.values.values() if isinstance(value, int | float)]
    return np.concatenate([*parts, np.array(scalars)])


def _runs(
    subject: Subject,
    draw: Callable[[int], Units],
    *,
    runs: int,
    seconds: float,
    journal: AuditJournal | None,
    key: str,
) -> tuple[Floats, NDArray[np.bool_]]:
    """Fit alternately with and without the unit; return all numbers that were released, and which runs had it.

    `draw` takes the number of a run, from 0; even runs have the unit.
    """
    noted = [] if journal is None else journal.read(key)
    seen = [np.array(one) for one in noted][:runs]
    begun = time.monotonic()
    while len(seen) < runs:
        if len(seen) >= LEAST_RUNS and time.monotonic() - begun > seconds:
            break
        seen.append(released_numbers(subject.fitted(draw(len(seen)))))
        if journal is not None:
            journal.add(key, seen[-1].tolist())
    width = min(len(one) for one in seen)  # arrays whose length depends on the noise are cut to what all runs have
    return np.array([one[:width] for one in seen]), np.arange(len(seen)) % 2 == 0


def learned_scores(numbers: Floats, present: NDArray[np.bool_]) -> tuple[Floats, NDArray[np.bool_]]:
    """Train a classifier on the first half of the runs; return its decision values on the second half."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import QuantileTransformer, StandardScaler

    half = len(numbers) // 2
    varied = numbers[:half].std(axis=0) > 0
    if not varied.any():
        return np.zeros(len(numbers) - half), present[half:]
    ranks = QuantileTransformer(n_quantiles=min(half, 50), output_distribution="normal")
    classifier = make_pipeline(ranks, StandardScaler(), LogisticRegression(C=0.02, max_iter=500))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        classifier.fit(numbers[:half][:, varied], present[:half])
        return np.asarray(classifier.decision_function(numbers[half:][:, varied])), present[half:]


def many_runs(
    subject: Subject,
    pair: NeighbourPair,
    *,
    runs: int = 200,
    seconds: float = math.inf,
    level: float = 0.05,
    journal: AuditJournal | None = None,
) -> Finding:
    """Tell two fixed neighbouring data sets apart by what is released, in many runs with small fits.

    Parameters
    ----------
    subject : Subject
    pair : Pair
    runs : int
        Runs of both kinds together: the first half trains the classifier, a quarter fixes the threshold, a quarter is reported.
    seconds, level, journal
        As for the other attacks.
    """
    key = f"{MANY_RUNS}: {pair.name}: {subject.fingerprint}: {subject.data.digest()}"
    numbers, present = _runs(
        subject,
        lambda number: pair.absent.data if number % 2 else pair.present.data,
        runs=runs,
        seconds=seconds,
        journal=journal,
        key=key,
    )
    scores, truth = learned_scores(numbers, present)
    delta = subject.claimed[1]
    tested = halved_test(scores[truth], scores[~truth], delta=delta, level=level)
    claim = subject.claimed[0]
    asked = getattr(subject.estimator, "epsilon", math.inf)
    over = f"epsilon of at least {tested.epsilon:.4g}" if tested.epsilon > claim else ""
    if math.isinf(claim) and isinstance(asked, int | float) and tested.epsilon > asked:
        over = f"epsilon of at least {tested.epsilon:.4g}, where the published algorithm states {asked:g}"
    return Finding(
        MANY_RUNS,
        pair.name,
        tested.epsilon,
        1 - level,
        violation=over,
        remark="The attacker knows all units but one, and sees the released model only.",
        figures={"runs": len(numbers), "area under the ROC curve": tested.area, "mu by rates": tested.mu},
        curve=roc(scores[truth], scores[~truth]),
    )


def presence(
    subject: Subject,
    units: list[tuple[str, Unit]],
    *,
    samples: int = 40,
    size: int | None = None,
    seconds: float = math.inf,
    level: float = 0.05,
    random_state: int = 0,
    journal: AuditJournal | None = None,
) -> KSDP:
    """Measure whether the presence of units shows in runs on random databases: KSDP, for any model.

    Parameters
    ----------
    subject : Subject
    units : list of (str, unit)
        Named units, as `Units.unit` returns them; none of them may be among the subject's own.
    samples : int
        Runs with each unit, and as many without.
    size : int, optional
        Units of a random database; half of the data if not given.
    seconds, level, random_state, journal
        As for the other attacks.

    Returns
    -------
    KSDP
        Of one statistic, the classifier's; its p-values are corrected by Holm for the number of units. Its `samples` are those
        that were made in the time.
    """
    from scipy.stats import ks_2samp

    count = subject.data.count
    chosen = max(2, count // 2) if size is None else min(size, count)

    def database(unit: Unit, place: int, number: int) -> Units:
        random = np.random.default_rng([random_state, place, number])  # a continued audit draws no database twice
        drawn = subject.data.take(np.sort(random.choice(count, size=chosen, replace=False)))
        return drawn if number % 2 else drawn.added(unit)

    p_values, fewest = [], samples
    for place, (name, unit) in enumerate(units):
        key = f"{PRESENCE}: {name}: {subject.fingerprint}: {subject.data.digest()}: {random_state}"
        numbers, present = _runs(
            subject,
            lambda number, unit=unit, place=place: database(unit, place, number),  # type: ignore[misc]
            runs=2 * samples,
            seconds=seconds,
            journal=journal,
            key=key,
        )
        fewest = min(fewest, len(numbers) // 2)
        scores, truth = learned_scores(numbers, present)
        p_values.append([float(ks_2samp(scores[truth], scores[~truth]).pvalue)])
    return KSDP(
        tuple(range(len(units))),
        ("a classifier trained on half of the runs",),
        np.array(p_values),
        fewest,
        chosen,
        (),
        level,
    )


def presence_finding(subject: Subject, units: list[tuple[str, Unit]], **settings: Any) -> Finding:
    """Return the measurement as a finding; it has p-values and no bound on epsilon."""
    measured = presence(subject, units, **settings)
    names = [name for name, _ in units]
    seen = sum(measured.corrected <= measured.level)
    return Finding(
        PRESENCE,
        f"{len(units)} units on random databases",
        None,
        1 - measured.level,
        remark=(
            f"With {measured.samples} runs each way on {measured.size} units, the presence of {seen} of {len(units)} units "
            f"shows at level {measured.level:.3g} (Kolmogorov-Smirnov, corrected by Holm). More runs may show more."
        ),
        figures={f"corrected p-value of {name}": float(p) for name, p in zip(names, measured.corrected, strict=True)},
    )
