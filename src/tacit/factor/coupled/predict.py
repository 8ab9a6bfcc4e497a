"""Predictions of a relation's factors: for single cells, for all cells, and sums over all cells without listing them.

For the sums, each factor is first summed over the letters that only it has: column sums for the means, Gram matrices for their
squares. So the cost depends on the sizes of the factors, not on the size of the tensor.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tacit.factor.arrays import Floats
from tacit.factor.coupled.cells import Coords
from tacit.factor.coupled.einsum import Spec

BLOCK_NUMBERS = 1 << 21
"""Most numbers gathered at the same time: 16 MB. It bounds the memory and does not change results."""
BY_PAIRS = ("greedy", 1 << 24)
"""How einsums over listed cells are computed: two operands at a time, also if what is between is larger than the operands
(up to 128 MB; `blocks` keeps it smaller). By default NumPy then takes all operands at once, which is 7 times slower."""
Keep = Sequence[NDArray[np.bool_] | None]


def reconstruct(spec: Spec, factors: tuple[Floats, ...]) -> Floats:
    r"""Return all cells: :math:`\hat X^{(v)}` of Ermis 2020 (eqs 2.1 and 2.2 for CP, eq. 6.5 for Tucker)."""
    return np.asarray(np.einsum(spec.text, *factors, optimize=True))


def reconstruct_at(spec: Spec, factors: tuple[Floats, ...], cells: Coords) -> Floats:
    """Return some cells, one per row of `cells`; the cost depends on the number of cells, not on the size of the tensor."""
    values = np.empty(len(cells))
    for block in blocks(spec, factors, len(cells)):
        text, operands = gathered(spec, factors, cells[block])
        values[block] = np.einsum(f"{text}->{cell_letter(spec)}", *operands, optimize=BY_PAIRS)
    return values


def gathered(spec: Spec, factors: tuple[Floats, ...], cells: Coords) -> tuple[str, list[Floats]]:
    """Return the part of every factor for each cell, and the left side of the einsum for these parts.

    A factor without data letters, such as a core, is the same for all cells, and is returned unchanged.
    """
    new = cell_letter(spec)
    axis = {letter: place for place, letter in enumerate(spec.output)}
    groups, operands = [], []
    for letters, factor in zip(spec.inputs, factors, strict=True):
        index: tuple[NDArray[np.int32] | slice, ...] = tuple(
            cells[:, axis[letter]] if letter in axis else slice(None) for letter in letters
        )
        summed = "".join(letter for letter in letters if letter not in axis)
        if len(summed) == len(letters):
            groups.append(letters)
            operands.append(factor)
            continue
        # data letters first, so that the gathered axis is the first one
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
    """Divide a list of cells into ranges whose gathered factors fit into the cache."""
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


def contract(operands: Sequence[tuple[str, Floats]], output: str) -> Floats:
    """Return the einsum of `operands` (letters and array), after summing each over the letters that only it has."""
    if not operands:
        return np.ones(())
    reduced = []
    for place, (letters, array) in enumerate(operands):
        elsewhere = set(output).union(*(other for index, (other, _) in enumerate(operands) if index != place))
        alone = tuple(axis for axis, letter in enumerate(letters) if letter not in elsewhere)
        kept = "".join(letter for letter in letters if letter in elsewhere)
        reduced.append((kept, array.sum(axis=alone) if alone else array))
    text = ",".join(letters for letters, _ in reduced)
    return np.asarray(np.einsum(f"{text}->{output}", *(array for _, array in reduced), optimize=len(reduced) > 2))


def total_mean(spec: Spec, factors: Sequence[Floats], keep: Keep) -> float:
    """Return the sum of the means of all kept cells."""
    return float(contract(_weighted(spec, list(enumerate(factors)), keep), ""))


def total_square(spec: Spec, factors: Sequence[Floats], keep: Keep) -> float:
    """Return the sum of the squared means of all kept cells."""
    return float(contract(_doubled(spec, list(enumerate(factors)), keep, ""), ""))


def mean_gradient(spec: Spec, factors: Sequence[Floats], keep: Keep, place: int) -> Floats:
    """Return the gradient of `total_mean` with respect to the factor at `place`."""
    others = _weighted(spec, [(at, array) for at, array in enumerate(factors) if at != place], keep, without=place)
    own = spec.inputs[place]
    present = _present(own, others)
    return _spread(contract(others, present), present, own, factors[place].shape, _own_keep(spec, keep, own))


def square_gram(spec: Spec, factors: Sequence[Floats], keep: Keep, place: int) -> Floats | None:
    """Return G such that half of `total_square` is ``1/2 v'Gv`` for every row v of the factor at `place`.

    A row has fixed data letters; its entries run over the summed letters. None if the rows have different Gram matrices.
    """
    own = spec.inputs[place]
    data = spec.data_letters(place)
    shared = [letter for at, group in enumerate(spec.inputs) if at != place for letter in group]
    if any(letter in shared or keep[spec.output.index(letter)] is not None for letter in data):
        return None
    summed = spec.summed_letters(place)
    copies = _primed(spec)
    free = "".join(letter for letter in summed if letter not in shared)
    others = _doubled(spec, [(at, array) for at, array in enumerate(factors) if at != place], keep, data)
    # a summed letter that only this factor has: the mean adds up the entries, so all pairs of them count
    sizes = dict(zip(own, factors[place].shape, strict=True))
    others += [(letter, np.ones(sizes[letter])) for letter in free]
    others += [(copies[letter], np.ones(sizes[letter])) for letter in free]
    width = int(np.prod([sizes[letter] for letter in summed], dtype=np.int64))
    primed = "".join(copies[letter] for letter in summed)
    return contract(others, summed + primed).reshape(width, width)


def square_gradient(spec: Spec, factors: Sequence[Floats], keep: Keep, place: int) -> Floats:
    """Return the gradient of half of `total_square` with respect to the factor at `place`."""
    own = spec.inputs[place]
    copies = _primed(spec)
    others = _doubled(spec, [(at, array) for at, array in enumerate(factors) if at != place], keep, "", without=place)
    primed = "".join(copies.get(letter, letter) for letter in own)
    operands = [*others, (primed, factors[place])]
    present = _present(own, operands)
    return _spread(contract(operands, present), present, own, factors[place].shape, _own_keep(spec, keep, own))


def _primed(spec: Spec) -> dict[str, str]:
    """Return, for every summed letter, another letter that the einsum does not use."""
    spare = (chr(code) for code in range(0x61, 0x61 + 26))
    upper = (chr(code) for code in range(0x41, 0x41 + 26))
    unused = [letter for source in (upper, spare) for letter in source if letter not in spec.text]
    return dict(zip(spec.summed, unused, strict=False))


def _weighted(
    spec: Spec, placed: Iterable[tuple[int, Floats]], keep: Keep, *, without: int | None = None
) -> list[tuple[str, Floats]]:
    """Return the factors' letters and arrays. Each hidden slice is set to zero in one factor."""
    own = "" if without is None else spec.inputs[without]
    pending = {
        letter: kept for letter, kept in zip(spec.output, keep, strict=True) if kept is not None and letter not in own
    }
    operands = []
    for at, array in placed:
        letters, weighted = spec.inputs[at], array
        for letter in letters:
            kept = pending.pop(letter, None)
            if kept is not None:
                shape: list[int] = [-1 if other == letter else 1 for other in letters]
                weighted = weighted * kept.reshape(shape)
        operands.append((letters, weighted))
    return operands


def _doubled(
    spec: Spec, placed: list[tuple[int, Floats]], keep: Keep, data: str, *, without: int | None = None
) -> list[tuple[str, Floats]]:
    """Return every factor twice, the second time with other summed letters; joined if they have data letters of their own."""
    copies = _primed(spec)
    weighted = _weighted(spec, placed, keep, without=without)
    own = "" if without is None else spec.inputs[without]
    operands: list[tuple[str, Floats]] = []
    for (at, plain), (letters, first) in zip(placed, weighted, strict=True):
        second = "".join(copies.get(letter, letter) for letter in letters)
        elsewhere = {letter for other, _ in placed if other != at for letter in spec.inputs[other]}.union(data, own)
        private = [letter for letter in letters if letter in spec.output and letter not in elsewhere]
        if private and set(letters) != set(private):
            output = "".join(dict.fromkeys(letter for letter in letters + second if letter not in private))
            operands.append(
                (output, np.asarray(np.einsum(f"{letters},{second}->{output}", first, plain, optimize=True)))
            )
        else:
            operands += [(letters, first), (second, plain)]
    return operands


def _present(own: str, operands: Sequence[tuple[str, Floats]]) -> str:
    letters = {letter for group, _ in operands for letter in group}
    return "".join(letter for letter in own if letter in letters)


def _own_keep(spec: Spec, keep: Keep, own: str) -> list[NDArray[np.bool_] | None]:
    return [keep[spec.output.index(letter)] if letter in spec.output else None for letter in own]


def _spread(array: Floats, present: str, own: str, shape: tuple[int, ...], keep: Keep) -> Floats:
    """Repeat `array` over the letters of a factor that it does not have; zero for hidden slices."""
    sizes = dict(zip(own, shape, strict=True))
    full = array.reshape([sizes[letter] if letter in present else 1 for letter in own])
    result = np.array(np.broadcast_to(full, shape))
    for axis, kept in enumerate(keep):
        if kept is not None:
            result *= kept.reshape([-1 if place == axis else 1 for place in range(len(own))])
    return result
