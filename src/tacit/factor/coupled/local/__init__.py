"""Counts that leave their site with noise only (local privacy), and Poisson factorisation of such counts.

LDP1 and LDP2 of Ermis (2020), section 4.1.4: `noise.py` adds the noise, `estimator.py` fits. May be imported by whoever
may import `factor`; within `factor`, by the other modules of `coupled`.
"""
