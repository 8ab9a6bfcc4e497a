"""`tacit transform` and `tacit predict` give the same results as the model in memory, for the same rows."""

import numpy as np
import polars as pl
import pytest
from test_cli import invoke

import tacit
from tacit.data import make_documents, make_images
from tacit.errors import InvalidInputError

IMAGES = make_images(60, side=6, n_parts=2).images


@pytest.fixture
def table(tmp_path):
    pl.DataFrame(IMAGES, schema=[f"c{place}" for place in range(36)]).write_csv(tmp_path / "rows.csv")
    return tmp_path / "rows.csv"


@pytest.mark.parametrize("model", [tacit.NMF(2), tacit.SVD(2), tacit.PCA(2)], ids=["nmf", "svd", "pca"])
@pytest.mark.parametrize("unit_rows", [True, False])
def test_weights_are_those_of_the_model_in_memory(model, unit_rows, table, tmp_path):
    rows = IMAGES / np.linalg.norm(IMAGES, axis=1, keepdims=True) if unit_rows else IMAGES
    model.fit(rows).save(tmp_path / "m.tacit")
    scaling = "--unit-rows" if unit_rows else "--no-unit-rows"
    found = invoke("transform", tmp_path / "m.tacit", table, "-o", tmp_path / "w.parquet", scaling, "--json")
    assert found.exit_code == 0, found.exception
    written = pl.read_parquet(tmp_path / "w.parquet")
    assert written.columns == ["component_1", "component_2"]
    np.testing.assert_allclose(written.to_numpy(), model.transform(rows), rtol=1e-9, atol=1e-12)
    assert (tmp_path / "w.parquet").stat().st_mode & 0o777 == 0o600


def test_others_can_read_what_is_written_at_no_moment(table, tmp_path, monkeypatch):
    tacit.NMF(2).fit(IMAGES).save(tmp_path / "m.tacit")
    output, modes, write = tmp_path / "w.csv", [], pl.DataFrame.write_csv

    def seen(self, file):
        modes.append(output.stat().st_mode & 0o777 if output.exists() else None)
        return write(self, file)

    monkeypatch.setattr(pl.DataFrame, "write_csv", seen)
    assert invoke("transform", tmp_path / "m.tacit", table, "-o", output).exit_code == 0
    output.chmod(0o644)
    assert invoke("transform", tmp_path / "m.tacit", table, "-o", output, "--overwrite").exit_code == 0
    assert modes == [0o600, 0o600]


def test_topics_of_new_texts_from_the_folder_of_a_fit(tmp_path):
    made = make_documents(40, n_topics=2, random_state=0)
    (tmp_path / "texts").mkdir()
    for place, text in enumerate(made.texts()):
        (tmp_path / "texts" / f"{place:02}.txt").write_text(text)
    terms = sorted({word for text in made.texts() for word in text.split()})
    (tmp_path / "terms").write_text("\n".join(terms))
    fit = invoke(
        "fit", "nmf", tmp_path / "texts", "-k", 2, "--vocabulary", tmp_path / "terms", "--output", tmp_path / "o"
    )
    assert fit.exit_code == 0, fit.exception
    assert (tmp_path / "o" / "model" / "terms.txt").read_text().split() == terms
    arguments = ("transform", tmp_path / "o", tmp_path / "texts", "-o", tmp_path / "w.csv")
    found = invoke(*arguments)
    assert found.exit_code == 0, found.exception
    assert "for its holder only" in found.stdout
    (tmp_path / "o" / "model" / "terms.txt").unlink()
    without = invoke(*arguments, "--overwrite")
    assert "no terms.txt beside the model" in str(without.exception)
    again = invoke(
        "transform", tmp_path / "o", tmp_path / "texts", "-o", tmp_path / "v.csv", "--vocabulary", tmp_path / "terms"
    )
    assert again.exit_code == 0, again.exception
    assert (tmp_path / "v.csv").read_bytes() == (tmp_path / "w.csv").read_bytes()
    weights = pl.read_csv(tmp_path / "w.csv").to_numpy()
    assert weights.shape == (40, 2)
    assert (weights >= 0).all()
    assert (weights.max(axis=1) > 0).all()


@pytest.mark.slow
def test_predictions_and_probabilities_of_a_network(tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")
    random = np.random.default_rng(0)
    X, y = random.random((80, 3)), np.array(["no", "yes"])[np.arange(80) % 2]
    model = tacit.PrivateBayesianClassifier(
        epsilon=np.inf, classes=["no", "yes"], feature_range=(0, 1), hidden=(), epochs=2, sampling_rate=0.5
    ).fit(X, y)
    model.save(tmp_path / "m.tacit")
    pl.DataFrame(X, schema=["a", "b", "c"]).with_columns(pl.Series("y", y)).write_csv(tmp_path / "rows.csv")
    arguments = ("predict", tmp_path / "m.tacit", tmp_path / "rows.csv", "-o", tmp_path / "p.csv")
    assert "--drop y" in str(invoke(*arguments).exception)
    found = invoke(*arguments, "--drop", "y", "--json")
    assert found.exit_code == 0, found.exception
    written = pl.read_csv(tmp_path / "p.csv")
    assert written.columns == ["prediction", "probability_no", "probability_yes"]
    assert written["prediction"].to_list() == model.predict(X).tolist()
    np.testing.assert_allclose(written["probability_no"], model.predict_proba(X)[:, 0], atol=1e-6)


def test_numbers_of_a_regression(table, tmp_path):
    target = IMAGES @ np.arange(36.0)
    model = tacit.PrincipalComponentRegression(3).fit(IMAGES, target)
    model.save(tmp_path / "m.tacit")
    found = invoke("predict", tmp_path / "m.tacit", table, "-o", tmp_path / "p.csv")
    assert found.exit_code == 0, found.exception
    np.testing.assert_allclose(pl.read_csv(tmp_path / "p.csv")["prediction"], model.predict(IMAGES), rtol=1e-9)


def test_bad_input_is_refused_in_words(table, tmp_path):
    tacit.NMF(2).fit(IMAGES).save(tmp_path / "m.tacit")
    ratings = pl.DataFrame({"user": [0, 0, 1, 1], "item": [0, 1, 0, 1], "rating": [1.0, 2.0, 3.0, 4.0]})
    tacit.Recommender(1).fit(ratings).save(tmp_path / "r.tacit")
    tacit.PrincipalComponentRegression(2).fit(IMAGES, IMAGES[:, 0]).save(tmp_path / "c.tacit")
    pl.read_csv(table).with_columns(label=pl.lit(1)).write_csv(tmp_path / "labelled.csv")
    (tmp_path / "there.csv").touch()
    for arguments, message in (
        (("transform", "m.tacit", "rows.csv", "-o", "w.txt"), "ends in .csv or .parquet"),
        (("transform", "m.tacit", "rows.csv", "-o", "there.csv"), "does not exist yet"),
        (("transform", "r.tacit", "rows.csv", "-o", "w.csv"), "tacit recommend"),
        (("predict", "m.tacit", "rows.csv", "-o", "w.csv"), "tacit transform"),
        (("predict", "r.tacit", "rows.csv", "-o", "w.csv"), "tacit recommend"),
        (("transform", ".", "rows.csv", "-o", "w.csv"), "0 model files"),
        (("transform", "m.tacit", "labelled.csv", "-o", "w.csv"), "36 columns of the fit; got 37 columns"),
        (("predict", "c.tacit", "labelled.csv", "-o", "w.csv"), "as the label, with --drop"),
    ):
        given = [tmp_path / part if part[0] != "-" and place else part for place, part in enumerate(arguments)]
        found = invoke(*given)
        assert isinstance(found.exception, InvalidInputError), arguments
        assert message in str(found.exception)
    assert not (tmp_path / "w.csv").exists()
