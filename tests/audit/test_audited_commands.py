"""An audit of a command attacks the fit of that very command: every option is followed, or refused."""

import re

import numpy as np
import polars
import pytest
from typer.testing import CliRunner

from tacit.cli.audited import audited_command
from tacit.cli.main import app
from tacit.data import make_ratings
from tacit.errors import InvalidInputError


@pytest.fixture
def rows(tmp_path):
    values = np.random.default_rng(0).random((30, 4))
    frame = polars.DataFrame({name: values[:, place] for place, name in enumerate("abcd")})
    frame = frame.with_columns(text=polars.Series([f"moon star {place % 3}" for place in range(30)]))
    frame.write_csv(tmp_path / "rows.csv")
    (tmp_path / "words").write_text("moon\nstar\ncomet\nthe\n")
    return tmp_path / "rows.csv"


@pytest.mark.slow
def test_the_page_of_an_audit_says_what_was_audited(rows, tmp_path):
    command = ["fit", "nmf", str(rows), "--rank", "2", "--epsilon", "1", "--drop", "text"]
    options = ["--made-up", "--only", "replay", "--no-bugs", "--output", str(tmp_path / "out")]
    assert CliRunner().invoke(app, ["audit", *options, *command]).exit_code == 0
    page = (tmp_path / "out" / "report.html").read_text()
    assert "<dt>data</dt><dd>rows.csv</dd>" in page
    assert re.search(r"<dt>settings</dt><dd>[^<]*components 2", page)


def test_columns_that_the_command_leaves_out_are_not_audited(rows):
    command = ["fit", "nmf", str(rows), "--rank", "2", "--epsilon", "1", "--drop", "a,text"]
    assert audited_command(command).data.shape == (30, 3)
    command = ["fit", "pca", str(rows), "--rank", "2", "--epsilon", "1", "--columns", "a,b", "--row-norm", "1"]
    assert audited_command(command).data.shape == (30, 2)
    command = ["fit", "pcr", str(rows), "--rank", "1", "--epsilon", "1", "--label", "d", "--drop", "a,text"]
    X, y = audited_command([*command, "--label-range", "0:1", "--row-norm", "1"]).data
    assert X.shape == (30, 2)
    assert y.shape == (30,)


def test_texts_of_a_column_are_audited_by_the_words_of_the_fit(rows):
    command = ["fit", "nmf", str(rows), "--rank", "2", "--epsilon", "1", "--text-column", "text"]
    X = audited_command([*command, "--vocabulary", str(rows.with_name("words"))]).data
    assert X.shape == (30, 3)
    np.testing.assert_allclose(X.toarray()[0], [np.sqrt(0.5), np.sqrt(0.5), 0])


def test_features_of_items_are_those_of_the_fit(tmp_path):
    made = make_ratings(40, 6, ratings_per_user=4, random_state=0)
    frame = polars.DataFrame({"user": made.users, "item": made.items, "rating": made.ratings})
    frame.write_csv(tmp_path / "ratings.csv")
    polars.DataFrame({"item": range(6), "kind": ["x", "y"] * 3}).write_csv(tmp_path / "items.csv")
    command = ["fit", "recommend", str(tmp_path / "ratings.csv"), "--catalogue", str(tmp_path / "items.csv")]
    assert audited_command([*command, "--epsilon", "1"]).estimator.features is None
    assert audited_command([*command, "--epsilon", "1", "--features", "kind"]).estimator.features.shape[0] == 6
    with pytest.raises(InvalidInputError, match="--titles"):  # the fit of ratings refuses it
        audited_command([*command, "--epsilon", "1", "--titles", "name"])


def test_titles_of_items_are_those_of_the_fit(tmp_path):
    made = make_ratings(40, 6, ratings_per_user=4, random_state=0)
    polars.DataFrame({"user": made.users, "item": made.items}).write_csv(tmp_path / "clicks.csv")
    names = ["Alien", "Aliens", "Casablanca", "Alien again", "Metropolis", "Metropolis restored"]
    polars.DataFrame({"item": range(6), "kind": ["x", "y"] * 3, "name": names}).write_csv(tmp_path / "items.csv")
    command = ["fit", "recommend", str(tmp_path / "clicks.csv"), "--catalogue", str(tmp_path / "items.csv")]
    command += ["--implicit", "--epsilon", "1"]
    np.testing.assert_array_equal(
        audited_command([*command, "--titles", "name"]).estimator.features.T, [[1, 0, 0, 1, 0, 0], [0, 0, 0, 0, 1, 1]]
    )
    assert audited_command([*command, "--titles", "name", "--features", "kind"]).estimator.features.shape == (6, 4)


def test_a_table_without_a_column_is_audited_without_it(tmp_path):
    polars.DataFrame({"age": range(20, 40), "id": range(20)}).write_csv(tmp_path / "people.csv")
    (tmp_path / "schema.toml").write_text(
        'version = 1\npublic = true\n[columns."age"]\nkind = "integer"\nlow = 0\nhigh = 100\n'
    )
    command = ["perturb", str(tmp_path / "people.csv"), "--method", "private-table", "--epsilon", "1"]
    command += ["--schema", str(tmp_path / "schema.toml"), "--drop", "id"]
    assert list(audited_command(command).estimator.schema.columns) == ["age"]


def test_coupled_relations_are_audited_with_the_options_of_the_command(tmp_path):
    polars.DataFrame({"user": [0, 1, 2], "film": [0, 1, 0], "value": [1.0, 4.0, 5.0]}).write_csv(tmp_path / "r.csv")
    (tmp_path / "users.txt").write_text("0\n1\n2\n")
    (tmp_path / "films.txt").write_text("0\n1\n")
    (tmp_path / "spec.toml").write_text(
        'ranks = 2\n[names]\nuser = "users.txt"\nfilm = "films.txt"\n[[relation]]\nname = "r"\nfile = "r.csv"\n'
        'columns = ["user", "film", "value"]\neinsum = "ir,jr->ij"\nfactors = ["user", "film"]\n'
    )
    command = ["fit", "coupled", str(tmp_path / "spec.toml"), "--epsilon", "2", "--delta", "1e-7"]
    audited = audited_command([*command, "--value-range", "1:5", "--protect", "user"])
    assert (audited.estimator.epsilon, audited.estimator.delta) == (2.0, 1e-7)
    assert (audited.estimator.value_range, audited.estimator.protect) == ((1.0, 5.0), "user")
    with pytest.raises(InvalidInputError, match="--value-range"):
        audited_command(command)


@pytest.mark.parametrize("option", [["--blocks", "3"], ["--scheduler", "tcp://127.0.0.1:1"]])
def test_an_option_that_an_audit_cannot_follow_is_refused(rows, option):
    command = ["fit", "nmf", str(rows), "--rank", "2", "--epsilon", "1", "--drop", "text"]
    with pytest.raises(InvalidInputError, match=option[0]):
        audited_command([*command, *option])
