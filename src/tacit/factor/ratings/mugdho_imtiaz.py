r"""Matrix factorisation by noisy gradients (Mugdho and Imtiaz 2022): as printed, and repaired.

With observed ratings V, item factors X and user factors :math:`\Theta`, one iteration of the paper moves against
:math:`\nabla_X = (\hat V - V)\Theta + \lambda X` and :math:`\nabla_\Theta = (\hat V - V)^\top X + \lambda\Theta`, where the rows
that are multiplied with are clipped to norm C, and puts noise on :math:`\nabla_\Theta` only.

What is repaired: X is computed from the same ratings, without noise, and feeds every later :math:`\nabla_\Theta`, so the
released :math:`\Theta` is not private. Here both gradients get noise. One rating's value that changes by at most
:math:`\tau` moves one row of each, by at most :math:`\tau C`: together :math:`\sqrt2\,\tau C`. The unit is the value of
one rating; **who rated what is not protected**, and its counts may scale the steps.

References
----------
S. S. Mugdho, H. Imtiaz. Privacy-preserving matrix factorization for recommendation systems using Gaussian mechanism. 2022.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tacit.channel import Bound, Outcome, Program, Step, Sum
from tacit.factor.ratings.als import ItemSide
from tacit.factor.ratings.table import RatingTable
from tacit.privacy.published import mugdho_noise_multiplier

SPAN = 2.0
"""Ratings are on a scale from -1 to 1, so a value changes by at most this."""
CLIP = 1.0
START_LEVEL, START_SPREAD = 0.5, 0.1
MOST_STEP = 0.3
"""The noise moves a factor's entry by about this much an iteration, at most."""
PUBLISHED_STEP, PUBLISHED_RIDGE = 0.0005, 0.01

UNPROTECTED = (
    "the published algorithm updates the item factors with gradients of the private ratings to which no noise is added, and "
    "these enter every later gradient of the released user factors; its epsilon (eq. 9) treats them as fixed"
)
VALUES_ONLY = "who rated which item is public: only the values of the ratings are protected, one at a time"


def gradient_program(table: RatingTable, *, n_factors: int, step: Step, random_state: int) -> Program:
    """One holder's view of the repaired method; the ratings in `table` are between -1 and 1.

    Both factors start from a public draw. Steps are the inverse of the curvature, as far as the public counts tell it, or
    shorter where the noise would move an entry by more than MOST_STEP.
    """
    rows, columns = table.rows, table.columns
    items, users = public_start(len(table.items), len(table.users), n_factors, random_state)
    item_counts, user_counts = np.bincount(columns, minlength=len(items)), table.counts
    for _ in range(step.count):
        near_items, near_users = clipped(items), clipped(users)
        # predictions within the range, so that no rating's own term, and with it no rounding, exceeds the bound
        errors = table.values - np.clip(np.einsum("ij,ij->i", items[columns], users[rows]), -1.0, 1.0)
        total = yield Sum(
            items=_scattered(columns, errors, near_users[rows], len(items)),
            users=_scattered(rows, errors, near_items[columns], len(users)),
            # one row of each array moves, by at most SPAN times a clipped row
            bound=Bound(math.sqrt(2) * SPAN * CLIP, change=math.sqrt(2) * SPAN * CLIP),
            step=step,
            units=len(errors),
        )
        items = items + total["items"] / (0.5 * item_counts + total.noise["items"] / MOST_STEP + 1)[:, None]
        users = users + total["users"] / (0.5 * user_counts + total.noise["users"] / MOST_STEP + 1)[:, None]
    return Outcome({**item_side(clipped(items), START_LEVEL).public(), "users": users})


def published_program(
    table: RatingTable,
    *,
    n_factors: int,
    rounds: int,
    epsilon: float,
    delta: float,
    span: float,
    random_state: int,
    generator: np.random.Generator,
) -> Program:
    """Algorithm 1 as printed, on the ratings as they are, with the noise that eq. 9 asks for; it has no guarantee."""
    rows, columns = table.rows, table.columns
    draw = np.random.default_rng(random_state)
    items, users = (
        draw.standard_normal((len(table.items), n_factors)),
        draw.standard_normal((len(table.users), n_factors)),
    )
    items /= np.linalg.norm(items, axis=1)[:, None]
    users /= np.linalg.norm(users, axis=1)[:, None]
    sigma = mugdho_noise_multiplier(epsilon, delta, rounds) * span * CLIP
    for _ in range(rounds):
        errors = np.einsum("ij,ij->i", items[columns], users[rows]) - table.values
        total = yield Sum(
            items=_scattered(columns, errors, clipped(users)[rows], len(items)),
            users=_scattered(rows, errors, clipped(items)[columns], len(users)),
        )
        noisy = total["users"] + PUBLISHED_RIDGE * users + sigma * generator.standard_normal(users.shape)
        items = items - PUBLISHED_STEP * (total["items"] + PUBLISHED_RIDGE * items)
        users = users - PUBLISHED_STEP * noisy
    return Outcome({**item_side(items, 0.0).public(), "users": users})


def public_start(
    n_items: int, n_users: int, n_factors: int, random_state: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return a start that no rating was seen for: one factor in which all are alike, and small random ones."""
    draw = np.random.default_rng(random_state)
    items = START_SPREAD * draw.standard_normal((n_items, n_factors))
    users = START_SPREAD * draw.standard_normal((n_users, n_factors))
    items[:, 0] += START_LEVEL
    users[:, 0] += START_LEVEL
    return items, users


def clipped(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scale rows of norm above CLIP down to it."""
    norms = np.linalg.norm(rows, axis=1)
    within: NDArray[np.float64] = rows / np.maximum(norms / CLIP, 1.0)[:, None]
    return within


def item_side(items: NDArray[np.float64], level: float) -> ItemSide:
    """Return what a user's own factors are solved with: no biases, a mean of `level` squared in the common factor."""
    precision = np.r_[np.full(items.shape[1], 4.0), 1e6]
    return ItemSide(0.0, level * items[:, 0], items, items[:0], precision, 0.2)


def _scattered(
    places: NDArray[np.intp] | NDArray[np.int32], errors: NDArray[np.float64], rows: NDArray[np.float64], size: int
) -> NDArray[np.float64]:
    """Add errors times rows at their places."""
    sums = [np.bincount(places, errors * column, minlength=size) for column in rows.T]
    return np.stack(sums, axis=1)
