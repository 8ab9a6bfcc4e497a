r"""Training as a program: noisy numbers of examples, one noisy total of clipped gradients per step, and noisy gains.

The steps are Algorithm 3 of Ermis 2020, Differentially Private Dropout (DPD), repaired.

With rate q, count n, clipping norm C, noise multiplier z and :math:`\xi \sim N(0, I)`, a step is

.. math:: \hat g_t = \frac{1}{q n C}\Big(\sum_{i \in S_t} \mathrm{clip}_C(\nabla \ell_i(\theta_t)) + z C \xi\Big)
          + \frac{\theta_t}{n C \tau^2}, \qquad
          v_{t+1} = \mu v_t + \hat g_t, \qquad \theta_{t+1} = \theta_t - \eta_t v_{t+1}

with the prior :math:`N(0, \tau^2)` on every weight. Seen as Langevin dynamics on the posterior, the noise
:math:`\eta_t z \xi / (q n)` is the noise of the sampler; seen as dropout, it multiplies every weight by a random number.
The posterior samples are weights from the last quarter of the path. The first and the last total are those of
`tacit.neural.fallback`; with few examples a step's total has the counts of its examples beside the gradient.

The gradient is that of eq. 5.4, divided by n C and with the sign of a loss; the step is that of eq. 5.3, with
:math:`\eta_t` for :math:`\eta_t/2`, and with momentum. Line 6 of the algorithm clips the gradient of the whole
minibatch to G; here each example's is clipped to C and the prior's is not. The noise of line 7 has the standard
deviation :math:`2G\sigma`, for the sensitivity 2G; here it is z C, and z depends on the adjacency. Line 4 has a sample
of fixed size, here it is a Poisson sample.

References
----------
B. Ermis. Bayesian approaches for privacy preserving data sharing. PhD thesis, 2020, section 5.2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tacit.channel import Outcome, Program, Sample, Split, Step, Sum, Total
from tacit.errors import TacitError, words
from tacit.neural.buckets import ROUNDING
from tacit.neural.fallback import MOST_GAIN, Fallback, chosen_scale, pooled, weight_in_steps
from tacit.neural.gradients import Learner
from tacit.neural.loops import move
from tacit.neural.threads import run_ranges
from tacit.privacy import gaussian_noise_multiplier

COUNT_FRACTION, GAIN_FRACTION = 0.05, 0.05
"""Fractions of the budget for the noisy numbers of examples before the training and for the gains after it, relative to that of
the gradients. Set by hand; both together make the noise of the gradients 5% larger."""
OF_THE_COUNTS = {"count": 0.2, "targets": 0.8}
"""How the number of examples and the totals of the targets share the first of these. Set by hand."""
COUNT_NOISE, MOST_COUNT_FRACTION = 20.0, 0.25
"""With a small budget the counts get a larger fraction: as much as makes their noise COUNT_NOISE examples, up to
MOST_COUNT_FRACTION, which makes the noise of the gradients 9% larger. Chosen on class frequencies that fall like 1/k^a among 3 to
20 classes, of 400 examples at epsilon 0.3: there the loss of the frequencies falls to between a quarter and two thirds."""
KEPT_PART = 0.75
"""Samples are kept after this fraction of the path. Set by hand."""
STEPS, LEAST_RATE, MOST_RATE, STEP_NOISE = 100, 0.1, 0.5, 4.0
"""Where neither the number of steps nor the rate is given: this many steps, at the rate for which the noise of one step is
STEP_NOISE clipped gradients. Sampling then costs at most 6% more noise than using all examples in every step, except at the
largest rate (epsilon 10: 5% at a rate of 0.5, 67% at 0.1). Below the least rate, steps would be cheaper but too noisy for
momentum; the largest one limits the computing."""

LARGEST_WEIGHT = float(torch.finfo(torch.float32).max)
"""Weights are kept in float32."""


class DivergedError(TacitError):
    """The weights are no longer finite numbers; what was released before that is charged."""


@dataclass(frozen=True)
class Training:
    """Everything public about a training run.

    Parameters
    ----------
    steps : int
    sampling_rate : float
    clip : float
        Largest norm of one example's gradient (of each layer's part of it, where layers are clipped by themselves).
    step_size, step_decay : float
        Step t has the size ``step_size / (1 + 10 t / steps) ** step_decay``, times `step_scale`.
    momentum : float
    prior : float
        Standard deviation of the prior of every weight.
    n_samples : int
        Number of points of the path that are kept.
    langevin : bool
        Whether the Langevin noise of the step size is added to the noise of the channel.
    random_state : int
        Seed for the Langevin noise, which is not needed for privacy.
    count_fraction : float
        Fraction of the budget for the numbers of examples, relative to that of the gradients.
    """

    steps: int
    sampling_rate: float
    clip: float
    step_size: float
    step_decay: float
    momentum: float
    prior: float
    n_samples: int
    langevin: bool
    random_state: int
    count_fraction: float = COUNT_FRACTION

    @property
    def split(self) -> Split:
        """How the sums divide the budget; the weights of the counts and gains are relative to the 1 of every gradient step."""
        whole = self.steps * self.sampling_rate**2
        return Split(
            examples=self.count_fraction * whole,
            gradients=Step(self.steps, 1.0, self.sampling_rate),
            gains=GAIN_FRACTION * whole,
        )

    def step_size_at(self, step: int) -> float:
        """Return the size of a step, from 0."""
        return self.step_size * float((1 + 10 * step / self.steps) ** -self.step_decay)

    def step_scale(self, noise: float, count: float, n_inputs: int, most: float) -> float:
        r"""Return the factor for all step sizes with which the noise in a score is at most `most`.

        `noise` is the standard deviation of the noise in a total of gradients. A step adds noise of the standard deviation
        :math:`s = \eta z / (q n)` to a weight, momentum makes it :math:`s/(1 - \mu)`, and T steps :math:`\sqrt T` times that. An
        input has a length of up to :math:`\sqrt d`, so a score of a linear model gets :math:`\sqrt{d T} s/(1 - \mu)`.
        """
        noise = self.step_size * noise / (self.sampling_rate * count * self.clip)
        if noise <= 0:
            return 1.0
        in_score = noise * math.sqrt(self.steps * n_inputs) / (1 - self.momentum)
        return min(1.0, most / in_score)

    def noise_of_a_pass(self, fraction: float) -> float:
        r"""Return the noise of all steps over one pass, relative to that of a part of the first sum.

        A step's noise is larger than that of a sum with the weight w by :math:`\sqrt w`. That of T steps at rate q is
        :math:`\sqrt T` times as large, and they are q T passes.
        """
        weight = self.split["examples"].weight * fraction
        return math.sqrt(weight / self.steps) / self.sampling_rate

    def kept_steps(self) -> set[int]:
        """Return the steps after which the weights are kept: evenly spaced over the last part of the path, with the last step."""
        first = min(self.steps - 1, int(KEPT_PART * self.steps))
        return {round(place) for place in np.linspace(self.steps - 1, first, self.n_samples)}


def rate_for(epsilon: float, delta: float) -> float:
    """Return the sampling rate for `STEPS` steps within a budget; it depends on these public numbers alone."""
    if math.isinf(epsilon):
        return LEAST_RATE
    # with sampling, T steps of rate q need the noise of one step over all examples times q sqrt(T), or slightly more
    rate = STEP_NOISE / (math.sqrt(STEPS) * gaussian_noise_multiplier(epsilon, delta))
    return round(min(max(rate, LEAST_RATE), MOST_RATE), 2)


def count_fraction_for(epsilon: float, delta: float) -> float:
    """Return the fraction of a budget for the numbers of examples; it depends on these public numbers alone."""
    if math.isinf(epsilon):
        return COUNT_FRACTION
    fraction = (gaussian_noise_multiplier(epsilon, delta) / COUNT_NOISE) ** 2 / OF_THE_COUNTS["targets"]
    return min(max(fraction, COUNT_FRACTION), MOST_COUNT_FRACTION)


def training_program(
    learner: Learner,
    X: NDArray[np.float32],
    y: NDArray[np.generic],
    training: Training,
    fallback: Fallback,
    n_outputs: int,
) -> Program:
    """One holder's view: count; clip every sampled example's gradient, ask for the noisy total, take the step; compare.

    An example that is not in the sample of a step is not in that step's computation at all: its contribution is exactly
    zero, and the total has the same bits without it. An example whose gradient is not finite contributes exactly zero.
    """
    targets, split = torch.from_numpy(y), training.split
    answer = yield Sum(
        count=[len(y)],
        targets=fallback.total(y, n_outputs),
        bound={"count": 1.0, "targets": fallback.bound(n_outputs)},
        fractions=OF_THE_COUNTS,
        step=split["examples"],
        units=len(y),
    )
    count = max(float(answer["count"][0]), 1.0)
    counts = _Counts(fallback, n_outputs, count, training, answer, jointly="gradient" in learner.groups)
    baseline = counts.baseline()
    learner.start_from(torch.from_numpy(baseline))
    buckets = learner.buckets(X, training.sampling_rate * count, training.clip)
    # rounding in float32 adds to what one example changes
    bound = training.clip * (1.0 if buckets is None else 1 + ROUNDING)
    scale, noise = 1.0, 0.0
    theta = learner.weights()
    speed = torch.zeros_like(theta)
    langevin = torch.Generator().manual_seed(training.random_state)
    kept: list[NDArray[np.float32]] = []
    curve: list[float] = []
    sampled = dropped = 0
    for step in range(training.steps):
        mask = yield Sample(units=len(y), rate=training.sampling_rate)
        learner.set_weights(theta)
        rows, sampled_targets = torch.from_numpy(X[mask]), torch.from_numpy(y[mask])
        in_buckets = None if buckets is None else torch.from_numpy(buckets.numpy()[mask])
        totals, losses = learner.clipped_totals(rows, sampled_targets, training.clip, in_buckets)
        curve.append(float(losses.nanmean()))
        sampled, dropped = sampled + len(losses), dropped + int(losses.isnan().sum())
        asked = {name: total.numpy() for name, total in totals.items()} | counts.asked(y[mask])
        noisy = yield _ask(asked, counts.joint(bound), split["gradients"], len(losses))
        counts.add(noisy)
        if step == 0:
            noise = max(noisy.noise[name] for name in totals)
            scale = training.step_scale(noise, count, X.shape[1], fallback.most_noise)
        size = scale * training.step_size_at(step)
        take_step(theta, speed, [noisy[name] for name in totals], training, count, size)
        if training.langevin:
            # the step is size / (count * clip) on the whole posterior, whose noise has variance twice that (eq. 3.18: 2
            # kappa_t)
            spread = (2 * size / (count * training.clip)) ** 0.5
            theta += spread * torch.randn(theta.shape, generator=langevin, dtype=theta.dtype)
        _check_finite(theta, step, training.steps)
        if step in training.kept_steps():
            kept.append(theta.numpy().astype(np.float32))
    baseline = counts.baseline()
    weights, trust = np.stack(kept), 1.0
    if noise > 0:  # without noise there is no reason to distrust the network
        gains = learner.gains(X, targets, weights, fallback, torch.from_numpy(baseline))
        measured = yield Sum(gains=gains, bound=MOST_GAIN, step=split["gains"], units=len(y))
        trust = chosen_scale(measured["gains"], measured.noise["gains"])
    return Outcome(
        public={
            "weights": weights,
            "count": count,
            "gradient_noise": noise,
            "baseline": baseline,
            "scale": trust,
        },
        private={"loss_curve": curve, "dropped": dropped / max(sampled, 1)},
    )


class _Counts:
    """What the baseline is computed from: the total of all examples and, if they are few, those of the steps.

    With a bound for each layer there is no joint one (`jointly`) that the totals of steps could be part of.
    """

    def __init__(
        self, fallback: Fallback, n_outputs: int, count: float, training: Training, first: Total, *, jointly: bool
    ) -> None:
        self._fallback, self._n_outputs, self._count, self._training = fallback, n_outputs, count, training
        self._first, self._bound = first, fallback.bound(n_outputs).norm
        noise = first.noise["targets"] / self._bound * training.noise_of_a_pass(OF_THE_COUNTS["targets"])
        weight = weight_in_steps(count, noise, fallback.parts(n_outputs)) if jointly else 0.0
        self._weight = training.clip * weight
        self._total, self._noise = np.zeros_like(first["targets"]), 0.0

    def asked(self, targets: NDArray[np.generic]) -> dict[str, NDArray[np.float64]]:
        """Return what a step asks for beside the gradient, by name."""
        return {"targets": self._weight * self._fallback.total(targets, self._n_outputs)} if self._weight else {}

    def joint(self, bound: float) -> float:
        """Return how far one example can move a step's total, of which the gradient is moved by at most `bound`."""
        return math.hypot(bound, self._weight * self._bound)

    def add(self, noisy: Total) -> None:
        """Note what a step released."""
        if self._weight:
            self._total += noisy["targets"] / self._weight
            self._noise = math.hypot(self._noise, noisy.noise["targets"] / self._weight)

    def baseline(self) -> NDArray[np.float64]:
        """Return the baseline from everything that was released so far: before the first step, or after the last."""
        total, noise = self._first["targets"], self._first.noise["targets"]
        if self._noise:
            rate = self._training.sampling_rate
            passes = self._training.steps * rate
            # what the samples leave out adds to the noise: a number of n examples varies by n (1 - q) / (T q)
            left_out = math.sqrt((1 - rate) / passes * self._count / self._fallback.parts(self._n_outputs))
            total, noise = pooled(total, noise, self._total / passes, math.hypot(self._noise / passes, left_out))
        return self._fallback.baseline(total, noise, self._count, self._first.noise["count"])


def take_step(
    theta: torch.Tensor,
    speed: torch.Tensor,
    noisy: list[NDArray[np.float64]],
    training: Training,
    count: float,
    size: float,
) -> None:
    """Move the weights by one step of a size, from the noisy totals of the gradients, group by group.

    Both vectors are changed in place: with a million weights, new vectors would take a quarter of the step's time.
    """
    examples = count * training.clip
    # line 8 of Algorithm 3 (eq. 5.3): the prior's and the examples' part of eq. 5.4, with the noise of line 7 in
    # `noisy`
    factors = training.momentum, 1 / (examples * training.prior**2), 1 / (training.sampling_rate * examples)
    start = 0
    for part in noisy:
        place, start = slice(start, start + part.size), start + part.size
        weights, speeds, flat = theta[place].numpy(), speed[place].numpy(), np.ascontiguousarray(part).reshape(-1)
        run_ranges(partial(_move, weights, speeds, flat, factors, size), part.size)


def _move(
    theta: NDArray[np.float64],
    speed: NDArray[np.float64],
    noisy: NDArray[np.float64],
    factors: tuple[float, float, float],
    size: float,
    place: slice,
) -> None:
    move(theta[place], speed[place], noisy[place], factors, size)


def _ask(arrays: dict[str, Any], most: float, step: Step, units: int) -> Sum:
    """Ask for the totals: those of layers have a bound each, those of the whole gradient and of the counts a joint one."""
    bound: float | dict[str, float] = most if "gradient" in arrays else dict.fromkeys(arrays, most)
    return Sum(bound=bound, step=step, units=units, **arrays)


def _check_finite(theta: torch.Tensor, step: int, steps: int) -> None:
    """Stop when a weight overflows float32. The weights follow from released totals, so this reveals nothing else."""
    weights = theta.numpy()
    if not max(float(weights.max()), -float(weights.min())) <= LARGEST_WEIGHT:  # NaN is not
        raise DivergedError(
            "finite weights",
            words(f"weights that are not finite numbers after step {step + 1} of {steps}"),
            "Use a smaller step_size, or a larger prior. What was released up to this step stays charged.",
        )
