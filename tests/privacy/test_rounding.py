"""Printed numbers never claim more privacy than was computed."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.privacy import (
    ApproximateRelease,
    ExponentialRelease,
    GaussianRelease,
    GeometricRelease,
    Guarantee,
    LaplaceRelease,
)
from tacit.privacy.rounding import exact, rounded_down, rounded_up, shown_delta, shown_epsilon, shown_factor

positive = st.floats(min_value=1e-300, max_value=1e300)


@given(positive, st.integers(1, 8))
def test_rounding_is_in_the_safe_direction_and_close(value, digits):
    up, down = float(rounded_up(value, digits)), float(rounded_down(value, digits))
    assert down <= value <= up
    assert up - down <= value * 10.0 ** (1 - digits) * (1 + 1e-12)


@given(positive)
def test_exact_numbers_keep_every_bit(value):
    assert float(exact(value)) == value


@given(st.floats(min_value=1e-12, max_value=700.0))
def test_the_factor_is_never_less_than_it_is(epsilon):
    factor, power = re.fullmatch(r"(\S+) \(e\^(\S+)\)", shown_factor(epsilon)).groups()
    assert float(power) >= epsilon
    assert float(factor) - 1 >= math.expm1(float(power)) * (1 - 1e-12) - 2e-16  # `float` of the text rounds once
    assert float(factor) - 1 <= math.expm1(float(power)) * 1.0101 + 1e-15


@pytest.mark.parametrize(
    ("epsilon", "shown"),
    [(1.0, "1"), (0.123412, "0.1235"), (12.3401, "12.35"), (3e-5, "0.00003"), (0.99999, "1"), (1 + 1e-12, "1.001")],
)
def test_examples_of_epsilon(epsilon, shown):
    assert shown_epsilon(epsilon) == shown


@pytest.mark.parametrize(
    ("delta", "shown"),
    [(1e-6, "0.000001"), (1.0001e-6, "0.00000101"), (0.1, "0.1"), (1e-12, "1e-12"), (1e-5, "0.00001")],
)
def test_examples_of_delta(delta, shown):
    assert shown_delta(delta) == shown


@pytest.mark.parametrize(
    ("epsilon", "shown"),
    [
        (0.0, "1 (e^0)"),
        (0.01, "1.0101 (e^0.01)"),
        (1.0, "2.72 (e^1)"),
        (2.0, "7.39 (e^2)"),
        (10.0, "22100 (e^10)"),
        (1e5, "e^100000"),
        (math.inf, "e^infinity"),
    ],
)
def test_examples_of_the_factor(epsilon, shown):
    assert shown_factor(epsilon) == shown


@given(st.floats(min_value=0.7, max_value=1e4), st.floats(min_value=1e-12, max_value=0.4))
def test_a_printed_guarantee_claims_no_more_than_its_numbers(noise, delta):
    found = Guarantee.from_releases([GaussianRelease(noise_multiplier=noise)], delta=delta)
    text = str(found)
    factor, power, plus = re.search(r"a factor of (\S+) \(e\^(\S+)\), plus (\S+)\. ", text).groups()
    epsilon, printed_delta = re.search(r"with epsilon (\S+) and delta (\S+)\. ", text).groups()
    assert power == epsilon
    assert plus == printed_delta
    assert float(factor) >= math.exp(found.epsilon) * (1 - 1e-15)
    assert float(epsilon) >= found.epsilon
    assert float(printed_delta) >= found.delta


def numbers(text):
    return [float(number) for number in re.findall(r"[\d.]+(?:e-?\d+)?", text.replace("L1", ""))]


@given(positive, st.floats(min_value=1e-9, max_value=0.99))
def test_a_release_in_words_states_no_more_noise_than_there_was(noise, rate):
    multiplier, shown_rate = numbers(GaussianRelease(noise_multiplier=noise, sampling_rate=rate).describe())
    assert multiplier <= noise
    assert shown_rate >= rate
    assert numbers(LaplaceRelease(noise_multiplier=noise).describe())[0] <= noise
    assert numbers(GeometricRelease(scale=noise).describe())[0] <= noise
    assert numbers(ExponentialRelease(epsilon=noise).describe())[0] >= noise
    epsilon, delta = numbers(ApproximateRelease(epsilon=noise, delta=rate).describe())
    assert epsilon >= noise
    assert delta >= rate
