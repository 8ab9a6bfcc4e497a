"""Recommenders: ratings as they come, the plain model by alternating least squares, the private one by noisy item moments.

Read `item_moments.py` first: it is the private algorithm. `model.py` is what all recommenders do once the items are known.
"""
