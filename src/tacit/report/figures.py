"""Figures for reports; matplotlib without a display, imported when the first one is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PRIVATE, PLAIN, FREE = "#1f6f8b", "#b5651d", "#6b7280"


def image_rows(rows: Mapping[str, NDArray[np.float64]], shape: tuple[int, int]) -> Figure:
    """Draw each named matrix as one row of small images, its rows being the images' pixels."""
    from matplotlib.figure import Figure

    width = max(len(images) for images in rows.values())
    figure = Figure(figsize=(1.15 * width + 1.2, 1.3 * len(rows)))
    axes = figure.subplots(len(rows), width, squeeze=False)
    for place, (name, images) in enumerate(rows.items()):
        for axis, image in zip(axes[place], images, strict=False):
            reach = float(np.abs(image).max()) or 1.0
            axis.imshow(image.reshape(shape), cmap="RdBu_r", vmin=-reach, vmax=reach)
        for axis in axes[place]:
            axis.set_xticks([])
            axis.set_yticks([])
        axes[place][0].set_ylabel(name, rotation=0, ha="right", va="center")
    return figure


def frontier(
    epsilons: Sequence[float],
    values: Sequence[float],
    *,
    reference: float,
    value_name: str,
    reference_name: str,
    baseline: tuple[float, str] | None = None,
) -> Figure:
    """Draw what privacy costs: a measure against epsilon, with the value without privacy and a free baseline as lines."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.6))
    axis = figure.subplots()
    axis.plot(epsilons, values, marker="o", color=PRIVATE, label="private")
    axis.axhline(reference, color=PLAIN, linestyle="--", label=reference_name)
    if baseline is not None:
        axis.axhline(baseline[0], color=FREE, linestyle=":", label=baseline[1])
    axis.set_xscale("log")
    axis.set_xticks(list(epsilons), [f"{epsilon:g}" for epsilon in epsilons])
    axis.minorticks_off()
    axis.set_xlabel("epsilon (smaller is more private)")
    axis.set_ylabel(value_name)
    axis.legend(frameon=False)
    axis.spines[["top", "right"]].set_visible(False)
    return figure


def curves(lines: Mapping[str, Sequence[float]], *, step_name: str, value_name: str) -> Figure:
    """Draw named curves over their steps, as for a loss while it is learned."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.6))
    axis = figure.subplots()
    for (name, values), colour in zip(lines.items(), (PLAIN, PRIVATE, FREE), strict=False):
        axis.plot(range(1, len(values) + 1), values, color=colour, label=name)
    axis.set_xlabel(step_name)
    axis.set_ylabel(value_name)
    axis.legend(frameon=False)
    axis.spines[["top", "right"]].set_visible(False)
    return figure


def bars(labels: Sequence[str], groups: Mapping[str, Sequence[float]], *, value_name: str) -> Figure:
    """Draw named series of bars side by side over the same labels."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(max(6.4, 0.95 * len(labels)), 3.4))  # room for the labels of many
    axis = figure.subplots()
    width = 0.8 / len(groups)
    for place, ((name, values), colour) in enumerate(zip(groups.items(), (PRIVATE, PLAIN, FREE), strict=False)):
        axis.bar(np.arange(len(values)) + place * width, values, width, color=colour, label=name)
    axis.set_xticks(np.arange(len(labels)) + 0.4 - width / 2, labels)
    axis.set_ylabel(value_name)
    axis.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 1), ncols=len(groups))
    axis.spines[["top", "right"]].set_visible(False)
    return figure


def histogram(values: NDArray[np.int64], *, value_name: str) -> Figure:
    """Draw how positive numbers with a long tail are spread, on logarithmic axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.2))
    axis = figure.subplots()
    axis.hist(values, bins=np.geomspace(1, max(float(values.max()), 2.0) * 1.01, 30).tolist(), color=PRIVATE)
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlabel(value_name)
    axis.set_ylabel("how many")
    axis.spines[["top", "right"]].set_visible(False)
    return figure


def distributions(names: Sequence[str], before: NDArray[np.float64], after: NDArray[np.float64]) -> Figure:
    """Draw a histogram of each named column, the first ones of two tables, before and after a release; gaps are NaN."""
    from matplotlib.figure import Figure

    width = min(len(names), 4)
    height = -(-len(names) // width)
    figure = Figure(figsize=(2.4 * width, 1.9 * height), layout="constrained")
    axes = figure.subplots(height, width, squeeze=False).ravel()
    for place, (axis, name) in enumerate(zip(axes, names, strict=False)):
        pair = [part[np.isfinite(part)] for part in (before[:, place], after[:, place])]
        both = np.concatenate(pair)
        # A few stray values would squeeze all others into one bar.
        low, high = np.quantile(both, [0.005, 0.995])
        edges = np.linspace(low, high if high > low else low + 1, 31)
        for values, colour, label in zip(pair, (PLAIN, PRIVATE), ("original", "release"), strict=True):
            counts, _ = np.histogram(np.clip(values, edges[0], edges[-1]), edges)
            # as shares: a release need not have as many rows
            axis.stairs(counts / max(len(values), 1), edges, fill=True, alpha=0.5, color=colour, label=label)
        axis.set_title(name, fontsize=9)
        axis.set_yticks([])
        axis.tick_params(labelsize=7)
        axis.spines[["top", "right", "left"]].set_visible(False)
    for axis in axes[len(names) :]:
        axis.set_visible(False)
    axes[0].legend(frameon=False, fontsize=7)
    return figure


def before_after(
    before: NDArray[np.float64],
    after: NDArray[np.float64],
    colours: tuple[NDArray[np.integer], NDArray[np.integer]] | None = None,
) -> Figure:
    """Draw rows as points in two components, before and after a release, in the same axes; coloured by group if given."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 3.6), layout="constrained")
    axes = figure.subplots(1, 2, sharex=True, sharey=True)
    groups = colours or (None, None)
    for axis, points, group, name, plain in zip(
        axes, (before, after), groups, ("original", "release"), (PLAIN, PRIVATE), strict=True
    ):
        paint = {"color": plain} if group is None else {"c": group % 10, "cmap": "tab10", "vmin": 0, "vmax": 9}
        # Thousands of points as one picture: as drawings each they would make a page of megabytes.
        axis.scatter(points[:, 0], points[:, 1], s=6, alpha=0.6, linewidths=0, rasterized=True, **paint)
        axis.set_title(name, fontsize=10)
        axis.set_xlabel("first component")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("second component")
    return figure
