"""The tables and figures of the two theses are all listed, and the evidence of the claims holds.

`make reproduce-quick` runs each of them in its quick form.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from tacit.measure import rank_position, value_difference
from tacit.reproduce.catalogue import ItemRun, catalogue
from tacit.reproduce.data import DataFolder
from tacit.reproduce.thapa import clusters, hiding

PAPERS = ("ermis", "thapa", "claims")
ITEMS = [entry for entry in catalogue() if entry.paper in PAPERS]
TABLES = {
    "ermis": ["6.1", "6.2", "6.3", "6.4", "6.5", *(f"7.{number}" for number in range(1, 9)), "8.1"],
    "thapa": ["3.2", "3.3", "4.1", "4.2", "4.3", *(f"6.{number}" for number in range(1, 13)), "7.4", "7.5"],
}
FIGURES = {
    "ermis": [
        *("6.3", "6.5", "6.6", "6.7"),
        *(f"7.{number}" for number in range(1, 16)),
        *(f"8.{number}" for number in range(1, 7)),
    ],
    "thapa": [
        *(f"3.{number}" for number in range(1, 9)),
        *(f"4.{number}" for number in range(5, 18)),
        *("5.9", "5.14", "5.15", "5.16", "5.17", "6.2", "6.11", "7.6"),
    ],
}
CLAIMS = {
    "saha-start",
    "mugdho-items",
    "ermis-sampled-zcdp",
    "ermis-clear-factors",
    "ermis-batch-clipping",
    "ermis-geometric-noise",
    "thapa-test-labels",
    "thapa-algorithm-5",
    "tsikhanovich-hidden-sigma",
}


@pytest.mark.parametrize("paper", TABLES)
def test_every_table_and_figure_of_the_thesis_is_listed(paper):
    listed = {name for entry in ITEMS if entry.paper == paper for name in entry.covers}
    wanted = {f"table-{number}" for number in TABLES[paper]} | {f"figure-{number}" for number in FIGURES[paper]}
    assert wanted - listed == set()


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(CLAIMS))
def test_the_evidence_against_a_claim_is_there(name):
    """The first row has what the claim allows, and what was measured, which exceeds it (or, for ratios, equals the secret)."""
    entry = next(entry for entry in ITEMS if (entry.paper, entry.name) == ("claims", name))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = [row for table in entry.run(ItemRun(DataFolder(), repetitions=1)).tables for row in table.rows]
    if name == "tsikhanovich-hidden-sigma":
        assert all(row.mean == pytest.approx(row.paper, rel=1e-6) for row in rows)
    else:
        assert any(row.verdict == "worse" for row in rows)


@pytest.mark.parametrize("name", ["figure-7.7", "figure-8.2"])
def test_the_quick_form_has_the_printed_numbers(name):
    entry = next(entry for entry in ITEMS if (entry.paper, entry.name) == ("ermis", name))
    outcome = entry.run(ItemRun(DataFolder(), quick=True, repetitions=1))
    assert any(row.paper is not None for row in outcome.tables[0].rows)


@pytest.mark.parametrize("line", [line for line in clusters.TABLE_4_2 if line.method in ("RD", "ND")], ids=str)
def test_noise_with_a_mean_has_the_printed_distortion_and_ranks(line):
    A = np.random.default_rng(0).random((208, 20))
    released = clusters._noise_with_mean(A, line, seed=1)
    assert value_difference(A, released) == pytest.approx(line.vd, rel=1e-6)
    assert rank_position(A, released) == pytest.approx(line.rp, rel=0.02)


def test_rows_go_to_named_clusters_if_columns_have_unit_length():
    """Algorithm 2 as printed weighs |A - HW|^2 against |H - C|^2, so the scale of A decides whether any row moves."""
    draw = np.random.default_rng(0)
    A = np.abs(draw.normal(size=(90, 4)) + np.repeat([[20, 2, 2, 2], [2, 20, 2, 2], [2, 2, 20, 2]], 30, axis=0))
    task = hiding._Task(A, 3, named=5, anywhere=0, seed=0)
    assert np.linalg.norm(task.A, axis=0) == pytest.approx(1)
    assert task.iterations(0.5, 50, seed=0) < 50


def test_what_holds_is_said_to_hold():
    entry = next(entry for entry in ITEMS if (entry.paper, entry.name) == ("claims", "what-holds"))
    assert all(row.mean <= row.paper for table in entry.run(ItemRun(DataFolder())).tables for row in table.rows)
