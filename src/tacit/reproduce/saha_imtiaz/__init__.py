"""Saha and Imtiaz (2022): private non-negative factorisation with outliers.

May be imported by `tacit.reproduce.catalogue`, which loads it when it is asked for, and by `claims`.
"""

from tacit.reproduce.saha_imtiaz import coherence, curves, pictures, ratings, summary

__all__ = ["coherence", "curves", "pictures", "ratings", "summary"]
