"""
Ways of releasing one table
===========================

What an analyst keeps against what an attacker recovers, for perturbed tables and for a synthetic one with a guarantee.
"""

import matplotlib.pyplot as plt
import numpy as np

from tacit.data import NumberColumn
from tacit.perturb import compare_releases

# %%
# Patients: age, pressure, weight and dose go together; who falls ill depends on the first two.
generator = np.random.default_rng(0)
n = 1000
age = generator.normal(50, 15, n).clip(18, 95)
pressure = 90 + 0.6 * age + generator.normal(0, 8, n)
weight = 60 + 0.2 * pressure + generator.normal(0, 6, n)
dose = 0.5 * weight + generator.normal(0, 3, n)
ill = (0.08 * (age - 50) + 0.1 * (pressure - 120) + generator.logistic(size=n) > 0).astype(int)
table = np.column_stack([age, pressure, weight, dose])
schema = {  # public: known without the data
    "age": NumberColumn(0, 120),
    "pressure": NumberColumn(50, 250),
    "weight": NumberColumn(30, 200),
    "dose": NumberColumn(0, 100),
}

found = compare_releases(
    table,
    ill,
    methods=["normal-noise", "truncated-svd", "compressed-nmf", "private-table"],
    distortions=[0.05, 0.15],
    epsilons=[1, 3],
    schema=schema,
    names=list(schema),
)
lines = {}
for release in found:
    if release.utility is None or release.leak is None:
        print(f"{release.method}, {release.setting}: {release.note}")
        continue
    print(f"{release.method}, {release.setting}: AUC {release.utility:.3f}, an attacker gains {release.leak:.3f}")
    lines.setdefault(release.method, []).append((release.leak, release.utility))

figure, axis = plt.subplots(figsize=(6.4, 4.0))
for (method, points), marker in zip(lines.items(), "osv^D", strict=False):
    axis.plot(*zip(*points, strict=True), marker=marker, linestyle="-", label=method)
axis.set(xlabel="largest gain of six attacks", ylabel="AUC of classifiers on real rows")
axis.legend(frameon=False)
figure.tight_layout()
plt.show()
