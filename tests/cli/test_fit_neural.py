"""`tacit fit neural` on tables, archives and folders of images, as a user runs it."""

import json

import numpy as np
import polars as pl
import pytest
from PIL import Image
from scipy.sparse import csr_array
from sklearn.datasets import load_digits
from test_cli import invoke, tacit_command

import tacit
from tacit.cli.fit_neural import _feature_range
from tacit.cli.read import read_labelled
from tacit.errors import InvalidInputError
from tacit.privacy import Ledger

pytest.importorskip("torch", reason="torch is not installed")

X, Y = load_digits(return_X_y=True)
QUICK = ("--epochs", 2, "--sampling-rate", 0.2, "--delta", 1e-4, "--hidden", "none")
DIGITS = ("--classes", "0,1,2,3,4,5,6,7,8,9")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("table") / "digits.csv"
    names = [f"p{place}" for place in range(64)]
    pl.DataFrame(X, schema=names).with_columns(pl.Series("digit", Y)).write_csv(path)
    pl.DataFrame({"name": names, "low": [0.0] * 64, "high": [16.0] * 64}).write_csv(path.with_name("bounds.csv"))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("images")
    for number, (row, label) in enumerate(zip(X[:400], Y[:400] % 2, strict=True)):
        place = root / ("odd" if label else "even")
        place.mkdir(exist_ok=True)
        Image.fromarray((row.reshape(8, 8) * 15.9).astype(np.uint8)).save(place / f"{number:03}.png")
    return root


@pytest.mark.slow
def test_a_private_network_from_a_table(table, tmp_path):
    out = tmp_path / "out"
    bounds = table.with_name("bounds.csv")
    found = tacit_command(
        "fit",
        "neural",
        table,
        "--label",
        "digit",
        "--epsilon",
        3,
        "--feature-range",
        bounds,
        *DIGITS,
        *QUICK,
        "--output",
        out,
        "--json",
    )
    assert found.returncode == 0, found.stderr
    result = json.loads(found.stdout)
    assert 2.9 < result["guarantee"]["epsilon"] <= 3
    assert "the range of the features is public" in result["guarantee"]["sentence"]
    assert result["classes"] == [str(digit) for digit in range(10)]
    assert result["measures"]["accuracy"] > 0.5
    assert result["measures"]["accuracy without privacy"] > 0.8
    for name in ("calibration error", "calibration error of a single sample", "calibration error without privacy"):
        assert 0 <= result["measures"][name] < 1
    assert 0 < result["dropout_rate"]["mean"] < 1
    assert json.loads((out / "result.json").read_text()) == result
    page = (out / "report.html").read_text()
    for heading in ("Learning curve", "Calibration", "Confusion", "Dropout rate"):
        assert heading in page
    assert page.count("<svg") == 3
    assert "For the holder of the data only" in page
    model = tacit.load(out / "model" / "network.tacit")
    assert model.predict(X[:5]).shape == (5,)
    assert not hasattr(model, "loss_curve_")


@pytest.mark.slow
def test_images_in_one_folder_a_class_through_the_front_end(folder, tmp_path):
    out = tmp_path / "out"
    found = tacit_command(
        *(
            "fit",
            "neural",
            folder,
            "--epsilon",
            5,
            "--frontier",
            "--classes",
            "even,odd",
            *QUICK,
            "--output",
            out,
        )
    )
    assert found.returncode == 0, found.stderr
    assert "epsilon 5 and delta 0.0001" in found.stdout
    result = json.loads((out / "result.json").read_text())
    assert result["classes"] == ["even", "odd"]
    assert result["settings"]["image_shape"] == [8, 8]
    assert (result["settings"]["features"], result["settings"]["hidden"]) == ("scattering", [])
    assert 0.4 < result["frontier_on_synthetic_examples"]["20"] <= 1


@pytest.mark.slow
def test_without_epsilon_there_is_no_privacy_and_the_output_says_so(tmp_path):
    archive = tmp_path / "digits.npz"
    np.savez(archive, x=X, y=Y)
    out = tmp_path / "out"
    result = invoke("fit", "neural", archive, "--label", "y", *QUICK, "--output", out)
    assert result.exit_code == 0, result.output
    found = json.loads((out / "result.json").read_text())
    assert found["guarantee"]["epsilon"] is None or found["guarantee"]["epsilon"] == float("inf")
    assert found["measures"]["accuracy"] > 0.8


def test_the_range_of_a_sparse_archive_is_read_where_nothing_is_private(tmp_path):
    archive = tmp_path / "digits.npz"
    rows = csr_array(X)
    parts = {name: getattr(rows, name) for name in ("data", "indices", "indptr", "shape")}
    np.savez(archive, **parts, format=b"csr", y=Y)
    read = read_labelled(archive, "y")
    least, greatest = _feature_range(read, None, private=False)
    assert np.array_equal(least, X.min(axis=0))
    assert np.array_equal(greatest, np.where(X.max(axis=0) == X.min(axis=0), X.max(axis=0) + 1, X.max(axis=0)))
    with pytest.raises(InvalidInputError, match="public range"):
        _feature_range(read, None, private=True)


@pytest.mark.slow
def test_the_ledger_is_charged(table, tmp_path):
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.open_account("digits", epsilon=2.0, delta=1e-4)
    args = ("fit", "neural", table, "--label", "digit", "--epsilon", 1.5, "--feature-range", "0:16", *DIGITS, *QUICK)
    spent = ("--ledger", tmp_path / "ledger.db", "--dataset", "digits")
    assert invoke(*args, *spent, "--output", tmp_path / "out").exit_code == 0
    assert 1.4 < ledger.remaining("digits").spent <= 1.5
    refused = tacit_command(*args, *spent, "--output", tmp_path / "again")
    assert refused.returncode == 3
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--epsilon", 1, "--label", "digit"), "public range of the features"),
        (("--epsilon", 1, "--label", "number"), "a column 'number'"),
        (("--epsilon", 1), "--label"),
        (("--label", "digit", "--hidden", "many"), "widths"),
        (("--label", "digit", "--held-out", 1.5), "--held-out"),
    ],
)
def test_wrong_arguments_are_refused(table, tmp_path, arguments, message):
    found = invoke("fit", "neural", table, *arguments, "--output", tmp_path / "out")
    assert isinstance(found.exception, InvalidInputError)
    assert message in str(found.exception)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_continuous_label_and_text_columns_are_refused(tmp_path):
    frame = pl.DataFrame({"a": [0.1, 0.2, 0.3], "name": ["x", "y", "z"], "target": [0.5, 1.5, 2.25]})
    frame.write_csv(tmp_path / "text.csv")
    frame.drop("name").write_csv(tmp_path / "target.csv")
    found = invoke("fit", "neural", tmp_path / "text.csv", "--label", "target", "--output", tmp_path / "out")
    assert "other kinds in name" in str(found.exception)
    found = invoke("fit", "neural", tmp_path / "target.csv", "--label", "target", "--output", tmp_path / "out")
    assert "labels that are classes" in str(found.exception)
    assert "PrivateBayesianRegressor" in str(found.exception)


@pytest.mark.slow
def test_numbers_in_a_public_range(tmp_path):
    random = np.random.default_rng(0)
    rows = random.random((4000, 2))
    frame = pl.DataFrame({"a": rows[:, 0], "b": rows[:, 1], "dose": 30 + 50 * rows[:, 0] - 20 * rows[:, 1]})
    frame.write_csv(tmp_path / "doses.csv")
    numbers = (
        "--label",
        "dose",
        "--label-range",
        "0:100",
        "--feature-range",
        "0:1",
        "--epsilon",
        2,
        "--epochs",
        8,
        *QUICK[2:],
    )
    found = tacit_command("fit", "neural", tmp_path / "doses.csv", *numbers, "--output", tmp_path / "out", "--json")
    assert found.returncode == 0, found.stderr
    result = json.loads(found.stdout)
    assert result["label_range"] == [0, 100]
    assert result["guarantee"]["epsilon"] <= 2
    assert (
        result["measures"]["root mean squared error"]
        < 0.5 * result["measures"]["root mean squared error of the mean label"]
    )
    model = tacit.load(tmp_path / "out" / "model" / "network.tacit")
    assert np.corrcoef(model.predict(rows), frame["dose"])[0, 1] > 0.9
    assert "Predictions" in (tmp_path / "out" / "report.html").read_text()


def test_a_range_of_labels_that_is_none_or_is_for_names_is_refused(table, tmp_path):
    plain = ("--label", "digit", "--feature-range", "0:16", "--output", tmp_path / "out")
    found = invoke("fit", "neural", table, *plain, "--label-range", "low")
    assert "--label-range LOW:HIGH" in str(found.exception)
    frame = pl.DataFrame({"a": [0.1, 0.2, 0.3, 0.4], "name": ["x", "y", "x", "y"]})
    frame.write_csv(tmp_path / "names.csv")
    found = invoke("fit", "neural", tmp_path / "names.csv", "--label", "name", "--label-range", "0:1")
    assert "labels that are numbers" in str(found.exception)


def test_images_of_several_sizes_and_images_without_a_class_are_refused(tmp_path):
    for name, side in (("a", 8), ("b", 9)):
        (tmp_path / "images" / name).mkdir(parents=True)
        Image.fromarray(np.zeros((side, side), np.uint8)).save(tmp_path / "images" / name / "1.png")
    found = invoke("fit", "neural", tmp_path / "images", "--output", tmp_path / "out")
    assert "to have one size" in str(found.exception)
    loose = tmp_path / "loose"
    loose.mkdir()
    Image.fromarray(np.zeros((8, 8), np.uint8)).save(loose / "1.png")
    found = invoke("fit", "neural", loose, "--output", tmp_path / "out")
    assert "one folder per class" in str(found.exception)
