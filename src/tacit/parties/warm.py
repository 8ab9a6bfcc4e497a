"""Imported by the server that local parties are forked from: what numba compiled is loaded once, and not in every party."""

import numpy as np
from scipy.sparse import csr_array

from tacit.factor import NMF

# so little that no thread is started, which a fork would not take along
NMF(1, init="random", max_iter=4, tol=0).fit(csr_array(np.array([[1.0, 2.0], [3.0, 1.0], [0.0, 1.0]])))
