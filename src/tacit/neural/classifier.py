"""A classifier whose weights are samples of a private posterior."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin

from tacit.factor.base import public, released
from tacit.neural.gradients import classification_loss
from tacit.neural.inputs import checked_labels
from tacit.neural.network_fit import PUBLIC, PrivateNetwork


class PrivateBayesianClassifier(ClassifierMixin, PrivateNetwork):  # type: ignore[misc]
    r"""A network for classes, trained with differential privacy, that predicts by the average of posterior samples.

    Parameters
    ----------
    hidden : sequence of int, default=(1000,)
        Widths of the hidden layers; ``()`` is a linear model.
    epsilon, delta : float
        Privacy loss and failure probability of the **whole** fit. ``epsilon=inf`` adds no noise and has no guarantee.
    module : torch.nn.Module, optional
        In place of `hidden`: any network from rows to one score a class. Its weights are the start, so they must not have
        seen the private data. Layers that mix examples are refused; dropout layers are switched off.
    method : {"dropout", "sgld", "dp-sgd"}, default="dropout"
        "dropout": the privacy noise is the noise of the sampler (Ermis 2020, algorithm 3, repaired). "sgld": the Langevin
        noise of the step is added to it. "dp-sgd": a constant step, and the last weights only (Abadi et al. 2016).
    features : {None, "scattering"}
        A fixed front end for images that has seen no data (`tacit.neural.scattering`).
    image_shape : tuple of int, optional
        Height and width of the images; square if not given.
    bounds : pair, default=(0.0, 1.0)
        Public lowest and highest value of the features, each a number or one a feature; values beyond are cut off.
    classes : sequence, optional
        All classes; those that occur in `y` if not given, which the guarantee then takes to be public.
    epochs : float, default=10
        Passes over the data; there are ``epochs / sampling_rate`` steps.
    sampling_rate : float, default=0.1
        Probability with which each example takes part in a step.
    clip : float, default=1.0
        Largest L2 norm of one example's gradient.
    step_size, decay, momentum, prior, samples
        See `tacit.neural.program.Training`; "dp-sgd" has no decay, no prior and one sample.
    per_layer : bool, default=False
        Clip and noise each layer by itself, at an equal share of the budget each, in place of all weights jointly.
    accounting : {"sound", "DPD-AC", "DPD-zCDP"}, default="sound"
        How the noise is chosen. The published formulas of the thesis are for comparison only; `guarantee_` says what they cost.
    progress : callable, optional
        Called after every step with the number of steps done.
    adjacency, max_rows, ledger, dataset, insecure_seed
        See `PrivateMoments`.
    random_state : int, default=0
        Of the start and the Langevin noise; it protects nothing and may be public.

    Attributes
    ----------
    weights_ : ndarray of shape (n_samples, n_weights)
        The posterior samples.
    classes_ : ndarray
    count_ : float
        Noisy number of examples.
    dropout_rate_ : dict of str to float
        Mean and quantiles of the rate at which the last step's noise drops weights (`tacit.neural.dropout_rates`).
    step_noise_ : float
        Standard deviation of the noise of a weight in the last step.
    guarantee_ : Guarantee
    loss_curve_ : list of float
        Mean loss of each step's examples, without noise: for the holder's eyes, and not saved.
    clipped_share_ : float
        Share of the feature values beyond the bounds; likewise.

    Privacy
    -------
    Unit: one row with its label. What leaves: a noisy number of rows, and one noisy total of clipped gradients a step, on
    a Poisson sample. Why the bound holds: every example's gradient is computed from that example and the released
    weights, in float64, and scaled down to norm `clip` by itself; no layer mixes examples. Everything else (predictions,
    averages over samples, dropout rates) is post-processing.

    References
    ----------
    B. Ermis. Bayesian coupled factorization and differential privacy. PhD thesis, 2020, chapters 5 and 8.
    M. Abadi et al. Deep learning with differential privacy. CCS 2016.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from tacit.neural import PrivateBayesianClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = PrivateBayesianClassifier((), epsilon=5.0, delta=1e-4, bounds=(0, 16), sampling_rate=0.3).fit(X, y)
    >>> model.predict_proba(X[:2]).shape
    (2, 10)
    >>> bool(model.guarantee_.epsilon <= 5.0)
    True
    """

    _loss = staticmethod(classification_loss)
    _assuming = ("the classes are public", *PUBLIC)

    hidden: Sequence[int] = public(default=(1000,), kw_only=False)
    classes: Any = public(default=None)
    step_size: float = public(default=2.0)
    classes_: NDArray[Any] = released()

    def fit(self, X: Any, y: Any = None) -> PrivateBayesianClassifier:
        """Learn the classes `y` of the rows of `X` (a table, or images as one array or list)."""
        rows, shape = self._rows(X)
        self.classes_, labels = checked_labels(y, rows.shape[0], self.classes)
        self._learn(X, rows, shape, labels, len(self.classes_))
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of every class for every row: the average over the posterior samples."""
        found = [probabilities.mean(axis=0) for probabilities in self._sampled_probabilities(X)]
        return np.concatenate(found)

    def predict_spread(self, X: Any) -> NDArray[np.float64]:
        """Return how far the posterior samples are apart: the standard deviation of every class's probability."""
        found = [probabilities.std(axis=0) for probabilities in self._sampled_probabilities(X)]
        return np.concatenate(found)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of every row."""
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(axis=1)]  # type: ignore[no-any-return]

    def _sampled_probabilities(self, X: Any) -> Iterator[NDArray[np.float64]]:
        """Yield (n_samples, n_rows, n_classes) for a few rows at a time."""
        for scores in self._sampled_scores(X, len(getattr(self, "classes_", ()))):
            yield torch.softmax(scores, dim=2).numpy()
