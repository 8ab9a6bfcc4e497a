"""All measures of one release together, and the verdict in words."""

import numpy as np
import pytest

import tacit.measure.release as module
from tacit.measure import all_attacks, measure_release
from tacit.measure.attacks import Finding, Linkage, Reconstruction
from tacit.measure.panel import PanelScore
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


def score(auc, before=0.9):
    return PanelScore("tree", 0.1, auc, 0.1, before, "original")


def linkage(share, low):
    top_5 = Finding("record linkage", "share", share, 0.05, (low, 1.0), 100)
    return Linkage("record linkage", "share of rows found", share, 0.01, (low, 1.0), 100, top_5)


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
    values = Reconstruction("filtering", "share of the variance recovered", 0.8, 0.0, (0.7, 0.9), 100)
    assert "hides little: filtering recovers 80% of the variance" in verdict(1.0, [], [linkage(0.4, 0.3), values])
    member = Finding("membership", "area under the ROC curve", 0.6, 0.5, (0.55, 0.65), 100)
    assert "leaks: membership has area under the ROC curve 0.600" in verdict(1.0, [], [nothing, member])
