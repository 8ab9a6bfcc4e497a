"""The check that PyTorch is installed, which only this part of tacit needs."""

from __future__ import annotations

from importlib.util import find_spec

from tacit.errors import TacitError, words

TORCH = "2.13.0"


class MissingTorchError(TacitError, ImportError):
    """PyTorch is not installed; the rest of tacit works without it."""

    exit_code = 2


def require_torch() -> None:
    """Raise `MissingTorchError` if PyTorch is not installed."""
    if find_spec("torch") is None:
        raise MissingTorchError(
            "PyTorch for private networks",
            words("an environment without it"),
            f"Install it with: pip install 'tacit[neural]' (or: pip install torch=={TORCH}).",
        )
