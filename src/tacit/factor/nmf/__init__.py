"""Non-negative factorisation: the program and its two halves, starts, the plain and the private estimator, the rank.

Read `program.py` first: it is the algorithm. `nnls.py` holds its two halves, `saha_imtiaz.py` what a private one sends.

`pd_nmf.py` has PD-NMF of Tsikhanovich et al. (2019). Within `factor`, may be imported by `ratings`.
"""
