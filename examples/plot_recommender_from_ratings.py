"""
A recommender from ratings: error against epsilon
=================================================

The held-out error of private recommenders, beside no privacy, and beside the user's own mean, which costs no privacy.
"""

import matplotlib.pyplot as plt
import numpy as np

from tacit import PrivateRecommender, Recommender
from tacit.data import make_ratings

made = make_ratings(4000, 200, ratings_per_user=40, random_state=0)
test = np.random.default_rng(0).random(len(made.ratings)) < 0.1
train = ~test


def error(model):
    predicted = model.predict(made.users[test], made.items[test])
    return float(np.sqrt(np.mean((predicted - made.ratings[test]) ** 2)))


plain = Recommender(4, rating_range=(1, 5)).fit(made.users[train], made.items[train], made.ratings[train])
epsilons = (0.3, 1.0, 3.0, 10.0, 20.0)
errors = []
for epsilon in epsilons:
    model = PrivateRecommender(4, epsilon=epsilon, delta=1e-5, rating_range=(1, 5), catalogue=range(200))
    errors.append(error(model.fit(made.users[train], made.items[train], made.ratings[train])))
    print(f"epsilon {epsilon:g}: RMSE {errors[-1]:.3f}")

sums = np.bincount(made.users[train], made.ratings[train], minlength=4000)
means = sums / np.maximum(np.bincount(made.users[train], minlength=4000), 1)
own = float(np.sqrt(np.mean((means[made.users[test]] - made.ratings[test]) ** 2)))
print(f"without privacy {error(plain):.3f}, a user's own mean {own:.3f}")

figure, axis = plt.subplots(figsize=(6.4, 3.6))
axis.semilogx(epsilons, errors, marker="o", label="private, unit user")
axis.axhline(error(plain), linestyle="--", color="C1", label="without privacy")
axis.axhline(own, linestyle=":", color="0.4", label="a user's own mean")
axis.set(xlabel="epsilon (smaller is more private)", ylabel="held-out RMSE")
axis.legend(frameon=False)
figure.tight_layout()
plt.show()
