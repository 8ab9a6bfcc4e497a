"""Private coupled factorisation: recovery without noise, releases, and refusals."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone

import tacit
from tacit import Ledger, PrivateCoupledFactorization, Relation
from tacit.channel import Noisy, Plan, Step, run_together
from tacit.data import make_ratings
from tacit.errors import BudgetError, InvalidInputError, PrivacyWarning
from tacit.factor.coupled.private import cell_moments
from tacit.factor.coupled.private.budget import CoupledMomentSettings
from tacit.factor.coupled.private.cell_moments import cell_split
from tacit.factor.coupled.private.dp_sgld import Cells, SgldSettings, clipped_gradients, sgld_program
from tacit.factor.coupled.private.problem import problems_of
from tacit.factor.coupled.private.unit_cells import UnitCells
from tacit.factor.coupled.private.user_moments import activity_of
from tacit.factor.noisy_moments.shrinkage import likely_counts, shrunk_biases, shrunk_mean
from tacit.privacy.published import ermis_zcdp_noise_multiplier

KNOWN = {"observed": "stored", "divergence": "euclid"}


def matrix(n_users=300, n_films=20, seed=0, share=0.6):
    """Ratings with biases and one strong factor; return cells, values, and the expectation of every cell."""
    draw = np.random.default_rng(seed)
    taste, kind = draw.normal(size=n_users), draw.choice([-0.35, 0.35], n_films)
    mean = 0.1 + draw.normal(0, 0.15, n_films) + np.outer(taste, kind) * 0.6
    mean = np.clip(mean, -0.9, 0.9)
    known = draw.random(mean.shape) < share
    values = np.clip(mean + draw.normal(0, 0.1, mean.shape), -1, 1)
    return np.argwhere(known), values[known], mean


def relation_of(cells, values, shape, factors=("user", "film")):
    einsum = "ir,jr->ij" if len(shape) == 2 else "ir,jr,kr->ijk"
    return Relation((cells, values, shape), einsum, factors, **KNOWN)


def ratings(**settings):
    cells, values, mean = matrix(**settings)
    return relation_of(cells, values, mean.shape), mean


def private(rank=2, **settings):
    return PrivateCoupledFactorization({"r": rank}, **{"epsilon": 5.0, "value_range": (-1, 1), **settings})


@pytest.mark.parametrize("unit", ["user", "cell"])
@pytest.mark.parametrize("protect", ["site", "user"])
def test_without_noise_the_structure_is_found(unit, protect):
    relation, mean = ratings()
    model = private(epsilon=math.inf, unit=unit, protect=protect).fit([relation])
    errors = model.predict("user-film") - mean
    assert model.n_components_ >= 1
    # far below the error of biases alone
    left = mean - mean.mean(axis=0) - mean.mean(axis=1, keepdims=True) + mean.mean()
    assert errors.std() < 0.6 * left.std()
    assert not model.guarantee_.holds


def test_without_noise_directions_that_no_film_has_are_solved_too(monkeypatch):
    """The Gram matrix of the films' factors is then singular."""
    original = cell_moments._own

    def flat(cells, fixed, *more):
        for rows in fixed.rows.values():
            rows[:, 0] = 0.0
        return original(cells, fixed, *more)

    monkeypatch.setattr(cell_moments, "_own", flat)
    relation, _ = ratings(n_users=60)
    model = private(epsilon=math.inf, unit="cell", protect="user").fit([relation])
    assert np.isfinite(model.predict("user-film")).all()
    assert np.all(model.factors_["film"][:, 0] == 0)


@pytest.mark.parametrize("method", ["moments", "sgld"])
@pytest.mark.parametrize(("unit", "protect"), [("user", "site"), ("user", "user"), ("cell", "site"), ("cell", "user")])
def test_the_budget_is_kept_and_said(method, unit, protect):
    relation, _ = ratings(n_users=60)
    model = private(epsilon=2.0, delta=1e-5, unit=unit, protect=protect, method=method, rounds=5).fit([relation])
    guarantee = model.guarantee_
    assert guarantee.holds
    assert guarantee.epsilon <= 2.0 * (1 + 1e-6)
    assert guarantee.epsilon > 1.9
    assert guarantee.unit == unit
    assert "numbers of entities are public" in str(guarantee)
    assert ("stay there" in str(guarantee)) == (protect == "site")
    assert ("user" in model.factors_) == (protect == "user")
    assert model.predict("user-film").shape == (60, 20)


def test_own_factors_never_reach_a_file(tmp_path):
    relation, _ = ratings()
    model = private().fit([relation])
    model.save(tmp_path / "films.tacit")
    loaded = tacit.load(tmp_path / "films.tacit")
    assert set(loaded.factors_) == {"film"}
    assert not loaded.own_factors()
    with pytest.raises(InvalidInputError, match="solve_own"):
        loaded.predict("user-film")
    # the site's own data restore them
    assert np.allclose(loaded.solve_own([relation]).predict("user-film"), model.predict("user-film"))
    assert loaded.guarantee_.epsilon == pytest.approx(model.guarantee_.epsilon)


def split_sites(cells, values, shape, n_sites, factors=("user", "film")):
    ends = np.linspace(0, shape[0], n_sites + 1).astype(int)
    sites = []
    for first, last in itertools.pairwise(ends):
        mine = (cells[:, 0] >= first) & (cells[:, 0] < last)
        local = np.column_stack([cells[mine, 0] - first, cells[mine, 1:]])
        sites.append([relation_of(local, values[mine], (last - first, *shape[1:]), factors)])
    return sites


@pytest.mark.parametrize("unit", ["user", "cell"])
def test_several_sites_learn_what_one_would(unit):
    cells, values, mean = matrix()
    alone = private(epsilon=math.inf, unit=unit).fit([relation_of(cells, values, mean.shape)])
    models = private(epsilon=math.inf, unit=unit).fit_sites(split_sites(cells, values, mean.shape, 3))
    for model in models:
        assert np.allclose(model.biases_["film"], alone.biases_["film"], atol=1e-8)
        # up to the sign of a component
        assert np.allclose(np.abs(model.factors_["film"]), np.abs(alone.factors_["film"]), atol=1e-6)
    together = np.concatenate([model.predict("user-film") for model in models])
    assert np.allclose(together, alone.predict("user-film"), atol=1e-6)


def tensor_of(seed=0, n_users=60):
    draw = np.random.default_rng(seed)
    places, activities = draw.normal(0, 0.3, 10), draw.normal(0, 0.3, 3)
    mean = np.clip(places[:, None] + activities + draw.normal(0, 0.2, n_users)[:, None, None], -0.9, 0.9)
    known = draw.random(mean.shape) < 0.5
    return np.argwhere(known), mean[known], mean


NAMES = ("user", "place", "activity")


@pytest.mark.parametrize("unit", ["user", "cell"])
def test_what_sites_share_is_a_choice(unit):
    cells, values, mean = tensor_of()
    sites = split_sites(cells, values, mean.shape, 2, NAMES)
    all_shared = private(unit=unit, epsilon=50.0, insecure_seed=1).fit_sites(sites)
    assert np.array_equal(all_shared[0].biases_["activity"], all_shared[1].biases_["activity"])
    places_only = private(unit=unit, epsilon=50.0, shared=["place"], insecure_seed=1).fit_sites(sites)
    assert np.array_equal(places_only[0].biases_["place"], places_only[1].biases_["place"])
    assert not np.array_equal(places_only[0].biases_["activity"], places_only[1].biases_["activity"])
    # a site's own rows are solved again without noise, and stay at the site
    own = places_only[0].own_factors()
    assert set(own) == {"factor:user", "bias:user", "factor:activity", "bias:activity"}
    assert not np.allclose(own["bias:activity"], places_only[0].biases_["activity"])


def test_public_relations_cost_nothing_and_help():
    draw = np.random.default_rng(3)
    features = draw.normal(size=(200, 2))
    bias = features @ [0.3, -0.2]
    cells = np.stack([np.repeat(np.arange(400), 5), draw.integers(0, 200, 2000)], axis=1)
    cells = np.unique(cells, axis=0)
    relation = relation_of(cells, np.clip(bias[cells[:, 1]] + draw.normal(0, 0.2, len(cells)), -1, 1), (400, 200))
    public = Relation(features, "jr,fr->jf", ("film", "feature"), divergence="euclid")
    settings = {"epsilon": 1.0, "unit": "cell", "insecure_seed": 4}
    alone, helped = private(**settings).fit([relation]), private(**settings).fit([relation, public])
    assert alone.guarantee_.releases == helped.guarantee_.releases
    assert np.corrcoef(helped.biases_["film"], bias)[0, 1] > np.corrcoef(alone.biases_["film"], bias)[0, 1] + 0.1
    assert "public: film-feature" in " ".join(helped.guarantee_.assumptions)


@pytest.mark.slow
@pytest.mark.parametrize("divergence", ["euclid", "kl"])
def test_gradients_fit_a_tucker_model_with_a_public_relation(divergence):
    draw = np.random.default_rng(0)
    factors = [draw.gamma(2, 0.3, (size, 2)) for size in (40, 8, 3)]
    mean = np.einsum("ir,js,kt,rst->ijk", *factors, draw.gamma(2, 0.4, (2, 2, 2)))
    mean /= mean.max()
    known = {"observed": "all", "divergence": divergence}
    tensor = Relation(mean, "ir,js,kt,rst->ijk", (*NAMES, "core"), **known)
    public = Relation(np.abs(draw.normal(size=(8, 4))), "js,fs->jf", ("place", "feature"), **known)
    model = PrivateCoupledFactorization(
        {"r": 2, "s": 2, "t": 2},
        epsilon=math.inf,
        value_range=(0, 1),
        method="sgld",
        sampling_rate=1.0,
        clip=50.0,
        rounds=400,
    ).fit([tensor, public])
    assert model.factors_["core"].shape == (2, 2, 2)
    assert np.corrcoef(model.predict(tensor.name).ravel(), mean.ravel())[0, 1] > 0.9


def test_a_unit_moves_a_gradient_by_no_more_than_the_clip():
    cells, values, mean = tensor_of()
    problem = problems_of([[relation_of(cells, 50 * values, mean.shape, NAMES)]], {"r": 2}, "user", None)[0]
    listed = UnitCells.of(problem.private[0], problem, -50, 50)
    draw = np.random.default_rng(0)
    factors = {name: draw.normal(size=(problem.sizes[name], 2)) for name in NAMES}
    whole = Cells(listed.relation.spec, NAMES, {"r": 2}, listed.rows, 30 * listed.values, 0.0)
    for user in range(5):
        mine = listed.entity == user
        total = clipped_gradients([(whole.subset(mine), listed.entity[mine])], factors, ["place", "activity"], 60, 0.7)
        assert math.sqrt(sum((array**2).sum() for array in total.values())) == pytest.approx(0.7)
    # without clipping it is the gradient of half the squared error, up to sign
    total = clipped_gradients([(whole, listed.entity)], factors, ["place"], 60, 1e9)["place"]
    step = 1e-5
    for row in (0, 7):
        moved = {**factors, "place": factors["place"].copy()}
        moved["place"][row, 1] += step
        change = [0.5 * (whole.mean_gradient(at) ** 2).sum() for at in (moved, factors)]
        assert total[row, 1] == pytest.approx((change[1] - change[0]) / step, rel=1e-3)


@pytest.mark.slow
def test_gradients_are_accounted_with_their_sampling():
    relation, _ = ratings(n_users=60)
    model = private(method="sgld", rounds=7, sampling_rate=0.3).fit([relation])
    (release,) = model.guarantee_.releases
    assert (release.count, release.sampling_rate) == (7, 0.3)


@pytest.mark.slow
def test_published_noise_says_what_it_costs():
    relation, _ = ratings(n_users=60)
    settings = {"epsilon": 1.0, "delta": 1e-4, "rounds": 20, "sampling_rate": 0.1}
    model = private(method="published", **settings).fit([relation])
    asked = ermis_zcdp_noise_multiplier(1.0, 1e-4, 20, 0.1)
    assert model.guarantee_.releases[0].noise_multiplier == pytest.approx(asked)
    sound = private(method="sgld", **settings).fit([relation])
    assert model.guarantee_.epsilon != pytest.approx(1.0, rel=0.01)
    assert sound.guarantee_.epsilon == pytest.approx(1.0, rel=0.01)
    assert "that of the thesis's formula" in str(model.guarantee_)


@pytest.mark.slow
def test_a_site_in_another_process_can_run_the_program():
    """The program needs its own relations and the agreed sizes, and nothing else of the other sites."""
    cells, values, mean = matrix(n_users=60)
    problems = problems_of(split_sites(cells, values, mean.shape, 2), {"r": 2}, "user", None)
    settings = SgldSettings(3, 0.5, 1.0, 0.05, 0.33, ("film",), False, 0)
    programs = [
        sgld_program(problem, [UnitCells.of(problem.private[0], problem, -1, 1)], problem.ranks, settings)
        for problem in problems
    ]
    plan = Plan.for_budget(1.0, 1e-5, steps=[Step(count=3, sampling_rate=0.5)], unit="user")
    first, second = run_together(programs, Noisy(plan))
    assert np.array_equal(first.public["rows:film"], second.public["rows:film"])


def test_what_noise_would_drown_is_not_asked_for():
    settings = CoupledMomentSettings(5, 4, 250, "film", False, planned_noise=3.0, n_listed=100_000)
    assert set(settings.split) == {"mean", "first", "second", "regressions"}
    blurred = CoupledMomentSettings(5, 4, 250, "film", False, planned_noise=30.0, n_listed=600)
    assert set(blurred.split) == {"mean", "first"}
    drowned = CoupledMomentSettings(5, 4, 250, "film", True, planned_noise=30.0, n_listed=100)
    assert set(drowned.split) == {"mean"}
    for one in (settings, blurred, drowned):
        assert one.split.total == pytest.approx(1.0)
        assert cell_split(one, 2).total == pytest.approx(1.0)


@pytest.mark.parametrize("unit", ["user", "cell"])
@pytest.mark.parametrize("protect", ["site", "user"])
def test_a_hopeless_budget_is_spent_on_the_mean_alone(unit, protect):
    cells, values, mean = matrix(n_users=40)
    relation = relation_of(cells, values, mean.shape)
    model = private(epsilon=0.05, delta=1e-6, unit=unit, protect=protect).fit([relation])
    (release,) = model.guarantee_.releases
    assert release.count == 1
    assert 0.049 < model.guarantee_.epsilon <= 0.05 * (1 + 1e-6)
    assert not any(bias.any() for bias in model.biases_.values())
    found = model.predict("user-film")
    if protect == "user":
        assert np.ptp(found) == 0  # a constant
    else:  # the site's own users are solved in the clear, films are all alike
        assert np.ptp(found, axis=1).max() == 0
        averages = np.bincount(cells[:, 0], weights=values) / np.bincount(cells[:, 0])
        assert np.corrcoef(found[:, 0], averages)[0, 1] > 0.9


def test_strong_noise_falls_back_to_the_middle():
    relation, _ = ratings(n_users=40)
    model = private(epsilon=1e-3, delta=1e-9, protect="user", insecure_seed=2).fit([relation])
    assert model.n_components_ == 0
    # near the middle of the range: never the noise itself
    assert np.abs(model.predict("user-film")).max() < 0.3


def test_shrinking_is_the_best_linear_guess():
    draw = np.random.default_rng(0)
    counts, bias = draw.uniform(5, 100, 4000), draw.normal(0, 0.25, 4000)
    noisy = counts + draw.normal(0, 10, 4000)
    sums = counts * bias + draw.normal(0, np.sqrt(counts * 0.2)) + draw.normal(0, 8, 4000)
    likely, found = shrunk_biases(noisy, sums, count_noise=10.0, sum_noise=8.0, variance=0.0625, value_noise=0.2)
    assert np.mean((likely - counts) ** 2) < np.mean((noisy - counts) ** 2)
    plain = sums / np.maximum(noisy, 1)
    assert np.mean((found - bias) ** 2) < min(np.mean((plain - bias) ** 2), np.var(bias))
    # about the residual variance at the right slope: the estimate is not biased towards zero or away from it
    assert np.polyfit(found, bias, 1)[0] == pytest.approx(1.0, abs=0.1)
    assert likely_counts(counts, 0.0)[1] == pytest.approx(1.0)
    assert likely_counts(draw.normal(9, 100, 4000), 100.0)[1] < 0.1
    assert shrunk_mean(1e6, 1.0, 0.0, 0.05) == 1.0


def test_a_second_fit_is_said_to_cost_and_a_ledger_is_charged(tmp_path):
    relation, _ = ratings(n_users=60)
    model = private(epsilon=1.0).fit([relation])
    with pytest.warns(PrivacyWarning, match="second release"):
        model.fit([relation])
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.open_account("films", epsilon=1.2, delta=1e-5, unit="user")
    charged = private(epsilon=1.0, ledger=ledger, dataset="films").fit([relation])
    with pytest.raises(BudgetError):
        charged.fit([relation])


def test_it_can_be_cloned():
    model = private(shared=["film"], unit="cell", rounds=7)
    assert clone(model).get_params() == model.get_params()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"private": "customer"}, "private to name a factor"),
        ({"private": 3}, "private to name a factor"),
        ({"shared": ["customer"]}, "shared to name factors"),
        ({"value_range": None}, "chosen without looking at the data"),
        ({"value_range": (1, 1)}, "smaller one first"),
        ({"value_range": "15"}, "smaller one first"),
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"delta": 0}, "delta"),
        ({"delta": 1}, "delta"),
        ({"unit": "site"}, "unit"),
        ({"protect": "all"}, "protect"),
        ({"method": "magic"}, "method"),
        ({"method": "published", "epsilon": math.inf}, "epsilon"),
        ({"composition": "best"}, "composition"),
        ({"clip": 0}, "clip"),
        ({"sampling_rate": 2}, "sampling_rate"),
        ({"rounds": 0}, "rounds"),
        ({"adjacency": "near"}, "adjacency"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    relation, _ = ratings(n_users=20)
    with pytest.raises(InvalidInputError, match=message):
        private(**settings).fit([relation])


def test_bad_relations_are_refused():
    relation, mean = ratings(n_users=20)
    public = Relation(np.ones((20, 3)), "jr,fr->jf", ("film", "feature"), divergence="euclid")
    with pytest.raises(InvalidInputError, match="private to name a factor"):
        private().fit([public])
    with pytest.raises(InvalidInputError, match="relations"):
        private().fit([mean])
    with pytest.raises(InvalidInputError, match="at least one site"):
        private().fit_sites([])
    with pytest.raises(InvalidInputError, match="2 private at site 1"):
        private().fit_sites([[relation], [relation, relation_of(*matrix(20)[:2], mean.shape, ("user", "book"))]])
    smaller = relation_of(np.array([[0, 0]]), np.array([0.5]), (20, 19))
    with pytest.raises(InvalidInputError, match="the same size of the shared factor 'film'"):
        private().fit_sites([[relation], [smaller]])
    counts = Relation(np.ones((20, 4)), "ir,jr->ij", ("user", "film"), divergence="kl")
    with pytest.raises(InvalidInputError, match='method "moments"'):
        private(value_range=(0, 5)).fit([counts])
    with pytest.raises(InvalidInputError, match="start at 0"):
        private(method="sgld").fit([counts])
    with pytest.raises(InvalidInputError, match="one of the private relations"):
        private().fit([relation]).predict("film-feature")
    with pytest.raises(InvalidInputError, match="not fitted"):
        private().predict("user-film")


@pytest.mark.parametrize("epsilon", [3.0, math.inf])
def test_intervals_of_values_cover_what_they_say(epsilon):
    data = make_ratings(800, 30, ratings_per_user=12, random_state=2)
    cells = np.stack([data.users, data.items], axis=1)
    known = np.random.default_rng(0).random(len(cells)) < 0.8
    given = {"observed": "stored", "divergence": "euclid", "name": "ratings"}
    relation = Relation((cells[known], data.ratings[known], (800, 30)), "ir,jr->ij", ("user", "film"), **given)
    model = PrivateCoupledFactorization({"r": 2}, epsilon=epsilon, value_range=(1, 5), insecure_seed=1).fit([relation])
    mean, std = model.predict("ratings", cells[~known], return_std=True)
    assert np.array_equal(mean, model.predict("ratings", cells[~known]))
    covered = np.mean(np.abs(data.ratings[~known] - mean) <= 1.645 * std)
    assert 0.8 < covered < 0.99  # of 90%: where noise hides all components, intervals are a little too narrow
    # an entity without cells has its prior; one with many cells is known better
    counts = np.bincount(cells[known, 0], minlength=800)
    few, many = (std[np.isin(cells[~known, 0], np.flatnonzero(mask))].mean() for mask in (counts < 6, counts > 12))
    assert few > many
    whole = model.predict("ratings", return_std=True)[1]
    assert np.allclose(whole[tuple(cells[~known].T)], std)


def test_intervals_need_own_factors(tmp_path):
    data = make_ratings(200, 10, ratings_per_user=5, random_state=2)
    cells = np.stack([data.users, data.items], axis=1)
    given = {"observed": "stored", "divergence": "euclid", "name": "ratings"}
    relation = Relation((cells, data.ratings, (200, 10)), "ir,jr->ij", ("user", "film"), **given)
    model = PrivateCoupledFactorization({"r": 2}, epsilon=3.0, value_range=(1, 5)).fit([relation])
    model.save(tmp_path / "model.tacit")
    again = tacit.load(tmp_path / "model.tacit").solve_own([relation])
    assert np.array_equal(*(one.predict("ratings", cells[:5], return_std=True)[1] for one in (model, again)))
    released = PrivateCoupledFactorization({"r": 2}, protect="user", epsilon=3.0, value_range=(1, 5)).fit([relation])
    with pytest.raises(InvalidInputError, match="return_std"):
        released.predict("ratings", cells[:5], return_std=True)


def test_an_entity_with_all_its_cells_has_the_full_weight():
    """So that no noise is given away in relations with fewer cells per entity than give the full weight elsewhere."""
    for places, expected in ((6, [1.0, np.sqrt(3 / 6)]), (400, [1.0, np.sqrt(3 / 100)])):
        counts = np.array([places, 3])
        relation = SimpleNamespace(shape=(2, places))
        cells = UnitCells(relation, None, np.concatenate([[0], np.cumsum(counts)]), {}, {}, None, 0)
        np.testing.assert_allclose(activity_of(cells), expected)
