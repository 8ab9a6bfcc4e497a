"""Coupled factorisation without privacy: read `program.py` first, it is the algorithm.

`program.py` is CTF-ML of Ermis (2020), `variational.py` CTF-VB, `langevin.py` SGLD. May be imported by whoever may
import `factor`; within `factor`, by the other modules of `coupled`.
"""
