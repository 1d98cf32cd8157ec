"""The encoders included in encoderlab: their names, a line about each, and checks that their files are unchanged.

A shipped encoder is a name. It becomes a folder where `run=`, `init_from=` and `tokenizer.name=` do, and nowhere else,
and wins over a folder with that name. Its files are hashed each time it is opened. It is a model folder of ours that
states an encoder instead of a run's settings, in compact storage (`exchange.weights`).
"""

from __future__ import annotations

from pathlib import Path

from encoderlab.errors import DataError, closest
from encoderlab.system.files import differing_files

SHIPPED = "mini-en"  # the default of finetune and embed
FOLDER = Path(__file__).with_name("encoders")
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
    differing = differing_files(folder)
    if differing:
        problem = f"{folder / differing[0]} is damaged: it is missing, or its SHA-256 differs from the shipped file's"
        raise DataError(problem, remedy=REINSTALL)
    return folder


def suggestion(name: str, setting: str) -> str:
    """Return the question whether a shipped encoder was meant, for a similar name without a slash; otherwise ""."""
    near = "" if "/" in name else closest(name, shipped_names())
    return f"Did you mean {setting}={near}?" if near else ""


def card_summary(name: str) -> str:
    """Return the first line of a shipped encoder's card. Raises DataError if it is missing or damaged."""
    folder = shipped_folder(name)
    assert folder is not None, f"{name} is not a shipped encoder"
    _, _, text = (folder / "README.md").read_text(encoding="utf-8").partition("\n# ")
    return next((line for line in text.splitlines()[1:] if line), "")
