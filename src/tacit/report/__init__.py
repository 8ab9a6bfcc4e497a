"""What the commands compute, as functions for notebooks; figures and self-contained HTML pages."""

from tacit.report.components import ComponentsResult, fit_components
from tacit.report.coupled import CoupledComparison, compare_coupled
from tacit.report.demonstration import Demonstration, demonstrate
from tacit.report.folder import ResultFolder
from tacit.report.network import NetworkComparison, compare_networks
from tacit.report.nmf import NMFComparison, compare_nmf
from tacit.report.page import Report
from tacit.report.presence import PresenceResult, measure_presence
from tacit.report.recommender import RecommenderComparison, compare_recommenders
from tacit.report.result import Result

__all__ = [
    "ComponentsResult",
    "CoupledComparison",
    "Demonstration",
    "NMFComparison",
    "NetworkComparison",
    "PresenceResult",
    "RecommenderComparison",
    "Report",
    "Result",
    "ResultFolder",
    "compare_coupled",
    "compare_networks",
    "compare_nmf",
    "compare_recommenders",
    "demonstrate",
    "fit_components",
    "measure_presence",
]
