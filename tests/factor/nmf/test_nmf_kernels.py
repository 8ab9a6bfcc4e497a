"""The steps of a sweep against solvers that share no code with them."""

import os
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import minimize_scalar, nnls

from tacit.channel.asks import COLUMNS_TOGETHER
from tacit.factor import kernels
from tacit.factor.nmf.nnls import Outliers, Penalty, added, solve_dictionary, solve_rows, total_rows
from tacit.factor.nmf.program import NMFSettings, PackedFactor, _divided
from tacit.factor.row_table import Table

rng = np.random.default_rng(5)
T = rng.random((4, 15)) * (rng.random((4, 15)) < 0.7)
X = np.maximum(rng.random((40, 15)) - 0.3, 0)
X[7] = 0


def test_rows_are_the_non_negative_least_squares_solutions():
    W = solve_rows(X, T)
    assert np.allclose(W, [nnls(T.T, x)[0] for x in X], atol=1e-6)
    assert np.array_equal(W[7], np.zeros(4))  # an empty row has an empty factor
    assert np.any(W == 0), "the constraint must matter for this test to test it"


def test_the_dictionary_is_the_non_negative_least_squares_solution():
    W = rng.random((40, 4))
    start = rng.random((4, 15))
    kept = start.copy()
    found, value = solve_dictionary(start, W.T @ X, W.T @ W)
    assert np.allclose(found.T, [nnls(W, x)[0] for x in X.T], atol=1e-6)
    assert value + np.sum(X**2) / 2 == pytest.approx(np.sum((X - W @ found) ** 2) / 2)
    assert np.array_equal(start, kept)


def test_penalised_rows_solve_the_augmented_problem():
    """An L2 penalty is extra rows sqrt(l2) I; an L1 penalty on non-negative numbers shifts the linear term."""
    penalty = Penalty(l1=0.05, l2=0.3)
    W = solve_rows(X, T, penalty=penalty)
    gram = T @ T.T + 0.3 * np.eye(4)
    root = np.linalg.cholesky(gram).T
    expected = [nnls(root, np.linalg.solve(root.T, T @ x - 0.05))[0] for x in X]
    assert np.allclose(W, expected, atol=1e-6)
    assert penalty.of(W) == pytest.approx(0.05 * W.sum() + 0.15 * np.sum(W**2))


def test_a_component_of_zeros_is_left_alone():
    holed = T.copy()
    holed[2] = 0
    W = solve_rows(X, holed, np.full((40, 4), 0.5))
    assert np.array_equal(W[:, 2], np.full(40, 0.5))
    assert np.all(np.isfinite(W))


@settings(max_examples=60, deadline=None)
@given(residual=st.floats(-5, 5), threshold=st.floats(0.01, 2), bound=st.one_of(st.just(np.inf), st.floats(0.1, 3)))
def test_outliers_minimise_their_cost(residual, threshold, bound):
    rows, fitted, sizes = np.array([[1.5]]), np.array([[1.5 - residual]]), np.empty(1)
    kernels.set_aside(rows, fitted, threshold, bound, sizes, 0, 1)
    found = rows[0, 0] - fitted[0, 0]

    def cost(r):
        return 0.5 * (residual - r) ** 2 + threshold * abs(r)

    limit = min(bound, 10.0)
    best = min(cost(0.0), minimize_scalar(cost, bounds=(-limit, limit), method="bounded", options={"xatol": 1e-9}).fun)
    assert abs(found) <= bound + 1e-12
    assert cost(found) <= best + 1e-7
    assert sizes[0] == pytest.approx(abs(found), abs=1e-12)


def test_rows_with_outliers_reach_a_joint_optimum():
    """No other W, with the best R for it, is better: checked against a general minimiser of the Huber cost."""
    from scipy.optimize import minimize

    limits = Outliers(0.1, np.inf)
    W = solve_rows(X[:5], T, outliers=limits)

    def huber(w, x):
        size = np.abs(x - w @ T)
        return np.sum(np.where(size <= 0.1, size**2 / 2, 0.1 * (size - 0.05)))

    for w, x in zip(W, X[:5], strict=True):
        best = min(minimize(huber, start, args=(x,), bounds=[(0, None)] * 4).fun for start in (w, np.ones(4)))
        assert huber(w, x) <= best + 1e-6


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", [sparse.csr_array, sparse.csr_matrix])
def test_sparse_products_are_the_products(dtype, form):
    big = (rng.random((700, 300)) * (rng.random((700, 300)) < 0.2)).astype(dtype)
    table, factor, rows = Table(form(big)), rng.random((300, 21)), rng.random((700, 21))
    tolerance = 1e-5 if dtype == np.float32 else 1e-12
    assert np.allclose(table.times(factor), big @ factor, rtol=tolerance)
    assert np.allclose(table.transposed_times(rows), big.T @ rows, rtol=tolerance)
    assert table.times(factor).dtype == dtype
    assert np.allclose(kernels.gram(rows), rows.T @ rows)
    assert table.squares == pytest.approx(np.sum(big.astype(np.float64) ** 2))


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_statistics_with_outliers_are_those_of_the_cleaned_rows(form, monkeypatch):
    monkeypatch.setattr("tacit.factor.row_table.BLOCK_NUMBERS", 100)  # six rows a block: the last one is short
    W = rng.random((40, 4))
    residual = X - W @ T
    R = np.sign(residual) * np.minimum(np.maximum(np.abs(residual) - 0.2, 0), 0.5)
    found = total_rows(Table(form(X)), T, W, outliers=Outliers(0.2, 0.5), penalty=Penalty(l1=1.0))
    assert np.allclose(found.WX, W.T @ (X - R))
    assert np.allclose(found.WW, W.T @ W)
    assert np.allclose(found.own, [np.sum((X - R) ** 2) / 2, W.sum() + 0.2 * np.abs(R).sum()])


def test_ranges_cover_every_row_once_whatever_the_work():
    for work in ([0], [0, 0, 0], np.cumsum([0, 10**6, 0, 0, 10**6, 3]), np.arange(1000) * 10**4):
        seen, lock = np.zeros(len(work) - 1, dtype=int), threading.Lock()

        def count(start, stop, seen=seen, lock=lock):
            with lock:
                seen[start:stop] += 1

        kernels.parallel_for(count, np.asarray(work))
        assert np.all(seen == 1)


def test_the_number_of_threads_changes_no_bit(monkeypatch):
    wide = sparse.csr_array(rng.random((3000, 400)) * (rng.random((3000, 400)) < 0.1))
    dictionary = rng.random((25, 400))
    many = solve_rows(wide, dictionary, most_sweeps=5)
    grams = kernels.gram(many)
    monkeypatch.setattr(kernels, "THREADS", 1)
    assert np.array_equal(many, solve_rows(wide, dictionary, most_sweeps=5))
    assert np.array_equal(grams, kernels.gram(many))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_its_own_threads():
    wide, dictionary = rng.random((3000, 60)), rng.random((25, 60))
    expected = solve_rows(wide, dictionary, most_sweeps=3)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        same = np.array_equal(kernels.gram(expected), kernels.gram(expected.copy()))
        os.write(write, b"same" if same else b"other")
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        assert pipe.read() == b"same"
    os.waitpid(child, 0)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(0, 3), (3, 5), (700, 13)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_kept_factor_comes_back_bit_by_bit_in_less_memory(shape, order, dtype):
    generator = np.random.default_rng(3)
    factor = generator.random(shape) * (generator.random(shape) < 0.3)
    factor = np.array(factor, dtype=dtype, order=order)
    kept = PackedFactor(factor)
    assert np.array_equal(kept.put_into(np.full_like(factor, np.nan)), factor)
    assert kept._values.size == np.count_nonzero(factor)


def test_the_transposed_product_needs_sorted_entries_and_gets_them():
    """The entries of a row in any order, and on any number of threads, give the same sums."""
    shuffled = sparse.csr_array(X)
    for start, stop in zip(shuffled.indptr[:-1], shuffled.indptr[1:], strict=True):
        shuffled.indices[start:stop] = shuffled.indices[start:stop][::-1].copy()
        shuffled.data[start:stop] = shuffled.data[start:stop][::-1].copy()
    shuffled.has_sorted_indices = False
    kept, W = shuffled.indices.copy(), rng.random((40, 4))
    assert np.allclose(Table(shuffled).transposed_times(W), X.T @ W)
    assert np.array_equal(shuffled.indices, kept), "the caller's matrix stays as it is"


@pytest.mark.parametrize("rows", [1, 2, kernels.GRAM_BLOCK - 1, kernels.GRAM_BLOCK, 2 * kernels.GRAM_BLOCK + 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_gram_matrix_adds_rows_one_after_the_other(rows, dtype):
    """Bit for bit what a plain loop over the rows of each block gives, with zeros in any place and with none."""
    for density in (0.3, 1.0):
        factor = (rng.normal(size=(rows, 5)) * (rng.random((rows, 5)) < density)).astype(dtype)
        expected = np.zeros((5, 5))
        for start in range(0, rows, kernels.GRAM_BLOCK):
            block = np.zeros((5, 5))
            for row in factor[start : start + kernels.GRAM_BLOCK]:
                block += np.outer(row, row)
            expected += block
        assert np.array_equal(kernels.gram(factor), expected)


@pytest.mark.parametrize("columns", [COLUMNS_TOGETHER - 1, COLUMNS_TOGETHER, 3 * COLUMNS_TOGETHER + 7])
def test_divided_columns_give_the_dictionary_and_the_value_of_the_whole_step_to_the_last_bit(columns):
    settings = NMFSettings()
    start, WX, W = rng.random((4, columns)), rng.random((4, columns)) * 10, rng.random((30, 4))
    steps = {"penalty": settings.dictionary_penalty, "most_sweeps": settings.dictionary_sweeps}
    expected, value = solve_dictionary(start, WX, W.T @ W, shrink=settings.dictionary_shrink, **steps)
    work, cut = _divided(start, settings).work, columns // 2 // COLUMNS_TOGETHER * COLUMNS_TOGETHER
    parts = [work(part, WX[:, part], {"WW": W.T @ W}) for part in (slice(0, cut), slice(cut, columns)) if part.stop]
    worked = np.concatenate(parts)
    assert np.array_equal(worked[:, :-1].T, expected)
    assert added(worked[:, -1]) == value
    assert np.count_nonzero(worked[:, -1]) == -(-columns // COLUMNS_TOGETHER), "one number for each group is sent"


def test_the_dictionary_and_the_rows_can_be_solved_in_place():
    W = rng.random((40, 4))
    start = np.asfortranarray(rng.random((4, 15)))
    expected, value = solve_dictionary(start, W.T @ X, W.T @ W)
    found, same = solve_dictionary(start, W.T @ X, W.T @ W, in_place=True)
    assert np.shares_memory(found, start)
    assert np.array_equal(found, expected)
    assert same == value
    expected = solve_rows(X, T, W)
    assert not np.array_equal(expected, W)
    found = solve_rows(X, T, W, in_place=True)
    assert found is W
    assert np.array_equal(found, expected)
