"""The trials are next to the package and are not installed: tests find them from the top of the repository."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
