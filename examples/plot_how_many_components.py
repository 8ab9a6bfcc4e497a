"""
How many components?
====================

`choose_rank` chooses among candidates, with the choice paid for out of the same budget.
"""

import matplotlib.pyplot as plt

from tacit import choose_rank
from tacit.data import make_images

X = make_images(4000, side=10, n_parts=6, random_state=0).images
candidates = (2, 4, 6, 8, 10)
plain = choose_rank(X, candidates, row_norm=1.5)
private = choose_rank(X, candidates, epsilon=2.0, delta=1e-6, row_norm=1.5)
print(f"six parts make up the images; chosen without privacy: {plain.rank}, with epsilon 2: {private.rank}")
print(private.model.guarantee_)

figure, axis = plt.subplots(figsize=(6.0, 3.4))
axis.plot(list(plain.scores), list(plain.scores.values()), marker="o")
axis.axvline(private.rank, color="C1", linestyle="--", label="chosen with epsilon 2")
axis.set(xlabel="components", ylabel="score without privacy")
axis.legend(frameon=False)
figure.tight_layout()
plt.show()
