"""The folder of the real data sets: TACIT_DATA, or ../shared/data next to the project, which does not include data."""

from __future__ import annotations

import os
from pathlib import Path

from harness import SkippedError


def data_folder() -> Path:
    """Return the folder, or skip the part."""
    folder = Path(os.environ.get("TACIT_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
    if not folder.is_dir():
        raise SkippedError(f"the real data sets are not in {folder}; set TACIT_DATA")
    return folder
