r"""Matrix factorisation by noisy gradients (Mugdho and Imtiaz 2022): as printed, and repaired.

With observed ratings V, item factors X and user factors :math:`\Theta`, one iteration of the paper's Algorithm 1 steps
along :math:`-\nabla_X` and :math:`-\nabla_\Theta`, where :math:`\nabla_X = (\hat V - V)\Theta + \lambda X` (eq. 4) and
:math:`\nabla_\Theta = (\hat V - V)^\top X + \lambda\Theta` (eq. 5) are the gradients of eq. 3. The rows of
:math:`\Theta` and X in these products are clipped to norm C. Noise is added to :math:`\nabla_\Theta` only.

The error of the paper: X is computed from the same ratings without noise and enters every later :math:`\nabla_\Theta`,
so the released :math:`\Theta` is not private. Here both gradients get noise. If the value of one rating changes by at
most :math:`\tau`, one row of each gradient changes by at most :math:`\tau C` (eq. 6), both together by
:math:`\sqrt2\,\tau C`. The unit is the value of one rating. **Who rated which item is not protected**, so the numbers
of ratings may scale the steps.

References
----------
S. S. Mugdho, H. Imtiaz. Privacy-preserving matrix factorization for recommendation systems using Gaussian mechanism. 2022.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from tacit.channel import Bound, Outcome, Program, Step, Sum
from tacit.factor.ratings.als import ItemSide
from tacit.factor.ratings.table import RatingTable
from tacit.privacy.published import dwork_roth_noise_multiplier, mugdho_noise_multiplier
from tacit.validation import check_delta, check_non_negative, check_positive

SPAN = 2.0
"""The paper's tau. Ratings are on a scale from -1 to 1, so a value changes by at most this."""
CLIP = 1.0
"""The paper's C, the largest norm of a row of X or Theta in a gradient."""
START_LEVEL, START_SPREAD = 0.5, 0.1
"""The start: the first factor is this level for all, and all factors get normal noise with this standard deviation. Set by
hand; the start is public."""
MOST_STEP = 0.3
"""Steps are short enough that the noise moves an entry of a factor by at most about this per iteration. Set by hand: longer
steps move faster and end noisier."""
OWN_PRECISION, NO_BIAS_PRECISION, OWN_NOISE = 4.0, 1e6, 0.2
"""For a user's own factors: their prior precision (a standard deviation of START_LEVEL), a precision that keeps the bias at
zero, and the variance of a rating. Set by hand."""

UNPROTECTED = (
    "the published algorithm updates the item factors with gradients of the private ratings, to which no noise is added, and "
    "these factors enter every later gradient of the released user factors; its epsilon (eq. 9) treats them as fixed"
)
VALUES_ONLY = "who rated which item is public: only the values of the ratings are protected, one at a time"


def gradient_program(table: RatingTable, *, n_factors: int, step: Step, random_state: int) -> Program:
    """One holder's view of the repaired method; the ratings in `table` are between -1 and 1.

    Both factors start from a public draw. The step of a row is the inverse of its curvature, estimated from the public
    numbers of ratings as half the number, or shorter if the noise would move an entry by more than MOST_STEP.
    """
    rows, columns = table.rows, table.columns
    items, users = public_start(len(table.items), len(table.users), n_factors, random_state)
    item_counts, user_counts = np.bincount(columns, minlength=len(items)), table.counts
    for _ in range(step.count):
        near_items, near_users = clipped(items), clipped(users)
        # predictions are clipped to the range, so that no rating's own term, nor its rounding, exceeds the bound
        errors = table.values - np.clip(np.einsum("ij,ij->i", items[columns], users[rows]), -1.0, 1.0)
        of_items, of_users = gradients(table, errors, near_items, near_users)
        total = yield Sum(
            items=of_items,
            users=of_users,
            # one row of each array changes, by at most tau times a row of norm C: sqrt(2) tau C for both
            bound=Bound(math.sqrt(2) * SPAN * CLIP, change=math.sqrt(2) * SPAN * CLIP),
            step=step,
            units=len(errors),
        )
        items = items + total["items"] / (0.5 * item_counts + total.noise["items"] / MOST_STEP + 1)[:, None]
        users = users + total["users"] / (0.5 * user_counts + total.noise["users"] / MOST_STEP + 1)[:, None]
    return Outcome({**item_side(clipped(items), START_LEVEL).public(), "users": users})


@dataclass(frozen=True)
class MugdhoImtiazSettings:
    r"""The parameters of Algorithm 1 as printed, by the paper's symbols: for ``PrivateRecommender(method="published")``.

    The other parameters are those of `PrivateRecommender`: n is `n_factors`, J is `rounds`, :math:`\delta_r` is `delta`, and
    :math:`\tau` is the length of `rating_range`.

    Parameters
    ----------
    mu : float, default=0.0005
        Step size, that of the paper's first experiments.
    lambda_ : float, default=0.01
        Regularisation :math:`\lambda` of eq. 3. The paper does not state its value.
    C : float, default=1.0
        Largest norm of a row of X or Theta in a gradient; the paper's value.
    epsilon_i : float, optional
        Epsilon of one iteration: :math:`\sigma = (\tau C/\epsilon_i)\sqrt{2\log(1.25/\delta)}`. `inf` adds no noise. If not
        given, it follows from the `epsilon` of the fit by eq. 9. `tacit.privacy.published.mugdho_epsilon` computes eq. 9.
    delta : float, default=0.01
        Delta of one iteration; the paper's value.
    tol : float, default=0.0
        Stop when the RMSE of the known ratings changes by at most this from one iteration to the next; 0 makes all
        iterations. The paper iterates until convergence and does not say how that is decided.

    Examples
    --------
    >>> from tacit import PrivateRecommender
    >>> from tacit.data import make_ratings
    >>> from tacit.factor.ratings.mugdho_imtiaz import MugdhoImtiazSettings
    >>> data = make_ratings(300, 40, random_state=1)
    >>> paper = MugdhoImtiazSettings(mu=0.002, epsilon_i=0.4)
    >>> model = PrivateRecommender(5, method="published", unit="cell", rounds=20, published=paper)
    >>> model.fit(data.users, data.items, data.ratings).rmse_by_round_.shape
    (20,)
    """

    mu: float = 0.0005
    lambda_: float = 0.01
    C: float = 1.0
    epsilon_i: float | None = None
    delta: float = 0.01
    tol: float = 0.0

    def __post_init__(self) -> None:
        check_positive(self.mu, "mu")
        check_non_negative(self.lambda_, "lambda_")
        check_positive(self.C, "C")
        check_delta(self.delta)
        check_non_negative(self.tol, "tol")
        if self.epsilon_i is not None:
            check_positive(self.epsilon_i, "epsilon_i", infinite=True)

    def noise_multiplier(self, epsilon: float, delta: float, rounds: int) -> float:
        """Return the standard deviation of the noise over the sensitivity tau C."""
        given = epsilon if self.epsilon_i is None else self.epsilon_i
        if math.isinf(given):
            return 0.0
        if self.epsilon_i is None:
            return mugdho_noise_multiplier(epsilon, delta, rounds, step_delta=self.delta)
        return dwork_roth_noise_multiplier(self.epsilon_i, self.delta)


def published_program(
    table: RatingTable,
    *,
    n_factors: int,
    rounds: int,
    noise: float,
    settings: MugdhoImtiazSettings,
    random_state: int,
    generator: np.random.Generator,
) -> Program:
    """Algorithm 1 as printed, on the ratings on their own scale, with noise of this standard deviation; it has no guarantee.

    The public part has ``rmse``: that of the known ratings before each iteration's step.
    """
    rows, columns = table.rows, table.columns
    draw = np.random.default_rng(random_state)
    items, users = (
        draw.standard_normal((len(table.items), n_factors)),
        draw.standard_normal((len(table.users), n_factors)),
    )
    items /= np.linalg.norm(items, axis=1)[:, None]
    users /= np.linalg.norm(users, axis=1)[:, None]
    curve: list[float] = []
    for _ in range(rounds):
        errors = np.einsum("ij,ij->i", items[columns], users[rows]) - table.values  # V^ - V, line 3
        curve.append(float(np.sqrt(np.mean(errors**2))))
        if len(curve) > 1 and settings.tol > 0 and abs(curve[-2] - curve[-1]) <= settings.tol:
            break
        # lines 4 and 5 (eqs 4 and 5), to which the terms of lambda are added below
        of_items, of_users = gradients(table, errors, clipped(items, settings.C), clipped(users, settings.C))
        total = yield Sum(items=of_items, users=of_users)
        # lines 6 and 7: noise for the users only; lines 8 and 9: the steps
        noisy = total["users"] + settings.lambda_ * users + noise * generator.standard_normal(users.shape)
        items = items - settings.mu * (total["items"] + settings.lambda_ * items)
        users = users - settings.mu * noisy
    return Outcome({**item_side(items, 0.0).public(), "users": users, "rmse": np.array(curve)})


def public_start(
    n_items: int, n_users: int, n_factors: int, random_state: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return a start that does not depend on ratings: one factor that is the same for all, plus small random numbers."""
    draw = np.random.default_rng(random_state)
    items = START_SPREAD * draw.standard_normal((n_items, n_factors))
    users = START_SPREAD * draw.standard_normal((n_users, n_factors))
    items[:, 0] += START_LEVEL
    users[:, 0] += START_LEVEL
    return items, users


def clipped(rows: NDArray[np.float64], most: float = CLIP) -> NDArray[np.float64]:
    """Scale rows of norm above `most` down to it: ``x / max(1, |x| / C)`` of lines 4 and 5."""
    norms = np.linalg.norm(rows, axis=1)
    within: NDArray[np.float64] = rows / np.maximum(norms / most, 1.0)[:, None]
    return within


def item_side(items: NDArray[np.float64], level: float) -> ItemSide:
    """Return the items with which a user's own factors are solved.

    There are no user biases. The prior mean of a user's first factor is `level`, so the items' biases are `level` times
    their first factor.
    """
    precision = np.r_[np.full(items.shape[1], OWN_PRECISION), NO_BIAS_PRECISION]
    return ItemSide(0.0, level * items[:, 0], items, items[:0], precision, OWN_NOISE)


def gradients(
    table: RatingTable, errors: NDArray[np.float64], items: NDArray[np.float64], users: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the errors' matrix (users x items) transposed times the users' rows, and times the items' rows."""
    by_user = csr_array((errors, table.columns, table.ends), shape=(len(users), len(items)))
    return np.asarray(by_user.T @ users), np.asarray(by_user @ items)
