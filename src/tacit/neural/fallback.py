r"""What is predicted without the inputs, and how far a network is trusted beyond that.

With few examples or a small epsilon the noise in the weights can outweigh what they learned. The predictions of such a
network are worse than those of somebody who has not seen the inputs: the class frequencies, or the mean target. Two
released totals prevent this.

* Before the training: the noisy number of examples of every class (or the noisy total of the targets). It gives the
  **baseline** b: the logarithms of the class frequencies, or the mean target. A network that tacit builds starts with zero
  weights in its last layer and with b as its bias, so that it starts with these predictions. Where there are so few examples
  that a network can hardly learn, each step of the training counts its examples too (`weight_in_steps`), beside the gradients
  and within one bound. All counts together give b anew when the training ends.
* After the training: by how much the network's predictions are better than the baseline, at several **scales** s of the
  scores f(x),

  .. math:: s f(x) + (1 - s) b,

  so that s = 1 is the network and s = 0 the baseline. The smallest scale is used whose noisy gain is the largest one, up to
  its noise. If no gain exceeds its noise, the scale is so small that the predictions are the baseline, up to the order of
  classes that are about equally frequent.

The gain of an example is the difference of two Brier scores (or of two squared errors). It is bounded by `MOST_GAIN`, so one
example changes the total by at most that. It is measured on the examples that the network was trained on, and so it is
larger than for new examples where the noise is small and the network can remember them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import gammaln

from tacit.channel import Bound

MOST_SCORE_NOISE = 4.0
"""With few examples or a small epsilon all steps are made smaller, so that all together add no more noise than this to a
score of a class. Chosen among 0.5, 1, 2, 4 and 13 on 400 of the training images of MNIST and 400 rows each of two tables
(winequality, yeast), at epsilon 0.3 to 10."""
MOST_TARGET_NOISE = 0.5
"""The same for a predicted target, which lies in [-1, 1]. Chosen among 0.25, 0.5, 1 and 4 on two made-up tables of 640 and 1,600
rows and on the colour of 1,600 wines (winequality), at epsilon 1 to 10."""
TARGET_UNIT = 0.5
"""Squared errors of targets are counted in squares of this. A network that is right where the mean target is off by this much
has gained 1, so the gains of most examples are neither clipped nor lost in the noise. Set by hand, on the same tables."""
SCALES = (1.0, 0.5, 0.25, 0.125)
"""Scales that are used where there is a gain."""
LEAST_SCALE = 1 / 64
"""Used where no gain is seen: noise of 4 in a score, the most that steps add, becomes 1/16."""
MEASURED = (*SCALES, LEAST_SCALE)
MOST_GAIN = 1.0
"""Largest norm of one example's gains, of all scales together. The largest possible Brier score is 2, and a gain of 1 at one
scale is that of an example that was predicted with certainty instead of with ten equal probabilities."""
SEEN, TIED = 2.0, 1.0
"""A gain is seen if it exceeds the first number of standard deviations of its noise; a smaller scale is preferred if its gain
is within the second number of them of the largest: gains are measured on the examples of the training, which favours the
larger scales. Set by hand, on subsets of MNIST's training images, of two tables (winequality, yeast), of Yale B and of the
digits."""
HALF_AN_EXAMPLE = 0.5
"""Added to the number of examples of every class (Krichevsky & Trofimov 1981): a class that was not seen may still occur."""
SHAPES = np.geomspace(0.1, 100.0, 16)
"""Shapes of the gamma distribution of class counts, from very unequal to equal ones (relative deviations of 3 to 0.1)."""
REACH, GRID = 8.0, 400
"""Counts up to this many deviations of the noise away are considered, at this many points. Set by hand."""
PRIOR_SPREAD = 0.5
"""Standard deviation, before anything was seen, of the mean target in [-1, 1]. Set by hand."""


ENOUGH, EQUAL, MOST_WEIGHT = 4.0, 1.5, 1.0
"""With fewer examples of a class than ENOUGH times the noise of a pass, the steps go on counting. From EQUAL times the noise
down, the counts have the weight of a clipped gradient, MOST_WEIGHT, which makes the noise of the gradients 41% larger; up to
there their weight falls like 1 / examples. Set after weights of 0, 0.5 and 1, and counting only, had been compared on made-up
tables of 6 to 20 classes and ten columns, iris, wine (scikit-learn) and digits, at epsilon 0.3 and 1; from 5 times the noise on
a weight of 0.5 was no better than none."""


class Fallback(ABC):
    """The prediction without inputs for one kind of targets."""

    most_noise: float
    """Largest standard deviation of the noise that all steps together may add to a score."""

    @abstractmethod
    def bound(self, n_outputs: int) -> Bound:
        """Return how far one example can move `total`."""

    @abstractmethod
    def total(self, targets: NDArray[np.generic], n_outputs: int) -> NDArray[np.float64]:
        """Add up what the baseline is computed from."""

    @abstractmethod
    def parts(self, n_outputs: int) -> float:
        """Return by how much less than all examples an entry of the total is about."""

    @abstractmethod
    def baseline(
        self, total: NDArray[np.float64], noise: float, count: float, count_noise: float = 0.0
    ) -> NDArray[np.float64]:
        """Return the scores that are best without inputs, from a noisy total and number of examples, and the noise in both."""

    @abstractmethod
    def errors(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return every example's error, for scores of shape (n_samples, n_examples, n_outputs)."""

    def gains(self, scores: torch.Tensor, targets: torch.Tensor, baseline: torch.Tensor) -> torch.Tensor:
        """Return by how much every example is predicted better than by the baseline, at the scales `MEASURED`.

        Privacy
        -------
        A row of the result follows from that example's scores and target, and from the released baseline. Its norm is at
        most `MOST_GAIN`. Of an example whose scores are not finite, the gains are the most negative ones.
        """
        without = self.errors(baseline.expand_as(scores[:1]), targets)
        gains = torch.stack(
            [without - self.errors(shrunk(scores, baseline, scale), targets) for scale in MEASURED], dim=1
        )
        gains = torch.where(torch.isfinite(gains).all(dim=1, keepdim=True), gains, -MOST_GAIN)
        norms = torch.zeros(len(gains), dtype=gains.dtype)
        for column in gains.unbind(dim=1):  # one after the other: a reduction may round an entry by its position
            norms += column.square()
        return gains * (MOST_GAIN / norms.sqrt().clamp(min=MOST_GAIN))[:, None]


class ClassFrequencies(Fallback):
    """For classes: the logarithms of their frequencies."""

    most_noise = MOST_SCORE_NOISE

    def bound(self, n_outputs: int) -> Bound:
        """An example is in one class; another example, at most, in another one."""
        return Bound(1.0, math.sqrt(2))

    def total(self, targets: NDArray[np.generic], n_outputs: int) -> NDArray[np.float64]:
        """Count the examples of every class."""
        return np.bincount(targets, minlength=n_outputs).astype(np.float64)

    def parts(self, n_outputs: int) -> float:
        """An entry is the number of examples of one class."""
        return n_outputs

    def baseline(
        self, total: NDArray[np.float64], noise: float, count: float, count_noise: float = 0.0
    ) -> NDArray[np.float64]:
        """Return the logarithms of frequencies from noisy counts (`posterior_counts`)."""
        counts = posterior_counts(total, noise) if noise > 0 else total.clip(min=0.0)
        smoothed = counts + HALF_AN_EXAMPLE
        return np.asarray(np.log(smoothed / smoothed.sum()))

    def errors(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the Brier scores of the mean probabilities, without their constant of 1."""
        mean = torch.zeros(scores.shape[1:], dtype=scores.dtype)
        for sample in scores:
            mean += torch.softmax(sample, dim=1)
        mean /= len(scores)
        errors = -2 * mean.gather(1, targets[:, None])[:, 0]
        for column in mean.unbind(dim=1):
            errors += column.square()
        return errors


class MeanTarget(Fallback):
    """For numbers in [-1, 1]: their mean."""

    most_noise = MOST_TARGET_NOISE

    def bound(self, n_outputs: int) -> Bound:
        """Each of an example's targets is in [-1, 1]."""
        return Bound(math.sqrt(n_outputs))

    def total(self, targets: NDArray[np.generic], n_outputs: int) -> NDArray[np.float64]:
        """Add the targets up."""
        return np.asarray(targets.sum(axis=0, dtype=np.float64))

    def parts(self, n_outputs: int) -> float:
        """An entry is a total of targets, which are about `TARGET_UNIT`."""
        return 1 / TARGET_UNIT

    def baseline(
        self, total: NDArray[np.float64], noise: float, count: float, count_noise: float = 0.0
    ) -> NDArray[np.float64]:
        """Return the mean target, shrunk towards 0 by the noise (the mean of a normal posterior).

        The mean is a quotient, so the noise in the number of examples moves it by as much as the mean is large.
        """
        spread = math.hypot(noise, PRIOR_SPREAD * count_noise) / count
        mean = total / count * (PRIOR_SPREAD**2 / (PRIOR_SPREAD**2 + spread**2))
        return np.asarray(np.clip(mean, -1.0, 1.0))

    def errors(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the squared distance of the mean scores from the targets, in squares of `TARGET_UNIT`."""
        mean = torch.zeros(scores.shape[1:], dtype=scores.dtype)
        for sample in scores:
            mean += sample
        mean /= len(scores)
        errors = torch.zeros(len(targets), dtype=scores.dtype)
        for column in (mean - targets).unbind(dim=1):
            errors += (column / TARGET_UNIT).square()
        return errors


def weight_in_steps(count: float, noise: float, parts: float) -> float:
    """Return the weight with which the steps of the training go on counting, relative to a clipped gradient.

    It is for few examples: below `ENOUGH` times the noise in every part. The smaller they are, the less a network can learn,
    and the more the baseline is worth. All of it is public or released.

    Parameters
    ----------
    count : float
        Noisy number of examples.
    noise : float
        Standard deviation, in examples, of the noise in the sum of all steps' totals over one pass.
    parts : float
        `Fallback.parts`.

    Examples
    --------
    >>> from tacit.neural.fallback import weight_in_steps
    >>> round(weight_in_steps(400, noise=12.5, parts=10), 2), weight_in_steps(400, noise=12.5, parts=2)
    (0.47, 0.0)
    """
    if noise <= 0 or count >= ENOUGH * noise * parts:
        return 0.0
    return min(MOST_WEIGHT, EQUAL * noise * parts / count)


def pooled(
    one: NDArray[np.float64], noise: float, other: NDArray[np.float64], more_noise: float
) -> tuple[NDArray[np.float64], float]:
    """Return the mean of two noisy totals of the same examples that has the least noise, and its noise.

    Examples
    --------
    >>> import numpy as np
    >>> from tacit.neural.fallback import pooled
    >>> total, noise = pooled(np.array([10.0]), 2.0, np.array([20.0]), 1.0)
    >>> float(total[0]), round(noise, 2)
    (18.0, 0.89)
    """
    weights = noise**-2, more_noise**-2
    total = (weights[0] * one + weights[1] * other) / sum(weights)
    return total, sum(weights) ** -0.5


def posterior_counts(noisy: NDArray[np.float64], noise: float) -> NDArray[np.float64]:
    """Return the means of true counts, given noisy ones and the standard deviation of their noise.

    Before anything is seen, a count has a gamma distribution. Its mean is that of the noisy counts. Its shape says how
    unequal the counts are: the results for the shapes `SHAPES` are averaged, weighted by how well each explains the noisy
    counts. So frequencies are nearly equal where the noise hides their differences, and a count is never negative.

    Examples
    --------
    >>> import numpy as np
    >>> from tacit.neural.fallback import posterior_counts
    >>> posterior_counts(np.array([300.0, 100.0, -5.0]), noise=10.0).round()
    array([299.,  99.,   4.])
    >>> posterior_counts(np.array([300.0, 100.0, -5.0]), noise=1000.0).round(-1)
    array([480., 470., 460.])
    """
    mean = max(float(noisy.mean()), noise / math.sqrt(len(noisy)))
    low, high = np.maximum(noisy - REACH * noise, 0.0), np.maximum(noisy, 0.0) + REACH * noise
    at = (np.arange(GRID) + 0.5) / GRID
    counts = low[:, None] + (high - low)[:, None] * at**2  # denser at the lower end, where the density may be infinite
    logs = np.log(at) - (noisy[:, None] - counts) ** 2 / (2 * noise**2)
    shapes = SHAPES[:, None, None]
    logs = logs + (shapes - 1) * np.log(counts) - shapes * counts / mean  # shapes x classes x grid
    most = logs.max(axis=2, keepdims=True)
    masses = np.exp(logs - most)
    sums = masses.sum(axis=2)
    evidence = (np.log(sums * (high - low)) + most[:, :, 0]).sum(axis=1)
    evidence += len(noisy) * (SHAPES * np.log(SHAPES / mean) - gammaln(SHAPES))
    weights = np.exp(evidence - evidence.max())
    means = (masses * counts).sum(axis=2) / sums
    return np.asarray(weights @ means / weights.sum())


def shrunk(scores: torch.Tensor, baseline: torch.Tensor, scale: float) -> torch.Tensor:
    """Return the scores at a scale: the network's for 1, the baseline for 0."""
    if scale == 1:
        return scores
    return scale * scores + (1 - scale) * baseline if scale > 0 else baseline.expand_as(scores)


def chosen_scale(gains: NDArray[np.float64], noise: float) -> float:
    """Return the scale for noisy total gains at the scales `MEASURED`.

    It is a function of released numbers. If no gain exceeds the noise, the scale is `LEAST_SCALE`; if there is a loss
    even there, it is 0.

    Examples
    --------
    >>> import numpy as np
    >>> from tacit.neural.fallback import chosen_scale
    >>> chosen_scale(np.array([50.0, 90.0, 60.0, 30.0, 9.0]), noise=10.0)
    0.5
    >>> chosen_scale(np.array([-50.0, -20.0, 10.0, 5.0, 1.0]), noise=10.0)
    0.015625
    >>> chosen_scale(np.full(5, -50.0), noise=10.0)
    0.0
    """
    most = max(gains[: len(SCALES)])
    if most > SEEN * noise:
        return min(scale for scale, gain in zip(SCALES, gains, strict=False) if gain >= most - TIED * noise)
    return LEAST_SCALE if gains[-1] >= -SEEN * noise else 0.0
