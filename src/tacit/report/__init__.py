"""The computations of the commands, as functions for notebooks; figures and self-contained HTML pages.

May be imported by `audit`, `app` and `cli`.
"""

from tacit.report.components import ComponentsResult, fit_components
from tacit.report.coupled import CoupledComparison, compare_coupled
from tacit.report.demonstration import Demonstration, demonstrate
from tacit.report.implicit import ImplicitComparison, compare_implicit
from tacit.report.local import LocalCountsResult, fit_local_counts
from tacit.report.measure import MeasuredRelease, MeasuredRows, measure_synthetic_rows, measure_tables
from tacit.report.network import NetworkComparison, compare_networks
from tacit.report.nmf import NMFComparison, compare_nmf
from tacit.report.page import Report
from tacit.report.partitions import PartitionedFit, fit_partitions
from tacit.report.presence import PresenceResult, measure_presence
from tacit.report.private_coupled import PrivateCoupledComparison, compare_private_coupled
from tacit.report.recommender import RecommenderComparison, compare_recommenders
from tacit.report.regression import RegressionResult, fit_regression
from tacit.report.result import Result, ResultFolder
from tacit.report.tables import ReleasedTable, TableComparison, compare_table, perturb_table, synthesize_table

__all__ = [
    "ComponentsResult",
    "CoupledComparison",
    "Demonstration",
    "ImplicitComparison",
    "LocalCountsResult",
    "MeasuredRelease",
    "MeasuredRows",
    "NMFComparison",
    "NetworkComparison",
    "PartitionedFit",
    "PresenceResult",
    "PrivateCoupledComparison",
    "RecommenderComparison",
    "RegressionResult",
    "ReleasedTable",
    "Report",
    "Result",
    "ResultFolder",
    "TableComparison",
    "compare_coupled",
    "compare_implicit",
    "compare_networks",
    "compare_nmf",
    "compare_private_coupled",
    "compare_recommenders",
    "compare_table",
    "demonstrate",
    "fit_components",
    "fit_local_counts",
    "fit_partitions",
    "fit_regression",
    "measure_presence",
    "measure_synthetic_rows",
    "measure_tables",
    "perturb_table",
    "synthesize_table",
]
