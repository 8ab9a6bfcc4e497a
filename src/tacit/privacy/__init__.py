"""What a guarantee is, how it is computed, what noise earns it, and who has spent how much."""

from tacit.privacy.accountant import Accountant
from tacit.privacy.calibration import gaussian_epsilon, gaussian_noise_multiplier
from tacit.privacy.guarantee import Guarantee
from tacit.privacy.releases import (
    ApproximateRelease,
    ExponentialRelease,
    GaussianRelease,
    GeometricRelease,
    LaplaceRelease,
    Release,
)

__all__ = [
    "Accountant",
    "ApproximateRelease",
    "ExponentialRelease",
    "GaussianRelease",
    "GeometricRelease",
    "Guarantee",
    "LaplaceRelease",
    "Release",
    "gaussian_epsilon",
    "gaussian_noise_multiplier",
]
