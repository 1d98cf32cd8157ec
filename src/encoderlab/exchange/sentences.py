"""How a folder of sentence-transformers makes the vector of a text: 1_Pooling/config.json says how it pools the vectors
of its tokens, and modules.json whether the result has length 1.
"""

import json
from pathlib import Path

from encoderlab.errors import DataError
from encoderlab.exchange.weights import LARGEST_JSON, read_config
from encoderlab.model.config import Pooling

FOLDER = "1_Pooling"
MODULES = "modules.json"
NORMALIZE = ".Normalize"  # how the name of the class ends, whose module has moved between versions
# Since version 6 there is one key with a name, before there was one key for each kind.
KEY, PREFIX = "pooling_mode", "pooling_mode_"
KNOWN = {
    "cls": Pooling.cls,
    "cls_token": Pooling.cls,
    "mean": Pooling.mean,
    "mean_tokens": Pooling.mean,
    "max": Pooling.max,
    "max_tokens": Pooling.max,
}


def sentence_pooling(folder: Path) -> Pooling | None:
    """Return how sentence vectors are pooled; None if the folder does not say. Raises DataError for another way."""
    if not (folder / FOLDER / "config.json").is_file():
        return None
    fields = read_config(folder / FOLDER)
    names = [str(fields[KEY])] if fields.get(KEY) else []
    if not names:
        names = [key.removeprefix(PREFIX) for key, value in fields.items() if key.startswith(PREFIX) and value is True]
    if not names:
        return None
    if len(names) > 1 or names[0] not in KNOWN:
        raise DataError(f"{folder / FOLDER} pools tokens by {', '.join(names)[:80]}", allowed="cls, mean or max")
    return KNOWN[names[0]]


def normalizes(folder: Path) -> bool:
    """Return whether the folder's vectors have length 1. Raises DataError if modules.json is damaged."""
    path = folder / MODULES
    if not path.is_file():
        return False
    try:
        if path.stat().st_size > LARGEST_JSON:
            raise ValueError("it is too large")
        modules = json.loads(path.read_text(encoding="utf-8"))
        return any(str(module["type"]).endswith(NORMALIZE) for module in modules)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise DataError(f"{path} is damaged", allowed="a list of modules with types") from None
