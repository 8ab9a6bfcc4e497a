"""What public relations say about the rows of a factor, as a few standardised columns; nothing private is used."""

from __future__ import annotations

import numpy as np

from tacit.factor.coupled.private_cells import Floats
from tacit.factor.coupled.private_layout import Problem

MOST_FEATURES = 5


def public_features(problem: Problem) -> dict[str, Floats]:
    """Return, for every factor of a private relation that public relations have too, their main directions over its rows."""
    found: dict[str, list[Floats]] = {}
    for relation in problem.public:
        cells, values = relation.known_cells()
        for place, name in enumerate(relation.factors):
            letter = relation.spec.data_letters(place)
            if name not in problem.others or not letter:
                continue
            axis = relation.spec.output.index(letter)
            table = np.full(relation.shape, np.nan)
            table[tuple(cells.T)] = values
            found.setdefault(name, []).append(np.moveaxis(table, axis, 0).reshape(relation.shape[axis], -1))
    return {
        name: _directions(np.concatenate(tables, axis=1)) for name, tables in found.items() if name in problem.shared
    }


def _directions(table: Floats) -> Floats:
    known = ~np.isnan(table)
    counts = np.maximum(known.sum(axis=0), 1)
    means = np.where(known, table, 0.0).sum(axis=0) / counts
    centred = np.where(known, table - means, 0.0)
    spread = centred.std(axis=0)
    left, values, _ = np.linalg.svd(centred / np.where(spread > 0, spread, 1.0), full_matrices=False)
    kept = (np.arange(len(values)) < MOST_FEATURES) & (values > 1e-9)
    directions: Floats = left[:, kept] * np.sqrt(len(table))
    return directions
