"""Attacks on released tables: what they recover, beside what can be had without the release.

An attack that finds nothing proves nothing: it shows that this attacker, with this knowledge, got no further. Only a
guarantee bounds all of them. An attack that finds something is a proof.
"""

from tacit.measure.attacks.attribute_inference import AttributeInference, attribute_inference
from tacit.measure.attacks.finding import Finding, Reconstruction, wilson_interval
from tacit.measure.attacks.known_samples import known_sample_regression
from tacit.measure.attacks.membership import Membership, membership
from tacit.measure.attacks.noise_estimation import noise_estimation
from tacit.measure.attacks.record_linkage import Linkage, record_linkage
from tacit.measure.attacks.spectral_filtering import spectral_filtering

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
    "spectral_filtering",
    "wilson_interval",
]
