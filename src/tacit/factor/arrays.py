"""Types of arrays, for annotations."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
SomeFloats = NDArray[np.floating]
"""Of single or double precision: a kernel is compiled for each."""
Precision = TypeVar("Precision", bound=np.floating)
"""Of arrays that are of the same precision."""
