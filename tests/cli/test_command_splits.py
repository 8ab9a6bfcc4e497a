"""The commands' held-out split costs no privacy: one unit's presence changes nothing for the other units.

Each command runs on two neighbouring files, one without a unit of the other, with the same key. The input of the
private estimator must be the same except for that unit.
"""

import numpy as np
import polars as pl
import pytest
from test_cli import invoke

import tacit
from tacit.data import make_images, make_ratings
from tacit.data.split import held_out_cells


@pytest.fixture(autouse=True)
def _same_key(monkeypatch):
    monkeypatch.setattr("os.urandom", lambda size: bytes(range(size)))


@pytest.fixture
def given_to(monkeypatch):
    """Return a function that makes a private estimator keep what its `fit` is given, and returns the list of it."""

    def keep(estimator):
        given, fit = [], estimator.fit

        def kept(self, *data):
            if np.isfinite(self.epsilon):
                given.append(data)
            return fit(self, *data)

        monkeypatch.setattr(estimator, "fit", kept)
        return given

    return keep


def run(*arguments):
    found = invoke(*arguments, "--json")
    assert found.exit_code == 0, found.exception


@pytest.mark.slow
@pytest.mark.parametrize("place", [0, 100, 299])
def test_fit_nmf(place, tmp_path, given_to):
    given = given_to(tacit.PrivateNMF)
    images = make_images(300, side=6, n_parts=2).images
    for name, rows in (("with", images), ("without", np.delete(images, place, axis=0))):
        np.save(tmp_path / f"{name}.npy", rows)
        run("fit", "nmf", tmp_path / f"{name}.npy", "-k", 2, "--epsilon", 1, "--output", tmp_path / name)
    (with_it,), (without,) = given
    unit = images[place] / np.linalg.norm(images[place])
    others = ~np.isclose(with_it, unit, atol=1e-12).all(axis=1)
    assert np.array_equal(with_it[others], without)
    assert 200 < len(without) < 299


@pytest.mark.slow
@pytest.mark.parametrize("place", [0, 50, 119])
def test_fit_recommend_splits_per_user(place, tmp_path, given_to):
    given = given_to(tacit.PrivateRecommender)
    made = make_ratings(120, 20, ratings_per_user=8, random_state=3)
    frame = pl.DataFrame({"user": made.users, "item": made.items, "rating": made.ratings}).sort("user")
    pl.DataFrame({"item": range(20)}).write_csv(tmp_path / "items.csv")
    user = frame["user"].unique(maintain_order=True)[place]
    for name, rows in (("with", frame), ("without", frame.filter(pl.col("user") != user))):
        rows.write_csv(tmp_path / f"{name}.csv")
        arguments = ("fit", "recommend", tmp_path / f"{name}.csv", "--epsilon", 4, "--factors", 2)
        arguments += ("--catalogue", tmp_path / "items.csv")
        run(*arguments, "--output", tmp_path / name)
    (with_it,), (without,) = given
    assert with_it.filter(pl.col("user") != str(user)).equals(without)
    assert 700 < len(without) < 952


def test_cells_are_held_out_by_their_place_only():
    cells = np.stack(np.unravel_index(np.arange(2000), (20, 10, 10)), axis=1)
    key, kept = bytes(32), cells[:, 0] != 7
    out = held_out_cells(cells, fraction=0.2, key=key)
    assert np.array_equal(out[kept], held_out_cells(cells[kept].astype(np.int32), fraction=0.2, key=key))
    assert 300 < out.sum() < 500


@pytest.mark.slow
@pytest.mark.parametrize("place", [0, 150, 299])
def test_fit_neural(place, tmp_path, given_to):
    pytest.importorskip("torch", reason="torch is not installed")
    from tacit.neural import PrivateBayesianClassifier

    given = given_to(PrivateBayesianClassifier)
    random = np.random.default_rng(0)
    table = pl.DataFrame({"a": random.random(300), "b": random.random(300), "y": random.integers(0, 2, 300)})
    rest = table.with_row_index().filter(pl.col("index") != place).drop("index")
    for name, rows in (("with", table), ("without", rest)):
        rows.write_csv(tmp_path / f"{name}.csv")
        arguments = (
            "fit",
            "neural",
            tmp_path / f"{name}.csv",
            "--label",
            "y",
            "--classes",
            "0,1",
            "--feature-range",
            "0:1",
        )
        arguments += ("--hidden", "none", "--epsilon", 1, "--delta", 1e-5, "--epochs", 2, "--sampling-rate", 0.5)
        run(*arguments, "--output", tmp_path / name)
    (with_it, labels), (without, labels_without) = given
    others = with_it[:, 0] != table["a"][place]
    assert np.array_equal(with_it[others], without)
    assert np.array_equal(labels[others], labels_without)
    assert 200 < len(without) < 299


@pytest.mark.slow
def test_released_models_do_not_tell_whether_a_row_was_there(tmp_path, monkeypatch):
    """The rows are made for a split by row number and --seed 0: with the first row, one kind of row is fitted; without, none.

    Then each of 8 released dictionaries with the row was apart from each of 8 without. By chance that happens once in
    13,000 times.
    """
    monkeypatch.undo()  # real keys and real noise
    out = np.random.default_rng(0).random(1201) < 0.1
    rows = np.zeros((1200, 4))
    rows[:, 1:3] = 1.0, 0.2
    rows[out[:-1] & ~out[1:]] = 1.0, 0.0, 0.0, 0.0
    found = {}
    for name, table in (("without", rows), ("with", np.vstack([[[0.0, 0.0, 0.0, 1.0]], rows]))):
        np.save(tmp_path / f"{name}.npy", table)
        found[name] = []
        for _ in range(8):
            arguments = ("fit", "nmf", tmp_path / f"{name}.npy", "-k", 2, "--epsilon", 1, "--output", tmp_path / name)
            run(*arguments, *(["--overwrite"] if found[name] else []))
            model = tacit.load(tmp_path / name / "model" / "nmf.tacit")
            found[name].append(float(model.components_[:, 0].max()))
    assert max(found["without"]) > min(found["with"])
    assert max(found["with"]) > min(found["without"])
