"""A classifier whose weights are samples of a private posterior."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin

from tacit.estimators.base import public, released
from tacit.neural.fallback import ClassFrequencies
from tacit.neural.inputs import checked_labels
from tacit.neural.losses import classification_loss
from tacit.neural.network_fit import PUBLIC, PrivateNetwork
from tacit.validation import TableLike, check_epsilon


def _random_labels(n_classes: int, count: int, random: np.random.Generator) -> NDArray[np.int64]:
    return random.integers(n_classes, size=count)


class PrivateBayesianClassifier(ClassifierMixin, PrivateNetwork):  # type: ignore[misc]
    r"""A classifier trained with differentially private gradient steps, which averages over posterior samples.

    Parameters
    ----------
    hidden : sequence of int, optional
        Widths of the hidden layers; ``()`` is a linear model. If not given: ``()`` behind scattering or convolutions, ``(100,)``
        without them.
    epsilon, delta : float
        Privacy loss and failure probability of the **whole** fit. ``epsilon=inf`` adds no noise and has no guarantee.
    module : torch.nn.Module, optional
        Instead of `hidden`: a network that maps rows to one score per class. Its weights are the start, so they must not
        have been fitted to the private data. It is copied, converted to float64 and used in evaluation mode (dropout is
        off). Before anything is charged it is tried on random rows within `feature_range`: a module that mixes examples, keeps
        something from one call to the next or is random is refused.
    method : {"dropout", "sgld", "dp-sgd"}, default="dropout"
        "dropout": the privacy noise is the noise of the sampler (Ermis 2020, Algorithm 3, repaired). "sgld": the
        Langevin noise of the step is added to it. "dp-sgd": a constant step, and only the last weights (Abadi et al.
        2016).
    features : {"auto", "scattering", "convolution", None}, default="auto"
        "scattering": a fixed front end for images, which is not fitted to data (`tacit.neural.wavelets`). "convolution": two
        layers of convolutions on the pixels, which are learned. None: the pixels. "auto": scattering where `X` is a stack
        or a list of images, or `image_shape` is given, and there is no `module`.
    image_shape : tuple of int, optional
        Height and width of the images that the rows are; with "scattering" or "convolution" they are taken to be square
        without it.
    feature_range : pair, default=(0.0, 1.0)
        Public lowest and highest value of the features, each one number or one number per feature; values are clipped to
        them.
    classes : sequence
        All labels that may occur. Required unless ``epsilon=inf``: they must be known without looking at `y`, and a row
        with another label is refused. Without privacy the default is the labels that occur in `y`.
    epochs : float, optional
        Expected number of passes over the data; there are ``epochs / sampling_rate`` steps.
    sampling_rate : float, optional
        Probability with which each example takes part in a step. If neither is given, there are 100 steps, at a rate from
        0.1 (epsilon up to 1) to 0.5 for which sampling costs little (`tacit.neural.program.rate_for`). If only one is
        given, the other is a rate of 0.1 or 10 epochs.
    clip : float, default=1.0
        Largest L2 norm of one example's gradient.
    step_size, step_decay, momentum, prior, n_samples
        See `tacit.neural.program.Training`; "dp-sgd" has no step_decay, no prior and one sample.
    per_layer : bool, default=False
        Clip and noise each layer by itself, each with an equal part of the budget, instead of all weights jointly.
    accounting : {"sound", "DPD-AC", "DPD-zCDP"}, default="sound"
        How the noise is chosen. The thesis's formulas are for comparison only; `guarantee_` says what they really cost.
    adjacency, max_units, ledger, dataset, insecure_seed
        See `PrivateMoments`.
    random_state : int, default=0
        Seed for the start and the Langevin noise. Not secret: the privacy noise does not use it.
    verbose : bool, default=False
        Say on standard error what a fit is doing; see `tacit.show_progress`.

    Attributes
    ----------
    weights_ : ndarray of shape (n_samples, n_weights)
        The posterior samples.
    classes_ : ndarray
    count_ : float
        Noisy number of examples.
    baseline_ : ndarray of shape (n_classes,)
        Logarithms of the class frequencies, from noisy numbers of examples.
    scale_ : float
        How far the network is trusted beyond the class frequencies: 1 entirely, 0 not at all (`tacit.neural.fallback`). It
        follows from noisy gains, which are measured after the training.
    dropout_rate_ : dict of str to float
        Mean and quantiles of the dropout rates that the last step's noise amounts to (`tacit.neural.dropout_rates`).
    step_noise_ : float
        Standard deviation of the noise that the last step adds to a weight.
    guarantee_ : Guarantee
    loss_curve_ : list of float
        Mean loss of each step's examples, without noise: for the holder only, and not saved.
    clipped_fraction_ : float
        Fraction of the feature values outside `feature_range`; for the holder only, and not saved.
    dropped_fraction_ : float
        Fraction of the sampled examples whose gradient was not finite; for the holder only, and not saved.

    Privacy
    -------
    Unit: one row with its label. What leaves: the noisy numbers of rows, of all classes and of each; per step one noisy
    total of clipped gradients over a Poisson sample, with few examples beside the sample's numbers of rows of each class
    and within one bound for both; and noisy totals of bounded gains (`tacit.neural.fallback`). Why the bound holds: an
    example's gradient is computed from that example and the released weights alone, in float32 for chains of fully
    connected layers and in float64 otherwise. It is converted to float64, clipped to norm `clip`, and added in float64. A
    gradient that is not finite contributes zero, and so does an example that is not in the sample. An example's gains
    follow from it and from released values, and are clipped in the same way. Classes and ranges are public. Everything else
    (the start, the scale, predictions, averages over samples, dropout rates) is post-processing.

    References
    ----------
    B. Ermis. Bayesian approaches for privacy preserving data sharing. PhD thesis, 2020, chapters 5 (Algorithm 3) and 8.
    M. Abadi et al. Deep learning with differential privacy. CCS 2016.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from tacit.neural import PrivateBayesianClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> settings = {"feature_range": (0, 16), "classes": range(10), "sampling_rate": 0.3}
    >>> model = PrivateBayesianClassifier((), epsilon=5.0, delta=1e-4, **settings).fit(X, y)
    >>> model.predict_proba(X[:2]).shape
    (2, 10)
    >>> bool(model.guarantee_.epsilon <= 5.0)
    True
    """

    _loss = staticmethod(classification_loss)
    _random_targets = staticmethod(_random_labels)
    _fallback = ClassFrequencies()
    _without_inputs = "the class frequencies"
    _assuming = ("the classes are public", *PUBLIC)

    classes: ArrayLike | None = public(default=None)
    step_size: float = public(default=2.0)
    classes_: NDArray[np.generic] = released()

    def fit(self, X: TableLike, y: object = None) -> PrivateBayesianClassifier:
        """Learn the classes `y` of the rows of `X` (a table, or images as one array or list)."""
        rows, shape = self._rows(X)
        private = not math.isinf(check_epsilon(self.epsilon, infinite=True))
        self.classes_, labels = checked_labels(y, rows.shape[0], self.classes, private=private)
        self._learn(X, rows, shape, labels, len(self.classes_))
        return self

    def predict_proba(self, X: TableLike) -> NDArray[np.float64]:
        """Return the probability of every class for every row: the average over the posterior samples."""
        return np.concatenate([probabilities.mean(axis=0) for probabilities in self._sampled_probabilities(X)])

    def predict_spread(self, X: TableLike) -> NDArray[np.float64]:
        """Return the standard deviation of every class's probability over the posterior samples."""
        return np.concatenate([probabilities.std(axis=0) for probabilities in self._sampled_probabilities(X)])

    def predict(self, X: TableLike) -> NDArray[np.generic]:
        """Return the most probable class of every row."""
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(axis=1)]  # type: ignore[no-any-return]

    def _sampled_probabilities(self, X: TableLike) -> Iterator[NDArray[np.float64]]:
        """Yield (n_samples, n_rows, n_classes) for a few rows at a time."""
        for scores in self._sampled_scores(X, len(getattr(self, "classes_", ()))):
            yield torch.softmax(scores, dim=2).numpy()
