"""The papers' privacy claims, tested: each item computes the evidence for one claim that does not hold, or for those that do."""

from tacit.reproduce.claims import accounting, factors, tables

__all__ = ["accounting", "factors", "tables"]
