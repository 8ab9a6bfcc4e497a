"""A unit's result depends on that unit alone, bit for bit: alone, in a random batch, reversed and padded it is the same.

Where a comparison decides (which weights are zero, when a row is done), a last bit that depends on the other units would move
a unit's contribution by more than any bound on one unit covers.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from tacit import PrivateNMF
from tacit.estimators.input import clip_rows
from tacit.factor import kernels
from tacit.factor import small_solves as rating_kernels
from tacit.factor.coupled.private.unit_cells import added
from tacit.factor.nmf import nnls
from tacit.factor.nmf.nnls import MOST_SWEEPS, Outliers, Penalty, solve_rows
from tacit.factor.noisy_moments.leave_one_out import leave_one_out, regress
from tacit.factor.ratings.table import read_ratings
from tacit.testing import check_neighbours


@pytest.fixture(autouse=True)
def _many_threads(monkeypatch):
    """Work is divided into pieces even where there is little, at boundaries that depend on the number of units."""
    monkeypatch.setattr(kernels, "WORTH_A_THREAD", 1000)
    monkeypatch.setattr(kernels, "THREADS", 2)


def batches(count, generator):
    """Return places of units: every one alone (of many, some), reversed, and a random batch with repetitions."""
    alone = range(count) if count < 12 else [0, 1, 2, count // 2, count - 1]
    return [[place] for place in alone] + [
        np.arange(count)[::-1],
        generator.integers(0, count, 1 + count // 2),
        np.concatenate([[0] * 5, np.arange(count), [count - 1] * 3]),
    ]


def awkward_rows(generator, count, width, dtype):
    """Rows of very different scales, some equal, some zero, some with equal entries."""
    rows = generator.random((count, width)) * (generator.random((count, width)) < 0.6)
    rows *= 10.0 ** generator.integers(-12, 12, (count, 1))
    rows[generator.random(count) < 0.1] = 0
    rows[generator.random(count) < 0.1] = 1
    rows[generator.random(count) < 0.2] = rows[0]
    return rows.astype(dtype)


def awkward_dictionary(generator, size, width):
    """A dictionary with equal, nearly equal, short and empty rows: its non-negative problems are ill-posed."""
    T = generator.random((size, width)) * (generator.random((size, width)) < 0.7)
    if size > 1:
        T[1] = T[0] * (1 + generator.choice([0, 1e-15, 1e-9], width))
    if size > 3:
        T[2] *= 1e-11
        T[3] = 0
    return T


ROW_SETTINGS = {
    "to convergence": {},
    "a few sweeps": {"most_sweeps": 3, "shrink": 0.1},
    "penalised": {"penalty": Penalty(l1=0.01, l2=0.1)},
    "outliers": {"outliers": Outliers(0.05, np.inf)},
    "outliers, one round": {"outliers": Outliers(0.05, 0.3), "most_sweeps": MOST_SWEEPS - 1},
}


@pytest.fixture(scope="module")
def _few_rounds():
    """Rows that converge slowly end at the limit, which is lowered to save time; most converge before it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nnls, "ROUNDS_WITH_OUTLIERS", 60)
        yield


@pytest.mark.slow
@pytest.mark.usefixtures("_few_rounds")
@pytest.mark.parametrize("name", ROW_SETTINGS)
@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.sampled_from([1, 2, 3, 5, 8, 9, 31, 258]),
    width=st.sampled_from([1, 4, 7, 16, 33, 300]),
    size=st.integers(1, 9),
    dtype=st.sampled_from([np.float32, np.float64]),
    form=st.sampled_from([np.ascontiguousarray, np.asfortranarray, sparse.csr_array]),
)
def test_weights_of_a_row(name, seed, count, width, size, dtype, form):
    generator = np.random.default_rng(seed)
    rows, T = awkward_rows(generator, count, width, dtype), awkward_dictionary(generator, size, width)
    found = solve_rows(form(rows), T, **ROW_SETTINGS[name])
    for batch in batches(count, generator):
        assert solve_rows(form(rows[batch]), T, **ROW_SETTINGS[name]).tobytes() == found[batch].tobytes()
    padded = np.concatenate([np.full((3, width), 1e15, dtype), rows, np.zeros((2, width), dtype)])
    assert solve_rows(form(padded), T, **ROW_SETTINGS[name])[3:-2].tobytes() == found.tobytes()


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.sampled_from([1, 2, 3, 5, 9, 258]),
    width=st.sampled_from([1, 4, 33, 300]),
    size=st.sampled_from([1, 2, 7, 300]),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_dense_product_of_a_row(seed, count, width, size, dtype):
    generator = np.random.default_rng(seed)
    rows, factor = (
        generator.normal(size=(count, width)).astype(dtype),
        generator.normal(size=(width, size)).astype(dtype),
    )

    def product(some):
        out = np.full((len(some), size), np.nan, dtype)
        kernels.multiply_dense(np.ascontiguousarray(some), factor, out, 0, len(some))
        return out

    found = product(rows)
    assert np.allclose(found, rows.astype(float) @ factor, atol=1e-4 if dtype == np.float32 else 1e-11)
    for batch in batches(count, generator):
        assert product(rows[batch]).tobytes() == found[batch].tobytes()


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), form=st.sampled_from([np.ascontiguousarray, sparse.csr_array]))
def test_clipped_row(seed, form):
    generator = np.random.default_rng(seed)
    rows = awkward_rows(generator, 31, 37, np.float64)

    def clipped(some):
        found = clip_rows(form(some), 1.0)
        return found if isinstance(found, np.ndarray) else found.toarray()

    found = clipped(rows)
    for batch in batches(31, generator):
        assert clipped(rows[batch]).tobytes() == found[batch].tobytes()


class Users:
    """Users with ratings of some of `items` items; some have none, some the same, some all of them."""

    def __init__(self, generator, users, items):
        self.items = [np.flatnonzero(generator.random(items) < generator.random()) for _ in range(users)]
        self.items[users // 2] = np.arange(items)
        self.values = [generator.integers(-2, 3, len(rated)) / 2.0 for rated in self.items]
        self.values[0] = np.zeros(len(self.items[0]))

    def of(self, batch):
        """Return ends, columns and values of some of the users."""
        chosen = [self.items[user] for user in batch]
        ends = np.concatenate([[0], np.cumsum([len(rated) for rated in chosen])]).astype(np.int64)
        values = np.concatenate([self.values[user] for user in batch])
        return ends, np.concatenate(chosen).astype(np.int32), values


USERS = {"seed": st.integers(0, 2**32 - 1), "users": st.sampled_from([1, 2, 5, 9, 40]), "size": st.integers(1, 18)}


@settings(max_examples=40, deadline=None)
@given(**USERS)
def test_what_a_user_sends_to_a_regression(seed, users, size):
    """The terms of a user are divided by their own norm, which magnifies the rounding of terms near zero."""
    generator = np.random.default_rng(seed)
    people, items = Users(generator, users, 23), generator.normal(size=(23, size))
    items[:3] = 0

    def solve(batch, scales=None):
        given = (np.zeros(23), items, np.ones(size), 0.3)
        rest = {"gain": np.ones(23), "longest": 2.0, "clip": 0.75}
        return regress(*people.of(batch), *given, **rest, scales=np.ones(len(batch)) if scales is None else scales)

    _, *found = solve(np.arange(users))
    for batch in batches(users, generator):
        for whole, some in zip(found, solve(batch)[1:], strict=True):
            assert some.tobytes() == whole[batch].tobytes()
    for user in range(min(users, 5)):  # the others add exactly nothing to the sums
        own = np.zeros(users)
        own[user] = 1.0
        assert np.array_equal(solve(np.arange(users), own)[0], solve([user])[0])


@settings(max_examples=40, deadline=None)
@given(**USERS)
def test_cells_predicted_without_themselves(seed, users, size):
    generator = np.random.default_rng(seed)
    people, items = Users(generator, users, 23), generator.normal(size=(23, size))

    def solve(batch):
        ends, columns, values = people.of(batch)
        found = leave_one_out(ends, values, np.ascontiguousarray(items[columns]), np.ones(size), 0.3)
        return [np.split(part, ends[1:-1]) for part in found]

    found = solve(np.arange(users))
    for batch in batches(users, generator):
        for whole, some in zip(found, solve(batch), strict=True):
            assert [part.tobytes() for part in some] == [whole[user].tobytes() for user in batch]


@settings(max_examples=40, deadline=None)
@given(**USERS, dtype=st.sampled_from([np.float32, np.float64]), uncertain=st.booleans())
def test_factors_of_a_user(seed, users, size, dtype, uncertain):
    generator = np.random.default_rng(seed)
    people, items = Users(generator, users, 23), generator.normal(size=(23, size)).astype(dtype)
    variances = np.abs(items) if uncertain else items[:0]

    def solve(batch):
        ends, columns, values = people.of(batch)
        given = ends, columns, values.astype(dtype), items, variances
        solved = rating_kernels.ridge_rows(*given, np.ones(size, dtype), 0.3)
        return *solved, *rating_kernels.normal_rows(*given, range(len(batch)))

    found = solve(np.arange(users))
    for batch in batches(users, generator):
        for whole, some in zip(found, solve(batch), strict=True):
            assert some.tobytes() == whole[batch].tobytes()


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), users=st.sampled_from([1, 2, 5, 9, 40]))
def test_sums_over_the_ratings_of_a_user(seed, users):
    generator = np.random.default_rng(seed)
    people = Users(generator, users, 300)
    terms = [generator.normal(size=len(rated)) for rated in people.items]

    def totals(batch):
        ends, columns, values = people.of(batch)
        unit, listed = np.repeat(np.arange(len(batch)), np.diff(ends)), np.concatenate([terms[user] for user in batch])
        by_cell = added(unit, listed, len(batch))
        rated = np.diff(ends) > 0
        if not rated.any():
            return by_cell, by_cell
        table = read_ratings(unit, columns, values)
        by_rating = np.zeros(len(batch))
        by_rating[rated] = table.per_user(listed)
        return by_cell, by_rating

    found = totals(np.arange(users))
    for batch in batches(users, generator):
        for whole, some in zip(found, totals(batch), strict=True):
            assert some.tobytes() == whole[batch].tobytes()


@pytest.mark.slow
def test_a_row_that_converges_slowly_does_not_change_the_weights_of_the_others():
    """A row along a tiny component took many rounds, and all others took as many: a sum moved by 42.8 bounds."""
    generator = np.random.default_rng(0)
    start = generator.random((3, 12))
    start[:, 0] = 0
    start[2] = 0
    start[2, 0] = 1e-11
    X = generator.random((4000, 12))
    X[:, 0] = 0
    X /= np.linalg.norm(X, axis=1, keepdims=True)

    def fit(rows):
        settings = {"method": "rounds", "rounds": 1, "outliers": 0.05, "init": start}
        return {"T": PrivateNMF(3, epsilon=1.0, delta=1e-5, **settings).fit(rows).components_}

    assert check_neighbours(fit, X, np.vstack([X, np.eye(1, 12)])).largest <= 1
