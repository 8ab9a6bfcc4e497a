"""Coupled relations among parties as processes: each site has its own, and all get what one holder of everything would."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone

from tacit import CoupledFactorization, PrivateCoupledFactorization, Relation, load
from tacit.data import make_coupled, make_ratings
from tacit.errors import InvalidInputError, ProtocolError
from tacit.factor.coupled.outlines import Outline
from tacit.parties import run_local
from tacit.parties.relations import check_sites, outlines_of, site_of

DATA = make_coupled()
CP = "ir,jr,kr->ijk"
NAMES = ["north", "south", "maps"]


def sites(divergence="kl"):
    """Two sites with users of their own, places and activities in common; a third that knows features of the places."""
    known = np.random.default_rng(1).random(DATA.tensor.shape) < 0.6
    known[:, :, 5] = False  # nobody knows anything of one activity
    known[:15, 7] = False  # and one site nothing of one place
    parts = np.array_split(np.arange(40), [15])
    visits = [
        Relation(
            DATA.tensor[part],
            CP,
            (f"user {site}", "place", "activity"),
            observed=known[part],
            divergence=divergence,
            name="visits",
        )
        for site, part in enumerate(parts)
    ]
    about = Relation(DATA.features, "jr,fr->jf", ("place", "feature"), divergence=divergence, name="about")
    return [visits[:1], visits[1:], about]


def alone(parts, **settings):
    """Fit what all have, as one holder."""
    everything = [relation for part in parts for relation in ([part] if isinstance(part, Relation) else part)]
    renamed = []
    for place, relation in enumerate(everything):
        relation.name, name = f"{relation.name} {place}", relation.name
        renamed.append((relation, name))
    model = CoupledFactorization(3, **settings).fit(everything)
    for relation, name in renamed:
        relation.name = name
    return model


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*no known cell")
@pytest.mark.parametrize(
    ("inference", "divergence", "more"),
    [
        ("map", "kl", {"n_init": 2}),
        ("map", "euclid", {}),
        ("vb", "kl", {}),
        ("sgld", "kl", {"burn_in": 5, "n_samples": 4, "thin": 2, "sampling_rate": 0.5}),
        ("sgld", "euclid", {"burn_in": 5, "n_samples": 4, "thin": 2}),
    ],
)
def test_sites_get_what_one_holder_would_from_a_random_start(inference, divergence, more):
    # one holder would estimate dispersions, and average over several starts
    settings = {"inference": inference, "max_iter": 15, "tol": 0, "dispersion": "given", "n_init": 1, **more}
    parts = sites(divergence)
    models = run_local(CoupledFactorization(3, **settings), parts, names=NAMES)
    whole = alone(parts, **settings)
    for model in models:
        assert set(model.factors_) >= {"place", "activity"}
        for name, factor in model.factors_.items():
            assert np.linalg.norm(factor - whole.factors_[name]) < 1e-8 * np.linalg.norm(whole.factors_[name])
        np.testing.assert_allclose(model.loss_curve_, whole.loss_curve_, rtol=1e-8)
        if inference == "sgld" and "visits" in model.relations_:
            assert (model.predict("visits", [[0, 0, 0], [1, 2, 3]], return_std=True)[1] > 0).all()
    assert "user 1" not in models[0].factors_
    assert "masked" in str(models[0].guarantee_)
    assert "'activity' of north and south" in str(models[0].guarantee_)  # the third adds nothing to these totals


def ratings(sizes=(40, 100, 160)):
    data = make_ratings(sum(sizes), 30, ratings_per_user=12, random_state=1)
    found, first = [], 0
    features = np.random.default_rng(0).random((30, 3))
    for size in sizes:
        mine = (data.users >= first) & (data.users < first + size)
        cells = np.stack([data.users[mine] - first, data.items[mine]], axis=1)
        options = {"observed": "stored", "divergence": "euclid", "name": "ratings"}
        found.append(
            [
                Relation((cells, data.ratings[mine], (size, 30)), "ir,jr->ij", ("user", "film"), **options),
                Relation(features, "jr,fr->jf", ("film", "feature"), divergence="euclid", name="films"),
            ]
        )
        first += size
    return found


@pytest.mark.slow
def test_private_sites_release_the_same_with_noise_in_the_sum():
    settings = {"ranks": {"r": 2}, "value_range": (1, 5), "delta": 1e-6, "epsilon": 4.0}
    models = run_local(PrivateCoupledFactorization(**settings), ratings(), colluding=2)
    for model in models:
        np.testing.assert_array_equal(model.biases_["film"], models[0].biases_["film"])
        assert model.guarantee_.holds
        assert model.guarantee_.epsilon <= 4.0
        assert "Nobody is trusted" in model.guarantee_.trust
        assert "2 of the 3 parties" in model.guarantee_.trust
    # a site's own users stay there
    assert [len(model.own_factors()["bias:user"]) for model in models] == [40, 100, 160]
    exact = PrivateCoupledFactorization(**{**settings, "epsilon": np.inf}).fit_sites(ratings())
    assert not np.allclose(models[0].biases_["film"], exact[0].biases_["film"])


@pytest.mark.slow
@pytest.mark.parametrize("more", [{}, {"protect": "user"}])
def test_without_noise_private_sites_get_what_one_process_would(more):
    settings = {"ranks": {"r": 2}, "value_range": (1, 5), "epsilon": np.inf, **more}
    models = run_local(PrivateCoupledFactorization(**settings), ratings())
    expected = PrivateCoupledFactorization(**settings).fit_sites(ratings())
    for model, other in zip(models, expected, strict=True):
        np.testing.assert_allclose(model.predict("ratings"), other.predict("ratings"), atol=1e-8)


def test_what_the_others_are_told_survives_its_line_and_has_no_data():
    for relation in (*sites()[0], sites()[2], *ratings()[0]):
        told = Outline.of(relation, "north", entities={"place": "ab12"}, is_public=relation.name == "films")
        assert Outline.parse(told.text) == told
        stand_in = told.stand_in()
        assert (stand_in.shape, stand_in.spec, stand_in.power) == (relation.shape, relation.spec, relation.power)
        assert Outline.of(stand_in, "north").gaps == told.gaps
    private = Outline.of(ratings()[0][0], "north", private="user")
    assert Outline.parse(private.text) == private
    assert private.stand_in().shape == private.shape
    with pytest.raises(InvalidInputError, match="outline"):
        Outline.parse("site=north; name=visits")


def lines(parts=None, **options):
    return [
        line for part, name in zip(parts or sites(), NAMES, strict=True) for line in outlines_of(part, name, **options)
    ]


def test_relations_that_do_not_fit_together_are_refused_by_name():
    north, south, about = sites()
    check_sites(lines(), NAMES, None)
    with pytest.raises(InvalidInputError, match="relations of north, south, maps, in this order"):
        check_sites(lines()[::-1], NAMES, None)
    small = Relation(DATA.features[:20], "jr,fr->jf", ("place", "feature"), name="about")
    with pytest.raises(InvalidInputError, match="the same number of entities of 'place' from maps as from north"):
        run_local(CoupledFactorization(3), [north, south, small], names=NAMES)
    with pytest.raises(InvalidInputError, match="relations from south"):
        run_local(CoupledFactorization(3), [north, DATA.features, about], names=NAMES)
    places = [f"place {place}" for place in range(30)]
    told = outlines_of(north, "north", names={"place": places}) + outlines_of(
        south, "south", names={"place": places[::-1]}
    )
    with pytest.raises(InvalidInputError, match="the entities of 'place' from south to be those of north"):
        check_sites(told, NAMES[:2], None)


def test_data_that_the_others_were_not_told_of_is_refused():
    north, south, about = sites()
    with pytest.raises(InvalidInputError, match=r"shape.*from maps"):
        site_of(lines(), "maps", Relation(DATA.features[:20], "jr,fr->jf", ("place", "feature"), name="about"))
    with pytest.raises(InvalidInputError, match="1 relations from north"):
        site_of(lines(), "north", [*north, about])
    places = [f"place {place}" for place in range(30)]
    told = lines(names={"place": places})
    site_of(told, "maps", about, {"place": places})
    with pytest.raises(InvalidInputError, match="the entities of 'place' from maps"):
        site_of(told, "maps", about, {"place": [*places[1:], places[0]]})
    with pytest.raises(ProtocolError, match=r"within tacit\.parties"):
        CoupledFactorization(3, max_iter=2).fit(site_of(lines(), "south", south))
    mixed = lines([north, south, sites("euclid")[2]])
    with pytest.raises(InvalidInputError, match=r'"kl" in all relations, or "euclid" in all'):  # before the first sum
        CoupledFactorization(3, inference="sgld").fit(site_of(mixed, "south", south))


def test_private_relations_must_fit_together_and_public_data_be_the_same_everywhere():
    parts, model = ratings(), PrivateCoupledFactorization(2, value_range=(1, 5))
    check_sites(lines(parts, private="user"), NAMES, "user", model)
    with pytest.raises(
        InvalidInputError, match=r"'ratings' from north .* protects user.*tacit parties outline --private"
    ):
        check_sites(lines(parts), NAMES, "user")
    with pytest.raises(InvalidInputError, match=r"'ratings' from north .* protects nobody.* without --private"):
        check_sites(lines(parts, private="user"), NAMES, None)
    unsigned = [replace(Outline.parse(line), content="").text for line in lines(parts, private="user")]
    with pytest.raises(InvalidInputError, match="not described as public"):
        check_sites(unsigned, NAMES, "user")
    other = Relation(np.ones((30, 3)), "jr,fr->jf", ("film", "feature"), divergence="euclid", name="films")
    with pytest.raises(InvalidInputError, match=r"the same public relations .* from south as from north"):
        check_sites(lines([parts[0], [parts[1][0], other], parts[2]], private="user"), NAMES, "user")
    odd = [Outline.parse(line) for line in lines(parts, private="user")]
    told = [replace(one, power=1.0) if one.site == "maps" and one.name == "ratings" else one for one in odd]
    for method, reason in {
        "moments": "1 private at maps, the first ir,jr->ij with power 1",
        "sgld": '"kl" in all',
    }.items():
        with pytest.raises(InvalidInputError, match=reason):
            check_sites([one.text for one in told], NAMES, "user", model.set_params(method=method))
    only_public = [one.text for one in odd if one.site != "maps" or one.name == "films"]
    with pytest.raises(InvalidInputError, match="a relation with 'user' from maps"):
        check_sites(only_public, NAMES, "user", model)
    with pytest.raises(InvalidInputError, match="names without"):
        outlines_of(other, "a;b")


def different(n_users=60):
    """Three parties with relations of their own: ratings of films, of films by week, and of weeks."""
    draw = np.random.default_rng(0)
    shapes = {
        ("user", "film"): (n_users, 12),
        ("user", "film", "week"): (n_users, 12, 3),
        ("user", "week"): (n_users, 3),
    }
    found = []
    for factors, shape in shapes.items():
        einsum = "ir,jr->ij" if len(shape) == 2 else CP
        cells = np.argwhere(draw.random(shape) < 0.5)
        data = (cells, draw.uniform(1, 5, len(cells)), shape)
        found.append([Relation(data, einsum, factors, observed="stored", divergence="euclid", name="stars")])
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("parts", "settings"),
    [
        (different, {}),
        (different, {"method": "sgld", "rounds": 10, "sampling_rate": 1.0, "hyper_prior": (1, 0.01)}),
        (different, {"shared": ["user", "film", "week"]}),
        (different, {"shared": ["user", "film", "week"], "unit": "cell", "protect": "user"}),
    ],
)
def test_private_parties_with_different_relations_get_what_one_process_would(parts, settings):
    model = PrivateCoupledFactorization(2, value_range=(1, 5), epsilon=np.inf, **settings)
    models, expected = run_local(model, parts()), clone(model).fit_sites(parts())
    for one, other in zip(models, expected, strict=True):
        np.testing.assert_allclose(one.predict("stars"), other.predict("stars"), atol=1e-8)
        if not settings:
            spread = [each.predict("stars", return_std=True)[1] for each in (one, other)]
            np.testing.assert_allclose(*spread, atol=1e-8)


@pytest.mark.slow
def test_common_users_of_private_parties_are_protected_with_all_their_cells():
    model = PrivateCoupledFactorization(2, value_range=(1, 5), shared=["user", "film", "week"], epsilon=8.0)
    models = run_local(model, different(400), colluding=1)
    np.testing.assert_array_equal(models[0].biases_["film"], models[1].biases_["film"])
    np.testing.assert_array_equal(models[1].biases_["week"], models[2].biases_["week"])
    for one in models:
        assert one.guarantee_.holds
        assert one.guarantee_.epsilon <= 8.0
        assert "with its cells at all sites" in str(one.guarantee_)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*no known cell")
def test_a_description_a_party_is_fitted_from_the_command_line(tmp_path):
    places = [f"place {place}" for place in range(30)]
    for name, part in zip(("a", "b"), (DATA.tensor[:15], DATA.tensor[15:]), strict=True):
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / "visits.npy", part)
        (tmp_path / name / "places.txt").write_text("\n".join(places))
        (tmp_path / name / "site.toml").write_text(
            f'ranks = 3\n[names]\nplace = "places.txt"\n[[relation]]\nname = "visits"\nfile = "visits.npy"\n'
            f'einsum = "{CP}"\nfactors = ["user {name}", "place", "activity"]\n'
        )
    code = "from tacit.cli.main import main; main()"
    words = [*("parties", "simulate", tmp_path / "a" / "site.toml", tmp_path / "b" / "site.toml", "--model", "coupled")]
    command = [sys.executable, "-c", code, *words, "--set", "ranks=3", "--set", "max_iter=5", "-o", tmp_path / "out"]
    done = subprocess.run([*map(str, command), "--json"], capture_output=True, text=True, check=True, timeout=300)
    results = json.loads(done.stdout)["parties"]
    assert [result["records"] for result in results] == [15 * 180, 25 * 180]
    models = [load(tmp_path / "out" / result["party"] / "model" / "coupled.tacit") for result in results]
    np.testing.assert_array_equal(models[0].factors_["place"], models[1].factors_["place"])
    assert models[1].predict("visits").shape == (25, 30, 6)
    (tmp_path / "b" / "places.txt").write_text("\n".join(places[::-1]))
    done = subprocess.run([*map(str, command), "--json"], capture_output=True, text=True, check=False, timeout=300)
    assert "the entities of 'place' from party-2 to be those of party-1" in json.loads(done.stdout)["error"]["message"]
