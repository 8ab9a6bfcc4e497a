"""tacit: private matrix and tensor factorisation.

Names are imported when they are first used, so that ``import tacit`` and the command line start at once.
"""

from importlib import import_module
from typing import Any

from tacit.estimators.registry import ESTIMATORS

_OTHERS = {
    "Accountant": "tacit.privacy",
    "AllBut": "tacit.factor.coupled.cells",
    "Guarantee": "tacit.privacy",
    "Ledger": "tacit.privacy",
    "LocallyPrivateCounts": "tacit.factor.coupled.local.noise",
    "Relation": "tacit.factor.coupled.relation",
    "TacitError": "tacit.errors",
    "choose_rank": "tacit.factor.nmf.choose_rank",
    "fingerprint": "tacit.privacy",
    "gaussian_epsilon": "tacit.privacy",
    "gaussian_noise_multiplier": "tacit.privacy",
    "load": "tacit.estimators.registry",
    "show_progress": "tacit.progress",
}

__all__ = sorted([*_OTHERS, *(name for name, entry in ESTIMATORS.items() if not entry.extra)])  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("tacit")
    if name in ESTIMATORS:
        return ESTIMATORS[name].load_class()
    if name in _OTHERS:
        return getattr(import_module(_OTHERS[name]), name)
    raise AttributeError(f"module 'tacit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__, *ESTIMATORS])
