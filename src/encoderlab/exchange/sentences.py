"""How a folder of sentence-transformers pools the vectors of a text's tokens, which its 1_Pooling/config.json says."""

from pathlib import Path

from encoderlab.errors import DataError
from encoderlab.exchange.weights import read_config
from encoderlab.model.config import Pooling

FOLDER = "1_Pooling"
# Since version 6 there is one key with a name, before there was one key for each kind.
KEY, PREFIX = "pooling_mode", "pooling_mode_"
KNOWN = {"cls": Pooling.cls, "cls_token": Pooling.cls, "mean": Pooling.mean, "mean_tokens": Pooling.mean}


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
        raise DataError(f"{folder / FOLDER} pools tokens by {', '.join(names)[:80]}", allowed="cls or mean")
    return KNOWN[names[0]]
