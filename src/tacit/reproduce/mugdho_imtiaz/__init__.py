"""Mugdho and Imtiaz (2022): private matrix factorisation for recommendations."""

from tacit.reproduce.mugdho_imtiaz import budgets, sweeps

__all__ = ["budgets", "sweeps"]
