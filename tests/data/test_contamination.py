import math

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.stats import chisquare, kstest

from tacit.data import contaminate
from tacit.errors import InvalidInputError

# A correct generator fails each test of a distribution with this probability; the seeds are fixed, so it does not.
LEVEL = 0.001


@pytest.fixture
def clean():
    return np.random.default_rng(0).random((300, 50))


@pytest.mark.parametrize(("rows", "entries"), [(0.1, 0.7), (0.5, 0.02), (1.0, 1.0), (0.004, 0.5)])
def test_exactly_the_stated_shares_change_and_nothing_else(clean, rows, entries):
    before = clean.copy()
    dirty = contaminate(clean, rows=rows, entries=entries, clip=None)
    np.testing.assert_array_equal(clean, before)
    np.testing.assert_array_equal(clean != dirty.X, dirty.mask)
    assert len(dirty.rows) == round(rows * 300)
    np.testing.assert_array_equal(dirty.rows, np.flatnonzero(dirty.mask.any(axis=1)))
    assert (dirty.mask[dirty.rows].sum(axis=1) == round(entries * 50)).all()


def test_defaults_are_those_of_the_paper(clean):
    dirty = contaminate(clean)
    assert len(dirty.rows) == 30
    assert dirty.mask.sum() == 30 * 35
    noise = (contaminate(clean, clip=None).X - clean)[dirty.mask]
    assert -1 <= noise.min() < -0.99
    assert 0.99 < noise.max() <= 1


def test_noise_is_uniform_and_added():
    clean = np.full((400, 100), 5.0)
    dirty = contaminate(clean, rows=0.5, low=-0.25, high=2.0)
    assert kstest((dirty.X - clean)[dirty.mask], "uniform", args=(-0.25, 2.25)).pvalue > LEVEL


def test_rows_and_entries_are_drawn_evenly():
    rows, columns = np.zeros(40), np.zeros(20)
    for seed in range(500):
        mask = contaminate(np.ones((40, 20)), entries=0.3, random_state=seed).mask
        rows += mask.any(axis=1)
        columns += mask.sum(axis=0)
    # Drawn without replacement, the counts vary less than the test supposes: it can only accept too much.
    assert chisquare(rows).pvalue > LEVEL
    assert chisquare(columns).pvalue > LEVEL


def test_rows_have_patterns_of_their_own(clean):
    dirty = contaminate(clean)
    assert len(np.unique(dirty.mask[dirty.rows], axis=0)) == len(dirty.rows)


def test_negative_sums_become_zero_unless_told_otherwise():
    zeros = np.zeros((100, 100))
    cut, raw = contaminate(zeros), contaminate(zeros, clip=None)
    np.testing.assert_array_equal(cut.mask, raw.mask)
    np.testing.assert_array_equal(cut.X, np.maximum(raw.X, 0))
    assert 0.4 < (cut.X[cut.mask] == 0).mean() < 0.6
    within = contaminate(zeros + 0.5, clip=(0.0, 1.0)).X
    assert within.min() == 0
    assert within.max() == 1


def test_clean_entries_outside_the_clip_stay():
    clean = np.full((20, 10), -3.0)
    dirty = contaminate(clean)
    assert (dirty.X[~dirty.mask] == -3).all()
    assert (dirty.X[dirty.mask] == 0).all()


def test_same_seed_same_outliers_other_seed_others(clean):
    one, again, other = contaminate(clean), contaminate(clean), contaminate(clean, random_state=1)
    np.testing.assert_array_equal(one.X, again.X)
    assert not np.array_equal(one.mask, other.mask)


@pytest.mark.parametrize(("given", "kept"), [("f4", "f4"), ("f8", "f8"), ("u1", "f8")])
def test_types_of_number(given, kept):
    assert contaminate(np.ones((10, 10), dtype=given)).X.dtype == kept


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"rows": 0}, "rows"),
        ({"rows": 1.5}, "rows"),
        ({"entries": -0.1}, "entries"),
        ({"low": 1.0}, "low < high"),
        ({"high": math.inf}, "low < high"),
        ({"low": math.nan}, "low < high"),
        ({"clip": (1.0, 0.0)}, "clip"),
        ({"random_state": None}, "random_state"),
        ({"X": csr_array(np.ones((10, 10)))}, "toarray"),
        ({"X": np.ones(10)}, "dense matrix"),
        ({"X": [["a", "b"]]}, "dense matrix"),
    ],
)
def test_unusable_input_is_named(change, said):
    arguments = {"X": np.ones((10, 10)), **change}
    with pytest.raises(InvalidInputError, match=said):
        contaminate(arguments.pop("X"), **arguments)
