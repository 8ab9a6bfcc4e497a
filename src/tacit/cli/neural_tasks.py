"""What `tacit fit neural` learns, classes or numbers: the estimator, its measures on held-out examples, its figures."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, Protocol

from tacit.errors import InvalidInputError, parameter, words

if TYPE_CHECKING:
    from tacit.report import Report


class Task(Protocol):
    """What to learn of the labels; models come by name, the one to be released first."""

    def model(self, **settings: Any) -> Any:
        """Return an estimator that is not fitted yet."""

    def measures(self, models: dict[str, Any], X: Any, y: Any) -> dict[str, float]:
        """Return figures on examples that were kept out of the fit."""

    def add_figures(self, report: Report, models: dict[str, Any], X: Any, y: Any) -> None:
        """Draw the same."""

    def described(self) -> dict[str, Any]:
        """Return what result.json says about the labels."""


class Classes:
    """The labels are classes: those that occur."""

    def __init__(self, y: Any) -> None:
        import numpy as np

        self.names = np.unique(y)

    def model(self, **settings: Any) -> Any:
        """Return a classifier."""
        from tacit.neural import PrivateBayesianClassifier

        return PrivateBayesianClassifier(classes=self.names, **settings)

    def measures(self, models: dict[str, Any], X: Any, y: Any) -> dict[str, float]:
        """Return accuracies and calibration errors."""
        from tacit.neural import expected_calibration_error

        truth, found = self._places(y), {}
        for place, (name, model) in enumerate(models.items()):
            given, which = model.predict_proba(X), f" {name}" if place else ""
            found[f"accuracy{which}"] = float((given.argmax(axis=1) == truth).mean())
            found[f"calibration error{which}"] = expected_calibration_error(given, truth)
        single = copy(next(iter(models.values())))
        single.weights_ = single.weights_[-1:]
        found["calibration error of a single sample"] = expected_calibration_error(single.predict_proba(X), truth)
        return found

    def add_figures(self, report: Report, models: dict[str, Any], X: Any, y: Any) -> None:
        """Draw calibration and confusion."""
        from sklearn.metrics import confusion_matrix

        from tacit.neural import reliability
        from tacit.report.class_figures import confusion, reliability_plot

        truth, probabilities = self._places(y), {name: model.predict_proba(X) for name, model in models.items()}
        tables = {name: reliability(given, truth) for name, given in probabilities.items()}
        report.figure(
            "Calibration",
            reliability_plot({name: (table.confidence, table.accuracy) for name, table in tables.items()}),
            "On the diagonal a prediction of 80% is right in 80% of the cases; below it the network is too sure of itself.",
        )
        predicted = next(iter(probabilities.values())).argmax(axis=1)
        counts = confusion_matrix(truth, predicted, labels=range(len(self.names)))
        report.figure("Confusion", confusion(counts, [str(name) for name in self.names]), "Rows are the true classes.")

    def described(self) -> dict[str, Any]:
        """Return the classes."""
        return {"classes": [str(name) for name in self.names]}

    def _places(self, y: Any) -> Any:
        import numpy as np

        return np.searchsorted(self.names, y)


class Numbers:
    """The labels are numbers in a public range, given as LOW:HIGH."""

    def __init__(self, text: str) -> None:
        try:
            low, high = (float(side) for side in text.split(":"))
        except ValueError:
            raise InvalidInputError(
                "--label-range LOW:HIGH", parameter(text), "Give the public range, as in 0:100."
            ) from None
        self.range = low, high

    def model(self, **settings: Any) -> Any:
        """Return a regressor."""
        from tacit.neural import PrivateBayesianRegressor

        return PrivateBayesianRegressor(target_bounds=self.range, **settings)

    def measures(self, models: dict[str, Any], X: Any, y: Any) -> dict[str, float]:
        """Return errors, and those of a constant that saw the held-out labels."""
        import numpy as np

        found = {}
        for place, (name, model) in enumerate(models.items()):
            errors, which = y - model.predict(X), f" {name}" if place else ""
            found[f"root mean squared error{which}"] = float(np.sqrt(np.mean(errors**2)))
            found[f"share of variance explained{which}"] = float(1 - np.mean(errors**2) / max(np.var(y), 1e-300))
        found["root mean squared error of the mean label"] = float(np.std(y))
        found["share of labels beyond the range"] = next(iter(models.values())).clipped_target_share_
        return found

    def add_figures(self, report: Report, models: dict[str, Any], X: Any, y: Any) -> None:
        """Draw predictions against labels."""
        from tacit.report.class_figures import predictions_plot

        points = {name: model.predict(X) for name, model in models.items()}
        report.figure("Predictions", predictions_plot(y, points), "On the diagonal a prediction is right.")

    def described(self) -> dict[str, Any]:
        """Return the range."""
        return {"label_range": list(self.range)}


def task_of(y: Any, label_range: str | None) -> Task:
    """Return what to learn: numbers where their range is given, or else classes."""
    if label_range is None:
        return Classes(y)
    if y.dtype.kind not in "fiub":
        raise InvalidInputError(
            "labels that are numbers, with --label-range", words("names"), "Leave --label-range out for classes."
        )
    return Numbers(label_range)
