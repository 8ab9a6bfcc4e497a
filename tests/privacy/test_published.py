"""The papers' formulas: each against the formula by hand, and against the sound accountant."""

import math

import pytest

from tacit.errors import InvalidInputError
from tacit.privacy import gaussian_epsilon, gaussian_noise_multiplier, published


def test_dwork_roth():
    assert published.dwork_roth_noise_multiplier(0.5, 1e-5) == pytest.approx(math.sqrt(2 * math.log(125_000)) / 0.5)
    # proven for epsilon < 1, where it is a little too much noise; above about 5 it is too little
    assert gaussian_epsilon(published.dwork_roth_noise_multiplier(0.9, 1e-5), 1e-5) < 0.9
    assert gaussian_epsilon(published.dwork_roth_noise_multiplier(20.0, 1e-5), 1e-5) > 20.0


def test_saha_theorem_3_1_by_hand():
    # T = 100, both statistics with multiplier 50: D = 2/2500, alpha = 1 + sqrt(2 log(1e5) / 0.08)
    alpha = 1 + math.sqrt(2 * math.log(1e5) / 0.08)
    expected = alpha * 0.08 / 2 + math.log(1e5) / (alpha - 1)
    assert published.saha_epsilon([50.0, 50.0], 100, 1e-5) == pytest.approx(expected)
    # at the best order this is rho + 2 sqrt(rho log 1/delta) with rho = T D / 2
    assert published.saha_epsilon([50.0, 50.0], 100, 1e-5) == pytest.approx(published.zcdp_epsilon(0.04, 1e-5))


@pytest.mark.parametrize(("epsilon", "delta", "steps"), [(0.3, 1e-4, 10), (2.0, 1e-6, 500)])
def test_saha_and_mugdho_invert_and_are_the_same_formula(epsilon, delta, steps):
    z = published.saha_noise_multiplier(epsilon, delta, steps)
    assert published.saha_epsilon([z], steps, delta) == pytest.approx(epsilon)
    assert published.mugdho_noise_multiplier(epsilon, delta, steps) == pytest.approx(z)
    assert published.mugdho_noise_multiplier(epsilon, delta, steps, step_delta=1e-3) == pytest.approx(z)
    # sound for a plain composition, and looser than the exact one
    assert gaussian_epsilon(z, delta, steps=steps) < epsilon
    assert z > gaussian_noise_multiplier(epsilon, delta, steps=steps)


def test_mugdho_equation_9_by_hand():
    cost = 200 * 0.15**2 / (4 * math.log(125))
    expected = cost + 2 * math.sqrt(cost * math.log(1e5))
    assert published.mugdho_epsilon(0.15, 0.01, 200, 1e-5) == pytest.approx(expected)


def test_advanced_composition_by_hand_and_against_the_exact_sum():
    epsilon, delta = published.advanced_composition(0.1, 1e-8, 50, 1e-6)
    assert epsilon == pytest.approx(math.sqrt(100 * math.log(1e6)) * 0.1 + 50 * 0.1 * (math.exp(0.1) - 1))
    assert delta == pytest.approx(50e-8 + 1e-6)
    step = gaussian_noise_multiplier(0.1, 1e-8)
    assert gaussian_epsilon(step, delta, steps=50) < epsilon


def test_subsampling_lemma_and_its_inverse():
    epsilon, delta = published.subsampled(1.0, 1e-6, 0.01)
    assert epsilon == pytest.approx(math.log(1 + 0.01 * (math.e - 1)))
    assert delta == pytest.approx(1e-8)
    assert published.unsampled(epsilon, 0.01) == pytest.approx(1.0)


def test_zcdp_by_hand():
    assert published.zcdp_of_gaussian(5.0, 10) == pytest.approx(0.2)
    assert published.zcdp_epsilon(0.2, 1e-6) == pytest.approx(0.2 + 2 * math.sqrt(0.2 * math.log(1e6)))


def test_ermis_appendix_c_by_hand():
    # 10 passes at rate 0.02: n_B = 50 batches, 256 * T * B / C = 256 * 10 * 0.02
    expected = math.sqrt(256 * 10 * 0.02 * math.log(2.5 * 50 * 10 / 1e-3) * math.log(2 / 1e-3)) / 1.0 / 2
    assert published.ermis_sgld_noise_multiplier(1.0, 1e-3, 10, 0.02) == pytest.approx(expected)


@pytest.mark.slow
def test_ermis_appendix_e_step_by_step():
    """The synthetic run of section 7.2: q = 0.02, T = 300, delta = 1e-3, epsilon = 1 (the thesis prints 8.14 and 2.87)."""
    b = math.sqrt(600 * math.log(2000))
    step = (-b + math.sqrt(b * b + 4 * 600)) / 1200
    per_step = math.log(1 + (math.exp(step) - 1) / 0.02)
    by_hand = math.sqrt(2 * math.log(1.25 / (5e-4 / 6))) / per_step
    assert published.ermis_advanced_noise_multiplier(1.0, 1e-3, 300, 0.02) == pytest.approx(by_hand)
    assert published.ermis_advanced_noise_multiplier(1.0, 1e-3, 300, 0.02) == pytest.approx(8.14, rel=0.06)
    assert published.ermis_zcdp_noise_multiplier(1.0, 1e-3, 300, 0.02) == pytest.approx(2.87, rel=0.06)
    assert gaussian_noise_multiplier(1.0, 1e-3, steps=300, sampling_rate=0.02) == pytest.approx(1.17, rel=0.01)


def test_ermis_zcdp_solves_equation_4_28():
    z = published.ermis_zcdp_noise_multiplier(0.7, 1e-4, 200, 0.05)
    step_delta = 0.5e-4 / (200 * 0.05)
    step = published.subsampled(math.sqrt(2 * math.log(1.25 / step_delta)) / z, step_delta, 0.05)[0]
    tau = 2 * math.log(1.25 / (0.05 * step_delta)) / step**2  # noise variance by which eq. 4.28 counts
    assert published.zcdp_epsilon(200 / (2 * tau), 1e-4) == pytest.approx(0.7)


def test_geometric_parameter_is_not_epsilon():
    assert published.ermis_geometric_epsilon(0.1) == pytest.approx(math.log(10))
    assert published.ermis_geometric_epsilon(0.9, 3) == pytest.approx(3 * math.log(1 / 0.9))


@pytest.mark.slow
def test_the_thesis_sigma_costs_three_times_what_it_was_sold_for():
    assert gaussian_epsilon(3.23, 1e-4, steps=20_000, sampling_rate=0.01) == pytest.approx(1.505, rel=2e-3)
    assert gaussian_epsilon(10.88, 1e-4, steps=20_000, sampling_rate=0.01) == pytest.approx(0.372, rel=2e-3)


@pytest.mark.slow
def test_comparison_puts_the_sound_one_first_and_prices_the_rest():
    rows = published.compare_published(0.5, 1e-4, steps=20_000, sampling_rate=0.01)
    sound, coarse, renyi, *papers = rows
    assert sound.real_epsilon == pytest.approx(0.5, rel=1e-3)
    assert coarse.noise_multiplier == pytest.approx(8.90, rel=0.01)
    assert sound.noise_multiplier < coarse.noise_multiplier < renyi.noise_multiplier
    assert len(papers) == 5
    for row in rows:
        cost = gaussian_epsilon(row.noise_multiplier, 1e-4, steps=20_000, sampling_rate=0.01)
        assert row.real_epsilon == pytest.approx(cost)


@pytest.mark.parametrize(
    "call",
    [
        lambda: published.dwork_roth_noise_multiplier(0, 1e-5),
        lambda: published.saha_epsilon([0.0], 3, 1e-5),
        lambda: published.mugdho_epsilon(0.1, 0.0, 3, 1e-5),
        lambda: published.advanced_composition(0.1, 1e-5, 0, 1e-5),
        lambda: published.subsampled(0.1, 1e-5, 2.0),
        lambda: published.ermis_geometric_epsilon(1.5),
    ],
)
def test_bad_input(call):
    with pytest.raises(InvalidInputError):
        call()
