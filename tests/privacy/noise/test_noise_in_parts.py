"""Many secure draws are distributed over the cores: the requested number, each part with its own random bits."""

import os
import threading
import time

import numpy as np
import pytest

from tacit.errors import InvalidInputError
from tacit.privacy import insecure_generator
from tacit.privacy.long_arrays import _pool, in_parts
from tacit.privacy.noise import _LEAST_PART, discrete_gaussian, with_discrete_gaussian

MANY = 4 * _LEAST_PART


@pytest.fixture
def three_cores(monkeypatch):
    """Have three parts on any machine."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2}, raising=False)


@pytest.mark.parametrize(("count", "parts"), [(0, 1), (1, 1), (19, 1), (20, 2), (29, 2), (30, 3), (10_001, 3)])
def test_parts_cover_the_whole(three_cores, count, parts):
    found = in_parts(lambda part: list(range(count))[part], count, 10)
    assert [place for part in found for place in part] == list(range(count))
    assert len(found) == parts


@pytest.mark.parametrize("fails", [0, 2])
def test_nothing_is_worked_on_after_a_failure(three_cores, fails):
    ended = []

    def work(part):
        if part.start == 10 * fails:
            raise ZeroDivisionError
        time.sleep(0.05)
        ended.append(part)

    with pytest.raises(ZeroDivisionError):
        in_parts(work, 30, 10)
    assert len(ended) == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_threads_of_its_own(three_cores):
    names = lambda: set(in_parts(lambda _: threading.current_thread().name, 30, 10))  # noqa: E731
    before = names()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, "\n".join(sorted(names())).encode())
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert not {name for name in os.read(read, 4000).decode().split("\n") if "cores" in name} & before
    assert _pool(os.getpid(), 3) is _pool(os.getpid(), 3)


def check_law(drawn, sigma):
    """7 standard errors: a wrong failure has a chance below 1e-11."""
    count, flat = drawn.size, drawn.ravel()
    assert drawn.dtype == np.int64
    assert abs(drawn.mean()) < 7 * sigma / count**0.5
    assert abs(drawn.std() / sigma - 1) < 7 / (2 * count) ** 0.5
    for half in (count // 2, count // 3):
        assert abs(np.corrcoef(flat[:half], flat[half : 2 * half])[0, 1]) < 7 / half**0.5


def test_a_large_draw_keeps_its_shape_and_its_law(three_cores):
    shape = (MANY // 64, 65)
    drawn = discrete_gaussian(1000.0, shape)
    assert drawn.shape == shape
    check_law(drawn, 1000.0)


@pytest.mark.parametrize("count", [500, MANY])
def test_noise_is_added_to_a_copy(three_cores, count):
    integers = np.random.default_rng(0).integers(-(2**61), 2**61, size=(count, 2))
    before = integers.copy()
    noised = with_discrete_gaussian(integers, 1e6)
    assert np.array_equal(integers, before)
    check_law(noised - integers, 1e6)
    assert not np.array_equal(noised, with_discrete_gaussian(integers, 1e6))
    turned = with_discrete_gaussian(integers.T, 1e6)
    check_law(turned - integers.T, 1e6)


def test_seeded_noise_is_that_of_seeded_draws(three_cores):
    first, second = (discrete_gaussian(50.0, MANY + 5, generator=insecure_generator(3)) for _ in range(2))
    assert np.array_equal(first, second)
    integers = np.arange(MANY + 5)
    assert np.array_equal(with_discrete_gaussian(integers, 50.0, generator=insecure_generator(3)), integers + first)


def test_noise_is_added_to_integers_only():
    with pytest.raises(InvalidInputError, match="integers of 64 bits"):
        with_discrete_gaussian(np.zeros(3), 1.0)
