"""Synthetic cells of a private relation, drawn from a released model: post-processing, which costs no privacy."""

from __future__ import annotations

import math

import numpy as np

from tacit.factor.coupled.private.fitted import PrivateFactors
from tacit.factor.coupled.relation import Relation
from tacit.factor.noisy_moments.constants import UNIT_BIAS_VARIANCE

HIDDEN_VARIANCE = 0.05
"""Variance of a value, on the scale from -1 to 1, by components that the noise hid in the fit. Set by hand: without such
components, a fit that released none would say that a larger budget gains nothing."""


def synthetic_relation(model: PrivateFactors, n_cells: int, *, random_state: int = 0) -> Relation:
    """Draw cells from a model of ``method="moments"``, which has one private relation.

    An entity's own factors and bias are drawn from their prior; places are uniform over the relation; a value is its
    expectation plus normal noise of the model's variance, within `value_range`. If the fit found fewer components than its
    rank, the missing ones are drawn at random.

    Parameters
    ----------
    model : PrivateFactors
        Fitted; only what it released is used.
    n_cells : int
        Number of cells to draw, at most those of the relation.
    random_state : int, default=0
    """
    random = np.random.default_rng(random_state)
    ((name, known),) = model.relations_.items()
    shape, factors = tuple(known["shape"]), list(known["factors"])
    places = random.choice(math.prod(shape), size=min(n_cells, math.prod(shape)), replace=False)
    cells = np.stack(np.unravel_index(places, shape), axis=1)
    (least, greatest), mean = known["range"], model.levels_[0]
    product = np.ones((len(cells), model.n_components_))
    expected = np.full(len(cells), mean)
    inputs, output = known["einsum"].split("->")
    missing = _rank(model) - model.n_components_
    hidden = np.ones((len(cells), missing))
    largest = max(model.factors_, key=lambda factor: model.factors_[factor].shape[0] * (factor != model.entity_))
    for factor, letters in zip(factors, inputs.split(","), strict=True):
        axis = next(output.index(letter) for letter in letters if letter in output)
        size = shape[axis]
        if factor == model.entity_:
            rows = random.standard_normal((size, model.n_components_))
            biases = math.sqrt(UNIT_BIAS_VARIANCE) * random.standard_normal(size)
        else:
            released = model.factors_[factor]
            rows = released if letters.index(output[axis]) == 0 else released.T
            biases = model.biases_[factor]
        product *= rows[cells[:, axis]]
        expected += biases[cells[:, axis]]
        if factor in (model.entity_, largest):
            hidden *= random.standard_normal((size, missing))[cells[:, axis]]
    expected += hidden.sum(axis=1) * math.sqrt(HIDDEN_VARIANCE / max(missing, 1))
    expected += product.sum(axis=1) + math.sqrt(model.noise_) * random.standard_normal(len(cells))
    values = np.clip((least + greatest) / 2 + (greatest - least) / 2 * expected, least, greatest)
    return Relation((cells, values, shape), known["einsum"], factors, observed="stored", divergence="euclid", name=name)


def _rank(model: PrivateFactors) -> int:
    ranks = model.ranks
    return int(next(iter(ranks.values())) if isinstance(ranks, dict) else ranks)
