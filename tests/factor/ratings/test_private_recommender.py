"""The private recommender: bounds hold for whole histories, no user is saved, and it beats predictions without users."""

import math

import numpy as np
import polars as pl
import pytest
from recommender_contract import DATA, ITEMS, RATINGS, USERS, RecommenderContract, quietly
from sklearn.base import clone

import tacit
from tacit import Ledger, PrivateRecommender
from tacit.data import make_ratings
from tacit.errors import BudgetError, InvalidInputError, PrivacyWarning
from tacit.factor.noisy_moments.posterior import RowPosterior, loadings
from tacit.factor.noisy_moments.shrinkage import shrunk_biases
from tacit.factor.ratings.mugdho_imtiaz import MugdhoImtiazSettings
from tacit.factor.ratings.table import Ids
from tacit.factor.ratings.user_budgets import UserBudgets, budgets_of
from tacit.privacy import ExponentialRelease, GaussianRelease, Guarantee, gaussian_noise_multiplier
from tacit.testing import check_neighbours

CATALOGUE = list(range(40))
INF = float("inf")


class TestCovariance(RecommenderContract):
    estimator = PrivateRecommender(3, epsilon=50.0, insecure_seed=1)

    def test_evaluate_strangers_of_the_catalogue(self, model):
        assert model.predict([77777], [3], unknown="mean") == pytest.approx(model.global_mean_ + model.item_biases_[3])


class TestGradient(RecommenderContract):
    estimator = PrivateRecommender(3, epsilon=50.0, method="gradient", unit="cell", insecure_seed=1)


class TestBiasesOnly(RecommenderContract):
    estimator = PrivateRecommender(3, epsilon=0.5, insecure_seed=1)


class TestFeatures(RecommenderContract):
    """Ids of every kind are tested without features: their order is that of the catalogue."""

    estimator = PrivateRecommender(
        3, epsilon=50.0, insecure_seed=1, catalogue=CATALOGUE, features=np.eye(4)[np.arange(40) % 4]
    )

    def test_ids_may_be_anything_hashable(self):
        names = [f"film {item:02}" for item in CATALOGUE]  # sorted like the numbers
        first = self.fitted(USERS, ITEMS, RATINGS)
        for order in (slice(None), slice(None, None, -1)):
            model = clone(self.estimator).set_params(catalogue=names[order], features=self.estimator.features[order])
            quietly(model, USERS, [names[item] for item in ITEMS], RATINGS)
            for item in (0, 7, 39):
                found = model.item_factors_[list(model.item_ids_).index(names[item])]
                np.testing.assert_allclose(found, first.item_factors_[item])

    def test_similar_items(self, model):
        assert len(model.similar_items(3, 5)) == 5


HISTORIES = {
    "nothing but one rating": ([3], [5]),
    "all items, all best": (CATALOGUE, [5] * 40),
    "all items, by turns": (CATALOGUE, [1, 5] * 20),
    "half of the items": (CATALOGUE[::2], [1] * 20),
    "an ordinary one": (ITEMS[USERS == 3], RATINGS[USERS == 3]),
}


def with_last(history):
    """The data with one more user at the end (ids are sorted, and 1000 is the largest)."""
    items, ratings = history
    return np.r_[USERS, [1000] * len(items)], np.r_[ITEMS, items], np.r_[RATINGS, ratings]


def released(estimator):
    def fit(ratings):
        model = quietly(clone(estimator), *ratings)
        return {name: getattr(model, name) for name in model._released if hasattr(model, name)}

    return fit


@pytest.mark.parametrize(("epsilon", "factors"), [(0.5, 0), (100.0, 2)])
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_a_whole_history_moves_no_sum_beyond_its_bound(adjacency, epsilon, factors):
    settings = {"catalogue": CATALOGUE, "adjacency": adjacency, "rounds": 2, "insecure_seed": 4}
    fit = released(PrivateRecommender(3, epsilon=epsilon, **settings))
    assert fit((USERS, ITEMS, RATINGS))["n_factors_"] == factors
    tables = [with_last(history) for history in HISTORIES.values()]
    pairs = [((USERS, ITEMS, RATINGS), table) for table in tables]
    if adjacency == "replace-one":
        pairs = [(tables[0], table) for table in tables[1:]] + [(tables[1], tables[2])]
    used = [check_neighbours(fit, first, second).largest for first, second in pairs]
    assert max(used) > 0.7  # the bound is not stated needlessly large


def test_a_user_with_ten_thousand_ratings_counts_no_more_than_one():
    """The planted user rates everything; every sum changes by at most its bound, and the item factors change very little."""
    data = make_ratings(150, 10_000, n_factors=0, ratings_per_user=50, random_state=1)
    catalogue = list(range(10_000))
    honest = data.users, data.items, data.ratings
    extreme = (
        np.r_[data.users, np.full(10_000, 999)],
        np.r_[data.items, np.arange(10_000)],
        np.r_[data.ratings, np.arange(10_000) % 2 * 4 + 1],
    )
    estimator = PrivateRecommender(2, epsilon=10.0, catalogue=catalogue, rounds=1, max_columns=50)
    report = check_neighbours(released(estimator), honest, extreme)
    assert report.largest <= 1 + 1e-9
    clear = clone(estimator).set_params(epsilon=INF)
    before, after = (quietly(clone(clear), *ratings) for ratings in (honest, extreme))
    assert np.abs(after.item_weights_ - before.item_weights_).max() < 0.011  # 1 / sqrt(10,000)


@pytest.mark.parametrize("history", HISTORIES.values(), ids=HISTORIES)
def test_a_user_with_a_small_budget_moves_sums_by_that_much_less(history):
    """Both kinds of neighbour: a user with a smaller epsilon than the others, and one with the same."""
    budgets = dict.fromkeys(range(300), 20.0)
    for asked in (20.0, 1.0):
        estimator = PrivateRecommender(3, epsilon={**budgets, 1000: asked}, catalogue=CATALOGUE, rounds=2)
        report = check_neighbours(released(estimator), (USERS, ITEMS, RATINGS), with_last(history))
        ratio = gaussian_noise_multiplier(20.0, 1e-6) / gaussian_noise_multiplier(asked, 1e-6)
        assert report.largest <= ratio + 1e-9
        assert report.largest > 0.4 * ratio


def test_every_user_has_a_guarantee():
    budgets = np.where(np.arange(300) < 100, 1.0, 8.0)
    model = quietly(PrivateRecommender(2, epsilon=budgets), USERS, ITEMS, RATINGS)
    assert model.user_guarantee(5).epsilon == pytest.approx(1.0, rel=1e-3)
    assert model.user_guarantee(5).epsilon <= 1.0
    assert model.user_guarantee(200).epsilon == model.guarantee_.epsilon <= 8.0
    assert "budgets of their own" in " ".join(model.guarantee_.assumptions)
    with pytest.raises(InvalidInputError, match="epsilon for every user"):
        PrivateRecommender(2, epsilon={0: 1.0}).fit(USERS, ITEMS, RATINGS)
    with pytest.raises(InvalidInputError, match="each user"):
        PrivateRecommender(2, epsilon=[1.0, 2.0]).fit(USERS, ITEMS, RATINGS)


@pytest.mark.parametrize("max_units", [2**16, 2**24])
def test_own_budgets_leave_room_for_the_rounding_of_everybodys_sums(max_units):
    """A user of a small scale moves the rounding of float64 additions as much as any other user does."""
    users, wanted = Ids(np.arange(2)), (8.0, 0.5)
    budgets = budgets_of(wanted, 1e-6, "add-remove", users, max_units)
    additions = 2 * max_units**2 * 2.0**-53  # the channel's reserve, relative to the bound of one user
    assert budgets.reserve >= additions
    moved = budgets.scales[1] + additions
    alone = GaussianRelease(noise_multiplier=gaussian_noise_multiplier(8.0, 1e-6) / moved)
    assert Guarantee.from_releases([alone], delta=1e-6, unit="user").epsilon <= 0.5


def test_own_budgets_below_the_rounding_of_sums_are_refused():
    with pytest.raises(InvalidInputError, match="rounding of sums"):
        budgets_of((8.0, 0.1), 1e-6, "add-remove", Ids(np.arange(2)), 2**24)


def test_a_users_own_guarantee_needs_the_same_trust_as_the_whole():
    whole = Guarantee.from_releases(
        [GaussianRelease(noise_multiplier=5.0)], delta=1e-6, unit="user", trust="It holds against outsiders only"
    )
    own = UserBudgets(8.0, np.array([0.5]), 0.01).guarantee(whole, 0)
    assert own.epsilon < whole.epsilon
    assert (own.trust, own.unit) == (whole.trust, "user")


def test_a_users_own_guarantee_counts_releases_that_no_scale_lowers():
    choice = ExponentialRelease("choice", epsilon=3.0)
    whole = Guarantee.from_releases([GaussianRelease(noise_multiplier=5.0), choice], delta=1e-6, unit="user")
    assert UserBudgets(8.0, np.array([0.5]), 0.01).guarantee(whole, 0).epsilon >= 3.0


def test_one_rating_moves_the_gradients_by_their_bound():
    """The repaired method protects a rating's value: worst to best moves both gradients, together at most sqrt(2) tau C."""
    changed = RATINGS.copy()
    changed[-1] = 5 if RATINGS[-1] < 3 else 1
    fit = released(PrivateRecommender(3, epsilon=5.0, method="gradient", unit="cell", rounds=3))
    report = check_neighbours(fit, (USERS, ITEMS, RATINGS), (USERS, ITEMS, changed))
    assert 0.2 < report.largest <= 1 + 1e-9


def test_the_guarantee_says_what_is_protected():
    model = quietly(PrivateRecommender(2, epsilon=2.0, delta=1e-5), USERS, ITEMS, RATINGS)
    assert model.guarantee_.epsilon <= 2.0
    assert (model.guarantee_.unit, model.guarantee_.adjacency) == ("user", "add-remove")
    text = " ".join(model.guarantee_.assumptions)
    assert "joint differential privacy" in text
    assert "list of items is public" in text
    entry = quietly(PrivateRecommender(2, epsilon=2.0, method="gradient", unit="cell"), USERS, ITEMS, RATINGS)
    assert (entry.guarantee_.unit, entry.guarantee_.adjacency) == ("cell", "replace-one")
    assert "who rated which item is public" in " ".join(entry.guarantee_.assumptions)


def test_the_published_method_has_no_guarantee_and_says_why(tmp_path):
    model = PrivateRecommender(3, epsilon=2.0, method="published", unit="cell").fit(USERS, ITEMS, RATINGS)
    assert not model.guarantee_.holds
    assert "item factors with gradients of the private ratings" in str(model.guarantee_)
    x, theta = model.item_factors_, model.user_factors_
    expected = np.clip(np.einsum("ij,ij->i", theta[USERS], x[ITEMS]), 1, 5)
    assert np.allclose(model.predict(USERS, ITEMS), expected)
    model.save(tmp_path / "model")
    assert not tacit.load(tmp_path / "model").guarantee_.holds


def test_two_iterations_of_the_published_method_are_algorithm_one():
    """With the paper's parameters and no noise, by hand; the clipped rows enter the products only."""
    paper = MugdhoImtiazSettings(mu=0.01, lambda_=0.5, C=0.8, epsilon_i=math.inf)
    model = PrivateRecommender(3, method="published", unit="cell", rounds=2, published=paper).fit(USERS, ITEMS, RATINGS)
    draw = np.random.default_rng(0)
    x, theta = draw.standard_normal((40, 3)), draw.standard_normal((USERS.max() + 1, 3))
    x, theta = (rows / np.linalg.norm(rows, axis=1)[:, None] for rows in (x, theta))
    V, R = np.zeros((40, len(theta))), np.zeros((40, len(theta)))
    V[ITEMS, USERS], R[ITEMS, USERS] = RATINGS, 1
    curve = []
    for _ in range(2):
        error = (x @ theta.T) * R - V
        curve.append(np.sqrt((error**2).sum() / R.sum()))
        near = [rows / np.maximum(1, np.linalg.norm(rows, axis=1)[:, None] / 0.8) for rows in (x, theta)]
        x, theta = x - 0.01 * (error @ near[1] + 0.5 * x), theta - 0.01 * (error.T @ near[0] + 0.5 * theta)
    assert np.allclose(model.item_factors_, x)
    assert np.allclose(model.user_factors_, theta)
    assert np.allclose(model.rmse_by_round_, curve)


def test_the_published_noise_and_its_end():
    paper = MugdhoImtiazSettings(epsilon_i=0.4)
    assert paper.noise_multiplier(1.0, 1e-5, 100) == pytest.approx(math.sqrt(2 * math.log(125)) / 0.4)
    free = {"method": "published", "unit": "cell", "epsilon": math.inf, "rounds": 400}
    model = PrivateRecommender(3, published=MugdhoImtiazSettings(mu=0.01, tol=1e-3), **free).fit(USERS, ITEMS, RATINGS)
    assert 10 < len(model.rmse_by_round_) < 400
    assert model.rmse_by_round_[-1] < 0.8 * model.rmse_by_round_[0]
    for wrong in ({"mu": 0}, {"C": -1.0}, {"lambda_": -1.0}, {"delta": 2.0}, {"epsilon_i": 0.0}):
        with pytest.raises(InvalidInputError):
            MugdhoImtiazSettings(**wrong)
    with pytest.raises(InvalidInputError, match="method='published'"):
        PrivateRecommender(3, published=paper).fit(USERS, ITEMS, RATINGS)


def test_volunteers_are_not_protected_and_all_others_are(tmp_path):
    """Users with epsilon = inf change nothing in the noise, have no guarantee, and a ledger is charged for the others."""
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.open_account("films", 9.0, 1e-5, unit="user")
    budgets = {user: INF if user < 30 else 4.0 if user < 200 else 1.0 for user in range(300)}
    settings = {"delta": 1e-6, "catalogue": CATALOGUE, "ledger": ledger, "dataset": "films"}
    model = quietly(PrivateRecommender(2, epsilon=budgets, **settings), USERS, ITEMS, RATINGS)
    assert 3.99 < model.guarantee_.epsilon <= 4.0
    assert "volunteers" in " ".join(model.guarantee_.assumptions)
    assert not model.user_guarantee(3).holds
    assert model.user_guarantee(100).epsilon <= 4.0
    assert model.user_guarantee(250).epsilon <= 1.0
    model.save(tmp_path / "model")
    assert tacit.load(tmp_path / "model").epsilon == 4.0
    everybody = PrivateRecommender(2, epsilon=dict.fromkeys(range(300), INF))
    assert not quietly(everybody, USERS, ITEMS, RATINGS).guarantee_.holds
    with pytest.raises(InvalidInputError, match="a ledger can account for"):
        everybody.set_params(**settings).fit(USERS, ITEMS, RATINGS)


def test_units_must_fit_the_method():
    for method, unit in (("moments", "cell"), ("gradient", "user"), ("published", "user")):
        with pytest.raises(InvalidInputError, match="unit="):
            PrivateRecommender(2, method=method, unit=unit).fit(USERS, ITEMS, RATINGS)


def test_without_signal_it_falls_back_to_biases_and_says_so():
    with pytest.warns(PrivacyWarning, match="biases only"):
        model = PrivateRecommender(3, epsilon=0.5, insecure_seed=1).fit(USERS, ITEMS, RATINGS)
    assert model.n_factors_ == 0
    assert model.item_factors_.shape == (40, 0)
    with pytest.raises(InvalidInputError, match="factors"):
        model.similar_items(3)


@pytest.fixture(scope="module")
def large():
    data = make_ratings(6000, 120, n_factors=2, ratings_per_user=30, noise=0.5, random_state=2)
    held = np.random.default_rng(0).random(len(data.users)) < 0.1
    parts = [(data.users[mask], data.items[mask], data.ratings[mask]) for mask in (~held, held)]
    return data, *parts


@pytest.mark.slow
def test_it_beats_what_is_not_personal(large):
    """With planted factors, the error from epsilon 1 on is below biases without privacy, at 0.3 not above item means."""
    data, train, test = large
    _, items, ratings = train
    means = np.bincount(items, ratings, 120) / np.maximum(np.bincount(items, minlength=120), 1)
    item_error = np.sqrt(np.mean((means[test[1]] - test[2]) ** 2))
    biases = quietly(PrivateRecommender(0, epsilon=INF), *train).evaluate(*test).rmse
    error = {e: quietly(PrivateRecommender(4, epsilon=e), *train).evaluate(*test).rmse for e in (0.3, 1.0, 10.0, INF)}
    best = np.sqrt(np.mean((np.clip(data.expected(*test[:2]), 1, 5) - test[2]) ** 2))
    assert error[INF] < error[10.0] + 0.01
    assert error[10.0] < 0.9 * biases
    assert error[10.0] < 1.25 * best
    assert error[1.0] < 0.9 * biases
    assert error[0.3] < 1.02 * item_error


@pytest.mark.slow
def test_the_gradient_method_learns(large):
    """At a large epsilon its error, in its weaker unit, is below that of a constant and of item means."""
    _, train, test = large
    _, items, ratings = train
    means = np.bincount(items, ratings, 120) / np.maximum(np.bincount(items, minlength=120), 1)
    model = PrivateRecommender(4, epsilon=20.0, method="gradient", unit="cell").fit(*train)
    assert model.evaluate(*test).rmse < np.sqrt(np.mean((means[test[1]] - test[2]) ** 2))


def test_biases_shrink_by_the_noise():
    weights, truth = np.linspace(1, 50, 200), np.random.default_rng(0).normal(0, 0.25, 200)
    _, exact = shrunk_biases(weights, weights * truth, count_noise=1e-6, sum_noise=1e-6)
    assert np.allclose(exact, truth, atol=1e-3)
    _, drowned = shrunk_biases(weights, weights * truth, count_noise=1e4, sum_noise=1e4)
    assert np.abs(drowned).max() < 0.01


def test_loadings_find_a_planted_direction_and_nothing_in_noise():
    rng = np.random.default_rng(0)
    direction = rng.normal(size=60)
    direction /= np.linalg.norm(direction)
    noise = rng.normal(size=(60, 60)) / np.sqrt(2)
    noise = np.triu(noise, 1) + np.triu(noise, 1).T
    planted = 60 * np.outer(direction, direction)
    np.fill_diagonal(planted, 0)
    found, spread = loadings(planted + noise, 1.0, np.ones(60), 40.0, 5)
    assert found.shape[1] == 1
    assert abs(found[:, 0] @ direction) / np.linalg.norm(found) > 0.95
    assert spread.shape == found.shape
    assert loadings(0.5 * noise, 1.0, np.ones(60), 40.0, 5)[0].shape == (60, 0)


def test_a_correction_is_the_normal_posterior():
    """One item, by hand: prior N(m, C), observation G = w M x + noise."""
    rng = np.random.default_rng(1)
    posterior = RowPosterior.of_biases(0.0, np.array([0.1, 0.2]), np.array([5.0, 5.0]), 1.0, 30.0)
    posterior = posterior.with_factors(np.array([0, 1]), rng.normal(size=(2, 1)), np.full((2, 1), 0.1))
    gram, moments, noise = np.array([[2.0, 0.3], [0.3, 1.0]]), rng.normal(size=(2, 2)), 0.7
    after = posterior.corrected(moments, gram, noise, 0.25)
    H = 5.0 * gram
    R = noise**2 * np.eye(2) + 30.0 * 0.5 * gram / np.trace(gram)
    precision = posterior.precisions[0] + H @ np.linalg.inv(R) @ H
    assert np.allclose(after.precisions[0], precision)
    expected = posterior.means[0] + np.linalg.solve(precision, H @ np.linalg.solve(R, moments[0]))
    assert np.allclose(after.means[0], expected)


def test_a_ledger_is_charged_once_and_refuses_the_second(tmp_path):
    ledger = Ledger(tmp_path / "budget.db")
    ledger.open_account("films", 2.5, 1e-6, unit="user")
    model = PrivateRecommender(2, epsilon=2.0, ledger=ledger, dataset="films")
    quietly(model, USERS, ITEMS, RATINGS)
    assert ledger.remaining("films").spent == pytest.approx(2.0, rel=1e-3)
    with pytest.raises(BudgetError):
        quietly(model, USERS, ITEMS, RATINGS)


def test_an_account_is_named_by_the_ratings_as_they_were_given(tmp_path):
    import polars

    frame = polars.DataFrame({"user": USERS, "item": ITEMS, "rating": RATINGS})
    ledger = Ledger(tmp_path / "ledger.db")
    for given, account in [((frame,), frame), ((USERS, ITEMS, RATINGS), (USERS, ITEMS, RATINGS))]:
        ledger.open_account(tacit.fingerprint(account), 3.0, 1e-6, unit="user")
        quietly(PrivateRecommender(2, epsilon=1.0, ledger=ledger), *given)
        assert len(ledger.history(tacit.fingerprint(account))) == 1


def test_the_catalogue_is_what_is_known(tmp_path):
    model = quietly(PrivateRecommender(2, epsilon=5.0, catalogue=[*CATALOGUE, "unrated"]), USERS, ITEMS, RATINGS)
    assert len(model.item_biases_) == 41
    assert np.isfinite(model.predict([0], ["unrated"])).all()
    with pytest.raises(InvalidInputError, match="item ids"):
        PrivateRecommender(2, catalogue=CATALOGUE[:-1]).fit(USERS, ITEMS, RATINGS)


def test_the_file_holds_only_what_was_released(tmp_path):
    """Two fits with the same noise on data that differs in users' order and names save the same bytes of arrays."""
    estimator = PrivateRecommender(2, epsilon=20.0, insecure_seed=3, catalogue=CATALOGUE)
    first = quietly(clone(estimator), USERS, ITEMS, RATINGS)
    second = quietly(clone(estimator), USERS + 5000, ITEMS, RATINGS)
    for name, model in (("first", first), ("second", second)):
        model.save(tmp_path / name)
    with np.load(tmp_path / "first") as one, np.load(tmp_path / "second") as other:
        assert set(one.files) == set(other.files)
        assert all(np.array_equal(one[name], other[name]) for name in one.files)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": "much"}, "epsilon"),
        ({"delta": 0}, "delta"),
        ({"method": "magic"}, "method"),
        ({"unit": "row"}, "unit"),
        ({"rounds": 0}, "rounds"),
        ({"max_columns": 0}, "max_columns"),
        ({"rating_range": (1, 1)}, "rating_range"),
        ({"max_units": 10}, "max_units"),
        ({"epsilon": {0: 1.0}, "method": "gradient", "unit": "cell"}, "one epsilon"),
        ({"n_factors": 0, "method": "gradient", "unit": "cell"}, "n_factors"),
    ],
)
def test_bad_parameters_are_refused(parameters, message):
    with pytest.raises(InvalidInputError, match=message):
        PrivateRecommender(**parameters).fit(USERS, ITEMS, RATINGS)


def test_another_range_is_only_another_scale():
    """Ratings of 0 to 100 are treated as rescaled ratings of 1 to 5; only the unit of the predictions changes."""
    small = quietly(PrivateRecommender(2, epsilon=20.0, insecure_seed=2), USERS, ITEMS, RATINGS)
    large = PrivateRecommender(2, epsilon=20.0, insecure_seed=2, rating_range=(0, 100))
    quietly(large, USERS, ITEMS, 25.0 * (RATINGS - 1))
    assert np.allclose(large.predict(USERS, ITEMS), 25 * (small.predict(USERS, ITEMS) - 1), atol=1e-6)
    assert DATA.rating_range == (1, 5)


@pytest.mark.parametrize("history", HISTORIES)
def test_a_user_moves_no_sum_beyond_its_bound_with_features(history):
    check_neighbours(released(TestFeatures.estimator), with_last(HISTORIES[history]), (USERS, ITEMS, RATINGS))


def test_tastes_for_public_features_cost_nothing_and_help_where_noise_is_strong():
    """Users like one of four genres and dislike the others; at this epsilon the model has no factors."""
    generator = np.random.default_rng(4)
    users = np.repeat(np.arange(1500), 12)
    items = np.concatenate([generator.choice(80, 12, replace=False) for _ in range(1500)])
    ratings = np.clip(3 + np.where(items % 4 == users % 4, 1.2, -0.4) + generator.normal(0, 0.5, len(users)), 1, 5)
    test = np.arange(len(users)) % 6 == 0
    errors = []
    for features in (None, np.eye(4)[np.arange(80) % 4]):
        model = PrivateRecommender(4, epsilon=0.7, delta=1e-4, catalogue=range(80), features=features, insecure_seed=2)
        quietly(model, users[~test], items[~test], ratings[~test])
        errors.append(model.evaluate(users[test], items[test], ratings[test]).rmse)
    assert errors[1] < 0.96 * errors[0]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"features": np.ones((40, 2))}, "a catalogue with the features"),
        ({"features": np.ones((3, 2)), "catalogue": CATALOGUE}, "one row per item"),
        (
            {"features": np.ones((40, 2)), "catalogue": CATALOGUE, "method": "gradient", "unit": "cell"},
            "method='moments'",
        ),
    ],
)
def test_features_that_are_refused(settings, words):
    with pytest.raises(InvalidInputError, match=words):
        PrivateRecommender(2, **settings).fit(USERS, ITEMS, RATINGS)


def test_factors_that_chance_alone_makes_are_not_taken():
    """Dense ratings with two tastes and nearly no noise: there are two factors, not as many as may be had."""
    data = make_ratings(2000, 40, n_factors=2, ratings_per_user=30, random_state=3)
    model = quietly(PrivateRecommender(10, epsilon=200.0, insecure_seed=1), data.users, data.items, data.ratings)
    assert model.n_factors_ <= 3


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tacit.errors.PrivacyWarning")
@pytest.mark.parametrize("epsilon", [0.1, 0.3, 1.0])
def test_few_users_are_not_predicted_worse_than_by_their_own_means(epsilon):
    """A noisy overall mean, a noisy variance and corrections that are noise must not displace what a user's ratings say."""
    random = np.random.default_rng(0)
    values = 3 + 0.5 * random.standard_normal(40) + 0.6 * random.standard_normal((100, 1))
    values = np.clip(np.round(values + 0.7 * random.standard_normal((100, 40))), 1, 5)
    users, items = np.nonzero(random.random((100, 40)) < 0.5)
    held = random.random(len(users)) < 0.2
    ratings = pl.DataFrame({"user": users, "item": items, "rating": values[users, items]})
    train, test = ratings.filter(~held), ratings.filter(held)
    means = train.group_by("user").agg(pl.col("rating").mean().alias("mean"))
    own = test.join(means, on="user", how="left", maintain_order="left")["mean"].fill_null(3.0).to_numpy()
    truth = test["rating"].to_numpy()
    errors = []
    for seed in range(4):
        model = PrivateRecommender(epsilon=epsilon, delta=1e-5, catalogue=range(40), insecure_seed=seed).fit(train)
        errors.append(np.mean((model.predict(test["user"], test["item"]) - truth) ** 2))
    assert np.sqrt(np.mean(errors)) < 1.03 * np.sqrt(np.mean((own - truth) ** 2))
