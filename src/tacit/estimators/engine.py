"""The engine for data in partitions, found by its name: `tacit.cluster` imports the estimators, not the other way round."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tacit.estimators.base import Estimator


def fit_in_partitions(estimator: Estimator, data: object, y: str | None = None) -> Estimator:
    """Fit an estimator to data in partitions on this machine; `tacit.cluster.run_on` has the settings for real clusters.

    `y` is the name of the column of the targets.
    """
    fitted: Estimator = import_module("tacit.cluster").run_on(None, estimator, data, target=y)
    return fitted
