"""How a party's process treats memory that it no longer needs."""

from __future__ import annotations

import ctypes

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Parameters of `mallopt`, from malloc.h of the GNU C library."""
KEPT_BYTES = 2**28
"""Free memory that the process keeps: several rounds of long sums."""
MOST_MAPPED = 2**25
"""The largest threshold that the library takes. Arrays that are shorter are put into memory that was used before."""


def keep_freed_memory() -> bool:
    """Keep freed memory for the next round, for processes that only take part in a job; return whether that can be had.

    Every round needs the same arrays as the one before. Given back and asked for again, their pages are cleared by the kernel
    each time, which took 4 to 6 of 80 ms of processor time a round (six parties, sums of 1.6 MB).
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library
        return False
    return bool(mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)) and bool(mallopt(M_MMAP_THRESHOLD, MOST_MAPPED))
