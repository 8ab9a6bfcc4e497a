"""The losses of networks, for torch and as compiled loops that also give the slopes."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn.functional import cross_entropy

from tacit.neural.loops import put_class_slopes, put_distances

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""Maps scores (n, n_outputs) and targets (n or n, n_outputs) to one loss per example."""


def classification_loss(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return minus the logarithm of the softmax of each label's score: -log p(y|x, theta) of Ermis 2020, eq. 2.14."""
    return cross_entropy(scores, labels, reduction="none")


def regression_loss(scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return half the squared distance of the scores from the targets."""
    return (scores - targets).square().sum(dim=1) / 2


COMPILED: dict[Loss, Callable[..., None]] = {classification_loss: put_class_slopes, regression_loss: put_distances}
"""Loops that replace the scores of a block, of which the first are not padding, by their slopes, and put the losses."""
