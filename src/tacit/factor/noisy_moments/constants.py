"""The constants that the private recommender and the private coupled models share.

Values (ratings, cells) are on a scale from -1 to 1.

Where the numbers come from, unless one says otherwise: those that the recommender uses were chosen on MovieLens 100K and
on a part of the training ratings of MovieLens 1M (see docs/results/recommender.md). Those that only the coupled models use were
set by hand. No constant depends on the data of a fit.
"""

from __future__ import annotations

FIRST, SECOND, REGRESSIONS = 0.15, 0.20, 0.65
"""How the three kinds of sums (first moments, second moment, all regressions) divide the budget."""
REGRESSION_FRACTIONS = {"moments": 0.94, "gram": 0.04, "activity": 0.02}
"""How the three arrays of one regression divide its budget. A Gram matrix and two sums are averages over all units, and
tolerate more noise than the moments, which are sums per row."""
VALUE_WEIGHT = 3.0
"""In the first moments, a value of 1 counts this much and the presence of the value counts 1."""
RESIDUAL_CLIP = 0.75
"""Residuals are clipped to this in the second moment and in the regressions (1.5 stars on a scale from 1 to 5)."""
RARITY_POWER = 0.25
"""In the regressions, the terms of a row are multiplied by its popularity to the power of minus this."""
FULL_ACTIVITY = 100
"""A unit with n values has the weight min(sqrt(n / this), 1) in the averages over units: units with many values matter
more for the error of a prediction."""
VALUE_VARIANCE = 0.18
"""Variance of a value around its expectation, before a regression estimates it (0.85 stars on a scale from 1 to 5)."""
LEAST_VALUE_VARIANCE = 0.01
"""A noisy estimate of that variance is raised to this. Set by hand: far below the variance of real ratings, and large
enough that the solutions for a unit's own factors keep some regularisation."""
UNIT_BIAS_VARIANCE = 0.05
"""Prior variance of the biases of users (or other protected entities)."""
BIAS_VARIANCE = 0.0625
"""Prior variance of a row's bias around that of rows with a similar popularity (half a star on a scale from 1 to 5)."""
BIAS_DOUBT = 0.0025
"""Added to the posterior variance of the first biases. They are relative to the units' own means, which are not exact."""
POPULARITY_BINS = 8
"""Number of groups of about equal total weight into which rows are put by popularity. More groups follow the popularity
more closely, and each has a noisier mean."""
CO_RATING = 40.0
"""Number of pairs of values of two rows in the second moment, divided by the product of the rows' weights and multiplied
by the number of users; an average."""
DIAGONAL_STEPS = 5
"""Number of times that the diagonal of a second moment, which is not released, is filled in from the main directions.
Set by hand; each step costs one eigendecomposition."""
TINY = 1e-9
"""Added to denominators, so that fits without noise do not divide by zero. Set by hand: far below any released noise."""
LEAST_COUNT = 0.05
"""A noisy count is raised to this fraction of the average count, or to half its noise if that is less. Set by hand, so that
a count is positive."""
LEAST_KEPT = 0.01
"""Least fraction of the spread of noisy counts that counts as real, for the prior of the groups' biases. Set by hand, so
that the prior's variance is positive."""
