"""Measure what a released table keeps and what it leaks: the function behind `tacit measure`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.files import as_frame
from tacit.errors import InvalidInputError, listed, words
from tacit.measure.clusters import cluster_labels, matched_labels
from tacit.measure.release import ReleaseMeasures, measure_release
from tacit.measure.synthetic import SyntheticMeasures, measure_synthetic
from tacit.perturb.columns import MISSING, fill_missing
from tacit.report.figures import bars, before_after, distributions
from tacit.report.page import Report
from tacit.report.result import Result, for_the_holder
from tacit.report.tables import show_synthetic
from tacit.validation import check_choice

if TYPE_CHECKING:
    import narwhals as nw
    from narwhals.typing import IntoDataFrame

    from tacit.measure.classifiers import TestRows

MEANINGS = {
    "VD": "0 is unchanged; larger is more distorted",
    "RP": "change of rank in a column; larger is more distorted",
    "RM": "fraction of values that keep their rank; smaller is more distorted",
    "CP": "change of rank of the columns' means; larger is more distorted",
    "CK": "fraction of columns that keep their rank; smaller is more distorted",
    "CM": "1 to 0; smaller is more distorted",
    "CCA": "1 to 0; at 1 a linear map restores the original",
    "PL": "0 to 1; at 0 a released value says nothing about the original one",
}
POINTS_DRAWN, COLUMNS_DRAWN = 1500, 48
"""Most rows and columns in a figure: more would not be readable."""


@dataclass(frozen=True, eq=False)
class MeasuredRelease(Result):
    """What a released table keeps, and what it leaks.

    Attributes
    ----------
    measures : ReleaseMeasures
    summary, report
        As in `Result`; they are for the holder of the original.
    """

    measures: ReleaseMeasures


@dataclass(frozen=True, eq=False)
class MeasuredRows(Result):
    """How near synthetic rows are to real ones.

    Attributes
    ----------
    measures : SyntheticMeasures
    summary, report
        As in `Result`; they are for the holder of the original.
    """

    measures: SyntheticMeasures


def measure_synthetic_rows(
    original: IntoDataFrame,
    synthetic: IntoDataFrame,
    *,
    label: str | None = None,
    outsiders: IntoDataFrame | None = None,
    random_state: int = 0,
) -> MeasuredRows:
    """Compare synthetic rows, which belong to no real row, with the real table: columns, pairs, classifiers, membership.

    Parameters
    ----------
    original, synthetic, label, outsiders, random_state
        As in `tacit.measure.synthetic.measure_synthetic`.
    """
    measures = measure_synthetic(original, synthetic, label=label, outsiders=outsiders, random_state=random_state)
    report = Report("Synthetic rows", for_the_holder())
    report.facts = {
        "rows": f"{len(original):,} and {len(synthetic):,} synthetic",
        "settings": f"random state {random_state}",
    }
    show_synthetic(report, measures, label)
    return MeasuredRows({"notice": for_the_holder(), "label": label, **measures.to_dict()}, report, measures)


@dataclass(frozen=True, eq=False)
class ColumnsOfPair:
    """The columns of a table and its release, by their use in the measurement.

    Attributes
    ----------
    measured : list of str
        Numeric columns, by which distortion, use and attacks are measured.
    unchanged : list of str
        Columns of any type that are the same in both tables; rows are linked by them.
    not_measured : list of str
        Columns of both tables that are not used: changed, and not among those to measure.
    not_released : list of str
        Columns that the release does not have.
    """

    measured: list[str]
    unchanged: list[str]
    not_measured: list[str]
    not_released: list[str]


def measure_tables(
    original: IntoDataFrame,
    released: IntoDataFrame,
    *,
    label: str | None = None,
    columns: Sequence[str] | None = None,
    n_neighbours: int | None = None,
    n_clusters: int | None = None,
    test_rows: TestRows = "original",
    missing: str = "refuse",
    random_state: int = 0,
    advance: Callable[[str], None] = lambda stage: None,
) -> MeasuredRelease:
    """Measure a release by all metrics, a panel of classifiers and all attacks, with a verdict, tables and figures.

    Parameters
    ----------
    original, released : data frame
        The table and its release, with the same rows in the same order. Unchanged columns may be of any type: rows are linked
        by them.
    label : str, optional
        A column with classes, for the panel of classifiers. No attack uses it.
    columns : sequence of str, optional
        Columns to measure; if not given, all except the label and unchanged columns that are not numeric.
    n_neighbours, n_clusters, test_rows, random_state, advance
        As in `tacit.measure.release.measure_release`.
    missing : {"refuse", "mean", "median"}
        Missing values: refuse them, or fill each table from its own columns.

    Examples
    --------
    >>> import numpy as np, polars as pl
    >>> from tacit.report.measure import measure_tables
    >>> generator = np.random.default_rng(0)
    >>> table = pl.DataFrame(generator.normal(size=(100, 3)), schema=["a", "b", "c"])
    >>> noisy = table.select(pl.all() + pl.Series(0.1 * generator.normal(size=100)))
    >>> result = measure_tables(table, noisy)
    >>> result.summary["unchanged"], result.measures.attacks[0].leaks
    ([], True)
    """
    import polars as pl

    check_choice(missing, "missing", MISSING)
    before, after = _frame(original, "the original"), _frame(released, "the release")
    if len(before) != len(after):
        raise InvalidInputError(
            "a release with the same number of rows as the original",
            words("another number of rows"),
            "Measure a release whose row i comes from row i of the table. The rows of private-table come from no single row: "
            "measure them with --synthetic (measure_synthetic_rows).",
        )
    classes = None if label is None else _labels(before, after, label)
    sorted_out = _columns(before, after, label, columns)
    values, n_filled = _filled(before, sorted_out.measured, missing, "the original")
    released_values, n_filled_after = _filled(after, sorted_out.measured, missing, "the release")
    measures = measure_release(
        pl.DataFrame(values, schema=sorted_out.measured),
        pl.DataFrame(released_values, schema=sorted_out.measured),
        classes,
        unchanged=before.select(sorted_out.unchanged).to_native() if sorted_out.unchanged else None,
        n_neighbours=n_neighbours,
        n_clusters=n_clusters,
        test_rows=test_rows,
        random_state=random_state,
        advance=advance,
    )
    about = {
        "rows": len(before),
        "columns": sorted_out.measured,
        "unchanged": sorted_out.unchanged,
        "not_measured": sorted_out.not_measured,
        "not_released": sorted_out.not_released,
        "label": label,
        "missing_filled": {"original": n_filled, "released": n_filled_after},
    }
    remarks = _remarks(about, missing)
    summary = {"notice": for_the_holder(), **about, "remarks": remarks, **measures.to_dict()}
    report = _report(sorted_out.measured, values, released_values, measures, random_state, remarks)
    return MeasuredRelease(summary, report, measures)


def _frame(table: object, name: str) -> nw.DataFrame[Any]:
    frame = as_frame(table)
    if frame is None:
        raise InvalidInputError(
            f"{name} to be a data frame with named columns",
            words(f"a value of type {type(table).__name__}"),
            "Name the columns; for arrays, call tacit.measure.release.measure_release.",
        )
    return frame


def _columns(
    before: nw.DataFrame[Any], after: nw.DataFrame[Any], label: str | None, asked: Sequence[str] | None
) -> ColumnsOfPair:
    """Sort the columns of both tables by their use."""
    added = [name for name in after.columns if name not in before.columns]
    gone = [name for name in before.columns if name not in after.columns and name != label]
    if added:
        missing = f"without {listed(gone)}; " if gone else ""
        raise InvalidInputError(
            "the columns of the release to be columns of the original",
            words(f"{missing}with {listed(added)}"),
            "Compare the columns that both have.",
        )
    shared = [name for name in before.columns if name in after.columns and name != label]
    absent = [name for name in asked or () if name not in shared]
    if absent:
        raise InvalidInputError(
            "columns to measure that both tables have", words(f"none called {listed(absent)}"), "Check the names."
        )
    unchanged = [name for name in shared if _same(before[name], after[name])]
    numeric = [name for name in shared if _is_numeric(before[name]) and _is_numeric(after[name])]
    measured = (
        list(asked) if asked is not None else [name for name in shared if name in numeric or name not in unchanged]
    )
    text = [name for name in measured if name not in numeric]
    if text or not measured:
        raise InvalidInputError(
            "numeric columns to measure",
            words(f"other kinds in {listed(text)}" if text else "none"),
            "Code them as numbers in both tables, or name the columns to measure (--columns).",
        )
    left = [name for name in shared if name not in measured and name not in unchanged]
    return ColumnsOfPair(measured, unchanged, left, gone)


def _is_numeric(column: nw.Series[Any]) -> bool:
    import narwhals as nw

    return column.dtype.is_numeric() or column.dtype == nw.Boolean


def _same(one: nw.Series[Any], other: nw.Series[Any]) -> bool:
    """Return whether two columns hold the same cells, also if their types differ."""
    if _is_numeric(one) and _is_numeric(other):
        return bool(np.array_equal(_numbers(one), _numbers(other), equal_nan=True))
    return [str(cell) for cell in one.to_list()] == [str(cell) for cell in other.to_list()]


def _numbers(column: nw.Series[Any]) -> NDArray[np.float64]:
    import narwhals as nw

    return column.cast(nw.Float64).fill_null(float("nan")).to_numpy().astype(np.float64)


def _filled(
    frame: nw.DataFrame[Any], names: Sequence[str], missing: str, which: str
) -> tuple[NDArray[np.float64], int]:
    """Return columns as numbers with missing values filled from themselves, and their number; or raise an error."""
    values = np.column_stack([_numbers(frame[name]) for name in names])
    gaps = int(np.isnan(values).sum())
    if gaps and missing == "refuse":
        where = [name for name, has in zip(names, np.any(np.isnan(values), axis=0).tolist(), strict=True) if has]
        raise InvalidInputError(
            f"{which} to have no missing values",
            words(f"missing values in {listed(where)}"),
            "Fill them, or give missing='mean' or 'median' (--missing mean).",
        )
    filled, _, count = fill_missing(values, missing, names)
    return filled, count


def _labels(before: nw.DataFrame[Any], after: nw.DataFrame[Any], label: str) -> NDArray[np.generic]:
    if label not in before.columns:
        raise InvalidInputError(
            "the label to be a column of the original", words(f"none called {label}"), "Check the name."
        )
    classes = before[label]
    if classes.null_count():
        raise InvalidInputError("a label in every row of the original", words("rows without one"), "Drop them in both.")
    if label in after.columns and not _same(classes, after[label]):
        raise InvalidInputError(
            "the release to have the labels of the original",
            words(f"rows with another {label}"),
            "Keep the order of the rows, and the labels; or drop the column from the release.",
        )
    return classes.to_numpy()


def _remarks(about: dict[str, Any], missing: str) -> list[str]:
    """Return remarks about the columns, as sentences."""
    remarks = []
    if about["unchanged"]:
        remarks.append(f"Released unchanged, and used to link rows: {', '.join(about['unchanged'])}.")
    if about["label"] is not None:
        remarks.append(f"The label, {about['label']}, is not used by any attack.")
    if about["not_measured"]:
        remarks.append(f"Changed, but not measured and not attacked: {', '.join(about['not_measured'])}.")
    if about["not_released"]:
        remarks.append(f"Not released: {', '.join(about['not_released'])}.")
    filled = about["missing_filled"]
    if any(filled.values()):
        remarks.append(
            f"Missing values filled by the {missing} of their column: {filled['original']} in the original, "
            f"{filled['released']} in the release. All figures count them as values."
        )
    return remarks


def _report(
    names: list[str],
    original: NDArray[np.float64],
    released: NDArray[np.float64],
    measures: ReleaseMeasures,
    seed: int,
    remarks: Sequence[str],
) -> Report:
    report = Report("A released table", for_the_holder())
    report.facts = {"rows": f"{len(original):,}", "settings": f"columns measured {len(names)}, random state {seed}"}
    report.text("Verdict", measures.verdict, *remarks)
    if measures.left_out:
        note = "These could not be measured on this table; everything else was."
        report.table("Left out", ["what", "why"], [[name, why] for name, why in measures.left_out.items()], note=note)
    report.table(
        "Distortion",
        ["metric", "value", "how to read it"],
        [[name, f"{value:.4g}", _meaning(name)] for name, value in measures.distortion.items()],
        note="Neighbours are computed in units of the standard deviations of the original's columns.",
    )
    _use(report, measures)
    _attacks(report, measures)
    _pictures(report, names, original, released, measures.n_clusters, seed)
    return report


def _meaning(name: str) -> str:
    for short, meaning in MEANINGS.items():
        if f"({short})" in name:
            return meaning
    return (
        "at most all of them; fewer is more distorted"
        if "overlap" in name
        else "change of rank; larger is more distorted"
    )


def _use(report: Report, measures: ReleaseMeasures) -> None:
    if measures.clustering_accuracy is not None:
        kept = f"{measures.clustering_accuracy:.1%} of the rows stay in their cluster"
        report.text(
            "Clusters kept",
            f"{kept} (k-means with {measures.n_clusters} clusters, columns scaled to the range 0 to 1).",
        )
    if not measures.panel:
        return
    shown = f"tested on {measures.panel[0].test_rows} rows"
    rows = [
        [
            score.classifier,
            f"{score.auc_original:.3f}",
            f"{score.auc:.3f}",
            f"{score.misclassification_original:.3f}",
            f"{score.misclassification:.3f}",
        ]
        for score in measures.panel
    ]
    names = ["classifier", "AUC, original", "AUC, release", "errors, original", "errors, release"]
    report.table(
        "What classifiers learn", names, rows, note=f"Release: trained on released rows, {shown} held out of training."
    )
    short = [score.classifier.replace("-", "\n") for score in measures.panel]
    areas = {
        "release": [score.auc for score in measures.panel],
        "original": [score.auc_original for score in measures.panel],
    }
    caption = "With bars of equal height, as much is learned from the release as from the original."
    report.figure("AUC by classifier", bars(short, areas, value_name="AUC"), caption)


def _attacks(report: Report, measures: ReleaseMeasures) -> None:
    if not measures.attacks:
        return
    rows = []
    for finding in measures.attacks:
        parts = [finding, finding.top_5] if hasattr(finding, "top_5") else [finding]
        rows += [
            [
                part.attack,
                part.measure,
                f"{part.recovered:.4f}",
                f"{part.interval[0]:.4f} to {part.interval[1]:.4f}",
                f"{part.baseline:.4f}",
                "yes" if part.leaks else "no",
            ]
            for part in parts
        ]
    columns = ["attack", "measure", "recovered", "95% interval", "without the release", "leaks"]
    note = (
        "Leaks: the whole interval is above the value without the release. For attribute inference, that is the value for a "
        "release without the person's own row."
    )
    report.table("What attackers recover", columns, rows, note=note)
    names = {
        "record linkage": "linkage",
        "linkage by unchanged columns": "unchanged",
        "Bayes estimate of the noise": "Bayes",
        "spectral filtering": "spectral",
    }
    names |= {
        "principal components without the noise": "PCA",
        "attribute inference": "attribute",
        "membership": "member",
    }
    short = [names.get(finding.attack, finding.attack.split(" from")[0]) for finding in measures.attacks]
    heights = {
        "with the release": [max(finding.recovered, 0.0) for finding in measures.attacks],
        "without": [max(finding.baseline, 0.0) for finding in measures.attacks],
    }
    caption = "Each attack has its own measure, from 0 to 1; negative fractions of variance are drawn as 0."
    report.figure("Recovered", bars(short, heights, value_name="recovered"), caption)


def _pictures(
    report: Report,
    names: list[str],
    original: NDArray[np.float64],
    released: NDArray[np.float64],
    n_clusters: int,
    seed: int,
) -> None:
    drawn = names[:COLUMNS_DRAWN]
    caption = "Each column before and after" + (
        f"; the first {len(drawn)} of {len(names)}." if len(names) > len(drawn) else "."
    )
    report.figure("Distributions", distributions(drawn, original, released), caption)
    some = np.sort(np.random.default_rng(seed).permutation(len(original))[:POINTS_DRAWN])
    mean, spread = original.mean(axis=0), original.std(axis=0)
    before, after = ((part[some] - mean) / spread for part in (original, released))
    axes = np.linalg.eigh(before.T @ before)[1][:, ::-1][:, :2]
    if axes.shape[1] < 2:
        axes = np.column_stack([axes, np.zeros(len(axes))])
    places = before @ axes, after @ axes
    report.figure(
        "Two components",
        before_after(*places),
        f"The first two principal components of the original, for {len(some)} rows, and the release in the same axes.",
    )
    if len(np.unique(before, axis=0)) < n_clusters:
        return
    width = np.ptp(original, axis=0)
    labels = cluster_labels((original[some] / width, released[some] / width), n_clusters, random_state=seed)
    report.figure(
        "Clusters",
        before_after(*places, colours=(labels[0], matched_labels(*labels))),
        "The k-means clusters of these rows before and after; the same colour is the same cluster.",
    )
