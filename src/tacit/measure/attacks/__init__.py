"""Attacks on released tables: what they recover, beside what can be had without the release.

An attack that finds nothing proves nothing: it shows that this attacker, with this knowledge, got no further. Only a
guarantee bounds all of them. An attack that finds something is a proof.
"""

from tacit.measure.attacks.attributes import AttributeInference, attribute_inference
from tacit.measure.attacks.covariance import noise_estimation
from tacit.measure.attacks.known_samples import known_sample_regression
from tacit.measure.attacks.linkage import Linkage, record_linkage, unchanged_linkage
from tacit.measure.attacks.members import Membership, membership
from tacit.measure.attacks.result import Finding, Reconstruction, share_interval
from tacit.measure.attacks.spectral import spectral_filtering

__all__ = [
    "AttributeInference",
    "Finding",
    "Linkage",
    "Membership",
    "Reconstruction",
    "attribute_inference",
    "known_sample_regression",
    "membership",
    "noise_estimation",
    "record_linkage",
    "share_interval",
    "spectral_filtering",
    "unchanged_linkage",
]
