"""`tacit fit svd` and `tacit fit pca` on matrices and texts, as a user runs them."""

import json

import numpy as np
import polars as pl
import pytest
from scipy import sparse
from sklearn import decomposition
from test_cli import invoke

import tacit
from tacit.data import make_documents
from tacit.errors import InvalidInputError

rng = np.random.default_rng(2)
X = rng.standard_normal((200, 3)) @ rng.standard_normal((3, 12)) + 4 + 0.1 * rng.standard_normal((200, 12))


@pytest.fixture
def table(tmp_path):
    np.save(tmp_path / "table.npy", X)
    return tmp_path / "table.npy"


@pytest.mark.parametrize("kind", ["svd", "pca"])
@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_components_of_a_table(kind, form, tmp_path, table):
    if form == "sparse":
        table = tmp_path / "table.npz"
        sparse.save_npz(table, sparse.csr_array(X))
    found = invoke("fit", kind, table, "--rank", 3, "--output", tmp_path / "out", "--json")
    assert found.exit_code == 0, found.output
    result = json.loads(found.output)
    assert result == json.loads((tmp_path / "out" / "result.json").read_text())
    assert len(result["singular_values"]) == 3
    assert result["guarantee"]["kind"] == "none"
    model = tacit.load(tmp_path / "out" / "model" / f"{kind}.tacit")
    kept_out = np.random.default_rng(0).random(200) < 0.1
    rows = X[~kept_out]
    shift = rows.mean(axis=0) if kind == "pca" else 0
    for name, part in (("fraction explained", rows), ("fraction explained, held out", X[kept_out])):
        left = (part - shift) - (part - shift) @ model.components_.T @ model.components_
        assert result["measures"][name] == pytest.approx(1 - np.sum(left**2) / np.sum((part - shift) ** 2))
    theirs = (
        decomposition.PCA(3).fit(rows) if kind == "pca" else decomposition.TruncatedSVD(3, algorithm="arpack").fit(rows)
    )
    assert np.allclose(np.abs(model.components_), np.abs(theirs.components_), atol=1e-6)
    assert "<svg" in (tmp_path / "out" / "report.html").read_text()


def test_hidden_singular_values_are_nowhere(tmp_path, table):
    found = invoke("fit", "svd", table, "--rank", 2, "--hide-singular-values", "--output", tmp_path / "out")
    assert found.exit_code == 0, found.output
    assert "fraction explained" in found.output
    assert "singular_values" not in json.loads((tmp_path / "out" / "result.json").read_text())
    assert not hasattr(tacit.load(tmp_path / "out" / "model" / "svd.tacit"), "singular_values_")


def test_components_of_texts_have_words(tmp_path):
    documents = make_documents(300, n_topics=3, words_per_document=40)
    for number, text in enumerate(documents.texts()):
        (tmp_path / f"{number:03}.txt").write_text(text)
    found = invoke("fit", "svd", tmp_path, "--rank", 3, "--output", tmp_path / "out")
    assert found.exit_code == 0, found.output
    page = (tmp_path / "out" / "report.html").read_text()
    assert any(term in page for term in documents.terms)


@pytest.mark.parametrize("arguments", [["--rank", 13], ["--rank", 0], ["--rank", 2, "--held-out", 1]])
def test_bad_arguments(arguments, tmp_path, table):
    found = invoke("fit", "pca", table, *arguments, "--output", tmp_path / "out")
    assert isinstance(found.exception, InvalidInputError)
    assert not (tmp_path / "out").exists()


def private_fit(kind, table, out, *arguments):
    return invoke("fit", kind, table, "--rank", 3, "--epsilon", 5, *arguments, "--output", out, "--json")


@pytest.mark.parametrize("kind", ["svd", "pca"])
def test_private_components_are_compared_with_those_without_privacy(kind, tmp_path, table):
    found = private_fit(kind, table, tmp_path / "out", "--feature-range", "-20:20", "--frontier")
    assert found.exit_code == 0, found.output
    result = json.loads(found.output)
    assert result["guarantee"]["kind"] == "differential privacy"
    assert 4.9 < result["guarantee"]["epsilon"] <= 5.0
    assert "the range of the columns is public" in str(result["guarantee"])
    assert result["measures"]["fraction explained, held out"] >= 0
    assert result["measures"]["fraction explained, held out, without privacy"] > 0.9
    assert result["measures"]["fraction of rows clipped"] == 0
    assert "0.3" in result["frontier_on_synthetic_rows"]
    model = tacit.load(tmp_path / "out" / "model" / f"{kind}.tacit")
    assert model.components_.shape == (3, 12)
    assert not hasattr(model, "clipped_fraction_")


def test_a_private_fit_without_public_bounds_is_refused(tmp_path, table):
    assert "--feature-range with --epsilon" in str(private_fit("pca", table, tmp_path / "out").exception)


def test_a_private_regression(tmp_path):
    rows = rng.uniform(-1, 1, (1500, 4))
    named = dict(zip("abcd", rows.T, strict=True))
    pl.DataFrame({**named, "y": rows @ [1, 0.5, 0, 0]}).write_csv(tmp_path / "table.csv")
    arguments = ["fit", "pcr", tmp_path / "table.csv", "--label", "y", "-k", 4, "--json", "--output", tmp_path / "out"]
    plain = invoke(*arguments)
    assert plain.exit_code == 0, plain.output
    assert json.loads(plain.output)["measures"]["R2"] > 0.99
    private = [*arguments, "--overwrite", "--epsilon", 8, "--feature-range=-1:1"]
    assert "--label-range" in str(invoke(*private).exception)
    found = invoke(*private, "--label-range=-2:2", "--frontier")
    assert found.exit_code == 0, found.output
    result = json.loads(found.output)
    assert 7.9 < result["guarantee"]["epsilon"] <= 8.0
    assert result["measures"]["error"] < result["measures"]["error of the mean target"]
    assert result["measures"]["fraction of targets clipped"] == 0
    curve = result["frontier_on_synthetic_rows"]
    assert curve["without privacy"] < 1.05 * curve["20"] < curve["0.3"] + 0.5 * curve["the mean target"]
    assert tacit.load(tmp_path / "out" / "model" / "pcr.tacit").predict(rows).shape == (1500,)
