"""
What a second table adds
========================

Links between users, places and activities are hidden at random, or all links of new places are hidden. They are predicted
with and without a second table that describes the places.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import roc_auc_score

from tacit import AllBut, CoupledFactorization, Relation
from tacit.data import make_coupled

CP = "ir,jr,kr->ijk"
FRACTIONS = (0.6, 0.8, 0.95)
data = make_coupled(60, 40, 5, mean_count=0.3, mean_feature=8.0, concentration=0.3, random_state=1)
features = Relation(data.features, "jr,fr->jf", ("place", "feature"), name="features", dispersion=3.0)
links = (data.tensor > 0) * 1.0


def area(relation, hidden, *others):
    """Return how well the hidden links are told from cells without one."""
    model = CoupledFactorization({"r": 3}, inference="vb", max_iter=40, tol=1e-5).fit([relation, *others])
    return roc_auc_score(links[hidden], model.predict("links")[hidden])


alone, coupled = [], []
for fraction in FRACTIONS:
    known = np.random.default_rng(0).random(links.shape) >= fraction
    relation = Relation(links, CP, ("user", "place", "activity"), observed=known, name="links")
    alone.append(area(relation, ~known))
    coupled.append(area(relation, ~known, features))
    print(f"{fraction:.0%} hidden: AUC {alone[-1]:.3f} alone, {coupled[-1]:.3f} with the features of places")

# %%
# New places, of which no link is known. Alone, the model knows nothing of them and says so in a warning.
new = np.arange(20)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    unseen = Relation(links, CP, ("user", "place", "activity"), observed=AllBut(slices={1: new}), name="links")
    hidden = np.zeros(links.shape, bool)
    hidden[:, new] = True
    fresh = area(unseen, hidden), area(unseen, hidden, features)
print(f"20 new places: {fresh[0]:.3f} alone, {fresh[1]:.3f} with their features")

figure, axis = plt.subplots(figsize=(6.8, 3.8))
axis.plot(FRACTIONS, alone, marker="o", color="C1", label="links alone")
axis.plot(FRACTIONS, coupled, marker="o", color="C0", label="coupled with the features of places")
axis.axhline(fresh[0], color="C1", linestyle=":", label="20 new places, alone")
axis.axhline(fresh[1], color="C0", linestyle=":", label="20 new places, coupled")
axis.set(xlabel="fraction of the cells hidden", ylabel="area under the ROC curve")
axis.legend(frameon=False)
figure.tight_layout()
plt.show()
