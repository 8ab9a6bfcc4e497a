"""Correlations: agreement with independent implementations, and the invariances of chapter 7."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ortho_group
from sklearn.cross_decomposition import CCA

from tacit.errors import InvalidInputError
from tacit.measure import canonical_correlation, correlation_measure

SEEDS = st.integers(0, 2**32 - 1)


def tables(seed, n_rows=40, n_columns=3):
    generator = np.random.default_rng(seed)
    before = generator.normal(size=(n_rows, n_columns)) @ generator.normal(size=(n_columns, n_columns))
    return generator, before, before + generator.normal(size=before.shape)


def test_correlation_by_hand():
    before = np.array([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0], [4.0, 4.0]])
    after = np.array([[2.0, 4.0], [4.0, 3.0], [6.0, 2.0], [8.0, 1.0]])
    assert correlation_measure(before, before) == pytest.approx(1)
    assert correlation_measure(before, after) == pytest.approx(0)
    assert correlation_measure(before, -before) == pytest.approx(-1)


@given(SEEDS)
@settings(derandomize=True, deadline=None, max_examples=30)
def test_agreement_with_numpy_and_with_scikit_learn(seed):
    _, before, after = tables(seed)
    expected = np.mean([np.corrcoef(a, b)[0, 1] for a, b in zip(before.T, after.T, strict=True)])
    assert correlation_measure(before, after) == pytest.approx(expected)
    left, right = CCA(n_components=3, max_iter=20_000, tol=1e-12).fit_transform(before, after)
    pairs = [np.corrcoef(a, b)[0, 1] for a, b in zip(left.T, right.T, strict=True)]
    assert canonical_correlation(before, after) == pytest.approx(np.mean(pairs), abs=1e-5)


@given(SEEDS, st.floats(-1e3, 1e3), st.floats(1e-3, 1e3))
@settings(derandomize=True, deadline=None, max_examples=50)
def test_translation_and_scale_change_nothing(seed, shift, factor):
    """Properties (7.2) and (7.11), and Table 7.4: the measures do not depend on the columns' units."""
    generator, before, after = tables(seed)
    factors = factor * generator.uniform(0.5, 2, size=3)
    for metric in (correlation_measure, canonical_correlation):
        assert metric(before, before * factors + shift) == pytest.approx(1, abs=1e-9)
        assert metric(before, after * factors + shift) == pytest.approx(metric(before, after), abs=1e-9)


@given(SEEDS)
@settings(derandomize=True, deadline=None, max_examples=30)
def test_a_rotation_is_seen_column_by_column_but_not_by_all_together(seed):
    _, before, after = tables(seed)
    turn = ortho_group.rvs(3, random_state=seed)
    assert canonical_correlation(before, before @ turn) == pytest.approx(1, abs=1e-9)
    assert canonical_correlation(before, after @ turn) == pytest.approx(canonical_correlation(before, after), abs=1e-9)
    assert correlation_measure(before, before @ turn) < 1 - 1e-6


def test_independent_noise_lowers_the_correlation_as_in_equation_7_8():
    generator = np.random.default_rng(1)
    before = generator.normal(size=(200_000, 2))
    noisy = before + 2 * generator.normal(size=before.shape)
    assert correlation_measure(before, noisy) == pytest.approx(1 / np.sqrt(1 + 4), abs=0.01)


def test_a_release_of_lower_rank_keeps_as_many_directions():
    generator = np.random.default_rng(2)
    before = generator.normal(size=(500, 4))
    after = before[:, :1] @ np.ones((1, 4))
    assert canonical_correlation(before, after) == pytest.approx(1 / 4)
    # the rank of the original counts: two copies of a column are one direction
    doubled = np.column_stack([before[:, 0], before[:, 0], before[:, 1]])
    assert canonical_correlation(doubled, doubled) == pytest.approx(1)


def test_a_column_that_the_release_makes_constant_counts_as_lost():
    generator = np.random.default_rng(3)
    before = generator.normal(size=(50, 2))
    after = before.copy()
    after[:, 1] = 0.1
    assert correlation_measure(before, after) == pytest.approx(0.5)
    assert canonical_correlation(before, after) == pytest.approx(0.5)
    assert canonical_correlation(before, np.full_like(before, 0.1)) == 0


@pytest.mark.parametrize("metric", [correlation_measure, canonical_correlation])
def test_bad_input(metric):
    with pytest.raises(InvalidInputError, match="a single value in column 1"):
        metric([[1.0, 7.0], [2.0, 7.0], [3.0, 7.0]], [[1.0, 1.0], [2.0, 2.0], [3.0, 5.0]])
    with pytest.raises(InvalidInputError, match="at least 2 rows"):
        metric([[1.0]], [[1.0]])
    with pytest.raises(InvalidInputError, match="as original has"):
        metric([[1.0], [2.0], [4.0]], [[1.0], [2.0]])


def test_too_few_rows_for_canonical_correlations():
    with pytest.raises(InvalidInputError, match="more rows than the 3 columns"):
        canonical_correlation(np.eye(3), np.eye(3))
