"""
How much noise does an epsilon ask for?
=======================================

The exact noise of a sum for a given epsilon and delta, and the error that it puts on a mean, by the number of people.
"""

import matplotlib.pyplot as plt
import numpy as np

from tacit.privacy import gaussian_noise_multiplier

epsilons = np.geomspace(0.1, 20, 15)
noise = {delta: [gaussian_noise_multiplier(epsilon, delta) for epsilon in epsilons] for delta in (1e-4, 1e-6, 1e-9)}
print(f"epsilon 1, delta 1e-6: a noise of {gaussian_noise_multiplier(1.0, 1e-6):.2f} times one person's largest part")

figure, (first, second) = plt.subplots(1, 2, figsize=(9.0, 3.6))
for delta, values in noise.items():
    first.loglog(epsilons, values, label=f"delta {delta:g}")
first.set(xlabel="epsilon", ylabel="noise, in units of one person's largest part")
first.legend(frameon=False)
people = np.geomspace(100, 1e6, 20)
for epsilon in (0.3, 1.0, 3.0, 10.0):
    error = gaussian_noise_multiplier(epsilon, 1e-6) / people
    second.loglog(people, 100 * error, label=f"epsilon {epsilon:g}")
second.axhline(1, color="0.6", linewidth=0.8)
second.set(xlabel="number of people", ylabel="noise of a mean, % of the range")
second.legend(frameon=False)
figure.tight_layout()
plt.show()
