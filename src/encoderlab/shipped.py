"""The encoders included in encoderlab: their names, a line about each, and checks that their files are unchanged.

A shipped encoder is a name. It becomes a folder where `run=`, `init_from=` and `tokenizer.name=` do, and nowhere else,
and wins over a folder with that name. Its files are hashed each time it is opened. It is a model folder of ours that
states an encoder instead of a run's settings, in compact storage (`exchange.weights`).
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

from encoderlab.errors import DataError, closest
from encoderlab.system.files import differing_files

SHIPPED = "mini-en"  # the default of finetune and embed
FOLDER = Path(__file__).with_name("encoders")
FRONT_MATTER = re.compile(r"\A---\n.*?^---\n", re.MULTILINE | re.DOTALL)
REINSTALL = "Reinstall encoderlab (pip install --force-reinstall --no-deps encoderlab)"


def shipped_names() -> list[str]:
    """Return the names of the shipped encoders, the default first."""
    others = sorted(path.parent.name for path in FOLDER.glob("*/config.json"))
    return list(dict.fromkeys([SHIPPED, *others]))


def shipped_folder(name: str) -> Path | None:
    """Return the folder of the shipped encoder of this name, with every hash checked; None for an unknown name.

    Raises DataError if the encoder is missing or a file has changed.
    """
    if name not in shipped_names():
        return None
    folder = FOLDER / name
    if not folder.is_dir():
        raise DataError(
            f"The encoder {name} is missing from this installation of encoderlab ({folder})", remedy=REINSTALL
        )
    if differing := differing_files(folder):
        raise DataError(
            f"{folder / differing[0]} is damaged: its SHA-256 differs from the shipped file's", remedy=REINSTALL
        )
    return folder


def suggestion(name: str, setting: str) -> str:
    """Return the question whether a shipped encoder was meant, for a similar name without a slash; otherwise ""."""
    near = "" if "/" in name else closest(name, shipped_names())
    return f"Did you mean {setting}={near}?" if near else ""


def described(name: str) -> str:
    """Return the size of a shipped encoder, and the first line of its card.

    Raises DataError if it is missing or damaged.
    """
    folder = shipped_folder(name)
    assert folder is not None, f"{name} is not a shipped encoder"
    model = json.loads((folder / "config.json").read_text(encoding="utf-8"))["encoder"]["model"]
    with (folder / "model.safetensors").open("rb") as file:  # of which only the header is read
        tensors = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    tensors = {name: one for name, one in tensors.items() if name != "__metadata__" and not name.endswith(".scale")}
    millions = sum(math.prod(tensor["shape"]) for tensor in tensors.values()) / 1e6
    megabytes = sum(path.stat().st_size for path in folder.iterdir()) / 1e6
    lines = FRONT_MATTER.sub("", (folder / "README.md").read_text(encoding="utf-8")).splitlines()
    summary = next((line for line in lines if line and not line.startswith("#")), "")
    size = f"{model['n_layers']} layers x {model['d_model']}, {millions:.1f} million parameters, {megabytes:.1f} MB"
    return f"{size}: {summary}"
