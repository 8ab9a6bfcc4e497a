import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.optimize import minimize
from scipy.stats import chi2_contingency, norm
from sklearn.base import clone

import tacit
from tacit.data import CategoryColumn, NumberColumn, TableSchema
from tacit.errors import BudgetError, InvalidInputError
from tacit.synthetic import PrivateTable
from tacit.synthetic.copula import (
    as_correlation,
    kept_by_clipping,
    normal_scores,
    products_bound,
    score_length,
    to_simplex,
)
from tacit.testing import check_neighbours

ROWS = 4000
GENERATOR = np.random.default_rng(0)
FIRST = GENERATOR.normal(size=ROWS)
TABLE = np.column_stack([FIRST, 0.8 * FIRST + 0.6 * GENERATOR.normal(size=ROWS), GENERATOR.exponential(size=ROWS)])
CLASSES = np.where(FIRST + GENERATOR.normal(size=ROWS) > 0.5, "ill", "well")
FRAME = pl.DataFrame({"a": TABLE[:, 0], "b": TABLE[:, 1], "state": CLASSES, "c": TABLE[:, 2]})
NUMBERS = {"a": NumberColumn(-4, 4), "b": NumberColumn(-4, 4), "c": NumberColumn(0, 8)}
SCHEMA = {**NUMBERS, "state": CategoryColumn(("well", "ill"))}


def private(**settings):
    return PrivateTable(**{"epsilon": 2.0, "schema": SCHEMA, "label": "state", **settings})


def test_without_noise_the_model_is_the_table():
    model = PrivateTable(epsilon=np.inf, schema=dict(enumerate(NUMBERS.values())), bins=40).fit(TABLE)
    assert model.count_ == ROWS
    counts, _ = np.histogram(TABLE[:, 0], bins=40, range=(-4, 4))
    np.testing.assert_allclose(model.marginals_[0, :40], counts / ROWS, atol=1e-12)
    synthetic = model.sample(20000, random_state=0)
    np.testing.assert_allclose(synthetic.mean(axis=0), TABLE.mean(axis=0), atol=0.05)
    np.testing.assert_allclose(synthetic.std(axis=0), TABLE.std(axis=0), rtol=0.05)
    np.testing.assert_allclose(np.corrcoef(synthetic.T), np.corrcoef(TABLE.T), atol=0.06)
    assert not model.guarantee_.holds


def test_the_guarantee_is_for_the_whole_fit_and_names_what_is_public():
    model = private(delta=1e-5).fit(FRAME)
    assert model.guarantee_.holds
    assert model.guarantee_.epsilon <= 2.0
    assert model.guarantee_.unit == "row"
    assert "kinds, bounds, categories" in str(model.guarantee_)
    assert sum(release.count for release in model.guarantee_.releases) >= 2


def test_with_noise_it_is_near_the_table():
    model = private(insecure_seed=1).fit(FRAME)
    synthetic = model.sample(8000, random_state=0)
    assert synthetic.columns == FRAME.columns
    assert abs(model.count_ - ROWS) < 200
    assert abs((synthetic["state"] == "ill").mean() - (CLASSES == "ill").mean()) < 0.05
    assert abs(np.corrcoef(synthetic["a"], synthetic["b"])[0, 1] - 0.8) < 0.15
    for name in ("a", "b", "c"):
        assert abs(synthetic[name].mean() - FRAME[name].mean()) < 0.2
        assert SCHEMA[name].low <= synthetic[name].min() <= synthetic[name].max() <= SCHEMA[name].high
    # the label still goes with the column that it was made from
    ill, well = (synthetic.filter(pl.col("state") == state)["a"].mean() for state in ("ill", "well"))
    assert ill - well > 0.5


def test_synthetic_rows_are_no_rows_of_the_table():
    synthetic = private(epsilon=50.0).fit(FRAME).sample(2000)
    assert not set(synthetic["a"]) & set(FRAME["a"])


def test_categories_keep_their_association():
    generator = np.random.default_rng(1)
    size = generator.integers(3, size=3000)
    colour = np.where(generator.random(3000) < 0.8, size, generator.integers(3, size=3000))
    frame = pd.DataFrame({"size": size, "colour": np.array(["red", "green", "blue"])[colour]})
    model = PrivateTable(
        epsilon=5.0,
        schema={"size": CategoryColumn((0, 1, 2)), "colour": CategoryColumn(("red", "green", "blue"))},
        insecure_seed=0,
    ).fit(frame)
    synthetic = model.sample(3000, random_state=0)
    assert isinstance(synthetic, pd.DataFrame)
    assert set(synthetic["colour"]) == {"red", "green", "blue"}
    before, after = (
        chi2_contingency(pd.crosstab(table["size"], table["colour"])).statistic for table in (frame, synthetic)
    )
    assert after > before / 3


def test_neighbours_with_a_label_are_treated_as_promised():
    data = FRAME.head(200)
    far = pl.DataFrame({"a": [1e9], "b": [-1e9], "state": ["ill"], "c": [0.0]})

    def fit(X):
        model = private(epsilon=30.0, bins=5, insecure_seed=5).fit(X)
        return {name: getattr(model, name) for name in model._released}

    used = [check_neighbours(fit, data, neighbour).largest for neighbour in (data.head(199), pl.concat([data, far]))]
    assert 0.3 < max(used) <= 1


def test_it_is_charged_and_refused(tmp_path):
    ledger = tacit.Ledger(tmp_path / "book.db")
    ledger.open_account("people", epsilon=2.2, delta=1e-5)
    private(delta=1e-6, ledger=ledger, dataset="people").fit(FRAME)
    with pytest.raises(BudgetError):
        private(delta=1e-6, ledger=ledger, dataset="people").fit(FRAME)


def test_a_saved_model_samples_the_same(tmp_path):
    model = private().fit(FRAME)
    model.save(tmp_path / "table.tacit")
    loaded = tacit.load(tmp_path / "table.tacit")
    assert loaded.sample(50, random_state=3).equals(model.sample(50, random_state=3))
    assert loaded.guarantee_.epsilon == model.guarantee_.epsilon
    assert not loaded.sample(50).equals(loaded.sample(50))


def test_one_column_has_no_correlation_to_pay_for():
    model = PrivateTable(epsilon=1.0, schema=NumberColumn(-4, 4)).fit(TABLE[:, :1])
    np.testing.assert_array_equal(model.correlation_, [[1.0]])
    assert model.sample(10).shape == (10, 1)
    assert clone(model).get_params()["schema"] == NumberColumn(-4, 4)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"schema": None}, "a schema: what is public about every column"),
        ({"schema": [(0, 1)] * 4}, "a schema: what is public about every column"),
        ({"schema": {**NUMBERS, "state": ["well", "ill"]}}, "something else for state"),
        ({"schema": {**SCHEMA, "d": NumberColumn(0, 1)}}, "none called d"),
        ({"schema": {name: SCHEMA[name] for name in ("a", "b", "state")}}, "nothing about c"),
        ({"schema": TableSchema(SCHEMA, public=False)}, "a schema that a person has confirmed"),
        ({"schema": {**NUMBERS, "state": NumberColumn(0, 1)}}, "the label's classes"),
        ({"schema": {**NUMBERS, "state": CategoryColumn(("well",))}}, "only declared categories in the column state"),
        ({"schema": {**NUMBERS, "state": CategoryColumn((1, 2))}}, "only declared categories in the column state"),
        ({"label": "sex"}, "label to be a column"),
        ({"bins": 1}, "bins to be an integer of at least 2"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"adjacency": "both"}, "adjacency"),
    ],
)
def test_what_is_not_public_is_refused_before_anything_is_released(settings, complaint):
    model = private(**settings)
    with pytest.raises(InvalidInputError, match=complaint):
        model.fit(FRAME)
    assert not hasattr(model, "guarantee_")


def test_tables_that_cannot_be_modelled():
    with pytest.raises(InvalidInputError, match="finite numbers in the column a"):
        private().fit(FRAME.with_columns(a=pl.lit(np.nan)))
    with pytest.raises(InvalidInputError, match="finite numbers in the column state"):
        private(label=None, schema={**NUMBERS, "state": NumberColumn(0, 1)}).fit(FRAME)
    with pytest.raises(InvalidInputError, match="rows and columns"):
        PrivateTable(schema=NumberColumn(0, 1)).fit(np.zeros(4))
    with pytest.raises(InvalidInputError, match="a column beside the label"):
        private(schema={"state": SCHEMA["state"]}).fit(FRAME.select("state"))
    with pytest.raises(InvalidInputError, match="n_rows"):
        private().fit(FRAME).sample(0)


def test_scores_are_means_of_normal_pieces():
    scores = normal_scores(np.array([0.5, 0.5]))
    np.testing.assert_allclose(scores, [-np.sqrt(2 / np.pi), np.sqrt(2 / np.pi)], atol=1e-3)
    probabilities = np.array([0.1, 0.0, 0.3, 0.6])
    scores = normal_scores(probabilities)
    assert abs(probabilities @ scores) < 1e-3  # their mean is that of the normal law
    assert (np.diff(scores) >= 0).all()
    draws = norm.ppf(np.random.default_rng(0).uniform(0.1, 0.4, size=200_000))
    assert scores[2] == pytest.approx(draws.mean(), abs=0.01)


def test_clipping_keeps_the_share_it_says():
    for width in (2, 10):
        rows = np.random.default_rng(0).normal(size=(200_000, width))
        kept = np.minimum(np.sum(rows**2, axis=1), score_length(width) ** 2).sum() / np.sum(rows**2)
        assert kept_by_clipping(width) == pytest.approx(kept, abs=0.005)


def test_probabilities_are_the_nearest():
    np.testing.assert_allclose(to_simplex(np.array([0.2, 0.8])), [0.2, 0.8])
    np.testing.assert_allclose(to_simplex(np.array([1.2, -0.5, 0.2])), [1.0, 0.0, 0.0], atol=1e-12)
    np.testing.assert_allclose(to_simplex(np.array([-3.0, -3.0])), [0.5, 0.5])
    values = np.random.default_rng(0).normal(size=6)
    found = to_simplex(values)
    assert found.sum() == pytest.approx(1)
    others = np.random.default_rng(1).dirichlet(np.ones(6), size=2000)
    assert (np.linalg.norm(others - values, axis=1) >= np.linalg.norm(found - values) - 1e-9).all()


def test_a_correlation_of_pure_noise_is_nearly_none_and_always_a_correlation():
    generator = np.random.default_rng(0)
    for noise in (1.0, 100.0):
        matrix = as_correlation(generator.normal(size=45) * noise, np.full(45, 20.0), noise, 10)
        np.testing.assert_allclose(np.diag(matrix), 1.0)
        assert np.linalg.eigvalsh(matrix).min() > -1e-9
        assert np.abs(matrix).max() <= 1 + 1e-9
    assert np.abs(as_correlation(np.full(3, 1e-9), np.full(3, 20.0), 1.0, 3) - np.eye(3)).max() == 0


def products(rows):
    upper = np.triu_indices(rows.shape[1], 1)
    return np.einsum("ij,il->ijl", rows, rows)[:, upper[0], upper[1]]


def clipped(rows, length):
    return rows * np.minimum(1.0, length / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300))


@pytest.mark.parametrize("width", [2, 3, 4, 7, 20])
def test_no_two_rows_of_products_are_farther_apart_than_the_bound_says(width):
    generator, length, bound = np.random.default_rng(0), score_length(width), products_bound(width)
    rows = 3 * generator.standard_normal((400, width))
    rows[::2] = np.sign(rows[::2]) * (generator.random((200, width)) < 0.7)  # rows of equal scores and zeros
    rows = clipped(rows * 100, length)
    found = products(rows)
    assert np.linalg.norm(found, axis=1).max() <= bound.norm * (1 + 1e-12)
    apart = np.linalg.norm(found[:, None] - found[None], axis=2)
    assert apart.max() <= bound.change * (1 + 1e-12)

    def negative_distance(flat):
        first, second = products(clipped(flat.reshape(2, width), length))
        return -np.linalg.norm(first - second)

    for _ in range(5):  # look for a worse pair from random starts
        worst = minimize(negative_distance, 10 * generator.standard_normal(2 * width)).fun
        assert -worst <= bound.change * (1 + 1e-9)


@pytest.mark.parametrize("width", [2, 3, 4, 7, 20])
def test_the_bound_of_products_is_attained(width):
    bound, even = products_bound(width), width - width % 2
    first = np.zeros(width)
    first[:even] = score_length(width) / np.sqrt(even)
    second = first.copy()
    second[: even // 2] *= -1
    apart = np.linalg.norm(np.subtract(*products(np.array([first, second]))))
    assert apart == pytest.approx(bound.change, rel=1e-12)
    equal = np.full((1, width), score_length(width) / np.sqrt(width))
    assert np.linalg.norm(products(equal)) == pytest.approx(bound.norm, rel=1e-12)
    assert bound.change < 2 * bound.norm or width == 2


def test_a_replaced_row_uses_most_of_the_bound_and_no_more():
    """Two rows that differ in half of their signs, far out in every column, move the products by most of what is allowed."""
    generator = np.random.default_rng(3)
    base = generator.uniform(-1, 1, size=(300, 8))
    first, second = np.ones((1, 8)), np.repeat([[1.0, -1.0]], 4, axis=1).reshape(1, 8)

    def fit(X):
        model = PrivateTable(
            epsilon=50.0, schema=NumberColumn(-1, 1), bins=4, adjacency="replace-one", insecure_seed=1
        ).fit(X)
        return {name: getattr(model, name) for name in model._released}

    moved = check_neighbours(fit, np.vstack([base, first]), np.vstack([base, second])).moved
    assert max(moved) <= 1
    assert moved[-1] > 0.7
