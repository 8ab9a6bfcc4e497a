"""
Several fits of the same people
===============================

Epsilons do not simply add up. The ledger composes the releases themselves, so more fits are possible than a sum suggests.
"""

import matplotlib.pyplot as plt

from tacit.privacy import GaussianRelease, Guarantee, gaussian_noise_multiplier

delta = 1e-6
noise = gaussian_noise_multiplier(0.5, delta)  # one fit of epsilon 0.5
fits = range(1, 25)
composed = [
    Guarantee.from_releases([GaussianRelease(noise_multiplier=noise, count=number)], delta=delta).epsilon
    for number in fits
]
added = [0.5 * number for number in fits]
budget = 3.0
print(f"a budget of epsilon {budget:g}: {sum(value <= budget for value in added)} fits by adding epsilons, ", end="")
print(f"{sum(value <= budget for value in composed)} fits by exact composition")

figure, axis = plt.subplots(figsize=(6.4, 3.6))
axis.plot(fits, composed, marker=".", label="exact composition (what tacit charges)")
axis.plot(fits, added, linestyle="--", label="epsilons added up")
axis.axhline(budget, color="0.4", linewidth=0.8, label="budget")
axis.set(xlabel="fits of epsilon 0.5 each", ylabel="epsilon of all together", ylim=(0, 8))
axis.legend(frameon=False)
figure.tight_layout()
plt.show()
