"""The memory of a party's process."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
import numpy as np
from tacit.parties.memory import keep_freed_memory
if sys.argv[1] == "keep" and not keep_freed_memory():
    sys.exit("no such setting")
faults = []
for _ in range(10):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    arrays = [np.ones(2**20) for _ in range(4)]
    del arrays
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
print(sum(faults[2:]))
"""


def faults(how):
    done = subprocess.run([sys.executable, "-c", PROGRAM, how], check=False, capture_output=True, text=True)
    if "no such setting" in done.stderr:
        pytest.skip("this C library has no such setting")
    return int(done.stdout)


@pytest.mark.slow
def test_freed_memory_is_used_again():
    """The kernel clears 8,192 pages of 4 KB a round if it is given back; few are left if it is kept."""
    assert faults("keep") < 0.05 * faults("give back")
