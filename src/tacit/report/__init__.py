"""The computations of the commands, as functions for notebooks; figures and self-contained HTML pages.

May be imported by `audit`, `app` and `cli`.
"""

from importlib import import_module
from typing import Any

_MODULES = {
    "ComponentsResult": "tacit.report.components",
    "CoupledComparison": "tacit.report.coupled",
    "Demonstration": "tacit.report.demonstration",
    "ImplicitComparison": "tacit.report.implicit",
    "LocalCountsResult": "tacit.report.local",
    "MeasuredRelease": "tacit.report.measure",
    "MeasuredRows": "tacit.report.measure",
    "NMFComparison": "tacit.report.nmf",
    "NetworkComparison": "tacit.report.network",
    "PartitionedFit": "tacit.report.partitions",
    "PresenceResult": "tacit.report.presence",
    "PrivateCoupledComparison": "tacit.report.private_coupled",
    "RecommenderComparison": "tacit.report.recommender",
    "RegressionResult": "tacit.report.regression",
    "ReleasedTable": "tacit.report.tables",
    "Report": "tacit.report.page",
    "Result": "tacit.report.result",
    "ResultFolder": "tacit.report.result",
    "TableComparison": "tacit.report.tables",
    "compare_coupled": "tacit.report.coupled",
    "compare_implicit": "tacit.report.implicit",
    "compare_networks": "tacit.report.network",
    "compare_nmf": "tacit.report.nmf",
    "compare_private_coupled": "tacit.report.private_coupled",
    "compare_recommenders": "tacit.report.recommender",
    "compare_table": "tacit.report.tables",
    "demonstrate": "tacit.report.demonstration",
    "fit_components": "tacit.report.components",
    "fit_local_counts": "tacit.report.local",
    "fit_partitions": "tacit.report.partitions",
    "fit_regression": "tacit.report.regression",
    "measure_presence": "tacit.report.presence",
    "measure_synthetic_rows": "tacit.report.measure",
    "measure_tables": "tacit.report.measure",
    "perturb_table": "tacit.report.tables",
    "synthesize_table": "tacit.report.tables",
}

__all__ = sorted(_MODULES)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: a command needs one of these modules, and all of them take half a second."""
    if name not in _MODULES:
        raise AttributeError(f"module 'tacit.report' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
