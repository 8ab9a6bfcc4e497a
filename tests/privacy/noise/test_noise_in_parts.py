"""Many secure draws are distributed over the cores: the requested number, each part with its own random bits."""

import numpy as np
import pytest

from tacit.privacy.noise import _PARALLEL_DRAWS, _in_parts, discrete_gaussian


@pytest.mark.parametrize("count", [_PARALLEL_DRAWS, _PARALLEL_DRAWS + 1, 3 * _PARALLEL_DRAWS - 1])
def test_parts_make_the_whole(count):
    asked = []

    def put(part):
        asked.append(len(part))
        part[:] = np.arange(len(part))

    drawn = _in_parts(put, count)
    assert len(drawn) == sum(asked) == count
    assert int(drawn.sum()) == sum(size * (size - 1) // 2 for size in asked)


def test_a_large_draw_keeps_its_shape_and_its_law():
    shape = (_PARALLEL_DRAWS // 64, 65)
    drawn = discrete_gaussian(1000.0, shape)
    count = drawn.size
    assert drawn.shape == shape
    assert drawn.dtype == np.int64
    # 7 standard errors: a wrong failure has a chance below 1e-11
    assert abs(drawn.mean()) < 7 * 1000 / count**0.5
    assert abs(drawn.std() / 1000 - 1) < 7 / (2 * count) ** 0.5
    flat = drawn.ravel()
    half = count // 2
    assert abs(np.corrcoef(flat[:half], flat[half : 2 * half])[0, 1]) < 7 / half**0.5


def test_seeded_draws_stay_in_one_part():
    from tacit.privacy import insecure_generator

    first, second = (discrete_gaussian(50.0, _PARALLEL_DRAWS + 5, generator=insecure_generator(3)) for _ in range(2))
    assert np.array_equal(first, second)
