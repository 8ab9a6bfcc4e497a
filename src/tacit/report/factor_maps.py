"""Factors as heat maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_ROWS = 60
NAMED_ROWS = 40


def factor_maps(factors: Mapping[str, NDArray[np.float64]], names: Mapping[str, Sequence[str]]) -> Figure:
    """Draw each factor, a row an entity and a column a component; every column is scaled to its largest entry.

    Of a factor with many rows, the strongest are shown, grouped by the component that is strongest in them. A core is shown
    with its first axis as rows and all others as columns.
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
