"""The private table: what it keeps, what it refuses, and that a row moves its sums by no more than it says."""

import itertools

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import chi2_contingency
from sklearn.base import clone

import tacit
from tacit.channel import Clear, Total, run_together
from tacit.data import (
    AtMost,
    CategoryColumn,
    DateColumn,
    Determines,
    Implies,
    IntegerColumn,
    NumberColumn,
    TableSchema,
)
from tacit.errors import BudgetError, InvalidInputError
from tacit.synthetic import PrivateTable
from tacit.synthetic.measured_tables import column_weights, pair_weights, pairs_of
from tacit.synthetic.pairs import table_program, to_simplex
from tacit.testing import check_neighbours

ROWS = 4000
GENERATOR = np.random.default_rng(0)
FIRST = GENERATOR.normal(size=ROWS)
TABLE = np.column_stack([FIRST, 0.8 * FIRST + 0.6 * GENERATOR.normal(size=ROWS), GENERATOR.exponential(size=ROWS)])
CLASSES = np.where(FIRST + GENERATOR.normal(size=ROWS) > 0.5, "ill", "well")
FRAME = pl.DataFrame({"a": TABLE[:, 0], "b": TABLE[:, 1], "state": CLASSES, "c": TABLE[:, 2]})
NUMBERS = {"a": NumberColumn(-4, 4), "b": NumberColumn(-4, 4), "c": NumberColumn(0, 8)}
SCHEMA = {**NUMBERS, "state": CategoryColumn(("well", "ill"))}

TOWNS = np.array(["Ulm", "Bonn", "Graz"])
HOUSEHOLD = GENERATOR.choice(["husband", "wife", "single"], size=ROWS)
BEGIN = np.datetime64("2020-01-01") + GENERATOR.integers(0, 900, size=ROWS)
TOWN = GENERATOR.choice(TOWNS, size=ROWS)
PEOPLE = pl.DataFrame(
    {
        "person": GENERATOR.integers(0, 1500, size=ROWS),
        "role": HOUSEHOLD,
        "sex": np.where(
            HOUSEHOLD == "husband", "m", np.where(HOUSEHOLD == "wife", "f", GENERATOR.choice(["m", "f"], size=ROWS))
        ),
        "begin": BEGIN,
        "end": BEGIN + GENERATOR.integers(0, 90, size=ROWS),
        "town": TOWN,
        "country": np.where(TOWN == "Graz", "AT", "DE"),
        "paid": np.where(GENERATOR.random(ROWS) < 0.7, 0.0, np.round(GENERATOR.lognormal(6, 1, size=ROWS), 2)),
        "age": pl.Series([None if age > 80 else age for age in GENERATOR.integers(18, 90, size=ROWS).tolist()]),
    }
)
PEOPLE_SCHEMA = TableSchema(
    {
        "role": CategoryColumn(("husband", "wife", "single")),
        "sex": CategoryColumn(("m", "f")),
        "begin": DateColumn("2019-01-01", "2024-12-31"),
        "end": DateColumn("2019-01-01", "2024-12-31"),
        "town": CategoryColumn(tuple(TOWNS.tolist())),
        "country": CategoryColumn(("DE", "AT")),
        "paid": NumberColumn(0, 100_000, decimals=2),
        "age": IntegerColumn(0, 120, missing=True),
    },
    constraints=(
        AtMost("begin", "end"),
        Implies("role", "sex", "husband", ("m",)),
        Implies("role", "sex", "wife", ("f",)),
        Determines("town", "country"),
    ),
)


def private(**settings):
    return PrivateTable(**{"epsilon": 2.0, "schema": SCHEMA, "label": "state", **settings})


@pytest.fixture(scope="module")
def people():
    model = PrivateTable(epsilon=1.0, schema=PEOPLE_SCHEMA, unit_column="person", max_rows_per_unit=2, insecure_seed=2)
    return model.fit(PEOPLE)


def two_way_distance(one, other):
    """Mean total variation of the tables of all pairs of columns; numbers in tenths of the first table's rows."""
    coded = []
    for table in (one, other):
        columns = {}
        for name in one.columns:
            if one[name].dtype.is_numeric():
                cuts = np.unique(np.quantile(one[name].to_numpy(), np.linspace(0.1, 0.9, 9)))
                columns[name] = np.digitize(table[name].to_numpy(), cuts)
            else:
                columns[name] = table[name].to_numpy()
        coded.append(columns)
    distances = []
    for pair in itertools.combinations(one.columns, 2):
        shares = [pl.DataFrame({n: c[n] for n in pair}).group_by(pair).len() for c in coded]
        both = shares[0].join(shares[1], on=pair, how="full", coalesce=True).fill_null(0)
        distances.append(
            0.5 * np.abs(both["len"] / both["len"].sum() - both["len_right"] / both["len_right"].sum()).sum()
        )
    return float(np.mean(distances))


@pytest.mark.slow
def test_without_noise_the_pair_tables_are_those_of_the_table():
    model = private(epsilon=np.inf, label=None).fit(FRAME)
    assert model.count_ == pytest.approx(ROWS)
    assert not model.guarantee_.holds
    sizes = model._sizes()
    edges = np.concatenate([[0], np.cumsum(sizes)])
    bins = [model.bins_[: SCHEMA["a"].n_cells], model.bins_[SCHEMA["a"].n_cells :][: SCHEMA["b"].n_cells]]
    codes = [part[SCHEMA[name].cells(FRAME[name].to_numpy(), name)] for name, part in zip("ab", bins, strict=True)]
    counted = np.zeros((sizes[0], sizes[1]))
    np.add.at(counted, tuple(codes), 1 / ROWS)
    np.testing.assert_allclose(model.tables_[: edges[1], edges[1] : edges[2]], counted, atol=1e-12)
    synthetic = model.sample(8000, random_state=0)
    assert two_way_distance(FRAME, synthetic) < 0.03  # 0.08 for independent columns, 0.035 for 4,000 rows drawn anew
    for name in ("a", "b", "c"):
        assert synthetic[name].mean() == pytest.approx(FRAME[name].mean(), abs=0.03)
        assert synthetic[name].std() == pytest.approx(FRAME[name].std(), rel=0.05)
    numbers = synthetic.select("a", "b", "c").to_numpy()
    np.testing.assert_allclose(np.corrcoef(numbers.T), np.corrcoef(TABLE.T), atol=0.06)


@pytest.mark.slow
def test_the_guarantee_is_for_the_whole_fit_and_names_what_is_public():
    model = private(delta=1e-5).fit(FRAME)
    assert model.guarantee_.holds
    assert model.guarantee_.epsilon <= 2.0
    assert model.guarantee_.unit == "row"
    assert "kinds, bounds, categories" in str(model.guarantee_)
    assert sum(release.count for release in model.guarantee_.releases) == 3  # cells, pairs, triples by the label


@pytest.mark.slow
def test_with_noise_it_is_near_the_table():
    model = private(insecure_seed=1).fit(FRAME)
    synthetic = model.sample(8000, random_state=0)
    assert synthetic.columns == FRAME.columns
    assert abs(model.count_ - ROWS) < 200
    assert two_way_distance(FRAME, synthetic) < 0.06
    assert abs((synthetic["state"] == "ill").mean() - (CLASSES == "ill").mean()) < 0.05
    assert abs(np.corrcoef(synthetic["a"], synthetic["b"])[0, 1] - 0.8) < 0.15
    for name in ("a", "b", "c"):
        assert SCHEMA[name].low <= synthetic[name].min() <= synthetic[name].max() <= SCHEMA[name].high
    # the label is still correlated with the column that it was computed from
    ill, well = (synthetic.filter(pl.col("state") == state)["a"].mean() for state in ("ill", "well"))
    assert ill - well > 0.5


@pytest.mark.slow
def test_a_relation_that_is_not_monotone_is_kept():
    """The square of a column: no correlation, and not to be had from one."""
    generator = np.random.default_rng(5)
    x = generator.uniform(-1, 1, size=6000)
    model = PrivateTable(epsilon=3.0, schema=NumberColumn(-1, 1), insecure_seed=0).fit(np.column_stack([x, x**2]))
    synthetic = model.sample(4000, random_state=0)
    assert abs(np.corrcoef(synthetic.T)[0, 1]) < 0.1
    assert np.corrcoef(synthetic[:, 0] ** 2, synthetic[:, 1])[0, 1] > 0.9


@pytest.mark.slow
def test_a_column_can_be_predicted_that_nobody_named():
    """Each column given the others, by pairs alone: the parity of neighbours does not help, additive effects do."""
    generator = np.random.default_rng(6)
    flags = generator.integers(2, size=(8000, 5))
    score = flags @ np.array([1.5, 1.0, -1.0, 0.5, 0.0])
    last = (generator.random(8000) < 1 / (1 + np.exp(-(score - score.mean())))).astype(int)
    data = np.column_stack([flags, last])
    model = PrivateTable(epsilon=3.0, schema=CategoryColumn((0, 1)), insecure_seed=0).fit(data)
    drawn = model.sample(8000, random_state=0)
    slopes = [
        np.linalg.lstsq(np.column_stack([t[:, :5], np.ones(8000)]), t[:, 5], rcond=None)[0] for t in (data, drawn)
    ]
    np.testing.assert_allclose(slopes[1], slopes[0], atol=0.05)


@pytest.mark.slow
@pytest.mark.slow
@pytest.mark.parametrize("label", [None, "sign"])
def test_a_class_that_only_two_columns_together_tell_is_kept(label, tmp_path):
    """Whether two numbers have the same sign: no pair of the three columns depends on each other."""
    numbers = np.random.default_rng(4).normal(size=(6000, 2))
    sign = np.where(numbers.prod(axis=1) > 0, "same", "other")
    frame = pl.DataFrame({"a": numbers[:, 0], "b": numbers[:, 1], "sign": sign})
    schema = {"a": NumberColumn(-4, 4), "b": NumberColumn(-4, 4), "sign": CategoryColumn(("same", "other"))}
    model = PrivateTable(epsilon=3.0, schema=schema, label=label).fit(frame)
    drawn = model.sample(4000, random_state=0)
    agree = (drawn["a"] * drawn["b"] > 0) == (drawn["sign"] == "same")
    assert agree.mean() > 0.8  # 0.5 from pairs alone
    given = model.sample(500, given={"sign": "same"}, random_state=0)
    assert (given["a"] * given["b"] > 0).mean() > 0.8
    model.save(tmp_path / "model.tacit")
    assert tacit.load(tmp_path / "model.tacit").sample(4000, random_state=0).equals(drawn)


def test_triples_that_do_not_pay_leave_their_budget_to_the_pairs():
    cells = np.random.default_rng(0).integers(0, 2, size=(300, 4))
    specs = [*[IntegerColumn(0, 9)] * 3, CategoryColumn(("x", "y"))]
    answers = {}

    def run(pays):
        program, asked = table_program(cells, specs, units=300), []
        try:
            ask = next(program)
            while True:
                asked.append(ask)
                noise = dict.fromkeys(ask.arrays, 0.0 if pays else 100.0)
                ask = program.send(Total(ask.arrays, noise=noise))
        except StopIteration as stop:
            answers[pays] = stop.value.public
        return asked

    assert [list(ask.arrays) for ask in run(pays=True)] == [["cells"], ["pairs"], ["triples"]]
    assert [list(ask.arrays) for ask in run(pays=False)] == [["cells"], ["pairs"], ["pairs"]]
    assert answers[True]["triples"].shape[0] == 1
    assert answers[False]["triples"].size == 0


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
    assert after == pytest.approx(before, rel=0.1)


@pytest.mark.slow
def test_columns_keep_their_kinds(people):
    drawn = people.sample(3000, random_state=1)
    assert drawn.columns == list(PEOPLE_SCHEMA.columns)
    assert [drawn[name].dtype for name in ("begin", "paid", "age")] == [pl.Date, pl.Float64, pl.Int64]
    paid = drawn["paid"].to_numpy()
    np.testing.assert_array_equal(np.round(paid, 2), paid)
    assert (paid == 0).mean() == pytest.approx(0.7, abs=0.06)
    assert 200 < np.median(paid[paid > 0]) < 800  # lognormal(6): 403
    assert drawn["age"].null_count() / 3000 == pytest.approx(PEOPLE["age"].null_count() / ROWS, abs=0.05)
    assert drawn["begin"].min() >= np.datetime64("2019-01-01")


@pytest.mark.parametrize("given", [None, {"town": "Graz"}, {"sex": "f"}])
def test_constraints_hold_in_every_row(people, given):
    drawn = people.sample(4000, given=given, random_state=2)
    assert (drawn["begin"] <= drawn["end"]).all()
    assert set(drawn.filter(pl.col("role") == "husband")["sex"]) <= {"m"}
    assert set(drawn.filter(pl.col("role") == "wife")["sex"]) <= {"f"}
    assert drawn.group_by("town").agg(pl.col("country").n_unique())["country"].max() == 1
    if given is None:
        assert set(drawn.filter(pl.col("town") == "Graz")["country"]) == {"AT"}
    else:
        ((name, value),) = given.items()
        assert set(drawn[name]) == {value}


def test_rows_are_drawn_given_values(people):
    women = people.sample(4000, given={"sex": "f"}, random_state=0)
    # a third are wives and half of the single third: two of three women
    assert (women["role"] == "wife").mean() == pytest.approx(2 / 3, abs=0.08)
    with pytest.raises(InvalidInputError, match="that the constraints allow together"):
        people.sample(10, given={"sex": "f", "role": "husband"})
    with pytest.raises(InvalidInputError, match="given to name columns"):
        people.sample(10, given={"shoe": 43})
    with pytest.raises(InvalidInputError, match="only declared categories in the column sex"):
        people.sample(10, given={"sex": "x"})


def test_rows_that_break_a_constraint_are_refused_by_column_before_anything_is_charged(tmp_path):
    ledger = tacit.Ledger(tmp_path / "book.db")
    ledger.open_account("people", epsilon=2.2, delta=1e-5)
    wrong = PEOPLE.with_columns(end=pl.when(pl.col("person") == 7).then(pl.col("begin").min()).otherwise(pl.col("end")))
    model = PrivateTable(schema=PEOPLE_SCHEMA, unit_column="person", ledger=ledger, dataset="people")
    with pytest.raises(InvalidInputError, match="constraint between begin and end"):
        model.fit(wrong)
    assert ledger.remaining("people").epsilon == pytest.approx(2.2)


@pytest.mark.slow
def test_neighbours_with_a_label_are_treated_as_promised():
    data = FRAME.head(200)
    far = pl.DataFrame({"a": [1e9], "b": [-1e9], "state": ["ill"], "c": [0.0]})

    def fit(X):
        model = private(epsilon=30.0, insecure_seed=5).fit(X)
        return {name: getattr(model, name) for name in model._released}

    for neighbour in (data.head(199), pl.concat([data, far])):
        used = check_neighbours(fit, data, neighbour).largest
        assert used == pytest.approx(1, abs=1e-3)  # a row is 1 in every table, whatever its values


@pytest.mark.slow
def test_a_person_with_all_rows_moves_the_sums_by_what_the_bound_says():
    people = PEOPLE.with_row_index().with_columns(person=pl.col("index") // 2).drop("index").head(300)
    same = people.with_columns(pl.all().exclude("person").first().over("person"))  # two equal rows a person

    def fit(X):
        model = PrivateTable(
            epsilon=30.0, schema=PEOPLE_SCHEMA, unit_column="person", max_rows_per_unit=2, insecure_seed=5
        ).fit(X)
        return {name: getattr(model, name) for name in model._released}

    used = check_neighbours(fit, same, same.filter(pl.col("person") != 17)).largest
    assert used == pytest.approx(1, abs=1e-3)


def test_rows_beyond_the_most_of_a_person_are_left_out():
    frame = pl.DataFrame({"person": [1] * 500 + list(range(2, 102)), "a": [1] * 500 + [0] * 100})
    model = PrivateTable(
        schema={"a": CategoryColumn((0, 1))}, unit_column="person", max_rows_per_unit=3, epsilon=np.inf
    ).fit(frame)
    assert model.count_ == 103
    np.testing.assert_allclose(model.margins_, [100 / 103, 3 / 103])
    with pytest.raises(InvalidInputError, match="unit_column, the column that says whose row it is"):
        PrivateTable(schema={"a": CategoryColumn((0, 1))}, max_rows_per_unit=3).fit(frame.drop("person"))
    with pytest.raises(InvalidInputError, match="unit_column to be a column"):
        PrivateTable(schema={"a": CategoryColumn((0, 1))}, unit_column="who").fit(frame)


@pytest.mark.slow
def test_a_replaced_row_uses_the_bound_up_and_no_more():
    """Two rows that differ in every column are in different cells of every table: sqrt(2) apart in each."""
    base = np.random.default_rng(3).uniform(-1, 1, size=(300, 4))
    first, second = np.ones((1, 4)), -np.ones((1, 4))

    def fit(X):
        model = PrivateTable(epsilon=50.0, schema=NumberColumn(-1, 1), adjacency="replace-one", insecure_seed=1).fit(X)
        return {name: getattr(model, name) for name in model._released}

    moved = check_neighbours(fit, np.vstack([base, first]), np.vstack([base, second])).moved
    np.testing.assert_allclose(moved, 1, atol=1e-3)


@pytest.mark.parametrize(("hubs", "part"), [((2,), 0.3), ((2, 5), 0.3), ((2, 5, 7), 0.45), ((1, 2, 5, 7), 0.5)])
def test_the_tables_of_a_label_get_their_part_of_the_budget(hubs, part):
    weights = pair_weights(np.ones(30), 0.001, hubs)
    theirs = np.array([bool({*hubs} & {*pair}) for pair in pairs_of(30)])
    assert np.sum(weights[theirs] ** 2) / np.sum(weights**2) == pytest.approx(part)
    np.testing.assert_allclose(pair_weights(np.ones(30), 0.001), 1.0)


def test_pairs_of_columns_that_hardly_vary_are_left_out_if_there_is_noise_and_no_constraint_needs_them():
    mixed = np.array([1.0, 0.9, 0.001, 0.002])
    pairs = list(pairs_of(4))
    alone = np.array([pair == (0, 1) for pair in pairs])
    noisy = pair_weights(mixed, 0.02)
    np.testing.assert_array_equal(noisy > 0, alone)
    np.testing.assert_array_equal(
        pair_weights(mixed, 0.02, needed=[(2, 3)]) > 0, alone | np.array([pair == (2, 3) for pair in pairs])
    )
    np.testing.assert_allclose(pair_weights(mixed, 1e-9), 1.0, atol=1e-3)
    np.testing.assert_array_equal(pair_weights(mixed, 0.0), 1.0)
    own = column_weights([(0, 1)], np.ones(1), [4, 4, 2, 2])
    assert own[2] == own[3] > own[0] > 0
    assert np.sum(own**2) == pytest.approx(0.1)


@pytest.mark.slow
def test_a_label_is_predicted_from_a_column_among_many_that_hardly_vary():
    """Their 780 tables would take the budget of the one that tells something."""
    generator = np.random.default_rng(0)
    label = generator.integers(0, 2, size=2000)
    near = np.where(generator.random(2000) < 0.85, label, 1 - label)
    rare = generator.random((2000, 38)) < 0.002
    columns = {"label": label, "near": near, **{f"rare{place}": part.astype(int) for place, part in enumerate(rare.T)}}
    model = PrivateTable(epsilon=0.5, delta=1e-6, schema=CategoryColumn((0, 1)), insecure_seed=0).fit(
        pl.DataFrame(columns)
    )
    assert (model.tables_ > 0).sum() < 200  # of 6,240 cells of pair tables
    drawn = model.sample(2000, random_state=0)
    assert (drawn["label"] == drawn["near"]).mean() > 0.8
    assert np.mean([drawn[name].mean() for name in drawn.columns[2:]]) < 0.02


def test_holders_together_have_the_sums_of_one():
    specs = list(SCHEMA.values())
    cells = np.column_stack([SCHEMA[name].cells(FRAME[name].to_numpy(), name) for name in SCHEMA])
    parts = [cells[:900], cells[900:]]
    alone = run_together([table_program(cells, specs, units=ROWS)], Clear())[0].public
    together = run_together([table_program(part, specs, units=len(part)) for part in parts], Clear())
    for name, value in alone.items():
        np.testing.assert_allclose(together[0].public[name], value, atol=1e-12)


@pytest.mark.slow
def test_it_is_charged_and_refused(tmp_path):
    ledger = tacit.Ledger(tmp_path / "book.db")
    ledger.open_account("people", epsilon=2.2, delta=1e-5)
    private(delta=1e-6, ledger=ledger, dataset="people").fit(FRAME)
    with pytest.raises(BudgetError):
        private(delta=1e-6, ledger=ledger, dataset="people").fit(FRAME)


def test_a_saved_model_samples_the_same(tmp_path, people):
    people.save(tmp_path / "table.tacit")
    loaded = tacit.load(tmp_path / "table.tacit")
    assert loaded.schema == PEOPLE_SCHEMA
    assert loaded.sample(50, random_state=3).equals(people.sample(50, random_state=3))
    assert loaded.guarantee_.epsilon == people.guarantee_.epsilon
    assert not loaded.sample(50).equals(loaded.sample(50))


def test_one_column_has_no_pairs_to_pay_for():
    model = PrivateTable(epsilon=1.0, schema=NumberColumn(-4, 4)).fit(TABLE[:, :1])
    assert sum(release.count for release in model.guarantee_.releases) == 1
    assert model.sample(10).shape == (10, 1)
    assert model.sample(5000)[:, 0].std() == pytest.approx(1, abs=0.15)
    assert clone(model).get_params()["schema"] == NumberColumn(-4, 4)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"schema": None}, "a schema, the public description of every column"),
        ({"schema": [(0, 1)] * 4}, "a schema, the public description of every column"),
        ({"schema": {**NUMBERS, "state": ["well", "ill"]}}, "something else for state"),
        ({"schema": {**SCHEMA, "d": NumberColumn(0, 1)}}, "none called d"),
        ({"schema": {name: SCHEMA[name] for name in ("a", "b", "state")}}, "nothing about c"),
        ({"schema": TableSchema(SCHEMA, public=False)}, "a schema that a person has confirmed"),
        ({"schema": {**NUMBERS, "state": NumberColumn(0, 1)}}, "the label's classes"),
        ({"schema": {**NUMBERS, "state": CategoryColumn(("well",))}}, "one value only for state"),
        (
            {"schema": {**NUMBERS, "state": CategoryColumn(("well", "dead"))}},
            "only declared categories in the column state",
        ),
        ({"schema": {**NUMBERS, "state": CategoryColumn((1, 2))}}, "only declared categories in the column state"),
        ({"label": "sex"}, "label to be a column"),
        ({"max_rows_per_unit": 0}, "max_rows_per_unit"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"adjacency": "both"}, "adjacency"),
    ],
)
def test_what_is_not_public_is_refused_before_anything_is_released(settings, complaint):
    model = private(**settings)
    with pytest.raises(InvalidInputError, match=complaint):
        model.fit(FRAME)
    assert not hasattr(model, "guarantee_")


@pytest.mark.slow
def test_tables_that_cannot_be_modelled():
    with pytest.raises(InvalidInputError, match="finite numbers in the column a"):
        private().fit(FRAME.with_columns(a=pl.lit(np.nan)))
    with pytest.raises(InvalidInputError, match="finite numbers in the column state"):
        private(label=None, schema={**NUMBERS, "state": NumberColumn(0, 1)}).fit(FRAME)
    with pytest.raises(InvalidInputError, match="rows and columns"):
        PrivateTable(schema=NumberColumn(0, 1)).fit(np.zeros(4))
    with pytest.raises(InvalidInputError, match="rows and columns"):
        private().fit(FRAME.head(0))
    with pytest.raises(InvalidInputError, match="patient_id, which are identifiers"):
        private(schema={**SCHEMA, "patient_id": IntegerColumn(0, 9999)}).fit(
            FRAME.with_columns(patient_id=pl.int_range(ROWS))
        )
    with pytest.raises(InvalidInputError, match="n_rows"):
        private().fit(FRAME).sample(0)


def test_probabilities_are_the_nearest():
    np.testing.assert_allclose(to_simplex(np.array([0.2, 0.8])), [0.2, 0.8])
    np.testing.assert_allclose(to_simplex(np.array([1.2, -0.5, 0.2])), [1.0, 0.0, 0.0], atol=1e-12)
    np.testing.assert_allclose(to_simplex(np.array([-3.0, -3.0])), [0.5, 0.5])
    values = np.random.default_rng(0).normal(size=6)
    found = to_simplex(values)
    assert found.sum() == pytest.approx(1)
    others = np.random.default_rng(1).dirichlet(np.ones(6), size=2000)
    assert (np.linalg.norm(others - values, axis=1) >= np.linalg.norm(found - values) - 1e-9).all()


def test_columns_that_seem_constant_beside_large_noise_have_equal_tables():
    """Rounding left no table at all there, and the fit ended after its first sum was charged."""
    np.testing.assert_array_equal(pair_weights(np.zeros(3), 1000.0), np.ones(3))
    assert (pair_weights(np.zeros(3), 1000.0, needed=[(0, 1)]) > 0).all()
