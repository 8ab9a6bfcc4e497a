"""
Private PCA when the number of rows is secret
=============================================

Can principal components be private if the number of rows must not be told?

(Asked in `opendp 2571 <https://github.com/opendp/opendp/issues/2571>`_.) `PrivatePCA` releases a noisy number of rows with
the mean, under the same budget. Public bounds of the columns are all it has to know.
"""

import matplotlib.pyplot as plt
import numpy as np

from tacit import PCA, PrivatePCA

generator = np.random.default_rng(0)
n = 5000  # never given to the model
direction = np.array([[1.0, 0.8, 0.5, 0.0, 0.0, 0.0], [0.0, 0.0, 0.4, 1.0, 0.7, 0.0]])
X = np.clip(0.5 + generator.normal(size=(n, 2)) @ direction * [0.12] + 0.05 * generator.normal(size=(n, 6)), 0, 1)

plain = PCA(2, hide_singular_values=False).fit(X)
epsilons = (0.1, 0.3, 1.0, 3.0, 10.0)
angles = []
for epsilon in epsilons:
    model = PrivatePCA(2, epsilon=epsilon, delta=1e-6, feature_range=(0.0, 1.0)).fit(X)
    cosines = np.linalg.svd(plain.components_ @ model.components_.T, compute_uv=False)
    angles.append(np.degrees(np.arccos(np.clip(cosines.min(), -1, 1))))
    print(f"epsilon {epsilon:g}: angle to the components without privacy {angles[-1]:.1f} degrees")
print(model.guarantee_)

figure, (first, second) = plt.subplots(1, 2, figsize=(8.8, 3.6))
first.semilogx(epsilons, angles, marker="o")
first.set(xlabel="epsilon (smaller is more private)", ylabel="largest angle, degrees", ylim=(0, None))
width = np.arange(6)
signs = np.sign((plain.components_ * model.components_).sum(axis=1))
second.bar(width - 0.2, plain.components_[0], 0.4, label="without privacy")
second.bar(width + 0.2, signs[0] * model.components_[0], 0.4, label="private, epsilon 10")
second.set(xlabel="column", ylabel="first component")
second.legend(frameon=False)
figure.tight_layout()
plt.show()
