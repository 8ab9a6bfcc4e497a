"""Figures for reports, by matplotlib without a display; it is imported when the first figure is drawn."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tacit.factor.arrays import SomeFloats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


IMAGES_PER_LINE, TOPICS_PER_LINE = 10, 3
"""What fits a page, and can still be read on paper."""
PRIVATE, PLAIN, FREE = "#1f6f8b", "#b5651d", "#6b7280"


def image_rows(rows: Mapping[str, SomeFloats], shape: tuple[int, int]) -> Figure:
    """Draw the rows of each named matrix as small images, at most IMAGES_PER_LINE on a line.

    Image i of all matrices is in the same column, so that matched parts are above each other.
    """
    from matplotlib.figure import Figure

    count = max(len(images) for images in rows.values())
    width = min(count, IMAGES_PER_LINE)
    lines = [(name, images, start) for start in range(0, count, width) for name, images in rows.items()]
    figure = Figure(figsize=(1.15 * width + 1.2, 1.3 * len(lines)))
    axes = figure.subplots(len(lines), width, squeeze=False)
    for axis in axes.ravel():
        axis.set_xticks([])
        axis.set_yticks([])
    for line, (name, images, start) in zip(axes, lines, strict=True):
        shown = images[start : start + width]
        for axis, image in zip(line, shown, strict=False):
            reach = float(np.abs(image).max()) or 1.0
            axis.imshow(image.reshape(shape), cmap="RdBu_r", vmin=-reach, vmax=reach)
        for axis in line[len(shown) :]:
            axis.set_frame_on(False)
        line[0].set_ylabel(name, rotation=0, ha="right", va="center")
    return figure


def word_bars(
    topics: Mapping[str, SomeFloats], terms: Sequence[str], first: str, *, words: int = 8, most: int = 24
) -> Figure:
    """Draw the words with the largest weights of each topic of the dictionary `first`; bars of all dictionaries, by name.

    Weights are fractions of the largest weight of the topic. At most `most` topics are drawn.
    """
    from matplotlib.figure import Figure

    count = min(len(topics[first]), most)
    width = min(count, TOPICS_PER_LINE)
    height = -(-count // width)
    figure = Figure(figsize=(2.9 * width, 0.25 * words * height + 0.45 * height), layout="constrained")
    axes = figure.subplots(height, width, squeeze=False).ravel()
    thickness = 0.8 / len(topics)
    for topic, axis in enumerate(axes[:count]):
        order = np.argsort(-topics[first][topic], kind="stable")[:words]
        order = order[topics[first][topic][order] > 0]
        for place, ((name, components), colour) in enumerate(zip(topics.items(), (PRIVATE, PLAIN), strict=False)):
            heaviest = float(components[topic].max()) or 1.0
            axis.barh(
                np.arange(len(order)) + place * thickness,
                components[topic][order] / heaviest,
                thickness,
                color=colour,
                label=name,
            )
        axis.set_yticks(np.arange(len(order)) + 0.4 - thickness / 2, [_shortened(str(terms[word])) for word in order])
        axis.invert_yaxis()
        axis.set_xticks([])
        axis.tick_params(labelsize=8, length=0)
        axis.set_title(f"topic {topic + 1}", fontsize=9, loc="left")
        axis.spines[["top", "right", "bottom"]].set_visible(False)
    for axis in axes[count:]:
        axis.set_visible(False)
    if len(topics) > 1:
        figure.legend(
            *axes[0].get_legend_handles_labels(), frameon=False, fontsize=8, ncols=2, loc="outside upper right"
        )
    return figure


def _shortened(name: str, most: int = 18) -> str:
    """Return a name as a label; a $ would start mathematics in matplotlib."""
    return (name if len(name) <= most else f"{name[: most - 1]}…").replace("$", r"\$")


def frontier(
    epsilons: Sequence[float],
    values: Sequence[float],
    *,
    reference: float,
    value_name: str,
    reference_name: str,
    baseline: tuple[float, str] | None = None,
) -> Figure:
    """Draw a measure against epsilon, with lines for its value without privacy and for a baseline that costs no privacy."""
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
    """Draw named curves over their steps, such as the loss during training."""
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


def gains_by_size(lines: Mapping[str, Mapping[int, float]], *, size_name: str, value_name: str) -> Figure:
    """Draw what parties of different sizes gain by joining: named curves of a gain in percent over a logarithmic size."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.6))
    axis = figure.subplots()
    for (name, gains), marker in zip(lines.items(), "osv^Dx", strict=False):
        sizes = sorted(gains)
        axis.plot(sizes, [gains[size] for size in sizes], marker=marker, label=name)
    axis.axhline(0, color="0.6", linewidth=0.8)
    axis.set_xscale("log")
    axis.set_xlabel(size_name)
    axis.set_ylabel(value_name)
    axis.legend(frameon=False)
    axis.spines[["top", "right"]].set_visible(False)
    return figure


def histogram(values: NDArray[np.int64], *, value_name: str) -> Figure:
    """Draw a histogram of positive numbers with a long tail, on logarithmic axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.2))
    axis = figure.subplots()
    most = max(int(values.max()), 2)
    edges = np.unique(np.round(np.geomspace(1, most + 1, 30)))  # whole numbers: no bin is empty because none lies in it
    axis.hist(values, bins=edges.tolist(), color=PRIVATE)
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_ylim(bottom=0.7)  # bars start below one, so that their lengths can be compared
    # above a hundred there is no room for the labels of three ticks per power of ten
    steps = (1, 2, 5) if most <= 100 else (1, 3) if most <= 10_000 else (1,)  # by eye
    ticks = [step * 10**power for power in range(len(str(most))) for step in steps if step * 10**power <= most]
    axis.set_xticks(ticks, [f"{tick:,}" for tick in ticks], minor=False)
    axis.set_xticks([], minor=True)
    axis.yaxis.set_major_formatter("{x:,.0f}")
    axis.yaxis.set_minor_formatter("")
    axis.set_xlabel(value_name)
    axis.set_ylabel("count")
    axis.spines[["top", "right"]].set_visible(False)
    return figure


def distributions(
    names: Sequence[str], before: NDArray[np.float64], after: NDArray[np.float64], *, dates: Collection[str] = ()
) -> Figure:
    """Draw histograms of the named columns, the first ones of two tables, before and after a release; NaN is missing.

    The columns `dates` hold days since 1970, and their axes show dates.
    """
    from matplotlib.figure import Figure

    width = min(len(names), 4)
    height = -(-len(names) // width)
    figure = Figure(figsize=(2.4 * width, 1.9 * height), layout="constrained")
    axes = figure.subplots(height, width, squeeze=False).ravel()
    for place, (axis, name) in enumerate(zip(axes, names, strict=False)):
        pair = [part[np.isfinite(part)] for part in (before[:, place], after[:, place])]
        both = np.concatenate(pair)
        edges = np.linspace(both.min(), both.max() + 1, 31) if name in dates else _edges(both)
        # bins that grow outwards are drawn equally wide, with their values at some of them
        uneven = edges[-1] - edges[0] > len(edges) * (edges[len(edges) // 2 + 1] - edges[len(edges) // 2]) * 1.01
        places = np.arange(len(edges), dtype=np.float64) if uneven else edges
        for values, colour, label in zip(pair, (PLAIN, PRIVATE), ("original", "release"), strict=True):
            counts, _ = np.histogram(values, edges)
            # as fractions, because the number of rows may differ
            axis.stairs(counts / max(len(values), 1), places, fill=True, alpha=0.5, color=colour, label=label)
        axis.set_title(_shortened(name), fontsize=9)
        axis.set_yscale("log")  # one row in a tail is seen beside thousands in the middle
        axis.yaxis.set_minor_formatter("")
        axis.locator_params(axis="x", nbins=TICKS_OF_SMALL_AXES)
        if uneven:
            labelled = np.linspace(0, len(edges) - 1, 4).astype(int)
            axis.set_xticks(places[labelled], [f"{edge:.6g}" for edge in edges[labelled]])
        if name in dates:
            months = edges[-1] - edges[0] > DAYS_SHOWN  # a month is enough, and shorter
            labelled = np.array([0, 15, 30] if months else [0, 20])
            days = edges[labelled].astype("datetime64[D]")
            axis.set_xticks(edges[labelled], [str(day.astype("datetime64[M]") if months else day) for day in days])
        axis.tick_params(labelsize=7)
        axis.spines[["top", "right"]].set_visible(False)
    for axis in axes[len(names) :]:
        axis.set_visible(False)
    figure.legend(*axes[0].get_legend_handles_labels(), frameon=False, fontsize=8, ncols=2, loc="outside upper right")
    return figure


DAYS_SHOWN = 120
"""Up to this many days an axis of dates shows days, not months."""
TICKS_OF_SMALL_AXES = 3
"""At most this many steps between ticks, so that labels of six digits do not touch."""
TAIL_BINS = 8
"""Bins of each tail that lies far outside the middle of a column."""


def _edges(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the edges of bins from the smallest to the largest value; bins of tails that lie far outside grow outwards."""
    low, high = float(values.min()), float(values.max())
    if high <= low:
        return np.linspace(low, low + 1, 31)
    first, last = (float(end) for end in np.quantile(values, [0.01, 0.99]))
    width = last - first
    if width <= 0 or high - low <= 3 * width:
        return np.linspace(low, high, 31)
    middle = np.linspace(first, last, 25)
    above = last + np.geomspace(width / 24, max(high - last, width / 23), TAIL_BINS)
    below = first - np.geomspace(width / 24, max(first - low, width / 23), TAIL_BINS)[::-1]
    return np.unique(np.clip(np.concatenate([[low], below, middle, above, [high]]), low, high))


def category_bars(pairs: Mapping[str, tuple[Mapping[str, float], Mapping[str, float]]], *, most: int = 10) -> Figure:
    """Draw fractions of the rows with each category, of each named column, before and after a release."""
    from matplotlib.figure import Figure

    width = min(len(pairs), 3)
    height = -(-len(pairs) // width)
    rows = max(min(len(before), most) for before, _ in pairs.values())
    figure = Figure(figsize=(2.9 * width, (0.3 * rows + 0.6) * height), layout="constrained")
    axes = figure.subplots(height, width, squeeze=False).ravel()
    for axis, (name, (before, after)) in zip(axes, pairs.items(), strict=False):
        shown = sorted(before, key=lambda category: -before[category])[:most]
        for place, (fractions, colour, label) in enumerate(((before, PLAIN, "original"), (after, PRIVATE, "release"))):
            values = [fractions.get(category, 0.0) for category in shown]
            axis.barh(np.arange(len(shown)) + 0.4 * place, values, 0.4, color=colour, label=label)
        axis.set_yticks(np.arange(len(shown)) + 0.2, [_shortened(category) for category in shown])
        axis.invert_yaxis()
        more = f" ({most} of {len(before)})" if len(before) > most else ""
        axis.set_title(_shortened(name) + more, fontsize=9)
        axis.tick_params(labelsize=7)
        axis.spines[["top", "right"]].set_visible(False)
    for axis in axes[len(pairs) :]:
        axis.set_visible(False)
    figure.legend(*axes[0].get_legend_handles_labels(), frameon=False, fontsize=8, ncols=2, loc="outside upper right")
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
        # Thousands of points as one bitmap: as vector graphics they would make a page of megabytes.
        axis.scatter(points[:, 0], points[:, 1], s=6, alpha=0.6, linewidths=0, rasterized=True, **paint)
        axis.set_title(name, fontsize=10)
        axis.set_xlabel("first component")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("second component")
    return figure


MOST_NUMBERED = 15
"""Confusion matrices of more classes have no numbers, which would be too small to read."""


def reliability_plot(lines: Mapping[str, tuple[NDArray[np.float64], NDArray[np.float64]]]) -> Figure:
    """Draw the accuracy of predictions against their confidence, by name; calibrated predictions are on the diagonal."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.4, 4.2))
    axis = figure.subplots()
    axis.plot([0, 1], [0, 1], color=FREE, linestyle=":", label="calibrated")
    for (name, (confidence, accuracy)), colour in zip(lines.items(), (PRIVATE, PLAIN), strict=False):
        used = np.isfinite(confidence)
        axis.plot(confidence[used], accuracy[used], marker="o", color=colour, label=name)
    axis.set_xlabel("confidence")
    axis.set_ylabel("accuracy")
    axis.legend(frameon=False)
    axis.spines[["top", "right"]].set_visible(False)
    return figure


def confusion(counts: NDArray[np.int64], classes: Sequence[str]) -> Figure:
    """Draw a confusion matrix; rows are the true classes, and shades are fractions of a row."""
    from matplotlib.figure import Figure

    size = 1.6 + 0.42 * min(len(classes), 20)
    figure = Figure(figsize=(size, size))
    axis = figure.subplots()
    fractions = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    axis.imshow(fractions, cmap="Blues", vmin=0, vmax=1)
    if len(classes) <= MOST_NUMBERED:
        for (row, column), count in np.ndenumerate(counts):
            axis.text(
                column,
                row,
                str(count),
                ha="center",
                va="center",
                color="white" if fractions[row, column] > 0.5 else "black",
            )
    axis.set_xticks(range(len(classes)), classes, rotation=90 if max(map(len, classes)) > 2 else 0)
    axis.set_yticks(range(len(classes)), classes)
    axis.set_xlabel("predicted")
    axis.set_ylabel("true")
    return figure


def predictions_plot(truth: NDArray[np.float64], predictions: Mapping[str, NDArray[np.float64]]) -> Figure:
    """Draw predicted numbers against true ones, by name; correct predictions are on the diagonal."""
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


MOST_ROWS, NAMED_ROWS = 60, 40
"""Most rows of a factor in a figure, and most rows that have names beside them: more would be too small to read."""


def factor_maps(factors: Mapping[str, NDArray[np.float64]], names: Mapping[str, Sequence[str]]) -> Figure:
    """Draw each factor with one row per entity and one column per component, scaled to the largest entry of the column.

    For a factor with many rows, those with the largest entries are shown, grouped by the component of their largest entry. A
    core is shown with its first axis as rows and all others as columns.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2.6 * len(factors) + 0.6, 5.6), layout="constrained")
    axes = figure.subplots(1, len(factors), squeeze=False)[0]
    for axis, (name, factor) in zip(axes, factors.items(), strict=True):
        table = factor.reshape(len(factor), -1)
        scaled = np.abs(table) / np.maximum(np.abs(table).max(axis=0), 1e-300)
        shown = np.argsort(-scaled.max(axis=1), kind="stable")[:MOST_ROWS]
        shown = shown[np.lexsort((-scaled[shown].max(axis=1), scaled[shown].argmax(axis=1)))]
        axis.imshow(scaled[shown], aspect="auto", cmap="viridis", vmin=0, vmax=1, interpolation="nearest")
        count = f"{len(shown)} of {len(factor)}" if len(shown) < len(factor) else f"{len(factor)}"
        axis.set_title(f"{name} ({count})", fontsize=10)
        axis.set_xlabel("component")
        axis.set_xticks(range(scaled.shape[1]) if scaled.shape[1] <= 12 else [])
        labels = [names[name][row] for row in shown] if name in names and len(shown) <= NAMED_ROWS else []
        axis.set_yticks(range(len(labels)), labels, fontsize=7)
    return figure


Points = Sequence[tuple[float, float, str]]
_MARKERS = "os^vPX<>ph"
# Area of the smallest marker, and increase per setting, in square points.
_SMALLEST, _STEP = 24, 16
# Least horizontal distance of points of the frontier that have a label, so that labels do not overlap.
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
    """Draw one line per method through its releases, given as points (leak, utility, setting); `highlight` is drawn in bold.

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
    """Draw the best utility up to each leakage, as steps behind everything else."""
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
