"""The base of classifiers and regressors: checks of parameters, planning, fitting, and the scores of posterior samples."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from tacit.channel import Plan
from tacit.errors import InvalidInputError, PrivacyWarning, parameter, words
from tacit.estimators.base import learned, public, released
from tacit.estimators.input import Rows, checked_range, validated
from tacit.estimators.private import PrivateFit
from tacit.estimators.verdict import RELEASED, Concern, about_losses
from tacit.neural.dropout import summarise_rates
from tacit.neural.fallback import LEAST_SCALE, Fallback, shrunk
from tacit.neural.gradients import Learner
from tacit.neural.inputs import as_rows, checked_features, prepare_inputs, random_rows
from tacit.neural.network import PREDICTED_AT_ONCE, convolution, perceptron, prepared
from tacit.neural.program import LEAST_RATE, STEPS, Training, count_fraction_for, rate_for, training_program
from tacit.neural.published import ACCOUNTINGS, published_noise
from tacit.neural.trial import ROWS, check_module, choose_engine
from tacit.validation import (
    TableLike,
    check_choice,
    check_count,
    check_epsilon,
    check_non_negative,
    check_positive,
    check_rate,
    check_seed,
)

MOST_NOISE = 2.0**16
"""Largest noise multiplier that the exact sampler supports, for networks of any size."""


def feasible_plan(
    epsilon: float, delta: float, training: Training, *, adjacency: str, max_units: int, layers: int = 1
) -> Plan:
    """Return the plan of a training run; refuse one whose noise exceeds the gradients for any data.

    This follows from public numbers alone: if the least noise that keeps all steps within epsilon exceeds
    ``sampling_rate * max_units``, then it exceeds the total of a whole batch of clipped gradients, in every direction.
    """
    most = min(MOST_NOISE, training.sampling_rate * max_units)
    try:
        plan = Plan.for_budget(epsilon, delta, steps=training.split, adjacency=adjacency)
    except InvalidInputError as error:
        if "reachable" not in error.expected:
            raise
        raise _too_small(epsilon, training, most, "none: the accountant cannot show it for any noise") from error
    noise = plan.multiplier(1 / layers)
    if noise > most:
        raise _too_small(
            epsilon, training, most, f"a smallest feasible noise of {noise:.4g} clipped gradients per step"
        )
    return plan


def published_plan(plan: Plan, name: str, training: Training) -> Plan:
    """Return the plan with the noise that the thesis prescribes for this epsilon, and warn about it."""
    warnings.warn(
        f"The noise of {name} is for comparison with the thesis. guarantee_ will say what it really costs, which is not "
        f"epsilon {plan.epsilon:g}.",
        PrivacyWarning,
        stacklevel=4,
    )
    noise = published_noise(name, plan.epsilon, plan.delta, training.steps, training.sampling_rate)
    return replace(plan, noise_multiplier=noise)


def _too_small(epsilon: float, training: Training, most: float, got: str) -> InvalidInputError:
    return InvalidInputError(
        f"noise of at most {most:.4g} clipped gradients (sampling_rate * max_units) in each of {training.steps} steps at rate "
        f"{training.sampling_rate:g} within epsilon {epsilon:g}",
        words(got),
        "Use fewer steps (epochs), larger batches (sampling_rate), or a larger epsilon. Nothing was charged.",
    )


DEFAULT_EPOCHS = 10.0
"""Where only the sampling rate is given."""
DEFAULT_HIDDEN = (100,)
"""Widths of the hidden layers for rows without a front end."""
METHODS = ("dropout", "sgld", "dp-sgd")
PUBLIC = ("the range of the features is public", "the network's start is public")


class PrivateNetwork(PrivateFit):
    """A network trained with noisy gradient steps on rows within a public range.

    A subclass has a `_loss` of (scores, targets) that returns one number per example, random targets for the trial before
    the fit (`_random_targets`), what is predicted without inputs (`_fallback`, in words `_without_inputs`), and the
    assumptions of its guarantee (`_assuming`).
    """

    hidden: Sequence[int] | None = public(default=None, kw_only=False)
    module: torch.nn.Module | None = public(default=None, in_file=False)
    method: str = public(default="dropout")
    features: str | None = public(default="auto")
    image_shape: tuple[int, int] | None = public(default=None)
    feature_range: ArrayLike = public(default=(0.0, 1.0))
    epochs: float | None = public(default=None)
    sampling_rate: float | None = public(default=None)
    clip: float = public(default=1.0)
    step_size: float = public(default=1.0)
    step_decay: float = public(default=0.25)
    momentum: float = public(default=0.9)
    prior: float = public(default=10.0)
    n_samples: int = public(default=10)
    per_layer: bool = public(default=False)
    accounting: str = public(default="sound")
    random_state: int = public(default=0)
    weights_: NDArray[np.float32] = released()
    count_: float = released()
    baseline_: NDArray[np.float64] = released()
    scale_: float = released()
    feature_range_: NDArray[np.float64] = released()
    features_: str | None = released()
    hidden_: list[int] | None = released()
    image_shape_: list[int] | None = released()
    n_features_in_: int = released()
    dropout_rate_: dict[str, float] = released()
    step_noise_: float = released()
    loss_curve_: list[float] = learned()
    clipped_fraction_: float = learned()
    dropped_fraction_: float = learned()
    _loss: ClassVar[staticmethod[[torch.Tensor, torch.Tensor], torch.Tensor]]
    _random_targets: ClassVar[staticmethod[[int, int, np.random.Generator], NDArray[np.generic]]]
    _fallback: ClassVar[Fallback]
    _without_inputs: ClassVar[str]
    _assuming: ClassVar[tuple[str, ...]]

    def _concerns(self) -> list[Concern]:
        losses = vars(self).get("loss_curve_", ()) if self.guarantee_.holds else ()
        return [*self._about_scale(), *about_losses(losses)]

    def _about_scale(self) -> list[Concern]:
        """Say that the predictions do not depend on the inputs, or hardly."""
        if self.scale_ > LEAST_SCALE:
            return []
        almost = "almost " if self.scale_ > 0 else ""
        return [
            Concern(
                f"The network falls back: its predictions are {almost}{self._without_inputs}, whatever the inputs, because no "
                "gain from the inputs was seen through the noise.",
                "Give more examples or a larger epsilon; for images, use a front end (features='scattering').",
                RELEASED,
            )
        ]

    def _rows(self, X: TableLike) -> tuple[Rows, tuple[int, int] | None]:
        """Return the checked rows, and the shape of the images if `X` is a stack or a list of them."""
        rows, shape = as_rows(X)
        return validated(self, rows, reset=True), shape

    def _learn(
        self, X: TableLike, rows: Rows, shape: tuple[int, int] | None, targets: NDArray[np.generic], n_outputs: int
    ) -> None:
        training = self._training()
        limits = checked_range(self.feature_range, rows.shape[1])
        self.features_, shape = checked_features(
            self.features, self.image_shape or shape, rows.shape[1], own_module=self.module is not None
        )
        hidden = self.hidden
        if hidden is None:
            hidden = DEFAULT_HIDDEN if self.features_ is None else ()
        inputs, clipped_fraction = prepare_inputs(rows, limits, self.features_, shape)
        learner = self._learner(inputs.shape[1], n_outputs, hidden, shape)
        self._try_out(learner, limits, shape, n_outputs)
        plan = self._noise_plan(training, learner)
        self.feature_range_, self.clipped_fraction_ = limits, clipped_fraction
        self.image_shape_ = None if shape is None else list(shape)
        self.hidden_ = None if self.module is not None else [int(width) for width in hidden]
        program = training_program(learner, inputs, targets, training, self._fallback, n_outputs)
        outcome = self._run(X, program, plan)
        if plan is not None:
            self.guarantee_ = self.guarantee_.assuming(*self._assuming)
        self.weights_, self.count_ = outcome.public["weights"], outcome.public["count"]
        self.baseline_, self.scale_ = outcome.public["baseline"], outcome.public["scale"]
        self.loss_curve_, self.dropped_fraction_ = outcome.private["loss_curve"], outcome.private["dropped"]
        self._describe_noise(training, outcome.public["gradient_noise"], inputs.shape[1])

    def _training(self) -> Training:
        check_epsilon(self.epsilon, infinite=True)
        check_choice(self.method, "method", METHODS)
        check_choice(self.accounting, "accounting", ACCOUNTINGS)
        check_count(self.n_samples, "n_samples")
        rate, steps = self._rate_and_steps()
        if not 0 <= check_non_negative(self.momentum, "momentum") < 1:
            raise InvalidInputError(
                "momentum to be at least 0 and below 1", parameter(self.momentum), "Use 0.9, or 0 for none."
            )
        plain = self.method == "dp-sgd"
        return Training(
            steps=steps,
            sampling_rate=rate,
            clip=check_positive(self.clip, "clip"),
            step_size=check_positive(self.step_size, "step_size"),
            step_decay=0.0 if plain else check_non_negative(self.step_decay, "step_decay"),
            momentum=self.momentum,
            prior=check_positive(math.inf if plain else self.prior, "prior", infinite=True),
            n_samples=1 if plain else self.n_samples,
            langevin=self.method == "sgld",
            random_state=check_seed(self.random_state),
            count_fraction=count_fraction_for(self.epsilon, self.delta),
        )

    def n_steps(self) -> int:
        """Return the number of steps that a fit takes."""
        return self._rate_and_steps()[1]

    def _rate_and_steps(self) -> tuple[float, int]:
        """Return the sampling rate and the number of steps; where neither rate nor epochs are given, those for the budget."""
        if self.sampling_rate is None and self.epochs is None:
            return rate_for(self.epsilon, self.delta), STEPS
        rate = LEAST_RATE if self.sampling_rate is None else check_rate(self.sampling_rate)
        epochs = DEFAULT_EPOCHS if self.epochs is None else check_positive(self.epochs, "epochs")
        return rate, max(1, round(epochs / rate))

    def _learner(
        self, n_inputs: int, n_outputs: int, hidden: Sequence[int], shape: Sequence[int] | None = None
    ) -> Learner:
        last_bias = None
        if self.module is not None:
            network = prepared(self.module, n_inputs, n_outputs)
        else:
            if self.features_ == "convolution":
                assert shape is not None
                network = convolution((int(shape[0]), int(shape[1])), hidden, n_outputs, self.random_state)
            else:
                network = perceptron(n_inputs, hidden, n_outputs, self.random_state)
            last = network[-1]
            assert isinstance(last, torch.nn.Linear)
            last_bias = last.bias
        return Learner(network, type(self)._loss, per_layer=self.per_layer, last_bias=last_bias)

    def _try_out(
        self, learner: Learner, limits: NDArray[np.float64], shape: tuple[int, int] | None, n_outputs: int
    ) -> None:
        """Check on random examples that the network can be trained: nothing may fail after the charge."""
        random = np.random.default_rng(0)
        inputs, _ = prepare_inputs(random_rows(limits, ROWS, random), limits, self.features_, shape)
        rows, targets = torch.from_numpy(inputs), torch.from_numpy(self._random_targets(n_outputs, ROWS, random))
        if self.module is not None:
            check_module(learner, rows.double())
        choose_engine(learner, rows.double(), targets, self.clip)

    def _noise_plan(self, training: Training, learner: Learner) -> Plan | None:
        if math.isinf(self.epsilon):
            return None
        plan = feasible_plan(
            self.epsilon,
            self.delta,
            training,
            adjacency=self.adjacency,
            max_units=self.max_units,
            layers=len(learner.groups),
        )
        return plan if self.accounting == "sound" else published_plan(plan, self.accounting, training)

    def _describe_noise(self, training: Training, noise: float, n_inputs: int) -> None:
        batch, multiplier = training.sampling_rate * self.count_, noise / training.clip
        scale = training.step_scale(noise, self.count_, n_inputs, self._fallback.most_noise)
        last = scale * training.step_size_at(training.steps - 1)
        self.step_noise_ = last * multiplier / batch
        self.dropout_rate_ = summarise_rates(self.weights_[-1], self.step_noise_)
        if multiplier > batch:  # last, so that the fit is complete where warnings are errors
            warnings.warn(
                f"The noise of each step ({multiplier:.3g} clipped gradients) exceeds the total of a batch (about "
                f"{batch:.3g} examples). Use fewer epochs, a larger sampling_rate, or a larger epsilon.",
                PrivacyWarning,
                stacklevel=4,
            )

    def _sampled_scores(self, X: TableLike, n_outputs: int) -> Iterator[torch.Tensor]:
        """Yield the scores (n_samples, n_rows, n_outputs) at the scale `scale_`, for some rows at a time."""
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self, "weights_")
        if self.hidden_ is None and self.module is None:
            raise InvalidInputError(
                "the module that the weights belong to",
                words("a model that was loaded without it"),
                "Set it with set_params(module=...): the file holds the weights, not the module.",
            )
        rows = validated(self, as_rows(X)[0], reset=False)
        learner: Learner | None = None
        for start in range(0, rows.shape[0], PREDICTED_AT_ONCE):
            some = rows[start : start + PREDICTED_AT_ONCE]
            inputs, _ = prepare_inputs(some, self.feature_range_, self.features_, self.image_shape_)
            if learner is None:
                learner = self._learner(inputs.shape[1], n_outputs, self.hidden_ or (), self.image_shape_)
                self._check_size(learner)
            given = torch.from_numpy(inputs).double()
            scores = []
            for sample in self.weights_:
                learner.set_weights(torch.from_numpy(sample.astype(np.float64)))
                scores.append(learner.scores(given))
            yield shrunk(torch.stack(scores), torch.from_numpy(self.baseline_), self.scale_)

    def _check_size(self, learner: Learner) -> None:
        if learner.size != self.weights_.shape[1]:
            raise InvalidInputError(
                f"a module with {self.weights_.shape[1]} weights, like the one that was fitted",
                words(f"one with {learner.size}"),
                "Set the module that the weights belong to with set_params(module=...).",
            )
