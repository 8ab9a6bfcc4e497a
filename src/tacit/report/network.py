"""A private Bayesian network and one without privacy, measured on held-out examples."""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.data.split import check_fraction, held_out_by_seed, held_out_rows
from tacit.errors import InvalidInputError, words
from tacit.estimators.input import Rows
from tacit.estimators.verdict import Concern, about_losses, not_better_than
from tacit.privacy.ledger.spending import account_of
from tacit.progress import Listener, Told, show_progress
from tacit.report.figures import confusion, curves, predictions_plot, reliability_plot
from tacit.report.page import Report
from tacit.report.result import FitResult, concerns_in_the_result, keep_release
from tacit.report.synthetic_frontier import Frontier, network_frontier
from tacit.validation import check_epsilon

if TYPE_CHECKING:
    from tacit.neural import PrivateBayesianClassifier, PrivateBayesianRegressor
    from tacit.neural.network_fit import PrivateNetwork
    from tacit.privacy.ledger import Ledger

REPORTS_PER_TRAINING = 10
"""Number of calls of `progress` during one training."""

Network: TypeAlias = "PrivateBayesianClassifier | PrivateBayesianRegressor"


class Task(ABC):
    """The task of a network: its estimator, its measures on held-out examples, and its figures.

    Models are given by name, the one to be released first.
    """

    @abstractmethod
    def model(self, **settings: Any) -> Network:
        """Return an estimator that is not fitted."""

    @abstractmethod
    def measures(self, models: dict[str, Network], X: Rows, y: NDArray[Any]) -> dict[str, float]:
        """Return measures on examples that were held out of the fit."""

    @abstractmethod
    def concerns(self, measures: dict[str, float]) -> list[Concern]:
        """Compare the measures with those of a prediction that needs no model."""

    @abstractmethod
    def draw(self, report: Report, models: dict[str, Network], X: Rows, y: NDArray[Any]) -> None:
        """Add figures of the measures."""

    @abstractmethod
    def values(self) -> dict[str, object]:
        """Return the public description of the labels, as plain values."""


class ClassTask(Task):
    """The labels are classes."""

    def __init__(self, classes: Sequence[Hashable] | NDArray[Any]) -> None:
        self.classes = np.unique(np.asarray(classes))

    def model(self, **settings: Any) -> Network:
        """Return a classifier."""
        from tacit.neural import PrivateBayesianClassifier

        return PrivateBayesianClassifier(classes=self.classes, **settings)

    def measures(self, models: dict[str, Network], X: Rows, y: NDArray[Any]) -> dict[str, float]:
        """Return accuracies and calibration errors."""
        from tacit.neural import expected_calibration_error

        truth, measures = np.searchsorted(self.classes, y), {}
        for place, (name, model) in enumerate(models.items()):
            given, which = model.predict_proba(X), f" {name}" if place else ""
            measures[f"accuracy{which}"] = float((given.argmax(axis=1) == truth).mean())
            measures[f"calibration error{which}"] = expected_calibration_error(given, truth)
        single = copy(next(iter(models.values())))
        single.weights_ = single.weights_[-1:]
        measures["calibration error of a single sample"] = expected_calibration_error(single.predict_proba(X), truth)
        measures["accuracy of the most frequent class"] = float(np.bincount(truth).max() / len(truth))
        return measures

    def concerns(self, measures: dict[str, float]) -> list[Concern]:
        """Compare the accuracy with that of the most frequent class."""
        prior = measures["accuracy of the most frequent class"]
        name = "always predicting the most frequent class"
        return not_better_than(name, measures["accuracy"], prior, measure="accuracy", higher=True)

    def draw(self, report: Report, models: dict[str, Network], X: Rows, y: NDArray[Any]) -> None:
        """Draw calibration and confusion."""
        from sklearn.metrics import confusion_matrix

        from tacit.neural import reliability

        truth = np.searchsorted(self.classes, y)
        probabilities = {name: model.predict_proba(X) for name, model in models.items()}
        tables = {name: reliability(given, truth) for name, given in probabilities.items()}
        report.figure(
            "Calibration",
            reliability_plot({name: (table.confidence, table.accuracy) for name, table in tables.items()}),
            "On the diagonal, predictions with a confidence of 80% are correct in 80% of the cases; below it, the network is "
            "too confident.",
        )
        predicted = next(iter(probabilities.values())).argmax(axis=1)
        counts = confusion_matrix(truth, predicted, labels=range(len(self.classes)))
        names = [str(name) for name in self.classes]
        report.figure("Confusion", confusion(counts, names), "Rows are the true classes.")

    def values(self) -> dict[str, object]:
        """Return the classes."""
        return {"classes": [str(name) for name in self.classes]}


class NumberTask(Task):
    """The labels are numbers in a public range."""

    def __init__(self, target_range: tuple[float, float]) -> None:
        self.target_range = float(target_range[0]), float(target_range[1])

    def model(self, **settings: Any) -> Network:
        """Return a regressor."""
        from tacit.neural import PrivateBayesianRegressor

        return PrivateBayesianRegressor(target_range=self.target_range, **settings)

    def measures(self, models: dict[str, Network], X: Rows, y: NDArray[Any]) -> dict[str, float]:
        """Return errors, and those of the mean of the held-out labels."""
        measures = {}
        for place, (name, model) in enumerate(models.items()):
            errors, which = y - model.predict(X), f" {name}" if place else ""
            measures[f"root mean squared error{which}"] = float(np.sqrt(np.mean(errors**2)))
            measures[f"fraction of variance explained{which}"] = float(1 - np.mean(errors**2) / max(np.var(y), 1e-300))
        measures["root mean squared error of the mean label"] = float(np.std(y))
        measures["fraction of labels beyond the range"] = next(iter(models.values())).clipped_target_fraction_
        return measures

    def concerns(self, measures: dict[str, float]) -> list[Concern]:
        """Compare the error with that of the mean label."""
        error, trivial = (measures[f"root mean squared error{which}"] for which in ("", " of the mean label"))
        return not_better_than("always predicting the mean label", error, trivial, measure="root mean squared error")

    def draw(self, report: Report, models: dict[str, Network], X: Rows, y: NDArray[Any]) -> None:
        """Draw predictions against labels."""
        points = {name: np.asarray(model.predict(X), np.float64) for name, model in models.items()}
        report.figure("Predictions", predictions_plot(y, points), "Correct predictions are on the diagonal.")

    def values(self) -> dict[str, object]:
        """Return the range."""
        return {"label_range": list(self.target_range)}


@dataclass(frozen=True, eq=False)
class NetworkComparison(FitResult):
    """The result of `compare_networks`.

    Attributes
    ----------
    model : PrivateBayesianClassifier or PrivateBayesianRegressor
        The one to use: private if an epsilon was given.
    plain : PrivateBayesianClassifier or PrivateBayesianRegressor
        Trained without noise.
    measures : dict of str to float
    curves : dict of str to list of float
        Loss of each step's examples, without noise.
    guarantee : Guarantee
        That of `model`.
    task : Task
    test : tuple
        The held-out rows and labels.
    n_examples : int
        Number of fitted examples.
    frontier : Frontier or None
        Accuracy or error against epsilon, on synthetic examples.
    """

    title = "Private Bayesian network"
    model_name = "network"

    model: PrivateNetwork
    plain: PrivateNetwork
    measures: dict[str, float]
    curves: dict[str, list[float]]
    task: Task
    test: tuple[Rows, NDArray[Any]]
    n_examples: int
    frontier: Frontier | None = None

    @property
    def n_units(self) -> int:
        """The number of fitted examples."""
        return self.n_examples

    @property
    def concerns(self) -> list[Concern]:
        """Concerns about the guarantee, the loss and the measures."""
        concerns = [*super().concerns, *about_losses(self.curves[next(iter(self.models))])]
        return [*concerns, *self.task.concerns(self.measures)] if len(self.test[1]) else concerns

    @property
    def models(self) -> dict[str, Network]:
        """The models by name, the one to use first."""
        if self.model is self.plain:
            return {"fitted": self.model}
        return {"private": self.model, "without privacy": self.plain}

    def values(self) -> dict[str, object]:
        """Return measures, dropout rates and settings as plain values."""
        names = ("method", "image_shape", "epochs", "sampling_rate", "clip", "step_size")
        model = self.model
        private = model is not self.plain
        return {
            "examples": self.n_examples,
            "held_out": len(self.test[1]),
            **self.task.values(),
            "measures": self.measures,
            **({} if self.frontier is None else {"frontier_on_synthetic_examples": self.frontier.values()}),
            "dropout_rate": model.dropout_rate_,
            "scale": model.scale_,
            "settings": {
                **{name: getattr(model, name) for name in names},
                "features": model.features_,
                "hidden": model.hidden_,
                "feature_range": np.asarray(model.feature_range).tolist(),
                "random_state": model.random_state,
                "epsilon": model.epsilon if private else None,
                "delta": model.delta if private else None,
                "steps": len(model.loss_curve_),
            },
        }

    def lines(self) -> list[str]:
        """Return the measures, one per line."""
        return [f"{name}: {value:.4f}" for name, value in self.measures.items()]

    def draw(self, report: Report) -> None:
        """Add measures, learning curve, the task's figures and dropout rates."""
        rows = [[name, f"{value:.4f}"] for name, value in self.measures.items()]
        report.table("Held-out examples", ["measure", "value"], rows)
        report.figure(
            "Learning curve",
            curves(self.curves, step_name="step", value_name="mean loss of the step's examples"),
            "Computed without noise, for the holder. The number of steps is fixed and does not depend on it.",
        )
        if self.frontier is not None:
            self.frontier.draw(report)
        if len(self.test[1]):
            self.task.draw(report, self.models, *self.test)
        rates = [[name, f"{value:.4f}"] for name, value in self.model.dropout_rate_.items()]
        note = "The dropout rate that is equivalent to the last step's noise."
        report.table("Dropout rate of the weights", ["over the weights", "rate"], rates, note)


@concerns_in_the_result
def compare_networks(
    X: Rows,
    y: ArrayLike,
    *,
    classes: Sequence[Hashable] | NDArray[Any] | None = None,
    target_range: tuple[float, float] | None = None,
    epsilon: float | None = None,
    delta: float = 1e-6,
    held_out: float = 0.2,
    frontier: bool = False,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    dataset: str | None = None,
    random_state: int = 0,
    progress: Callable[[str], None] | None = None,
    **parameters: Any,
) -> NetworkComparison:
    """Train a network with and without privacy, and measure both on held-out examples. Needs ``tacit[neural]``.

    Parameters
    ----------
    X : array or CSR matrix of shape (n_examples, n_features)
    y : array of shape (n_examples,)
        Classes, or with `target_range` numbers.
    classes : sequence
        All classes: public, and required for a private classifier.
    target_range : tuple of float, optional
        The labels are numbers in this public range.
    epsilon : float, optional
        Total privacy loss of an example; without it there is no private fit.
    delta : float, default=1e-6
    held_out : float, default=0.2
        Fraction of the examples to hold out of both fits. With an `epsilon`, each example is held out or kept by itself,
        under a secret key (`tacit.data.split`); otherwise by `random_state`.
    frontier : bool, default=False
        With an `epsilon`: also train on synthetic examples of the same shape at several epsilons, and draw the accuracy or
        error against them. It costs no privacy, and the time of six trainings.
    ledger, dataset
        See `tacit.neural.PrivateBayesianClassifier`.
    random_state : int, default=0
        Seed of the start and, without `epsilon`, of the split.
    progress : callable, optional
        Called with a short text, a few times per training.
    **parameters
        Further parameters of `tacit.neural.PrivateBayesianClassifier` or `PrivateBayesianRegressor`.

    Returns
    -------
    NetworkComparison
        Measures and curves are computed without noise, and are for the holder of the data.
    """
    say = progress or (lambda stage: None)
    if epsilon is not None:
        check_epsilon(epsilon)
    labels = np.asarray(y)
    check_fraction(held_out)
    task = _task(labels, classes, target_range, private=epsilon is not None)
    if epsilon is None:
        out = held_out_by_seed(len(labels), fraction=held_out, random_state=random_state)
    else:
        out = held_out_rows(X, labels, fraction=held_out)
    train, test = (X[~out], labels[~out]), (X[out], labels[out])
    settings = {"delta": delta, "random_state": random_state, **parameters}

    def trained(what: str, **further: Any) -> Network:
        model = task.model(**settings, **further)
        with show_progress(_steps_shown(say, what, model)):
            return model.fit(*train)

    plain = trained("training without privacy, to compare", epsilon=math.inf)
    models = {"fitted": plain}
    if len(test[1]):
        task.measures(models, *test)  # everything that can fail is tried before the private fit is charged
    if epsilon is not None:
        model = trained("training with privacy", epsilon=epsilon, ledger=ledger, dataset=account_of(ledger, dataset, X))
        keep_release(model, NetworkComparison.model_name)
        models = {"private": model, "without privacy": plain}
    say("measuring")
    first = next(iter(models.values()))
    measures = task.measures(models, *test) if len(test[1]) else {}
    measures["fraction of values beyond the range"] = first.clipped_fraction_
    losses = {name: [float(loss) for loss in model.loss_curve_] for name, model in reversed(models.items())}
    drawn = None
    if frontier and epsilon is not None:
        say("training on synthetic examples")
        drawn = network_frontier(first, len(train[1]))
    return NetworkComparison(first, plain, measures, losses, task, test, len(train[1]), drawn)


def _task(
    y: NDArray[Any],
    classes: Sequence[Hashable] | NDArray[Any] | None,
    target_range: tuple[float, float] | None,
    *,
    private: bool,
) -> Task:
    if target_range is not None:
        if y.dtype.kind not in "fiub":
            raise InvalidInputError(
                "labels that are numbers, within target_range (--label-range)",
                words("labels that are names"),
                "Leave the range out for classes.",
            )
        return NumberTask(target_range)
    if classes is None and private:
        raise InvalidInputError(
            "the classes for a private fit",
            words("none: the classes that occur in the labels are private"),
            "Give all classes that a label can have: classes=, or --classes a,b,c.",
        )
    return ClassTask(y if classes is None else classes)


def _steps_shown(say: Callable[[str], None], what: str, model: PrivateNetwork) -> Listener:
    """Return a listener that reports the progress of a training, a few times."""
    steps = model.n_steps()
    shown = {math.ceil(steps * part / REPORTS_PER_TRAINING) for part in range(1, REPORTS_PER_TRAINING + 1)}

    def show(told: Told) -> None:
        done = (told.done or 0) - 1  # the first sum counts the examples
        if done in shown:
            say(f"{what}: step {done} of {steps}")

    return show
