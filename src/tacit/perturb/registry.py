"""The methods by name, for the command line and comparisons."""

from __future__ import annotations

import inspect
from typing import Any

from tacit.errors import InvalidInputError, words
from tacit.perturb.base import TablePerturbation
from tacit.perturb.methods.compressed_nmf import CompressedNMF
from tacit.perturb.methods.constrained_nmf import ConstrainedNMF
from tacit.perturb.methods.correlation_aware import CorrelationAware
from tacit.perturb.methods.hide_membership import HideMembership
from tacit.perturb.methods.neighbourhood_aware import NeighbourhoodAware
from tacit.perturb.methods.nmf import NMFRelease
from tacit.perturb.methods.noise import AdditiveNoise
from tacit.perturb.methods.rotation import RotationRelease
from tacit.perturb.methods.truncated_svd import TruncatedSVDRelease
from tacit.validation import check_choice

PERTURBATIONS: dict[str, tuple[type[TablePerturbation], dict[str, Any]]] = {
    "uniform-noise": (AdditiveNoise, {"kind": "uniform"}),
    "normal-noise": (AdditiveNoise, {"kind": "normal"}),
    "rotation": (RotationRelease, {}),
    "truncated-svd": (TruncatedSVDRelease, {}),
    "nmf": (NMFRelease, {}),
    "constrained-nmf": (ConstrainedNMF, {}),
    "sparsified-nmf": (ConstrainedNMF, {"sparsify": 0.03}),
    "compressed-nmf": (CompressedNMF, {}),
    "correlation-aware": (CorrelationAware, {}),
    "correlation-aware-leaves": (CorrelationAware, {"form": "leaf"}),
    "neighbourhood-aware": (NeighbourhoodAware, {}),
    "hide-membership": (HideMembership, {}),
}
"""The class and settings of each name. The threshold 0.03 of sparsified-nmf is one of those in Table 4.3 of Thapa (2013)."""
NEED_LABELS = ("correlation-aware", "correlation-aware-leaves")


def accepts(name: str, setting: str) -> bool:
    """Return whether the method of this name has this parameter."""
    return setting in inspect.signature(PERTURBATIONS[check_choice(name, "method", PERTURBATIONS)][0]).parameters


def named_release(name: str, **settings: Any) -> TablePerturbation:
    """Return the method of this name; settings that are None have their defaults, and unknown ones raise an error.

    Examples
    --------
    >>> from tacit.perturb import named_release
    >>> named_release("normal-noise", level=0.1).kind
    'normal'
    """
    kind, defaults = PERTURBATIONS[check_choice(name, "method", PERTURBATIONS)]
    given = {key: value for key, value in settings.items() if value is not None}
    known = set(inspect.signature(kind).parameters)
    unknown = sorted(set(given) - known)
    if unknown:
        raise InvalidInputError(
            f"settings of {name} among {sorted(known)}",
            words(", ".join(unknown)),
            "Leave these out, or use another method.",
        )
    return kind(**{**defaults, **given})
