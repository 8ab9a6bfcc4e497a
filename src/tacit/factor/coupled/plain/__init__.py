"""Coupled factorisation without privacy: read `program.py` first, it is the algorithm."""
