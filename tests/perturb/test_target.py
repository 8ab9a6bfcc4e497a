import math

import pytest

from tacit.errors import InvalidInputError
from tacit.perturb.target import Range, reach


def test_a_target_is_found_on_curves_that_rise_fall_or_wave():
    assert reach(0.25, lambda x: x**2, Range(0, 1), "x") == pytest.approx(0.5, rel=0.01)
    assert reach(0.25, lambda x: 1 / x, Range(20, 1), "rank") == pytest.approx(4, rel=0.01)
    assert reach(1e4, lambda x: 3 * x, Range(0, math.inf), "x") == pytest.approx(1e4 / 3, rel=0.01)
    waves = reach(0.5, lambda x: x + 0.2 * math.sin(20 * x), Range(0, 1), "x")
    assert waves + 0.2 * math.sin(20 * waves) == pytest.approx(0.5, rel=0.02)


def test_the_ends_count_as_reached_when_they_are_near():
    assert reach(1.01, lambda x: x, Range(0, 1), "x") == 1
    assert reach(0.99, lambda x: 1 + x, Range(0, 1), "x") == 0


def test_what_is_out_of_reach_is_said_with_the_setting():
    with pytest.raises(InvalidInputError, match=r"the largest is 1 \(at x 1\); got 2"):
        reach(2.0, lambda x: x, Range(0, 1), "x")
    with pytest.raises(InvalidInputError, match=r"at least 3, the smallest .* \(at x 0\)"):
        reach(2.0, lambda x: 3 + x, Range(0, 1), "x")


def test_a_jump_over_the_target_is_said_with_the_nearest():
    with pytest.raises(InvalidInputError, match="The nearest is"):
        reach(0.5, lambda x: float(x > 0.3), Range(0, 1), "x")
