"""
Several hospitals, one model
============================

Three hospitals fit one model. Each is a process of its own, with real connections; only masked sums leave it.
"""

import matplotlib.pyplot as plt
import numpy as np

from tacit import NMF
from tacit.data import make_images
from tacit.measure import held_out_error
from tacit.parties import run_local

if __name__ == "__main__":  # the hospitals are processes of their own
    made = make_images(1300, side=9, n_parts=6, random_state=2)
    train, test = made.images[:900], made.images[900:]
    sizes = {"small hospital": 8, "middle hospital": 30, "large hospital": 862}
    parts = np.split(train, np.cumsum(list(sizes.values()))[:-1])

    start = np.random.default_rng(0).random((6, train.shape[1]))
    settings = {"init": start, "max_iter": 30}
    joint = run_local(NMF(6, **settings), parts)[0]
    pooled = NMF(6, **settings).fit(train)
    away = np.abs(joint.components_ - pooled.components_).max()
    print(f"largest difference to a fit of all rows in one place: {away:.1e}")

    alone = [held_out_error(test, NMF(6, **settings).fit(part).components_) for part in parts]
    together = held_out_error(test, joint.components_)
    print(f"error on other patients: {', '.join(f'{value:.4f}' for value in alone)} alone, {together:.4f} together")

    figure, axis = plt.subplots(figsize=(6.4, 3.4))
    axis.bar([f"{name}\n{size} rows" for name, size in sizes.items()], alone, 0.5, label="own rows alone")
    axis.axhline(together, color="C1", label="fitted together")
    axis.set_ylabel("error on other patients")
    axis.legend(frameon=False)
    figure.tight_layout()
    plt.show()
