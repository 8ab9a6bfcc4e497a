"""What private models make of noisy moments: packing, shrinkage by the edge of the noise, posteriors, leave-one-out.

Used by the private models for tables, ratings and coupled relations. All of it but `centred.py`, which is a program, is
post-processing of released sums, or is computed by one holder from its own data.
"""
