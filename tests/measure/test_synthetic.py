"""Synthetic rows beside real ones: distances with known values, classifiers, and membership."""

import numpy as np
import polars as pl
import pytest

from tacit.errors import InvalidInputError
from tacit.measure.synthetic import measure_synthetic

GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=2000)
REAL = pl.DataFrame({"x": X, "sign": np.where(X > 0, "+", "-"), "flag": GENERATOR.choice(["a", "b"], size=2000)})


def test_a_table_is_at_no_distance_from_itself():
    found = measure_synthetic(REAL, REAL.sample(fraction=1.0, shuffle=True, seed=1))
    assert set(found.columns.values()) == {0.0}
    assert list(found.pairs) == ["x, sign", "x, flag", "sign, flag"]
    assert found.mean_pair == 0.0


def test_distances_are_total_variations():
    half = REAL.with_columns(flag=pl.lit("a"))
    share = (REAL["flag"] == "b").mean()
    found = measure_synthetic(REAL, half)
    assert found.columns == {"x": 0.0, "sign": 0.0, "flag": pytest.approx(share)}
    # columns as they are, and the pair torn apart: half of the mass is where it cannot be
    torn = REAL.with_columns(sign=REAL["sign"].sample(fraction=1.0, shuffle=True, seed=2))
    assert measure_synthetic(REAL, torn).pairs["x, sign"] == pytest.approx(0.5, abs=0.04)


def test_missing_values_are_a_value_and_numbers_beyond_the_real_ones_count():
    real = pl.DataFrame({"x": [1.0, 2.0, None, None]})
    assert measure_synthetic(real, pl.DataFrame({"x": [1.0, 2.0, 1.0, 2.0]})).columns["x"] == pytest.approx(0.5)
    assert measure_synthetic(real, pl.DataFrame({"x": [9.0, 9.0, None, None]})).columns["x"] == pytest.approx(0.25)


def test_classifiers_are_tested_on_real_rows():
    found = measure_synthetic(REAL, REAL.sample(fraction=0.5, seed=1), label="sign")
    assert min(found.classifiers["logistic-l1"]) > 0.99
    turned = REAL.with_columns(x=-pl.col("x"))
    assert measure_synthetic(REAL, turned, label="sign").classifiers["logistic-l1"][1] < 0.01


def test_membership_is_seen_where_rows_are_copied_and_not_where_they_are_drawn():
    generator = np.random.default_rng(3)
    tables = [pl.DataFrame(generator.normal(size=(400, 4)), schema=list("abcd")) for _ in range(3)]
    copied = measure_synthetic(tables[0], tables[0], outsiders=tables[1]).attack
    drawn = measure_synthetic(tables[0], tables[2], outsiders=tables[1]).attack
    assert copied.recovered > 0.8
    assert drawn.recovered < 0.56


def test_tables_that_cannot_be_compared_are_refused():
    with pytest.raises(InvalidInputError, match="columns are columns of the original"):
        measure_synthetic(REAL, REAL.with_columns(shoe=pl.lit(1)))
    with pytest.raises(InvalidInputError, match="numbers in the column x of both tables"):
        measure_synthetic(REAL, REAL.with_columns(x=pl.lit("many")))
    with pytest.raises(InvalidInputError, match="label"):
        measure_synthetic(REAL, REAL, label="shoe")
    with pytest.raises(InvalidInputError, match="data frame with rows"):
        measure_synthetic(REAL, REAL.head(0))
