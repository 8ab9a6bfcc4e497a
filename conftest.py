"""Settings of all test processes, and of the processes that tests start."""

import os
from importlib.util import find_spec

# the modules of tacit[app] cannot be imported without its packages
collect_ignore = [] if find_spec("starlette") and find_spec("uvicorn") else ["src/tacit/app"]
# how the documentation is built, and what the build leaves
collect_ignore += ["docs/conf.py", "docs/api_pages.py", "docs/mathml.py", "docs/_build", "docs/api", "docs/gallery"]

# Two test processes on two cores with two BLAS threads each spend most of their time waiting for each other: products as small
# as those of the tests take three times the processor time. This must be set before NumPy or PyTorch are imported.
for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(threads, "1")
