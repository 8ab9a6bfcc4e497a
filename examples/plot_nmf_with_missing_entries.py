"""
NMF with missing entries
========================

How do I factorise a matrix in which some entries are unknown, without filling them in?

(Asked in `scikit-learn 8447 <https://github.com/scikit-learn/scikit-learn/issues/8447>`_.)
A `Relation` says which cells are known. Unknown cells have no part in the loss.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import NMF

from tacit import CoupledFactorization, Relation

generator = np.random.default_rng(0)
truth = generator.gamma(1.0, size=(120, 4)) @ generator.gamma(1.0, size=(4, 60))
X = truth + 0.05 * generator.random(truth.shape)

fractions = (0.1, 0.3, 0.5, 0.7)
masked, zeros, means = [], [], []
for fraction in fractions:
    known = generator.random(X.shape) > fraction

    relation = Relation(X, "ir,jr->ij", ("row", "column"), observed=known, divergence="euclid", name="X")
    model = CoupledFactorization({"r": 4}, max_iter=400).fit([relation])

    def error(prediction, unknown=~known):
        return np.linalg.norm((prediction - truth)[unknown]) / np.linalg.norm(truth[unknown])

    masked.append(error(model.predict("X")))
    for filled, errors in ((np.where(known, X, 0.0), zeros), (np.where(known, X, X[known].mean()), means)):
        other = NMF(4, init="nndsvda", max_iter=400).fit(filled)
        errors.append(error(other.transform(filled) @ other.components_))
    print(f"{fraction:.0%} unknown: relative error {masked[-1]:.3f}; filled with zeros {zeros[-1]:.3f}")

figure, axis = plt.subplots(figsize=(6.4, 3.6))
axis.plot(fractions, masked, marker="o", label="unknown entries left out (tacit)")
axis.plot(fractions, means, marker="s", label="filled with the mean (scikit-learn)")
axis.plot(fractions, zeros, marker="^", label="filled with zeros (scikit-learn)")
axis.set(xlabel="fraction of unknown entries", ylabel="relative error on them", ylim=(0, None))
axis.legend(frameon=False)
figure.tight_layout()
plt.show()
