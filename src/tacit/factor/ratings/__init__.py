"""Recommenders: reading of ratings, a plain model by alternating least squares, a private one by noisy item moments.

Read `item_moments.py` first: it is the private algorithm. `model.py` is what all recommenders do with fitted items.

`mugdho_imtiaz.py` is Algorithm 1 of Mugdho and Imtiaz (2022), as printed and repaired. Within `factor`, may be imported
by `implicit`.
"""
