r"""How far one unit can move the integers that get noise, and the grid they are on.

How much one unit can move the *integers* that get noise, in steps of the grid, for `d` numbers and a bound `C`:

.. math:: S = \frac{C}{\text{step}} (1 + 2^{-30} + 2 N^2 2^{-53}) + \sqrt{d}

The last term is the rounding of two neighbouring totals to the grid (each number at most half a step, twice). The
factor covers floating point: :math:`2^{-30}` for the rounding within one unit's own contribution (its norm and its
clipping), and the rest for addition, since adding N contributions of norm at most C in any order errs by at most
:math:`N 2^{-53}` times the sum of their norms, on each of the two data sets (Higham 2002, section 4.2; that such
errors break guarantees is shown by Casacuberta et al. 2022). N is `max_units`, a public number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.channel.fixedpoint import Grid
from tacit.channel.plan import LEAST_LATTICE_SIGMA
from tacit.errors import Undisclosed

FLOAT_UNIT = 2.0**-53
WITHIN_A_UNIT = 2.0**-30
LEAST_STEPS_PER_ROUNDING = 2.0**13


@dataclass(frozen=True, repr=False)
class Measured(Undisclosed):
    """One array's exact total on its grid, how far a unit can move it, and how much noise it will get (in steps)."""

    integers: NDArray[np.int64]
    grid: Grid
    sensitivity: float
    sigma: float


def with_float_errors(norm: float, max_units: int) -> float:
    """Return a bound that covers the rounding of floating-point arithmetic too."""
    return norm * (1 + WITHIN_A_UNIT + 2 * max_units**2 * FLOAT_UNIT)


def scales(norm: float, dimension: int, multiplier: float, max_units: int) -> tuple[Grid, float, float]:
    """Return a grid whose rounding and discreteness cost nothing that matters, and on it sensitivity and noise."""
    slack = with_float_errors(norm, max_units)
    finest = min(multiplier * slack / LEAST_LATTICE_SIGMA, slack / (math.sqrt(dimension) * LEAST_STEPS_PER_ROUNDING))
    grid = Grid(math.floor(math.log2(finest)))
    sensitivity = slack / grid.step + math.sqrt(dimension)
    return grid, sensitivity, multiplier * sensitivity
