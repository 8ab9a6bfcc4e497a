"""`tacit fit nmf` on texts, images and matrices, as a user runs it."""

import json

import numpy as np
import pytest
from PIL import Image
from scipy import sparse
from test_cli import invoke, tacit_command

import tacit
from tacit.data import make_documents, make_images
from tacit.errors import InvalidInputError
from tacit.privacy import Ledger

DOCUMENTS = make_documents(1500, n_topics=3, words_per_document=50)
IMAGES = make_images(1200, side=6, n_parts=3)


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    for number, text in enumerate(DOCUMENTS.texts()):
        (folder / f"{number:04}.txt").write_text(text)
    return folder


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    path = tmp_path_factory.mktemp("public") / "terms.txt"
    path.write_text("\n".join(DOCUMENTS.terms))
    return path


@pytest.mark.slow
def test_private_topics_of_a_folder_of_texts(texts, vocabulary, tmp_path):
    out = tmp_path / "out"
    found = tacit_command(
        "fit", "nmf", texts, "--rank", 4, "--epsilon", 3, "--vocabulary", vocabulary, "--output", out, "--json"
    )
    assert found.returncode == 0, found.stderr
    result = json.loads(found.stdout)
    assert result["guarantee"]["epsilon"] <= 3
    assert "the vocabulary is public" in result["guarantee"]["sentence"]
    assert len(result["top_words"]) == 4
    assert set(result["top_words"][0]) <= set(DOCUMENTS.terms)
    for measure in ("held-out error", "c_npmi", "u_mass", "similarity to the fit without privacy"):
        assert np.isfinite(result["measures"][measure])
    assert json.loads((out / "result.json").read_text()) == result
    page = (out / "report.html").read_text()
    assert "without privacy" in page
    assert "For the holder of the data only" in page
    assert "<svg" in page
    model = tacit.load(out / "model" / "nmf.tacit")
    assert model.components_.shape == (4, len(DOCUMENTS.terms))
    assert "vocabulary" in str(model.guarantee_)


@pytest.mark.slow
@pytest.mark.slow
def test_the_word_list_of_a_spell_checker_is_a_vocabulary(texts, vocabulary, tmp_path):
    """Its entries that are no words are left out; a model's terms are then applied as they are."""
    terms = vocabulary.read_text().split()
    words = tmp_path / "words"
    words.write_text("\n".join([*terms, *(f"{term}'s" for term in terms[:5]), "the", terms[0].upper()]))
    out = tmp_path / "out"
    found = invoke("fit", "nmf", texts, "-k", 4, "--epsilon", 3, "--vocabulary", words, "--output", out)
    assert found.exit_code == 0, found.exception
    assert (out / "model" / "terms.txt").read_text().split() == terms
    found = invoke("transform", out, texts, "-o", tmp_path / "weights.csv")
    assert found.exit_code == 0, found.exception


def test_a_vocabulary_learned_from_private_texts_is_refused(texts, tmp_path):
    found = tacit_command("fit", "nmf", texts, "--rank", 3, "--epsilon", 1, "--output", tmp_path / "out")
    assert found.returncode == 2
    assert "public vocabulary" in found.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_paid_vocabulary_is_part_of_the_budget(texts, tmp_path):
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.open_account("texts", 4.0, 1e-6)
    arguments = ["fit", "nmf", texts, "-k", 3, "--epsilon", 3, "--vocabulary", "paid", "--idf", "learned", "--json"]
    arguments += ["--ledger", ledger.path, "--dataset", "texts", "--output", tmp_path / "out", "--overwrite"]
    found = invoke(*arguments)
    assert found.exit_code == 0, found.exception
    result = json.loads(found.output)
    assert 2.9 < result["guarantee"]["epsilon"] <= 3
    assert {release["name"] for release in result["guarantee"]["releases"]} >= {"words", "words of one document"}
    assert "vocabulary is public" not in result["guarantee"]["sentence"]
    assert len(ledger.history("texts")) == 1
    assert ledger.remaining("texts").spent == pytest.approx(3.0, rel=1e-2)
    wrongs = (["--idf", "other"], ["--method", "other"], ["--outliers", "0"], ["--seed", "-1"], ["--held-out", "1"])
    for wrong in wrongs:
        assert isinstance(invoke(*arguments, *wrong).exception, InvalidInputError)  # the last of an option counts
    assert len(ledger.history("texts")) == 1
    model = tacit.load(tmp_path / "out" / "model" / "nmf.tacit")
    assert model.guarantee_.epsilon == pytest.approx(result["guarantee"]["epsilon"])


def test_a_paid_vocabulary_needs_texts_and_epsilon(texts, tmp_path):
    found = invoke("fit", "nmf", texts, "-k", 3, "--vocabulary", "paid", "--output", tmp_path / "out")
    assert "--epsilon" in str(found.exception)
    np.save(tmp_path / "faces.npy", IMAGES.images)
    found = invoke("fit", "nmf", tmp_path / "faces.npy", "-k", 3, "--epsilon", 1, "--vocabulary", "paid")
    assert "folder of texts" in str(found.exception)


def test_learned_weights_are_refused_for_a_private_fit(texts, vocabulary, tmp_path):
    found = invoke(
        "fit",
        "nmf",
        texts,
        "-k",
        3,
        "--epsilon",
        1,
        "--vocabulary",
        vocabulary,
        "--idf",
        "learned",
        "--output",
        tmp_path,
    )
    assert isinstance(found.exception, InvalidInputError)
    assert "inverse document frequencies" in str(found.exception)


def test_without_epsilon_everything_may_be_learned(texts, tmp_path):
    found = invoke("fit", "nmf", texts, "-k", 3, "--idf", "learned", "--output", tmp_path / "out", "--json")
    assert found.exit_code == 0, found.exception
    result = json.loads(found.output)
    assert result["guarantee"]["epsilon"] is None
    assert result["measures"]["c_npmi"] > 0


@pytest.mark.slow
def test_images_are_drawn(tmp_path):
    folder = tmp_path / "images"
    folder.mkdir()
    for number, image in enumerate(IMAGES.images[:300]):
        Image.fromarray((255 * image.reshape(6, 6)).astype(np.uint8)).save(folder / f"{number}.png")
    found = invoke("fit", "nmf", folder, "-k", 3, "--epsilon", 8, "--output", tmp_path / "out", "--json")
    assert found.exit_code == 0, found.exception
    assert "Parts" in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.slow
def test_a_matrix_with_terms_and_a_ledger(tmp_path):
    counts = sparse.csr_matrix(DOCUMENTS.counts)
    np.savez(
        tmp_path / "counts.npz",
        **{name: getattr(counts, name) for name in ("data", "indices", "indptr")},
        shape=counts.shape,
        format=np.array(b"csr"),
        terms=np.array(DOCUMENTS.terms),
    )
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.open_account("documents", 1.5, 1e-6)
    arguments = ["fit", "nmf", tmp_path / "counts.npz", "-k", 3, "--epsilon", 1, "--ledger", ledger.path]
    arguments += ["--dataset", "documents", "--output", tmp_path / "out", "--json"]
    found = invoke(*arguments)
    assert found.exit_code == 0, found.exception
    assert ledger.remaining("documents").spent == pytest.approx(1.0, rel=1e-3)
    arguments += ["--overwrite"]
    assert tacit_command(*arguments, "--outliers", 0.5).returncode == 0  # 1.0 twice composes to less than 1.5
    assert tacit_command(*arguments).returncode == 3
    assert len(ledger.history("documents")) == 2


@pytest.mark.slow
def test_an_account_opened_for_a_file_is_charged_by_a_fit_of_that_file(tmp_path):
    np.save(tmp_path / "faces.npy", IMAGES.images)
    path = tmp_path / "ledger.db"
    terms = ["--epsilon", 2, "--delta", 1e-6, "--ledger", path]
    assert invoke("budget", "open", "--data", tmp_path / "faces.npy", *terms).exit_code == 0
    fitted = invoke(
        "fit", "nmf", tmp_path / "faces.npy", "-k", 2, "--epsilon", 1, "--ledger", path, "--output", tmp_path / "o"
    )
    assert fitted.exit_code == 0, fitted.exception
    assert len(Ledger(path).history(tacit.fingerprint(tmp_path / "faces.npy"))) == 1


@pytest.mark.slow
@pytest.mark.parametrize(("method", "steps"), [("rounds", 10), ("moments", 10)])
def test_the_private_learning_curve_is_drawn_beside_the_plain_one(method, steps, tmp_path):
    np.save(tmp_path / "faces.npy", IMAGES.images)
    arguments = ["fit", "nmf", tmp_path / "faces.npy", "-k", 3, "--epsilon", 8, "--method", method, "--json"]
    found = invoke(*arguments, "--output", tmp_path / "out")
    assert found.exit_code == 0, found.exception
    result = json.loads(found.output)
    curves = result["held_out_curves"]
    assert [len(curve) for curve in curves.values()] == [10, steps]
    assert curves["private"][-1] == pytest.approx(result["measures"]["held-out error"])
    assert (len(set(curves["private"])) > 1) == (method == "rounds")
    assert curves["without privacy"][-1] < curves["without privacy"][0]
    assert "Learning curves on held-out rows" in (tmp_path / "out" / "report.html").read_text()


def test_images_in_a_matrix(tmp_path):
    np.save(tmp_path / "faces.npy", IMAGES.images)
    found = invoke("fit", "nmf", tmp_path / "faces.npy", "-k", 3, "--image-shape", "6x6", "--output", tmp_path / "out")
    assert found.exit_code == 0, found.exception
    assert "held-out error" in found.output
    wrong = invoke("fit", "nmf", tmp_path / "faces.npy", "-k", 3, "--image-shape", "6x7", "--output", tmp_path / "two")
    assert "36 pixels" in str(wrong.exception)


@pytest.mark.parametrize(
    "arguments", [["--image-shape", "six"], ["--held-out", "1"], ["--epsilon", "0"], ["--epsilon", "1", "--delta", "2"]]
)
def test_bad_arguments(arguments, tmp_path):
    np.save(tmp_path / "faces.npy", IMAGES.images)
    found = invoke("fit", "nmf", tmp_path / "faces.npy", "-k", 3, *arguments, "--output", tmp_path / "out")
    assert isinstance(found.exception, InvalidInputError)
    assert not (tmp_path / "out").exists()


def test_stems_are_for_texts_only_and_join_words(tmp_path):
    (tmp_path / "texts").mkdir()
    for number in range(40):
        text = ("stars and planets", "star with a planet", "cities and houses", "city house", "trees")[number % 5]
        (tmp_path / "texts" / f"{number}.txt").write_text(text)
    found = invoke("fit", "nmf", tmp_path / "texts", "-k", 2, "--stem", "--output", tmp_path / "out", "--json")
    assert found.exit_code == 0, found.exception
    result = json.loads(found.output)
    assert {"star", "planet", "city"} <= set(str(result).replace("'", " ").split())
    assert "stars" not in str(result)
    assert "c_v" in result["measures"]
    np.save(tmp_path / "faces.npy", IMAGES.images)
    found = invoke("fit", "nmf", tmp_path / "faces.npy", "-k", 2, "--stem", "--output", tmp_path / "other")
    assert "texts for --stem" in str(found.exception)


@pytest.mark.slow
def test_the_fraction_of_clipped_rows_is_said_to_the_holder(tmp_path):
    """With a row norm that half the rows exceed; the model, which may be passed on, does not contain the fraction."""
    np.save(tmp_path / "faces.npy", IMAGES.images)
    norm = float(np.median(np.linalg.norm(IMAGES.images, axis=1)))
    arguments = ["fit", "nmf", tmp_path / "faces.npy", "-k", 3, "--epsilon", 8, "--row-norm", norm]
    found = invoke(*arguments, "--output", tmp_path / "out")
    assert found.exit_code == 0, found.exception
    assert "fraction of rows clipped to the row norm" in found.output
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert 0.3 < result["measures"]["fraction of rows clipped to the row norm"] < 0.7
    assert result["settings"]["row_norm"] == norm
    with np.load(tmp_path / "out" / "model" / "nmf.tacit") as archive:
        assert b"clipped" not in archive["model.json"].tobytes()


@pytest.mark.slow
def test_a_rank_is_chosen_from_a_range_out_of_the_same_budget(tmp_path):
    np.save(tmp_path / "faces.npy", IMAGES.images)
    arguments = ["fit", "nmf", tmp_path / "faces.npy", "--rank", "2-4", "--json", "--output", tmp_path / "out"]
    plain = json.loads(invoke(*arguments).output)
    assert list(plain["held_out_error_by_rank_without_privacy"]) == ["2", "3", "4"]
    found = invoke(*arguments, "--epsilon", 8, "--frontier", "--overwrite")
    assert found.exit_code == 0, found.exception
    result = json.loads(found.output)
    assert 7.5 < result["guarantee"]["epsilon"] <= 8.0
    assert {release["kind"] for release in result["guarantee"]["releases"]} == {"gaussian", "exponential"}
    rank = result["settings"]["n_components"]
    assert tacit.load(tmp_path / "out" / "model" / "nmf.tacit").components_.shape == (rank, 36)
    assert result["frontier_on_synthetic_rows"]["20"] < result["frontier_on_synthetic_rows"]["0.3"]


@pytest.mark.parametrize(
    "arguments",
    [["-k", "4-2"], ["-k", "many"], ["-k", "0"], ["-k", "2-4", "--method", "rounds"], ["-k", "3", "--row-norm", "0"]],
)
def test_bad_ranks_and_norms(arguments, tmp_path):
    np.save(tmp_path / "faces.npy", IMAGES.images)
    found = invoke("fit", "nmf", tmp_path / "faces.npy", "--epsilon", 1, *arguments, "--output", tmp_path / "out")
    assert isinstance(found.exception, InvalidInputError)
    assert not (tmp_path / "out").exists()


def test_missing_data(tmp_path):
    assert "which does not exist" in str(invoke("fit", "nmf", tmp_path / "nothing", "-k", 3).exception)
