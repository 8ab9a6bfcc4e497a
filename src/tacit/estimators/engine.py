"""The engine for data in partitions, found by its name: `tacit.cluster` imports the estimators, not the other way round."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def fit_in_partitions(estimator: Any, data: Any, y: Any = None) -> Any:
    """Fit an estimator to data in partitions on this machine; `tacit.cluster.run_on` has the settings for real clusters.

    `y` is the name of the column of the targets.
    """
    return import_module("tacit.cluster").run_on(None, estimator, data, target=y)
