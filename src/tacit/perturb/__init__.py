"""Tables released in changed form: one method a file.

None of these methods but `PrivateTable` carries a formal guarantee: what a release still reveals is measured by attacks
(`tacit.measure.attacks`), never proven.
"""

from tacit.perturb.compare import Compared, compare_releases
from tacit.perturb.compressed_nmf import CompressedNMF
from tacit.perturb.constrained_nmf import ConstrainedNMF
from tacit.perturb.correlation_aware import CorrelationAware
from tacit.perturb.hide_membership import HideMembership
from tacit.perturb.named import named_release
from tacit.perturb.neighbourhood_aware import NeighbourhoodAware
from tacit.perturb.nmf_release import NMFRelease
from tacit.perturb.noise import AdditiveNoise
from tacit.perturb.private_table import PrivateTable
from tacit.perturb.truncated_svd import TruncatedSVDRelease

__all__ = [
    "AdditiveNoise",
    "Compared",
    "CompressedNMF",
    "ConstrainedNMF",
    "CorrelationAware",
    "HideMembership",
    "NMFRelease",
    "NeighbourhoodAware",
    "PrivateTable",
    "TruncatedSVDRelease",
    "compare_releases",
    "named_release",
]
