"""Figures for reports; matplotlib without a display, imported when the first one is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PRIVATE, PLAIN = "#1f6f8b", "#b5651d"


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
    epsilons: Sequence[float], values: Sequence[float], *, reference: float, value_name: str, reference_name: str
) -> Figure:
    """Draw what privacy costs: a measure against epsilon, and the value without privacy as a line."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.6))
    axis = figure.subplots()
    axis.plot(epsilons, values, marker="o", color=PRIVATE, label="private")
    axis.axhline(reference, color=PLAIN, linestyle="--", label=reference_name)
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
    for (name, values), colour in zip(lines.items(), (PLAIN, PRIVATE, "#6b7280"), strict=False):
        axis.plot(range(1, len(values) + 1), values, color=colour, label=name)
    axis.set_xlabel(step_name)
    axis.set_ylabel(value_name)
    axis.legend(frameon=False)
    axis.spines[["top", "right"]].set_visible(False)
    return figure
