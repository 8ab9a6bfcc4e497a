"""What a relation's factors predict: for single cells, or for all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tacit.factor.coupled.cells import Coords
from tacit.factor.coupled.divergence import Floats
from tacit.factor.coupled.spec import Spec

BLOCK_NUMBERS = 1 << 21
"""Most numbers gathered at once."""


def reconstruct(spec: Spec, factors: tuple[Floats, ...]) -> Floats:
    """Return all cells."""
    return np.asarray(np.einsum(spec.text, *factors, optimize=True))


def reconstruct_at(spec: Spec, factors: tuple[Floats, ...], cells: Coords) -> Floats:
    """Return some cells, one a row of `cells`: the cost is that of the cells, whatever the size of the tensor."""
    found = np.empty(len(cells))
    for block in blocks(spec, factors, len(cells)):
        text, operands = gathered(spec, factors, cells[block])
        found[block] = np.einsum(f"{text}->{cell_letter(spec)}", *operands, optimize=True)
    return found


def gathered(spec: Spec, factors: tuple[Floats, ...], cells: Coords) -> tuple[str, list[Floats]]:
    """Return every factor's part that belongs to each cell, and the einsum's left side for them.

    A factor without data letters, such as a core, is the same for all cells and is left as it is.
    """
    new = cell_letter(spec)
    axis = {letter: place for place, letter in enumerate(spec.output)}
    groups, operands = [], []
    for letters, factor in zip(spec.inputs, factors, strict=True):
        index: tuple[Any, ...] = tuple(cells[:, axis[letter]] if letter in axis else slice(None) for letter in letters)
        summed = "".join(letter for letter in letters if letter not in axis)
        if len(summed) == len(letters):
            groups.append(letters)
            operands.append(factor)
            continue
        # data letters first, so that the gathered axis comes first whatever their places were
        order = [place for place, letter in enumerate(letters) if letter in axis]
        order += [place for place, letter in enumerate(letters) if letter not in axis]
        arranged = factor.transpose(order)
        operands.append(arranged[tuple(index[place] for place in order if letters[place] in axis)])
        groups.append(new + summed)
    return ",".join(groups), operands


def cell_letter(spec: Spec) -> str:
    """Return a letter that the einsum does not use."""
    return next(letter for letter in "zyxwvutsrqponmlkjihgfedcbaZYXWVUTSRQPONMLKJIHGFEDCBA" if letter not in spec.text)


def blocks(spec: Spec, factors: tuple[Floats, ...], n_cells: int) -> list[slice]:
    """Cut a list of cells into ranges whose gathered factors fit into the cache."""
    sizes = {
        letter: size
        for group, factor in zip(spec.inputs, factors, strict=True)
        for letter, size in zip(group, factor.shape, strict=True)
    }
    width = max(int(np.prod([sizes[letter] for letter in spec.summed], dtype=np.int64)), 1)
    step = max(BLOCK_NUMBERS // (8 * width), 1)
    return [slice(start, min(start + step, n_cells)) for start in range(0, n_cells, step)]


def in_order(names: tuple[str, ...], factors: Mapping[str, Floats]) -> tuple[Floats, ...]:
    """Return a relation's factors in the order of its einsum."""
    return tuple(factors[name] for name in names)
