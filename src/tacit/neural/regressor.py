"""A regressor whose weights are samples of a private posterior."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin

from tacit.estimators.base import learned, public, released
from tacit.estimators.input import as_numbers
from tacit.neural.fallback import MeanTarget
from tacit.neural.inputs import checked_targets
from tacit.neural.losses import regression_loss
from tacit.neural.network_fit import PUBLIC, PrivateNetwork
from tacit.validation import TableLike


def _random_numbers(n_targets: int, count: int, random: np.random.Generator) -> NDArray[np.float64]:
    return random.uniform(-1.0, 1.0, (count, n_targets))


class PrivateBayesianRegressor(RegressorMixin, PrivateNetwork):  # type: ignore[misc]
    r"""A regressor trained with differentially private gradient steps, which averages over posterior samples.

    The loss of an example is :math:`\frac12 |f(x) - t|^2`, with the targets t mapped from their public range to [-1, 1].

    Parameters
    ----------
    hidden : sequence of int, optional
        Widths of the hidden layers; ``()`` is a linear model. If not given: ``()`` behind a front end, ``(100,)`` without one.
    epsilon, delta : float
        Privacy loss and failure probability of the **whole** fit. ``epsilon=inf`` adds no noise and has no guarantee.
    target_range : pair, default=(0.0, 1.0)
        Public lowest and highest value of the targets, each one number or one number per target; targets are clipped to
        them.
    module : torch.nn.Module, optional
        Instead of `hidden`: a network that maps rows to one number per target; see `PrivateBayesianClassifier`.
    method, features, image_shape, feature_range, epochs, sampling_rate, clip, step_size, step_decay, momentum, prior, n_samples
        See `PrivateBayesianClassifier`.
    per_layer, accounting, adjacency, max_units, ledger, dataset, insecure_seed, random_state
        See `PrivateBayesianClassifier`.
    verbose : bool, default=False
        Say on standard error what a fit is doing; see `tacit.show_progress`.

    Attributes
    ----------
    weights_ : ndarray of shape (n_samples, n_weights)
        The posterior samples.
    target_range_ : ndarray of shape (2, n_targets)
    baseline_ : ndarray of shape (n_targets,)
        The noisy mean target, mapped from its range to [-1, 1].
    scale_ : float
        How far the network is trusted beyond the mean target; see `PrivateBayesianClassifier`.
    count_, dropout_rate_, step_noise_, guarantee_, loss_curve_, clipped_fraction_, dropped_fraction_
        See `PrivateBayesianClassifier`.
    clipped_target_fraction_ : float
        Fraction of the targets outside `target_range`, without noise: for the holder only, and not saved.

    Privacy
    -------
    Unit: one row with its targets. What leaves, and why the bound holds: as for `PrivateBayesianClassifier`, which is
    trained in the same way. Instead of the numbers of rows of the classes, the noisy total of the targets leaves. The
    ranges of the targets and of the features are public.

    References
    ----------
    B. Ermis. Bayesian approaches for privacy preserving data sharing. PhD thesis, 2020, chapters 5 (Algorithm 3) and 8.

    Examples
    --------
    >>> import numpy as np
    >>> from tacit.neural import PrivateBayesianRegressor
    >>> X = np.random.default_rng(0).random((5000, 2))
    >>> y = X[:, 0] - X[:, 1]
    >>> model = PrivateBayesianRegressor((), epsilon=2.0, delta=1e-5, target_range=(-1, 1)).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    _loss = staticmethod(regression_loss)
    _random_targets = staticmethod(_random_numbers)
    _fallback = MeanTarget()
    _without_inputs = "the mean target"
    _assuming = ("the range of the targets is public", *PUBLIC)

    target_range: ArrayLike = public(default=(0.0, 1.0))
    step_size: float = public(default=0.5)
    target_range_: NDArray[np.float64] = released()
    single_target_: bool = released()
    clipped_target_fraction_: float = learned()

    def fit(self, X: TableLike, y: object = None) -> PrivateBayesianRegressor:
        """Learn the numbers `y`, one or several per row of `X` (a table, or images as one array or list)."""
        rows, shape = self._rows(X)
        targets, self.target_range_, self.clipped_target_fraction_ = checked_targets(
            y, rows.shape[0], self.target_range
        )
        self.single_target_ = np.asarray(y).ndim == 1
        self._learn(X, rows, shape, targets, targets.shape[1])
        return self

    def predict(self, X: TableLike) -> NDArray[np.float64]:
        """Return the targets of every row: the average over the posterior samples."""
        return self._over_samples(X, lambda samples: samples.mean(axis=0))

    def score(self, X: TableLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the coefficient of determination of the predictions."""
        return float(super().score(X, as_numbers(y, "targets"), sample_weight))

    def predict_spread(self, X: TableLike) -> NDArray[np.float64]:
        """Return the standard deviation of every row's prediction over the posterior samples."""
        return self._over_samples(X, lambda samples: samples.std(axis=0))

    def _over_samples(
        self, X: TableLike, reduce: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    ) -> NDArray[np.float64]:
        predicted = np.concatenate([reduce(samples) for samples in self._sampled_predictions(X)])
        return predicted[:, 0] if self.single_target_ else predicted

    def _sampled_predictions(self, X: TableLike) -> Iterator[NDArray[np.float64]]:
        """Yield (n_samples, n_rows, n_targets), in the units of the targets, for some rows at a time."""
        low, high = getattr(self, "target_range_", np.zeros((2, 1)))
        for scores in self._sampled_scores(X, len(low)):
            yield low + (scores.numpy() + 1) / 2 * (high - low)
