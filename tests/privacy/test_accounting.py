"""Both directions of the accounting, against dp-accounting used directly, exact sums, and each other."""

import math

import numpy as np
import pytest
from scipy import stats

from tacit.errors import InvalidInputError, UnaccountableError
from tacit.privacy import (
    Accountant,
    ApproximateRelease,
    ExponentialRelease,
    GaussianRelease,
    GeometricRelease,
    LaplaceRelease,
    Release,
    gaussian_epsilon,
    gaussian_noise_multiplier,
)
from tacit.privacy.gaussian import delta_of_mu, epsilon_of_mu, epsilon_of_rho, lattice_loss
from tacit.privacy.releases import merge, release_from_dict

FULL_BATCH = [(0.05, 1e-9), (0.5, 1e-5), (1.0, 1e-6), (3.0, 1e-4), (20.0, 1e-3), (150.0, 1e-8)]
SAMPLED = [(0.5, 1e-4, 20_000, 0.01), (1.0, 1e-3, 300, 0.02), (8.0, 1e-6, 50, 0.3), (0.2, 1e-5, 5, 0.001)]


@pytest.mark.parametrize(("epsilon", "delta"), FULL_BATCH)
@pytest.mark.parametrize("steps", [1, 7, 1000])
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_full_batch_inverse_is_tight_and_on_the_private_side(epsilon, delta, steps, adjacency):
    multiplier = gaussian_noise_multiplier(epsilon, delta, steps=steps, adjacency=adjacency)
    back = gaussian_epsilon(multiplier, delta, steps=steps, adjacency=adjacency)
    assert back <= epsilon
    assert back == pytest.approx(epsilon, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "delta", "steps", "rate"), SAMPLED)
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_sampled_inverse_is_tight_and_on_the_private_side(epsilon, delta, steps, rate, adjacency):
    multiplier = gaussian_noise_multiplier(epsilon, delta, steps=steps, sampling_rate=rate, adjacency=adjacency)
    back = gaussian_epsilon(multiplier, delta, steps=steps, sampling_rate=rate, adjacency=adjacency)
    assert back <= epsilon
    assert back == pytest.approx(epsilon, rel=1e-3)
    slightly_less = gaussian_epsilon(
        multiplier * (1 - 1e-3), delta, steps=steps, sampling_rate=rate, adjacency=adjacency
    )
    assert slightly_less > epsilon  # so the multiplier is the least one, within 1e-3


@pytest.mark.parametrize("mu", [0.01, 0.3, 1.0, 5.0, 30.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 10.0])
def test_closed_form_is_the_hockey_stick_divergence_of_two_normals(mu, epsilon):
    """Integrate (p - e^eps q)+ numerically; delta must agree wherever it is not negligible."""
    grid = np.linspace(-12 - mu, 12 + mu, 400_001)
    excess = np.maximum(stats.norm.pdf(grid, mu) - math.exp(epsilon) * stats.norm.pdf(grid, 0), 0)
    assert delta_of_mu(epsilon, mu) == pytest.approx(np.trapezoid(excess, grid), rel=1e-5, abs=1e-12)


@pytest.mark.parametrize("noise_multiplier", [0.4, 1.0, 5.0, 40.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-8])
def test_full_batch_agrees_with_dp_accounting(noise_multiplier, delta):
    from dp_accounting.gaussian_mechanism import get_epsilon_gaussian

    expected = get_epsilon_gaussian(noise_multiplier, delta, tol=1e-10)
    assert gaussian_epsilon(noise_multiplier, delta) == pytest.approx(expected, rel=1e-6, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("noise_multiplier", "delta", "steps", "rate"), [(8.4, 1e-4, 20_000, 0.01), (1.2, 1e-5, 300, 0.02)]
)
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_sampled_agrees_with_dp_accounting(noise_multiplier, delta, steps, rate, adjacency):
    import dp_accounting
    from dp_accounting.pld import PLDAccountant
    from dp_accounting.rdp import RdpAccountant

    relation = {
        "add-remove": dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE,
        "replace-one": dp_accounting.NeighboringRelation.REPLACE_ONE,
    }[adjacency]
    event = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise_multiplier))
    ours = gaussian_epsilon(noise_multiplier, delta, steps=steps, sampling_rate=rate, adjacency=adjacency)
    direct = PLDAccountant(relation, value_discretization_interval=1e-4).compose(event, steps).get_epsilon(delta)
    assert ours == pytest.approx(direct, rel=2e-3)
    if adjacency == "add-remove":  # Rényi accounting is an independent, looser upper bound
        renyi = RdpAccountant().compose(event, steps).get_epsilon(delta)
        assert ours <= renyi <= 1.4 * ours


def test_sampled_agrees_with_the_central_limit_for_many_small_steps():
    """20,000 steps at rate 0.01 are close to one Gaussian with mu = q sqrt(T (exp(1/z^2) - 1)) (Bu et al. 2020)."""
    z = 8.374
    mu = 0.01 * math.sqrt(20_000 * math.expm1(1 / z**2))
    assert gaussian_epsilon(z, 1e-4, steps=20_000, sampling_rate=0.01) == pytest.approx(
        epsilon_of_mu(mu, 1e-4), rel=5e-3
    )


def test_any_mix_of_multipliers_is_one_gaussian():
    mix = [GaussianRelease(noise_multiplier=z, count=c) for z, c in [(2.0, 3), (7.0, 11), (0.9, 1)]]
    mu = math.sqrt(3 / 4 + 11 / 49 + 1 / 0.81)
    assert Accountant(releases=tuple(mix)).epsilon(1e-6) == pytest.approx(epsilon_of_mu(mu, 1e-6), rel=1e-9)


def test_replace_one_doubles_the_sensitivity():
    assert gaussian_epsilon(4.0, 1e-5, adjacency="replace-one") == pytest.approx(gaussian_epsilon(2.0, 1e-5))


@pytest.mark.slow
@pytest.mark.parametrize("noise_multiplier", [0.6, 1.0, 1.7, 3.0])
@pytest.mark.parametrize("shift", [(1,), (1, 1), (2, 1, 1), (7,), (10, 3), (40, 9)])
def test_discrete_gaussian_costs_what_is_charged(noise_multiplier, shift):
    """The exact delta of a discrete Gaussian with an integer shift, by enumeration, is within the charged bound."""
    norm = math.sqrt(sum(s * s for s in shift))
    sigma = noise_multiplier * norm
    release = GaussianRelease(noise_multiplier=sigma / norm, lattice_sigma=sigma, dimension=len(shift))
    delta = 1e-5
    charged = Accountant(releases=(release,)).epsilon(delta)
    assert exact_discrete_delta(sigma, shift, charged) <= delta * (1 + 1e-9)
    if sigma > 20:  # and the bound is tight where the grid is fine
        assert exact_discrete_delta(sigma, shift, 0.97 * charged) > delta


def exact_discrete_delta(sigma, shift, epsilon):
    """Sum (p - e^eps q)+ over the lattice, coordinate by coordinate through the privacy loss."""
    reach = math.ceil(14 * sigma) + 20
    axis = np.arange(-reach, reach + 1)
    mass = np.exp(-(axis**2) / (2 * sigma**2))
    mass /= mass.sum()
    # the privacy loss of x ~ p against the shifted q is linear in <x, shift>
    totals, weights = np.zeros(1, dtype=np.int64), np.ones(1)
    for step in shift:
        sums = (totals[:, None] + axis[None, :] * step).ravel()
        products = (weights[:, None] * mass[None, :]).ravel()
        totals, index = np.unique(sums, return_inverse=True)
        weights = np.bincount(index, weights=products)
    loss = (sum(s * s for s in shift) - 2 * totals) / (2 * sigma**2)
    return float(np.sum(weights * np.maximum(-np.expm1(epsilon - loss), 0)))


def test_a_fine_grid_costs_next_to_nothing_and_a_coarse_one_falls_back_to_zcdp():
    plain = Accountant(releases=(GaussianRelease(noise_multiplier=5.0),)).epsilon(1e-6)
    fine = GaussianRelease(noise_multiplier=5.0, lattice_sigma=4096.0, dimension=10_000)
    coarse = GaussianRelease(noise_multiplier=5.0, lattice_sigma=0.8)
    assert plain < Accountant(releases=(fine,)).epsilon(1e-6) < plain * (1 + 1e-6)
    assert Accountant(releases=(coarse,)).epsilon(1e-6) == pytest.approx(epsilon_of_rho(1 / 50, 1e-6))
    assert "concentrated" in Accountant(releases=(coarse,)).method
    assert lattice_loss(0.8, 1) is None


def test_zcdp_conversion_dominates_the_exact_gaussian():
    for mu in (0.05, 0.5, 2.0, 8.0):
        exact, bound = epsilon_of_mu(mu, 1e-6), epsilon_of_rho(mu * mu / 2, 1e-6)
        assert exact <= bound <= 1.2 * exact + 1e-9


MIXED = (
    GaussianRelease(noise_multiplier=4.0, count=5),
    GaussianRelease(noise_multiplier=1.5, sampling_rate=0.05, count=20),
    LaplaceRelease(noise_multiplier=5.0),
    GeometricRelease(scale=8.0, sensitivity=2),
    ExponentialRelease(epsilon=0.1),
    ApproximateRelease(epsilon=0.05, delta=1e-8),
)


def test_mixed_releases_compose_below_their_sum_and_above_each_alone():
    delta = 1e-5
    total = Accountant(releases=MIXED).epsilon(delta)
    alone = [Accountant(releases=(release,)).epsilon(delta) for release in MIXED]
    assert max(alone) < total < sum(alone)


@pytest.mark.parametrize("left_out", range(len(MIXED)))
def test_every_kind_of_release_adds_to_the_total(left_out):
    fewer = tuple(release for index, release in enumerate(MIXED) if index != left_out)
    assert Accountant(releases=fewer).epsilon(1e-5) < Accountant(releases=MIXED).epsilon(1e-5)


@pytest.mark.slow
def test_mixed_agrees_with_dp_accounting_events():
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    direct = PLDAccountant(value_discretization_interval=1e-4)
    direct.compose(dp_accounting.GaussianDpEvent(4.0), 5)
    direct.compose(dp_accounting.PoissonSampledDpEvent(0.05, dp_accounting.GaussianDpEvent(1.5)), 20)
    direct.compose(dp_accounting.LaplaceDpEvent(5.0))
    direct.compose(dp_accounting.dp_event.DiscreteLaplaceDpEvent(1 / 8.0, 2))
    assert Accountant(releases=MIXED[:4]).epsilon(1e-5) == pytest.approx(direct.get_epsilon(1e-5), rel=1e-3)


def test_pure_steps_add_up_when_delta_is_tiny():
    pure = Accountant(releases=(ExponentialRelease(epsilon=0.3), LaplaceRelease(noise_multiplier=2.0, dimension=9)))
    assert pure.epsilon(1e-12) == pytest.approx(0.8, abs=2e-3)
    assert pure.epsilon(1e-12) <= 0.8 + 2e-3


@pytest.mark.parametrize("releases", [MIXED, MIXED[:1]])
def test_delta_inverts_epsilon(releases):
    accountant = Accountant(releases=releases)
    assert accountant.delta(accountant.epsilon(1e-5)) == pytest.approx(1e-5, rel=1e-3)


def test_composition_is_immutable_and_merges_equal_rounds():
    before = Accountant()
    after = before.compose(GaussianRelease(noise_multiplier=2.0)).compose(
        GaussianRelease(noise_multiplier=2.0, count=4)
    )
    assert before.releases == ()
    assert before.epsilon(1e-5) == 0
    assert after.releases == (GaussianRelease(noise_multiplier=2.0, count=5),)


def test_releases_survive_a_round_trip():
    assert merge(release_from_dict(release.to_dict()) for release in MIXED) == merge(MIXED)


@pytest.mark.parametrize("values", [{"kind": "magic"}, {}, {"kind": 3}])
def test_unknown_releases_are_refused(values):
    with pytest.raises(UnaccountableError, match="known kind"):
        release_from_dict(values)


class HomeMade(Release):
    """A kind without a bound."""


def test_the_accountant_refuses_kinds_it_cannot_account():
    with pytest.raises(UnaccountableError, match="known bound"):
        Accountant(releases=(HomeMade(),))


@pytest.mark.parametrize("releases", [MIXED[1:2], (*MIXED[:1], ExponentialRelease(epsilon=1.0))])
def test_a_grid_too_coarse_for_the_bound_is_refused_not_guessed(releases):
    coarse = GaussianRelease(noise_multiplier=4.0, lattice_sigma=0.9)
    with pytest.raises(UnaccountableError, match="finer grid"):
        Accountant(releases=(*releases, coarse)).epsilon(1e-5)


BAD = [0, -1, float("nan"), float("inf"), "1", None, True, 1j, 10**400]


@pytest.mark.parametrize("epsilon", BAD)
def test_bad_epsilon(epsilon):
    with pytest.raises(InvalidInputError, match="epsilon"):
        gaussian_noise_multiplier(epsilon, 1e-5)


@pytest.mark.parametrize("delta", [0, 1, -0.1, 1.5, float("nan"), "x", None])
def test_bad_delta(delta):
    with pytest.raises(InvalidInputError, match="delta"):
        gaussian_epsilon(1.0, delta)
    with pytest.raises(InvalidInputError, match="delta"):
        gaussian_noise_multiplier(1.0, delta)


@pytest.mark.parametrize("noise_multiplier", BAD)
def test_bad_noise_multiplier(noise_multiplier):
    with pytest.raises(InvalidInputError, match="noise_multiplier"):
        gaussian_epsilon(noise_multiplier, 1e-5)


@pytest.mark.parametrize("steps", [0, -3, 1.5, "2", True, None])
def test_bad_steps(steps):
    with pytest.raises(InvalidInputError, match="integer"):
        gaussian_epsilon(1.0, 1e-5, steps=steps)


@pytest.mark.parametrize("rate", [0, 1.2, -0.5, float("nan"), None])
def test_bad_rate(rate):
    with pytest.raises(InvalidInputError, match="sampling_rate"):
        gaussian_noise_multiplier(1.0, 1e-5, sampling_rate=rate)


def test_bad_adjacency_names_the_choices():
    with pytest.raises(InvalidInputError, match=r"add-remove.*replace-one"):
        gaussian_epsilon(1.0, 1e-5, adjacency="neighbours")


@pytest.mark.slow
def test_a_delta_that_lets_the_sampled_go_unprotected_is_refused():
    with pytest.raises(InvalidInputError, match="below the probability that a unit is drawn"):
        gaussian_noise_multiplier(1.0, 1e-5, steps=4, sampling_rate=1e-7)
    assert gaussian_noise_multiplier(1.0, 1e-5, steps=4, sampling_rate=1e-5) > 0.1


@pytest.mark.parametrize("edge", [{"delta": 2.2e-313}, {"sampling_rate": 2.2e-313}])
def test_probabilities_that_have_lost_their_digits_are_refused(edge):
    with pytest.raises(InvalidInputError, match="to be"):
        gaussian_noise_multiplier(**{"epsilon": 1.77e14, "delta": 1e-6, "steps": 21696, **edge})
