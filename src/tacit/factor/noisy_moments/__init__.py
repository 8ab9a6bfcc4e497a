"""Tools of the private models that release noisy moments: packing, eigenvalue shrinkage, posteriors, leave-one-out.

The private models for tables, ratings and coupled relations use them. `centred.py` is a program. Everything else is
post-processing of released sums, or is computed by one holder from its own data.

Within `factor`, may be imported by `moments`, `svd`, `nmf`, `ratings`, `implicit` and `coupled`.
"""
