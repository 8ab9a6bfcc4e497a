"""Guarantees: releases, accounting, exact noise, and the ledger of privacy budgets.

May be imported by all packages except `data`.
"""

from tacit.privacy.accountant import Accountant
from tacit.privacy.calibration import gaussian_epsilon, gaussian_noise_multiplier
from tacit.privacy.fingerprint import fingerprint
from tacit.privacy.guarantee import Guarantee
from tacit.privacy.ledger import Ledger
from tacit.privacy.ledger.spending import Spending
from tacit.privacy.noise import discrete_gaussian, discrete_laplace
from tacit.privacy.noise.entropy import insecure_generator, secure_generator
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
    "Ledger",
    "Release",
    "Spending",
    "discrete_gaussian",
    "discrete_laplace",
    "fingerprint",
    "gaussian_epsilon",
    "gaussian_noise_multiplier",
    "insecure_generator",
    "secure_generator",
]
