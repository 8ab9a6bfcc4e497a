r"""The privacy formulas of the papers, as printed, to compare them with sound accounting.

Nothing in tacit relies on these formulas. Several are loose, and one (subsampled zCDP) is not a theorem.
`compare_published` shows how much noise each of them uses for a target, and what that noise really costs. Two of the five
papers have no formula here: PD-ML-Lite (Tsikhanovich et al. 2019) proposes a measurement, and Thapa (2013) has no
guarantee. The moments accountant of Ermis's Theorems 4.1 to 4.3 has unnamed constants and cannot be evaluated.

``noise_multiplier`` is always the standard deviation divided by the sensitivity that the paper uses.

References
----------
.. [Saha] S. Saha, H. Imtiaz. Privacy-preserving non-negative matrix factorization with outliers. 2022.
.. [Mugdho] S. S. Mugdho, H. Imtiaz. Privacy-preserving matrix factorization for recommendation systems using Gaussian
   mechanism. 2022.
.. [Ermis] B. Ermis. Bayesian approaches for privacy preserving data sharing. PhD thesis, 2020.
.. [DR] C. Dwork, A. Roth. The Algorithmic Foundations of Differential Privacy. 2014.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tacit.privacy.calibration import gaussian_epsilon, gaussian_noise_multiplier, least_multiplier
from tacit.validation import check_count, check_delta, check_epsilon, check_positive, check_rate


def dwork_roth_noise_multiplier(epsilon: float, delta: float) -> float:
    r""":math:`\sqrt{2\log(1.25/\delta)}/\varepsilon`: [DR]_, Theorem A.1, which is proven for epsilon < 1 only.

    Definition 3 of [Saha]_, Theorem 1 of [Mugdho]_, Theorems 2.2, 4.7 and 5.3 of [Ermis]_.
    """
    return math.sqrt(2 * math.log(1.25 / check_delta(delta))) / check_epsilon(epsilon)


def saha_epsilon(noise_multipliers: Sequence[float], steps: int, delta: float) -> float:
    r"""Theorem 3.1 of [Saha]_: Rényi composition of the statistics A and B over `steps` iterations.

    :math:`\varepsilon = \frac{T\alpha}{2} D + \frac{\log(1/\delta)}{\alpha - 1}` with :math:`D = \sum \Delta^2/\tau^2`
    and :math:`\alpha = 1 + \sqrt{2\log(1/\delta)/(TD)}`.
    """
    ratio = sum(1 / check_positive(z, "noise_multipliers") ** 2 for z in noise_multipliers) * check_count(
        steps, "steps"
    )
    order = 1 + math.sqrt(2 * math.log(1 / check_delta(delta)) / ratio)
    return order * ratio / 2 + math.log(1 / delta) / (order - 1)


def saha_noise_multiplier(epsilon: float, delta: float, steps: int) -> float:
    r"""Invert `saha_epsilon` for one statistic per iteration; the paper does not print the inverse.

    :math:`\sqrt{T}/(\sqrt{2(L+\varepsilon)} - \sqrt{2L})` with :math:`L = \log(1/\delta)`.
    """
    confidence = math.log(1 / check_delta(delta))
    slope = math.sqrt(2 * (confidence + check_epsilon(epsilon))) - math.sqrt(2 * confidence)
    return math.sqrt(check_count(steps, "steps")) / slope


def mugdho_epsilon(step_epsilon: float, step_delta: float, steps: int, delta: float) -> float:
    r"""Theorem 2, eq. 9 of [Mugdho]_.

    :math:`\varepsilon_{opt} = c + 2\sqrt{c\log(1/\delta_r)}`, :math:`c = J\varepsilon_i^2/(4\log(1.25/\delta))`.
    """
    cost = (
        check_count(steps, "steps") * check_epsilon(step_epsilon) ** 2 / (4 * math.log(1.25 / check_delta(step_delta)))
    )
    return cost + 2 * math.sqrt(cost * math.log(1 / check_delta(delta)))


def mugdho_noise_multiplier(epsilon: float, delta: float, steps: int, *, step_delta: float = 0.01) -> float:
    """Invert eq. 9 for the epsilon per iteration, then use Dwork and Roth's noise for it; 0.01 is the paper's step_delta."""
    confidence = math.log(1 / check_delta(delta))
    cost = (math.sqrt(confidence + check_epsilon(epsilon)) - math.sqrt(confidence)) ** 2
    step_epsilon = math.sqrt(4 * math.log(1.25 / check_delta(step_delta)) * cost / check_count(steps, "steps"))
    return dwork_roth_noise_multiplier(step_epsilon, step_delta)


def advanced_composition(step_epsilon: float, step_delta: float, steps: int, slack_delta: float) -> tuple[float, float]:
    r"""Theorem 4.6 of [Ermis]_, eq. 4.26 (also eqs 2.7 and 5.5; Theorem 3.20 of [DR]_).

    :math:`\sqrt{2k\log(1/\delta')}\varepsilon + k\varepsilon(e^\varepsilon - 1)`, and :math:`k\delta + \delta'`.
    """
    first = math.sqrt(2 * check_count(steps, "steps") * math.log(1 / check_delta(slack_delta))) * step_epsilon
    return first + steps * step_epsilon * math.expm1(step_epsilon), steps * step_delta + slack_delta


def subsampled(step_epsilon: float, step_delta: float, rate: float) -> tuple[float, float]:
    r"""Theorem 4.8 of [Ermis]_ (also 5.4), for a Poisson sample.

    :math:`(\log(1 + \gamma(e^\varepsilon - 1)), \gamma\delta)`.
    """
    return math.log1p(check_rate(rate) * math.expm1(step_epsilon)), rate * step_delta


def unsampled(step_epsilon: float, rate: float) -> float:
    r"""Invert `subsampled`, as eq. 4.29 of [Ermis]_ (also 5.7) asks: the epsilon of a step that costs this on a sample.

    :math:`\log(1 + (e^\varepsilon - 1)/\gamma)`.
    """
    return math.log1p(math.expm1(step_epsilon) / check_rate(rate))


def zcdp_of_gaussian(noise_multiplier: float, steps: int = 1) -> float:
    r"""Proposition 4.9 and Lemma 4.11 of [Ermis]_ (also 5.5 and 5.7): :math:`\rho = T/(2 z^2)`."""
    return check_count(steps, "steps") / (2 * check_positive(noise_multiplier, "noise_multiplier") ** 2)


def zcdp_epsilon(rho: float, delta: float) -> float:
    r"""Proposition 4.10 of [Ermis]_ (also 5.6): :math:`\varepsilon = \rho + 2\sqrt{\rho\log(1/\delta)}`."""
    return check_positive(rho, "rho") + 2 * math.sqrt(rho * math.log(1 / check_delta(delta)))


def ermis_sgld_noise_multiplier(epsilon: float, delta: float, passes: float, rate: float) -> float:
    r"""The sigma' of appendix C of [Ermis]_ (eq. C.2 and below), over the sensitivity 2L, for T passes over the data.

    With :math:`\gamma = B/C_v`,
    :math:`\frac12\sqrt{256\,T\gamma\log(2.5\,T/(\gamma\delta))\log(2/\delta)}/\varepsilon`.
    """
    inner = 256 * passes * check_rate(rate) * math.log(2.5 * passes / (rate * check_delta(delta))) * math.log(2 / delta)
    return math.sqrt(inner) / (2 * check_epsilon(epsilon))


def ermis_advanced_noise_multiplier(epsilon: float, delta: float, steps: int, rate: float) -> float:
    r"""Appendix E of [Ermis]_, "AC", step by step as printed, with :math:`\delta' = \delta/2`.

    :math:`\sigma' = (-B + \sqrt{B^2 - 4AC})/2A` with :math:`A = 2T`, :math:`B = \sqrt{2T\log(1/\delta')}`,
    :math:`C = -\varepsilon`; then `unsampled`; then the Gaussian mechanism at
    :math:`\delta_{iter} = (\delta - \delta')/(T\nu)`. (The equation above the steps, and section 5.2.3, divide by
    :math:`\sigma'` where this root multiplies; :math:`A = 2T` instead of T follows from Remark 5.2.)
    """
    slack = check_delta(delta) / 2
    step_delta = (delta - slack) / (check_count(steps, "steps") * check_rate(rate))
    step = _positive_root(2.0 * steps, math.sqrt(2 * steps * math.log(1 / slack)), -check_epsilon(epsilon))
    return dwork_roth_noise_multiplier(unsampled(step, rate), step_delta)


def ermis_zcdp_noise_multiplier(epsilon: float, delta: float, steps: int, rate: float) -> float:
    r"""Appendix E of [Ermis]_, "zCDP", from eqs 4.28 and 4.29 (also 5.6, 5.7): zCDP has no amplification by sampling.

    :math:`\varepsilon = \frac{T}{4\ell}\varepsilon'^2 + \sqrt{T\log(1/\delta)/\ell}\;\varepsilon'` with
    :math:`\ell = \log(1.25/\delta')`, :math:`\delta' = \nu\delta_{iter}`; then `unsampled`; then the Gaussian
    mechanism, with :math:`\delta_{iter}` as above. (The appendix prints the root over the numerator of B only; eq. 4.28
    gives it over the whole.)
    """
    step_delta = check_delta(delta) / 2 / (check_count(steps, "steps") * check_rate(rate))
    log_step = math.log(1.25 / (rate * step_delta))
    linear = math.sqrt(steps * math.log(1 / delta) / log_step)
    step = _positive_root(steps / (4 * log_step), linear, -check_epsilon(epsilon))
    return dwork_roth_noise_multiplier(unsampled(step, rate), step_delta)


def ermis_geometric_epsilon(parameter: float, sensitivity: int = 1) -> float:
    r"""Return the epsilon of two-sided geometric noise :math:`P(\tau) = \frac{1-a}{1+a}a^{|\tau|}`.

    :math:`\Delta\log(1/a)`; eq. 4.15 of [Ermis]_ and the line above it (p. 52) write epsilon for `a` itself.
    """
    return check_count(sensitivity, "sensitivity") * math.log(1 / check_delta(parameter))


def renyi_noise_multiplier(epsilon: float, delta: float, steps: int, rate: float) -> float:
    """Return the noise that the Rényi accountant of dp-accounting needs: sound, and looser than loss distributions."""
    import dp_accounting
    from dp_accounting.rdp import RdpAccountant

    def cost(noise_multiplier: float) -> float:
        step = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise_multiplier))
        return float(RdpAccountant().compose(step, steps).get_epsilon(delta))

    sound = gaussian_noise_multiplier(epsilon, delta, steps=steps, sampling_rate=rate)
    return least_multiplier(cost, epsilon, start=sound)


def coarse_grid_noise_multiplier(epsilon: float, delta: float, steps: int, rate: float) -> float:
    """Return the noise that loss distributions need on a grid of 1e-3: sound, but many rounded steps cost more noise."""
    from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

    def cost(noise_multiplier: float) -> float:
        step = from_gaussian_mechanism(noise_multiplier, sampling_prob=rate, value_discretization_interval=1e-3)
        return float(step.self_compose(steps).get_epsilon_for_delta(delta))

    sound = gaussian_noise_multiplier(epsilon, delta, steps=steps, sampling_rate=rate)
    return least_multiplier(cost, epsilon, start=sound)


def _positive_root(a: float, b: float, c: float) -> float:
    return (-b + math.sqrt(b * b - 4 * a * c)) / (2 * a)


@dataclass(frozen=True)
class Comparison:
    """One formula for the noise of a target, and what that noise really costs."""

    method: str
    noise_multiplier: float
    real_epsilon: float
    remark: str


def compare_published(epsilon: float, delta: float, *, steps: int, sampling_rate: float) -> list[Comparison]:
    """Return the sound noise multiplier for a target, those of looser accountants, and those of the papers.

    The papers' multipliers are taken relative to the norm of one unit's contribution under add-remove adjacency. Their
    real epsilon is computed by the accountant, with the Poisson sampling that the sampled methods assume.
    """
    sampled = sampling_rate < 1
    methods = [
        (
            "sound",
            gaussian_noise_multiplier(epsilon, delta, steps=steps, sampling_rate=sampling_rate),
            "what tacit uses",
        ),
        (
            "loss distributions, grid 1e-3",
            coarse_grid_noise_multiplier(epsilon, delta, steps, sampling_rate),
            "sound; pays for a coarse grid",
        ),
        ("Rényi accountant", renyi_noise_multiplier(epsilon, delta, steps, sampling_rate), "sound; looser"),
        ("Saha Thm 3.1", saha_noise_multiplier(epsilon, delta, steps), "Rényi closed form, full batch"),
        ("Mugdho eq. 9", mugdho_noise_multiplier(epsilon, delta, steps), "same closed form by way of per-step epsilon"),
        (
            "Ermis App. E, AC",
            ermis_advanced_noise_multiplier(epsilon, delta, steps, sampling_rate),
            "advanced composition",
        ),
        (
            "Ermis App. E, zCDP",
            ermis_zcdp_noise_multiplier(epsilon, delta, steps, sampling_rate),
            "zCDP has no amplification by sampling: unsound" if sampled else "zCDP by way of per-step epsilon",
        ),
        (
            "Ermis App. C",
            ermis_sgld_noise_multiplier(epsilon, delta, steps * sampling_rate, sampling_rate),
            "SGLD noise by advanced composition",
        ),
    ]
    return [
        Comparison(
            name, multiplier, gaussian_epsilon(multiplier, delta, steps=steps, sampling_rate=sampling_rate), remark
        )
        for name, multiplier, remark in methods
    ]
