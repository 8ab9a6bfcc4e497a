"""The functions behind the commands, called as in a notebook."""

import json
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest

import tacit
from tacit.data import make_coupled, make_images, make_ratings
from tacit.errors import InvalidInputError, PrivacyWarning
from tacit.privacy import Ledger
from tacit.report import (
    compare_coupled,
    compare_networks,
    compare_nmf,
    compare_recommenders,
    demonstrate,
    fit_components,
)

IMAGES = make_images(600, side=6, n_parts=3).images / 2
MADE = make_ratings(300, 20, ratings_per_user=8, random_state=3)
RATINGS = pl.DataFrame({"user": MADE.users, "item": MADE.items, "rating": MADE.ratings})


@pytest.fixture(scope="module")
def private_nmf():
    return compare_nmf(IMAGES, 3, epsilon=2.0, image_shape=(6, 6))


def shown(result):
    html = result._repr_html_()
    assert html.startswith("<iframe srcdoc=")
    return html


@pytest.mark.slow
def test_a_notebook_gets_models_measures_curves_and_the_guarantee(private_nmf):
    assert private_nmf.guarantee is private_nmf.model.guarantee_
    assert private_nmf.guarantee.epsilon <= 2
    assert private_nmf.plain.components_.shape == private_nmf.model.components_.shape == (3, 36)
    assert private_nmf.measures["held-out error"] > private_nmf.measures["held-out error without privacy"]
    assert [len(curve) for curve in private_nmf.curves.values()] == [10, 10]
    assert "Parts" in shown(private_nmf)


def test_a_saved_result_is_the_folder_of_the_command(private_nmf, tmp_path):
    private_nmf.save(tmp_path / "out")
    assert np.array_equal(
        tacit.load(tmp_path / "out" / "model" / "nmf.tacit").components_, private_nmf.model.components_
    )
    assert json.loads((tmp_path / "out" / "result.json").read_text()) == private_nmf.summary
    assert (tmp_path / "out" / "report.html").read_text() == private_nmf.report.html()
    assert sorted(file.name for file in (tmp_path / "out").rglob("*") if file.is_file()) == [
        "nmf.tacit",
        "report.html",
        "result.json",
    ]
    with pytest.raises(InvalidInputError, match="earlier result"):
        private_nmf.save(tmp_path / "out")
    private_nmf.save(tmp_path / "out", overwrite=True)


def test_a_model_is_saved_even_if_its_page_cannot_be_drawn(private_nmf, tmp_path, monkeypatch):
    def broken(self, report):
        raise RuntimeError("no fonts")

    found = compare_nmf(IMAGES, 2, epsilon=2.0)
    monkeypatch.setattr(type(found), "draw", broken)
    with pytest.raises(RuntimeError, match="no fonts"):
        found.save(tmp_path / "out")
    assert tacit.load(tmp_path / "out" / "model" / "nmf.tacit").components_.shape == (2, 36)


def test_values_and_page_say_who_they_are_for(private_nmf):
    assert private_nmf.summary["notice"].startswith("For the holder of the data only")
    assert "Pass on the folder model/" in private_nmf.summary["notice"]
    page = re.sub("</?strong>", "", private_nmf.report.html())
    assert private_nmf.summary["notice"] in page
    plain = fit_components(IMAGES, 2)
    assert "do not pass it on" in plain.summary["notice"]


def test_what_can_fail_is_tried_before_the_charge(tmp_path, monkeypatch):
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.open_account("images", 2.0, 1e-6)

    def broken(*_):
        raise RuntimeError("measuring fails")

    monkeypatch.setattr("tacit.report.nmf.held_out_error", broken)
    with pytest.raises(RuntimeError, match="measuring fails"):
        compare_nmf(IMAGES, 3, epsilon=1.0, ledger=ledger, dataset="images")
    assert ledger.history("images") == []


def test_without_epsilon_the_split_repeats_and_there_is_no_private_fit():
    first, again = (compare_nmf(IMAGES, 3, random_state=5) for _ in range(2))
    assert first.model is first.plain
    assert first.summary == again.summary
    assert first.curves == {}
    assert not first.guarantee.holds


@pytest.mark.slow
def test_recommenders(tmp_path):
    found = compare_recommenders(
        pd.DataFrame(RATINGS.to_dict(as_series=False)), 3, epsilon=8.0, catalogue=range(20), other_epsilons=(4.0,)
    )
    assert set(found.measures) == {"private", "without privacy", "a user's own mean"}
    assert sorted(found.curves) == [4.0, 8.0]
    assert found.curves[8.0] == found.measures["private"]["rmse"]
    assert {len(groups) for groups in found.by_popularity.values()} == {5}
    assert "What privacy costs" in shown(found)
    found.save(tmp_path)
    assert tacit.load(tmp_path / "model" / "recommender.tacit").guarantee_.unit == "user"


def test_a_private_recommender_needs_a_catalogue_and_frames_their_columns():
    with pytest.raises(InvalidInputError, match="a catalogue of all items"):
        compare_recommenders(RATINGS, 3, epsilon=8.0)
    with pytest.raises(InvalidInputError, match="columns user, item and rating"):
        compare_recommenders(RATINGS.rename({"rating": "stars"}), 3)
    with pytest.raises(InvalidInputError, match="a data frame"):
        compare_recommenders([[1, 2, 3]], 3)


@pytest.mark.parametrize("kind", ["svd", "pca"])
def test_components(kind):
    found = fit_components(IMAGES, 2, kind=kind, terms=[f"pixel {place}" for place in range(36)])
    assert 0.5 < found.measures["fraction explained, held out"] <= found.measures["fraction explained"] + 0.1
    assert "pixel" in shown(found)
    hidden = fit_components(IMAGES, 2, kind=kind, hide_singular_values=True)
    assert "singular_values" not in hidden.summary
    assert "Singular values" not in hidden.report.html()


@pytest.mark.slow
def test_coupled_relations():
    data = make_coupled(mean_count=1.0, random_state=4)
    relations = [
        tacit.Relation(data.tensor, "ir,jr,kr->ijk", ("user", "place", "activity"), name="visits"),
        tacit.Relation(data.features, "jr,fr->jf", ("place", "feature"), name="about"),
    ]
    found = compare_coupled(relations, 3, names={"activity": list("abcdef")}, max_iter=30)
    assert set(found.summary["top"]) == {"activity"}
    assert set(found.measures["about"]) == {"coupled", "alone", "constant"}
    assert "Held-out cells" in shown(found)
    assert compare_coupled(relations, 3, held_out=0, max_iter=10).measures == {}
    with pytest.raises(InvalidInputError, match="'most'"):
        compare_coupled(relations, 3, most=3)


@pytest.mark.slow
def test_networks():
    pytest.importorskip("torch", reason="torch is not installed")
    random = np.random.default_rng(0)
    rows = random.random((400, 2))
    labels = np.where(rows[:, 0] > 0.5, "high", "low")
    settings = {"hidden": (), "epochs": 2.0, "sampling_rate": 0.5, "delta": 1e-4}
    stages = []
    found = compare_networks(rows, labels, classes=["low", "high"], epsilon=8.0, progress=stages.append, **settings)
    assert found.measures["accuracy without privacy"] > 0.6
    assert found.summary["settings"]["steps"] == len(found.curves["private"]) == 4
    assert stages[0] == "training without privacy, to compare: step 1 of 4"
    assert "Calibration" in shown(found)
    with pytest.raises(InvalidInputError, match="the classes for a private fit"):
        compare_networks(rows, labels, epsilon=8.0, **settings)
    numbers = compare_networks(rows, rows[:, 0], target_range=(0, 1), **settings)
    assert "Predictions" in shown(numbers)
    with pytest.raises(InvalidInputError, match="labels that are numbers"):
        compare_networks(rows, labels, target_range=(0, 1), **settings)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [None, 4.0])
def test_nothing_held_out_is_no_failure(epsilon):
    """With few rows, possibly none is held out; a private fit must not fail for this after the charge."""
    found = compare_nmf(IMAGES[:50], 2, epsilon=epsilon, held_out=1e-9)
    assert "held-out error" not in found.measures
    assert found.report.html()
    rated = compare_recommenders(
        RATINGS, 2, epsilon=epsilon, catalogue=range(20), held_out=1e-12, other_epsilons=(1.0,)
    )
    assert rated.measures == {}
    assert rated.report.html()


@pytest.mark.slow
def test_the_demonstration_compares_with_the_truth(tmp_path):
    found = demonstrate(Ledger(tmp_path / "ledger.db"), n_images=400)
    assert found.measures["without privacy"] > found.curves[0.1]
    assert found.ledger_entries == 2
    assert "The images are synthetic" in shown(found)


def test_a_frontier_that_fails_does_not_lose_a_model_that_was_paid_for(monkeypatch, tmp_path):
    def broken(*_, **__):
        raise ValueError("4711")

    monkeypatch.setattr("tacit.report.synthetic_frontier.synthetic_parts", broken)
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.open_account("rows", epsilon=2.0, delta=1e-6)
    with pytest.warns(PrivacyWarning, match="could not be drawn") as caught:
        found = compare_nmf(IMAGES[:200], 2, epsilon=1.0, frontier=True, ledger=ledger, dataset="rows")
    assert found.frontier is None
    assert found.model.guarantee_.holds
    assert len(ledger.history("rows")) == 1
    assert not any("4711" in str(one.message) for one in caught)
