"""Synthetic tables with a formal guarantee; `tacit.perturb` has methods without one."""

from tacit.synthetic.private_table import PrivateTable

__all__ = ["PrivateTable"]
