"""
A recommender with side features
================================

Can a recommender use what is known of the items, such as their genre?

(Asked in `implicit 55 <https://github.com/benfred/implicit/issues/55>`_.) Public features of items are used at no cost in
privacy. They matter most where epsilon is small.
"""

import matplotlib.pyplot as plt
import numpy as np

from tacit import PrivateImplicitRecommender

# %%
# 4,000 users who mostly click on items of two of eight genres.
generator = np.random.default_rng(0)
n_users, n_items, n_genres = 4000, 200, 8
genre = np.arange(n_items) % n_genres
appeal = generator.gamma(1.0, size=n_items)
liked = np.array([generator.choice(n_genres, 2, replace=False) for _ in range(n_users)])
weights = appeal * np.where((genre[None, :, None] == liked[:, None, :]).any(axis=2), 6.0, 1.0)
scores = np.log(weights) + generator.gumbel(size=weights.shape)
history = np.argsort(-scores, axis=1)[:, :12]
users, items = np.repeat(np.arange(n_users), 12), history.ravel()
features = np.eye(n_genres)[genre]  # public: one row per item of the catalogue

fitted = users < 3600
epsilons = (0.3, 1.0, 3.0, 10.0)
recall = {"with genres": [], "without": []}
for epsilon in epsilons:
    for name, known in (("with genres", features), ("without", None)):
        model = PrivateImplicitRecommender(epsilon=epsilon, delta=1e-5, catalogue=range(n_items), features=known)
        model.fit(users[fitted], items[fitted])
        found = model.evaluate_new_users(users[~fitted], items[~fitted], k=20)
        recall[name].append(found.recall)
    print(
        f"epsilon {epsilon:g}: recall at 20 {recall['with genres'][-1]:.3f} with, {recall['without'][-1]:.3f} without"
    )

figure, axis = plt.subplots(figsize=(6.4, 3.6))
for (name, values), marker in zip(recall.items(), "os", strict=True):
    axis.semilogx(epsilons, values, marker=marker, label=name)
axis.set(xlabel="epsilon (smaller is more private)", ylabel="recall at 20, users not in the fit")
axis.legend(frameon=False)
figure.tight_layout()
plt.show()
