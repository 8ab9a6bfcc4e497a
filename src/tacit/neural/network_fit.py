"""What classifiers and regressors share: checking parameters, fitting, and the scores of every posterior sample."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from tacit.channel import Plan
from tacit.errors import InvalidInputError, PrivacyWarning, parameter, words
from tacit.estimators.base import learned, public, released, withheld
from tacit.estimators.input import validated
from tacit.estimators.private import PrivateFit
from tacit.neural.dropout import summarise_rates
from tacit.neural.feasible import feasible_plan, published_plan
from tacit.neural.gradients import Learner
from tacit.neural.inputs import as_rows, checked_features, checked_range, prepare_inputs, random_rows
from tacit.neural.network import PREDICTED_AT_ONCE, perceptron, prepared
from tacit.neural.program import Training, training_program
from tacit.neural.published import ACCOUNTINGS
from tacit.neural.trial import ROWS, check_module, choose_engine
from tacit.validation import (
    check_choice,
    check_count,
    check_epsilon,
    check_non_negative,
    check_positive,
    check_rate,
    check_seed,
)

METHODS = ("dropout", "sgld", "dp-sgd")
PUBLIC = ("the range of the features is public", "the network's start is public")


class PrivateNetwork(PrivateFit):
    """A network trained with noisy gradient steps on rows within a public range.

    A subclass has a `_loss` of (scores, targets) that returns one number per example, random targets for the trial before
    the fit (`_random_targets`), and the assumptions of its guarantee (`_assuming`).
    """

    hidden: Sequence[int] = public(default=(), kw_only=False)
    module: Any = public(default=None, in_file=False)
    method: str = public(default="dropout")
    features: str | None = public(default=None)
    image_shape: tuple[int, int] | None = public(default=None)
    feature_range: Any = public(default=(0.0, 1.0))
    epochs: float = public(default=10.0)
    sampling_rate: float = public(default=0.1)
    clip: float = public(default=1.0)
    step_size: float = public(default=1.0)
    step_decay: float = public(default=0.25)
    momentum: float = public(default=0.9)
    prior: float = public(default=10.0)
    n_samples: int = public(default=10)
    per_layer: bool = public(default=False)
    accounting: str = public(default="sound")
    progress: Callable[[int], None] | None = withheld(default=None)
    random_state: int = public(default=0)
    weights_: NDArray[np.float32] = released()
    count_: float = released()
    feature_range_: NDArray[np.float64] = released()
    hidden_: list[int] | None = released()
    image_shape_: list[int] | None = released()
    n_features_in_: int = released()
    dropout_rate_: dict[str, float] = released()
    step_noise_: float = released()
    loss_curve_: list[float] = learned()
    clipped_fraction_: float = learned()
    dropped_fraction_: float = learned()
    _loss: ClassVar[staticmethod[[torch.Tensor, torch.Tensor], torch.Tensor]]
    _random_targets: ClassVar[staticmethod[[int, int, np.random.Generator], NDArray[Any]]]
    _assuming: ClassVar[tuple[str, ...]]

    def _rows(self, X: Any) -> tuple[Any, tuple[int, int] | None]:
        """Return the checked rows, and the shape of the images if `X` is a stack or a list of them."""
        rows, shape = as_rows(X)
        return validated(self, rows, reset=True), shape

    def _learn(self, X: Any, rows: Any, shape: tuple[int, int] | None, targets: NDArray[Any], n_outputs: int) -> None:
        training = self._training()
        limits = checked_range(self.feature_range, rows.shape[1])
        shape = checked_features(self.features, self.image_shape or shape, rows.shape[1])
        inputs, clipped_fraction = prepare_inputs(rows, limits, self.features, shape)
        learner = self._learner(inputs.shape[1], n_outputs, self.hidden)
        self._try_out(learner, limits, shape, n_outputs)
        plan = self._noise_plan(training, learner)
        self.feature_range_, self.clipped_fraction_ = limits, clipped_fraction
        self.image_shape_ = None if shape is None else list(shape)
        self.hidden_ = None if self.module is not None else [int(width) for width in self.hidden]
        outcome = self._run(X, training_program(learner, inputs, targets, training, self.progress), plan)
        if plan is not None:
            self.guarantee_ = self.guarantee_.assuming(*self._assuming)
        self.weights_, self.count_ = outcome.public["weights"], outcome.public["count"]
        self.loss_curve_, self.dropped_fraction_ = outcome.private["loss_curve"], outcome.private["dropped"]
        self._describe_noise(training, outcome.public["gradient_noise"])

    def _training(self) -> Training:
        check_epsilon(self.epsilon, infinite=True)
        check_choice(self.method, "method", METHODS)
        check_choice(self.accounting, "accounting", ACCOUNTINGS)
        check_count(self.n_samples, "n_samples")
        rate = check_rate(self.sampling_rate)
        if not 0 <= check_non_negative(self.momentum, "momentum") < 1:
            raise InvalidInputError(
                "momentum to be at least 0 and below 1", parameter(self.momentum), "Use 0.9, or 0 for none."
            )
        plain = self.method == "dp-sgd"
        return Training(
            steps=max(1, round(check_positive(self.epochs, "epochs") / rate)),
            sampling_rate=rate,
            clip=check_positive(self.clip, "clip"),
            step_size=check_positive(self.step_size, "step_size"),
            step_decay=0.0 if plain else check_non_negative(self.step_decay, "step_decay"),
            momentum=self.momentum,
            prior=check_positive(math.inf if plain else self.prior, "prior", infinite=True),
            n_samples=1 if plain else self.n_samples,
            langevin=self.method == "sgld",
            random_state=check_seed(self.random_state),
        )

    def _learner(self, n_inputs: int, n_outputs: int, hidden: Sequence[int]) -> Learner:
        if self.module is not None:
            network = prepared(self.module, n_inputs, n_outputs)
        else:
            network = perceptron(n_inputs, hidden, n_outputs, self.random_state)
        return Learner(network, type(self)._loss, per_layer=self.per_layer)

    def _try_out(
        self, learner: Learner, limits: NDArray[np.float64], shape: tuple[int, int] | None, n_outputs: int
    ) -> None:
        """Find out whether the network can be trained, on random examples: nothing may fail after the charge."""
        random = np.random.default_rng(0)
        inputs, _ = prepare_inputs(random_rows(limits, ROWS, random), limits, self.features, shape)
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

    def _describe_noise(self, training: Training, noise: float) -> None:
        batch, multiplier = training.sampling_rate * self.count_, noise / training.clip
        last = training.step_scale(noise, self.count_) * training.step_size_at(training.steps - 1)
        self.step_noise_ = last * multiplier / batch
        self.dropout_rate_ = summarise_rates(self.weights_[-1], self.step_noise_)
        if multiplier > batch:  # last, so that the fit is complete where warnings are errors
            warnings.warn(
                f"The noise of each step ({multiplier:.3g} clipped gradients) exceeds the total of a batch (about "
                f"{batch:.3g} examples). Use fewer epochs, a larger sampling_rate, or a larger epsilon.",
                PrivacyWarning,
                stacklevel=4,
            )

    def _sampled_scores(self, X: Any, n_outputs: int) -> Iterator[torch.Tensor]:
        """Yield the network's outputs (n_samples, n_rows, n_outputs) for some rows at a time."""
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
            inputs, _ = prepare_inputs(some, self.feature_range_, self.features, self.image_shape_)
            if learner is None:
                learner = self._learner(inputs.shape[1], n_outputs, self.hidden_ or ())
                self._check_size(learner)
            given = torch.from_numpy(inputs).double()
            found = []
            for sample in self.weights_:
                learner.set_weights(torch.from_numpy(sample.astype(np.float64)))
                found.append(learner.scores(given))
            yield torch.stack(found)

    def _check_size(self, learner: Learner) -> None:
        if learner.size != self.weights_.shape[1]:
            raise InvalidInputError(
                f"a module with {self.weights_.shape[1]} weights, like the one that was fitted",
                words(f"one with {learner.size}"),
                "Set the module that the weights belong to with set_params(module=...).",
            )
