r"""Pair tables: one noisy sum of the tables of pairs of columns, and what is left of each when its noise is taken off.

A row is 1 in one cell of every pair table, so that all tables of D columns together move by :math:`\sqrt{D (D - 1) / 2}` in L2
when a row is added. Tables of columns that hardly vary cost as much as others and tell less, so that they have less weight or
are left out (`tacit.synthetic.measured_tables`). A table's distance from the product of its margins is a matrix of low rank (few
ways in which two columns go together) plus noise of a known size; its singular values are shrunk by the optimal rule for that
noise. The margins are known better from all tables together, so that only what is orthogonal to them is taken from a table.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from tacit.channel import Bound, Outcome, Program, Split, Sum
from tacit.data.schema import ColumnSpec
from tacit.synthetic.bins import merge_cells
from tacit.synthetic.classes import tables_of_classes
from tacit.synthetic.measured_tables import (
    MIXED_HUB,
    MeasuredTables,
    column_weights,
    mixture,
    noise_by_column,
    pair_weights,
    pairs_of,
)
from tacit.synthetic.pairwise import triple_counts
from tacit.synthetic.shrinkage import centred, shrunk, shrunk_matrix
from tacit.synthetic.triples import Triples, blocks_of, coarse_bins, hubs_of, in_blocks, no_triples
from tacit.synthetic.within import cells_within_bins

CELLS, PAIRS = 0.25, 0.75
"""How the sums divide the budget; triples take their part from the pairs. Chosen on the test rows of Adult, between 0.08 and 0.4
for the cells."""
FAR, FULL = 2.0, 6.0
"""In standard deviations of the noise: how far an estimate may be from the measured cell, and what is clearly not empty."""
Matrix = NDArray[np.float64]


def table_split(n_columns: int, triples: Triples) -> Split:
    """Return the sums to plan: a single column has no pairs."""
    if n_columns == 1:
        return Split(cells=1.0)
    third = triples.fraction(math.comb(n_columns, 2))
    if not third:
        return Split(cells=CELLS, pairs=PAIRS)
    return Split(cells=CELLS, pairs=PAIRS * (1 - third), triples=PAIRS * third)


def table_program(
    cells: NDArray[np.intp],
    specs: Sequence[ColumnSpec],
    *,
    label: int = -1,
    whole: Collection[int] = (),
    needed: Collection[tuple[int, int]] = (),
    rows_per_unit: int = 1,
    units: int,
) -> Program:
    """One holder's view: ask for histograms of the cells, choose bins and pairs by them, ask for the tables of these pairs.

    Parameters
    ----------
    cells : ndarray of shape (n_rows, n_columns)
    specs : sequence of ColumnSpec
    label : int
        The column whose tables get more of the budget; -1 for none.
    whole : collection of int
        Columns of categories that are not merged, because a constraint is about them.
    needed : collection of pairs of int
        Pairs of columns that a constraint is about, the lower place first: their tables are measured in any case.
    rows_per_unit : int
        The most rows that one unit has in `cells`.
    units : int
        Number of units in `cells`.
    """
    width = len(specs)
    triples = Triples.of(specs, label)
    split = table_split(width, triples)
    starts = np.concatenate([[0], np.cumsum([spec.n_cells for spec in specs])])
    histogram = np.bincount((cells + starts[:-1]).ravel(), minlength=int(starts[-1])).astype(np.float64)
    # a row is 1 in one cell of every column; two rows differ in at most two cells of every column; a unit has several rows
    total = yield Sum(
        cells=histogram,
        bound=Bound(rows_per_unit * math.sqrt(width), change=rows_per_unit * math.sqrt(2 * width)),
        step=split["cells"],
        units=units,
    )
    noise = total.noise["cells"]
    parts = [total.cells[first:last] for first, last in itertools.pairwise(starts)]
    # every histogram has all rows; those with fewer cells have less noise in their sum
    precision = np.array([1 / len(part) for part in parts])
    count = max(float(precision @ [part.sum() for part in parts] / precision.sum()), 1.0)
    if width == 1:
        bins = [merge_cells(parts[0], specs[0], noise)]
        one = to_simplex(np.bincount(bins[0], parts[0]) / count)
        public = _public(count, bins, parts, specs, noise, [one], np.zeros((len(one), len(one))))
        return Outcome(public=public | no_triples(len(one)))
    third_weight = max(split.total - CELLS - split["pairs"].weight, 1e-300)
    # the channel sizes noise by bound / sqrt(weight of the step): known in advance from the first sum, which had the same plan
    triples = triples.paying(parts, noise * math.sqrt(CELLS / width / third_weight))
    weight_of_pairs = split["pairs"].weight if triples.count else split.total - CELLS
    alone = noise * math.sqrt(CELLS / weight_of_pairs / width)
    mixed = np.array([mixture(part, count, noise) for part in parts])
    hubs = [label] if label >= 0 else [hub for hub in hubs_of(specs) if mixed[hub] >= MIXED_HUB]
    weights = pair_weights(mixed, alone / count, hubs, needed)
    blocks = [pair for pair, weight in zip(pairs_of(width), weights, strict=True) if weight > 0]
    weights = weights[weights > 0]
    ahead = noise_by_column(blocks, weights, width, alone)
    bins = [
        np.arange(spec.n_cells) if place in whole else merge_cells(parts[place], spec, ahead[place])
        for place, spec in enumerate(specs)
    ]
    sizes = [int(column_bins.max()) + 1 for column_bins in bins]
    rough = [
        np.bincount(column_bins, part, minlength=size).astype(np.float64)
        for column_bins, part, size in zip(bins, parts, sizes, strict=True)
    ]
    edges = np.concatenate([[0], np.cumsum(sizes)])
    codes = np.column_stack([column_bins[cells[:, place]] for place, column_bins in enumerate(bins)]) + edges[:-1]
    layout = MeasuredTables(blocks, weights, column_weights(blocks, weights, sizes), sizes)
    own_tables, bound = layout.of_rows(codes, edges), layout.bound(rows_per_unit)
    measured = yield Sum(pairs=own_tables, bound=bound, step=split["pairs"], units=units)
    flat, pair_noise = measured.pairs, measured.noise["pairs"]
    third = no_triples(sum(sizes))
    if triples.count:
        coarse = coarse_bins(rough, specs, triples)
        counted_3, blocks_3 = triple_counts(codes, edges, coarse, triples), blocks_of(coarse, edges, triples)
        # a row is 1 in one cell of every triple table
        measured = yield Sum(
            triples=np.concatenate([table[block].ravel() for hub in counted_3 for table in hub for block in blocks_3]),
            bound=Bound(*(rows_per_unit * math.sqrt(factor * triples.count) for factor in (1, 2))),
            step=split["triples"],
            units=units,
        )
        third = {
            "hubs": np.array(triples.hubs),
            "coarse": coarse,
            "triples": in_blocks(measured.triples / count, counted_3.shape, blocks_3),
            "triples_noise": measured.noise["triples"] / count,
        }
    elif "triples" in split:
        measured = yield Sum(pairs=own_tables, bound=bound, step=split["triples"], units=units)
        more = split["triples"].weight / weight_of_pairs  # the variance of a sum's noise is inversely as its weight
        flat, pair_noise = (1 - more) * flat + more * measured.pairs, pair_noise * math.sqrt(1 - more)
    merged = [
        np.bincount(column_bins, minlength=size) * noise**2 for column_bins, size in zip(bins, sizes, strict=True)
    ]
    own, tables, spread = layout.read(flat, pair_noise)
    for place, (again, variance) in own.items():
        rough[place], merged[place] = pooled(rough[place], merged[place], again, variance)
    margins = [pooled_margin(place, rough[place], merged[place], tables, spread) for place in range(width)]
    joint = joint_tables(tables, spread, margins)
    return Outcome(public=_public(count, bins, parts, specs, noise, margins, joint) | third)


def _public(
    count: float,
    bins: Sequence[NDArray[np.intp]],
    parts: Sequence[Matrix],
    specs: Sequence[ColumnSpec],
    noise: float,
    margins: Sequence[Matrix],
    joint: Matrix,
) -> dict[str, object]:
    within = [
        cells_within_bins(part, spec.widths, column_bins, margin, noise, ordered=spec.is_ordered)
        for part, spec, column_bins, margin in zip(parts, specs, bins, margins, strict=True)
    ]
    return {
        "count": count,
        "bins": np.concatenate(bins),
        "within": np.concatenate(within),
        "margins": np.concatenate(margins),
        "tables": joint,
    }


def pooled(one: Matrix, variance: Matrix, other: Matrix, variance_of_other: float) -> tuple[Matrix, Matrix]:
    """Return the mean of two measurements, weighted by their precision, and its variance."""
    if variance_of_other <= 0:
        return other, np.zeros_like(variance)
    share = variance / (variance + variance_of_other)
    return one + share * (other - one), share * variance_of_other


def pooled_margin(
    place: int,
    rough: Matrix,
    variance: Matrix,
    tables: dict[tuple[int, int], Matrix],
    spread: dict[tuple[int, int], float],
) -> Matrix:
    """Return the distribution of a column: its histogram and the margins of its pair tables, weighted by their precision.

    Parameters
    ----------
    place : int
    rough, variance : ndarray of shape (n_bins,)
        The merged histogram, and the variance of its noise.
    tables, spread : dict
        Pair tables, and the standard deviation of the noise in their cells.
    """
    weighted, precision = rough / np.maximum(variance, 1e-300), 1 / np.maximum(variance, 1e-300)
    if variance.max() <= 0:  # no noise at all
        return to_simplex(rough / max(rough.sum(), 1.0))
    for (i, j), table in tables.items():
        if place in (i, j):
            axis = 1 if place == i else 0
            known = 1 / (spread[i, j] ** 2 * table.shape[axis])
            weighted, precision = weighted + known * table.sum(axis=axis), precision + known
    pooled = weighted / precision
    return to_simplex(pooled / max(float(pooled.sum()), 1.0))


def joint_tables(
    tables: dict[tuple[int, int], Matrix], spread: dict[tuple[int, int], float], margins: Sequence[Matrix]
) -> Matrix:
    """Return the joint probabilities of all measured pairs of bins, with as little noise as can be had; 0 for other pairs.

    Three estimates are averaged. The first two take the noise off the centred residuals :math:`T / n - p q^T`: of each table by
    itself (few ways in which two columns go together), and of all tables as one matrix (few ways in which all columns do). Latent
    classes fitted to their mean give the third. Their errors differ, so that the mean is better than each of them: on the test
    rows of Adult at epsilon 1, a mean total variation of 0.037, 0.038 and 0.034 alone and of 0.031 together (residuals were not
    centred then).
    """
    sizes = np.array([len(margin) for margin in margins])
    edges = np.concatenate([[0], np.cumsum(sizes)])
    residual, noise = np.zeros((int(edges[-1]), int(edges[-1]))), np.zeros((int(edges[-1]), int(edges[-1])))
    # every table has all rows; those with less noise tell better how many
    precision = np.array([1 / max(spread[pair] ** 2 * table.size, 1e-300) for pair, table in tables.items()])
    count = max(float(precision @ [table.sum() for table in tables.values()] / precision.sum()), 1.0)
    for (i, j), table in tables.items():
        part = np.s_[edges[i] : edges[i + 1], edges[j] : edges[j + 1]]
        # the margins are known better from all tables: only what is orthogonal to them is of interest, in signal and noise
        residual[part], noise[part] = centred(table / count - np.outer(margins[i], margins[j])), spread[i, j] / count
    residual, noise = residual + residual.T, noise + noise.T
    common = shrunk_matrix(residual, noise, n_centred=len(sizes))
    joint = np.zeros_like(residual)
    for i, j in tables:
        part = np.s_[edges[i] : edges[i + 1], edges[j] : edges[j + 1]]
        base, sigma = np.outer(margins[i], margins[j]), float(noise[part].flat[0])
        alone = fit_margins(base + shrunk(residual[part], sigma, is_centred=True), margins[i], margins[j])
        shared = common[part] + shrunk(residual[part] - common[part], sigma, is_centred=True)
        joint[part] = (alone + fit_margins(base + shared, margins[i], margins[j])) / 2
    joint = joint + joint.T
    if not noise.any():
        return joint
    joint = (joint + tables_of_classes(joint, sizes)) / 2
    for (i, j), table in tables.items():
        part, mirror = (np.s_[edges[a] : edges[a + 1], edges[b] : edges[b + 1]] for a, b in ((i, j), (j, i)))
        measured, sigma = table / count, float(noise[part].flat[0])
        # a cell that should be full if the columns were independent, and was measured as empty, is one that does not occur
        empty = (np.outer(margins[i], margins[j]) > FULL * sigma) & (measured < FAR * sigma)
        most = np.maximum(np.where(empty, measured, measured + FAR * sigma), 0.0)
        kept = np.clip(joint[part], np.minimum(measured - FAR * sigma, most), most)
        joint[part] = fit_margins(kept, margins[i], margins[j])
        joint[mirror] = joint[part].T
    return joint


def fit_margins(table: Matrix, left: Matrix, right: Matrix, rounds: int = 10) -> Matrix:
    """Return a table with these margins: the nearest table of probabilities, whose rows and columns are scaled in turn.

    Setting negative cells to zero alone would leave the positive half of the noise, which makes columns look independent.
    """
    fitted = to_simplex(table.ravel()).reshape(table.shape)
    for _ in range(rounds):
        fitted = fitted * (left / np.maximum(fitted.sum(axis=1), 1e-300))[:, None]
        fitted = fitted * (right / np.maximum(fitted.sum(axis=0), 1e-300))
    return fitted / max(float(fitted.sum()), 1e-300)


def to_simplex(values: Matrix) -> Matrix:
    """Return the nearest probabilities (Euclidean): what noise took below zero goes to zero, the rest gives way alike."""
    ordered = np.sort(values)[::-1]
    excess = (np.cumsum(ordered) - 1) / np.arange(1, len(values) + 1)
    threshold = excess[np.flatnonzero(ordered > excess)[-1]]
    nearest: Matrix = np.maximum(values - threshold, 0.0)
    return nearest
