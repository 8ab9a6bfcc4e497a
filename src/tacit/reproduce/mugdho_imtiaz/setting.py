"""The setting of the experiments (section 5): three data sets, and Algorithm 1 as printed and repaired."""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.errors import Undisclosed
from tacit.factor.ratings.mugdho_imtiaz import MugdhoImtiazSettings
from tacit.factor.ratings.private import PrivateRecommender
from tacit.privacy.published import mugdho_epsilon
from tacit.reproduce.catalogue import ItemRun
from tacit.reproduce.datasets.ratings import RatingTriples

SETS = {"movielens-1m": "MovieLens 1M", "netflix-slice": "Netflix", "anime-slice": "AnimeReco"}
STEP_DELTA, DELTA = 0.01, 1e-5
"""delta of one iteration, and delta_r of the whole (page 14)."""
MU, N_FACTORS = 0.0005, 20
"""Step size and dimension of Figures 1 to 6 (page 14)."""
ALGORITHM = (
    "tacit.factor.ratings.mugdho_imtiaz.published_program",
    "tacit.factor.ratings.mugdho_imtiaz.gradient_program",
)
NO_NUMBERS = (
    "The paper prints these figures without numbers; axes and quantities are the paper's. A part of the users is used here, "
    "for time, so the errors are higher than with all of them."
)


@dataclass(frozen=True, eq=False, repr=False)
class Data(Undisclosed):
    """Ratings to fit, and a tenth of them that is held out."""

    title: str
    train: RatingTriples
    test: RatingTriples
    rating_range: tuple[int, int]


def prepared(run: ItemRun, name: str, users: int | None = None) -> Data:
    """Return the ratings of at most `users` users, drawn at random, divided."""
    rated: RatingTriples = run.data[name]
    draw = np.random.default_rng(run.seed)
    limit = run.pick(users, 60)
    if limit is not None and limit < rated.shape[0]:
        kept = np.zeros(rated.shape[0], dtype=bool)
        kept[draw.permutation(rated.shape[0])[:limit]] = True
        rated = rated.those(kept[rated.users])
    if run.quick:
        rated = rated.those(rated.items < np.quantile(rated.items, 0.3))
    held = draw.random(len(rated.ratings)) < 0.1
    held &= np.isin(rated.users, rated.users[~held]) & np.isin(rated.items, rated.items[~held])
    parts = [RatingTriples(rated.users[m], rated.items[m], rated.ratings[m], rated.rating_range) for m in (~held, held)]
    return Data(SETS[name], parts[0], parts[1], rated.rating_range)


@dataclass(frozen=True, eq=False, repr=False)
class Fit(Undisclosed):
    """RMSE of the fitted ratings by iteration, the seconds of one iteration, and the model."""

    curve: NDArray[np.float64]
    seconds: float
    model: PrivateRecommender

    @property
    def steps(self) -> int:
        """Number of iterations."""
        return len(self.curve)


def published(
    data: Data, budget: float, rounds: int, seed: int, *, n: int = N_FACTORS, mu: float = MU, tol: float = 0.0
) -> Fit:
    """Algorithm 1 as printed; `budget` is the epsilon of one iteration, inf for no noise. `tol` decides convergence."""
    settings = MugdhoImtiazSettings(mu=mu, epsilon_i=budget, delta=STEP_DELTA, tol=tol)
    model = PrivateRecommender(
        n,
        unit="cell",
        method="published",
        rounds=rounds,
        published=settings,
        rating_range=data.rating_range,
        random_state=seed,
    )
    began = time.perf_counter()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # that it has no guarantee, and that long steps diverge: both are shown
        model.fit(data.train.users, data.train.items, data.train.ratings)
    seconds = (time.perf_counter() - began) / max(len(model.rmse_by_round_), 1)
    return Fit(model.rmse_by_round_, seconds, model)


def repaired(data: Data, epsilon: float, rounds: int, seed: int, n: int = N_FACTORS) -> float:
    """Return the held-out RMSE of the repaired method, which protects the value of one rating by `epsilon` in all."""
    model = PrivateRecommender(
        n,
        epsilon=epsilon,
        delta=DELTA,
        unit="cell",
        method="gradient",
        rounds=rounds,
        rating_range=data.rating_range,
        random_state=seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(data.train.users, data.train.items, data.train.ratings)
    return held_out(model, data)


def held_out(model: PrivateRecommender, data: Data) -> float:
    """Return the RMSE of the held-out ratings."""
    predicted = model.predict(data.test.users, data.test.items)
    return float(np.sqrt(np.mean((np.clip(predicted, *data.rating_range) - data.test.ratings) ** 2)))


def overall(budget: float, steps: int) -> float:
    """Return the overall epsilon of eq. 9."""
    return mugdho_epsilon(budget, STEP_DELTA, steps, DELTA)


def label(budget: float) -> str:
    """Name a curve."""
    return "without privacy" if math.isinf(budget) else f"epsilon_i = {budget:g}"
