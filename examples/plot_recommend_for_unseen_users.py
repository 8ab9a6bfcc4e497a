"""
Recommendations for users who were not in the fit
=================================================

How do I recommend to a new user without fitting the model again?

(Asked in `implicit 658 <https://github.com/benfred/implicit/issues/658>`_ and
`lenskit 147 <https://github.com/lenskit/lkpy/issues/147>`_.) A model of tacit holds items only. `recommend_for` computes a
list from any history, where that history is; `PrivateRecommender` and the models of clicks have it too.
"""

import matplotlib.pyplot as plt
import numpy as np

from tacit import Recommender
from tacit.data import make_ratings

made = make_ratings(2000, 150, ratings_per_user=40, random_state=1)
fitted = made.users < 1800
model = Recommender(4, rating_range=(1, 5))
model.fit(made.users[fitted], made.items[fitted], made.ratings[fitted])

# %%
# A user who was not in the fit, with four ratings:
own = made.users == 1900
items, ratings = made.items[own], made.ratings[own]
print(model.recommend_for(items[:4], ratings[:4], n=5))

# %%
# The more ratings a new user gives, the better the list: mean true score of ten recommended items.
truth = made.global_mean + made.user_biases[:, None] + made.item_biases + made.user_factors @ made.item_factors.T
given = (1, 3, 10, 30)
means, generator = [], np.random.default_rng(0)
for number in given:
    total = []
    for user in range(1800, 1900):
        own = generator.permutation(np.flatnonzero(made.users == user))[:number]
        listed = [item for item, _ in model.recommend_for(made.items[own], made.ratings[own], n=10, exclude_seen=False)]
        total.append(truth[user, listed].mean() - truth[user].mean())
    means.append(np.mean(total))
    print(f"{number} ratings given: the list is {means[-1]:.2f} above the user's mean item")

figure, axis = plt.subplots(figsize=(6.0, 3.4))
axis.semilogx(given, means, marker="o")
axis.set_xticks(given, [str(number) for number in given])
axis.set(xlabel="ratings that a new user gives", ylabel="true score above the mean item")
figure.tight_layout()
plt.show()
