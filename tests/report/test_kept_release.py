"""What a private fit has released and paid for is on disk before it is measured: an interruption does not lose it."""

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import tacit
from tacit.cli.main import app
from tacit.data import IntegerColumn, TableSchema, make_images, make_ratings
from tacit.errors import PrivacyWarning
from tacit.report import ResultFolder, compare_implicit, compare_nmf, compare_recommenders, fit_components, tables
from tacit.report import components as components_module

IMAGES = make_images(200, side=6, n_parts=2, random_state=0).images


def stops_at(stage):
    def told(now):
        if now == stage:
            raise KeyboardInterrupt

    return told


def ratings():
    made = make_ratings(60, 8, ratings_per_user=4, random_state=0)
    return pl.DataFrame({"user": made.users, "item": made.items, "rating": made.ratings})


FITS = {
    "nmf": lambda told: compare_nmf(IMAGES, 2, epsilon=1.0, terms=None, progress=told),
    "recommender": lambda told: compare_recommenders(
        ratings(), 2, epsilon=1.0, rating_range=(0, 5), catalogue=range(8), progress=told
    ),
    "implicit": lambda told: compare_implicit(ratings().drop("rating"), epsilon=1.0, catalogue=range(8), progress=told),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", FITS)
def test_a_model_is_kept_if_measuring_is_interrupted(kind, tmp_path):
    with (
        pytest.warns(PrivacyWarning, match="paid for before this is kept"),
        pytest.raises(KeyboardInterrupt),
        ResultFolder(tmp_path / "out"),
    ):
        FITS[kind](stops_at("measuring"))
    (path,) = (tmp_path / "out" / "model").iterdir()
    assert tacit.load(path).guarantee_.epsilon == pytest.approx(1.0, rel=1e-3)
    with pytest.raises(KeyboardInterrupt), ResultFolder(tmp_path / "before"):
        FITS[kind](stops_at("fitting with privacy"))
    assert not (tmp_path / "before").exists(), "nothing was released, and nothing is left"


def test_values_of_an_earlier_model_do_not_stay_beside_a_kept_one(tmp_path, monkeypatch):
    fit_components(IMAGES, 1, kind="pca", epsilon=1.0).save(tmp_path / "out")
    measured = components_module._measures

    def fails(model, *rows):
        if np.isfinite(model.epsilon):
            raise MemoryError
        return measured(model, *rows)

    monkeypatch.setattr(components_module, "_measures", fails)
    with (
        pytest.warns(PrivacyWarning, match=r"pca\.tacit"),
        pytest.raises(MemoryError),
        ResultFolder(tmp_path / "out", overwrite=True),
    ):
        fit_components(IMAGES, 2, kind="pca", epsilon=2.0)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["model"]
    assert tacit.load(tmp_path / "out" / "model" / "pca.tacit").epsilon == 2.0


def test_a_synthetic_table_is_kept_if_measuring_fails(tmp_path, monkeypatch):
    pl.DataFrame({"age": np.arange(100) % 50, "dose": np.arange(100) % 7}).write_csv(tmp_path / "t.csv")
    schema = TableSchema({"age": IntegerColumn(0, 120), "dose": IntegerColumn(0, 10)}, public=True)
    schema.save(tmp_path / "s.toml")
    measured, calls = tables.measure_synthetic, []

    def fails_on_the_release(*arguments, **settings):
        calls.append(arguments)
        if len(calls) > 1:
            raise MemoryError
        return measured(*arguments, **settings)

    monkeypatch.setattr(tables, "measure_synthetic", fails_on_the_release)
    options = [
        "--method",
        "private-table",
        "--epsilon",
        "1",
        "--schema",
        tmp_path / "s.toml",
        "--report",
        tmp_path / "r",
    ]
    words = ["perturb", tmp_path / "t.csv", *options, "-o", tmp_path / "release.csv"]
    assert isinstance(CliRunner().invoke(app, [str(word) for word in words]).exception, MemoryError)
    assert pl.read_csv(tmp_path / "release.csv").columns == ["age", "dose"]
