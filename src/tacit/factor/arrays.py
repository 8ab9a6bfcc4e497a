"""Types of arrays, for annotations."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
SomeFloats = NDArray[Any]
"""Of single or double precision: a kernel is compiled for each."""
