"""Singular vectors, principal components and regression on them, from totals over all holders.

Read `program.py` first: it is the algorithm from one holder's view. `search.py` is what every holder makes of the totals.

PD-SVD and PCA of Tsikhanovich et al. (2019). Within `factor`, may be imported by `nmf`.
"""
