"""Settings of all test processes, and of the processes that tests start."""

import os

# Two test processes on two cores with two BLAS threads each spend most of their time waiting for each other: products as small
# as those of the tests take three times the processor time. This must be set before NumPy or PyTorch are imported.
for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(threads, "1")
