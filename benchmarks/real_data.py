"""Where the real data sets are: the folder in TACIT_DATA, or ../shared/data beside the project, which does not contain them."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def data_folder() -> Path:
    """Return the folder, or end the benchmark with a reason."""
    folder = Path(os.environ.get("TACIT_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
    if not folder.is_dir():
        print(f"skipped: the real data sets are not in {folder}; set TACIT_DATA")
        sys.exit(0)
    return folder
