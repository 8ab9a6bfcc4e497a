"""All measures of one release: distortion, use, attacks, and a verdict in words.

Measures are tried one by one; those that cannot be computed for a table are left out, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass
from functools import partial
from math import isfinite
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.errors import InvalidInputError, TacitError, words
from tacit.measure.attacks import (
    AttackResult,
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
    entropy_loss,
    rank_maintenance,
    rank_position,
    value_difference,
)
from tacit.measure.inputs import TablePair, table_pair
from tacit.measure.neighbours import neighbour_overlap, neighbour_rank_change
from tacit.measure.verdict import verdict
from tacit.validation import TableLike, check_choice, check_count, check_seed, reason_of

Value = TypeVar("Value")
# In larger tables, clusters and classifiers are measured on this many random rows. Set by hand: it bounds the time.
ROWS_FOR_USE = 20_000
# Squares of values and of differences within these limits, and sums of them, do not overflow or underflow.
_SMALLEST, _LARGEST = 1e-100, 1e100
NEIGHBOURS, CLUSTERS = 10, 5
"""Defaults: the number of neighbours, and the number of clusters of a table without classes. Set by hand."""


class Attempts:
    """Computes several measures, and keeps the reasons why some of them could not be computed.

    Attributes
    ----------
    left_out : dict of str to str
        The names of measures that were left out, with reasons.

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

    def take(self, name: str, measure: Callable[[], Value], *, asked: bool = False) -> Value | None:
        """Return the result of `measure`; if it raises an error or is not finite, keep the reason and return None.

        With `asked`, for a setting that the user gave, errors are raised.
        """
        try:
            result = measure()
        except ValueError as error:  # the errors of tacit, scikit-learn and numpy are of this type
            if asked:
                raise
            self.left_out[name] = reason(error)
            return None
        if not all(map(isfinite, _figures(result))):
            self.left_out[name] = "has no finite value here: the values are too large or too close together"
            return None
        return result


def reason(error: ValueError) -> str:
    """Return the reason of an error, as a phrase for a report."""
    if isinstance(error, TacitError):
        return f"needs {error.expected}; got {error.got}"
    return f"cannot be computed here: {reason_of(error)}"


def _figures(result: object) -> list[float]:
    """Return the numbers of a finding, a score or a plain number."""
    if isinstance(result, float):
        return [result]
    parts = result if isinstance(result, tuple) else vars(result).values() if is_dataclass(result) else ()
    return [figure for part in parts for figure in _figures(part)]


@dataclass(frozen=True, eq=False)
class ReleaseMeasures:
    """What a release keeps, and what it leaks.

    Parameters
    ----------
    distortion : dict of str to float
        The metrics, by name.
    n_clusters : int
        Number of clusters.
    clustering_accuracy : float or None
        Fraction of rows that stay in their cluster; None if it could not be computed.
    panel : tuple of PanelScore
        The scores of classifiers; empty without labels.
    attacks : tuple of Finding
        The results of attacks.
    left_out : dict of str to str
        The metrics, classifiers and attacks that could not be computed for this table, with reasons.
    """

    distortion: dict[str, float]
    n_clusters: int
    clustering_accuracy: float | None
    panel: tuple[PanelScore, ...]
    attacks: tuple[AttackResult, ...]
    left_out: dict[str, str] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """What the release keeps and leaks, in words."""
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
    original: TableLike,
    released: TableLike,
    labels: ArrayLike | None = None,
    *,
    unchanged: TableLike | None = None,
    n_neighbours: int | None = None,
    n_clusters: int | None = None,
    classifiers: Sequence[str] = CLASSIFIERS,
    test_rows: TestRows = "original",
    random_state: int = 0,
    advance: Callable[[str], None] = lambda stage: None,
) -> ReleaseMeasures:
    """Measure a release by all metrics, the panel of classifiers if there are labels, and all attacks.

    So that the units of columns do not matter, neighbours are measured in standard deviations of the original's columns, and
    clusters with columns scaled to the range from 0 to 1, as in `tacit.perturb`. In tables of more than 20,000 rows, clusters
    and classifiers are measured on that many random rows; for neighbours and attacks, the defaults of their functions apply.

    Measures that cannot be computed for a table (canonical correlations of more columns than rows, a class of one row) are left
    out, with the reason in `left_out`. If the user asked for one by a setting, this is an error; so are tables and labels that
    do not fit together.

    Parameters
    ----------
    original, released : array-like or data frame of shape (n_rows, n_columns)
        The table, without labels and without constant columns, and its release.
    labels : array-like of shape (n_rows,), optional
        The class of each row. No attack uses it.
    unchanged : array-like or data frame of shape (n_rows, n_unchanged), optional
        Columns, of any type, that were released unchanged. Rows are linked by them, alone and together with the others.
    n_neighbours : int, optional
        The k of the neighbour metrics; 10 if not given.
    n_clusters : int, optional
        Number of clusters; the number of classes if not given, or five without labels.
    classifiers, test_rows :
        As in `classifier_panel`.
    random_state : int
        Seed of all choices.
    advance : callable
        Called with the name of each of the four stages when it begins.

    Returns
    -------
    ReleaseMeasures

    Examples
    --------
    >>> generator = np.random.default_rng(0)
    >>> table = generator.normal(size=(200, 3))
    >>> result = measure_release(table, table + 0.1 * generator.normal(size=table.shape))
    >>> result.attacks[0].leaks, result.panel
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
        chosen = some[_in_larger_classes(classes[some], attempts)]
        panel = _panel(pair, classes, chosen, names, attempts, test_rows=test_rows, random_state=random_state)
    advance("attacks")
    runs: dict[str, Callable[[], AttackResult]] = {
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


def all_attacks(original: TableLike, released: TableLike, *, random_state: int = 0) -> tuple[AttackResult, ...]:
    """Run every attack with its own defaults; attribute inference only if there are at least two columns."""
    pair = table_pair(original, released, least_rows=6, varying=True)
    alone = len(pair.names) == 1
    return tuple(
        run(original, released, random_state)
        for name, run in ATTACKS.items()
        if not (alone and name == "attribute inference")
    )


ATTACKS: dict[str, Callable[[TableLike, TableLike, int], AttackResult]] = {
    "record linkage": lambda a, b, seed: record_linkage(a, b, random_state=seed),
    "known-sample regression": lambda a, b, seed: known_sample_regression(a, b, random_state=seed),
    "spectral filtering": lambda a, b, seed: spectral_filtering(a, b),
    "Bayes estimate of the noise": lambda a, b, seed: noise_estimation(a, b, method="bayes"),
    "principal components without the noise": lambda a, b, seed: noise_estimation(a, b, method="pca"),
    "membership": lambda a, b, seed: membership(a, b, random_state=seed),
    "attribute inference": lambda a, b, seed: attribute_inference(a, b, random_state=seed),
}
"""Every attack with its own defaults, by its name in a report."""


def _distortion(
    pair: TablePair, scaled: TablePair, asked: int | None, seed: int, attempts: Attempts
) -> dict[str, float]:
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
        "privacy loss by entropy (PL)": entropy_loss,
    }
    near: dict[str, Callable[..., float]] = {
        f"neighbour overlap (of {k})": neighbour_overlap,
        f"neighbour rank change (of {k})": neighbour_rank_change,
    }
    values = {name: attempts.take(name, partial(metric, *tables)) for name, metric in plain.items()}
    for name, metric in near.items():
        measure = partial(metric, *in_deviations, k=k, random_state=seed)
        values[name] = attempts.take(name, measure, asked=asked is not None)
    return {name: value for name, value in values.items() if value is not None}


def _panel(
    pair: TablePair,
    classes: NDArray[np.generic],
    rows: NDArray[np.intp],
    names: list[str],
    attempts: Attempts,
    **settings: Any,
) -> tuple[PanelScore, ...]:
    """Return the scores of the classifiers that can be computed; all use the same split of the rows."""
    present = np.unique(classes[rows])
    if len(present) < 2:
        got = "one" if len(present) else "none"
        attempts.left_out["classifiers"] = f"need at least two classes with at least two rows each; got {got}"
        return ()
    parts = pair.original[rows], pair.released[rows], classes[rows]
    tried = (attempts.take(name, partial(classifier_panel, *parts, classifiers=[name], **settings)) for name in names)
    return tuple(scores[0] for scores in tried if scores is not None)


def _usual_clusters(classes: NDArray[np.generic] | None) -> int:
    """Return the number of classes with more than one row, or the default if there are fewer than two."""
    count = 0 if classes is None else int(np.sum(np.unique(classes, return_counts=True)[1] > 1))
    return count if count > 1 else CLUSTERS


def _check_sizes(pair: TablePair) -> None:
    largest = max(float(np.abs(pair.original).max()), float(np.abs(pair.released).max()))
    narrowest = float(np.ptp(pair.original, axis=0).min())
    if largest > _LARGEST or narrowest < _SMALLEST:
        raise InvalidInputError(
            f"values up to {_LARGEST:g} in columns that are at least {_SMALLEST:g} wide",
            words("larger values" if largest > _LARGEST else "narrower columns"),
            "Give the columns in other units, in both tables.",
        )


def _in_deviations(pair: TablePair) -> TablePair:
    mean, spread = pair.original.mean(axis=0), pair.original.std(axis=0)
    return TablePair((pair.original - mean) / spread, (pair.released - mean) / spread, pair.names)


def _some_rows(n_rows: int, seed: int) -> NDArray[np.intp]:
    if n_rows <= ROWS_FOR_USE:
        return np.arange(n_rows)
    # A choice with a public seed is fine here: a measurement has no guarantee and stays with the holder.
    return np.sort(np.random.default_rng(seed).choice(n_rows, ROWS_FOR_USE, replace=False))


def _in_larger_classes(classes: NDArray[np.generic], attempts: Attempts) -> NDArray[np.bool_]:
    """Return which rows belong to a class with at least two of the chosen rows, so that it can be learned and tested."""
    _, places, counts = np.unique(classes, return_inverse=True, return_counts=True)
    rare = int((counts < 2).sum())
    if rare:
        why = "classifiers need two rows of a class, one to learn from and one to test on"
        attempts.left_out[f"{rare} classes of one row" if rare > 1 else "a class of one row"] = why
    in_larger: NDArray[np.bool_] = counts[places] > 1
    return in_larger
