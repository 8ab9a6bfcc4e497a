"""The report of `tacit measure` on a table: tables of figures, and the table before and after in pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.report import Report
from tacit.report.figures import bars, before_after, distributions

if TYPE_CHECKING:
    from tacit.measure.release import ReleaseMeasures

FOR_THE_HOLDER = (
    "Everything here was computed from the original table without protection. This page is for its holder: pass on the "
    "release, not this page."
)
MEANINGS = {
    "VD": "0 unchanged; larger is more distorted",
    "RP": "places moved in the order of a column; larger is more distorted",
    "RM": "share of values that keep their place; smaller is more distorted",
    "CP": "places moved in the order of the columns' means; larger is more distorted",
    "CK": "share of columns that keep their place; smaller is more distorted",
    "CM": "1 to 0; smaller is more distorted",
    "CCA": "1 to 0; at 1 a linear map restores the original",
}
_POINTS = 1500
_COLUMNS_DRAWN = 12


def release_report(before: Any, after: Any, found: ReleaseMeasures, seed: int, about: str = "") -> Report:
    """Return the report of a measured release; `before` and `after` are polars frames, `about` a word on them."""
    report = Report("A released table", FOR_THE_HOLDER)
    report.text("Verdict", found.verdict, *([about] if about else []))
    if found.left_out:
        note = "These could not be measured on this table; everything else was."
        report.table("Left out", ["what", "why"], [[name, why] for name, why in found.left_out.items()], note=note)
    report.table(
        "Distortion",
        ["metric", "value", "how to read it"],
        [[name, f"{value:.4g}", _meaning(name)] for name, value in found.distortion.items()],
        note="Neighbours are those in standard deviations of the original's columns.",
    )
    _use(report, found)
    _attacks(report, found)
    original = before.to_numpy().astype(np.float64)
    released = after.select(before.columns).to_numpy().astype(np.float64)
    _pictures(report, before.columns, original, released, found.n_clusters, seed)
    return report


def _meaning(name: str) -> str:
    for short, meaning in MEANINGS.items():
        if f"({short})" in name:
            return meaning
    return (
        "all of them at best; fewer is more distorted"
        if "overlap" in name
        else "places moved; larger is more distorted"
    )


def _use(report: Report, found: ReleaseMeasures) -> None:
    if found.clustering_accuracy is not None:
        kept = f"{found.clustering_accuracy:.1%} of the rows stay in their cluster"
        report.text("Clusters kept", f"{kept} when k-means looks for {found.n_clusters}, with columns from 0 to 1.")
    if not found.panel:
        return
    shown = f"tested on {found.panel[0].test_rows} rows"
    rows = [
        [
            score.classifier,
            f"{score.auc_original:.3f}",
            f"{score.auc:.3f}",
            f"{score.misclassification_original:.3f}",
            f"{score.misclassification:.3f}",
        ]
        for score in found.panel
    ]
    names = ["classifier", "AUC, original", "AUC, release", "errors, original", "errors, release"]
    report.table(
        "What classifiers learn", names, rows, note=f"Release: trained on released rows, {shown} kept out of training."
    )
    short = [score.classifier.replace("-", "\n") for score in found.panel]
    areas = {"release": [score.auc for score in found.panel], "original": [score.auc_original for score in found.panel]}
    caption = "Bars of equal height: as much is learned from the release as from the original."
    report.figure("AUC by classifier", bars(short, areas, value_name="AUC"), caption)


def _attacks(report: Report, found: ReleaseMeasures) -> None:
    if not found.attacks:
        return
    rows = []
    for finding in found.attacks:
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
    columns = ["attack", "what is counted", "recovered", "95% interval", "without the release", "leaks"]
    note = (
        "Leaks: the whole interval is above what is had without the release. For attribute inference, without the release "
        "means from a release without the person's own row."
    )
    report.table("What attackers recover", columns, rows, note=note)
    names = {"record linkage": "linkage", "Bayes estimate of the noise": "Bayes", "spectral filtering": "spectral"}
    names |= {
        "principal components without the noise": "PCA",
        "attribute inference": "attribute",
        "membership": "member",
    }
    short = [names.get(finding.attack, finding.attack.split(" from")[0]) for finding in found.attacks]
    heights = {
        "with the release": [max(finding.recovered, 0.0) for finding in found.attacks],
        "without": [max(finding.baseline, 0.0) for finding in found.attacks],
    }
    caption = "Each pair on its own scale from 0 to 1; negative shares of variance are drawn as 0."
    report.figure("Recovered", bars(short, heights, value_name="recovered"), caption)


def _pictures(
    report: Report,
    names: list[str],
    original: NDArray[np.float64],
    released: NDArray[np.float64],
    n_clusters: int,
    seed: int,
) -> None:
    from tacit.measure.clusters import cluster_labels, matched_labels

    drawn = names[:_COLUMNS_DRAWN]
    caption = "Each column before and after" + (
        f"; the first {len(drawn)} of {len(names)}." if len(names) > len(drawn) else "."
    )
    report.figure("Distributions", distributions(drawn, original, released), caption)
    some = np.sort(np.random.default_rng(seed).permutation(len(original))[:_POINTS])
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
        "The clusters that k-means finds in these rows before and after; the same colour is the same cluster.",
    )
