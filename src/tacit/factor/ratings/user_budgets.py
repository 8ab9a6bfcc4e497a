r"""Budgets of their own for users: who asks for less privacy loss contributes less, and has a guarantee of its own.

The noise is sized for the largest epsilon. A user whose every contribution is scaled by :math:`s \le 1` stands before noise
that is :math:`1/s` times as wide as the bound asks, so a user with the smaller budget :math:`\varepsilon_u` gets
:math:`s = z(\varepsilon)/z(\varepsilon_u)`, with the noise multipliers z of single releases (many Gaussian releases cost
what one does), less a reserve for the rounding to the grid and of floating-point additions, which do not shrink with s.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.channel.noisy import LEAST_STEPS_PER_ROUNDING, with_float_errors
from tacit.errors import InvalidInputError, Undisclosed, words
from tacit.factor.ratings.table import Ids
from tacit.privacy.calibration import gaussian_noise_multiplier
from tacit.privacy.guarantee import Guarantee
from tacit.privacy.releases import GaussianRelease
from tacit.validation import check_epsilon


def rounding_reserve(max_units: int) -> float:
    """Return how far rounding alone lets any user move a sum, over the bound of a user of scale 1.

    It is the rounding to the grid (at most one part in `LEAST_STEPS_PER_ROUNDING`, doubled to be safe) and the rounding of
    floating-point additions, which is relative to the sum of *all* users' contributions: neither shrinks with a user's scale.
    """
    return 2 / LEAST_STEPS_PER_ROUNDING + (with_float_errors(1.0, max_units) - 1)


@dataclass(frozen=True, eq=False, repr=False)
class UserBudgets(Undisclosed):
    """The largest epsilon, and each user's scale; `words` says what this rests on."""

    largest: float
    scales: NDArray[np.float64]
    reserve: float
    words: tuple[str, ...] = ()

    def guarantee(self, whole: Guarantee, user: int) -> Guarantee:
        """Return what holds for the user, given what holds for everyone."""
        scale = float(self.scales[user])
        if not whole.holds or scale == 1.0:
            return whole
        releases = [
            replace(release, noise_multiplier=release.noise_multiplier / (scale + self.reserve))
            for release in whole.releases
            if isinstance(release, GaussianRelease)
        ]
        return Guarantee.from_releases(
            releases,
            delta=whole.delta,
            unit=whole.unit,
            adjacency=whole.adjacency,
            trust=whole.trust,
            assumptions=whole.assumptions,
        )


def budgets_of(epsilon: Any, delta: float, adjacency: str, users: Ids, max_units: int) -> UserBudgets:
    """Read one epsilon for all, a mapping from user to epsilon, or one a user."""
    if isinstance(epsilon, Mapping):
        wanted = users.values.tolist() if isinstance(users.values, np.ndarray) else users.values
        missing = [user for user in wanted if user not in epsilon]
        if missing:
            raise InvalidInputError("an epsilon for every user", words("none for some users"), "Add the missing users.")
        listed = [check_epsilon(epsilon[user]) for user in wanted]
        named = [check_epsilon(value) for value in epsilon.values()]  # also of users without ratings: these are public
    elif isinstance(epsilon, np.ndarray | list | tuple):
        listed = [check_epsilon(float(value)) for value in epsilon]
        if len(listed) != len(users):
            raise InvalidInputError(
                "one epsilon for each user",
                words("more or fewer"),
                "Give one per user, in the order of the users' ids.",
            )
        named = listed
    else:
        return UserBudgets(check_epsilon(epsilon, infinite=True), np.ones(len(users)), 0.0)
    reserve = rounding_reserve(max_units)
    largest = max(named)
    least_noise = gaussian_noise_multiplier(largest, delta, adjacency=adjacency)
    scale = {largest: 1.0}
    for value in set(listed) - {largest}:
        ratio = least_noise / gaussian_noise_multiplier(value, delta, adjacency=adjacency)
        scale[value] = ratio * (1 - 1e-6) - reserve
        if scale[value] <= 0:
            raise InvalidInputError(
                "budgets that the rounding of sums leaves room for",
                words(f"an epsilon of {value:g} beside one of {largest:g}, with max_units = {max_units}"),
                "Lower max_units, raise the smallest budgets, or leave these users out.",
            )
    note = (
        f"users have budgets of their own, from {min(named):g} to {largest:g}: the epsilon stated is the largest, "
        "user_guarantee(user) states each; which budget a user chose, and the largest, are taken for public"
    )
    return UserBudgets(largest, np.array([scale[value] for value in listed]), reserve, (note,))
