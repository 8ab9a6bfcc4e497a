"""Sites with different private relations: what one holder of everything would learn, who is a unit, and what is refused."""

import math

import numpy as np
import pytest

import tacit
from tacit import Ledger, PrivateCoupledFactorization, Relation
from tacit.errors import InvalidInputError
from tacit.factor.coupled.private.problem import problems_of

KNOWN = {"observed": "stored", "divergence": "euclid"}
SGLD = {"method": "sgld", "sampling_rate": 1.0, "rounds": 30}


def relation(table, known, factors, name=None):
    """Return a relation with some cells of an array; a table with a row per user."""
    einsum = "ir,jr->ij" if table.ndim == 2 else "ir,jr,kr->ijk"
    return Relation((np.argwhere(known), table[known], table.shape), einsum, factors, name=name, **KNOWN)


def private(**settings):
    return PrivateCoupledFactorization(**{"ranks": 2, "epsilon": math.inf, "value_range": (-1, 1), **settings})


def planted(n_users=90, n_films=12, n_weeks=4, seed=0):
    """Users x films x weeks of rank 1 with biases of films and weeks; values lie between -1 and 1."""
    draw = np.random.default_rng(seed)
    taste, kind = draw.choice([-1.0, 1.0], n_users), draw.choice([-0.3, 0.3], n_films)
    films, weeks = draw.normal(0, 0.15, n_films), draw.normal(0, 0.1, n_weeks)
    return np.clip((films + taste[:, None] * kind)[:, :, None] + weeks, -1, 1)


def different(n_users=90, share=0.5, seed=1):
    """Three sites with users of their own: ratings of films, of films by week, and of weeks."""
    mean, draw = planted(n_users), np.random.default_rng(seed)
    parts = np.array_split(np.arange(n_users), 3)
    tables = [mean[parts[0]].mean(axis=2), mean[parts[1]], mean[parts[2]].mean(axis=1)]
    names = [("user", "film"), ("user", "film", "week"), ("user", "week")]
    known = [draw.random(table.shape) < share for table in tables]
    sites = [[relation(table, cells, factors)] for table, cells, factors in zip(tables, known, names, strict=True)]
    return sites, tables, known, names


def as_one_holder(tables, known, names):
    """Return the same relations over one list of all users, as one holder would have them."""
    sizes = [len(table) for table in tables]
    found, first = [], 0
    for table, cells, factors in zip(tables, known, names, strict=True):
        rows = slice(first, first + len(table))
        whole, places = np.zeros((sum(sizes), *table.shape[1:])), np.zeros((sum(sizes), *table.shape[1:]), bool)
        whole[rows], places[rows] = table, cells
        found.append(relation(whole, places, factors))
        first += len(table)
    return found


@pytest.mark.parametrize("unit", ["user", "cell"])
@pytest.mark.parametrize("protect", ["site", "user"])
def test_sites_with_different_relations_learn_what_one_holder_would(unit, protect):
    sites, tables, known, names = different()
    settings = {**SGLD, "unit": unit, "protect": protect}
    models = private(**settings).fit_sites(sites)
    alone = private(**settings).fit(as_one_holder(tables, known, names))
    for model, factors in zip(models, names, strict=True):
        assert set(model.factors_) == {*factors} - ({"user"} if protect == "site" else set())
        for name in set(factors) - {"user"}:
            np.testing.assert_allclose(model.factors_[name], alone.factors_[name], atol=1e-8)
    together = [model.predict("-".join(factors)) for model, factors in zip(models, names, strict=True)]
    first = 0
    for found, factors in zip(together, names, strict=True):
        rows = slice(first, first + len(found))
        np.testing.assert_allclose(found, alone.predict("-".join(factors))[rows], atol=1e-7)
        first += len(found)


@pytest.mark.parametrize(
    ("settings", "n_sites"),
    # gradients have no biases, of which the third site's relation consists
    [({}, 3), ({"unit": "cell"}, 3), ({**SGLD, "rounds": 200, "clip": 20.0}, 2)],
)
def test_the_planted_structure_is_found_by_sites_with_different_relations(settings, n_sites):
    sites, tables, known, names = different(n_users=240)
    models = private(**settings).fit_sites(sites[:n_sites])
    for model, table, cells, factors in zip(models, tables, known, names, strict=False):
        found, hidden = model.predict("-".join(factors)), ~cells
        means = np.where(cells, table, 0).sum(axis=0) / np.maximum(cells.sum(axis=0), 1)
        error = np.sqrt(np.mean((found - table)[hidden] ** 2))
        assert error < 0.6 * np.sqrt(np.mean((means - table)[hidden] ** 2))


def test_a_factor_that_a_site_lacks_helps_those_that_share_it():
    """The first site has few cells of each film; the second, whose relation has weeks too, knows the films better."""
    sites, tables, known, _ = different(n_users=240, share=0.08)
    joint = private().fit_sites(sites[:2])[0].predict("user-film")
    alone = private().fit(sites[0]).predict("user-film")
    errors = [np.sqrt(np.mean((found - tables[0])[~known[0]] ** 2)) for found in (joint, alone)]
    assert errors[0] < 0.95 * errors[1]


def columns(n_users=60, seed=2, share=0.7):
    """Users that all sites have; each site has films of its own."""
    mean = planted(n_users, 18, 1)[:, :, 0]
    known = np.random.default_rng(seed).random(mean.shape) < share
    parts = np.array_split(np.arange(18), [4, 10])
    sites = [[relation(mean[:, part], known[:, part], ("user", "film"))] for part in parts]
    return sites, mean, known, parts


@pytest.mark.parametrize(
    "settings",
    [
        {"unit": "cell", "protect": "user"},
        {"unit": "cell", "protect": "site"},
        {**SGLD, "unit": "cell", "protect": "user"},
        {**SGLD, "unit": "user", "protect": "user", "clip": 1e4},  # one holder clips an entity's whole gradient
    ],
)
def test_sites_with_films_of_their_own_learn_what_one_holder_would(settings):
    sites, mean, known, parts = columns()
    models = private(shared=["user"], **settings).fit_sites(sites)
    alone = private(shared=["user"], **settings).fit([relation(mean, known, ("user", "film"))])
    for model, part in zip(models, parts, strict=True):
        assert len(model.factors_["film"]) == len(part)
        np.testing.assert_allclose(model.factors_["film"], alone.factors_["film"][part], atol=1e-7)
        if settings["protect"] == "user":
            np.testing.assert_allclose(model.predict("user-film"), alone.predict("user-film")[:, part], atol=1e-7)


def test_a_user_without_cells_at_a_site_is_known_from_the_others():
    sites, mean, known, parts = columns(n_users=150)
    known[:40, parts[2]] = False  # the third site knows nothing of forty users
    sites[2] = [relation(mean[:, parts[2]], known[:, parts[2]], ("user", "film"))]
    settings = {**SGLD, "rounds": 300, "unit": "cell", "protect": "user"}
    joint = private(shared=["user"], **settings).fit_sites(sites)[2].predict("user-film")[:40]
    truth = mean[:40][:, parts[2]]
    assert np.corrcoef(joint.ravel(), truth.ravel())[0, 1] > 0.8
    alone = private(**settings).fit(sites[2]).predict("user-film")[:40]
    assert np.mean((joint - truth) ** 2) < 0.5 * np.mean((alone - truth) ** 2)


def mixed(n_users=60):
    """Common users and common films; each site knows some of the cells."""
    mean = planted(n_users, 12, 1)[:, :, 0]
    owner = np.random.default_rng(3).integers(0, 3, mean.shape)
    return [[relation(mean, owner == site, ("user", "film"))] for site in range(3)], mean


@pytest.mark.parametrize("settings", [{}, {**SGLD, "rounds": 200, "clip": 20.0}, {"unit": "cell"}])
def test_common_users_and_films_are_learned_together(settings):
    sites, mean = mixed(n_users=240)
    models = private(shared=["user", "film"], **settings).fit_sites(sites)
    for model in models:
        np.testing.assert_array_equal(model.factors_["film"], models[0].factors_["film"])
        error = np.sqrt(np.mean((model.predict("user-film") - mean) ** 2))
        assert error < 0.7 * np.sqrt(np.mean((mean.mean(axis=0) - mean) ** 2))


def test_how_far_a_common_user_can_move_a_sum_over_all_sites():
    rows = [problems_of(different()[0], 2, "user", None)[0]]
    assert rows[0].repeats() == rows[0].repeats(["film", "week"]) == 1
    own_films = problems_of(columns()[0], 2, "user", ["user"])[0]
    assert own_films.repeats() == 3
    assert own_films.repeats(["film"]) == pytest.approx(math.sqrt(3))
    assert own_films.repeats(["user", "film"]) == 3
    assert problems_of(mixed()[0], 2, "user", ["user", "film"])[0].repeats(["film"]) == 3
    table = np.zeros((5, 4))
    names = [("user", "film"), ("user", "film"), ("user", "book")]
    sites = [[relation(table, table == 0, one)] for one in names]
    # two sites add to films, the third to books: (2^2 + 1)^(1/2)
    found = problems_of(sites, 2, "user", ["user", "film", "book"])[0]
    assert found.repeats(["film", "book"]) == pytest.approx(math.sqrt(5))
    assert found.repeats(["film"]) == 2
    # vectors that attain it
    aligned = np.array([1.0, 0]), np.array([1.0, 0]), np.array([0, 1.0])
    assert np.linalg.norm(sum(aligned)) == pytest.approx(math.sqrt(5))


def test_who_is_a_unit_is_said():
    sites, _ = mixed(n_users=40)
    rows = private(epsilon=2.0).fit_sites(different(n_users=60)[0])[0].guarantee_
    assert "in the lists of 'user' of two sites is two units" in str(rows)
    common = private(epsilon=2.0, shared=["user", "film"]).fit_sites(sites)[0].guarantee_
    assert "a unit is one of the common 'user' entities, with its cells at all sites" in str(common)
    cell = private(epsilon=2.0, unit="cell", shared=["user", "film"]).fit_sites(sites)[0].guarantee_
    assert "a cell that two sites know is two units" in str(cell)
    for one in (rows, common, cell):
        assert one.holds
        assert 1.9 < one.epsilon <= 2.0 * (1 + 1e-6)


def test_a_site_of_several_restores_its_own_factors(tmp_path):
    sites, _, _, names = different()
    models = private(epsilon=20.0, ranks={"r": 2}).fit_sites(sites)
    for place, (model, site) in enumerate(zip(models, sites, strict=True)):
        model.save(tmp_path / f"{place}.tacit")
        loaded = tacit.load(tmp_path / f"{place}.tacit").solve_own(site)
        name = "-".join(names[place])
        np.testing.assert_allclose(loaded.predict(name), model.predict(name))
    mean, std = models[1].predict("user-film-week", return_std=True)
    assert mean.shape == std.shape == (30, 12, 4)
    assert (std > 0).all()


def test_relations_may_have_ranges_of_their_own(tmp_path):
    sites, tables, known, names = different()
    wider = [relation(100 + 50 * tables[1], known[1], names[1])]
    ranges = {"user-film": (-1, 1), "user-film-week": (50, 150), "user-week": (-1, 1)}
    models = private(value_range=ranges).fit_sites([sites[0], wider, sites[2]])
    expected = private().fit_sites(sites)
    np.testing.assert_allclose(models[0].predict("user-film"), expected[0].predict("user-film"), atol=1e-8)
    found, other = (one[1].predict("user-film-week", return_std=True) for one in (models, expected))
    np.testing.assert_allclose(found[0], 100 + 50 * other[0], atol=1e-6)
    np.testing.assert_allclose(found[1], 50 * other[1], atol=1e-6)
    models[1].save(tmp_path / "model.tacit")
    loaded = tacit.load(tmp_path / "model.tacit").solve_own(wider)
    np.testing.assert_allclose(loaded.predict("user-film-week"), found[0])
    ranges.pop("user-week")
    refused(private(epsilon=1.0, value_range=ranges), sites, "a range of the relation 'user-week'", tmp_path)
    refused(private(epsilon=1.0, value_range={"user-film": 3}), sites, "value_range of 'user-film'", tmp_path)


def refused(model, sites, message, tmp_path):
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.open_account(message, epsilon=9.0, delta=1e-5, unit=model.unit)
    with pytest.raises(InvalidInputError, match=message):
        model.set_params(ledger=ledger, dataset=message).fit_sites(sites)
    assert ledger.remaining(message).spent == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"shared": ["film"]}, "site 2, which has none in common with site 0"),
        ({"shared": ["user"]}, "site 1, which has none in common with site 0"),
        ({"shared": ["film", "week", "cinema"]}, "shared to name factors"),
        ({"ranks": {"r": 2, "s": 2}}, "ranks for summed letters only"),
        ({"private": "film"}, r"Of site 2 there is no relation with them"),
    ],
)
def test_sites_that_do_not_fit_together_are_refused_before_anything_is_charged(settings, message, tmp_path):
    refused(private(**{"epsilon": 1.0, **settings}), different(n_users=30)[0], message, tmp_path)


def test_other_sites_that_do_not_fit_are_refused(tmp_path):
    (films, both, weeks), tables, known, _ = different(n_users=30)
    short = [relation(tables[2][:, :3], known[2][:, :3], ("user", "week"))]
    refused(private(epsilon=1.0), [films, both, short], "the same size of the shared factor 'week'", tmp_path)
    refused(private(epsilon=1.0), [films, both + weeks], "2 private at site 1", tmp_path)
    counts = [Relation(np.ones((10, 12)), "ir,jr->ij", ("user", "film"), divergence="kl")]
    refused(private(epsilon=1.0, method="sgld"), [films, counts], '"kl" in all', tmp_path)
    wide = [Relation(np.ones((10, 12)), "is,js->ij", ("user", "film"), divergence="euclid")]
    model = PrivateCoupledFactorization({"r": 2, "s": 3}, epsilon=1.0, value_range=(-1, 1))
    refused(model, [films, wide], "the same letters and ranks of the factor 'user' at all sites", tmp_path)
    common = mixed(n_users=12)[0]
    both_shared = {"epsilon": 1.0, "shared": ["user", "film"]}
    refused(private(protect="user", **both_shared), common, "cannot be added up", tmp_path)
    refused(private(method="sgld", **both_shared), common, "sampling_rate=1", tmp_path)
    tucker = [
        [Relation(np.ones((9, 4)), "ir,js,rs->ij", ("user", "film", "core"), divergence="euclid")] for _ in range(2)
    ]
    model = PrivateCoupledFactorization(2, epsilon=1.0, value_range=(0, 1), method="sgld", shared=["film"])
    refused(model, tucker, "'core', which has no entities, to be shared", tmp_path)


def test_own_rows_of_many_sites_do_not_stand_for_the_factors():
    """All sites' own weeks together outnumber the shared films; only the films have factors."""
    mean, draw = planted(n_users=120), np.random.default_rng(2)
    known = draw.random(mean.shape) < 0.6
    parts = np.array_split(np.arange(len(mean)), 5)  # 20 weeks in all, 12 films
    sites = [[relation(mean[part], known[part], ("user", "film", "week"), name="r")] for part in parts]
    fitted = private(unit="cell", protect="user", shared=["film"]).fit_sites(sites)
    truth = mean[parts[0]]
    error = np.sqrt(np.mean((fitted[0].predict("r") - truth) ** 2))
    assert error < 0.3 * truth.std()  # 0.14; if the ones of the weeks stand for the films' factors, 0.73
