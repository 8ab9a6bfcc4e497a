"""Mugdho and Imtiaz (2022): private matrix factorisation for recommendations.

May be imported by `tacit.reproduce.catalogue`, which loads it when it is asked for, and by `claims`.
"""

from tacit.reproduce.mugdho_imtiaz import budgets, sweeps

__all__ = ["budgets", "sweeps"]
