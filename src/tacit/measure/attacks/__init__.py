"""Attacks on released tables. Each compares what it recovers with what can be guessed without the release.

An attack that finds nothing proves nothing: it shows that this attacker failed with this knowledge. Only a guarantee bounds
all attackers. An attack that finds something proves a leak.

May be imported by whoever may import `measure`.
"""

from tacit.measure.attacks.attributes import AttributeInference, attribute_inference
from tacit.measure.attacks.linkage import Linkage, record_linkage, unchanged_linkage
from tacit.measure.attacks.members import Membership, membership
from tacit.measure.attacks.reconstruction import known_sample_regression, noise_estimation, spectral_filtering
from tacit.measure.attacks.result import AttackResult, Reconstruction, fraction_interval

__all__ = [
    "AttackResult",
    "AttributeInference",
    "Linkage",
    "Membership",
    "Reconstruction",
    "attribute_inference",
    "fraction_interval",
    "known_sample_regression",
    "membership",
    "noise_estimation",
    "record_linkage",
    "spectral_filtering",
    "unchanged_linkage",
]
