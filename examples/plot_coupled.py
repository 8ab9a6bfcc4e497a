"""What a second table adds: links hidden at random, and users that are new, predicted with and without it."""

import warnings
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.metrics import roc_auc_score

from tacit import AllBut, CoupledFactorization, Relation
from tacit.data import make_coupled

CP = "ir,jr,kr->ijk"
SHARES = (0.6, 0.8, 0.9, 0.95)
data = make_coupled(90, 60, 5, mean_count=0.3, mean_feature=8.0, concentration=0.3, random_state=1)
features = Relation(data.features, "jr,fr->jf", ("place", "feature"), name="features", dispersion=3.0)
links = (data.tensor > 0) * 1.0


def area(relation, hidden, *others):
    """Return how well the hidden links are told from cells without one."""
    model = CoupledFactorization({"r": 3}, inference="vb", max_iter=80, tol=1e-5).fit([relation, *others])
    return roc_auc_score(links[hidden], model.predict("links")[hidden])


alone, coupled = [], []
for share in SHARES:
    known = np.random.default_rng(0).random(links.shape) >= share
    relation = Relation(links, CP, ("user", "place", "activity"), observed=known, name="links")
    alone.append(area(relation, ~known))
    coupled.append(area(relation, ~known, features))
    print(f"{share:.0%} of the cells hidden: AUC {alone[-1]:.3f} alone, {coupled[-1]:.3f} with the places' features")

new = np.arange(30)  # places that nobody has been to yet
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # alone, nothing is known of them: that is said, and is the point
    unseen = Relation(links, CP, ("user", "place", "activity"), observed=AllBut(slices={1: new}), name="links")
    hidden = np.zeros(links.shape, bool)
    hidden[:, new] = True
    fresh = area(unseen, hidden), area(unseen, hidden, features)
print(f"30 new places: {fresh[0]:.3f} alone, {fresh[1]:.3f} with their features")
print("There is no noise here, so epsilon is infinite: no guarantee.")

figure = Figure(figsize=(6.4, 3.8))
axis = figure.subplots()
axis.plot(SHARES, alone, marker="o", color="#b5651d", label="links alone")
axis.plot(SHARES, coupled, marker="o", color="#1f6f8b", label="coupled with the places' features")
axis.axhline(fresh[0], color="#b5651d", linestyle=":", label="30 new places, alone")
axis.axhline(fresh[1], color="#1f6f8b", linestyle=":", label="30 new places, coupled")
axis.set_xlabel("share of the cells hidden")
axis.set_ylabel("area under the ROC curve")
axis.legend(frameon=False)
axis.spines[["top", "right"]].set_visible(False)
figure.savefig(Path("coupled.png"), bbox_inches="tight", dpi=110)
