"""Attack 1: replay. The fit on a neighbouring data set with the same answers must ask for the same and release the same."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

import numpy as np

from tacit.audit.findings import REPLAY, Finding
from tacit.audit.subject import Subject
from tacit.audit.units import NeighbourPair, RatingUnits
from tacit.errors import PrivacyViolationError
from tacit.testing import check_neighbours


def replay(
    subject: Subject,
    pairs: Sequence[NeighbourPair],
    *,
    random_units: int = 3,
    seconds: float = math.inf,
    random_state: int = 0,
    step: Callable[[], None] = lambda: None,
) -> Finding:
    """Check crafted units and random ones; one violation disproves the claim with certainty.

    Parameters
    ----------
    subject : Subject
    pairs : sequence of Pair
        Neighbours with crafted units.
    random_units : int
        How many units of the data are taken out, one at a time.
    random_state : int
        Seed of their choice.
    seconds : float
        Start no further check after this time.
    step : callable
        Called after every check.
    """
    checked, largest = 0, 0.0
    begun = time.monotonic()
    listed = [*pairs, *_random_pairs(subject, random_units, random_state)]
    for pair in listed:
        if checked and time.monotonic() - begun > seconds:
            break
        try:
            report = check_neighbours(
                subject.released, pair.present.data, pair.absent.data, unit=-1, name="the audited fit"
            )
        except PrivacyViolationError as violation:
            return Finding(REPLAY, pair.name, None, 1.0, violation=str(violation), figures={"checked": checked + 1})
        checked += 1
        largest = max(largest, report.largest)
        step()
    return Finding(
        REPLAY,
        f"{checked} neighbouring data sets",
        None,
        1.0,
        remark="A replay shows that sums stay within their bounds and nothing else moves. It does not see the noise.",
        figures={"checked": checked, "largest fraction of a bound": largest},
    )


def _random_pairs(subject: Subject, count: int, random_state: int) -> list[NeighbourPair]:
    """Return neighbours that differ in a random unit of the data, which is taken out or exchanged for another one."""
    data = subject.data
    random = np.random.default_rng(random_state)
    chosen = random.choice(data.count, size=max(min(count, data.count - 2), 0), replace=False)
    exchanged = getattr(subject.estimator, "adjacency", "add-remove") == "replace-one"
    pairs = []
    for place in chosen.tolist():
        others, unit, other = data.take(np.delete(np.arange(data.count), place)), data.unit(place), None
        if isinstance(data, RatingUnits) and data.cells:  # who rated what is public: only the value may differ
            other = (*unit[:-1], random.choice(data.values, size=1))
        elif exchanged:
            other = data.unit(int(random.integers(data.count)))
        pairs.append(others.pair("a unit of the data", unit, other))
    return pairs
