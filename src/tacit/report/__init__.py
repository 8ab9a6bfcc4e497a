"""What the commands compute, as functions for notebooks; figures and self-contained HTML pages."""

from tacit.report.components import ComponentsResult, fit_components
from tacit.report.coupled import CoupledComparison, compare_coupled
from tacit.report.demonstration import Demonstration, demonstrate
from tacit.report.folder import ResultFolder
from tacit.report.measure import MeasuredRelease, measure_tables
from tacit.report.network import NetworkComparison, compare_networks
from tacit.report.nmf import NMFComparison, compare_nmf
from tacit.report.page import Report
from tacit.report.presence import PresenceResult, measure_presence
from tacit.report.recommender import RecommenderComparison, compare_recommenders
from tacit.report.result import Result
from tacit.report.tables import ReleasedTable, TableComparison, compare_table, perturb_table, synthesize_table

__all__ = [
    "ComponentsResult",
    "CoupledComparison",
    "Demonstration",
    "MeasuredRelease",
    "NMFComparison",
    "NetworkComparison",
    "PresenceResult",
    "RecommenderComparison",
    "ReleasedTable",
    "Report",
    "Result",
    "ResultFolder",
    "TableComparison",
    "compare_coupled",
    "compare_networks",
    "compare_nmf",
    "compare_recommenders",
    "compare_table",
    "demonstrate",
    "fit_components",
    "measure_presence",
    "measure_tables",
    "perturb_table",
    "synthesize_table",
]
