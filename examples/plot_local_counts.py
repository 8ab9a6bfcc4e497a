"""
Noise at the source: locally private counts
===========================================

Every site adds noise to its own counts before anyone sees them. A fit that models the noise beats one that ignores it.
"""

import matplotlib.pyplot as plt
import numpy as np

from tacit import LocalCountFactorization, LocallyPrivateCounts

generator = np.random.default_rng(0)
rate = generator.gamma(0.5, 1.5, size=(60, 3)) @ generator.gamma(0.5, 1.5, size=(3, 30))
counts = generator.poisson(rate)

epsilons = (0.3, 1.0, 3.0)
errors = {"modelled": [], "naive": []}
for epsilon in epsilons:
    view = LocallyPrivateCounts(epsilon=epsilon, delta_max=1).privatise(counts)
    for noise, values in errors.items():
        model = LocalCountFactorization(3, noise=noise, sweeps=80, burn_in=40, n_samples=20).fit([view])
        predicted = model.predict(0)
        values.append(np.linalg.norm(predicted - rate) / np.linalg.norm(rate))
    print(
        f"epsilon {epsilon:g}: error {errors['modelled'][-1]:.3f} with the noise modelled, {errors['naive'][-1]:.3f} without"
    )

figure, axis = plt.subplots(figsize=(6.0, 3.4))
for (name, values), marker in zip(errors.items(), "os", strict=True):
    axis.loglog(epsilons, values, marker=marker, label=f"noise {name}" if name == "modelled" else "noise ignored")
axis.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
axis.minorticks_off()
axis.set(xlabel="epsilon per entry", ylabel="relative error of the expected counts")
axis.legend(frameon=False)
figure.tight_layout()
plt.show()
