"""
Parts of contaminated images
============================

A tenth of the images is damaged. With ``outliers=`` the damage goes into a sparse term of its own.
"""

import matplotlib.pyplot as plt
import numpy as np

from tacit import NMF
from tacit.data import contaminate, make_images

made = make_images(800, side=12, n_parts=6, random_state=1)
damaged = contaminate(made.images, rows=0.1, entries=0.7, random_state=0)
dirty = damaged.X if hasattr(damaged, "X") else damaged.values
plain = NMF(6, random_state=0).fit(dirty)
robust = NMF(6, outliers=0.15, random_state=0).fit(dirty)

rows = np.flatnonzero((dirty != made.images).any(axis=1))
shown = {"clean": made.images, "damaged": dirty}
for name, model in (("plain", plain), ("robust", robust)):
    shown[name] = model.transform(dirty) @ model.components_
    error = np.linalg.norm(shown[name][rows] - made.images[rows]) / np.linalg.norm(made.images[rows])
    print(f"{name}: relative error on the damaged images {error:.3f}")

figure, axes = plt.subplots(4, 6, figsize=(6.4, 4.4))
for line, (name, images) in zip(axes, shown.items(), strict=True):
    for axis, row in zip(line, rows, strict=False):
        axis.imshow(images[row].reshape(made.shape), cmap="viridis", vmin=0, vmax=made.images.max())
        axis.set(xticks=[], yticks=[])
    line[0].set_ylabel(name, rotation=0, ha="right", va="center")
figure.tight_layout()
plt.show()
