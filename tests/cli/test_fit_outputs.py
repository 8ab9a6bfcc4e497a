"""Charges, refusals and output files of all fit commands."""

import json
import zipfile

import numpy as np
import polars as pl
import pytest
from test_cli import invoke, tacit_command

import tacit
from tacit.data import make_images, make_ratings
from tacit.errors import InvalidInputError, LedgerError
from tacit.privacy import Ledger

IMAGES = make_images(300, side=6, n_parts=3).images


@pytest.fixture
def faces(tmp_path):
    np.save(tmp_path / "faces.npy", IMAGES)
    return tmp_path / "faces.npy"


@pytest.fixture
def ledger(tmp_path):
    book = Ledger(tmp_path / "ledger.db")
    book.open_account("faces", 3.0, 1e-6)
    return book


def contents(folder):
    return {file.name: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.slow
def test_a_ledger_in_the_environment_is_charged(faces, ledger, tmp_path, monkeypatch):
    monkeypatch.setenv("TACIT_LEDGER", str(ledger.path))
    arguments = ("fit", "nmf", faces, "-k", 2, "--epsilon", 1, "--dataset", "faces", "--output", tmp_path / "out")
    found = invoke(*arguments)
    assert found.exit_code == 0, found.exception
    assert len(ledger.history("faces")) == 1
    assert f"Charged to faces in {ledger.path}. The largest epsilon that still fits is" in found.output
    # and a data set without an account is refused, as with --ledger
    found = invoke("fit", "nmf", faces, "-k", 2, "--epsilon", 1, "--output", tmp_path / "two")
    assert isinstance(found.exception, LedgerError)
    assert "its accounts are faces. Name the account with --dataset" in str(found.exception)
    assert "sha256" not in str(found.exception)
    assert not (tmp_path / "two").exists()


@pytest.mark.slow
def test_an_account_without_a_ledger_is_refused(faces, tmp_path):
    arguments = ("fit", "nmf", faces, "-k", 2, "--epsilon", 1, "--dataset", "faces", "--output", tmp_path / "out")
    found = tacit_command(*arguments)
    assert found.returncode == 2
    assert "a ledger with --dataset" in found.stderr
    assert not (tmp_path / "out").exists()


def test_a_fit_without_privacy_does_not_take_a_ledger(faces, ledger, tmp_path, monkeypatch):
    arguments = ("fit", "nmf", faces, "-k", 2, "--output", tmp_path / "out")
    for given in (("--ledger", ledger.path), ("--ledger", ledger.path, "--dataset", "faces")):
        found = invoke(*arguments, *given)
        assert isinstance(found.exception, InvalidInputError)
        assert "--epsilon" in str(found.exception)
    monkeypatch.setenv("TACIT_LEDGER", str(ledger.path))
    assert invoke(*arguments).exit_code == 0
    assert ledger.history("faces") == []


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [(), ("--epsilon", 1)], ids=["plain", "private"])
def test_a_fit_does_not_overwrite_a_model_that_was_paid_for(epsilon, faces, ledger, tmp_path):
    out = tmp_path / "out"
    paid = ("--epsilon", 1, "--ledger", ledger.path, "--dataset", "faces")
    assert invoke("fit", "nmf", faces, "-k", 2, *paid, "--output", out).exit_code == 0
    before = contents(out)
    found = tacit_command("fit", "nmf", faces, "-k", 2, *epsilon, *(paid[2:] if epsilon else ()), "--output", out)
    assert found.returncode == 2
    assert "--overwrite" in found.stderr
    assert contents(out) == before
    assert len(ledger.history("faces")) == 1
    assert invoke("fit", "nmf", faces, "-k", 3, "--output", out, "--overwrite").exit_code == 0
    assert tacit.load(out / "model" / "nmf.tacit").components_.shape == (3, 36)


@pytest.mark.parametrize(
    "command",
    [
        ("fit", "nmf", "DATA", "-k", 2),
        ("fit", "svd", "DATA", "-k", 2),
        ("fit", "pca", "DATA", "-k", 2),
        ("fit", "recommend", "DATA"),
        ("fit", "coupled", "DATA"),
        ("fit", "local", "DATA", "-k", 2),
        ("fit", "neural", "DATA", "--label", "y"),
        ("measure", "ksdp", "DATA", "-k", 2),
        ("demo",),
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_no_command_writes_over_an_earlier_result(command, faces, tmp_path):
    if "neural" in command:
        pytest.importorskip("torch", reason="torch is not installed")
    out = tmp_path / "out"
    (out / "model").mkdir(parents=True)
    (out / "model" / "nmf.tacit").write_text("paid for")
    (out / "result.json").write_text("{}")
    found = invoke(*(faces if part == "DATA" else part for part in command), "--output", out)
    assert isinstance(found.exception, InvalidInputError)
    assert "earlier result" in str(found.exception)
    assert contents(out) == {"nmf.tacit": b"paid for", "result.json": b"{}"}


@pytest.mark.slow
def test_the_demonstration_deletes_no_ledger_but_its_own(tmp_path):
    (tmp_path / "ledger.db").write_text("a real one")
    assert invoke("demo", "--output", tmp_path, "--images", 200, "--json").exit_code == 0
    assert invoke("demo", "--output", tmp_path, "--images", 200, "--json", "--overwrite").exit_code == 0
    assert (tmp_path / "ledger.db").read_text() == "a real one"


def test_an_output_that_cannot_be_written_costs_nothing(faces, ledger, tmp_path):
    (tmp_path / "file").write_text("")
    arguments = ("fit", "nmf", faces, "-k", 2, "--epsilon", 1, "--ledger", ledger.path, "--dataset", "faces")
    found = invoke(*arguments, "--output", tmp_path / "file" / "out")
    assert "can be written to" in str(found.exception)
    assert ledger.history("faces") == []


@pytest.mark.parametrize(
    "wrong",
    [
        ("--delta", 0.5),
        ("--delta", 2),
        ("--held-out", 0),
        ("--method", "other"),
        ("--outliers", -1),
        ("--seed", -1),
        ("--vocabulary", "missing.txt"),
        ("--vocabulary", "paid"),
        ("--image-shape", "6x7"),
        ("--rank", 99),
    ],
    ids=lambda wrong: " ".join(map(str, wrong)),
)
def test_bad_options_cost_nothing(wrong, faces, ledger, tmp_path):
    arguments = ("fit", "nmf", faces, "-k", 2, "--epsilon", 1, "--ledger", ledger.path, "--dataset", "faces")
    found = invoke(*arguments, "--output", tmp_path / "out", *wrong)
    assert isinstance(found.exception, InvalidInputError)
    assert ledger.history("faces") == []
    assert not (tmp_path / "out").exists()


def test_what_is_for_the_holder_says_so(faces, tmp_path):
    found = invoke("fit", "nmf", faces, "-k", 2, "--epsilon", 1, "--output", tmp_path / "out", "--json")
    for text in (found.output, (tmp_path / "out" / "result.json").read_text()):
        assert json.loads(text)["notice"].startswith("For the holder of the data only")
    assert "For the holder of the data only" in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.slow
def test_a_private_recommender_needs_a_catalogue_whose_ids_decide_on_the_type(tmp_path):
    made = make_ratings(200, 10, ratings_per_user=5, random_state=3)
    frame = pl.DataFrame({"user": made.users, "item": made.items, "rating": made.ratings})
    frame.write_csv(tmp_path / "ratings.csv")
    arguments = (
        "fit",
        "recommend",
        tmp_path / "ratings.csv",
        "--epsilon",
        4,
        "--factors",
        2,
        "--json",
    )
    found = invoke(*arguments, "--output", tmp_path / "out")
    assert "a catalogue of all items" in str(found.exception)
    (tmp_path / "names.csv").write_text("item\n" + "\n".join(map(str, [*range(10), "eleven"])) + "\n")
    found = invoke(*arguments, "--output", tmp_path / "out", "--catalogue", tmp_path / "names.csv")
    assert found.exit_code == 0, found.exception
    assert set(tacit.load(tmp_path / "out" / "model" / "recommender.tacit").item_ids_) == {
        *map(str, range(10)),
        "eleven",
    }
    found = invoke("recommend", tmp_path / "out", "--user", 7, "--top", 3, "--json")
    assert {type(entry["item"]) for entry in json.loads(found.output)} == {str}
    (tmp_path / "numbers.txt").write_text("\n".join(map(str, range(12))))
    found = invoke(*arguments, "--output", tmp_path / "two", "--catalogue", tmp_path / "numbers.txt")
    assert list(tacit.load(tmp_path / "two" / "model" / "recommender.tacit").item_ids_) == list(range(12))


@pytest.mark.slow
def test_a_private_classifier_needs_its_classes(tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")
    random = np.random.default_rng(0)
    frame = pl.DataFrame({"a": random.random(300), "y": random.integers(0, 2, 300)})
    frame.write_csv(tmp_path / "rows.csv")
    arguments = ("fit", "neural", tmp_path / "rows.csv", "--label", "y", "--feature-range", "0:1", "--hidden", "none")
    arguments += ("--epsilon", 1, "--epochs", 1, "--sampling-rate", 0.5, "--json")
    found = invoke(*arguments, "--output", tmp_path / "out")
    assert "the classes for a private fit" in str(found.exception)
    found = invoke(*arguments, "--output", tmp_path / "out", "--classes", "0,1,2")
    assert found.exit_code == 0, found.exception
    assert tacit.load(tmp_path / "out" / "model" / "network.tacit").classes_.tolist() == [0, 1, 2]
    # a label of another kind in one row changes the type of the column, not that of the classes
    frame.with_columns(pl.col("y").cast(pl.String)).vstack(pl.DataFrame({"a": [0.5], "y": ["x"]})).write_csv(
        tmp_path / "rows.csv"
    )
    (tmp_path / "classes.txt").write_text("0\n1\nx\n")
    found = invoke(*arguments, "--output", tmp_path / "two", "--classes", "0,1")
    assert "labels among --classes" in str(found.exception)
    found = invoke(*arguments, "--output", tmp_path / "two", "--classes", tmp_path / "classes.txt")
    assert found.exit_code == 0, found.exception
    assert tacit.load(tmp_path / "two" / "model" / "network.tacit").classes_.tolist() == ["0", "1", "x"]


@pytest.mark.parametrize("epsilon", ["inf", "0", "nan"])
def test_an_epsilon_that_protects_nothing_is_refused(epsilon, faces, tmp_path):
    found = invoke("fit", "nmf", faces, "-k", 2, "--epsilon", epsilon, "--output", tmp_path / "out")
    assert isinstance(found.exception, InvalidInputError)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_the_model_holds_neither_the_fingerprint_nor_the_place_of_the_data(faces, tmp_path):
    book = Ledger(tmp_path / "ledger.db")
    name = tacit.fingerprint(faces)
    book.open_account(name, 3.0, 1e-6)
    out = tmp_path / "out"
    found = invoke("fit", "nmf", faces, "-k", 2, "--epsilon", 1, "--ledger", book.path, "--output", out)
    assert found.exit_code == 0, found.exception
    (model,) = (out / "model").iterdir()
    with zipfile.ZipFile(model) as archive:
        inside = b"".join(archive.read(entry) for entry in archive.namelist())
    for secret in (name, name.removeprefix("sha256:"), str(faces), str(tmp_path), "ledger.db"):
        assert secret.encode() not in inside
