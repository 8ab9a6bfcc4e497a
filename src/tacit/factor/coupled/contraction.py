"""Sums over all cells of a relation without listing them: column sums for the means, Grams for their squares.

Each factor is first reduced over the letters that it alone has, so that the cost is that of the factors and not of the tensor.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.factor.coupled.divergence import Floats
from tacit.factor.coupled.spec import Spec

Keep = Sequence[NDArray[np.bool_] | None]


def contract(operands: Sequence[tuple[str, Floats]], output: str) -> Floats:
    """Return the einsum of `operands`, each a group of letters and an array, after summing what only one of them has."""
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

    A row has fixed data letters; its entries run over the summed letters. None where the rows have different Grams.
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
    # a summed letter of this factor alone: the mean adds the entries up, so all pairs of them count
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
    """Give every summed letter a second one that the einsum does not use."""
    spare = (chr(code) for code in range(0x61, 0x61 + 26))
    upper = (chr(code) for code in range(0x41, 0x41 + 26))
    unused = [letter for source in (upper, spare) for letter in source if letter not in spec.text]
    return dict(zip(spec.summed, unused, strict=False))


def _weighted(
    spec: Spec, placed: Iterable[tuple[int, Floats]], keep: Keep, *, without: int | None = None
) -> list[tuple[str, Floats]]:
    """Return the factors' letters and arrays, with hidden slices set to zero in one factor each."""
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
                shape: list[Any] = [-1 if other == letter else 1 for other in letters]
                weighted = weighted * kept.reshape(shape)
        operands.append((letters, weighted))
    return operands


def _doubled(
    spec: Spec, placed: list[tuple[int, Floats]], keep: Keep, data: str, *, without: int | None = None
) -> list[tuple[str, Floats]]:
    """Return every factor twice, the second time with other summed letters, joined where they share private data letters."""
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
