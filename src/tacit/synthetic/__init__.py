"""Synthetic tables with a formal guarantee; `tacit.perturb` has methods without one.

May be imported by `perturb`, `parties`, `cluster`, `report`, `reproduce`, `audit`, `app` and `cli`.
"""

from tacit.synthetic.private_table import PrivateTable

__all__ = ["PrivateTable"]
