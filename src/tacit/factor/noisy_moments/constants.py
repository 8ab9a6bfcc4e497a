"""The constants that recommenders and coupled models share: budget splits, variances to begin with, clipping.

Values (ratings, cells) are on a scale from -1 to 1.
"""

from __future__ import annotations

FIRST, SECOND, REGRESSIONS = 0.15, 0.20, 0.65
"""How the three kinds of sums divide the budget; fixed on MovieLens 100K and a part of MovieLens 1M's training ratings."""
RATING_WEIGHT = 3.0
"""In the first moments a rating counts this much against the 1 of its being there."""
CUT = 0.75
"""Residuals enter the second moment and the regressions cut off here (1.5 stars of 1 to 5)."""
RARE_GAIN = 0.25
"""In the regressions an item's weight grows with this power of its rarity."""
ACTIVE = 100
"""A user with at least so many ratings counts fully in the averages over users; others by the root of their number."""
NOISE, USER_BIAS = 0.18, 0.05
"""Variances to begin with: of a rating around its expectation, and of the users' biases."""
LEAST_NOISE = 0.01
"""Least variance of a rating around its expectation that a noisy estimate may give."""
BIAS_VARIANCE = 0.0625
"""Of items around those of like popularity, on a scale from -1 to 1 (half a star of 1 to 5, squared)."""
BIAS_DOUBT = 0.0025
"""Added to the variance of the first biases: the users' own means, which they are relative to, are not exact."""
POPULARITY_BINS = 8
"""Number of groups of about equal weight into which rows are put, by popularity, to shrink their biases."""
CO_RATING = 40.0
"""Co-ratings of two items over the product of their weights, times the number of users."""
DIAGONAL_STEPS = 5
"""How often the diagonal of a second moment, which is not asked for, is filled in from its main directions."""
TINY = 1e-9
"""Added to denominators, for fits without noise."""
ENTITY_BIAS = 0.05
"""Variance of the protected entities' biases, on a scale from -1 to 1."""
LEAST_COUNT = 0.05
"""Of the average count: no row is taken to have less."""
LEAST_KEPT = 0.01
"""Least part of the spread of noisy counts that is taken to be real, for the prior of the groups' biases."""
