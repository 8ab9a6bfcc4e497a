"""Everything that is measured about one release: distortion, use, attacks, and a verdict in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.measure.attacks import (
    Finding,
    attribute_inference,
    known_sample_regression,
    membership,
    noise_estimation,
    record_linkage,
    spectral_filtering,
)
from tacit.measure.classifiers import CLASSIFIERS
from tacit.measure.clusters import clustering_accuracy
from tacit.measure.correlation import canonical_correlation, correlation_measure
from tacit.measure.distortion import (
    attribute_rank_change,
    attribute_rank_maintenance,
    rank_maintenance,
    rank_position,
    value_difference,
)
from tacit.measure.neighbours import neighbour_overlap, neighbour_rank_change
from tacit.measure.pairs import Pair, table_pair
from tacit.measure.panel import PanelScore, TestRows, as_labels, classifier_panel
from tacit.measure.verdict import verdict
from tacit.validation import check_count

# Clusters and classifiers of larger tables are measured on a random choice of this many rows.
ROWS_FOR_USE = 20_000


@dataclass(frozen=True, eq=False)
class ReleaseMeasures:
    """What a release kept, and what it gives away.

    Parameters
    ----------
    distortion : dict of str to float
        Each metric by its name.
    n_clusters : int
        Number of clusters looked for.
    clustering_accuracy : float
        Share of rows that stay in their cluster.
    panel : tuple of PanelScore
        What classifiers learn; empty without labels.
    attacks : tuple of Finding
        What attackers recover.
    """

    distortion: dict[str, float]
    n_clusters: int
    clustering_accuracy: float
    panel: tuple[PanelScore, ...]
    attacks: tuple[Finding, ...]

    @property
    def verdict(self) -> str:
        """What is kept and what leaks, in words."""
        return verdict(self.clustering_accuracy, self.panel, self.attacks)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return {
            "verdict": self.verdict,
            "distortion": self.distortion,
            "n_clusters": self.n_clusters,
            "clustering_accuracy": self.clustering_accuracy,
            "panel": [asdict(score) for score in self.panel],
            "attacks": [finding.to_dict() for finding in self.attacks],
        }


def measure_release(
    original: Any,
    released: Any,
    labels: Any = None,
    *,
    n_neighbours: int = 10,
    n_clusters: int | None = None,
    classifiers: Sequence[str] = CLASSIFIERS,
    test_rows: TestRows = "original",
    random_state: int = 0,
    advance: Callable[[str], None] = lambda stage: None,
) -> ReleaseMeasures:
    """Measure a release by all metrics, the panel of classifiers if there are labels, and all attacks.

    Neighbours and clusters are measured with both tables in standard deviations of the original's columns, so that no unit
    counts more than another. Clusters and classifiers of tables of more than 20,000 rows are measured on a random
    choice of that many; neighbours and attacks choose as their own functions do.

    Parameters
    ----------
    original, released : array-like or data frame of shape (n_rows, n_columns)
        The table, without labels and without constant columns, and its release.
    labels : array-like of shape (n_rows,), optional
        The class of each row.
    n_neighbours : int
        The k of the neighbour metrics.
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
    pair = table_pair(original, released, least_rows=6, varying=True)
    classes = None if labels is None else as_labels(labels, len(pair.original))
    usual = 5 if classes is None else len(np.unique(classes))
    count = usual if n_clusters is None else check_count(n_clusters, "n_clusters")
    scaled = _in_deviations(pair)
    distortion = _distortion(pair, scaled, n_neighbours, random_state)
    advance("clusters and classifiers")
    some = _some_rows(len(pair.original), random_state)
    accuracy = clustering_accuracy(
        scaled.original[some], scaled.released[some], n_clusters=count, random_state=random_state
    )
    panel: tuple[PanelScore, ...] = ()
    if classes is not None:
        some = some[_has_company(classes[some])]
        panel = classifier_panel(
            pair.original[some],
            pair.released[some],
            classes[some],
            classifiers=classifiers,
            test_rows=test_rows,
            random_state=random_state,
        )
    advance("attacks")
    attacks = all_attacks(original, released, random_state=random_state)
    advance("report")
    return ReleaseMeasures(distortion, count, accuracy, panel, attacks)


def all_attacks(original: Any, released: Any, *, random_state: int = 0) -> tuple[Finding, ...]:
    """Run every attack with its own defaults; attribute inference only where there are two columns."""
    pair = table_pair(original, released, least_rows=6, varying=True)
    found: list[Finding] = [
        record_linkage(original, released, random_state=random_state),
        known_sample_regression(original, released, random_state=random_state),
        spectral_filtering(original, released),
        noise_estimation(original, released, method="bayes"),
        noise_estimation(original, released, method="pca"),
        membership(original, released, random_state=random_state),
    ]
    if len(pair.names) > 1:
        found.append(attribute_inference(original, released, random_state=random_state))
    return tuple(found)


def _distortion(pair: Pair, scaled: Pair, k: int, seed: int) -> dict[str, float]:
    tables, in_deviations = (pair.original, pair.released), (scaled.original, scaled.released)
    return {
        "value difference (VD)": value_difference(*tables),
        "rank position (RP)": rank_position(*tables),
        "rank maintenance (RM)": rank_maintenance(*tables),
        "attribute rank change (CP)": attribute_rank_change(*tables),
        "attribute rank maintenance (CK)": attribute_rank_maintenance(*tables),
        "correlation measure (CM)": correlation_measure(*tables),
        "canonical correlation (CCA)": canonical_correlation(*tables),
        f"neighbour overlap (of {k})": neighbour_overlap(*in_deviations, k=k, random_state=seed),
        f"neighbour rank change (of {k})": neighbour_rank_change(*in_deviations, k=k, random_state=seed),
    }


def _in_deviations(pair: Pair) -> Pair:
    mean, spread = pair.original.mean(axis=0), pair.original.std(axis=0)
    return Pair((pair.original - mean) / spread, (pair.released - mean) / spread, pair.names)


def _some_rows(n_rows: int, seed: int) -> NDArray[np.intp]:
    if n_rows <= ROWS_FOR_USE:
        return np.arange(n_rows)
    return np.sort(np.random.default_rng(seed).choice(n_rows, ROWS_FOR_USE, replace=False))


def _has_company(classes: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which rows have another of their class among those chosen."""
    _, places, counts = np.unique(classes, return_inverse=True, return_counts=True)
    found: NDArray[np.bool_] = counts[places] > 1
    return found
