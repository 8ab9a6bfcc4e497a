"""
Lists from clicks: recall against epsilon
=========================================

Which items does a user click next? Measured on users who were not in the fit, beside the most popular items.
"""

import matplotlib.pyplot as plt
import numpy as np

from tacit import ImplicitRecommender, PrivateImplicitRecommender

# %%
# 5,000 users with two of eight tastes each, and 15 clicks.
generator = np.random.default_rng(0)
n_users, n_items = 5000, 150
taste = generator.gamma(0.3, size=(8, n_items))
chosen = np.array([generator.choice(8, 2, replace=False) for _ in range(n_users)])
appeal = taste[chosen].sum(axis=1) + 0.05
clicked = np.argsort(-(np.log(appeal) + generator.gumbel(size=appeal.shape)), axis=1)[:, :15]
users, items = np.repeat(np.arange(n_users), 15), clicked.ravel()
new = users >= 4500

plain = ImplicitRecommender(catalogue=range(150)).fit(users[~new], items[~new])
reference = plain.evaluate_new_users(users[new], items[new], k=10)
epsilons = (0.3, 1.0, 3.0, 10.0, 20.0)
recalls = []
for epsilon in epsilons:
    model = PrivateImplicitRecommender(epsilon=epsilon, delta=1e-5, catalogue=range(150))
    model.fit(users[~new], items[~new])
    recalls.append(model.evaluate_new_users(users[new], items[new], k=10).recall)
    print(f"epsilon {epsilon:g}: recall at 10 {recalls[-1]:.3f}")
print(f"without privacy {reference.recall:.3f}")

figure, axis = plt.subplots(figsize=(6.4, 3.6))
axis.semilogx(epsilons, recalls, marker="o", label="private, unit user")
axis.axhline(reference.recall, linestyle="--", color="C1", label="without privacy")
axis.set(xlabel="epsilon (smaller is more private)", ylabel="recall at 10, users not in the fit")
axis.legend(frameon=False)
figure.tight_layout()
plt.show()
