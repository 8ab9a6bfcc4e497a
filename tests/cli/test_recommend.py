"""`tacit fit recommend` and `tacit recommend`, as a user runs them."""

import json

import numpy as np
import polars
import pytest
from test_cli import invoke, tacit_command

import tacit
from tacit.cli.read_ratings import read_ratings_file
from tacit.data import make_ratings
from tacit.errors import InvalidInputError
from tacit.privacy import Ledger

RATINGS = make_ratings(1500, 60, ratings_per_user=20, random_state=3)


@pytest.fixture(scope="module")
def frame():
    names = np.array([f"film {number}" for number in range(60)])
    return polars.DataFrame({"user": RATINGS.users, "item": names[RATINGS.items], "rating": RATINGS.ratings})


@pytest.fixture(scope="module")
def fitted(frame, tmp_path_factory):
    folder = tmp_path_factory.mktemp("recommend")
    frame.write_csv(folder / "ratings.csv")
    (folder / "films.txt").write_text("\n".join(f"film {number}" for number in range(60)))
    Ledger(folder / "ledger.db").open_account("films", 9.0, 1e-5, unit="user")
    arguments = ["fit", "recommend", folder / "ratings.csv", "--epsilon", 5, "--factors", 4, "--output", folder / "out"]
    arguments += ["--catalogue", folder / "films.txt"]
    found = tacit_command(*arguments, "--ledger", folder / "ledger.db", "--dataset", "films", "--json")
    assert found.returncode == 0, found.stderr
    return folder, json.loads(found.stdout)


def test_the_fit_measures_itself_and_writes_its_folder(fitted):
    folder, result = fitted
    assert result["guarantee"]["unit"] == "user"
    assert result["guarantee"]["epsilon"] <= 5
    scores = result["scores"]
    assert scores["without privacy"]["rmse"] < scores["private"]["rmse"] < 1.2 * scores["a user's own mean"]["rmse"]
    assert list(result["frontier"]) == ["1.25", "2.5", "5", "10", "20"]
    page = (folder / "out" / "report.html").read_text()
    for heading in ("What privacy costs", "Error by popularity", "Contributions"):
        assert heading in page
    assert json.loads((folder / "out" / "result.json").read_text()) == result


def test_only_the_released_fit_is_charged(fitted):
    folder, _ = fitted
    ledger = Ledger(folder / "ledger.db")
    assert len(ledger.history("films")) == 1
    assert ledger.remaining("films").spent == pytest.approx(5, rel=1e-3)


def test_a_user_of_the_data_is_recommended_what_the_model_says(fitted, frame):
    folder, _ = fitted
    found = json.loads(tacit_command("recommend", folder / "out", "--user", 7, "--top", 5, "--json").stdout)
    own = frame.filter(polars.col("user") == 7)
    model = tacit.load(folder / "out" / "model" / "recommender.tacit")
    expected = model.recommend_for(own["item"], own["rating"], n=5)
    assert [entry["item"] for entry in found] == [item for item, _ in expected]
    assert not {entry["item"] for entry in found} & set(own["item"])


def test_a_stranger_is_recommended_from_own_ratings(fitted, tmp_path):
    folder, _ = fitted
    (tmp_path / "my.csv").write_text("item,rating\nfilm 1,5\nfilm 2,1\n")
    model = folder / "out" / "model" / "recommender.tacit"
    found = invoke("recommend", model, "--ratings", tmp_path / "my.csv", "--top", 3)
    assert found.exit_code == 0, found.exception
    assert found.output.count("film") == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "either --user or --ratings"),
        (["--user", "7", "--ratings", "x.csv"], "either --user or --ratings"),
        (["--user", "99999"], "one without ratings there"),
        (["--ratings", "missing.csv"], "which does not exist"),
    ],
)
def test_bad_requests(fitted, arguments, message):
    folder, _ = fitted
    found = invoke("recommend", folder / "out", *arguments)
    assert isinstance(found.exception, InvalidInputError)
    assert message in str(found.exception)


def test_a_model_alone_knows_no_users(fitted):
    folder, _ = fitted
    found = invoke("recommend", folder / "out" / "model" / "recommender.tacit", "--user", 7)
    assert "does not hold the users" in str(found.exception)


def test_a_rating_or_an_id_of_another_kind_far_down_the_file_is_read(tmp_path):
    """The kind of a column comes from all its lines."""
    path = tmp_path / "ratings.csv"
    lines = [f"{line % 50},{line % 7},{1 + line % 5}" for line in range(3000)]
    path.write_text("\n".join(["user,item,rating", *lines, "anne,x,4.5"]) + "\n")
    found = read_ratings_file(path, "user,item,rating")
    assert found.row(-1) == ("anne", "x", 4.5)


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        ("user,item,stars\n1,2,3\n", [], "--columns"),
        ("user,item,rating\n1,2,9\n1,3,2\n2,2,2\n", ["--held-out", "0.01"], "between 1 and 5"),
        ("", [], "to be a table"),
        ("user,item,rating\n1,2,3\n", ["--columns", "a,b"], "three column names"),
        ("user,item,rating\n1,2,3\n", ["--held-out", "2"], "between 0 and 1"),
    ],
)
def test_bad_files(tmp_path, content, arguments, message):
    (tmp_path / "ratings.csv").write_text(content)
    found = invoke("fit", "recommend", tmp_path / "ratings.csv", *arguments, "--output", tmp_path / "out")
    assert isinstance(found.exception, InvalidInputError)
    assert message in str(found.exception)
    assert not (tmp_path / "out").exists()
