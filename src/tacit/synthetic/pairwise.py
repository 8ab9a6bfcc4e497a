r"""The distribution of highest entropy that has given pair tables, and rows drawn from it.

It has the form :math:`P(x) \propto \exp(\sum_j h(x_j) + \sum_{i<j} J(x_i, x_j))`: columns are tied in pairs and in no other way
(a Potts model, or pairwise Markov random field; where triple tables were measured, the ties of numbers depend on a third column,
see `tacit.synthetic.triples`). Every column given all others is then a logistic regression on them, whichever
column a user wants to predict. Nothing computes its normaliser: chains of rows are moved by Gibbs sampling, and the couplings J
grow where the chains have too few rows in a cell of a pair table and shrink where they have too many (stochastic approximation
with persistent chains; Tieleman, ICML 2008). Rows for a user are drawn by the same chains, which also lean towards cells that
still lack rows, so that a drawn table is nearer to the pair tables than independent rows would be (as in herding; Welling,
ICML 2009).

All of this works on released tables; private rows are counted (`pair_counts`) and are not used otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

from tacit.synthetic.triples import Triples, blocks_of, without_noise

SWEEPS, LEAST_CHAINS, CHAINS = 150, 2000, 6000
"""Sweeps and chains of a fit. The first that reached pair tables without noise of Adult to 0.01; not searched further."""
FIRST_STEP, LAST_STEP = 2.0, 0.02
"""Steps of the couplings: the first is divided by the mean number of columns that a column is tied to, since all move at once."""
LEAN = 6.0
"""How strongly a draw leans towards cells that lack rows. Of 1, 3, 6 and 12, by the error of pair tables of the customers and
invoice lines of a shop and of news articles, which are not reported."""
MIXING, LEANING = 2, 3
"""Sweeps of a draw: first plain ones, then leaning ones."""
LARGEST_COUPLING = 12.0
"""A coupling of this size makes a pair of values impossible for practical purposes (e^-12)."""
FORBIDDEN = -1000.0
"""The coupling of a pair of bins that the schema rules out."""

EXPECTING, SWEEPS_OF_TRIPLES = 10, 100
"""Sweeps in which the triple tables that pairs lead to expect are counted, and sweeps that fit those that were measured."""
WIDE = 50
"""Wider tables have fewer chains: a sweep takes time in proportion to the square of the width, and their tables more noise."""

Loop = TypeVar("Loop", bound=Callable[..., Any])
Codes = NDArray[np.int32]
Single = NDArray[np.float32]
Third = NDArray[np.float32]


def _compiled(loop: Loop) -> Loop:
    """Compile a loop once and keep it on disk; additions may be reordered, since nothing private depends on a last bit here."""
    return cast(Loop, njit(cache=True, nogil=True, fastmath={"contract", "nsz", "reassoc", "arcp"})(loop))


@_compiled
def _count(codes: Codes, counts: NDArray[np.generic]) -> None:
    for row in range(codes.shape[0]):
        for i in range(codes.shape[1]):
            for j in range(i + 1, codes.shape[1]):
                counts[codes[row, i], codes[row, j]] += 1


@_compiled
def _count_triples(
    codes: Codes, edges: Codes, coarse: Codes, numbers: Codes, hubs: Codes, counts: NDArray[np.generic]
) -> None:
    for row in range(codes.shape[0]):
        for hub in range(len(hubs)):
            value = codes[row, hubs[hub]] - edges[hubs[hub]]
            for one in range(len(numbers)):
                here = coarse[codes[row, numbers[one]]]
                for two in range(one + 1, len(numbers)):
                    counts[hub, value, here, coarse[codes[row, numbers[two]]]] += 1


def pair_counts(codes: NDArray[np.integer], size: int) -> NDArray[np.float64]:
    """Return how many rows have each pair of bins, above the diagonal; bins of all columns are numbered in one sequence."""
    counts = np.zeros((size, size))
    _count(np.ascontiguousarray(codes, dtype=np.int32), counts)
    return counts


def triple_counts(
    codes: NDArray[np.integer], edges: NDArray[np.integer], coarse: NDArray[np.int32], triples: Triples
) -> NDArray[np.float64]:
    """Return how many rows have each class of a hub with each pair of coarse bins: an array of (hub, class, bin, bin)."""
    size, hubs = int(coarse.max()) + 1, np.array(triples.hubs, dtype=np.int32)
    classes = max((int(edges[hub + 1] - edges[hub]) for hub in triples.hubs), default=0)
    counts = np.zeros((len(hubs), classes, size, size))
    numbers = np.array(triples.numbers, dtype=np.int32)
    _count_triples(
        np.ascontiguousarray(codes, dtype=np.int32), np.asarray(edges, np.int32), coarse, numbers, hubs, counts
    )
    return counts


@_compiled
def _sweep(  # noqa: PLR0912  (one compiled loop)
    codes: Codes,
    couplings: Single,
    fields: Single,
    edges: Codes,
    tied: Codes,
    degree: Codes,
    uniform: Single,
    lacking: Single,
    goal: Single,
    lean: float,
    fixed: NDArray[np.bool_],
    third: Third,
    coarse: Codes,
    numbers: Codes,
    hubs: Codes,
) -> None:
    """Draw every column of every row anew, given the others. With `lean`, keep `lacking` (goal minus rows) up to date."""
    largest = 0
    for column in range(codes.shape[1]):
        largest = max(largest, edges[column + 1] - edges[column])
    score = np.empty(largest, np.float32)
    rough = np.empty(largest, np.float32)
    for row in range(codes.shape[0]):
        for column in range(codes.shape[1]):
            if fixed[column]:
                continue
            first = edges[column]
            size = edges[column + 1] - first
            old = codes[row, column]
            for a in range(size):
                score[a] = fields[first + a]
            for place in range(degree[column]):
                other = codes[row, tied[column, place]]
                for a in range(size):
                    score[a] += couplings[other, first + a]
            if (
                len(hubs) and coarse[first] >= 0
            ):  # a column of numbers: ties to the other numbers that depend on the hubs
                least = coarse[first]
                n_rough = coarse[first + size - 1] - least + 1
                for b in range(n_rough):
                    rough[b] = 0
                for hub in range(len(hubs)):
                    value = codes[row, hubs[hub]] - edges[hubs[hub]]
                    for place in range(len(numbers)):
                        if numbers[place] != column:
                            other = coarse[codes[row, numbers[place]]]
                            for b in range(n_rough):
                                rough[b] += third[hub, value, other, least + b]
                for a in range(size):
                    score[a] += rough[coarse[first + a] - least]
            for hub in range(len(hubs)):
                if hubs[hub] == column:
                    for one in range(len(numbers)):
                        for two in range(one + 1, len(numbers)):
                            here, there = coarse[codes[row, numbers[one]]], coarse[codes[row, numbers[two]]]
                            for a in range(size):
                                score[a] += third[hub, a, here, there]
            if lean > 0:
                for place in range(degree[column]):
                    other = codes[row, tied[column, place]]
                    lacking[other, old] += 1
                    lacking[old, other] += 1
                    for a in range(size):
                        score[a] += lean * lacking[other, first + a] / (goal[other, first + a] + 1)
            highest = score[0]
            for a in range(1, size):
                highest = max(highest, score[a])
            total = np.float32(0)
            for a in range(size):
                score[a] = math.exp(score[a] - highest)
                total += score[a]
            left = uniform[row, column] * total
            new = 0
            left -= score[0]
            while left > 0 and new < size - 1:
                new += 1
                left -= score[new]
            codes[row, column] = first + new
            if lean > 0:
                for place in range(degree[column]):
                    other = codes[row, tied[column, place]]
                    lacking[other, first + new] -= 1
                    lacking[first + new, other] -= 1


class PairwiseModel:
    """Couplings and fields of the pairwise distribution.

    Parameters
    ----------
    sizes : sequence of int
        Number of bins of each column.
    margins : ndarray of shape (n_bins,)
        Probabilities of the bins of all columns, side by side.
    tables : ndarray of shape (n_bins, n_bins)
        Joint probabilities of pairs of bins, symmetric; a pair of columns whose block is zero is not tied.
    forbidden : ndarray of bool of shape (n_bins, n_bins), optional
        Pairs of bins that no row may have.
    coarse : ndarray of shape (n_bins,), optional
        Coarse bin of each bin of a column of numbers, -1 for other columns; all -1 if there are no triple tables.
    triples : Triples
        The columns of the triple tables.
    """

    def __init__(
        self,
        sizes: NDArray[np.intp],
        margins: NDArray[np.float64],
        tables: NDArray[np.float64],
        forbidden: NDArray[np.bool_] | None = None,
        coarse: NDArray[np.int32] | None = None,
        triples: Triples = Triples(),  # noqa: B008  (frozen)
    ) -> None:
        self.edges = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        self.margins, self.tables = margins, tables
        self.forbidden = np.zeros(tables.shape, dtype=bool) if forbidden is None else forbidden
        mass = np.add.reduceat(np.add.reduceat(tables, self.edges[:-1], axis=0), self.edges[:-1], axis=1)
        ruled = np.add.reduceat(np.add.reduceat(self.forbidden, self.edges[:-1], axis=0), self.edges[:-1], axis=1)
        self.known = mass > 0
        ties = self.known | (ruled > 0)
        self.degree = ties.sum(axis=1).astype(np.int32)
        self.tied = np.zeros((len(sizes), max(int(self.degree.max(initial=0)), 1)), dtype=np.int32)
        for column, row in enumerate(ties):
            self.tied[column, : self.degree[column]] = np.flatnonzero(row)
        self.mask = np.repeat(np.repeat(self.known, sizes, axis=0), sizes, axis=1)
        self.fields = np.log(np.maximum(margins, 1e-7)).astype(np.float32)
        self.couplings = np.where(self.forbidden, FORBIDDEN, 0.0).astype(np.float32)
        self.coarse = np.full(len(margins), -1, dtype=np.int32) if coarse is None else np.ascontiguousarray(coarse)
        self.triples = triples
        shape = self.triple_counts(np.empty((0, len(sizes)), np.int32)).shape
        self.third = np.zeros(shape, dtype=np.float32)

    def triple_counts(self, codes: Codes) -> NDArray[np.float64]:
        """Return how many rows have each class of a hub with each pair of coarse bins."""
        return triple_counts(codes, self.edges, self.coarse, self.triples)

    def independent(self, n_rows: int, generator: np.random.Generator) -> Codes:
        """Return rows with the right margins and no ties."""
        columns = [
            spread_draw(self.margins[first:last], n_rows, generator) + first
            for first, last in zip(self.edges[:-1], self.edges[1:], strict=True)
        ]
        return np.ascontiguousarray(np.column_stack(columns), dtype=np.int32)

    def sweep(
        self,
        codes: Codes,
        generator: np.random.Generator,
        lacking: Single | None = None,
        goal: Single | None = None,
        fixed: NDArray[np.bool_] | None = None,
    ) -> None:
        """Draw every column of every row anew, in place; those of `fixed` stay."""
        none = np.zeros((1, 1), dtype=np.float32)
        uniform = generator.random(codes.shape, dtype=np.float32)
        _sweep(
            codes,
            self.couplings,
            self.fields,
            self.edges,
            self.tied,
            self.degree,
            uniform,
            none if lacking is None else lacking,
            none if goal is None else goal,
            0.0 if lacking is None else LEAN,
            np.zeros(codes.shape[1], dtype=bool) if fixed is None else fixed,
            self.third,
            self.coarse,
            np.array(self.triples.numbers, dtype=np.int32),
            np.array(self.triples.hubs, dtype=np.int32),
        )

    def counts(self, codes: Codes) -> Single:
        """Return how many rows have each pair of bins, symmetric."""
        upper = np.zeros(self.tables.shape, dtype=np.float32)
        _count(codes, upper)
        return upper + upper.T

    def tilts(self, codes: Codes, column: int) -> NDArray[np.float64]:
        """Return, per row, the change of the log-probability of an ordered column across its bin, beyond that of the margin.

        Half the difference of the couplings' sums in the bins on either side.
        """
        first, last = int(self.edges[column]), int(self.edges[column + 1])
        score = np.zeros((len(codes), last - first))
        for place in range(int(self.degree[column])):
            score += np.maximum(self.couplings[codes[:, self.tied[column, place]], first:last], -LARGEST_COUPLING)
        here = codes[:, column] - first
        below, above = np.maximum(here - 1, 0), np.minimum(here + 1, last - first - 1)
        rows = np.arange(len(codes))
        change: NDArray[np.float64] = (score[rows, above] - score[rows, below]) / 2
        return change

    def fit(self, n_rows: int, generator: np.random.Generator) -> Codes:
        """Learn the couplings; return the chains, rows of the model at the end."""
        chains = self.independent(n_rows, generator)
        if not self.degree.any():
            return chains
        first = FIRST_STEP / max(float(self.degree.mean()), 4.0)
        for turn in range(SWEEPS):
            self.sweep(chains, generator)
            self._pull(chains, max(first * (1 - turn / SWEEPS), LAST_STEP))
        return chains

    def _pull(self, chains: Codes, step: float) -> None:
        """Move the couplings towards the tables, by what the chains lack."""
        tables, modelled = self.tables.astype(np.float32), self.counts(chains) / len(chains)
        away = (tables - modelled) / (np.maximum(tables, modelled) + 1 / len(chains))
        self.couplings += step * np.where(self.mask & ~self.forbidden, away, 0.0).astype(np.float32)
        np.clip(self.couplings, -LARGEST_COUPLING, LARGEST_COUPLING, out=self.couplings, where=~self.forbidden)

    def fit_triples(self, chains: Codes, measured: Any, noise: float, generator: np.random.Generator) -> None:
        """Learn, after `fit`, how the couplings of numbers differ between the classes of hubs; move the chains.

        Parameters
        ----------
        chains : ndarray of shape (n_chains, n_columns)
        measured : ndarray of shape (n_hubs, n_classes, n_coarse, n_coarse)
            Probabilities of the triple tables.
        noise : float
            Standard deviation of their noise.
        generator : Generator
        """
        if not self.triples.count:
            return
        expected = np.zeros(measured.shape)
        for _ in range(EXPECTING):
            self.sweep(chains, generator)
            expected += self.triple_counts(chains) / (EXPECTING * len(chains))
        blocks = blocks_of(self.coarse, self.edges, self.triples)
        wanted = np.zeros(measured.shape)
        for place, hub in enumerate(self.triples.hubs):
            n = int(self.edges[hub + 1] - self.edges[hub])
            wanted[place, :n] = without_noise(measured[place, :n], expected[place, :n], noise, blocks)
        first = FIRST_STEP / max(len(self.triples.numbers), 4)
        for turn in range(SWEEPS_OF_TRIPLES):
            self.sweep(chains, generator)
            self._pull(chains, LAST_STEP)
            modelled = self.triple_counts(chains) / len(chains)
            away = (wanted - modelled) / (np.maximum(wanted, modelled) + 1 / len(chains))
            step = max(first * (1 - turn / SWEEPS_OF_TRIPLES), LAST_STEP)
            self.third += (step * (away + away.swapaxes(2, 3))).astype(np.float32)
            np.clip(self.third, -LARGEST_COUPLING, LARGEST_COUPLING, out=self.third)

    def draw(
        self, chains: Codes, n_rows: int, generator: np.random.Generator, given: dict[int, int] | None = None
    ) -> Codes:
        """Return new rows, from chains of a fit.

        Parameters
        ----------
        chains : ndarray of shape (n_chains, n_columns)
        n_rows : int
        generator : Generator
        given : dict of int to int, optional
            Bins (numbered over all columns) that columns are held at.
        """
        turns = -(-n_rows // len(chains))
        places = np.concatenate([generator.permutation(len(chains)) for _ in range(turns)])[:n_rows]
        codes, fixed = np.ascontiguousarray(chains[places]), np.zeros(chains.shape[1], dtype=bool)
        for column, code in (given or {}).items():
            codes[:, column], fixed[column] = code, True
        if not self.degree.any():
            self.sweep(codes, generator, fixed=fixed)
            return codes
        for _ in range(MIXING if not given else 5 * MIXING):
            self.sweep(codes, generator, fixed=fixed)
        if not given:
            goal = np.where(self.mask, self.tables * n_rows, 0.0).astype(np.float32)
            lacking = np.where(self.mask, goal - self.counts(codes), 0.0).astype(np.float32)
            for _ in range(LEANING):
                self.sweep(codes, generator, lacking, goal)
        return codes


def chains_of(count: float, width: int) -> int:
    """Return the number of chains for a table of this many rows and columns."""
    return int(np.clip(count, LEAST_CHAINS, CHAINS) * min(1.0, WIDE / width))


def spread_draw(probabilities: NDArray[np.float64], n_rows: int, generator: np.random.Generator) -> NDArray[np.intp]:
    """Return draws in random order whose counts are within one of the expected ones (systematic sampling)."""
    ends = np.cumsum(probabilities) / np.sum(probabilities)
    places = (np.arange(n_rows) + generator.random()) / n_rows
    draws = np.minimum(np.searchsorted(ends, places, side="right"), len(probabilities) - 1)
    return generator.permutation(draws)
