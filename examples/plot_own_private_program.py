"""
Write a private program, and let a replay find its leak
=======================================================

A program yields the sums that it needs. `check_neighbours` runs it again without one row, with the same answers.
"""

import matplotlib.pyplot as plt
import numpy as np

from tacit.channel import Noisy, Outcome, Plan, Sum, run
from tacit.errors import PrivacyViolationError
from tacit.testing import check_neighbours

X = np.random.default_rng(0).dirichlet(np.ones(5), size=3000)


def mean_program(rows):
    """Release the mean of rows that are clipped to length 1; the number of rows is noisy too."""
    clipped = rows / np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))
    total = yield Sum(rows=clipped.sum(axis=0), count=[len(rows)], bound={"rows": 1.0, "count": 1.0}, units=len(rows))
    return Outcome(public={"mean": total.rows / max(total.count[0], 1.0)})


def leaky_program(rows):
    """The same, with the true number of rows."""
    total = yield Sum(rows=rows.sum(axis=0), bound=1.0, units=len(rows))
    return Outcome(public={"mean": total.rows / len(rows)})


def fitted(program, rows, epsilon=1.0):
    return run(program(rows), Noisy(Plan.for_budget(epsilon, 1e-6))).public


print(check_neighbours(lambda rows: fitted(mean_program, rows), X, X[:-1]))
try:
    check_neighbours(lambda rows: fitted(leaky_program, rows), X, X[:-1])
except PrivacyViolationError as found:
    print(f"the second program was caught: {found}")

# %%
# The error of the mean, by epsilon, over 20 runs each.
epsilons = (0.1, 0.3, 1.0, 3.0, 10.0)
errors = [
    [np.abs(fitted(mean_program, X, epsilon)["mean"] - X.mean(axis=0)).max() for _ in range(20)] for epsilon in epsilons
]
figure, axis = plt.subplots(figsize=(6.4, 3.4))
axis.boxplot(errors)
axis.set_xticks(range(1, 6), [f"{epsilon:g}" for epsilon in epsilons])
axis.set(xlabel="epsilon", ylabel="largest error of the mean", yscale="log")
figure.tight_layout()
plt.show()
