"""All methods on one table, over a range of distortions: utility for an analyst, and leakage to an attacker.

`frontier` selects the perturbed tables that no other beats in both, and `choice_in_words` describes the best of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.data.schema import CategoryColumn, ColumnSpec, NumberColumn, TableSchema
from tacit.errors import InvalidInputError, Undisclosed, words
from tacit.measure import attacks as attacking
from tacit.measure import classifier_scores, clustering_accuracy, label_agreement
from tacit.measure.attacks import AttackResult
from tacit.measure.clusters import cluster_labels
from tacit.measure.release import Attempts
from tacit.perturb.base import check_varied
from tacit.perturb.clusters import k_means
from tacit.perturb.registry import NEED_LABELS, PERTURBATIONS, accepts, named_release
from tacit.synthetic.private_table import PrivateTable
from tacit.validation import check_seed

PRIVATE = "private-table"
COMPARED = (*(name for name in PERTURBATIONS if name != "hide-membership"), PRIVATE)
TEST_FRACTION = 0.3
"""Fraction of the rows that is held out of every release, as in `tacit.measure.classifier_panel`."""
LEAST_ROWS = 10
"""Fewest rows of a comparison. Set by hand: attacks and classifiers need some rows on both sides of the split."""
BOUNDS_FROM_DATA = "bounds were computed from the data, for this comparison only: a real release needs a public schema"
# A release keeps the use of the table if it loses at most the first, and withstands attacks that gain at most the second. The
# thresholds were set by hand.
USE_LOST, LEAK_HELD = 0.02, 0.1
# Up to this AUC, nothing was learned (0.5 is chance).
CHANCE = 0.55


@dataclass(frozen=True)
class Compared:
    """One release among many.

    Attributes
    ----------
    method, setting : str
    utility : float
        AUC of a classifier trained on the release and tested on other, original rows; or clustering accuracy.
    leak : float
        The largest gain of an attack over an attacker without the release, as a fraction of the largest possible gain.
    attacks : dict of str to float
        The gain of each attack.
    distortion : float or None
        Value difference; None for synthetic rows, which have no original ones.
    note : str
        Why there are no figures, or a remark about them.
    """

    method: str
    setting: str
    utility: float | None = None
    leak: float | None = None
    attacks: dict[str, float] = field(default_factory=dict)
    distortion: float | None = None
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


def compare_releases(
    table: NDArray[np.float64],
    labels: NDArray[np.generic] | None = None,
    *,
    methods: Sequence[str] = COMPARED,
    distortions: Sequence[float] = (0.05, 0.1, 0.2, 0.4),
    epsilons: Sequence[float] = (0.5, 1.0, 3.0, 10.0),
    delta: float = 1e-6,
    schema: TableSchema | None = None,
    classifier: str = "logistic-l1",
    n_clusters: int = 3,
    settings: Mapping[str, Any] | None = None,
    names: Sequence[str] | None = None,
    random_state: int = 0,
    advance: Callable[[str], None] = lambda stage: None,
) -> list[Compared]:
    """Release a part of the table's rows with every method, and measure each release.

    Parameters
    ----------
    table : ndarray of shape (n_rows, n_columns)
        Numbers without missing values or constant columns.
    labels : ndarray, optional
        Classes. With labels, utility is the AUC of `classifier` trained on the release and tested on held-out rows in their
        original form. Without labels, it is the fraction of rows that k-means leaves in their cluster, with columns scaled to
        the range from 0 to 1.
    methods : sequence of str
    distortions : sequence of float
        Value differences to reach. If a method cannot reach one, the note says so.
    epsilons, delta
        For the private table.
    schema : TableSchema, mapping from str to ColumnSpec, or ColumnSpec, optional
        For the private table: the public description of the columns of `table`, by the names in `names`. If it is not given,
        bounds are computed from the data, and a note says so; this is acceptable for a comparison, not for a release. The
        classes are always those of `labels`.
    classifier : str
        See `tacit.measure.CLASSIFIERS`.
    n_clusters : int
    settings : mapping, optional
        Further settings, for the methods that have them, such as ``{"scale": "range"}``.
    names : sequence of str, optional
        Names of the columns; their indices if not given.
    random_state : int
    advance : callable
        Called with the name of each method before it runs.
    """
    seed = check_seed(random_state)
    columns = tuple(str(place) for place in range(table.shape[1])) if names is None else tuple(names)
    check_varied(table, columns)
    specs = None if schema is None else list(TableSchema.of(schema, columns).for_columns(columns).values())
    held_out = rows_held_out(labels, len(table), seed)
    rows, others = table[~held_out], table[held_out]
    classes = None if labels is None else (np.asarray(labels)[~held_out], np.asarray(labels)[held_out])
    comparison = _Comparison(rows, others, classes, classifier, n_clusters, seed)
    compared: list[Compared] = []
    for name in methods:
        advance(name)
        if name == PRIVATE:
            compared += [comparison.private(epsilon, delta, specs) for epsilon in epsilons]
        elif name in NEED_LABELS and labels is None:
            compared.append(Compared(name, "", note="needs labels"))
        else:
            compared += [comparison.release(name, target, dict(settings or {})) for target in distortions]
    return compared


@dataclass(frozen=True, repr=False)
class _Comparison(Undisclosed):
    """The rows, and how every release of them is measured."""

    rows: NDArray[np.float64]
    others: NDArray[np.float64]
    classes: tuple[NDArray[np.generic], NDArray[np.generic]] | None
    classifier: str
    n_clusters: int
    seed: int

    def release(self, name: str, target: float, settings: dict[str, Any]) -> Compared:
        setting = f"distortion {target:g}"
        usual = {"n_clusters": self.n_clusters, "random_state": self.seed}
        settings = {**{key: value for key, value in usual.items() if accepts(name, key)}, **settings}
        method = named_release(name, target_distortion=target, **settings)
        try:
            released = method.fit_transform(self.rows, None if self.classes is None else self.classes[0])
        except InvalidInputError as error:
            return Compared(name, setting, note=f"cannot: {error.expected}")
        utility = (
            clustering_accuracy(
                self._scaled(self.rows), self._scaled(released), self.n_clusters, random_state=self.seed
            )
            if self.classes is None
            else self._auc(released, self.classes[0])
        )
        return self._measured(name, setting, released, utility, distortion=method.distortion_)

    def private(self, epsilon: float, delta: float, specs: Sequence[ColumnSpec] | None) -> Compared:
        setting = f"epsilon {epsilon:g}"
        note = "" if specs is not None else BOUNDS_FROM_DATA
        width = self.rows.shape[1]
        if specs is None:
            specs = [NumberColumn(column.min(), column.max()) for column in self.rows.T]
        columns: dict[str, ColumnSpec] = {str(place): spec for place, spec in enumerate(specs)}
        data, label = self.rows, None
        if self.classes is not None:
            names, codes = np.unique(self.classes[0], return_inverse=True)
            data, label = np.column_stack([self.rows, codes]), str(width)
            columns[label] = CategoryColumn(tuple(range(len(names))))
        model = PrivateTable(epsilon=epsilon, delta=delta, schema=columns, label=label)
        try:
            model.fit(data)
        except InvalidInputError as error:
            return Compared(PRIVATE, setting, note=f"cannot: {error.expected}")
        drawn = model.sample(len(data), random_state=self.seed)
        released = drawn[:, :width]
        if self.classes is None:
            utility = self._clusters_found(released)
        else:
            utility = self._auc(released, names[drawn[:, width].astype(int)])
        return self._measured(PRIVATE, setting, released, utility, note=note)

    def _auc(self, released: NDArray[np.float64], labels: NDArray[np.generic]) -> float:
        assert self.classes is not None
        return float(classifier_scores(released, labels, self.others, self.classes[1], self.classifier)[1])

    def _clusters_found(self, synthetic: NDArray[np.float64]) -> float:
        """Return how well the clusters of synthetic rows agree with those of the original rows."""
        rows = self._scaled(self.rows)
        (before,) = cluster_labels((rows,), self.n_clusters, random_state=self.seed)
        after = k_means(self._scaled(synthetic), self.n_clusters, self.seed).predict(rows)
        return label_agreement(before, after)

    def _scaled(self, table: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return a table in units of the ranges of the original's columns, as methods use it for clusters."""
        scaled: NDArray[np.float64] = table / np.maximum(np.ptp(self.rows, axis=0), 1e-300)
        return scaled

    def _measured(
        self,
        name: str,
        setting: str,
        released: NDArray[np.float64],
        utility: float,
        *,
        distortion: float | None = None,
        note: str = "",
    ) -> Compared:
        seed, attempts = self.seed, Attempts()
        attacks: dict[str, Callable[..., AttackResult]] = {
            "record linkage": partial(attacking.record_linkage, sample=2000, random_state=seed),
            "regression": partial(attacking.known_sample_regression, random_state=seed),
            "Bayes estimate of the noise": attacking.noise_estimation,
            "spectral filtering": attacking.spectral_filtering,
            "attribute inference": partial(attacking.attribute_inference, sample=500, random_state=seed),
            "membership": partial(attacking.membership, outsiders=self.others, sample=2000, random_state=seed),
        }
        findings = {name: attempts.take(name, partial(attack, self.rows, released)) for name, attack in attacks.items()}
        gains = {name: gain(finding) for name, finding in findings.items() if finding is not None}
        notes = [note, *(f"without {name}: {why}" for name, why in attempts.left_out.items())]
        leak = max(gains.values()) if gains else None
        return Compared(name, setting, utility, leak, gains, distortion, "; ".join(filter(None, notes)))


def rows_held_out(labels: ArrayLike | None, n_rows: int, seed: int) -> NDArray[np.bool_]:
    """Return which rows are held out of every release, as test rows; each class of at least two rows is on both sides."""
    if n_rows < LEAST_ROWS:
        raise InvalidInputError(
            f"at least {LEAST_ROWS} rows to compare releases on", words(f"{n_rows}"), "Give more rows."
        )
    if labels is not None:
        _, counts = np.unique(np.asarray(labels), return_counts=True)
        if np.count_nonzero(counts > 1) < 2:
            raise InvalidInputError(
                "at least two classes with at least two rows each",
                words("one class, or classes of one row"),
                "Give another label, or none to compare by clusters.",
            )
    groups = np.zeros(n_rows, dtype=np.intp) if labels is None else np.unique(labels, return_inverse=True)[1]
    # A split with a public seed is fine here: everything that is computed from it stays with the holder.
    generator = np.random.default_rng(seed)
    kept = np.zeros(n_rows, dtype=bool)
    for group in range(int(groups.max()) + 1):
        rows = generator.permutation(np.flatnonzero(groups == group))
        kept[rows[: min(max(round(TEST_FRACTION * len(rows)), 1), len(rows) - 1)]] = True
    return kept


def gain(finding: AttackResult) -> float:
    """Return the gain of an attack over the baseline, as a fraction of the largest possible gain."""
    left = 1 - finding.baseline
    return 0.0 if left <= 0 else float(np.clip((finding.recovered - finding.baseline) / left, 0.0, 1.0))


def frontier(releases: Sequence[Compared]) -> list[Compared]:
    """Return the releases that no other one beats in both utility and leakage, the one that leaks least first.

    Examples
    --------
    >>> from tacit.perturb.compare import Compared
    >>> points = [Compared("a", "1", 0.9, 0.8), Compared("b", "1", 0.8, 0.9), Compared("c", "1", 0.7, 0.1)]
    >>> [point.method for point in frontier(points)]
    ['c', 'a']
    """
    best: list[Compared] = []
    measured = [point for point in releases if point.utility is not None and point.leak is not None]
    for point in sorted(measured, key=lambda point: (point.leak, -(point.utility or 0))):
        if not best or (point.utility or 0) > (best[-1].utility or 0):
            best.append(point)
    return best


def choice_in_words(releases: Sequence[Compared], reference: float, utility_name: str) -> str:
    """Describe the release that leaks least of the useful ones, and the most useful one of those that leak little."""
    if utility_name == "AUC" and reference <= CHANCE:
        return (
            f"These labels cannot be learned from the original either (AUC {reference:.3f}, and 0.5 is chance), so the AUC does "
            "not measure utility here: compare without labels, by clusters."
        )
    best = frontier(releases)
    kept = [point for point in best if (point.utility or 0) >= reference - USE_LOST]
    held = [point for point in best if (point.leak or 0) <= LEAK_HELD]
    useful = f"{utility_name} within {USE_LOST:g} of the original's {reference:.3f}"
    if kept and held and kept[0] == held[-1]:
        both = held[-1]
        return (
            f"{_named(both).capitalize()} is the best in both: it keeps {useful} ({both.utility:.3f}), and the strongest attack "
            f"here gains {both.leak:.0%} of the largest possible gain."
        )
    if kept:
        least = kept[0]
        one = (
            f"Of the releases that keep {useful}, {_named(least)} leaks least: the strongest attack gains {least.leak:.0%} of "
            "the largest possible gain."
        )
    else:
        one = f"No release here keeps {useful}."
    if held:
        most = held[-1]
        other = (
            f"Of those that limit every attack here to {LEAK_HELD:.0%}, {_named(most)} is the most useful: {utility_name} "
            f"{most.utility:.3f}."
        )
    else:
        other = f"No release here limits every attack to {LEAK_HELD:.0%}."
    return f"{one} {other}"


def _named(point: Compared) -> str:
    guarantee = ""
    if point.method == PRIVATE:
        guarantee = (
            " (a guarantee, if its bounds are public)" if BOUNDS_FROM_DATA in point.note else " (with a guarantee)"
        )
    return f"{point.method} at {point.setting}{guarantee}"
