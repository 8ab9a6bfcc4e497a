"""Dropout rates, calibration errors and the thesis's noise, against values computed by hand."""

import math

import numpy as np
import pytest

from tacit.errors import InvalidInputError
from tacit.neural import compare_thesis, dropout_rates, expected_calibration_error, reliability, summarise_rates
from tacit.neural.published import published_noise
from tacit.privacy import gaussian_epsilon


def test_dropout_rates_follow_the_formula():
    weights, noise = np.array([0.5, -0.1, 0.0, 3.0]), 0.2
    alpha = noise**2 / np.square([0.5, 0.1, 1.0, 3.0])
    expected = alpha / (1 + alpha)
    expected[2] = 1.0
    assert np.allclose(dropout_rates(weights, noise), expected, rtol=1e-14)
    assert np.array_equal(dropout_rates([1.0, -2.0], 0.0), [0.0, 0.0])


def test_dropout_as_a_product_is_the_noise_as_a_sum():
    generator = np.random.default_rng(0)
    rate = dropout_rates([0.4], 0.3)[0]
    alpha = rate / (1 - rate)
    products = 0.4 * generator.normal(1.0, math.sqrt(alpha), 200_000)
    assert abs(products.std() - 0.3) < 5 * 0.3 / math.sqrt(2 * 200_000)


def test_summaries_are_in_order_and_grow_with_the_noise():
    weights = np.random.default_rng(0).standard_normal(1000)
    found = summarise_rates(weights, 0.3)
    quantiles = [found[name] for name in ("q05", "q25", "q50", "q75", "q95")]
    assert quantiles == sorted(quantiles)
    assert found["mean"] == pytest.approx(dropout_rates(weights, 0.3).mean())
    assert summarise_rates(weights, 0.6)["mean"] > found["mean"]


def test_calibration_error_by_hand():
    probabilities = [[0.95, 0.05], [0.95, 0.05], [0.4, 0.6], [0.35, 0.65]]
    assert expected_calibration_error(probabilities, [0, 1, 1, 1], bins=10) == pytest.approx(
        0.5 * 0.45 + 0.25 * 0.4 + 0.25 * 0.35
    )
    found = reliability(probabilities, [0, 1, 1, 1], bins=10)
    assert found.fraction.sum() == pytest.approx(1.0)
    assert found.accuracy[9] == pytest.approx(0.5)


def test_calibrated_predictions_have_no_error():
    generator = np.random.default_rng(1)
    sure = generator.uniform(0.5, 1.0, 200_000)
    right = generator.random(200_000) < sure
    assert expected_calibration_error(np.stack([sure, 1 - sure], axis=1), np.where(right, 0, 1)) < 0.01


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(InvalidInputError, match="one class index per example"):
        expected_calibration_error([[0.5, 0.5]], [0, 1])


def test_published_noise_is_appendix_e_by_hand():
    epsilon, delta, steps, rate = 1.0, 1e-3, 300, 0.02
    slack = delta / 2
    step_delta = (delta - slack) / (steps * rate)
    b = math.sqrt(2 * steps * math.log(1 / slack))
    root = (-b + math.sqrt(b * b + 8 * steps * epsilon)) / (4 * steps)
    step = math.log((math.exp(root) - 1) / rate + 1)
    by_hand = math.sqrt(2 * math.log(1.25 / step_delta)) / step
    assert published_noise("DPD-AC", epsilon, delta, steps, rate) == pytest.approx(by_hand)


@pytest.mark.slow
def test_the_printed_noise_does_not_follow_from_the_formulas():
    rows = compare_thesis()
    printed = {row.accounting: row for row in rows if row.source.startswith("printed")}
    assert printed["DPD-zCDP"].real_epsilon == pytest.approx(1.5, abs=0.05)
    for name, row in printed.items():
        formulas = [other.noise_multiplier for other in rows if other.accounting == name and other is not row]
        assert all(abs(value / row.noise_multiplier - 1) > 0.05 for value in formulas)
    sound = rows[0]
    assert gaussian_epsilon(sound.noise_multiplier, 1e-4, steps=20_000, sampling_rate=0.01) <= 0.5
