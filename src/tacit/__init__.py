"""tacit: factorise data that nobody may look at.

Names are imported when they are first used, so that ``import tacit`` and the command line start at once.
"""

from importlib import import_module
from typing import Any

_HOME = {
    "Accountant": "tacit.privacy",
    "AllBut": "tacit.factor",
    "CoupledFactorization": "tacit.factor",
    "Guarantee": "tacit.privacy",
    "Ledger": "tacit.privacy",
    "LocalCountFactorization": "tacit.factor.coupled.local_counts",
    "LocallyPrivateCounts": "tacit.factor.coupled.local_noise",
    "NMF": "tacit.factor",
    "PCA": "tacit.factor",
    "PrincipalComponentRegression": "tacit.factor",
    "PrivateCoupledFactorization": "tacit.factor.coupled.private",
    "PrivateMoments": "tacit.factor",
    "PrivateNMF": "tacit.factor",
    "PrivateRecommender": "tacit.factor",
    "PrivateTable": "tacit.perturb",
    "RatingNMF": "tacit.factor",
    "Recommender": "tacit.factor",
    "SVD": "tacit.factor",
    "Relation": "tacit.factor",
    "TacitError": "tacit.errors",
    "choose_rank": "tacit.factor",
    "fingerprint": "tacit.privacy",
    "gaussian_epsilon": "tacit.privacy",
    "gaussian_noise_multiplier": "tacit.privacy",
    "load": "tacit.factor",
}

__all__ = ["NMF", "Accountant", "Guarantee", "Ledger", "PrivateMoments", "PrivateNMF", "TacitError", "choose_rank"]
__all__ += ["PCA", "SVD", "PrincipalComponentRegression"]
__all__ += ["PrivateRecommender", "PrivateTable", "RatingNMF", "Recommender"]
__all__ += ["LocalCountFactorization", "LocallyPrivateCounts", "PrivateCoupledFactorization"]
__all__ += ["AllBut", "CoupledFactorization", "Relation"]
__all__ += ["fingerprint", "gaussian_epsilon", "gaussian_noise_multiplier", "load"]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("tacit")
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'tacit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
