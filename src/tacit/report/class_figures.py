"""Figures about predictions: whether probabilities mean what they say, what is taken for what, numbers against their truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tacit.report.figures import FREE, PLAIN, PRIVATE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_NUMBERED = 15


def reliability_plot(lines: Mapping[str, tuple[NDArray[np.float64], NDArray[np.float64]]]) -> Figure:
    """Draw how often predictions of a confidence were right, by name; on the diagonal they mean what they say."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.4, 4.2))
    axis = figure.subplots()
    axis.plot([0, 1], [0, 1], color=FREE, linestyle=":", label="calibrated")
    for (name, (confidence, accuracy)), colour in zip(lines.items(), (PRIVATE, PLAIN), strict=False):
        used = np.isfinite(confidence)
        axis.plot(confidence[used], accuracy[used], marker="o", color=colour, label=name)
    axis.set_xlabel("confidence")
    axis.set_ylabel("share that was right")
    axis.legend(frameon=False)
    axis.spines[["top", "right"]].set_visible(False)
    return figure


def confusion(counts: NDArray[np.int64], classes: Sequence[str]) -> Figure:
    """Draw a confusion matrix, rows being the true classes; shades are shares of a row."""
    from matplotlib.figure import Figure

    size = 1.6 + 0.42 * min(len(classes), 20)
    figure = Figure(figsize=(size, size))
    axis = figure.subplots()
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    axis.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    if len(classes) <= MOST_NUMBERED:
        for (row, column), count in np.ndenumerate(counts):
            axis.text(
                column,
                row,
                str(count),
                ha="center",
                va="center",
                color="white" if shares[row, column] > 0.5 else "black",
            )
    axis.set_xticks(range(len(classes)), classes, rotation=90 if max(map(len, classes)) > 2 else 0)
    axis.set_yticks(range(len(classes)), classes)
    axis.set_xlabel("predicted")
    axis.set_ylabel("true")
    return figure


def predictions_plot(truth: NDArray[np.float64], predictions: Mapping[str, NDArray[np.float64]]) -> Figure:
    """Draw predicted numbers against true ones, by name; on the diagonal they are right."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.4, 4.2))
    axis = figure.subplots()
    ends = [float(np.min(truth)), float(np.max(truth))]
    axis.plot(ends, ends, color=FREE, linestyle=":", label="right")
    for (name, given), colour in zip(predictions.items(), (PRIVATE, PLAIN), strict=False):
        axis.plot(truth, given, ".", color=colour, markersize=3, alpha=0.5, label=name)
    axis.set_xlabel("true")
    axis.set_ylabel("predicted")
    axis.legend(frameon=False, markerscale=3)
    axis.spines[["top", "right"]].set_visible(False)
    return figure
