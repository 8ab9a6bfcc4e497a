"""
Masks in coupled factorisation
==============================

How do I leave unknown cells out of a coupled factorisation of a tensor and a matrix?

(Asked in `tensorly 610 <https://github.com/tensorly/tensorly/issues/610>`_.) Every relation has a mask of its own, and its
own divergence.
"""

import matplotlib.pyplot as plt
import numpy as np

from tacit import CoupledFactorization, Relation

generator = np.random.default_rng(1)
A, B, C, D = (generator.gamma(0.8, size=(size, 3)) for size in (24, 20, 10, 15))
truth = np.einsum("ir,jr,kr->ijk", A, B, C)
tensor, matrix = truth * generator.gamma(50, 0.02, truth.shape), B @ D.T
known_matrix = generator.random(matrix.shape) > 0.3

fractions = (0.5, 0.8, 0.9, 0.95)
together, alone = [], []
for fraction in fractions:
    known = generator.random(tensor.shape) > fraction
    cells = Relation(tensor, "ir,jr,kr->ijk", ("i", "j", "k"), observed=known, name="tensor")
    side = Relation(matrix, "jr,lr->jl", ("j", "l"), observed=known_matrix, name="matrix")
    for relations, errors in (([cells, side], together), ([cells], alone)):
        model = CoupledFactorization({"r": 3}, max_iter=150, prior_shape=1.1, prior_scale=1.0).fit(relations)
        away = (model.predict("tensor") - truth)[~known]
        errors.append(np.linalg.norm(away) / np.linalg.norm(truth[~known]))
    print(f"{fraction:.0%} unknown: error {together[-1]:.3f} coupled, {alone[-1]:.3f} alone")

figure, axis = plt.subplots(figsize=(6.4, 3.6))
axis.plot(fractions, together, marker="o", label="tensor and matrix, both with masks")
axis.plot(fractions, alone, marker="s", label="tensor alone")
axis.set(xlabel="fraction of unknown cells of the tensor", ylabel="relative error on them", ylim=(0, None))
axis.legend(frameon=False)
figure.tight_layout()
plt.show()
