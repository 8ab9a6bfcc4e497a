"""Figures by matplotlib without a display, as small SVG texts."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np

from tacit.reproduce.outcome import Figure, PictureGrid

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

MARKERS = "osv^DPX<>*"
MOST_MARKED = 30
"""Curves with more points have no markers."""
MOST_LABELLED = 8
"""A logarithmic axis with at most this many different values has a tick at each."""


def curves_svg(figure: Figure) -> str:
    """Draw the curves of a figure, with bands of one standard deviation."""
    canvas, axis = _canvas((6.2, 3.7))
    right = axis.twinx() if any(curve.right for curve in figure.curves) else None
    count = max(len(figure.curves), 1)
    for place, curve in enumerate(figure.curves):
        on = right if curve.right and right is not None else axis
        x, y = np.asarray(curve.x), np.asarray(curve.y, dtype=np.float64)
        colour = f"C{place % 10}"
        if figure.bars:
            width = 0.8 / count
            on.bar(x + (place - (count - 1) / 2) * width, y, width, color=colour, label=curve.label)
            continue
        if figure.points:
            on.scatter(x, y, s=9, marker=MARKERS[place % len(MARKERS)], color=colour, label=curve.label)
            continue
        marker = MARKERS[place % len(MARKERS)] if len(x) <= MOST_MARKED else None
        style = "--" if curve.dashed else "-"
        on.plot(x, y, style, marker=marker, markersize=4, linewidth=1.3, color=colour, label=curve.label)
        if curve.spread and len(x) > 1:
            spread = np.asarray(curve.spread)
            on.fill_between(x, y - spread, y + spread, color=colour, alpha=0.15, linewidth=0)
    if figure.log_x:
        axis.set_xscale("log")
        values = sorted({value for curve in figure.curves for value in curve.x})
        if len(values) <= MOST_LABELLED:  # the measured places; the ticks of a short logarithmic axis overlap
            axis.set_xticks(values, [f"{value:g}" for value in values])
            axis.set_xticks([], minor=True)
    if figure.log_y:
        axis.set_yscale("log")
    if figure.ticks:
        axis.set_xticks(range(len(figure.ticks)), figure.ticks, rotation=30 if len(figure.ticks) > 5 else 0, ha="right")
    axis.set_xlabel(figure.x_label)
    axis.set_ylabel(figure.y_label)
    handles, labels = axis.get_legend_handles_labels()
    if right is not None:
        right.set_ylabel(figure.right_label)
        more, names = right.get_legend_handles_labels()
        handles, labels = handles + more, labels + names
    axis.legend(
        handles, labels, frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.12 if right else 1.0, 1.0)
    )
    for one in filter(None, (axis, right)):
        one.spines["top"].set_visible(False)
        one.spines["right"].set_visible(right is not None)
    return _svg(canvas)


def pictures_svg(pictures: PictureGrid) -> str:
    """Draw rows of grey pictures."""
    from matplotlib.figure import Figure as Canvas

    width = max(len(row.images) for row in pictures.rows)
    canvas = Canvas(figsize=(0.8 * width + 1.4, 0.9 * len(pictures.rows)))
    axes = canvas.subplots(len(pictures.rows), width, squeeze=False)
    for line, row in zip(axes, pictures.rows, strict=True):
        for axis, image in zip(line, row.images, strict=False):
            axis.imshow(image, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
        for axis in line:
            axis.set_xticks([])
            axis.set_yticks([])
            axis.spines[:].set_visible(False)
        line[0].set_ylabel(row.label, rotation=0, ha="right", va="center", fontsize=8)
    return _svg(canvas)


def _canvas(size: tuple[float, float]) -> tuple[Canvas, Axes]:
    from matplotlib.figure import Figure as Canvas

    canvas = Canvas(figsize=size)
    return canvas, canvas.subplots()


def _svg(canvas: Canvas) -> str:
    import matplotlib as mpl

    buffer = io.StringIO()
    # text as text, and names that do not change from run to run
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "tacit", "path.simplify": True}):
        canvas.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None, "Creator": "tacit"})
    svg = buffer.getvalue()
    return svg[svg.index("<svg") :]
