"""
An audit: what attacks show, beside what is claimed
===================================================

A guarantee is an upper bound on what anyone can learn. An attack gives a lower bound, which one can see. `audit` returns both.
"""

import matplotlib.pyplot as plt
import numpy as np

from tacit import PrivateMoments
from tacit.audit import audit

X = np.random.default_rng(0).dirichlet(np.ones(5), size=300)
epsilons = (0.5, 1.0, 2.0, 4.0)
bounds = []
for epsilon in epsilons:
    found = audit(PrivateMoments(epsilon=epsilon, delta=1e-5), X, runs=150, seconds=3, bugs=False, made_up=True)
    bounds.append(max((one.epsilon or 0.0) for one in found.findings))
    print(f"claimed {epsilon:g}, shown by attacks: at least {bounds[-1]:.2f}")
print(found.verdict)

figure, axis = plt.subplots(figsize=(6.0, 3.8))
axis.plot(epsilons, epsilons, color="0.5", linestyle="--", label="claim: no attack exceeds this")
axis.plot(epsilons, bounds, marker="o", label="shown by attacks, with 95% confidence")
axis.set(xlabel="epsilon that is claimed", ylabel="epsilon", ylim=(0, None))
axis.legend(frameon=False)
figure.tight_layout()
plt.show()
