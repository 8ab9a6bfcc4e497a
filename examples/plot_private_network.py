"""
Handwritten digits by a private network
=======================================

What privacy costs in accuracy, and how sure the network may be. Needs ``pip install 'tacit[neural]'``.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

from tacit.data.split import held_out_rows
from tacit.neural import PrivateBayesianClassifier, expected_calibration_error

X, y = load_digits(return_X_y=True)
test = held_out_rows(X, y, fraction=0.2)  # decided for each row by itself, so the split costs no privacy
train = ~test
settings = {"hidden": (), "delta": 1e-4, "feature_range": (0, 16), "classes": range(10), "sampling_rate": 0.2}

plain = PrivateBayesianClassifier(epsilon=float("inf"), **settings).fit(X[train], y[train])
epsilons = (0.5, 1.0, 3.0, 10.0)
scores, gaps = [], []
for epsilon in epsilons:
    model = PrivateBayesianClassifier(epsilon=epsilon, **settings).fit(X[train], y[train])
    scores.append(model.score(X[test], y[test]))
    gaps.append(expected_calibration_error(model.predict_proba(X[test]), y[test]))
    print(f"epsilon {epsilon:g}: accuracy {scores[-1]:.3f}, calibration error {gaps[-1]:.3f}")
print(model.guarantee_)

figure, (first, second) = plt.subplots(1, 2, figsize=(8.4, 3.4))
first.semilogx(epsilons, scores, marker="o", label="private")
first.axhline(plain.score(X[test], y[test]), linestyle="--", color="0.3", label="without privacy")
first.set(xlabel="epsilon", ylabel="accuracy on other digits")
first.legend(frameon=False)
second.semilogx(epsilons, gaps, marker="o")
second.set(xlabel="epsilon", ylabel="expected calibration error", ylim=(0, None))
figure.tight_layout()
plt.show()
