"""Perturbed tables; `methods` has one method per file.

None of these methods has a formal guarantee. Attacks (`tacit.measure.attacks`) measure what a perturbed table still reveals;
they prove nothing. `tacit.synthetic` has tables with a guarantee.

May be imported by `parties`, `cluster`, `report`, `reproduce`, `audit`, `app` and `cli`.
"""

from tacit.perturb.compare import Compared, compare_releases
from tacit.perturb.methods.compressed_nmf import CompressedNMF
from tacit.perturb.methods.constrained_nmf import ConstrainedNMF
from tacit.perturb.methods.correlation_aware import CorrelationAware
from tacit.perturb.methods.hide_membership import HideMembership
from tacit.perturb.methods.neighbourhood_aware import NeighbourhoodAware
from tacit.perturb.methods.nmf import NMFRelease
from tacit.perturb.methods.noise import AdditiveNoise
from tacit.perturb.methods.rotation import RotationRelease
from tacit.perturb.methods.truncated_svd import TruncatedSVDRelease
from tacit.perturb.registry import named_release

__all__ = [
    "AdditiveNoise",
    "Compared",
    "CompressedNMF",
    "ConstrainedNMF",
    "CorrelationAware",
    "HideMembership",
    "NMFRelease",
    "NeighbourhoodAware",
    "RotationRelease",
    "TruncatedSVDRelease",
    "compare_releases",
    "named_release",
]
