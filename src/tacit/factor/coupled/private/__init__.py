"""Coupled factorisation with differential privacy.

Read `user_moments.py` first (the unit is an entity with all its cells), then `cell_moments.py` (the unit is one cell);
`dp_sgld.py` is the alternative by noisy gradients.

`dp_sgld.py` is Algorithms 1 and 2 of Ermis (2020), repaired. May be imported by whoever may import `factor`; within
`factor`, by the other modules of `coupled`.
"""
