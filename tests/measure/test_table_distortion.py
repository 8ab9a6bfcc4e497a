"""Values and ranks: the formulas by hand, their invariances, and the examples of the thesis."""

import numpy as np
import pandas
import polars
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import rankdata

from tacit.errors import InvalidInputError
from tacit.measure import (
    attribute_rank_change,
    attribute_rank_maintenance,
    rank_maintenance,
    rank_position,
    value_difference,
)

METRICS = (value_difference, rank_position, rank_maintenance, attribute_rank_change, attribute_rank_maintenance)
# Whole numbers, so that sums and products below are exact and equal values stay equal.
TABLES = st.tuples(st.integers(2, 8), st.integers(1, 5)).flatmap(
    lambda shape: st.tuples(*[arrays(np.float64, shape, elements=st.integers(-50, 50).map(float)) for _ in range(2)])
)
HEIGHT_AND_SALARY = np.array([[172.0, 45_000.0], [190.0, 55_000.0], [185.0, 60_000.0]])


def test_value_difference_by_hand():
    assert value_difference([[3.0, 4.0]], [[3.0, 0.0]]) == pytest.approx(4 / 5)
    assert value_difference([[1.0], [2.0], [2.0]], [[2.0], [2.0], [2.0]]) == pytest.approx(1 / 3)


def test_a_translation_has_the_value_difference_of_the_thesis():
    """Section 7.1: 100 added to each of 4 x 4 values; 400 over the norm of the table."""
    table = np.array(
        [
            [4.6650, 2.4613, 2.2746, 2.3070],
            [1.2332, 2.4494, 0.5590, 2.8891],
            [4.8532, 2.3264, 4.0698, 2.0717],
            [1.3951, 4.0674, 4.6456, 2.0602],
        ]
    )
    assert value_difference(table, table + 100) == pytest.approx(400 / np.sqrt((table**2).sum()))


def test_ranks_do_not_see_the_perturbation_of_table_7_3():
    changed = np.array([[160.0, 47_231.0], [200.0, 53_222.0], [195.0, 65_452.0]])
    assert rank_position(HEIGHT_AND_SALARY, changed) == 0
    assert rank_maintenance(HEIGHT_AND_SALARY, changed) == 1
    assert value_difference(HEIGHT_AND_SALARY, changed) > 0.06


def test_ranks_by_hand():
    before = [[1.0, 5.0], [2.0, 6.0], [3.0, 7.0], [4.0, 8.0]]
    after = [[4.0, 5.0], [3.0, 6.0], [2.0, 8.0], [1.0, 7.0]]
    # moved by 3, 1, 1, 3 in one column and by 0, 0, 1, 1 in the other
    assert rank_position(before, after) == 10 / 8
    assert rank_maintenance(before, after) == 2 / 8
    # means 2.5 and 6.5 before, the same after
    assert attribute_rank_change(before, after) == 0
    assert attribute_rank_change([[1.0, 2.0, 9.0]], [[5.0, 4.0, 0.0]]) == (2 + 0 + 2) / 3
    assert attribute_rank_maintenance([[1.0, 2.0, 9.0]], [[5.0, 4.0, 0.0]]) == 1 / 3


def test_equal_values_share_their_places():
    # places 1.5, 1.5, 3 before and 1, 2, 3 after
    assert rank_position([[7.0], [7.0], [8.0]], [[1.0], [2.0], [3.0]]) == pytest.approx(1 / 3)
    assert rank_maintenance([[7.0], [7.0], [8.0]], [[1.0], [2.0], [3.0]]) == pytest.approx(1 / 3)


@pytest.mark.slow
@given(TABLES)
@settings(deadline=None)
def test_the_definitions(tables):
    before, after = tables
    if before.any():
        expected = np.sqrt(((before - after) ** 2).sum() / (before**2).sum())
        assert value_difference(before, after) == pytest.approx(expected)
    moves = [np.abs(rankdata(a) - rankdata(b)) for a, b in zip(before.T, after.T, strict=True)]
    assert rank_position(before, after) == pytest.approx(np.mean(moves))
    assert rank_maintenance(before, after) == pytest.approx(np.mean(np.array(moves) == 0))
    assert 0 <= rank_position(before, after) <= len(before) / 2
    assert attribute_rank_change(before, after) <= before.shape[1] / 2


@pytest.mark.slow
@given(TABLES, st.integers(-20, 20), st.integers(1, 9))
@settings(deadline=None)
def test_ranks_are_invariant_to_translation_and_scale(tables, shift, factor):
    before, after = tables
    for metric in METRICS[1:]:
        assert metric(before, factor * after + shift) == metric(before, after)
        assert metric(factor * before + shift, after) == metric(before, after)


@pytest.mark.slow
@given(TABLES, st.randoms(use_true_random=False))
@settings(deadline=None)
def test_the_order_of_the_rows_does_not_count(tables, random):
    before, after = tables
    order = random.sample(range(len(before)), len(before))
    for metric in METRICS if before.any() else METRICS[1:]:
        assert metric(before[order], after[order]) == pytest.approx(metric(before, after))


@pytest.mark.slow
@given(TABLES)
@settings(deadline=None)
def test_an_unchanged_table(tables):
    before = tables[0]
    for metric, value in zip(METRICS[1:], (0, 1, 0, 1), strict=True):
        assert metric(before, before) == value
    if before.any():
        assert value_difference(before, before) == 0


def test_value_difference_is_in_range_for_extreme_numbers():
    for size in (1e-200, 1e200):
        assert value_difference([[3.0 * size, 4.0 * size]], [[3.0 * size, 0.0]]) == pytest.approx(0.8)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("library", [pandas, polars])
def test_data_frames_are_paired_by_name(metric, library):
    generator = np.random.default_rng(0)
    before, after = generator.normal(size=(2, 6, 2))
    expected = metric(before, after)
    frame = library.DataFrame({"a": before[:, 0], "b": before[:, 1]})
    turned = library.DataFrame({"b": after[:, 1], "a": after[:, 0]})
    assert metric(frame, turned) == pytest.approx(expected)
    assert metric(frame, after) == pytest.approx(expected)


@pytest.mark.parametrize("metric", METRICS)
def test_bad_input_is_named(metric):
    frame = polars.DataFrame({"age": [1.0, 2.0, 3.0], "town": ["a", "b", "c"]})
    with pytest.raises(InvalidInputError, match="other kinds in town"):
        metric(frame, frame)
    gaps = polars.DataFrame({"age": [1.0, None, None], "pay": [1.0, 2.0, None]})
    with pytest.raises(InvalidInputError, match="missing values in age, pay"):
        metric(gaps, gaps)
    with pytest.raises(InvalidInputError, match="NaN or infinity"):
        metric([[1.0], [np.nan]], [[1.0], [2.0]])
    with pytest.raises(InvalidInputError, match="3 rows and 1 columns, as original has"):
        metric([[1.0], [2.0], [3.0]], [[1.0], [2.0]])
    with pytest.raises(InvalidInputError, match="without b; with c"):
        metric(polars.DataFrame({"a": [1], "b": [2]}), polars.DataFrame({"a": [1], "c": [2]}))
    with pytest.raises(InvalidInputError, match="matrix of numbers"):
        metric([["x"]], [["y"]])


def test_one_row_and_zeros():
    for metric in (rank_position, rank_maintenance):
        with pytest.raises(InvalidInputError, match="at least 2 rows"):
            metric([[1.0, 2.0]], [[1.0, 2.0]])
    with pytest.raises(InvalidInputError, match="zeros only"):
        value_difference([[0.0]], [[1.0]])
