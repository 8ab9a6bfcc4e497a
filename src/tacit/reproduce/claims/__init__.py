"""The papers' privacy claims, tested: each item computes the evidence for one claim that does not hold, or for those that do.

May be imported by `tacit.reproduce.catalogue` only, which loads it when it is asked for.
"""

from tacit.reproduce.claims import accounting, factors, tables

__all__ = ["accounting", "factors", "tables"]
