"""Private Bayesian networks: the privacy noise also serves as the noise of a posterior sampler and as weight dropout.

Needs ``tacit[neural]``. May be imported by `parties`, `cluster`, `report`, `reproduce`, `audit`, `app` and `cli`.
"""

from tacit.neural.requirement import require_torch

require_torch()

from tacit.neural.calibration import expected_calibration_error, reliability  # noqa: E402
from tacit.neural.classifier import PrivateBayesianClassifier  # noqa: E402
from tacit.neural.dropout import dropout_rates, summarise_rates  # noqa: E402
from tacit.neural.program import DivergedError  # noqa: E402
from tacit.neural.published import compare_thesis  # noqa: E402
from tacit.neural.regressor import PrivateBayesianRegressor  # noqa: E402
from tacit.neural.wavelets import scattering  # noqa: E402

__all__ = [
    "DivergedError",
    "PrivateBayesianClassifier",
    "PrivateBayesianRegressor",
    "compare_thesis",
    "dropout_rates",
    "expected_calibration_error",
    "reliability",
    "scattering",
    "summarise_rates",
]
