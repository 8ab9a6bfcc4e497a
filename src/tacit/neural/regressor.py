"""A regressor whose weights are samples of a private posterior."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin

from tacit.factor.base import learned, public, released
from tacit.factor.input import as_numbers
from tacit.neural.gradients import regression_loss
from tacit.neural.inputs import checked_targets
from tacit.neural.network_fit import PUBLIC, PrivateNetwork


class PrivateBayesianRegressor(RegressorMixin, PrivateNetwork):  # type: ignore[misc]
    r"""A network for numbers, trained with differential privacy, that predicts by the average of posterior samples.

    The loss of an example is :math:`\frac12 |f(x) - t|^2`, with the targets t mapped from their public bounds to [-1, 1].

    Parameters
    ----------
    hidden : sequence of int, default=(100,)
        Widths of the hidden layers; ``()`` is a linear model.
    epsilon, delta : float
        Privacy loss and failure probability of the **whole** fit. ``epsilon=inf`` adds no noise and has no guarantee.
    target_bounds : pair, default=(0.0, 1.0)
        Public lowest and highest value of the targets, each a number or one a target; values beyond are cut off.
    module : torch.nn.Module, optional
        In place of `hidden`: any network from rows to one number a target.
    method, features, image_shape, bounds, epochs, sampling_rate, clip, step_size, decay, momentum, prior, samples
        See `PrivateBayesianClassifier`.
    per_layer, accounting, progress, adjacency, max_rows, ledger, dataset, insecure_seed, random_state
        See `PrivateBayesianClassifier`.

    Attributes
    ----------
    weights_ : ndarray of shape (n_samples, n_weights)
        The posterior samples.
    target_bounds_ : ndarray of shape (2, n_targets)
    count_, dropout_rate_, step_noise_, guarantee_, loss_curve_, clipped_share_
        See `PrivateBayesianClassifier`.
    clipped_target_share_ : float
        Share of the targets beyond their bounds, without noise: for the holder's eyes, and not saved.

    Privacy
    -------
    Unit: one row with its targets. What leaves, and why the bound holds: as for `PrivateBayesianClassifier`, whose
    training this is; the bounds of the targets are public, as are those of the features.

    References
    ----------
    B. Ermis. Bayesian coupled factorization and differential privacy. PhD thesis, 2020, chapters 5 and 8.

    Examples
    --------
    >>> import numpy as np
    >>> from tacit.neural import PrivateBayesianRegressor
    >>> X = np.random.default_rng(0).random((5000, 2))
    >>> y = X[:, 0] - X[:, 1]
    >>> model = PrivateBayesianRegressor((), epsilon=2.0, delta=1e-5, target_bounds=(-1, 1)).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    _loss = staticmethod(regression_loss)
    _assuming = ("the bounds of the targets are public", *PUBLIC)

    hidden: Sequence[int] = public(default=(100,), kw_only=False)
    target_bounds: Any = public(default=(0.0, 1.0))
    step_size: float = public(default=0.5)
    target_bounds_: NDArray[np.float64] = released()
    single_target_: bool = released()
    clipped_target_share_: float = learned()

    def fit(self, X: Any, y: Any = None) -> PrivateBayesianRegressor:
        """Learn the numbers `y`, one or several a row of `X` (a table, or images as one array or list)."""
        rows, shape = self._rows(X)
        targets, self.target_bounds_, self.clipped_target_share_ = checked_targets(y, rows.shape[0], self.target_bounds)
        self.single_target_ = np.ndim(y) == 1
        self._learn(X, rows, shape, targets, targets.shape[1])
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return the targets of every row: the average over the posterior samples."""
        return self._over_samples(X, lambda samples: samples.mean(axis=0))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the coefficient of determination of the predictions."""
        return float(super().score(X, as_numbers(y, "targets"), sample_weight))

    def predict_spread(self, X: Any) -> NDArray[np.float64]:
        """Return how far the posterior samples are apart: the standard deviation of every row's prediction."""
        return self._over_samples(X, lambda samples: samples.std(axis=0))

    def _over_samples(
        self, X: Any, reduce: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    ) -> NDArray[np.float64]:
        found = np.concatenate([reduce(samples) for samples in self._sampled_predictions(X)])
        return found[:, 0] if self.single_target_ else found

    def _sampled_predictions(self, X: Any) -> Iterator[NDArray[np.float64]]:
        """Yield (n_samples, n_rows, n_targets), in the targets' own units, for a few rows at a time."""
        low, high = getattr(self, "target_bounds_", np.zeros((2, 1)))
        for scores in self._sampled_scores(X, len(low)):
            yield low + (scores.numpy() + 1) / 2 * (high - low)
