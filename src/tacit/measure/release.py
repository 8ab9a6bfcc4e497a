"""Everything that is measured about one release: distortion, use, attacks, and a verdict in words.

Measures are tried one by one; those that a table does not allow are left out, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass
from functools import partial
from math import isfinite
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tacit.errors import InvalidInputError, TacitError, words
from tacit.measure.attacks import (
    Finding,
    attribute_inference,
    known_sample_regression,
    membership,
    noise_estimation,
    record_linkage,
    spectral_filtering,
    unchanged_linkage,
)
from tacit.measure.classifiers import CLASSIFIERS, PanelScore, TestRows, classifier_panel, label_values
from tacit.measure.clusters import clustering_accuracy
from tacit.measure.correlation import canonical_correlation, correlation_measure
from tacit.measure.distortion import (
    attribute_rank_change,
    attribute_rank_maintenance,
    rank_maintenance,
    rank_position,
    value_difference,
)
from tacit.measure.inputs import Pair, table_pair
from tacit.measure.neighbours import neighbour_overlap, neighbour_rank_change
from tacit.measure.verdict import verdict
from tacit.validation import check_choice, check_count, check_seed, reason_of

Found = TypeVar("Found")
# Clusters and classifiers of larger tables are measured on a random choice of this many rows.
ROWS_FOR_USE = 20_000
# Squares, and sums of them, of values and of differences between these sizes can be computed.
_SMALLEST, _LARGEST = 1e-100, 1e100
NEIGHBOURS, CLUSTERS = 10, 5
"""The number of neighbours, and without classes the number of clusters, if none is given."""


class Attempts:
    """Keeps, while several measures are taken, why some of them could not be.

    Attributes
    ----------
    left_out : dict of str to str
        What was left out, and why, in words.

    Examples
    --------
    >>> from tacit.measure import canonical_correlation
    >>> attempts = Attempts()
    >>> attempts.take("CCA", lambda: canonical_correlation([[1.0, 2.0], [2.0, 1.0]], [[1.0, 2.0], [2.0, 1.0]]))
    >>> attempts.left_out["CCA"]
    'needs more rows than the 2 columns; got 2 rows'
    """

    def __init__(self) -> None:
        self.left_out: dict[str, str] = {}

    def take(self, name: str, measure: Callable[[], Found], *, asked: bool = False) -> Found | None:
        """Return what `measure` finds; None, and a reason kept, where it refuses or finds no finite number.

        `asked` is for what the user set by hand: that it cannot be had is then an error, not something to leave out.
        """
        try:
            found = measure()
        except ValueError as error:  # tacit's refusals, and those of scikit-learn and numpy, are of this kind
            if asked:
                raise
            self.left_out[name] = reason(error)
            return None
        if not all(map(isfinite, _figures(found))):
            self.left_out[name] = "has no finite value here: the values are too large or too close together"
            return None
        return found


def reason(error: ValueError) -> str:
    """Return why something was refused, as a phrase for a report."""
    if isinstance(error, TacitError):
        return f"needs {error.expected}; got {error.got}"
    return f"cannot be computed here: {reason_of(error)}"


def _figures(found: Any) -> list[float]:
    """Return the numbers that a finding, a score or a plain figure consists of."""
    if isinstance(found, float):
        return [found]
    parts = found if isinstance(found, tuple) else vars(found).values() if is_dataclass(found) else ()
    return [figure for part in parts for figure in _figures(part)]


@dataclass(frozen=True, eq=False)
class ReleaseMeasures:
    """What a release kept, and what it gives away.

    Parameters
    ----------
    distortion : dict of str to float
        Each metric by its name.
    n_clusters : int
        Number of clusters looked for.
    clustering_accuracy : float or None
        Share of rows that stay in their cluster; None where k-means could not be asked.
    panel : tuple of PanelScore
        What classifiers learn; empty without labels.
    attacks : tuple of Finding
        What attackers recover.
    left_out : dict of str to str
        What could not be measured on this table, and why: names of metrics, of classifiers, of attacks.
    """

    distortion: dict[str, float]
    n_clusters: int
    clustering_accuracy: float | None
    panel: tuple[PanelScore, ...]
    attacks: tuple[Finding, ...]
    left_out: dict[str, str] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """What is kept and what leaks, in words."""
        missed = sum(name in self.left_out for name in ATTACKS)
        return verdict(self.clustering_accuracy, self.panel, self.attacks, n_missed=missed)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return {
            "verdict": self.verdict,
            "distortion": self.distortion,
            "n_clusters": self.n_clusters,
            "clustering_accuracy": self.clustering_accuracy,
            "panel": [asdict(score) for score in self.panel],
            "attacks": [finding.to_dict() for finding in self.attacks],
            "left_out": self.left_out,
        }


def measure_release(
    original: Any,
    released: Any,
    labels: Any = None,
    *,
    unchanged: Any = None,
    n_neighbours: int | None = None,
    n_clusters: int | None = None,
    classifiers: Sequence[str] = CLASSIFIERS,
    test_rows: TestRows = "original",
    random_state: int = 0,
    advance: Callable[[str], None] = lambda stage: None,
) -> ReleaseMeasures:
    """Measure a release by all metrics, the panel of classifiers if there are labels, and all attacks.

    So that no unit counts more than another, neighbours are measured with both tables in standard deviations of the
    original's columns, and clusters with columns from 0 to 1, in which methods of `tacit.perturb` look for them. Clusters
    and classifiers of tables of more than 20,000 rows are measured on a random choice of that many; neighbours and attacks
    choose as their own functions do.

    What a small or odd table does not allow is left out, with the reason in `left_out`, where the function itself would
    raise: as canonical correlations of more columns than rows, or a class of one row. What is asked by hand and cannot be
    had is an error all the same, and so are tables and labels that do not fit together.

    Parameters
    ----------
    original, released : array-like or data frame of shape (n_rows, n_columns)
        The table, without labels and without constant columns, and its release.
    labels : array-like of shape (n_rows,), optional
        The class of each row. No attack uses it.
    unchanged : array-like or data frame of shape (n_rows, n_unchanged), optional
        Columns, of any kind, that were released as they are. Rows are linked by them, alone and together with the others.
    n_neighbours : int, optional
        The k of the neighbour metrics; 10 if not given.
    n_clusters : int, optional
        Number of clusters; if not given, the number of classes, or five without labels.
    classifiers, test_rows :
        As in `classifier_panel`.
    random_state : int
        Seed of all choices.
    advance : callable
        Is told the name of each stage as it begins; there are four.

    Returns
    -------
    ReleaseMeasures
        All of it.

    Examples
    --------
    >>> generator = np.random.default_rng(0)
    >>> table = generator.normal(size=(200, 3))
    >>> found = measure_release(table, table + 0.1 * generator.normal(size=table.shape))
    >>> found.attacks[0].leaks, found.panel
    (True, ())
    """
    advance("distortion")
    pair = table_pair(original, released, least_rows=2, varying=True)
    _check_sizes(pair)
    classes = None if labels is None else label_values(labels, len(pair.original))
    names = [check_choice(name, "classifiers", CLASSIFIERS) for name in classifiers]
    check_choice(test_rows, "test_rows", ("original", "released"))
    check_seed(random_state)
    count = _usual_clusters(classes) if n_clusters is None else check_count(n_clusters, "n_clusters")
    attempts = Attempts()
    scaled = _in_deviations(pair)
    distortion = _distortion(pair, scaled, n_neighbours, random_state, attempts)
    advance("clusters and classifiers")
    some, width = _some_rows(len(pair.original), random_state), np.ptp(pair.original, axis=0)
    accuracy = attempts.take(
        "clusters",
        lambda: clustering_accuracy(
            pair.original[some] / width, pair.released[some] / width, n_clusters=count, random_state=random_state
        ),
        asked=n_clusters is not None,
    )
    panel: tuple[PanelScore, ...] = ()
    if classes is not None:
        chosen = some[_with_company(classes[some], attempts)]
        panel = _panel(pair, classes, chosen, names, attempts, test_rows=test_rows, random_state=random_state)
    advance("attacks")
    runs: dict[str, Callable[[], Finding]] = {
        name: partial(run, original, released, random_state) for name, run in ATTACKS.items()
    }
    if unchanged is not None:
        runs["record linkage"] = partial(
            record_linkage, original, released, unchanged=unchanged, random_state=random_state
        )
        runs = {"linkage by unchanged columns": partial(unchanged_linkage, unchanged), **runs}
    tried = (attempts.take(name, run) for name, run in runs.items())
    attacks = tuple(finding for finding in tried if finding is not None)
    advance("report")
    return ReleaseMeasures(distortion, count, accuracy, panel, attacks, attempts.left_out)


def all_attacks(original: Any, released: Any, *, random_state: int = 0) -> tuple[Finding, ...]:
    """Run every attack with its own defaults; attribute inference only where there are two columns."""
    pair = table_pair(original, released, least_rows=6, varying=True)
    alone = len(pair.names) == 1
    return tuple(
        run(original, released, random_state)
        for name, run in ATTACKS.items()
        if not (alone and name == "attribute inference")
    )


ATTACKS: dict[str, Callable[[Any, Any, int], Finding]] = {
    "record linkage": lambda a, b, seed: record_linkage(a, b, random_state=seed),
    "known-sample regression": lambda a, b, seed: known_sample_regression(a, b, random_state=seed),
    "spectral filtering": lambda a, b, seed: spectral_filtering(a, b),
    "Bayes estimate of the noise": lambda a, b, seed: noise_estimation(a, b, method="bayes"),
    "principal components without the noise": lambda a, b, seed: noise_estimation(a, b, method="pca"),
    "membership": lambda a, b, seed: membership(a, b, random_state=seed),
    "attribute inference": lambda a, b, seed: attribute_inference(a, b, random_state=seed),
}
"""Every attack with its own defaults, by the name that it has in a report."""


def _distortion(pair: Pair, scaled: Pair, asked: int | None, seed: int, attempts: Attempts) -> dict[str, float]:
    k = NEIGHBOURS if asked is None else asked
    tables, in_deviations = (pair.original, pair.released), (scaled.original, scaled.released)
    plain: dict[str, Callable[..., float]] = {
        "value difference (VD)": value_difference,
        "rank position (RP)": rank_position,
        "rank maintenance (RM)": rank_maintenance,
        "attribute rank change (CP)": attribute_rank_change,
        "attribute rank maintenance (CK)": attribute_rank_maintenance,
        "correlation measure (CM)": correlation_measure,
        "canonical correlation (CCA)": canonical_correlation,
    }
    near: dict[str, Callable[..., float]] = {
        f"neighbour overlap (of {k})": neighbour_overlap,
        f"neighbour rank change (of {k})": neighbour_rank_change,
    }
    found = {name: attempts.take(name, partial(metric, *tables)) for name, metric in plain.items()}
    for name, metric in near.items():
        measure = partial(metric, *in_deviations, k=k, random_state=seed)
        found[name] = attempts.take(name, measure, asked=asked is not None)
    return {name: value for name, value in found.items() if value is not None}


def _panel(
    pair: Pair, classes: NDArray[Any], rows: NDArray[np.intp], names: list[str], attempts: Attempts, **settings: Any
) -> tuple[PanelScore, ...]:
    """Return the scores of those classifiers that can be had; all of them split the rows alike."""
    found = np.unique(classes[rows])
    if len(found) < 2:
        got = "one" if len(found) else "none"
        attempts.left_out["classifiers"] = f"need at least two classes with at least two rows each; got {got}"
        return ()
    parts = pair.original[rows], pair.released[rows], classes[rows]
    tried = (attempts.take(name, partial(classifier_panel, *parts, classifiers=[name], **settings)) for name in names)
    return tuple(scores[0] for scores in tried if scores is not None)


def _usual_clusters(classes: NDArray[Any] | None) -> int:
    """Return the number of classes that have more than one row, or the usual number where that is no clustering."""
    count = 0 if classes is None else int(np.sum(np.unique(classes, return_counts=True)[1] > 1))
    return count if count > 1 else CLUSTERS


def _check_sizes(pair: Pair) -> None:
    largest = max(float(np.abs(pair.original).max()), float(np.abs(pair.released).max()))
    narrowest = float(np.ptp(pair.original, axis=0).min())
    if largest > _LARGEST or narrowest < _SMALLEST:
        raise InvalidInputError(
            f"values up to {_LARGEST:g} in columns that are at least {_SMALLEST:g} wide",
            words("larger values" if largest > _LARGEST else "narrower columns"),
            "Give the columns in other units, in both tables.",
        )


def _in_deviations(pair: Pair) -> Pair:
    mean, spread = pair.original.mean(axis=0), pair.original.std(axis=0)
    return Pair((pair.original - mean) / spread, (pair.released - mean) / spread, pair.names)


def _some_rows(n_rows: int, seed: int) -> NDArray[np.intp]:
    if n_rows <= ROWS_FOR_USE:
        return np.arange(n_rows)
    # A choice by place with a public seed is fine here: a measurement carries no guarantee and stays with the holder.
    return np.sort(np.random.default_rng(seed).choice(n_rows, ROWS_FOR_USE, replace=False))


def _with_company(classes: NDArray[Any], attempts: Attempts) -> NDArray[np.bool_]:
    """Return which rows have another of their class among those chosen; the others cannot be learned from and tested."""
    _, places, counts = np.unique(classes, return_inverse=True, return_counts=True)
    rare = int((counts < 2).sum())
    if rare:
        why = "classifiers need two rows of a class, one to learn from and one to test on"
        attempts.left_out[f"{rare} classes of one row" if rare > 1 else "a class of one row"] = why
    found: NDArray[np.bool_] = counts[places] > 1
    return found
