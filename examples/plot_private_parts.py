"""
Parts of images, with and without privacy
=========================================

Six parts make up all images. `NMF` finds them without privacy and `PrivateNMF` with it. The first row is the truth.
"""

import matplotlib.pyplot as plt

from tacit import NMF, PrivateNMF
from tacit.data import make_images
from tacit.measure import match_topics

data = make_images(6000, side=12, n_parts=6)  # one row per person
plain = NMF(6, random_state=0).fit(data.images)
rows = {
    "the truth": data.parts,
    "no privacy": plain.components_[match_topics(data.parts, plain.components_).permutation],
}
for epsilon in (4.0, 1.0, 0.25):
    model = PrivateNMF(6, epsilon=epsilon, delta=1e-6, row_norm=1.5).fit(data.images)
    match = match_topics(data.parts, model.components_)
    rows[f"epsilon {epsilon:g}"] = model.components_[match.permutation]
    print(f"epsilon {epsilon:g}: similarity to the true parts {match.mean_similarity:.3f}")

# %%
# The guarantee in words, as the model states it:
print(model.guarantee_)

figure, axes = plt.subplots(len(rows), 6, figsize=(6.4, 5.2))
for line, (name, images) in zip(axes, rows.items(), strict=True):
    for axis, image in zip(line, images, strict=True):
        axis.imshow(image.reshape(data.shape), cmap="viridis")
        axis.set(xticks=[], yticks=[])
    line[0].set_ylabel(name, rotation=0, ha="right", va="center")
figure.tight_layout()
plt.show()
