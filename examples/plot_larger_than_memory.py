"""
Data that is larger than memory
===============================

How do I fit a table that does not fit into memory?

(Asked in `sdcMicro 265 <https://github.com/sdcTools/sdcMicro/issues/265>`_.) A plain fit reads one block of rows after the
other with `partial_fit`. A private model with a schedule does the same, with one guarantee for all blocks together. A
cluster (`tacit.cluster`) fits files in parallel, with the same result as one machine.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from tacit import PrivateNMF
from tacit.data import make_images
from tacit.measure import match_topics

# %%
# Sixteen files, of which one at a time is in memory.
folder = Path(tempfile.mkdtemp())
truth = make_images(10, side=10, n_parts=5, random_state=0).parts
for number in range(16):
    generator = np.random.default_rng(number)
    weights = generator.random((1500, 5)) * (generator.random((1500, 5)) < 0.4)
    np.save(folder / f"{number:02}.npy", weights @ truth / 3)

model = PrivateNMF(5, epsilon=1.0, delta=1e-6, row_norm=1.0, schedule=(16,))  # each row is in one file
similarities = []
for file in sorted(folder.glob("*.npy")):
    model.partial_fit(np.load(file))
    similarities.append(match_topics(truth, model.components_).mean_similarity)
print(f"after 16 blocks: similarity to the true parts {similarities[-1]:.3f}")
print(model.guarantee_)

figure, axis = plt.subplots(figsize=(6.4, 3.4))
axis.plot(range(1, 17), similarities, marker="o")
axis.set(xlabel="blocks of 1,500 rows seen", ylabel="similarity to the true parts", ylim=(0, 1.02))
figure.tight_layout()
plt.show()
