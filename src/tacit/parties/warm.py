"""Imported by the server that local parties are forked from: numba sets itself up once, and not in every party."""

import numpy as np

from tacit.factor import kernels

kernels.gram(np.ones((2, 2)))  # so little that no thread is started, which a fork would not take along
