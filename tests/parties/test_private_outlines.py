"""What a party tells the others about private relations does not depend on the data: byte for byte, or it is refused."""

import json

import numpy as np
import pytest
from scipy.sparse import csr_array
from typer.testing import CliRunner

from tacit import Relation, load
from tacit.cli.main import app
from tacit.cli.parties_relations import outlines_of_files, read_site
from tacit.cli.read_coupled import read_description
from tacit.errors import InvalidInputError
from tacit.factor.coupled.cells import AllBut
from tacit.parties import Identity
from tacit.parties.local import local_job
from tacit.parties.models import check_job
from tacit.parties.relations import outlines_of, site_of

CELLS = [("ann", "Alien", 4), ("ann", "Brazil", 2), ("bob", "Alien", 5), ("cleo", "Brazil", 1), ("cleo", "Clue", 3)]
USERS, FILMS = ["ann", "bob", "cleo", "dan"], ["Alien", "Brazil", "Clue", "Dune"]


def outline(path, *words):
    """Run the command; return what it prints and the error that it ends with."""
    command = ["parties", "outline", str(path), "--as", "north", "--shared", "film", *words]
    result = CliRunner().invoke(app, command)
    return result.output, result.exception


def written(folder, cells, *, names=("user", "film")):
    """Write a site: a list of its users' ratings, public genres, and the lists of names that are asked for."""
    folder.mkdir(parents=True)
    (folder / "ratings.csv").write_text("user,film,stars\n" + "".join(f"{u},{f},{s}\n" for u, f, s in cells))
    (folder / "genres.csv").write_text("film,genre,value\n" + "".join(f"{film},odd,1\n" for film in FILMS))
    for factor, listed in {"user": USERS, "film": FILMS}.items():
        (folder / f"{factor}.txt").write_text("\n".join(listed))
    described = "".join(f'{factor} = "{factor}.txt"\n' for factor in names)
    (folder / "site.toml").write_text(
        f"ranks = {{ r = 1 }}\n[names]\n{described}\n"
        '[[relation]]\nname = "ratings"\nfile = "ratings.csv"\neinsum = "ir,jr->ij"\nfactors = ["user", "film"]\n'
        'columns = ["user", "film", "stars"]\nobserved = "stored"\ndivergence = "euclid"\n'
        '[[relation]]\nname = "genres"\nfile = "genres.csv"\neinsum = "jr,gr->jg"\nfactors = ["film", "genre"]\n'
        'columns = ["film", "genre", "value"]\ndivergence = "euclid"\n'
    )
    return folder / "site.toml"


def job_of(told, settings):
    """Return a private job of two sites with the same outline."""
    features = [*told.splitlines(), *told.replace("site=north", "site=south").splitlines()]
    identities = [Identity.create(name) for name in ("north", "south")]
    return local_job(identities, "study", settings, features, model="private-coupled")


NEIGHBOURS = {
    "first user gone": [cell for cell in CELLS if cell[0] != "ann"],
    "only user of a film gone": [cell for cell in CELLS if cell[0] != "cleo"],
    "user added": [*CELLS, ("dan", "Dune", 5)],
    "first film gone": [cell for cell in CELLS if cell[1] != "Alien"],
}


@pytest.mark.parametrize("name", NEIGHBOURS)
def test_outlines_of_neighbouring_lists_are_the_same_bytes(tmp_path, name):
    told, failed = outline(written(tmp_path / "one", CELLS), "--private", "user")
    other, failed_too = outline(written(tmp_path / "two", NEIGHBOURS[name]), "--private", "user")
    assert failed is failed_too is None
    assert other.encode() == told.encode()
    assert "shape=4,4" in told
    # without --private the outline of a fit in the clear says more, and no private job takes it
    exposed, _ = outline(tmp_path / "one" / "site.toml")
    settings = {"ranks": {"r": 1}, "value_range": [1, 5], "private": "user"}
    check_job(job_of(told, settings))
    with pytest.raises(InvalidInputError, match="tacit parties outline --private user"):
        check_job(job_of(exposed, settings))


@pytest.mark.parametrize(("cell", "alone"), [(("ann", "Xanadu", 1), "Xanadu"), (("xena", "Dune", 1), "xena")])
def test_an_entity_that_one_unit_has_alone_is_refused_without_being_named(tmp_path, cell, alone):
    told, failed = outline(written(tmp_path / "site", [*CELLS, cell]), "--private", "user")
    assert isinstance(failed, InvalidInputError)
    assert "to be in its file of names" in str(failed)
    assert alone not in told + str(failed) + repr(failed.__cause__) + repr(failed.__context__)


@pytest.mark.parametrize(("names", "missing"), [(("user",), "film"), (("film",), "user")])
def test_entities_that_only_the_data_says_are_refused(tmp_path, names, missing):
    path = written(tmp_path / "site", CELLS, names=names)
    told, failed = outline(path, "--private", "user")
    assert not told
    assert isinstance(failed, InvalidInputError)
    assert f"the entities of '{missing}' in site.toml as a public list" in str(failed)
    with pytest.raises(InvalidInputError, match=f"the entities of '{missing}'"):
        outlines_of_files([path], ["north"], "user")
    job = job_of(
        "\n".join(outlines_of_files([written(tmp_path / "good", CELLS)], ["north"], "user")), {"ranks": {"r": 1}}
    )
    with pytest.raises(InvalidInputError, match=f"the entities of '{missing}'"):
        read_site(path, job, "north")
    read_site(tmp_path / "good" / "site.toml", job, "north")
    path.write_text(path.read_text() + f"[sizes]\n{missing} = 4\n")  # which says nothing about the order of the ids
    _, failed = outline(path, "--private", "user")
    assert f"[names] for '{missing}'" in str(failed)


def test_arrays_need_the_numbers_of_entities_that_they_have(tmp_path):
    table = np.random.default_rng(0).random((5, 3))
    np.save(tmp_path / "table.npy", table)
    (tmp_path / "user.txt").write_text("\n".join("abcde"))
    described = (
        "ranks = 1\n{sizes}[[relation]]\nfile = 'table.npy'\neinsum = 'ir,jr->ij'\nfactors = ['user', 'film']\n"
        "divergence = 'euclid'\n"
    )
    site = tmp_path / "site.toml"
    for sizes, reason in {
        "": "the entities of 'user' in site.toml as a public list",
        "[sizes]\nuser = 5\n": "the entities of 'film' in site.toml as a public list",
        "[sizes]\nuser = 6\nfilm = 3\n": "6 entities of 'user' in table.npy",
        "[names]\nuser = 'user.txt'\n[sizes]\nuser = 5\n": "[names] for 'user'",
        "[sizes]\nuser = 'many'\n": "[sizes] user to be a whole number",
    }.items():
        site.write_text(described.format(sizes=sizes))
        _, failed = outline(site, "--private", "user")
        assert isinstance(failed, InvalidInputError)
        assert reason in str(failed)
    site.write_text(described.format(sizes="[sizes]\nuser = 5\nfilm = 3\n"))
    told, failed = outline(site, "--private", "user")
    assert failed is None
    table[2] = 0
    np.save(tmp_path / "table.npy", table)
    assert outline(site, "--private", "user") == (told, None)
    _, failed = outline(site, "--private", "place")
    assert "none with 'place'" in str(failed)


def test_which_cells_are_known_is_not_told():
    table, stored = np.random.default_rng(0).random((5, 3)), csr_array(np.eye(5, 3))
    forms = [
        Relation(data, "ir,jr->ij", ("user", "film"), divergence="euclid", observed=observed)
        for data in (table, stored)
        for observed in ("all", table > 0.5, AllBut(slices={0: [1]}))
    ]
    assert len({tuple(outlines_of(one, "north", private="user")) for one in forms}) == 1
    assert len({tuple(outlines_of(one, "north")) for one in forms}) > 1, "a fit in the clear needs to know the gaps"
    models = [site_of(outlines_of(one, "north", private="user"), "north", one) for one in forms]
    assert [model.place for model in models] == [0] * len(forms)


def different_sites(folder, users=(USERS, USERS)):
    """Write two sites with relations of their own, and lists of users that may be the same."""
    stars = {("ann", "Alien"): 4, ("ann", "Brazil"): 2, ("bob", "Alien"): 5, ("dan", "Dune"): 1, ("cleo", "Clue"): 3}
    files = []
    for place, listed in enumerate(users):
        site = folder / f"site-{place}"
        site.mkdir(parents=True)
        (site / "users.txt").write_text("\n".join(listed))
        (site / "films.txt").write_text("\n".join(FILMS))
        (site / "weeks.txt").write_text("1\n2")
        rows = [f"{user},{film},{1 + (value % 2)},{value}" for (user, film), value in stars.items()]
        columns, einsum = ["user", "film", "week", "stars"], "ir,jr,kr->ijk"
        if place == 0:
            rows = [f"{user},{film},{10 * value}" for (user, film), value in stars.items()]
            columns, einsum = ["user", "film", "points"], "ir,jr->ij"
        (site / "cells.csv").write_text("\n".join([",".join(columns), *rows]))
        week = "" if place == 0 else 'week = "weeks.txt"\n'
        (site / "site.toml").write_text(
            f'ranks = {{ r = 1 }}\n[names]\nuser = "users.txt"\nfilm = "films.txt"\n{week}[[relation]]\n'
            f'name = "{columns[-1]}"\nfile = "cells.csv"\neinsum = "{einsum}"\nfactors = {columns[:-1]}\n'
            f'columns = {columns}\nobserved = "stored"\ndivergence = "euclid"\n'
        )
        files.append(site / "site.toml")
    return files


RANGES = {"points": [0, 50], "stars": [1, 5]}


def job_of_sites(files, **settings):
    """Make the outlines with the command, and a job of them."""
    shared = [word for factor in settings.get("shared", ["film"]) for word in ("--shared", factor)]
    names, told = ["north", "south"], []
    for file, name in zip(files, names, strict=True):
        done = CliRunner().invoke(app, ["parties", "outline", str(file), "--as", name, "--private", "user", *shared])
        assert done.exception is None, done.exception
        told += done.output.splitlines()
    given = {"ranks": {"r": 1}, "value_range": RANGES, "private": "user", **settings}
    return local_job([Identity.create(name) for name in names], "study", given, told, model="private-coupled")


def test_sites_with_different_relations_make_a_job(tmp_path):
    files = different_sites(tmp_path / "one")
    for shared in (["film"], ["user", "film"]):
        job = job_of_sites(files, shared=shared)
        check_job(job)
        for file, party in zip(files, ("north", "south"), strict=True):
            assert read_site(file, job, party).records == 5
    # users of their own need no common list; common users do
    other = different_sites(tmp_path / "two", users=(USERS, USERS[::-1]))
    check_job(job_of_sites(other, shared=["film"]))
    with pytest.raises(InvalidInputError, match="the entities of 'user' from south to be those of north"):
        check_job(job_of_sites(other, shared=["user", "film"]))
    with pytest.raises(InvalidInputError, match="south, which has none in common with north"):
        check_job(job_of_sites(files, shared=["user"]))
    check_job(job_of_sites(files, shared=["user"], unit="cell"))  # then the users' noisy factors couple the sites
    with pytest.raises(InvalidInputError, match="sampling_rate=1"):
        check_job(job_of_sites(files, shared=["user", "film"], method="sgld"))
    with pytest.raises(InvalidInputError, match="value_range of 'stars'"):
        check_job(job_of_sites(files, value_range={"points": [0, 50], "stars": [5, 1]}))


@pytest.mark.slow
def test_a_review_with_the_partys_relations_shows_what_joining_would(tmp_path):
    files = different_sites(tmp_path)
    path = job_of_sites(files, shared=["film"]).write(tmp_path / "job.toml")

    def review(*words):
        done = CliRunner().invoke(app, ["parties", "review", str(path), *map(str, words)])
        if done.exception is not None:
            raise done.exception
        return " ".join(done.output.split())

    plain = review()
    assert "Asked for: differential privacy with epsilon 1 and delta 1e-06" in plain
    assert "no differential privacy" not in plain
    shown = review("--as", "north", "--data", files[0])
    assert "You take part as north" in shown
    assert "Planned guarantee: " in shown
    assert " x sum of " in shown
    with pytest.raises(InvalidInputError, match="--as with --data"):
        review("--data", files[0])
    with pytest.raises(InvalidInputError, match="one of the parties north, south"):
        review("--as", "east")


@pytest.mark.slow
def test_sites_with_different_relations_are_simulated_by_one_command(tmp_path):
    files = different_sites(tmp_path / "data")
    given = ["ranks={r=1}", "epsilon=5", "value_range={points=[0, 50], stars=[1, 5]}", 'shared=["user", "film"]']
    words = [
        "parties",
        "simulate",
        *map(str, files),
        "--model",
        "private-coupled",
        "--json",
        "-o",
        str(tmp_path / "out"),
    ]
    done = CliRunner().invoke(app, [*words, *(word for one in given for word in ("--set", one))])
    assert done.exception is None, done.exception
    results = json.loads(done.output)["parties"]
    assert all("with its cells at all sites" in str(result["guarantee"]) for result in results)
    models = [load(tmp_path / "out" / result["party"] / "model" / "private-coupled.tacit") for result in results]
    np.testing.assert_array_equal(models[0].biases_["film"], models[1].biases_["film"])
    assert models[1].solve_own(read_description(files[1]).relations).predict("stars").shape == (4, 4, 2)
