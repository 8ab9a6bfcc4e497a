"""Totals in buckets: one example changes one bucket, and all of it stays within the stated bound."""

import numpy as np
import pytest
import torch

from tacit.neural import buckets as module
from tacit.neural import gradients, threads
from tacit.neural.buckets import (
    FEW_UNITS,
    LOAD,
    MOST,
    MOST_UNITS,
    ROUNDING,
    bucket_count,
    buckets_of,
    is_accurate,
    parts_of,
)
from tacit.neural.gradients import Learner
from tacit.neural.loops import add_units
from tacit.neural.network import perceptron

RANDOM = np.random.default_rng(7)
X = RANDOM.normal(size=(1500, 21)).astype(np.float32)
Y = torch.from_numpy(RANDOM.integers(0, 4, len(X)))
CLIP = 0.5


@pytest.fixture
def learner():
    made = Learner(perceptron(21, (33,), 4, 0))
    made.set_weights(0.1 * torch.randn(made.size, generator=torch.Generator().manual_seed(0), dtype=torch.float64))
    assert made.use_chain()
    return made


def totals(learner, rows, labels, count, clip=CLIP):
    found, losses = learner.clipped_totals(torch.from_numpy(rows), labels, clip, buckets_of(rows, count))
    return found["gradient"], losses


def test_a_bucket_follows_from_the_row_alone():
    all_rows = buckets_of(X, 9)
    order = RANDOM.permutation(len(X))
    assert torch.equal(buckets_of(X[order], 9), all_rows[order])
    assert torch.equal(buckets_of(X[3:4], 9), all_rows[3:4])
    assert set(all_rows.tolist()) == set(range(9))


def test_most_buckets_are_small_enough():
    count = bucket_count(len(X))
    assert count == round(len(X) / LOAD)
    assert int(torch.bincount(buckets_of(X, count)).max()) <= MOST * 1.2
    assert bucket_count(0.0) == bucket_count(-3.0) == 1


@pytest.mark.parametrize("units", [1, 10, 63, 64, 100, 255, 256, 1000])
def test_parts_of_a_layer_make_the_whole(units):
    parts = parts_of(units)
    assert np.array_equal(np.concatenate([np.arange(units)[part] for part in parts]), np.arange(units))
    assert len(parts) == 1 if units < FEW_UNITS else len(parts) > 1
    assert max(part.stop - part.start for part in parts) <= MOST_UNITS


@pytest.mark.parametrize("count", [1, 10])
def test_totals_are_those_in_float64(learner, count):
    exact, losses = learner.clipped_totals(torch.from_numpy(X), Y, CLIP)
    found, again = totals(learner, X, Y, count)
    assert torch.equal(again, losses)
    assert float((found - exact["gradient"]).norm()) <= CLIP * ROUNDING * len(X) / MOST
    assert found.dtype == torch.float64


@pytest.mark.parametrize("place", [0, 700, 1499])
def test_one_example_changes_the_totals_by_at_most_the_bound(learner, place):
    whole, _ = totals(learner, X, Y, 10)
    without = np.delete(np.arange(len(X)), place)
    part, _ = totals(learner, X[without], Y[without], 10)
    change = float((whole - part).norm())
    assert 0.99 * CLIP < change <= CLIP * (1 + ROUNDING)  # every gradient is clipped here


def test_examples_in_other_buckets_keep_their_bits(learner, monkeypatch):
    monkeypatch.setattr(threads.torch, "get_num_threads", lambda: 1)  # so that products come in one order
    products = []

    def recorded(total, bias, g, a, factors, counts, most, begun):
        """Add up bucket by bucket, and note what each of them adds."""
        start = 0
        for count in counts:
            some, start = slice(start, start + count), start + count
            before = (total.copy(), bias.copy()) if begun else (0.0, 0.0)
            add_units(total, bias, g[some], a[some], factors[some], np.array([count]), most, begun)
            alone = np.zeros_like(total), np.zeros_like(bias)
            add_units(*alone, g[some], a[some], factors[some], np.array([count]), most, False)
            assert np.array_equal(total, before[0] + alone[0])
            products.append(alone)
            begun = True

    expected, _ = totals(learner, X, Y, 10)
    monkeypatch.setattr(gradients, "add_units", recorded)
    found, _ = totals(learner, X, Y, 10)
    assert torch.equal(found, expected)
    whole, products[:] = list(products), []
    without = np.delete(np.arange(len(X)), 5)
    totals(learner, X[without], Y[without], 10)
    changed = [not np.array_equal(one[0], other[0]) for one, other in zip(whole, products, strict=True)]
    assert len(whole) == 2 * 10  # two layers
    assert sum(changed) == 2


def test_equal_rows_share_a_bucket_and_are_added_up_in_float64(learner):
    rows, labels = np.repeat(X[:1], 500, axis=0), Y[:1].repeat(500)
    found, _ = totals(learner, rows, labels, 10)
    one, _ = totals(learner, X[:1], Y[:1], 10)
    few, _ = totals(learner, rows[:2], labels[:2], 10)
    exact, _ = learner.clipped_totals(torch.from_numpy(X[:1]), Y[:1], CLIP)
    assert torch.allclose(found, 500 * exact["gradient"], rtol=3e-7, atol=1e-13)  # factors are rounded to float32
    assert torch.equal(one.float().double(), one)  # a product in float32, unlike that of 500 examples
    assert torch.equal(few.float().double(), few)
    assert not torch.equal(found.float().double(), found)


@pytest.mark.parametrize("size", [1e15, 1e30, 3e38])
def test_huge_numbers_stay_within_the_bound(size):
    learner = Learner(torch.nn.Linear(21, 4).double())
    assert learner.use_chain()
    rows = X[:40].copy()
    rows[3] = np.sign(rows[3]) * np.float32(size)
    found, _ = totals(learner, rows, Y[:40], 1)
    others = np.delete(np.arange(40), 3)
    without, _ = totals(learner, rows[others], Y[others], 1)
    assert bool(torch.isfinite(found).all())
    assert float((found - without).norm()) <= CLIP * (1 + ROUNDING)


def test_shorter_numbers_are_noticed(monkeypatch):
    assert is_accurate()

    def shorter(total, bias, g, a, *others):
        h, b = (torch.from_numpy(numbers).bfloat16().double().numpy() for numbers in (g, a))
        total += h.T @ b

    monkeypatch.setattr(module, "add_units", shorter)
    assert not is_accurate()


def test_a_batch_may_be_empty(learner):
    found, losses = totals(learner, X[:0], Y[:0], 10)
    assert not found.any()
    assert len(losses) == 0
