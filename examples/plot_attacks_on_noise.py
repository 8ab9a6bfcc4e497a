"""
Why added noise is not privacy
==============================

Noise hides single values. Where columns go together, an attacker filters most of it out again.
"""

import matplotlib.pyplot as plt
import numpy as np

from tacit.measure.attacks import record_linkage, spectral_filtering

generator = np.random.default_rng(0)
n, columns = 1000, 10
independent = generator.normal(size=(n, columns))
correlated = generator.normal(size=(n, 2)) @ generator.normal(size=(2, columns)) + 0.1 * generator.normal(
    size=(n, columns)
)
correlated /= correlated.std(axis=0)

levels = (0.2, 0.5, 1.0, 2.0)
recovered = {"two factors": [], "independent columns": []}
linked = []
for level in levels:
    for name, table in (("two factors", correlated), ("independent columns", independent)):
        noisy = table + level * generator.normal(size=table.shape)
        found = spectral_filtering(table, noisy, noise_variance=level**2)
        recovered[name].append(found.recovered)
    linked.append(record_linkage(correlated, correlated + level * generator.normal(size=correlated.shape)).recovered)
    print(
        f"noise {level:g}: {recovered['two factors'][-1]:.0%} of the variance recovered, {linked[-1]:.0%} of rows linked"
    )

figure, (first, second) = plt.subplots(1, 2, figsize=(8.8, 3.4))
for name, values in recovered.items():
    first.plot(levels, values, marker="o", label=name)
first.set(xlabel="noise, in standard deviations", ylabel="variance recovered by filtering")
first.legend(frameon=False)
second.plot(levels, linked, marker="o")
second.set(xlabel="noise, in standard deviations", ylabel="rows linked to their owner", ylim=(0, 1.02))
figure.tight_layout()
plt.show()
