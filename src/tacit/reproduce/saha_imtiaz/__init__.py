"""Saha and Imtiaz (2022): private non-negative factorisation with outliers."""

from tacit.reproduce.saha_imtiaz import coherence, curves, pictures, ratings, summary

__all__ = ["coherence", "curves", "pictures", "ratings", "summary"]
