import os
import sys
from pathlib import Path

# parties are started by a fork server, which must find the helpers of these tests too
os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]).strip(
    os.pathsep
)
sys.path.insert(0, str(Path(__file__).parent))
