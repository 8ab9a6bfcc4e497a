"""
What published formulas cost
============================

Formulas of four papers for the noise of one target, and the epsilon that this noise really has.
"""

import matplotlib.pyplot as plt

from tacit.privacy.published import compare_published

found = compare_published(0.5, 1e-4, steps=2000, sampling_rate=0.01)
names = [one.method for one in found]
for one in found:
    print(f"{one.method}: noise {one.noise_multiplier:.4g}, real epsilon {one.real_epsilon:.4g}")

figure, (first, second) = plt.subplots(1, 2, figsize=(9.6, 3.8), sharey=True)
first.barh(names, [one.noise_multiplier for one in found])
first.set(xscale="log", xlabel="noise multiplier")
second.barh(names, [one.real_epsilon for one in found], color="C1")
second.axvline(0.5, color="0.3", linewidth=0.8)
second.set(xscale="log", xlabel="epsilon that the noise has; asked was 0.5")
first.invert_yaxis()
figure.tight_layout()
plt.show()
