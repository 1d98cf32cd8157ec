"""What a folder of sentence-transformers says, beside its config.json, of how the vector of a text is made.

1_Pooling/config.json says how the vectors of its tokens are pooled, and modules.json whether the result has length 1.
"""

from pathlib import Path
from typing import Any

from encoderlab.errors import DataError
from encoderlab.exchange.weights import LARGEST_JSON, read_config
from encoderlab.network.config import Pooling
from encoderlab.system.records import json_of

FOLDER = "1_Pooling"
MODULES = "modules.json"
NORMALIZE = "Normalize"  # the class, whose module has moved between versions
SENTENCE_CONFIG = "config_sentence_transformers.json"
# Since version 6 there is one key with a name, before there was one key for each kind.
KEY = "pooling_mode"
PREFIX = "pooling_mode_"
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
    return NORMALIZE in _modules(folder)


def modules_left_out(folder: Path) -> list[str]:
    """Return what follows the pooling in a folder and is not read, such as Dense. Raises DataError as `normalizes`."""
    return [name for name in _modules(folder) if name not in ("Transformer", "Pooling", NORMALIZE)]


def default_prompt(folder: Path) -> str:
    """Return what sentence-transformers puts before each text unless it is told otherwise; "" if nothing."""
    if not (folder / SENTENCE_CONFIG).is_file():
        return ""
    fields = read_config(folder, SENTENCE_CONFIG)
    prompts = fields.get("prompts")
    prompt = prompts.get(fields.get("default_prompt_name")) if isinstance(prompts, dict) else None
    return prompt if isinstance(prompt, str) else ""


def _modules(folder: Path) -> list[str]:
    """Return the classes of a folder's modules, without their packages; none if it does not state them.

    Raises DataError if modules.json is damaged.
    """
    path = folder / MODULES
    if not path.is_file():
        return []
    try:
        if path.stat().st_size > LARGEST_JSON:
            raise ValueError("it is too large")
        modules = json_of(path.read_text(encoding="utf-8"))
        return [str(module["type"]).rpartition(".")[2] for module in modules]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise DataError(f"{path} is damaged", allowed="a list of modules with types") from None


def sentence_settings(width: int, pooling: Pooling, *, normalizes: bool) -> dict[str, Any]:
    """Return the files by which sentence-transformers makes the vector of a text, [width], of length 1 if it
    `normalizes`: the content of each by its path.
    """
    parts = {"": "Transformer", FOLDER: "Pooling"}
    if normalizes:
        parts["2_Normalize"] = "Normalize"
    modules = [
        {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for number, (path, kind) in enumerate(parts.items())
    ]

    # The keys that every version reads.
    names = {Pooling.cls: "cls_token", Pooling.mean: "mean_tokens", Pooling.max: "max_tokens"}
    modes = {f"{PREFIX}{name}": kind is pooling for kind, name in names.items()}
    return {MODULES: modules, f"{FOLDER}/config.json": {"word_embedding_dimension": width, **modes}}
