"""Fixtures of the tests of networks."""

import pytest


@pytest.fixture(autouse=True)
def _same_start_every_time():
    """Layers draw their start from torch's own generator."""
    try:
        import torch
    except ImportError:
        return
    torch.manual_seed(0)
