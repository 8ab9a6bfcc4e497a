"""
Completion of a tensor
======================

How do I complete a tensor from the few cells that are known, and how sure is each completed cell?

(Asked in `tensorly 335 <https://github.com/tensorly/tensorly/issues/335>`_.) Only the known cells are stored. Variational
inference returns a standard deviation for every prediction.
"""

import matplotlib.pyplot as plt
import numpy as np

from tacit import CoupledFactorization, Relation

generator = np.random.default_rng(0)
factors = [generator.gamma(0.7, size=(size, 3)) for size in (40, 30, 20)]
expected = 4 * np.einsum("ir,jr,kr->ijk", *factors)
counts = generator.poisson(expected)
known = generator.random(counts.shape) < 0.08
coords = np.argwhere(known)

relation = Relation(
    (coords, counts[known].astype(float), counts.shape),
    "ir,jr,kr->ijk",
    ("user", "place", "hour"),
    observed="stored",
    name="visits",
)
model = CoupledFactorization({"r": 3}, inference="vb", max_iter=300).fit([relation])
hidden = np.argwhere(~known)[::7]
mean, spread = model.predict("visits", hidden, return_std=True)
truth = expected[tuple(hidden.T)]
print(
    f"{known.mean():.0%} of the cells are known; correlation with the hidden truth {np.corrcoef(mean, truth)[0, 1]:.3f}"
)
print(f"within two standard deviations: {np.mean(np.abs(mean - truth) < 2 * spread):.0%}")

figure, (first, second) = plt.subplots(1, 2, figsize=(8.4, 3.8))
first.loglog(truth, mean, ".", markersize=2, alpha=0.3)
first.plot([0.1, truth.max()], [0.1, truth.max()], color="0.3", linewidth=0.8)
first.set(xlabel="true expectation of a hidden cell", ylabel="completed", xlim=(0.1, None), ylim=(0.1, None))
second.loglog(mean, spread, ".", markersize=2, alpha=0.3)
second.set(xlabel="completed", ylabel="its standard deviation", xlim=(0.1, None))
figure.tight_layout()
plt.show()
