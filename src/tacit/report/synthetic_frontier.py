"""What privacy costs at other epsilons, found out without the private rows: on synthetic ones, made from what was released.

The number of synthetic rows or users is that of the fit, which is private like everything else in a report: the report is for
the holder.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ParamSpec

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from tacit.errors import PrivacyWarning, TacitError
from tacit.estimators.base import Estimator
from tacit.estimators.input import Rows
from tacit.measure import held_out_error
from tacit.measure.ranking import divided_histories, ranking_scores
from tacit.report.figures import frontier as frontier_figure
from tacit.report.page import Report

if TYPE_CHECKING:  # a command needs one of the models only; each takes its time to be imported
    from tacit.factor.coupled.local.estimator import LocalCountFactorization
    from tacit.factor.coupled.private.estimator import PrivateCoupledFactorization
    from tacit.factor.coupled.relation import Relation
    from tacit.factor.implicit.private import PrivateImplicitRecommender
    from tacit.factor.nmf.private import PrivateNMF
    from tacit.factor.ratings.model import RatingModel
    from tacit.factor.ratings.private import PrivateRecommender
    from tacit.factor.ratings.private_non_negative import PrivateRatingNMF
    from tacit.factor.svd.private import PrivatePCR

EPSILONS, TEST_ROWS = (0.3, 1.0, 3.0, 10.0, 20.0), 500
"""The epsilons of the curve, and the number of synthetic rows that its errors are measured on. Set by hand."""
MOST_ROWS = 20_000
"""Synthetic rows beyond this number take time and change little: the noise is small by then."""
MOST_CELLS = 1_000_000
"""As MOST_ROWS, for the cells of a relation; a tenth of it for counts, whose sampler takes longer."""
TEST_FRACTION, LOCAL_SWEEPS = 0.1, 100
"""Fraction of the synthetic counts that errors are measured on, and sweeps of the sampler. Set by hand, for speed."""
WEIGHT_SHAPE = 0.5
"""Synthetic rows have gamma weights of this shape: a few components each."""
RESIDUAL = 0.3
"""Fraction of a synthetic row's squared length that is not a mixture of components, and of a synthetic target's variance that is
not a function of the row."""
MOST_USERS, MOST_PAIRS = 5_000, 500_000
"""Maximum number of synthetic users, and of ratings or interactions: more take time and change little."""
MOST_TASTES = 50
"""Synthetic users of clicks differ in at most this many tastes. Set by hand: about as many as rise above the noise."""
USERS_AT_ONCE = 256
"""Synthetic users whose items are drawn together."""
HELD_OUT = 0.1
"""Fraction of the synthetic ratings, or users, that the errors are measured on."""
MOST_EXAMPLES = 5_000
"""Maximum number of synthetic examples that train a network."""
LATENT, SEPARATION, LEVEL = 10, 3.0, 0.15
"""Synthetic examples of a network differ in this many directions; the centres of classes lie this many standard deviations from
their common middle; a standard deviation is this fraction of the range of a feature. Set by hand, so that a network without
privacy is right for most examples and not for all."""


@dataclass(frozen=True)
class Frontier:
    """A measure against epsilon, on synthetic rows.

    Attributes
    ----------
    epsilons, errors : sequence of float
    reference : float
        Without privacy.
    baseline : float
        Of the best predictor that costs nothing.
    measure, baseline_name : str
    made_of : str
        What the synthetic data were made from, in words.
    """

    epsilons: Sequence[float]
    errors: Sequence[float]
    reference: float
    baseline: float
    measure: str
    baseline_name: str
    made_of: str = "synthetic rows, as many as were fitted, made from the released model"

    def values(self) -> dict[str, object]:
        """Return the points as plain values."""
        points = {f"{epsilon:g}": error for epsilon, error in zip(self.epsilons, self.errors, strict=True)}
        return {"measure": self.measure, **points, "without privacy": self.reference, self.baseline_name: self.baseline}

    def draw(self, report: Report) -> None:
        """Add the figure to a page."""
        figure = frontier_figure(
            self.epsilons,
            self.errors,
            reference=self.reference,
            value_name=self.measure,
            reference_name="without privacy",
            baseline=(self.baseline, self.baseline_name),
        )
        caption = (
            f"On {self.made_of}: no private row was used, so that this costs no privacy. The shape of the curve carries over "
            "to the private data, its level need not."
        )
        report.figure("What privacy costs, on synthetic data", figure, caption)


Given = ParamSpec("Given")


def after_the_charge(draw: Callable[Given, Frontier]) -> Callable[Given, Frontier | None]:
    """Return the function that warns, and returns None, where drawing fails: the model was paid for and must not be lost."""

    @functools.wraps(draw)
    def attempted(*given: Given.args, **named: Given.kwargs) -> Frontier | None:
        try:
            return draw(*given, **named)
        except (TacitError, ArithmeticError, ValueError, MemoryError) as error:
            warnings.warn(
                f"The frontier could not be drawn ({type(error).__name__}). The model itself is complete.",
                PrivacyWarning,
                stacklevel=2,
            )
            return None

    return attempted


def synthetic_parts(components: NDArray[np.float64], count: int, norm: float) -> NDArray[np.float64]:
    """Return mixtures of non-negative components with a residual, of this norm."""
    random = np.random.default_rng(0)
    used = components[components.any(axis=1)]
    rows = random.gamma(WEIGHT_SHAPE, size=(count, len(used))) @ used
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(float).tiny)
    residual = random.gamma(WEIGHT_SHAPE, size=rows.shape) * rows
    residual /= np.maximum(np.linalg.norm(residual, axis=1, keepdims=True), np.finfo(float).tiny)
    mixed = math.sqrt(1 - RESIDUAL) * rows + math.sqrt(RESIDUAL) * residual
    return np.asarray(mixed * (norm / np.linalg.norm(mixed, axis=1, keepdims=True)))


@after_the_charge
def nmf_frontier(model: PrivateNMF, n_rows: int) -> Frontier:
    """Return the held-out error of `PrivateNMF` with the settings of `model`, at several epsilons."""
    from tacit.factor.nmf.estimator import NMF

    rows = synthetic_parts(model.components_, min(n_rows, MOST_ROWS) + TEST_ROWS, model.row_norm)
    train, test = rows[TEST_ROWS:], rows[:TEST_ROWS]
    settings = {**model.get_params(), "ledger": None, "dataset": None}
    errors = _errors(
        lambda epsilon: held_out_error(test, type(model)(**{**settings, "epsilon": epsilon}).fit(train).components_)
    )
    return Frontier(
        EPSILONS,
        errors,
        held_out_error(test, NMF(model.n_components, random_state=0).fit(train).components_),
        held_out_error(test, np.ones((1, rows.shape[1]))),
        "error on held-out rows",
        "a constant",
    )


@after_the_charge
def components_frontier(model: Estimator, explained: Callable[[Estimator, Rows], float], n_rows: int) -> Frontier:
    """Return the fraction explained by a private model of components with the settings of `model`, at several epsilons."""
    random = np.random.default_rng(0)
    values = getattr(model, "explained_variance_", None)
    if values is None:
        values = model.singular_values_**2 / max(model.count_, 1.0)
    size, features = min(n_rows, MOST_ROWS) + TEST_ROWS, model.components_.shape[1]
    spread = np.sqrt(values)[:, None] * model.components_
    rows = random.standard_normal((size, len(values))) @ spread
    left = math.sqrt(RESIDUAL / (1 - RESIDUAL) * max(float(values.sum()), np.finfo(float).tiny) / features)
    rows = rows + left * random.standard_normal(rows.shape)
    if values is getattr(model, "explained_variance_", None):
        rows = rows + model.scaled(model.mean_[None])
    if model.non_negative:
        rows = np.maximum(rows, 0.0)
    settings = {**model.get_params(), "ledger": None, "dataset": None, "feature_range": None}
    train, test = rows[TEST_ROWS:], rows[:TEST_ROWS]

    def fitted(epsilon: float) -> float:
        return explained(type(model)(**{**settings, "epsilon": epsilon}).fit(train), test)

    return Frontier(
        EPSILONS, _errors(fitted), fitted(math.inf), 0.0, "fraction explained, held out", "nothing explained"
    )


@after_the_charge
def coupled_frontier(
    model: PrivateCoupledFactorization, public: Sequence[Relation], n_cells: int, held_out: float
) -> Frontier:
    """Return the held-out RMSE of `PrivateCoupledFactorization` with the settings of `model`, at several epsilons.

    `public` has the public relations, `n_cells` is the number of cells that were fitted.
    """
    from tacit.factor.coupled.held_out import hold_out
    from tacit.factor.coupled.private.synthetic import synthetic_relation

    made = synthetic_relation(model, min(int(n_cells / (1 - held_out)), MOST_CELLS))
    kept = hold_out(made, held_out)
    settings = {**model.get_params(), "ledger": None, "dataset": None, "insecure_seed": None}

    def fitted(epsilon: float) -> float:
        private = type(model)(**{**settings, "epsilon": epsilon})
        return kept.scores(private.fit([kept.relation, *public]))["rmse"]

    return Frontier(
        EPSILONS,
        _errors(fitted),
        fitted(math.inf),
        float(np.std(kept.values)),
        "RMSE on held-out cells",
        "a constant",
        "synthetic cells, as many as were fitted, made from the released model",
    )


@after_the_charge
def local_frontier(model: LocalCountFactorization, n_cells: int, delta_max: int) -> Frontier:
    """Return the held-out RMSE of `LocalCountFactorization` from noisy synthetic counts, at several epsilons."""
    from tacit.factor.coupled.local.noise import LocallyPrivateCounts

    random = np.random.default_rng(0)
    shape = model.shape(0)
    size = min(int(n_cells / (1 - TEST_FRACTION)), math.prod(shape), MOST_CELLS // 10)
    places = random.choice(math.prod(shape), size=size, replace=False)
    cells = np.stack(np.unravel_index(np.sort(places), shape), axis=1)
    counts = random.poisson(model.predict(0, cells))
    test = random.random(len(cells)) < TEST_FRACTION
    settings = {**model.get_params(), "sweeps": LOCAL_SWEEPS, "burn_in": LOCAL_SWEEPS // 2}

    def fitted(epsilon: float) -> float:
        given = (cells[~test], counts[~test], shape)
        noisy = LocallyPrivateCounts(epsilon, delta_max).privatise if math.isfinite(epsilon) else None
        own = given if noisy is None else noisy(given, observed="stored")
        found = type(model)(**settings).fit([own], observed=["stored"])
        return float(np.sqrt(np.mean((found.predict(0, cells[test]) - counts[test]) ** 2)))

    constant = float(np.std(counts[test]))
    return Frontier(
        EPSILONS,
        _errors(fitted),
        fitted(math.inf),
        constant,
        "RMSE on held-out counts",
        "a constant",
        "synthetic counts, as many as were fitted, made from the released model",
    )


@after_the_charge
def regression_frontier(model: PrivatePCR, n_rows: int) -> Frontier:
    """Return the error of `PrivatePCR` with the settings of `model`, at several epsilons."""
    random = np.random.default_rng(0)
    size, features = min(n_rows, MOST_ROWS) + TEST_ROWS, model.components_.shape[1]
    scores = random.standard_normal((size, len(model.explained_variance_))) * np.sqrt(model.explained_variance_)
    left = RESIDUAL / (1 - RESIDUAL)
    spread = math.sqrt(left * max(float(model.explained_variance_.sum()), np.finfo(float).tiny) / features)
    rows = (
        scores @ model.components_ + spread * random.standard_normal((size, features)) + model.scaled(model.mean_[None])
    )
    told = scores @ model.score_coef_
    low, high = (float(np.ravel(end)[0]) for end in model.target_range)
    noise = math.sqrt(left) * (float(told.std()) or 0.1 * (high - low))
    y = np.clip(model.intercept_ + told + noise * random.standard_normal(size), low, high)
    settings = {**model.get_params(), "ledger": None, "dataset": None, "feature_range": None}

    def error(epsilon: float) -> float:
        fitted = type(model)(**{**settings, "epsilon": epsilon}).fit(rows[TEST_ROWS:], y[TEST_ROWS:])
        return math.sqrt(float(np.mean((fitted.predict(rows[:TEST_ROWS]) - y[:TEST_ROWS]) ** 2)))

    return Frontier(
        EPSILONS,
        _errors(error),
        error(math.inf),
        float(y[:TEST_ROWS].std()),
        "root mean square error, held out",
        "the mean target",
    )


def drawn_items(
    weights: NDArray[np.float64],
    sizes: NDArray[np.int64],
    logits: Callable[[slice], NDArray[np.floating] | float],
    random: np.random.Generator,
) -> list[NDArray[np.int64]]:
    """Return the items of each synthetic user: `sizes` different ones, by popularity and the user's own logits.

    The popularities may be noisy, and negative; `logits` maps a slice of users to their array of logits.
    """
    popular = np.log(np.maximum(weights, max(float(weights.max()), 1e-6) * 1e-3))
    chosen: list[NDArray[np.int64]] = []
    for start in range(0, len(sizes), USERS_AT_ONCE):
        some = slice(start, min(start + USERS_AT_ONCE, len(sizes)))
        # the largest of logits plus Gumbel noise are a sample without repetition
        keys = popular + logits(some) + random.gumbel(size=(some.stop - some.start, len(weights)))
        order = np.argsort(-keys, axis=1)
        chosen += [row[:size] for row, size in zip(order, sizes[some], strict=True)]
    return chosen


def _sizes(n_users: int, n_pairs: int, n_items: int, random: np.random.Generator) -> NDArray[np.int64]:
    """Return how many items each synthetic user has: about as many as the real ones on average, some many more than others."""
    mean = n_pairs / max(n_users, 1)
    users = max(min(n_users, MOST_USERS, round(MOST_PAIRS / max(mean, 1.0))), 1)
    drawn = np.rint(random.gamma(1.0, size=users) * mean).astype(np.int64)
    return np.asarray(np.clip(drawn, min(2, n_items), n_items))


@after_the_charge
def ratings_frontier(model: PrivateRecommender | PrivateRatingNMF, n_users: int, n_ratings: int) -> Frontier:
    """Return the error of private models of the kind and with the settings of `model`, at several epsilons."""
    from tacit.factor.ratings.non_negative import RatingNMF
    from tacit.factor.ratings.plain import Recommender
    from tacit.factor.ratings.private_non_negative import PrivateRatingNMF

    random = np.random.default_rng(0)
    side = model.drawn_from_ if isinstance(model, PrivateRatingNMF) else model._item_side()
    ids, factors = list(model.item_ids_), np.asarray(side.factors)
    sizes = _sizes(n_users, n_ratings, len(ids), random)
    tastes = random.standard_normal((len(sizes), factors.shape[1] + 1)) / np.sqrt(side.precision)
    items = drawn_items(model.item_weights_, sizes, lambda some: 0.0, random)
    users, columns = np.repeat(np.arange(len(sizes)), sizes), np.concatenate(items)
    expected = side.mean + side.biases[columns] + tastes[users, -1]
    expected = expected + np.einsum("ij,ij->i", tastes[users, :-1], factors[columns])
    values = expected + math.sqrt(side.noise) * random.standard_normal(len(users))
    values = np.clip(values, model.least_, model.greatest_)
    out = random.random(len(users)) < HELD_OUT
    named = np.empty(len(ids), dtype=object)
    named[:] = ids
    train, test = ((users[part], named[columns[part]].tolist(), values[part]) for part in (~out, out))
    settings = {**model.get_params(deep=False), "ledger": None, "dataset": None}

    def error(fitted: RatingModel) -> float:
        return math.sqrt(float(np.mean((fitted.predict(test[0], test[1], unknown="mean") - test[2]) ** 2)))

    means = np.bincount(train[0], train[2], minlength=len(sizes)) / np.maximum(
        np.bincount(train[0], minlength=len(sizes)), 1
    )
    means = np.where(np.bincount(train[0], minlength=len(sizes)) > 0, means, train[2].mean())
    plain = RatingNMF if isinstance(model, PrivateRatingNMF) else Recommender
    return Frontier(
        EPSILONS,
        _errors(lambda epsilon: error(type(model)(**{**settings, "epsilon": epsilon}).fit(*train))),
        error(plain(model.n_factors, rating_range=model.rating_range).fit(*train)),
        math.sqrt(float(np.mean((means[test[0]] - test[2]) ** 2))),
        "RMSE on held-out ratings",
        "a user's own mean (free)",
        "synthetic users, as many as were fitted but at most a few thousand, drawn from the released model",
    )


def _taste_factors(model: PrivateImplicitRecommender) -> NDArray[np.float64]:
    """Return factors of all items whose products are about the released partial correlations of the learned items."""
    regression, learned = np.asarray(model.item_regression_, dtype=np.float64), model.learned_items_
    factors = np.zeros((len(model.item_weights_), min(MOST_TASTES, len(learned))))
    if factors.shape[1]:
        correlations = np.sign(regression) * np.sqrt(np.abs(regression * regression.T))
        last = len(learned) - 1
        values, vectors = eigh((correlations + correlations.T) / 2, subset_by_index=(last - factors.shape[1] + 1, last))
        factors[learned] = vectors * np.sqrt(np.maximum(values, 0.0))
    return factors


@after_the_charge
def interactions_frontier(model: PrivateImplicitRecommender, n_users: int, n_interactions: int, k: int) -> Frontier:
    """Return the recall of `PrivateImplicitRecommender` with the settings of `model`, at several epsilons."""
    random = np.random.default_rng(0)
    factors = _taste_factors(model)
    scale = math.sqrt(float((factors**2).sum(axis=1).max(initial=0.0))) or 1.0
    sizes = _sizes(n_users, n_interactions, len(factors), random)
    tastes = random.standard_normal((len(sizes), factors.shape[1])) / scale
    items = drawn_items(model.item_weights_, sizes, lambda some: tastes[some] @ factors.T, random)
    size = max(1, round(HELD_OUT * len(sizes)))
    ids = list(model.item_ids_)
    seen, relevant = divided_histories([own.tolist() for own in items[:size]], random_state=0)
    pairs = [(history, wanted) for history, wanted in zip(seen, relevant, strict=True) if wanted]
    users = np.repeat(np.arange(len(sizes) - size), sizes[size:])
    train = users, [ids[column] for column in np.concatenate([np.zeros(0, np.intp), *items[size:]])]
    settings = {**model.get_params(deep=False), "ledger": None, "dataset": None, "verbose": False}

    def recall(lists: list[list[Hashable]]) -> float:
        wanted = [[ids[item] for item in items] for _, items in pairs]
        return float(ranking_scores(lists, wanted, k=k, n_items=len(ids)).recall)

    def fitted(epsilon: float) -> float:
        private = type(model)(**{**settings, "epsilon": epsilon}).fit(*train)
        return recall(private.rank([[ids[item] for item in history] for history, _ in pairs], k))

    ranked = np.argsort(-np.bincount(np.concatenate(items[size:]), minlength=len(ids)), kind="stable").tolist()
    popular = []
    for history, _ in pairs:
        known = set(history)
        popular.append([ids[item] for item in ranked if item not in known][:k])
    return Frontier(
        EPSILONS,
        _errors(fitted),
        fitted(math.inf),
        recall(popular),
        f"recall at {k}",
        "the most popular items",
        "synthetic users, as many as were fitted but at most a few thousand, drawn from the released model",
    )


@after_the_charge
def network_frontier(model: Estimator, n_examples: int) -> Frontier:
    """Return the accuracy, or the error, of a private network with the settings of `model`, at several epsilons.

    A network does not tell what its examples look like. So the synthetic ones are as many, have as many features and the same
    classes or range of targets, and differ in a few directions, which are smooth over the pixels of images.
    """
    random = np.random.default_rng(0)
    low, high = np.asarray(model.feature_range_, dtype=np.float64)
    size = min(n_examples, MOST_EXAMPLES) + TEST_ROWS
    latent = random.standard_normal((size, LATENT))
    classes = getattr(model, "classes_", None)
    if classes is None:
        ends = np.asarray(model.target_range, dtype=np.float64)
        told = latent[:, 0] + math.sqrt(RESIDUAL) * random.standard_normal(size)
        y = np.clip(ends.mean(axis=0) + (ends[1] - ends[0]) / 6 * told, ends[0], ends[1])
    else:
        places = random.integers(len(classes), size=size)
        centres = random.standard_normal((len(classes), LATENT))
        latent += SEPARATION * (centres / np.linalg.norm(centres, axis=1, keepdims=True))[places]
        y = classes[places]
    directions = _directions(model.n_features_in_, model.image_shape_, random)
    rows = np.clip((low + high) / 2 + LEVEL * (high - low) * (latent @ directions), low, high)
    given = {"ledger": None, "dataset": None, "verbose": False, "image_shape": model.image_shape}
    settings = {**model.get_params(deep=False), **given}

    def measure(epsilon: float) -> float:
        fitted = type(model)(**{**settings, "epsilon": epsilon}).fit(rows[TEST_ROWS:], y[TEST_ROWS:])
        predicted, truth = fitted.predict(rows[:TEST_ROWS]), y[:TEST_ROWS]
        if classes is not None:
            return float((predicted == truth).mean())
        return math.sqrt(float(np.mean((predicted - truth) ** 2)))

    if classes is None:
        trivial = float(y[:TEST_ROWS].std())
    else:
        trivial = float(np.unique(y[:TEST_ROWS], return_counts=True)[1].max() / TEST_ROWS)
    return Frontier(
        EPSILONS,
        _errors(measure),
        measure(math.inf),
        trivial,
        "root mean squared error" if classes is None else "accuracy",
        "the mean label" if classes is None else "the most frequent class",
        "synthetic examples of the same shape, as many as were fitted but at most a few thousand",
    )


def _directions(n_features: int, shape: tuple[int, int] | None, random: np.random.Generator) -> NDArray[np.float64]:
    """Return directions with entries of about unit size; for images, smooth ones."""
    if shape is None:
        return np.asarray(random.standard_normal((LATENT, n_features)) / math.sqrt(LATENT))
    height, width = shape
    waves = random.integers(1, 5, size=(LATENT, 2)), random.uniform(0, 2 * np.pi, size=(LATENT, 2))
    down, right = (
        np.sin(np.pi * waves[0][:, [axis]] * np.arange(length) / length + waves[1][:, [axis]])
        for axis, length in enumerate((height, width))
    )
    images = np.einsum("ih,iw->ihw", down, right).reshape(LATENT, -1)
    return np.asarray(images / images.std(axis=1, keepdims=True) / math.sqrt(LATENT))


def _errors(measure: Callable[[float], float]) -> list[float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)  # about the synthetic rows, which nobody has to protect
        return [float(measure(epsilon)) for epsilon in EPSILONS]
