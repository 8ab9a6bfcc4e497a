"""The privacy-utility frontier of releases: what an analyst keeps against what an attacker recovers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Points = Sequence[tuple[float, float, str]]
_MARKERS = "os^vPX<>ph"
_SMALLEST, _STEP = 24, 16
# Settings are written at points of the frontier that are at least so far apart: nearer ones would overprint each other.
_LEAST_GAP = 0.05


def release_frontier(
    methods: Mapping[str, Points],
    *,
    best: Sequence[tuple[float, float]],
    utility_name: str,
    leak_name: str,
    reference: float | None,
    highlight: str,
) -> Figure:
    """Draw one line a method through its releases, each a point (leak, utility, setting); `highlight` is drawn boldly.

    Good releases are at the top left. `best` are the points (leak, utility) of the frontier, the one that leaks least first.
    `reference` is the utility of the original table.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.2, 5.0), layout="constrained")
    axis = figure.subplots()
    if best:
        _draw_frontier(axis, best)
    labelled: list[tuple[float, float]] = []
    for point in best:
        if not labelled or point[0] - labelled[-1][0] >= _LEAST_GAP:
            labelled.append(point)
    for place, (name, points) in enumerate(methods.items()):
        bold = name == highlight
        colour = "black" if bold else f"C{place % 10}"
        leaks, utilities, _ = zip(*points, strict=True)
        axis.plot(leaks, utilities, linewidth=2.2 if bold else 1.0, color=colour, alpha=0.8, zorder=2)
        sizes = [_SMALLEST + _STEP * step for step in range(len(points))]
        marker = "D" if bold else _MARKERS[place % len(_MARKERS)]
        axis.scatter(leaks, utilities, s=sizes, color=colour, marker=marker, label=name, zorder=3, linewidths=0)
        for leak, utility, setting in points:
            if (leak, utility) in labelled:
                axis.annotate(
                    setting,
                    (leak, utility),
                    textcoords="offset points",
                    xytext=(-4, 5),
                    ha="right",
                    fontsize=8,
                    color=colour,
                )
    if reference is not None:
        axis.axhline(reference, color="#6b7280", linestyle=":", linewidth=1, label="the original table", zorder=1)
    axis.set_xlim(-0.03, 1.03)
    axis.set_xlabel(f"{leak_name} (less is more private)")
    axis.set_ylabel(f"{utility_name} (more is more useful)")
    axis.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    axis.spines[["top", "right"]].set_visible(False)
    return figure


def _draw_frontier(axis: Axes, best: Sequence[tuple[float, float]]) -> None:
    """Draw the best use that can be had up to a leak, as steps behind everything else."""
    leaks, utilities = zip(*best, strict=True)
    axis.step(
        [*leaks, 1.03],
        [*utilities, utilities[-1]],
        where="post",
        color="#d1d5db",
        linewidth=7,
        solid_capstyle="butt",
        label="not beaten in both",
        zorder=0,
    )
