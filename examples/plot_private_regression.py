"""
Private regression on principal components
==========================================

Predictions of a target within public bounds, by epsilon, beside no privacy and beside the mean.
"""

import matplotlib.pyplot as plt
import numpy as np

from tacit import PrincipalComponentRegression, PrivatePCR

generator = np.random.default_rng(0)
n, d = 6000, 20
scores = generator.normal(size=(n, 3))
X = np.clip(0.5 + 0.1 * (scores @ generator.normal(size=(3, d)) + 0.5 * generator.normal(size=(n, d))), 0, 1)
y = np.clip(50 + 12 * scores[:, 0] - 8 * scores[:, 1] + 4 * generator.normal(size=n), 0, 100)
train, test = slice(0, 5000), slice(5000, n)


def error(predicted):
    return float(np.sqrt(np.mean((predicted - y[test]) ** 2)))


plain = error(PrincipalComponentRegression(3).fit(X[train], y[train]).predict(X[test]))
epsilons = (0.1, 0.3, 1.0, 3.0, 10.0)
errors = []
for epsilon in epsilons:
    model = PrivatePCR(3, epsilon=epsilon, delta=1e-6, feature_range=(0.0, 1.0), target_range=(0, 100))
    errors.append(error(model.fit(X[train], y[train]).predict(X[test])))
    print(f"epsilon {epsilon:g}: RMSE {errors[-1]:.2f}")
print(f"without privacy {plain:.2f}, the mean alone {error(y[train].mean()):.2f}")

figure, axis = plt.subplots(figsize=(6.4, 3.6))
axis.semilogx(epsilons, errors, marker="o", label="private")
axis.axhline(plain, linestyle="--", color="C1", label="without privacy")
axis.axhline(error(y[train].mean()), linestyle=":", color="0.4", label="the mean")
axis.set(xlabel="epsilon (smaller is more private)", ylabel="held-out RMSE", ylim=(0, None))
axis.legend(frameon=False)
figure.tight_layout()
plt.show()
