"""`tacit fit coupled`, as a user runs it."""

import json
import re

import numpy as np
import polars
import pytest
from scipy import sparse
from test_cli import invoke, tacit_command

import tacit
from tacit.data import make_coupled, make_ratings
from tacit.errors import InvalidInputError
from tacit.privacy import Ledger

DATA = make_coupled(mean_count=1.0, random_state=4)
SPEC = """
ranks = { r = 3 }
held_out = 0.2

[model]
max_iter = 60

[names]
activity = "activities.txt"

[[relation]]
name = "visits"
file = "visits.csv"
columns = ["who", "where", "what", "times"]
einsum = "ir,jr,kr->ijk"
factors = ["user", "place", "activity"]

[[relation]]
name = "about"
file = "about.csv"
columns = ["where", "feature", "amount"]
einsum = "jr,fr->jf"
factors = ["place", "feature"]
dispersion = 2.0
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("coupled")
    activities = [f"activity {letter}" for letter in "abcdef"]
    cells, counts = DATA.coordinates()
    polars.DataFrame(
        {
            "times": counts,
            "who": cells[:, 0],
            "where": [f"place {place}" for place in cells[:, 1]],
            "what": [activities[activity] for activity in cells[:, 2]],
        }
    ).write_csv(folder / "visits.csv")
    where, feature = np.nonzero(DATA.features)
    polars.DataFrame(
        {
            "where": [f"place {place}" for place in where],
            "feature": [f"feature {number}" for number in feature],
            "amount": DATA.features[where, feature],
        }
    ).write_csv(folder / "about.csv")
    (folder / "activities.txt").write_text("\n".join(activities))
    (folder / "spec.toml").write_text(SPEC)
    return folder


@pytest.mark.slow
def test_the_fit_reads_measures_and_writes_its_folder(folder):
    found = tacit_command("fit", "coupled", folder / "spec.toml", "--output", folder / "out", "--json")
    assert found.returncode == 0, found.stderr
    result = json.loads(found.stdout)
    assert json.loads((folder / "out" / "result.json").read_text()) == result
    assert result["guarantee"]["kind"] == "none" or result["guarantee"].get("epsilon") in (None, float("inf"))
    scores = result["held_out"]["visits"]
    assert scores["coupled"]["auc"] > 0.6
    assert set(scores) == {"coupled", "alone", "constant"}
    assert set(result["top"]) == {"user", "place", "activity", "feature"}
    assert all(name.startswith("activity ") for top in result["top"]["activity"] for name in top)
    model = tacit.load(folder / "out" / "model" / "coupled.tacit")
    assert model.factors_["user"].shape == (len(np.unique(DATA.coordinates()[0][:, 0])), 3)
    page = (folder / "out" / "report.html").read_text()
    for heading in ("Relations", "Held-out cells", "Loss", "Factors", "Top of activity"):
        assert heading in page
    assert "place 1" in page


@pytest.mark.slow
def test_matrices_and_arrays_are_read_by_place(folder):
    np.save(folder / "visits.npy", DATA.tensor)
    sparse.save_npz(folder / "about.npz", sparse.csr_matrix(DATA.features.astype(float)))
    spec = """
ranks = 3
held_out = 0
model = { inference = "vb", max_iter = 20 }
[[relation]]
file = "visits.npy"
einsum = "ir,jr,kr->ijk"
factors = ["user", "place", "activity"]
[[relation]]
file = "about.npz"
einsum = "jr,fr->jf"
factors = ["place", "feature"]
"""
    (folder / "places.toml").write_text(spec)
    assert invoke("fit", "coupled", folder / "places.toml", "--output", folder / "two").exit_code == 0
    model = tacit.load(folder / "two" / "model" / "coupled.tacit")
    assert model.predict("user-place-activity").shape == DATA.tensor.shape
    assert json.loads((folder / "two" / "result.json").read_text())["held_out"] == {}


@pytest.mark.parametrize(
    ("change", "points_at"),
    [
        (("ranks = { r = 3 }", ""), "ranks in"),
        (("ranks = { r = 3 }", "ranks = { q = 3 }"), "No relation sums over 'q'"),
        (('file = "visits.csv"', 'file = "visit.csv"'), "which does not exist"),
        (("dispersion = 2.0", "dispersal = 2.0"), "dispersal"),
        (("max_iter = 60", "most = 60"), "most"),
        (('"times"]', '"time"]'), "4 columns|3 columns of ids"),
        (('einsum = "jr,fr->jf"', 'einsum = "jr,fr->jg"'), "'g' in no factor|factor for every axis"),
        (('activity = "activities.txt"', 'place = "activities.txt"'), "every id of 'place' to be in its file of names"),
        (("held_out = 0.2", "held_out = 2.0"), "hold out between 0 and 1"),
        (("[model]", "[model"), "a TOML file"),
    ],
)
def test_a_wrong_description_is_pointed_at(folder, change, points_at):
    assert change[0] in SPEC
    (folder / "wrong.toml").write_text(SPEC.replace(*change, 1))
    found = invoke("fit", "coupled", folder / "wrong.toml", "--output", folder / "never").exception
    assert isinstance(found, InvalidInputError)
    assert re.search(points_at, str(found))
    assert not (folder / "never").exists()


@pytest.mark.parametrize(
    ("row", "points_at"),
    [
        ("two,1,place 3,activity b", "numbers in the column 'times' of bad.csv"),
        (",1,place 3,activity b", "NaN or infinity"),
        ("-2,1,place 3,activity b", "no negative numbers in 'visits'"),
        ("again", "every cell once"),
    ],
)
def test_bad_rows_are_pointed_at(folder, row, points_at):
    lines = (folder / "visits.csv").read_text().splitlines()
    kept = [line for line in lines if not line.endswith(",1,place 3,activity b")]
    (folder / "bad.csv").write_text("\n".join([*kept, kept[1] if row == "again" else row]))
    (folder / "bad.toml").write_text(SPEC.replace("visits.csv", "bad.csv"))
    found = invoke("fit", "coupled", folder / "bad.toml", "--output", folder / "never").exception
    assert isinstance(found, InvalidInputError)
    assert points_at in str(found)


@pytest.mark.slow
def test_a_column_is_what_all_its_rows_are(folder):
    """Hundreds of whole numbers first, then an id with letters and a value with a fraction."""
    lines = (folder / "visits.csv").read_text().splitlines()
    assert len(lines) > 500
    (folder / "late.csv").write_text("\n".join([*lines, "2.5,someone new,place 3,activity b"]))
    (folder / "late.toml").write_text(SPEC.replace("visits.csv", "late.csv").replace("held_out = 0.2", "held_out = 0"))
    assert invoke("fit", "coupled", folder / "late.toml", "--output", folder / "late").exit_code == 0
    users = len(np.unique(DATA.coordinates()[0][:, 0]))
    assert tacit.load(folder / "late" / "model" / "coupled.tacit").factors_["user"].shape == (users + 1, 3)


def test_ids_in_one_file_and_places_in_another_need_names(folder):
    np.save(folder / "about.npy", DATA.features)
    spec = SPEC.replace('file = "about.csv"\ncolumns = ["where", "feature", "amount"]', 'file = "about.npy"')
    (folder / "mixed.toml").write_text(spec)
    found = invoke("fit", "coupled", folder / "mixed.toml", "--output", folder / "never").exception
    assert isinstance(found, InvalidInputError)
    assert "the names of 'place'" in str(found)


RATED = make_ratings(300, 20, ratings_per_user=10, random_state=1)
PRIVATE_SPEC = """
ranks = { r = 2 }
held_out = 0.2

[names]
user = "users.txt"
film = "films.txt"

[private]
value_range = [1, 5]

[[relation]]
name = "ratings"
file = "ratings.csv"
columns = ["user", "film", "stars"]
einsum = "ir,jr->ij"
factors = ["user", "film"]
observed = "stored"
divergence = "euclid"
"""


@pytest.fixture(scope="module")
def rated(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rated")
    polars.DataFrame({"user": RATED.users, "film": RATED.items, "stars": RATED.ratings}).write_csv(
        folder / "ratings.csv"
    )
    for name, size in (("users", 300), ("films", 20)):
        (folder / f"{name}.txt").write_text("\n".join(map(str, range(size))))
    (folder / "spec.toml").write_text(PRIVATE_SPEC)
    return folder


@pytest.mark.slow
def test_a_private_fit_is_charged_measured_and_saved_without_users(rated):
    ledger = Ledger(rated / "ledger.db", create=True)
    ledger.open_account("ratings", 20.0, 1e-6, unit="user")
    out = rated / "private"
    spending = ("--ledger", rated / "ledger.db", "--dataset", "ratings")
    found = invoke("fit", "coupled", rated / "spec.toml", "--epsilon", 10, "--frontier", *spending, "--output", out)
    assert found.exit_code == 0, found.exception
    result = json.loads((out / "result.json").read_text())
    assert result["guarantee"]["unit"] == "user"
    assert result["guarantee"]["epsilon"] <= 10
    (charge,) = ledger.history("ratings")
    assert charge.epsilon_after == pytest.approx(result["guarantee"]["epsilon"])
    scores = result["held_out"]["ratings"]
    # noise and split are fresh in every run; noise of a wrong size makes the error several times as large
    assert scores["private"]["rmse"] < 1.15 * scores["the same method without noise"]["rmse"]
    assert set(scores) > {"private", "without privacy", "constant", "an entity's own mean"}
    assert {"0.3", "20", "a constant"} <= set(result["frontier_on_synthetic_cells"])
    model = tacit.load(out / "model" / "coupled.tacit")
    assert sorted(model.factors_) == ["film"]
    assert "On synthetic cells" in (out / "report.html").read_text()


@pytest.mark.parametrize(
    ("change", "options", "points_at"),
    [
        (("value_range = [1, 5]", ""), (), "--value-range"),
        (("value_range = [1, 5]", "value_range = [5, 1]"), (), "--value-range"),
        (("value_range = [1, 5]", "held_out = 3"), (), "held_out"),
        (('user = "users.txt"', ""), (), "entities of 'user'"),
        (('observed = "stored"', ""), (), "stored"),
        (('divergence = "euclid"', ""), (), "one private relation per site"),
        (("", ""), ("--private", "person"), "none with 'person'"),
        (("", ""), ("--unit", "house"), "unit"),
        (("", ""), ("--value-range", "1-5"), "--value-range LOW:HIGH"),
        (("held_out = 0.2", "held_out = 0"), (), "held_out"),
    ],
)
def test_a_private_fit_that_is_refused_charges_nothing(rated, tmp_path, change, options, points_at):
    ledger = Ledger(tmp_path / "ledger.db", create=True)
    ledger.open_account("ratings", 2.0, 1e-4, unit="user")
    assert change[0] in PRIVATE_SPEC
    (rated / "wrong.toml").write_text(PRIVATE_SPEC.replace(*change, 1))
    spending = ("--epsilon", 1, "--ledger", tmp_path / "ledger.db", "--dataset", "ratings")
    found = invoke(
        "fit", "coupled", rated / "wrong.toml", *spending, *options, "--output", tmp_path / "never"
    ).exception
    assert isinstance(found, InvalidInputError)
    assert points_at in str(found)
    assert ledger.history("ratings") == []
    assert not (tmp_path / "never").exists()


def test_options_of_the_private_fit_need_an_epsilon(rated, tmp_path):
    for options in (("--value-range", "1:5"), ("--frontier",)):
        found = invoke("fit", "coupled", rated / "spec.toml", *options, "--output", tmp_path / "never").exception
        assert "--epsilon" in str(found)
    found = invoke("fit", "coupled", rated / "spec.toml", "--epsilon", 1, "--ledger", tmp_path / "none.db")
    assert "--dataset" in str(found.exception)
