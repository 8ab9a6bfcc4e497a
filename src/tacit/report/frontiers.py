"""The privacy-utility frontier of releases: what an analyst keeps against what an attacker recovers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Points = Sequence[tuple[float, float, str]]


def release_frontier(
    methods: Mapping[str, Points], *, utility_name: str, leak_name: str, reference: float | None, highlight: str
) -> Figure:
    """Draw one line a method through its releases, each a point (leak, utility, setting); `highlight` is drawn boldly.

    Good releases are at the top left. `reference` is the utility of the original table.
    """
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.6, 4.8))
    axis = figure.subplots()
    colours = colormaps["tab20"]
    for place, (name, points) in enumerate(methods.items()):
        bold = name == highlight
        leaks, utilities, settings = zip(*points, strict=True)
        axis.plot(
            leaks,
            utilities,
            marker="D" if bold else "o",
            markersize=7 if bold else 4,
            linewidth=2.5 if bold else 1.0,
            color="black" if bold else colours(place % 20),
            label=name,
            zorder=3 if bold else 2,
        )
        for leak, utility, setting in zip(leaks, utilities, settings, strict=True):
            axis.annotate(
                setting, (leak, utility), textcoords="offset points", xytext=(4, 4), fontsize=6, color="#444444"
            )
    if reference is not None:
        axis.axhline(reference, color="#6b7280", linestyle=":", label="the original table")
    axis.set_xlim(-0.03, 1.03)
    axis.set_xlabel(leak_name)
    axis.set_ylabel(utility_name)
    axis.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    axis.spines[["top", "right"]].set_visible(False)
    return figure
