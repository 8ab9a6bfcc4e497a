r"""Users with budgets of their own: a user with a smaller epsilon contributes less, and has a guarantee of its own.

The noise is calibrated for the largest epsilon. If all contributions of a user are scaled by :math:`s \le 1`, the noise is
:math:`1/s` times as large relative to them. So a user with the smaller budget :math:`\varepsilon_u` gets
:math:`s = z(\varepsilon)/z(\varepsilon_u)`, where z is the noise multiplier of a single release (the ratio is the same for
any number of Gaussian releases). A reserve is subtracted for the rounding to the grid and of floating-point additions,
which do not shrink with s.

Users with an infinite epsilon are volunteers: they contribute as much as users with the largest finite budget, and no guarantee
covers them. If there is nobody else, there is no noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tacit.channel.noisy import LEAST_STEPS_PER_ROUNDING, with_float_errors
from tacit.errors import InvalidInputError, Undisclosed, words
from tacit.factor.ratings.table import Ids
from tacit.privacy.calibration import gaussian_noise_multiplier
from tacit.privacy.guarantee import Guarantee
from tacit.privacy.releases import GaussianRelease
from tacit.validation import check_epsilon

CALIBRATION_ERROR = 1e-6
"""Scales are lowered by this fraction: the noise multipliers are found numerically, to a smaller relative error."""


def rounding_reserve(max_units: int) -> float:
    """Return by how much rounding alone lets a user change a sum, relative to the bound of a user of scale 1.

    It is the rounding to the grid (at most one part in `LEAST_STEPS_PER_ROUNDING`, doubled to be safe) plus the rounding of
    floating-point additions, which is relative to the sum of *all* users' contributions. Neither shrinks with the scale.
    """
    return 2 / LEAST_STEPS_PER_ROUNDING + (with_float_errors(1.0, max_units) - 1)


@dataclass(frozen=True, eq=False, repr=False)
class UserBudgets(Undisclosed):
    """The largest finite epsilon, each user's scale and who is a volunteer; `words` are the assumptions to state."""

    largest: float
    scales: NDArray[np.float64]
    reserve: float
    words: tuple[str, ...] = ()
    volunteers: NDArray[np.bool_] | None = None

    def guarantee(self, whole: Guarantee, user: int) -> Guarantee:
        """Return the guarantee of one user, given the one of the whole fit."""
        if self.volunteers is not None and self.volunteers[user]:
            return Guarantee.none("this user has chosen epsilon = inf")
        scale = float(self.scales[user])
        if not whole.holds or scale == 1.0:
            return whole
        releases = [
            replace(release, noise_multiplier=release.noise_multiplier / (scale + self.reserve))
            if isinstance(release, GaussianRelease)
            else release  # a scale lowers what a user adds to a sum, and nothing else
            for release in whole.releases
        ]
        return Guarantee.from_releases(
            releases,
            delta=whole.delta,
            unit=whole.unit,
            adjacency=whole.adjacency,
            trust=whole.trust,
            assumptions=whole.assumptions,
        )


def budgets_of(epsilon: object, delta: float, adjacency: str, users: Ids, max_units: int) -> UserBudgets:
    """Read one epsilon for all users, a mapping from user to epsilon, or one epsilon per user."""
    if isinstance(epsilon, Mapping):
        wanted = users.values.tolist() if isinstance(users.values, np.ndarray) else users.values
        missing = [user for user in wanted if user not in epsilon]
        if missing:
            raise InvalidInputError("an epsilon for every user", words("none for some users"), "Add the missing users.")
        listed = [check_epsilon(epsilon[user], infinite=True) for user in wanted]
        named = [
            check_epsilon(value, infinite=True) for value in epsilon.values()
        ]  # of users without ratings too: budgets are public
    elif isinstance(epsilon, np.ndarray | list | tuple):
        listed = [check_epsilon(float(value), infinite=True) for value in epsilon]
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
    volunteers = np.isinf(listed)
    finite = [value for value in named if not math.isinf(value)]
    if not finite:  # volunteers only
        return UserBudgets(math.inf, np.ones(len(users)), 0.0)
    largest = max(finite)
    least_noise = gaussian_noise_multiplier(largest, delta, adjacency=adjacency)
    scale = {largest: 1.0, math.inf: 1.0}
    for value in set(listed) - set(scale):
        ratio = least_noise / gaussian_noise_multiplier(value, delta, adjacency=adjacency)
        scale[value] = ratio * (1 - CALIBRATION_ERROR) - reserve
        if scale[value] <= 0:
            raise InvalidInputError(
                "epsilons that are not too small for the rounding of sums",
                words(f"an epsilon of {value:g} beside one of {largest:g}, with max_units = {max_units}"),
                "Lower max_units, raise the smallest budgets, or leave these users out.",
            )
    note = (
        f"users have budgets of their own, from {min(finite):g} to {largest:g}: the stated epsilon is the largest, and "
        "user_guarantee(user) states each; each user's choice of a budget, and the largest, count as public"
    )
    if len(finite) < len(named):
        note += "; users who chose epsilon = inf are volunteers, and no guarantee covers them"
    scales = np.array([scale[value] for value in listed])
    return UserBudgets(largest, scales, reserve, (note,), volunteers)
