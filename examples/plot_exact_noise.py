"""
Noise with exactly the stated distribution
==========================================

Noise is drawn as integers, by comparing random bits with probabilities. No rounding error decides a draw.
"""

import matplotlib.pyplot as plt
import numpy as np

from tacit.privacy import discrete_gaussian, discrete_laplace
from tacit.privacy.noise import discrete_gaussian_pmf, discrete_laplace_pmf

values = np.arange(-12, 13)
figure, axes = plt.subplots(1, 2, figsize=(8.8, 3.4))
laws = (
    ("discrete Gaussian", discrete_gaussian, discrete_gaussian_pmf),
    ("discrete Laplace", discrete_laplace, discrete_laplace_pmf),
)
for axis, (name, draw, pmf) in zip(axes, laws, strict=True):
    drawn = draw(3.0, 200_000)
    observed = np.array([(drawn == value).mean() for value in values])
    exact = np.array([float(pmf(int(value), 3.0)) for value in values])
    print(f"{name}, width 3: largest difference of frequency and probability {np.abs(observed - exact).max():.4f}")
    axis.bar(values, observed, 0.8, color="C0", alpha=0.6, label="200,000 draws")
    axis.plot(values, exact, "k.", label="probability")
    axis.set(title=name, xlabel="noise")
    axis.legend(frameon=False)
figure.tight_layout()
plt.show()
