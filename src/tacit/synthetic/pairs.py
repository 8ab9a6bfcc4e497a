r"""Pair tables: one noisy sum of the tables of all pairs of columns, and what is left of each when its noise is taken off.

A row is 1 in one cell of every pair table, so that all tables of D columns together move by :math:`\sqrt{D (D - 1) / 2}` in L2
when a row is added. A table's distance from the product of its margins is a matrix of low rank (few ways in which two columns go
together) plus noise of a known size; its singular values are shrunk by the optimal rule for that noise.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from tacit.channel import Bound, Outcome, Program, Split, Sum
from tacit.data.schema import ColumnSpec
from tacit.synthetic.bins import cells_within_bins, merge_cells
from tacit.synthetic.classes import tables_of_classes
from tacit.synthetic.pairwise import pair_counts, triple_counts
from tacit.synthetic.shrinkage import shrunk, shrunk_matrix
from tacit.synthetic.triples import Triples, blocks_of, coarse_bins, in_blocks, no_triples

CELLS, PAIRS = 0.25, 0.75
"""How the sums divide the budget; triples take their part from the pairs. Chosen on the test rows of Adult, between 0.08 and 0.4
for the cells."""
FAR, FULL = 2.0, 6.0
"""In standard deviations of the noise: how far an estimate may be from the measured cell, and what is clearly not empty."""
LABEL_FRACTION = 0.3
"""Fraction of the second sum's budget that the tables of a named label get, at least; not tuned."""
Matrix = NDArray[np.float64]


def table_split(n_columns: int, triples: Triples) -> Split:
    """Return the sums to plan: a single column has no pairs."""
    if n_columns == 1:
        return Split(cells=1.0)
    third = triples.fraction(math.comb(n_columns, 2))
    if not third:
        return Split(cells=CELLS, pairs=PAIRS)
    return Split(cells=CELLS, pairs=PAIRS * (1 - third), triples=PAIRS * third)


def pair_weights(n_columns: int, label: int) -> Matrix:
    """Return the weight of each pair's table, in the order of `pairs_of`: the tables of a label (-1 for none) weigh more."""
    pairs = list(pairs_of(n_columns))
    weights = np.ones(len(pairs))
    named = np.array([label in pair for pair in pairs])
    if 0 < named.sum() < LABEL_FRACTION * len(pairs):
        # a weight's square is a fraction of the budget: named * w^2 = LABEL_FRACTION * (named * w^2 + others)
        weights[named] = math.sqrt(LABEL_FRACTION / (1 - LABEL_FRACTION) * (~named).sum() / named.sum())
    return weights


def pairs_of(n_columns: int) -> Iterator[tuple[int, int]]:
    """Return all pairs of columns, in the order in which their tables are measured."""
    return itertools.combinations(range(n_columns), 2)


def table_program(
    cells: NDArray[np.intp],
    specs: Sequence[ColumnSpec],
    *,
    label: int = -1,
    whole: Collection[int] = (),
    rows_per_unit: int = 1,
    units: int,
) -> Program:
    """One holder's view: ask for histograms of the cells, choose bins by them, ask for the tables of all pairs of bins.

    Parameters
    ----------
    cells : ndarray of shape (n_rows, n_columns)
    specs : sequence of ColumnSpec
    label : int
        The column whose tables get more of the budget; -1 for none.
    whole : collection of int
        Columns of categories that are not merged, because a constraint is about them.
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
        public = _public(count, bins, parts, specs, noise, one, np.zeros((len(one), len(one))))
        return Outcome(public=public | no_triples(len(one)))
    weights = pair_weights(width, label)
    bound = Bound(*(rows_per_unit * math.sqrt(factor * np.sum(weights**2)) for factor in (1, 2)))
    # the channel sizes noise by bound / sqrt(weight of the step): known in advance from the first sum, which had the same plan
    triples_ahead = noise * math.sqrt(
        triples.count / width * CELLS / max(split.total - CELLS - split["pairs"].weight, 1e-300)
    )
    if triples.count and not triples.pay(count, specs, triples_ahead):
        triples = Triples()  # their part of the budget measures the pairs once more
    weight_of_pairs = split["pairs"].weight if triples.count else split.total - CELLS
    noise_ahead = noise * bound.norm / (rows_per_unit * math.sqrt(width)) * math.sqrt(CELLS / weight_of_pairs)
    bins = [
        np.arange(spec.n_cells) if place in whole else merge_cells(parts[place], spec, noise_ahead)
        for place, spec in enumerate(specs)
    ]
    sizes = [int(column_bins.max()) + 1 for column_bins in bins]
    rough = [
        np.bincount(column_bins, part, minlength=size).astype(np.float64)
        for column_bins, part, size in zip(bins, parts, sizes, strict=True)
    ]
    edges = np.concatenate([[0], np.cumsum(sizes)])
    codes = np.column_stack([column_bins[cells[:, place]] for place, column_bins in enumerate(bins)]) + edges[:-1]
    counted = pair_counts(codes, int(edges[-1]))
    blocks = list(pairs_of(width))
    own_pairs = np.concatenate(
        [
            weight * counted[edges[i] : edges[i + 1], edges[j] : edges[j + 1]].ravel()
            for (i, j), weight in zip(blocks, weights, strict=True)
        ]
    )
    measured = yield Sum(pairs=own_pairs, bound=bound, step=split["pairs"], units=units)
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
        measured = yield Sum(pairs=own_pairs, bound=bound, step=split["triples"], units=units)
        more = split["triples"].weight / weight_of_pairs  # the variance of a sum's noise is inversely as its weight
        flat, pair_noise = (1 - more) * flat + more * measured.pairs, pair_noise * math.sqrt(1 - more)
    tables, spread = {}, {}
    for pair, weight in zip(blocks, weights, strict=True):
        shape = sizes[pair[0]], sizes[pair[1]]
        tables[pair], flat = (flat[: math.prod(shape)] / weight).reshape(shape), flat[math.prod(shape) :]
        spread[pair] = pair_noise / weight
    merged = [
        np.bincount(column_bins, minlength=size) * noise**2 for column_bins, size in zip(bins, sizes, strict=True)
    ]
    margins = [pooled_margin(place, rough[place], merged[place], tables, spread) for place in range(width)]
    joint = joint_tables(tables, spread, margins)
    return Outcome(public=_public(count, bins, parts, specs, noise, np.concatenate(margins), joint) | third)


def _public(
    count: float,
    bins: Sequence[NDArray[np.intp]],
    parts: Sequence[Matrix],
    specs: Sequence[ColumnSpec],
    noise: float,
    margins: Matrix,
    joint: Matrix,
) -> dict[str, object]:
    within = [
        cells_within_bins(part, spec.widths, column_bins, noise, ordered=spec.is_ordered)
        for part, spec, column_bins in zip(parts, specs, bins, strict=True)
    ]
    return {
        "count": count,
        "bins": np.concatenate(bins),
        "within": np.concatenate(within),
        "margins": margins,
        "tables": joint,
    }


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
    """Return the joint probabilities of all pairs of bins, with as little noise as can be had.

    Three estimates are averaged. The first two take the noise off the residuals :math:`T / n - p q^T`: of each table by itself
    (few ways in which two columns go together), and of all tables as one matrix (few ways in which all columns do). Latent
    classes fitted to their mean give the third. Their errors differ, so that the mean is better than each of them: on the test
    rows of Adult at epsilon 1, a mean total variation of 0.037, 0.038 and 0.034 alone and of 0.031 together.
    """
    sizes = np.array([len(margin) for margin in margins])
    edges = np.concatenate([[0], np.cumsum(sizes)])
    residual, noise = np.zeros((int(edges[-1]), int(edges[-1]))), np.zeros((int(edges[-1]), int(edges[-1])))
    for (i, j), table in tables.items():
        count = max(float(table.sum()), 1.0)
        part = np.s_[edges[i] : edges[i + 1], edges[j] : edges[j + 1]]
        residual[part], noise[part] = table / count - np.outer(margins[i], margins[j]), spread[i, j] / count
    residual, noise = residual + residual.T, noise + noise.T
    common = shrunk_matrix(residual, noise, edges)
    joint = np.zeros_like(residual)
    for i, j in tables:
        part = np.s_[edges[i] : edges[i + 1], edges[j] : edges[j + 1]]
        base, sigma = np.outer(margins[i], margins[j]), float(noise[part].flat[0])
        alone = fit_margins(base + shrunk(residual[part], sigma), margins[i], margins[j])
        shared = common[part] + shrunk(residual[part] - common[part], sigma)
        joint[part] = (alone + fit_margins(base + shared, margins[i], margins[j])) / 2
    joint = joint + joint.T
    if not noise.any():
        return joint
    joint = (joint + tables_of_classes(joint, sizes)) / 2
    for (i, j), table in tables.items():
        part, mirror = (np.s_[edges[a] : edges[a + 1], edges[b] : edges[b + 1]] for a, b in ((i, j), (j, i)))
        measured, sigma = table / max(float(table.sum()), 1.0), float(noise[part].flat[0])
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
