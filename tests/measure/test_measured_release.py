"""All measures of one release together, and the verdict in words."""

import json

import numpy as np
import pytest

import tacit.measure.release as module
from tacit.errors import InvalidInputError
from tacit.measure import all_attacks, measure_release
from tacit.measure.attacks import AttackResult, Linkage, Reconstruction
from tacit.measure.classifiers import PanelScore
from tacit.measure.release import Attempts
from tacit.measure.verdict import verdict

GENERATOR = np.random.default_rng(0)
TABLE = GENERATOR.normal(size=(120, 2)) @ GENERATOR.normal(size=(2, 3)) + 0.3 * GENERATOR.normal(size=(120, 3))


def test_distances_do_not_depend_on_units():
    released = TABLE + 0.2 * np.random.default_rng(1).normal(size=TABLE.shape)
    units = np.array([1.0, 1000.0, 0.01])
    plain = measure_release(TABLE, released)
    scaled = measure_release(TABLE * units, released * units)
    for name in ("neighbour overlap (of 10)", "neighbour rank change (of 10)", "correlation measure (CM)"):
        assert scaled.distortion[name] == pytest.approx(plain.distortion[name])
    assert scaled.clustering_accuracy == plain.clustering_accuracy
    assert [one.recovered for one in scaled.attacks] == pytest.approx(
        [one.recovered for one in plain.attacks], abs=1e-6
    )


def test_stages_are_told_and_one_column_is_enough():
    stages = []
    found = measure_release(TABLE[:, :1], TABLE[:, :1], advance=stages.append)
    assert len(stages) == 4
    assert "attribute inference" not in {one.attack for one in found.attacks}
    assert len(all_attacks(TABLE, TABLE)) == len(found.attacks) + 1


def test_larger_tables_are_measured_on_some_rows_and_on_classes_that_have_company(monkeypatch):
    monkeypatch.setattr(module, "ROWS_FOR_USE", 60)
    labels = np.array(["a", "b"])[(TABLE[:, 0] > 0).astype(int)].astype(object)
    labels[[3, 50]] = "rare"
    found = measure_release(TABLE, TABLE, labels, classifiers=["naive-bayes"])
    assert found.panel[0].auc > 0.8


CLASSES = np.array(["a", "b"])[(TABLE[:, 0] > 0).astype(int)]
CCA = "canonical correlation (CCA)"
NEIGHBOURS = ("neighbour overlap (of 10)", "neighbour rank change (of 10)")
ODD = {
    "one column": (TABLE[:, :1], TABLE[:, :1], None, {"attribute inference"}),
    "constant release": (TABLE, np.ones_like(TABLE), CLASSES, set()),
    "one constant released column": (TABLE, TABLE * [1, 0, 1], CLASSES, set()),
    "as many columns as rows": (TABLE[:27].reshape(9, 9), TABLE[1:28].reshape(9, 9), None, {CCA, *NEIGHBOURS}),
    "one class": (TABLE, TABLE, ["a"] * 120, {"classifiers"}),
    "classes of one row": (TABLE, TABLE, np.arange(120), {"classifiers", "120 classes of one row"}),
    "two rare classes": (TABLE, TABLE, [*CLASSES[:118], "x", "y"], {"2 classes of one row"}),
    "four distinct rows": (TABLE[:4].repeat(20, 0), TABLE[:4].repeat(20, 0), None, {"clusters", *NEIGHBOURS}),
}


@pytest.mark.parametrize(("table", "release", "labels", "missed"), ODD.values(), ids=ODD)
def test_odd_tables_leave_something_out_and_keep_the_rest(table, release, labels, missed):
    found = measure_release(table, release, labels, classifiers=["naive-bayes", "svm-sigmoid"])
    assert set(found.left_out) == missed
    assert len(found.attacks) == 7 - ("attribute inference" in missed)
    assert len(found.distortion) == 10 - sum("(" in name for name in missed)
    assert (found.clustering_accuracy is None) == ("clusters" in missed)
    assert len(found.panel) == (0 if labels is None or "classifiers" in missed else 2)
    assert "NaN" not in json.dumps(found.to_dict())
    assert found.verdict


def test_a_column_that_hardly_varies_does_not_spoil_shares_of_variance():
    # the one row that differs may be among those that the attacker knows: the column then has nothing to recover
    table = np.column_stack([TABLE, np.full(120, 0.1)])
    table[7, 3] = 1.0
    released = table + 0.1 * np.random.default_rng(4).normal(size=table.shape)
    for seed in range(12):
        found = {one.attack.split(" from")[0]: one for one in all_attacks(table, released, random_state=seed)}
        assert 0.3 < found["regression"].recovered < 1
        assert found["regression"].estimate.shape[1] == 4


def test_what_is_wrong_is_refused_and_not_left_out():
    for settings, complaint in [
        ({"labels": ["a", "b"]}, "a label for each of the 120 rows"),
        ({"labels": [None] * 120}, "missing labels"),
        ({"n_neighbours": 120}, "k to be below 120"),
        ({"n_clusters": 121}, "at most 120"),
        ({"classifiers": ["oracle"]}, "classifiers to be one of"),
        ({"test_rows": "both"}, "test_rows to be one of"),
        ({"random_state": -1}, "random_state"),
    ]:
        with pytest.raises(InvalidInputError, match=complaint):
            measure_release(TABLE, TABLE, **settings)
    for factor in (1e200, 1e-200):
        with pytest.raises(InvalidInputError, match="in other units"):
            measure_release(factor * TABLE, factor * TABLE)
    with pytest.raises(InvalidInputError, match="at least 2 rows"):
        measure_release(TABLE[:1], TABLE[:1])


def test_attempts_keep_reasons_and_see_what_is_not_finite():
    attempts = Attempts()
    assert attempts.take("fine", lambda: 1.0) == 1.0
    assert attempts.take("nan", lambda: score(float("nan"))) is None
    assert attempts.take("inner", lambda: (linkage(float("inf"), 0.0),)) is None
    assert attempts.take("foreign", lambda: np.linalg.inv(np.zeros((2, 2)))) is None
    assert attempts.left_out["foreign"] == "cannot be computed here: Singular matrix"
    assert list(attempts.left_out) == ["nan", "inner", "foreign"]
    with pytest.raises(ValueError, match="Singular"):
        attempts.take("asked", lambda: np.linalg.inv(np.zeros((2, 2))), asked=True)
    with pytest.raises(TypeError):  # mistakes of ours are not hidden
        attempts.take("broken", lambda: len(3))


def score(auc, before=0.9):
    return PanelScore("tree", 0.1, auc, 0.1, before, "original")


def linkage(share, low):
    top_5 = AttackResult("record linkage", "share", share, 0.05, (low, 1.0), 100)
    return Linkage("record linkage", "fraction of rows found", share, 0.01, (low, 1.0), 100, top_5)


def test_verdicts():
    nothing = linkage(0.01, 0.0)
    assert "keeps its use (mean AUC 0.890 where the original has 0.900)" in verdict(0.5, [score(0.89)], [nothing])
    assert "keeps part of its use" in verdict(1.0, [score(0.82)], [nothing])
    assert "loses much of its use" in verdict(1.0, [score(0.7)], [nothing])
    assert "keeps part of its use (95.0% of the rows stay in their cluster)" in verdict(0.95, [], [nothing])
    assert "nothing beyond chance" in verdict(1.0, [], [nothing])
    assert "leaks: record linkage finds 5.0% of the rows, where guessing finds 1.00%" in verdict(
        1.0, [], [linkage(0.05, 0.02)]
    )
    assert "hides little: record linkage finds 40.0%" in verdict(1.0, [], [linkage(0.4, 0.3)])
    values = Reconstruction("filtering", "fraction of the variance recovered", 0.8, 0.0, (0.7, 0.9), 100)
    assert "hides little: filtering recovers 80% of the variance" in verdict(1.0, [], [linkage(0.4, 0.3), values])
    member = AttackResult("membership", "area under the ROC curve", 0.6, 0.5, (0.55, 0.65), 100)
    assert "no use to keep" in verdict(1.0, [score(0.5, before=0.52)], [nothing])
    assert "could not be measured" in verdict(None, [], [nothing])
    assert "any of the 2 attacks that could be run" in verdict(1.0, [], [nothing, nothing], n_missed=5)
    assert "no attack could be run" in verdict(1.0, [], [], n_missed=7)
    assert "leaks: membership has area under the ROC curve 0.600" in verdict(1.0, [], [nothing, member])
